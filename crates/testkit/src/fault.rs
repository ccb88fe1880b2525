//! A network that misbehaves: a tower service between a client and an API server.
//!
//! ```text
//!   client ──request──►  Fate: lost, late, refused on the way  ──► server commits ──answer──►  lost, late  ──► client
//!                        Road: open, or closed in one or both directions
//! ```
//!
//! What becomes of a request is decided by [`Fates`]; this module only carries it out. A request lives on when its client
//! stops waiting for it, because bytes that were sent cannot be called back: it may still be carried out, but never later
//! than [`LATEST`] after it was sent.

mod road;
mod travel;
mod watch_body;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, pending};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use tokio::sync::oneshot;

pub use road::{Passage, Road};

/// A request that has not been carried out this long after it was sent never will be: clients of ours give up after 10 s,
/// and an API server ends a request whose client has gone after 60 s.
pub const LATEST: Duration = Duration::from_secs(70);

/// An error of the transport.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// What is known of a request before it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: String,
    /// Whether it opens a watch.
    pub is_watch: bool,
}

impl Asked {
    /// Reads the head of a request.
    pub fn of<B>(request: &Request<B>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
        Self { method: request.method().clone(), path: request.uri().path().to_owned(), is_watch }
    }
}

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Carried out and answered.
    Answered,
    /// It never reaches the server, and the client hears nothing.
    Lost,
    /// It is carried out, and the client hears nothing.
    AnswerLost,
    /// The connection breaks before it reaches the server.
    Reset,
    /// It is carried out; then the connection breaks.
    AnswerReset,
    /// It reaches the server late.
    Late(Duration),
    /// It is carried out at once and answered late.
    AnswerLate(Duration),
    /// The server, or something in front of it, says no and does nothing.
    Refused(u16),
    /// It is carried out, and the answer is an error all the same, as after a timeout inside of the server.
    CommittedButRefused(u16),
}

/// What becomes of an open watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFate {
    /// It goes on for as long as the server likes.
    Undisturbed,
    /// The connection breaks after a while.
    Cut(Duration),
    /// The server ends it after a while: its history no longer reaches back.
    Expired(Duration),
    /// Every event comes late.
    Slow(Duration),
    /// After a while nothing comes any more, not even a bookmark; the connection stays open.
    Silent(Duration),
}

/// Decides what becomes of requests.
pub trait Fates: Send + Sync {
    /// Called once for every request, in the order in which they are sent.
    fn of_request(&self, asked: &Asked) -> Fate;
    /// Called once for every watch that was opened.
    fn of_watch(&self, asked: &Asked) -> WatchFate;
    /// The road between this client and this server.
    fn road(&self) -> Road;
}

/// A service behind a network that misbehaves as `Fates` decide.
#[derive(Clone)]
pub struct Faulty<S> {
    inner: S,
    fates: Arc<dyn Fates>,
}

impl<S> Faulty<S> {
    /// Puts a network before `inner`.
    pub fn new(inner: S, fates: Arc<dyn Fates>) -> Self {
        Self { inner, fates }
    }
}

impl<S> tower::Service<Request<Body>> for Faulty<S>
where
    S: tower::Service<Request<Body>, Response = Response<AnswerBody>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<AnswerBody>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let asked = Asked::of(&request);
        let fate = self.fates.of_request(&asked);
        let (answer, answered) = oneshot::channel();
        let journey =
            travel::Journey { asked, fate, fates: Arc::clone(&self.fates), sent: tokio::time::Instant::now() };
        tokio::spawn(journey.travel(self.inner.clone(), request, answer));
        Box::pin(async move {
            match answered.await {
                Ok(answer) => answer,
                // Nobody will ever answer; the client's own deadline ends the wait.
                Err(_) => pending().await,
            }
        })
    }
}

#[cfg(test)]
mod tests;
