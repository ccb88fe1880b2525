//! watch: a stream of changes from a cursor on.
//!
//! Watchers pull: each keeps only a version, reads the table's history from there when woken, and is cut off with
//! `410 Expired` when it was too slow for the ring. Nothing grows with a slow client.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::{Stream, stream};
use serde_json::Value;
use tokio::time::Instant;

use super::render::Renderer;
use crate::error::ApiError;
use crate::http::{ListQuery, Reply};
use crate::selection::Selection;
use crate::server::{Call, Inner};
use crate::store::{Change, ChangeKind, Expired, Listener, Stored};

/// How often a quiet watch learns how far it is. Upstream: once a minute.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

/// The last bookmark comes this long before a watch ends, so that the next one can start from there. As upstream.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// A watch without a timeout of its own ends after this and up to as much again, so that clients do not come back all
/// at once. As upstream.
const MIN_TIMEOUT: Duration = Duration::from_secs(1800);

/// Changes handed over in one piece: small enough to keep the store's lock short.
const BATCH: usize = 256;

impl Inner {
    pub(super) fn watch(self: &Arc<Self>, call: &Call, query: &ListQuery) -> Result<Reply, ApiError> {
        let renderer = self.renderer(call)?;
        let timeout = query.timeout.unwrap_or_else(|| MIN_TIMEOUT + Duration::from_secs(self.identities.below(1800)));
        let now = Instant::now();
        let mut watcher = Watcher {
            wake: self.store.subscribe(&call.resource.table),
            selection: Selection::new(&call.resource, call.namespace.as_deref(), query),
            renderer,
            server: Arc::clone(self),
            cursor: 0,
            first_visible: 0,
            ready: VecDeque::new(),
            bookmarks: query.bookmarks,
            next_bookmark: bookmark_after(now, now + timeout),
            deadline: now + timeout,
            over: false,
        };
        watcher.start(query)?;
        Ok(Reply::stream("application/json", watcher.into_stream()))
    }
}

struct Watcher {
    server: Arc<Inner>,
    selection: Selection,
    renderer: Renderer,
    wake: Listener,
    /// Everything up to this version has been sent or was known to the client.
    cursor: u64,
    /// The initial events are of this version.
    first_visible: u64,
    /// Rendered events that wait for the client to read.
    ready: VecDeque<Bytes>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    over: bool,
}

impl Watcher {
    /// Sets the cursor and queues the initial events, if any are due.
    fn start(&mut self, query: &ListQuery) -> Result<(), ApiError> {
        let from_now = matches!(query.version, None | Some(0));
        let initial = query.send_initial_events.unwrap_or(from_now);
        if !initial && !from_now {
            self.cursor = query.version.unwrap_or_default();
            return Ok(());
        }
        let table = &self.selection.resource.table;
        let listing = self
            .server
            .store
            .list(table, self.selection.namespace.as_deref(), None)
            .map_err(|_| ApiError::internal("the present is always readable"))?;
        if let Some(wanted) = query.version.filter(|wanted| *wanted > listing.version) {
            return Err(ApiError::unavailable(format!(
                "Too large resource version: {wanted}, current: {}",
                listing.version
            )));
        }
        self.cursor = listing.version;
        self.first_visible = listing.version;
        if initial {
            for stored in listing.objects.iter().filter(|stored| self.selection.matches(stored)) {
                self.ready.push_back(event("ADDED", &self.renderer.object(stored)));
            }
            if query.send_initial_events == Some(true) && self.bookmarks {
                self.ready.push_back(bookmark(&self.renderer.bookmark(self.cursor, true)));
            }
        }
        Ok(())
    }

    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, |mut watcher| async move { watcher.next().await.map(|bytes| (bytes, watcher)) })
    }

    async fn next(&mut self) -> Option<Bytes> {
        // What the first events tell may be on its way to the disk still.
        self.server.store.visible(self.first_visible).await.ok()?;
        loop {
            self.server.freeze.over().await;
            if let Some(bytes) = self.drain() {
                return Some(bytes);
            }
            if self.over {
                return None;
            }
            self.wake.catch_up();
            self.pull();
            if self.ready.is_empty() && !self.over {
                self.wait().await;
            }
        }
    }

    /// Everything that is ready, as one chunk.
    fn drain(&mut self) -> Option<Bytes> {
        if self.ready.len() <= 1 {
            return self.ready.pop_front();
        }
        let mut chunk = BytesMut::with_capacity(self.ready.iter().map(Bytes::len).sum());
        for bytes in self.ready.drain(..) {
            chunk.put_slice(&bytes);
        }
        Some(chunk.freeze())
    }

    /// Reads on in the history.
    fn pull(&mut self) {
        match self.server.store.changes(&self.selection.resource.table, self.cursor, BATCH) {
            Ok(changes) => {
                for change in &changes.list {
                    if let Some(bytes) = self.render(change) {
                        self.ready.push_back(bytes);
                    }
                }
                self.cursor = changes.reached;
            }
            Err(Expired(oldest)) => {
                let error = ApiError::expired(format!("too old resource version: {} ({oldest})", self.cursor));
                self.ready.push_back(event("ERROR", error.status().to_string().as_bytes()));
                self.over = true;
            }
        }
    }

    async fn wait(&mut self) {
        tokio::select! {
            biased;
            rung = self.wake.next() => self.over = rung.is_err(),
            () = tokio::time::sleep_until(self.deadline) => self.over = true,
            () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                self.next_bookmark = bookmark_after(self.next_bookmark, self.deadline);
                // Other resources may have moved on: the bookmark says how far nothing happened here. Whoever watches from
                // a version that is still to come gets none, as upstream.
                self.pull();
                if self.cursor <= self.server.store.version() {
                    self.ready.push_back(bookmark(&self.renderer.bookmark(self.cursor, false)));
                }
            }
        }
    }

    /// A change as this client sees it: entering its selection is an ADDED, leaving it a DELETED.
    fn render(&mut self, change: &Change) -> Option<Bytes> {
        let before = change.previous.as_deref().filter(|stored| self.selection.matches(stored));
        let after =
            (change.kind != ChangeKind::Deleted && self.selection.matches(&change.object)).then_some(&*change.object);
        self.renderer.now = self.server.now();
        match (before, after) {
            (None, None) => None,
            (None, Some(object)) => Some(event("ADDED", &self.renderer.object(object))),
            (Some(_), Some(object)) => Some(event("MODIFIED", &self.renderer.object(object))),
            (Some(_), None) if change.kind == ChangeKind::Deleted => {
                Some(event("DELETED", &self.renderer.object(&change.object)))
            }
            (Some(object), None) => {
                let left = restamp(object, change.object.version);
                Some(event("DELETED", &self.renderer.object(&left)))
            }
        }
    }
}

/// The last state inside of the selection, at the version in which it left.
fn restamp(stored: &Stored, version: u64) -> Stored {
    let mut object = stored.value();
    object["metadata"]["resourceVersion"] = version.to_string().into();
    Stored {
        key: stored.key.clone(),
        uid: stored.uid.clone(),
        version,
        labels: stored.labels.clone(),
        fields: stored.fields.clone(),
        json: Bytes::from(object.to_string()),
    }
}

/// When the next bookmark after this time is due.
fn bookmark_after(time: Instant, deadline: Instant) -> Instant {
    let last = deadline.checked_sub(LAST_BOOKMARK).filter(|last| *last > time);
    last.map_or(time + BOOKMARK_PERIOD, |last| last.min(time + BOOKMARK_PERIOD))
}

fn bookmark(object: &Value) -> Bytes {
    event("BOOKMARK", object.to_string().as_bytes())
}

/// `type` comes first: clients decide by it how to read `object`.
fn event(kind: &str, object: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(object.len() + 40);
    bytes.put_slice(b"{\"type\":\"");
    bytes.put_slice(kind.as_bytes());
    bytes.put_slice(b"\",\"object\":");
    bytes.put_slice(object);
    bytes.put_slice(b"}\n");
    bytes.freeze()
}
