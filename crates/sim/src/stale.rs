//! Lists that show the past.
//!
//! Between the network and the wire. An API server may answer a list with `resourceVersion=0` from a cache that lags; those
//! that a dispatcher asks for may not be old. Here they are all the same, because nothing may rest on them: what counts as
//! proof is a fresh read of one object. A list names the version that it shows, and the watch goes on from there.
//! Here bookmarks get lost as well.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, StreamBody};
use jobferry_testkit::fault::{AnswerBody, Asked, BoxError};
use kube::client::Body;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::weather::Link;
use crate::wire::Wire;

/// A wire on which lists may be old.
#[derive(Clone)]
pub(crate) struct Stale {
    pub(crate) wire: Wire,
    pub(crate) link: Arc<Link>,
}

impl tower::Service<Request<Body>> for Stale {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<AnswerBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().carry(request))
    }
}

impl Stale {
    async fn carry(self, mut request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let asked = Asked::of(&request);
        if let Some(plain) = without_bookmarks(request.uri()).filter(|_| self.link.lacks_bookmarks(&asked)) {
            *request.uri_mut() = plain.parse()?;
        }
        let version = Listing::of(request.uri()).and_then(|listing| {
            let now = self.wire.address.resolve().1.resource_version();
            Some((listing, now.checked_sub(self.link.staleness(&asked)?)?))
        });
        let Some((listing, version)) = version else { return self.wire.oneshot(request).await };
        let list = listing.at(version);
        let answer = self.wire.clone().oneshot(Request::get(list).body(Body::empty())?).await?;
        // That long ago is forgotten.
        if answer.status() != StatusCode::OK {
            return self.wire.oneshot(request).await;
        }
        if !asked.is_watch {
            return Ok(answer);
        }
        let past: Value = serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?;
        let watch = listing.watch_from(version);
        let answer = self.wire.oneshot(Request::get(watch).body(Body::empty())?).await?;
        Ok(answer.map(|present| followed_by(first_events(&past, version), present)))
    }
}

/// A watch that asks for no bookmarks, in place of one that does. `None`: it does not, or needs the one after its first events.
fn without_bookmarks(uri: &Uri) -> Option<String> {
    let query = uri.query()?;
    let asks = query.contains(BOOKMARKS) && !query.contains("sendInitialEvents=true");
    asks.then(|| format!("{}?{}", uri.path(), query.replace(BOOKMARKS, "allowWatchBookmarks=false")))
}

/// How a watch asks for bookmarks.
const BOOKMARKS: &str = "allowWatchBookmarks=true";

/// A request for all objects of a kind, as an informer makes it.
struct Listing {
    path: String,
    /// The selectors.
    selection: Vec<String>,
    /// What a watch says besides.
    rest: Vec<String>,
}

impl Listing {
    /// `None`: it asks for something else, or goes on with a list.
    fn of(uri: &Uri) -> Option<Self> {
        let pairs: Vec<String> = uri.query()?.split('&').map(str::to_owned).collect();
        let says = |prefix: &str| pairs.iter().any(|pair| pair.starts_with(prefix));
        if !(says("sendInitialEvents=true") || says("limit=500") && !says("continue=")) {
            return None;
        }
        let of = |prefixes: &[&str]| -> Vec<String> {
            let wanted = |pair: &&String| prefixes.iter().any(|prefix| pair.starts_with(prefix));
            pairs.iter().filter(wanted).cloned().collect()
        };
        let selection = of(&["labelSelector=", "fieldSelector="]);
        let rest = of(&["watch=", "timeoutSeconds=", "allowWatchBookmarks="]);
        Some(Self { path: uri.path().to_owned(), selection, rest })
    }

    fn at(&self, version: u64) -> String {
        let exactly = [format!("resourceVersion={version}"), "resourceVersionMatch=Exact".to_owned()];
        format!("{}?{}", self.path, [&self.selection[..], &exactly].concat().join("&"))
    }

    fn watch_from(&self, version: u64) -> String {
        let from = [format!("resourceVersion={version}")];
        format!("{}?{}", self.path, [&self.selection[..], &self.rest, &from].concat().join("&"))
    }
}

/// A list as the first events of a watch.
fn first_events(list: &Value, version: u64) -> Bytes {
    let added = list["items"].as_array().into_iter().flatten().map(|item| json!({"type": "ADDED", "object": item}));
    let marks = json!({"k8s.io/initial-events-end": "true"});
    let metadata = json!({"resourceVersion": version.to_string(), "annotations": marks});
    let end = json!({"type": "BOOKMARK", "object": {"metadata": metadata}});
    added.chain([end]).flat_map(|event| [event.to_string(), "\n".to_owned()]).collect::<String>().into()
}

fn followed_by(first: Bytes, body: AnswerBody) -> AnswerBody {
    let rest = body.into_data_stream();
    let frames = stream::iter([Ok(first)]).chain(rest).map(|chunk| chunk.map(http_body::Frame::data));
    StreamBody::new(frames).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_does_without_bookmarks_unless_its_first_events_end_with_one() {
        let of = |uri: &str| without_bookmarks(&uri.parse().unwrap());
        let plain = of("/jobs?watch=true&allowWatchBookmarks=true&resourceVersion=3");
        assert_eq!(plain.as_deref(), Some("/jobs?watch=true&allowWatchBookmarks=false&resourceVersion=3"));
        assert!(of("/jobs?watch=true&allowWatchBookmarks=true&sendInitialEvents=true").is_none());
    }

    #[test]
    fn what_an_informer_asks_for_is_a_listing_and_what_proves_something_is_not() {
        let of = |uri: &str| Listing::of(&uri.parse().unwrap());
        let list = of("/apis/batch/v1/jobs?limit=500&labelSelector=a%3Db").unwrap();
        assert_eq!(list.at(7), "/apis/batch/v1/jobs?labelSelector=a%3Db&resourceVersion=7&resourceVersionMatch=Exact");
        let watch = of("/jobs?watch=true&timeoutSeconds=60&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
        assert_eq!(watch.unwrap().watch_from(7), "/jobs?watch=true&timeoutSeconds=60&resourceVersion=7");
        for other in ["/jobs?limit=1", "/jobs?limit=500&continue=x", "/jobs?watch=true&resourceVersion=3", "/jobs/a"] {
            assert!(of(other).is_none(), "{other}");
        }
    }
}
