//! One request, one deadline, and an error that says what is known of the outcome.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde::{Deserialize, de::DeserializeOwned};

/// A patch and the way the server is to read it.
#[derive(Debug, Clone, Copy)]
pub enum Patch {
    /// RFC 7386: objects merge, lists are replaced.
    Merge,
    /// Kubernetes' own: lists with a merge key merge by it. Built-in kinds only.
    Strategic,
    /// RFC 6902: a list of operations.
    Json,
}

impl Patch {
    const fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Json => "application/json-patch+json",
        }
    }
}

/// Why a request did not succeed. The variants differ in what they prove.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server answered, and the answer is no. Nothing that this request asked for was committed *by this answer*;
    /// an earlier attempt with the same content may still have been.
    #[error("{0}")]
    Refused(Refusal),
    /// No answer within the deadline: the request may have been carried out, may still be, or may never be.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The connection failed before an answer came: the outcome is unknown, as with [`CallError::Deadline`].
    #[error("connection failed: {0}")]
    Transport(String),
    /// The server said yes, but its answer could not be read.
    #[error("unreadable answer: {0}")]
    Unreadable(String),
}

impl CallError {
    /// The server's refusal, if there was an answer at all.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The server answered 404 for exactly this object (not for an unserved resource, which has no details).
    pub fn is_not_found(&self) -> bool {
        self.refusal().is_some_and(|r| r.code == 404 && r.reason == "NotFound" && !r.name.is_empty())
    }

    /// A precondition failed: somebody else wrote in between.
    pub fn is_conflict(&self) -> bool {
        self.refusal().is_some_and(|r| r.code == 409 && r.reason == "Conflict")
    }

    /// An object of that name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.refusal().is_some_and(|r| r.code == 409 && r.reason == "AlreadyExists")
    }
}

/// A server's refusal, from its `Status` answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct Refusal {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, for example `Forbidden`.
    pub reason: String,
    /// What the server says to people.
    pub message: String,
    /// The object that the answer is about; empty when it is not about one.
    pub name: String,
}

impl Refusal {
    pub(crate) fn from_answer(code: StatusCode, body: &[u8]) -> Self {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Answer {
            reason: String,
            message: String,
            details: Details,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Details {
            name: String,
        }
        let answer: Answer = serde_json::from_slice(body).unwrap_or_else(|_| Answer {
            message: String::from_utf8_lossy(&body[..body.len().min(512)]).into_owned(),
            ..Answer::default()
        });
        Self { code: code.as_u16(), reason: answer.reason, message: answer.message, name: answer.details.name }
    }
}

/// Sends one request and returns the body of its answer. Never repeats it: whether that is safe, the caller knows.
pub async fn call(client: &Client, request: Request<Body>, deadline: Duration) -> Result<Bytes, CallError> {
    let exchange = async {
        let answer = client.send(request).await.map_err(|e| CallError::Transport(chain(&e)))?;
        let code = answer.status();
        let body = answer.into_body().collect().await.map_err(|e| CallError::Transport(chain(&e)))?.to_bytes();
        if code.is_success() { Ok(body) } else { Err(CallError::Refused(Refusal::from_answer(code, &body))) }
    };
    tokio::time::timeout(deadline, exchange).await.unwrap_or(Err(CallError::Deadline(deadline)))
}

/// Reads one object (or any document) by path, fresh from the store: no resourceVersion is named.
pub async fn get<T: DeserializeOwned>(client: &Client, path: &str, deadline: Duration) -> Result<T, CallError> {
    decode(&call(client, request(Method::GET, path, None, Vec::new())?, deadline).await?)
}

/// Creates an object in the collection at `path`; the answer is the object as stored.
pub async fn create(client: &Client, path: &str, body: Vec<u8>, deadline: Duration) -> Result<Bytes, CallError> {
    call(client, request(Method::POST, path, Some("application/json"), body)?, deadline).await
}

/// Patches the object at `path`; the answer is the object as stored.
pub async fn patch(
    client: &Client,
    path: &str,
    kind: Patch,
    body: Vec<u8>,
    deadline: Duration,
) -> Result<Bytes, CallError> {
    call(client, request(Method::PATCH, path, Some(kind.content_type()), body)?, deadline).await
}

/// Deletes the object at `path` with `options` (a `DeleteOptions` document).
pub async fn delete(client: &Client, path: &str, options: Vec<u8>, deadline: Duration) -> Result<Bytes, CallError> {
    call(client, request(Method::DELETE, path, Some("application/json"), options)?, deadline).await
}

pub(crate) fn request(
    method: Method,
    path: &str,
    content_type: Option<&str>,
    body: Vec<u8>,
) -> Result<Request<Body>, CallError> {
    let mut builder = Request::builder().method(method).uri(path).header(header::ACCEPT, "application/json");
    if let Some(content_type) = content_type {
        builder = builder.header(header::CONTENT_TYPE, content_type);
    }
    // A path that is no URI was never sent.
    builder.body(Body::from(body)).map_err(|e| CallError::Transport(format!("{path}: {e}")))
}

pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(body).map_err(|e| CallError::Unreadable(e.to_string()))
}

/// What layers of the client say beside the cause itself: nothing.
const WRAPPERS: [&str; 3] = ["ServiceError: ", "client error (Connect): ", "tcp connect error: "];

/// The error and its causes in one line: transport errors hide the telling part ("connection refused") in the last.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    WRAPPERS.iter().fold(text, |text, wrapper| text.replace(wrapper, ""))
}
