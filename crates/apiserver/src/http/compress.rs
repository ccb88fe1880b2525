//! gzip for answers. As upstream: only whole ones, only large ones, only for clients that ask.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// Below this, compressing costs more than it saves. As upstream.
const WORTHWHILE_BYTES: usize = 128 * 1024;

pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|coding| coding.split(';').next().is_some_and(|name| name.trim() == "gzip"))
}

/// The body in short, if it is long.
pub(super) async fn gzip(bytes: &Bytes) -> Option<Bytes> {
    if bytes.len() <= WORTHWHILE_BYTES {
        return None;
    }
    let bytes = bytes.clone();
    // A list of thousands takes a good part of a second, in which others want to be answered.
    tokio::task::spawn_blocking(move || {
        let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::fast());
        encoder.write_all(&bytes).and_then(|()| encoder.finish()).map(Bytes::from)
    })
    .await
    .ok()?
    .ok()
}
