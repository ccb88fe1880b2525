//! The body of a watch, as it comes through the network.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::{Instant, sleep, timeout_at};

use super::travel::after;
use super::{AnswerBody, BoxError, Road, WatchFate};

/// What a server says to a watcher that fell behind.
const EXPIRED: &[u8] =
    b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\
\"message\":\"too old resource version\",\"reason\":\"Expired\",\"code\":410}}\n";

struct Disturbed {
    chunks: Pin<Box<dyn Stream<Item = Result<Bytes, BoxError>> + Send>>,
    road: Road,
    opened: Instant,
    fate: WatchFate,
}

/// The same watch behind a road that may be closed, with a fate.
pub(super) fn disturbed(body: AnswerBody, road: Road, fate: WatchFate) -> AnswerBody {
    let chunks = Box::pin(body.into_data_stream());
    let watch = Disturbed { chunks, road, opened: Instant::now(), fate };
    let frames = stream::unfold(Some(watch), |watch| async move {
        let mut watch = watch?;
        let (chunk, goes_on) = watch.next().await?;
        Some((chunk.map(Frame::data), goes_on.then_some(watch)))
    });
    StreamBody::new(frames).boxed_unsync()
}

impl Disturbed {
    /// The next chunk, and whether more may follow.
    async fn next(&mut self) -> Option<(Result<Bytes, BoxError>, bool)> {
        let (ends_after, slow): (Option<Duration>, Option<Duration>) = match self.fate {
            WatchFate::Undisturbed => (None, None),
            WatchFate::Cut(after) | WatchFate::Expired(after) => (Some(after), None),
            WatchFate::Slow(by) => (None, Some(by)),
            WatchFate::Silent(after) => {
                let chunk = timeout_at(self.opened + after, self.chunks.next()).await;
                self.road.until(|passage| passage.back).await;
                return match chunk {
                    Ok(chunk) => Some((chunk?, true)),
                    Err(_) => std::future::pending().await,
                };
            }
        };
        let chunk = tokio::select! { biased;
            () = after(ends_after, self.opened) => None,
            chunk = self.chunks.next() => Some(chunk?),
        };
        if let Some(by) = slow {
            sleep(by).await;
        }
        self.road.until(|passage| passage.back).await;
        match (chunk, self.fate) {
            (Some(chunk), _) => Some((chunk, true)),
            (None, WatchFate::Expired(_)) => Some((Ok(Bytes::from_static(EXPIRED)), false)),
            (None, _) => Some((Err("the watch was cut".into()), false)),
        }
    }
}
