//! When a dispatcher last heard of a cluster, as a fact: what arrived at its end of the network while it was connected.
//!
//! ```text
//!   dispatcher ──► Ear ──► the network with its faults ──► the wire
//! ```
//!
//! What answers by the name of another Worker, whose Secret leads there, is not heard: it is not the worker that is missed.
//!
//! A dispatcher is connected once its list of mirrors, or a watch that goes on, was answered and then the identity of the
//! cluster; until its watch breaks, or one of these requests gets no good answer.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::BodyExt;
use jobferry_testkit::fault::{AnswerBody, Asked, BoxError};
use kube::client::Body;
use tokio::time::Instant;

use crate::hub::Hub;

/// When a request left its dispatcher. Goes with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent(pub(crate) Instant);

/// Between a dispatcher and its network.
#[derive(Clone)]
pub(crate) struct Ear<S> {
    network: S,
    hearing: Arc<Hearing>,
}

/// What one dispatcher hears of one cluster.
struct Hearing {
    who: String,
    cluster: String,
    /// Where it counts.
    hub: Option<Arc<Hub>>,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Apart,
    /// Its mirrors were listed, or the watch of them goes on; who answers is not known yet.
    Listed,
    Connected,
}

/// The requests that a connection is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Mirrors,
    Identity,
}

impl Step {
    fn of(asked: &Asked) -> Option<Self> {
        match asked.path.as_str() {
            _ if asked.method != Method::GET => None,
            "/apis/batch/v1/jobs" => Some(Self::Mirrors),
            "/api/v1/namespaces/kube-system" => Some(Self::Identity),
            _ => None,
        }
    }
}

impl<S> Ear<S> {
    pub(crate) fn new(network: S, who: &str, cluster: &str, hub: Option<&Arc<Hub>>) -> Self {
        let (who, cluster, hub) = (who.to_owned(), cluster.to_owned(), hub.cloned());
        Self { network, hearing: Arc::new(Hearing { who, cluster, hub, state: Mutex::new(State::Apart) }) }
    }
}

impl Hearing {
    /// Goes from one state to the next. What is heard while connected is noted.
    fn become_after(&self, next: impl FnOnce(State) -> State) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = next(*state);
        if let (State::Connected, Some(hub)) = (*state, &self.hub) {
            hub.heard(&self.who, &self.cluster);
        }
    }

    fn answered(&self, step: Step) {
        self.become_after(|state| match (step, state) {
            (Step::Mirrors, State::Apart) => State::Listed,
            (Step::Identity, State::Listed) => State::Connected,
            _ => state,
        });
    }

    fn heard_on(&self) {
        self.become_after(|state| state);
    }

    fn broken(&self) {
        self.become_after(|_| State::Apart);
    }
}

impl<S> tower::Service<Request<Body>> for Ear<S>
where
    S: tower::Service<Request<Body>, Response = Response<AnswerBody>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<AnswerBody>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.network.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.extensions_mut().insert(Sent(Instant::now()));
        let asked = Asked::of(&request);
        let answer = self.network.call(request);
        let Some(step) = Step::of(&asked) else { return Box::pin(answer) };
        let mut waiting = Waiting { hearing: Arc::clone(&self.hearing), well: false };
        Box::pin(async move {
            let answer = answer.await?;
            if !answer.status().is_success() {
                return Ok(answer);
            }
            waiting.well = true;
            waiting.hearing.answered(step);
            if !asked.is_watch {
                return Ok(answer);
            }
            let waiting = Waiting { hearing: Arc::clone(&waiting.hearing), well: false };
            Ok(answer.map(|watch| Watch { watch, waiting }.boxed_unsync()))
        })
    }
}

/// Until it goes well, whatever ends it (an error, the dispatcher's own deadline) is the end of the connection.
struct Waiting {
    hearing: Arc<Hearing>,
    well: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.well {
            self.hearing.broken();
        }
    }
}

/// The events of a watch. One that its server ends has ended well: a watch does not last for ever.
struct Watch {
    watch: AnswerBody,
    waiting: Waiting,
}

impl http_body::Body for Watch {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.watch).poll_frame(context));
        match &frame {
            Some(Ok(_)) => self.waiting.hearing.heard_on(),
            Some(Err(_)) => {}
            None => self.waiting.well = true,
        }
        Poll::Ready(frame)
    }
}
