//! List once, then watch; resume where the stream was cut; list again only when the server forgot our place.
//!
//! A list comes in pages, or, where the server offers it and the collection asks for it, as the first events of the watch:
//! then neither side ever holds all of it as one text.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use http::StatusCode;
use http_body_util::BodyExt;
use kube::{
    Client,
    core::{
        Request,
        params::{ListParams, WatchParams},
    },
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::{Backoff, CallError, Horizon, Refusal, call::call, horizon::Reached};

/// The server ends each watch after this time and we resume it. A dead peer is noticed soon after it, and a server
/// sends at least one bookmark in it, so a watch that saw nothing at all is suspicious (see [`Watcher::next`]).
const WATCH_SECONDS: u32 = 60;
/// A watch that takes longer to be opened counts as cut off before: a server that is being replaced keeps its clients waiting,
/// and the one that answers then may be another.
const OPENED_WITHIN: Duration = Duration::from_secs(1);
/// How long after its announced end a watch may linger before it counts as cut.
const WATCH_GRACE: Duration = Duration::from_secs(10);
/// One page of a list, and the answer to a watch request, must come within this time.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// What client-go and kubectl ask for too; bounds the memory of one answer.
const PAGE_SIZE: u32 = 500;

/// What to watch, and where the objects of type `T` keep their resourceVersion.
#[derive(Debug, Clone)]
pub struct Collection<T> {
    path: String,
    labels: Option<String>,
    fields: Option<String>,
    seed: u64,
    streamed: bool,
    metadata_only: bool,
    horizon: Horizon,
    resource_version: fn(&T) -> &str,
}

impl<T> Collection<T> {
    /// All objects below `path`, for example `/apis/batch/v1/jobs`.
    pub fn new(path: impl Into<String>, resource_version: fn(&T) -> &str) -> Self {
        Self {
            path: path.into(),
            labels: None,
            fields: None,
            seed: 0,
            streamed: false,
            metadata_only: false,
            horizon: Horizon::default(),
            resource_version,
        }
    }

    /// Only objects that match this label selector.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Only objects that match this field selector.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// Asks for the list as the first events of the watch. Servers that do not offer that are asked for pages.
    #[must_use]
    pub fn streamed(mut self, streamed: bool) -> Self {
        self.streamed = streamed;
        self
    }

    /// Asks for the metadata of the objects, and for nothing else of them.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// How far the server is known to have been by other ways than this watch.
    #[must_use]
    pub fn horizon(mut self, horizon: &Horizon) -> Self {
        self.horizon = horizon.clone();
        self
    }

    /// Decides the jitter of the waits between attempts, so that many watchers do not come back in step.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

/// What a watcher learned.
#[derive(Debug)]
pub enum Event<T> {
    /// Everything that exists now. Whatever the reader knows and this does not name is gone.
    Reset(Vec<T>),
    /// An object was created or changed.
    Applied(T),
    /// An object is gone, or no longer matches the selector; this is its last state.
    Deleted(T),
    /// The server cannot be reached or refuses; what is known may grow old. Further attempts follow by themselves.
    Interrupted(CallError),
    /// A new stream goes on where the last one was cut off, with nothing missed. If it is the same server: another one
    /// behind the same address may go on as if nothing had happened.
    Resumed,
}

/// Watches for ever. The stream never ends; dropping it closes the connection.
pub fn watch<T: DeserializeOwned>(client: Client, collection: Collection<T>) -> impl Stream<Item = Event<T>> {
    stream::unfold(Watcher::new(client, collection), |mut watcher| async move {
        let event = watcher.next().await;
        Some((event, watcher))
    })
}

/// The state of one endless list-and-watch.
pub struct Watcher<T> {
    client: Client,
    collection: Collection<T>,
    state: State<T>,
    /// The last streamed list failed: the next one comes in pages.
    in_pages: bool,
    /// Events that came before the end of a streamed list, to be handed out after it.
    after_list: VecDeque<Event<T>>,
    backoff: Backoff,
    not_before: Option<Instant>,
    /// Since when a watch is being opened.
    asked: Option<Instant>,
    /// The last stream was cut off, and no other one was opened since.
    cut: bool,
    /// What was heard of the server before the last list, which has put it right if it was wrong.
    listed_at: Reached,
}

enum State<T> {
    /// Nothing is known, or our place in the history is lost.
    Unlisted,
    /// A streamed list is under way; this much of it has come.
    Gathering(WatchStream, Vec<T>),
    /// Known up to this resourceVersion; no stream is open.
    Listed(String),
    /// The same, if the server still is where it was: the stream broke off, perhaps because a backup was restored.
    Doubted(String),
    Streaming(WatchStream),
}

impl<T: DeserializeOwned> Watcher<T> {
    /// A watcher that has not asked for anything yet.
    pub fn new(client: Client, collection: Collection<T>) -> Self {
        let backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(15), collection.seed);
        let (state, after_list) = (State::Unlisted, VecDeque::new());
        let (not_before, asked, listed_at) = (None, None, Reached::default());
        Self {
            client,
            collection,
            state,
            in_pages: false,
            after_list,
            backoff,
            not_before,
            asked,
            cut: false,
            listed_at,
        }
    }

    /// The resourceVersion that it has come to; after a list, that of the list.
    pub fn version(&self) -> Option<&str> {
        match &self.state {
            State::Listed(version) | State::Doubted(version) => Some(version),
            State::Streaming(stream) => Some(&stream.version),
            State::Unlisted | State::Gathering(..) => None,
        }
    }

    /// The next event. Cancel-safe: nothing is lost when the future is dropped.
    ///
    /// A server that was restored from a backup accepts a resourceVersion from its lost future, and stays silent until it
    /// has come there again. So whenever a watch breaks off we ask how far the server is before we go on, and compare that with
    /// what the watch, and since the last list the answers to requests ([`Horizon`]), have shown; and because a healthy one
    /// sends a bookmark before it ends a watch, we list again after a whole watch without a single line.
    pub async fn next(&mut self) -> Event<T> {
        loop {
            if let Some(instant) = self.not_before {
                tokio::time::sleep_until(instant).await;
                self.not_before = None;
            }
            if matches!(self.state, State::Streaming(_))
                && let Some(event) = self.after_list.pop_front()
            {
                return event;
            }
            match &mut self.state {
                State::Unlisted if self.collection.streamed && !self.in_pages => {
                    self.after_list.clear();
                    self.in_pages = true;
                    self.listed_at = self.collection.horizon.reached();
                    match open(&self.client, &self.collection, None).await {
                        Ok(stream) => self.state = State::Gathering(stream, Vec::new()),
                        Err(error) if does_not_stream(&error) => self.collection.streamed = false,
                        Err(error) => return self.interrupt(error),
                    }
                }
                State::Gathering(..) => {
                    if let Some(event) = self.gather().await {
                        return event;
                    }
                }
                State::Unlisted => {
                    self.listed_at = self.collection.horizon.reached();
                    match list(&self.client, &self.collection).await {
                        Ok((items, version)) => {
                            self.state = State::Listed(version);
                            (self.cut, self.in_pages) = (false, false);
                            return Event::Reset(items);
                        }
                        Err(error) if is_expired(&error) => self.pause(),
                        Err(error) => return self.interrupt(error),
                    }
                }
                State::Listed(version) => {
                    let asked = *self.asked.get_or_insert_with(Instant::now);
                    let opened = open(&self.client, &self.collection, Some(version.clone())).await;
                    self.asked = None;
                    match opened {
                        Ok(stream) => {
                            self.state = State::Streaming(stream);
                            if std::mem::take(&mut self.cut) || asked.elapsed() > OPENED_WITHIN {
                                return Event::Resumed;
                            }
                        }
                        Err(error) if is_expired(&error) => self.restart_list(),
                        Err(error) => {
                            // Who does not answer now may be turned back meanwhile.
                            self.state = State::Doubted(std::mem::take(version));
                            return self.interrupt(error);
                        }
                    }
                }
                State::Doubted(_) => {
                    if let Err(error) = self.resolve_doubt().await {
                        return self.interrupt(error);
                    }
                }
                State::Streaming(_) => {
                    if let Some(event) = self.follow().await {
                        return event;
                    }
                }
            }
        }
    }

    /// The next line of a watch.
    async fn follow(&mut self) -> Option<Event<T>> {
        let State::Streaming(stream) = &mut self.state else { return None };
        match stream.next_line().await {
            Ok(Some(line)) => {
                self.backoff.reset();
                match read_line(&self.collection, &line) {
                    // Versions never go back, unless the server does, or another one answers in its place.
                    Line::Event(_, version) | Line::Bookmark { version, .. }
                        if is_behind(&version, &stream.version) =>
                    {
                        self.restart_list();
                    }
                    Line::Event(event, version) => {
                        stream.version = version;
                        return Some(event);
                    }
                    Line::Bookmark { version, .. } => stream.version = version,
                    Line::Unreadable(version) => {
                        stream.version = version.unwrap_or_else(|| stream.version.clone());
                    }
                    Line::Expired => self.restart_list(),
                    Line::Failed(error) => {
                        self.state = State::Doubted(std::mem::take(&mut stream.version));
                        return Some(self.interrupt(error));
                    }
                }
            }
            Ok(None) => {
                let (silent, young) = (stream.silent, stream.is_young());
                let version = std::mem::take(&mut stream.version);
                self.cut |= young;
                self.state = if young {
                    State::Doubted(version)
                } else if silent {
                    State::Unlisted
                } else {
                    State::Listed(version)
                };
                self.pause();
            }
            Err(error) => {
                self.state = State::Doubted(std::mem::take(&mut stream.version));
                return Some(self.interrupt(error));
            }
        }
        None
    }

    /// The next line of a streamed list.
    async fn gather(&mut self) -> Option<Event<T>> {
        let State::Gathering(stream, gathered) = &mut self.state else { return None };
        let line = match stream.next_line().await {
            Ok(Some(line)) => read_line(&self.collection, &line),
            Ok(None) => {
                // A server that streams lists says where they end. This one did not know what it was asked for.
                self.collection.streamed = stream.is_young();
                self.restart_list();
                return None;
            }
            Err(error) => Line::Failed(error),
        };
        match line {
            Line::Event(Event::Applied(item), _) if self.after_list.is_empty() => gathered.push(item),
            // Without its key, an object that is gone cannot be taken out of what was gathered.
            Line::Event(event, _) => self.after_list.push_back(event),
            Line::Bookmark { version, ends_list: true } => {
                let State::Gathering(mut stream, gathered) = std::mem::replace(&mut self.state, State::Unlisted) else {
                    return None;
                };
                stream.version = version;
                self.state = State::Streaming(stream);
                (self.cut, self.in_pages) = (false, false);
                self.backoff.reset();
                return Some(Event::Reset(gathered));
            }
            Line::Bookmark { .. } | Line::Unreadable(_) => {}
            Line::Expired => self.restart_list(),
            Line::Failed(error) => {
                self.state = State::Unlisted;
                return Some(self.interrupt(error));
            }
        }
        None
    }

    /// Asks how far the server is: it goes on from where it was, or is listed again.
    async fn resolve_doubt(&mut self) -> Result<(), CallError> {
        let State::Doubted(known) = &self.state else { return Ok(()) };
        // Before we ask: what is heard of meanwhile may be later than the answer.
        let heard = Some(self.collection.horizon.reached()).filter(|heard| *heard > self.listed_at);
        let current = current_version(&self.client, &self.collection).await?;
        if is_behind(&current, known) || heard.is_some_and(|heard| heard.is_beyond(&current)) {
            self.restart_list();
        } else {
            self.state = State::Listed(known.clone());
        }
        Ok(())
    }

    fn restart_list(&mut self) {
        self.state = State::Unlisted;
        self.pause();
    }

    fn interrupt(&mut self, error: CallError) -> Event<T> {
        self.cut = true;
        self.pause();
        Event::Interrupted(error)
    }

    fn pause(&mut self) {
        self.not_before = Some(Instant::now() + self.backoff.next_delay());
    }
}

/// Part of a list.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PageMeta {
    resource_version: String,
    r#continue: String,
}

async fn ask_for_page<T>(client: &Client, collection: &Collection<T>, params: &ListParams) -> Result<Bytes, CallError> {
    let request = Request::new(&collection.path);
    let request = if collection.metadata_only { request.list_metadata(params) } else { request.list(params) };
    let request = request.map_err(|e| CallError::Transport(e.to_string()))?;
    call(client, request.map(Into::into), ANSWER_WITHIN).await
}

fn read_page(body: &Bytes) -> Result<Page<'_>, CallError> {
    serde_json::from_slice(body).map_err(|e| CallError::Unreadable(e.to_string()))
}

fn params_of<T>(collection: &Collection<T>, limit: u32) -> ListParams {
    ListParams {
        label_selector: collection.labels.clone(),
        field_selector: collection.fields.clone(),
        limit: Some(limit),
        ..ListParams::default()
    }
}

/// How far the server is.
async fn current_version<T>(client: &Client, collection: &Collection<T>) -> Result<String, CallError> {
    let body = ask_for_page(client, collection, &params_of(collection, 1)).await?;
    Ok(read_page(&body)?.metadata.resource_version)
}

/// Whether a server is not yet where it once was. Versions of one API server can be compared.
fn is_behind(current: &str, known: &str) -> bool {
    matches!((current.parse::<u64>(), known.parse::<u64>()), (Ok(current), Ok(known)) if current < known)
}

async fn list<T: DeserializeOwned>(client: &Client, collection: &Collection<T>) -> Result<(Vec<T>, String), CallError> {
    let mut items = Vec::new();
    let mut params = params_of(collection, PAGE_SIZE);
    loop {
        let body = ask_for_page(client, collection, &params).await?;
        let page = read_page(&body)?;
        for raw in page.items.into_iter().flatten() {
            match serde_json::from_str(raw.get()) {
                Ok(item) => items.push(item),
                Err(error) => report_unreadable(&collection.path, raw.get(), &error),
            }
        }
        if page.metadata.r#continue.is_empty() {
            return Ok((items, page.metadata.resource_version));
        }
        params.continue_token = Some(page.metadata.r#continue);
    }
}

/// Opens a watch from `version` on; without one, with everything that exists as its first events.
async fn open<T>(
    client: &Client,
    collection: &Collection<T>,
    version: Option<String>,
) -> Result<WatchStream, CallError> {
    let params = WatchParams {
        label_selector: collection.labels.clone(),
        field_selector: collection.fields.clone(),
        timeout: Some(WATCH_SECONDS),
        bookmarks: true,
        send_initial_events: version.is_none(),
    };
    let version = version.unwrap_or_default();
    let request = Request::new(&collection.path);
    let request = if collection.metadata_only {
        request.watch_metadata(&params, &version)
    } else {
        request.watch(&params, &version)
    };
    let request = request.map_err(|e| CallError::Transport(e.to_string()))?;
    let answer = tokio::time::timeout(ANSWER_WITHIN, client.send(request.map(Into::into)))
        .await
        .map_err(|_| CallError::Deadline(ANSWER_WITHIN))?
        .map_err(|e| CallError::Transport(e.to_string()))?;
    let status = answer.status();
    if status != StatusCode::OK {
        let body = tokio::time::timeout(ANSWER_WITHIN, answer.into_body().collect()).await;
        let body = body.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes).unwrap_or_default();
        return Err(CallError::Refused(Refusal::from_answer(status, &body)));
    }
    Ok(WatchStream::new(Box::pin(answer.into_body().into_data_stream().map_err(|e| e.to_string())), version))
}

/// Lines of one open watch.
struct WatchStream {
    body: Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>,
    /// What has come and was not looked at yet.
    chunk: Bytes,
    /// A line whose end has not come yet. Both are let go when they are read: there is a stream for each worker.
    begun: BytesMut,
    /// The last resourceVersion that this stream named: where to resume.
    version: String,
    opened: Instant,
    silent: bool,
}

impl WatchStream {
    fn new(body: Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>, version: String) -> Self {
        let (chunk, begun) = (Bytes::new(), BytesMut::new());
        Self { body, chunk, begun, version, opened: Instant::now(), silent: true }
    }

    /// The next line without its end, `None` at the end of the stream. Cancel-safe: a part of a line stays buffered.
    async fn next_line(&mut self) -> Result<Option<Bytes>, CallError> {
        let lifetime = Duration::from_secs(u64::from(WATCH_SECONDS)) + WATCH_GRACE;
        loop {
            if let Some(end) = self.chunk.iter().position(|byte| *byte == b'\n') {
                let rest = self.chunk.split_to(end + 1).slice(..end);
                let line = if self.begun.is_empty() {
                    rest
                } else {
                    self.begun.extend_from_slice(&rest);
                    std::mem::take(&mut self.begun).freeze()
                };
                if !line.is_empty() {
                    self.silent = false;
                    return Ok(Some(line));
                }
                continue;
            }
            self.begun.extend_from_slice(&std::mem::take(&mut self.chunk));
            match tokio::time::timeout_at(self.opened + lifetime, self.body.next()).await {
                Ok(Some(Ok(chunk))) => self.chunk = chunk,
                Ok(Some(Err(error))) => return Err(CallError::Transport(error)),
                Ok(None) => return Ok(None),
                Err(_) => return Err(CallError::Deadline(lifetime)),
            }
        }
    }

    /// Whether it was cut before the server could have ended it.
    fn is_young(&self) -> bool {
        self.opened.elapsed() < Duration::from_secs(u64::from(WATCH_SECONDS) - 1)
    }
}

enum Line<T> {
    Event(Event<T>, String),
    Bookmark {
        version: String,
        /// It marks the end of a streamed list.
        ends_list: bool,
    },
    /// An object that does not decode: reported and passed over, so that one bad object does not stop the others.
    Unreadable(Option<String>),
    Expired,
    Failed(CallError),
}

fn read_line<T: DeserializeOwned>(collection: &Collection<T>, line: &[u8]) -> Line<T> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        r#type: &'a str,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let envelope: Envelope<'_> = match serde_json::from_slice(line) {
        Ok(envelope) => envelope,
        Err(error) => return Line::Failed(CallError::Unreadable(error.to_string())),
    };
    let object = envelope.object.get();
    match envelope.r#type {
        "BOOKMARK" => serde_json::from_str::<Named>(object).map_or(Line::Unreadable(None), |Named { metadata }| {
            let ends_list =
                metadata.annotations.is_some_and(|marks| marks.initial_events_end.as_deref() == Some("true"));
            Line::Bookmark { version: metadata.resource_version, ends_list }
        }),
        "ERROR" => {
            let code = serde_json::from_str::<ErrorCode>(object).map_or(500, |status| status.code);
            let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let error = CallError::Refused(Refusal::from_answer(code, object.as_bytes()));
            if is_expired(&error) { Line::Expired } else { Line::Failed(error) }
        }
        kind => match serde_json::from_str::<T>(object) {
            Ok(item) => {
                let version = (collection.resource_version)(&item).to_owned();
                Line::Event(if kind == "DELETED" { Event::Deleted(item) } else { Event::Applied(item) }, version)
            }
            Err(error) => {
                report_unreadable(&collection.path, object, &error);
                Line::Unreadable(version_of(object))
            }
        },
    }
}

#[derive(Deserialize)]
struct ErrorCode {
    #[serde(default)]
    code: u16,
}

#[derive(Deserialize)]
struct Named {
    metadata: NamedMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedMeta {
    resource_version: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    annotations: Option<BookmarkMarks>,
}

#[derive(Deserialize)]
struct BookmarkMarks {
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<String>,
}

fn version_of(object: &str) -> Option<String> {
    serde_json::from_str::<Named>(object).ok().map(|named| named.metadata.resource_version)
}

fn report_unreadable(path: &str, object: &str, error: &serde_json::Error) {
    let (namespace, name) =
        serde_json::from_str::<Named>(object).map(|o| (o.metadata.namespace, o.metadata.name)).unwrap_or_default();
    tracing::error!(path, namespace, name, %error, "object cannot be decoded and is passed over");
}

/// The server does not know streamed lists, or has them switched off.
fn does_not_stream(error: &CallError) -> bool {
    error.refusal().is_some_and(|refusal| [400, 422].contains(&refusal.code))
}

/// The server no longer has the history that we want to resume from (or the rest of a paged list).
fn is_expired(error: &CallError) -> bool {
    error.refusal().is_some_and(|r| r.code == 410)
}
