//! The server on a socket: TLS on loopback, bearer token or client certificate, graceful shutdown.

mod access;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use access::{Access, AccessError, Credentials};

use crate::error::ApiError;
use crate::http::{Reply, ResponseBody, Target, route};
use crate::server::ApiServer;

/// A client that has not finished its handshake or its request headers by then is gone.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Requests under way get this long to end when the server stops. Watches are told to end at once.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A listening server. Dropping it stops accepting, without waiting for what is under way.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    stop: CancellationToken,
    accepting: JoinHandle<()>,
}

impl Serving {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening, lets requests under way end, and ends watches.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        let accepting = &mut self.accepting;
        if tokio::time::timeout(DRAIN_TIMEOUT * 2, accepting).await.is_err() {
            tracing::warn!(address = %self.address, "connections did not end in time");
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl ApiServer {
    /// Offers this server on `listener`, which must be bound to loopback, to whoever has the credentials.
    pub fn serve(&self, listener: TcpListener, credentials: &Credentials) -> Result<Serving, AccessError> {
        let address = listener.local_addr().map_err(AccessError::Listen)?;
        if !address.ip().to_canonical().is_loopback() {
            return Err(AccessError::BeyondLoopback(address));
        }
        self.serve_beyond_loopback(listener, credentials)
    }

    /// The same on any address. Whoever reaches it and has the credentials can do everything: there are no rights that
    /// could be taken from a user. Clients call it by one of the names in [`Credentials::generate_for`].
    pub fn serve_beyond_loopback(
        &self,
        listener: TcpListener,
        credentials: &Credentials,
    ) -> Result<Serving, AccessError> {
        let address = listener.local_addr().map_err(AccessError::Listen)?;
        let acceptor = TlsAcceptor::from(credentials.tls()?);
        let stop = CancellationToken::new();
        let gate = Gate { server: self.clone(), token: credentials.token().to_owned(), stop: stop.clone() };
        let accepting = tokio::spawn(accept(listener, acceptor, Arc::new(gate)));
        Ok(Serving { address, stop, accepting })
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, gate: Arc<Gate>) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = gate.stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => drop(connections.spawn(connection(stream, acceptor.clone(), Arc::clone(&gate)))),
            Err(error) => {
                // Out of descriptors, most likely: others have to close theirs first.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    connections.close();
    drop(tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await);
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, gate: Arc<Gate>) {
    drop(stream.set_nodelay(true));
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await else { return };
    let stop = gate.stop.clone();
    // The handshake has seen to it that a certificate, if there is one, was issued by our own CA.
    let certified = stream.get_ref().1.peer_certificates().is_some();
    let service = service_fn(move |request| {
        let gate = Arc::clone(&gate);
        async move { Ok::<_, std::convert::Infallible>(gate.admit(request, certified).await) }
    });
    let mut builder = http1::Builder::new();
    let builder = builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(DRAIN_TIMEOUT, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Who may come in.
struct Gate {
    server: ApiServer,
    token: String,
    stop: CancellationToken,
}

impl Gate {
    async fn admit(&self, request: Request<Incoming>, certified: bool) -> Response<ResponseBody> {
        if certified || self.knows(request.headers()) || is_open(request.uri().path()) {
            return self.server.answer(request).await.map(|body| body.until(self.stop.clone()));
        }
        Reply::from(ApiError::unauthorized()).into_response()
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes).unwrap_or_default();
        let expected = self.token.as_bytes();
        let Some(given) = given.strip_prefix(b"Bearer ") else { return false };
        // Compares in the same time wherever the first difference is.
        given.len() == expected.len() && given.iter().zip(expected).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
    }
}

/// Health and version are no secret.
fn is_open(path: &str) -> bool {
    matches!(route(path), Target::Health | Target::Version)
}
