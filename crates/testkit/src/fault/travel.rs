//! The way of one request through the network.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tower::ServiceExt;

use super::watch_body::disturbed;
use super::{AnswerBody, Asked, BoxError, Fate, Fates, LATEST, Road};

type Answer = Result<Response<AnswerBody>, BoxError>;

/// One request under way.
pub(super) struct Journey {
    pub(super) asked: Asked,
    pub(super) fate: Fate,
    pub(super) fates: Arc<dyn Fates>,
    pub(super) sent: Instant,
}

impl Journey {
    pub(super) async fn travel<S>(self, server: S, request: Request<Body>, answer: oneshot::Sender<Answer>)
    where
        S: tower::Service<Request<Body>, Response = Response<AnswerBody>, Error = BoxError>,
    {
        if let Some(answered) = self.exchange(server, request).await {
            self.fates.road().until(|passage| passage.back).await;
            // A client that has stopped waiting is none of our business.
            let _ = answer.send(answered);
        }
    }

    /// What the client will hear, unless the way back is closed; `None`: nothing, ever.
    async fn exchange<S>(&self, server: S, request: Request<Body>) -> Option<Answer>
    where
        S: tower::Service<Request<Body>, Response = Response<AnswerBody>, Error = BoxError>,
    {
        match self.fate {
            Fate::Lost => return None,
            Fate::Reset => return Some(Err("connection reset before the request was sent".into())),
            Fate::Refused(code) => return Some(Ok(refusal(code))),
            Fate::Late(by) => sleep(by).await,
            _ => {}
        }
        if !arrives(&self.fates.road(), self.sent + LATEST).await {
            return None;
        }
        // A server that stands still for that long gives up on it.
        let response = timeout_at(self.sent + LATEST, server.oneshot(request)).await.ok()?;
        match self.fate {
            Fate::AnswerLost => return None,
            Fate::AnswerReset => return Some(Err("connection reset before the answer came".into())),
            Fate::CommittedButRefused(code) => return Some(Ok(refusal(code))),
            Fate::AnswerLate(by) => sleep(by).await,
            _ => {}
        }
        Some(response.map(|response| self.follow(response)))
    }

    fn follow(&self, response: Response<AnswerBody>) -> Response<AnswerBody> {
        if !self.asked.is_watch || response.status() != StatusCode::OK {
            return response;
        }
        let fate = self.fates.of_watch(&self.asked);
        response.map(|body| disturbed(body, self.fates.road(), fate))
    }
}

/// Waits until the way there is open; false if that takes too long.
async fn arrives(road: &Road, latest: Instant) -> bool {
    if Instant::now() > latest {
        return false;
    }
    timeout_at(latest, road.until(|passage| passage.there)).await.is_ok()
}

/// What a server, a quota or a proxy says that will not do it. A 404 is that of a path that is not served: it names no
/// object.
fn refusal(code: u16) -> Response<AnswerBody> {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": "refused by the simulated network",
    });
    let mut response = Response::new(whole(status.to_string().into()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// A body that is known already.
fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Waits for `after` from now, or for ever.
pub(super) async fn after(after: Option<Duration>, from: Instant) {
    match after {
        Some(after) => sleep_until(from + after).await,
        None => std::future::pending().await,
    }
}
