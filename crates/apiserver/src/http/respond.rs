//! Answers: a whole body, or a stream of watch events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY, WARNING};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::compress;
use crate::error::ApiError;

/// The body of an answer of this server.
#[derive(Debug)]
pub struct ResponseBody(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl ResponseBody {
    /// The same, but a stream ends when the server stops: a watch would never end by itself.
    pub(crate) fn until(self, stop: CancellationToken) -> Self {
        match self.0 {
            Kind::Stream(stream) => Self(Kind::Stream(Box::pin(stream.take_until(stop.cancelled_owned())))),
            whole @ Kind::Whole(_) => Self(whole),
        }
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Whole(_) => "Whole",
            Self::Stream(_) => "Stream",
        })
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(stream) => stream.as_mut().poll_next(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}

/// What a handler answers when all went well.
#[derive(Debug)]
pub(crate) struct Reply {
    code: StatusCode,
    content_type: &'static str,
    warnings: Vec<String>,
    is_gzip: bool,
    body: ResponseBody,
}

impl Reply {
    fn new(code: StatusCode, content_type: &'static str, body: Kind) -> Self {
        Self { code, content_type, warnings: Vec::new(), is_gzip: false, body: ResponseBody(body) }
    }

    fn whole(code: StatusCode, content_type: &'static str, bytes: Bytes) -> Self {
        Self::new(code, content_type, Kind::Whole(Some(bytes)))
    }

    pub(crate) fn json(bytes: impl Into<Bytes>) -> Self {
        Self::whole(StatusCode::OK, "application/json", bytes.into())
    }

    pub(crate) fn value(value: &Value) -> Self {
        Self::json(value.to_string())
    }

    pub(crate) fn text(content_type: &'static str, text: impl Into<Bytes>) -> Self {
        Self::whole(StatusCode::OK, content_type, text.into())
    }

    pub(crate) fn stream(content_type: &'static str, stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::new(StatusCode::OK, content_type, Kind::Stream(Box::pin(stream)))
    }

    pub(crate) fn with_code(mut self, code: StatusCode) -> Self {
        self.code = code;
        self
    }

    pub(crate) fn with_content_type(mut self, content_type: &'static str) -> Self {
        self.content_type = content_type;
        self
    }

    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// The same with a compressed body, if that is worth the effort.
    pub(crate) async fn compressed(mut self) -> Self {
        if let Kind::Whole(Some(bytes)) = &self.body.0
            && let Some(small) = compress::gzip(bytes).await
        {
            self.body = ResponseBody(Kind::Whole(Some(small)));
            self.is_gzip = true;
        }
        self
    }

    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.code;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if self.is_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        for warning in self.warnings {
            let quoted = format!("299 - {warning:?}");
            if let Ok(value) = HeaderValue::from_str(&quoted) {
                headers.append(WARNING, value);
            }
        }
        response
    }
}

impl From<ApiError> for Reply {
    fn from(error: ApiError) -> Self {
        let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::value(&error.status()).with_code(code)
    }
}
