//! A bearer token that can be replaced while a client uses it: every request takes the one that is current.

use std::task::{Context, Poll};

use http::{HeaderValue, Request, header::AUTHORIZATION, header::InvalidHeaderValue};
use jobferry_core::token::{self, Claims};
use tokio::sync::watch;
use tower::{Layer, Service};

/// The token of a worker, shared by all who use it. Watches that are open outlive the token that they were opened by, so a
/// change disturbs nobody.
#[derive(Clone)]
pub struct Token(watch::Sender<Held>);

#[derive(Clone, PartialEq, Eq)]
struct Held {
    text: String,
    header: HeaderValue,
}

impl Held {
    fn new(text: &str) -> Result<Self, InvalidHeaderValue> {
        let mut header = HeaderValue::from_str(&format!("Bearer {text}"))?;
        header.set_sensitive(true);
        Ok(Self { text: text.to_owned(), header })
    }
}

impl Token {
    pub(crate) fn new(text: &str) -> Result<Self, InvalidHeaderValue> {
        Ok(Self(watch::Sender::new(Held::new(text)?)))
    }

    /// Uses another one from the next request on. False: it is the same.
    pub(crate) fn replace(&self, text: &str) -> Result<bool, InvalidHeaderValue> {
        let next = Held::new(text)?;
        let changed = self.0.send_if_modified(|held| {
            let changed = *held != next;
            *held = next;
            changed
        });
        Ok(changed)
    }

    pub(crate) fn is(&self, text: &str) -> bool {
        self.0.borrow().text == text
    }

    /// What the current one says of itself.
    pub(crate) fn claims(&self) -> Option<Claims> {
        token::read(&self.0.borrow().text)
    }

    /// Tells of every later change.
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.0.subscribe())
    }
}

/// Tells when a token was replaced.
pub(crate) struct Changes(watch::Receiver<Held>);

impl Changes {
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // Nobody is left who could replace it.
            std::future::pending::<()>().await;
        }
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl<S> Layer<S> for Token {
    type Service = Bearing<S>;

    fn layer(&self, inner: S) -> Bearing<S> {
        Bearing { inner, token: self.clone() }
    }
}

/// Shows the current token with every request.
#[derive(Clone)]
pub struct Bearing<S> {
    inner: S,
    token: Token,
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for Bearing<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        let header = self.token.0.borrow().header.clone();
        request.headers_mut().insert(AUTHORIZATION, header);
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::ServiceExt as _;

    #[tokio::test]
    async fn every_request_shows_the_token_that_is_current() {
        let echo = tower::service_fn(|request: Request<()>| {
            let shown = request.headers()[AUTHORIZATION].to_str().unwrap().to_owned();
            std::future::ready(Ok::<_, std::convert::Infallible>(shown))
        });
        let token = Token::new("first").unwrap();
        let service = token.layer(echo);
        let shown = async || service.clone().oneshot(Request::new(())).await.unwrap();
        assert_eq!(shown().await, "Bearer first");
        let mut changes = token.changes();
        token.replace("second").unwrap();
        changes.next().await;
        assert_eq!(shown().await, "Bearer second");
    }

    #[test]
    fn a_token_shows_up_neither_in_logs_nor_in_a_broken_header() {
        let token = Token::new("secret").unwrap();
        assert!(!format!("{token:?} {:?}", token.0.borrow().header).contains("secret"));
        assert!(token.replace("a\nImpersonate-User: root").is_err());
        assert!(token.is("secret"), "what cannot be shown is not taken up");
    }
}
