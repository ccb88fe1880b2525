//! The doorkeeper of an embedded cluster: says no to new Jobs in the words of a real API server's admission.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use jobferry_apiserver::ApiServer;
use kube::client::Body;
use serde_json::json;
use tower::ServiceExt;

use crate::fault::{AnswerBody, BoxError};

/// Why a worker takes no Jobs in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// A ResourceQuota allows no Job.
    ByQuota,
    /// A ValidatingAdmissionPolicy, which refuses in the way that webhooks do.
    ByPolicy,
}

impl Closed {
    fn words(self, namespace: &str) -> String {
        match self {
            Self::ByQuota => {
                format!("jobs.batch is forbidden: exceeded quota: closed, requested: count/jobs.batch=1 in {namespace}")
            }
            Self::ByPolicy => {
                format!("jobs.batch is forbidden: ValidatingAdmissionPolicy 'closed-{namespace}' denied request")
            }
        }
    }
}

/// Which namespaces of one cluster are closed for new Jobs. Clones are the same door.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate(Arc<Mutex<BTreeMap<String, Closed>>>);

impl Gate {
    pub(crate) fn close(&self, namespace: &str, why: Closed) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace.to_owned(), why);
    }

    pub(crate) fn open(&self, namespace: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(namespace);
    }

    /// What is said to a request that does not pass.
    fn refuses(&self, method: &Method, path: &str) -> Option<String> {
        let namespace = path.strip_prefix("/apis/batch/v1/namespaces/")?.strip_suffix("/jobs")?;
        let closed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let why = closed.get(namespace).filter(|_| *method == Method::POST)?;
        Some(why.words(namespace))
    }
}

/// A cluster in this process behind its gate.
#[derive(Clone)]
pub(crate) struct Guarded {
    pub(crate) server: ApiServer,
    pub(crate) gate: Gate,
    /// Whoever comes with a wrong token is not let in at all.
    pub(crate) knows_caller: bool,
}

impl tower::Service<Request<Body>> for Guarded {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<AnswerBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !self.knows_caller {
            return Box::pin(std::future::ready(Ok(refusal(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized"))));
        }
        if let Some(words) = self.gate.refuses(request.method(), request.uri().path()) {
            return Box::pin(std::future::ready(Ok(refusal(StatusCode::FORBIDDEN, "Forbidden", &words))));
        }
        let server = self.server.service();
        Box::pin(async move {
            let response = server.oneshot(request).await.map_err(BoxError::from)?;
            Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }
}

fn refusal(code: StatusCode, reason: &str, message: &str) -> Response<AnswerBody> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "code": code.as_u16(), "reason": reason, "message": message,
    });
    let body = Full::new(status.to_string().into()).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
