//! A client that dies: what a dispatcher is after `kill -9`, at a write of the test's choice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::future::{BoxFuture, pending};
use futures::stream::BoxStream;
use http::{Method, Request, Response};
use jobferry_api::Worker;
use jobferry_dispatcher::{Connect, ConnectError, Options};
use kube::Client;
use kube::client::Body;
use tokio_util::sync::CancellationToken;

/// How many writes a process has left, over all of its clients.
#[derive(Debug)]
pub struct Life {
    left: AtomicUsize,
    over: CancellationToken,
}

impl Life {
    pub(crate) fn of(writes: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(writes), over: CancellationToken::new() })
    }

    /// Waits until its last write was carried out.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Whether its last write was carried out.
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Uses up one write and says how many are left; `None`: there was none.
    fn spend(&self) -> Option<usize> {
        let spent = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        spent.ok().map(|left| left - 1)
    }
}

/// A client of a process with this life.
pub(crate) fn mortal(client: Client, life: &Arc<Life>) -> Client {
    Client::new(Mortal { client, life: Arc::clone(life) }, "default")
}

/// Options whose connections to workers share this life.
pub(crate) fn mortal_options(options: Options, life: &Arc<Life>) -> Options {
    let connect = Arc::new(MortalConnect { inner: Arc::clone(&options.connect), life: Arc::clone(life) });
    Options { connect, ..options }
}

struct MortalConnect {
    inner: Arc<dyn Connect>,
    life: Arc<Life>,
}

impl Connect for MortalConnect {
    fn connect<'a>(&'a self, worker: &'a Worker) -> BoxFuture<'a, Result<Client, ConnectError>> {
        Box::pin(async move { Ok(mortal(self.inner.connect(worker).await?, &self.life)) })
    }

    fn changed_secrets(&self) -> BoxStream<'static, String> {
        self.inner.changed_secrets()
    }
}

#[derive(Clone)]
struct Mortal {
    client: Client,
    life: Arc<Life>,
}

impl tower::Service<Request<Body>> for Mortal {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, kube::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, life } = self.clone();
        Box::pin(async move {
            if life.is_over() {
                return pending().await;
            }
            // Only what is about workloads counts: leases and Worker status come and go by the clock.
            let counts = *request.method() != Method::GET && request.uri().path().contains("/jobs");
            if !counts {
                return client.send(request).await;
            }
            let Some(left) = life.spend() else { return pending().await };
            let answer = client.send(request).await;
            if left == 0 {
                // Carried out, but nobody lives to hear the answer.
                life.over.cancel();
                return pending().await;
            }
            answer
        })
    }
}
