//! The watcher against a server whose every answer is scripted, in virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail by panicking")]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    body::Body,
    http::{Request, Response, header::ACCEPT},
};
use futures::{StreamExt, stream};
use jobferry_kubeio::{Collection, Event, Horizon, Watcher};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, Debug)]
struct Thing {
    metadata: Meta,
    color: String,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    resource_version: String,
}

/// One scripted answer.
enum Answer {
    Json(u16, Value),
    /// Lines of a watch; then the stream ends after this many seconds.
    Lines(Vec<Value>, u64),
    /// Lines of a watch that then hangs.
    Hang(Vec<Value>),
    /// The same, but nothing of it, not even that there is a watch, comes before so many seconds are over.
    Late(u64, Vec<Value>),
    /// The same, as pieces that come a second apart.
    Pieces(Vec<String>),
}
use Answer::{Hang, Json, Late, Lines, Pieces};

#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
    /// In which forms answers were accepted.
    accepted: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            asked: Arc::default(),
            accepted: Arc::default(),
        }
    }

    fn watcher(&self) -> Watcher<Thing> {
        self.watcher_of(|things| things)
    }

    fn watcher_of(&self, wanted: impl FnOnce(Collection<Thing>) -> Collection<Thing>) -> Watcher<Thing> {
        let script = self.clone();
        let service = axum::Router::new().fallback(move |request: Request<Body>| {
            let script = script.clone();
            async move {
                let seconds = script.delay();
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                script.answer(&request)
            }
        });
        let client = kube::Client::new(service, "default");
        let things = Collection::new("/apis/test/v1/things", |t: &Thing| &t.metadata.resource_version);
        Watcher::new(client, wanted(things))
    }

    fn delay(&self) -> u64 {
        if let Some(Late(seconds, _)) = self.answers.lock().unwrap().front() { *seconds } else { 0 }
    }

    fn answer(&self, request: &Request<Body>) -> Response<Body> {
        self.asked.lock().unwrap().push(request.uri().to_string());
        let accepted = request.headers().get(ACCEPT).map(|form| form.to_str().unwrap().to_owned());
        self.accepted.lock().unwrap().extend(accepted);
        let answer = self.answers.lock().unwrap().pop_front().expect("a request that the script does not expect");
        let text = |lines: Vec<Value>| lines.iter().flat_map(|l| [l.to_string(), "\n".into()]).collect::<String>();
        match answer {
            Json(code, body) => Response::builder().status(code).body(Body::from(body.to_string())).unwrap(),
            Lines(lines, seconds) => {
                let end = stream::once(tokio::time::sleep(Duration::from_secs(seconds))).map(|()| String::new());
                let all = stream::iter([text(lines)]).chain(end).map(Ok::<_, std::convert::Infallible>);
                Response::new(Body::from_stream(all))
            }
            Pieces(pieces) => {
                let later = |piece| async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    piece
                };
                let all = stream::iter(pieces).then(later).chain(stream::pending());
                Response::new(Body::from_stream(all.map(Ok::<_, std::convert::Infallible>)))
            }
            Hang(lines) | Late(_, lines) => {
                let all = stream::iter([text(lines)]).chain(stream::pending()).map(Ok::<_, std::convert::Infallible>);
                Response::new(Body::from_stream(all))
            }
        }
    }

    /// What was asked: `list`, `watch` with the version it resumes from, or `version`, how far the server is.
    fn asked(&self) -> Vec<String> {
        let version = |uri: &str| uri.rsplit("resourceVersion=").next().unwrap_or_default().to_owned();
        let asked = self.asked.lock().unwrap();
        let words = |uri: &String| match uri {
            uri if uri.contains("sendInitialEvents=true") => "stream".into(),
            uri if uri.contains("watch=true") => format!("watch {}", version(uri)),
            uri if uri.contains("limit=1&") || uri.ends_with("limit=1") => "version".into(),
            _ => "list".into(),
        };
        asked.iter().map(words).collect()
    }
}

fn thing(name: &str, version: u32) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version.to_string()}, "color": "red"})
}

fn list(version: u32, items: &[Value]) -> Answer {
    Json(200, json!({"metadata": {"resourceVersion": version.to_string()}, "items": items}))
}

fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

fn gone() -> Value {
    json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
}

/// The event in a form that a test can compare.
fn tell(event: &Event<Thing>) -> String {
    let names = |t: &Thing| format!("{}@{}", t.metadata.name, t.metadata.resource_version);
    match event {
        Event::Reset(items) => format!("reset [{}]", items.iter().map(names).collect::<Vec<_>>().join(" ")),
        Event::Applied(item) => format!("applied {} {}", names(item), item.color),
        Event::Deleted(item) => format!("deleted {}", names(item)),
        Event::Interrupted(error) => format!("interrupted {error}"),
        Event::Resumed => "resumed".into(),
    }
}

async fn told(watcher: &mut Watcher<Thing>, count: usize) -> Vec<String> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(tell(&watcher.next().await));
    }
    events
}

#[tokio::test(start_paused = true)]
async fn it_lists_watches_and_resumes_from_the_last_version_it_saw() {
    let script = Script::new([
        list(5, &[thing("a", 3)]),
        Lines(vec![event("MODIFIED", &thing("a", 6)), event("DELETED", &thing("a", 7))], 60),
        Lines(vec![event("BOOKMARK", &thing("", 9))], 60),
        Hang(vec![event("ADDED", &thing("b", 10))]),
    ]);
    let events = told(&mut script.watcher(), 4).await;
    assert_eq!(events, ["reset [a@3]", "applied a@6 red", "deleted a@7", "applied b@10 red"]);
    assert_eq!(script.asked(), ["list", "watch 5", "watch 7", "watch 9"]);
}

#[tokio::test(start_paused = true)]
async fn lines_come_whole_however_they_are_cut_and_however_impatient_the_reader_is() {
    let [a, b, c] =
        [("a", 6), ("b", 7), ("c", 8)].map(|(name, version)| event("ADDED", &thing(name, version)).to_string());
    let (a_head, a_rest) = a.split_at(10);
    let (a_middle, a_tail) = a_rest.split_at(10);
    let (c_head, c_tail) = c.split_at(20);
    let two_and_a_half = format!("\n\n{b}\n{c_head}");
    let pieces = [a_head, a_middle, a_tail, &two_and_a_half, c_tail, "\n"].map(str::to_owned);
    let script = Script::new([list(5, &[]), Pieces(pieces.into())]);
    let (mut watcher, mut events) = (script.watcher(), Vec::new());
    while events.len() < 4 {
        // Less than the pieces are apart: the future is dropped between any two of them.
        if let Ok(event) = tokio::time::timeout(Duration::from_millis(300), watcher.next()).await {
            events.push(tell(&event));
        }
    }
    assert_eq!(events, ["reset []", "applied a@6 red", "applied b@7 red", "applied c@8 red"]);
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_list_become_one_reset() {
    let first = json!({"metadata": {"resourceVersion": "5", "continue": "next"}, "items": [thing("a", 1)]});
    let script = Script::new([Json(200, first), list(5, &[thing("b", 2)])]);
    assert_eq!(told(&mut script.watcher(), 1).await, ["reset [a@1 b@2]"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_wants_metadata_only_asks_for_nothing_else() {
    let script = Script::new([list(5, &[thing("a", 3)]), Hang(vec![event("ADDED", &thing("b", 6))])]);
    assert_eq!(told(&mut script.watcher_of(Collection::metadata_only), 2).await, ["reset [a@3]", "applied b@6 red"]);
    let form = |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v=v1");
    assert_eq!(*script.accepted.lock().unwrap(), ["PartialObjectMetadataList", "PartialObjectMetadata"].map(form));
}

fn end_of_list(version: u32) -> Value {
    let marks = json!({"k8s.io/initial-events-end": "true"});
    json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version.to_string(), "annotations": marks}}})
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_is_one_reset_and_what_happened_meanwhile_comes_after_it() {
    let script = Script::new([Hang(vec![
        event("ADDED", &thing("a", 3)),
        event("ADDED", &thing("b", 4)),
        event("DELETED", &thing("b", 5)),
        event("ADDED", &thing("c", 6)),
        end_of_list(7),
        event("MODIFIED", &thing("a", 8)),
    ])]);
    let events = told(&mut script.watcher_of(|things| things.streamed(true)), 4).await;
    assert_eq!(events, ["reset [a@3 b@4]", "deleted b@5", "applied c@6 red", "applied a@8 red"]);
    assert_eq!(script.asked(), ["stream"]);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_fails_comes_in_pages_and_the_next_one_as_a_stream_again() {
    let script = Script::new([
        Lines(vec![event("ADDED", &thing("a", 3))], 1),
        list(9, &[thing("a", 3)]),
        Json(410, gone()),
        Hang(vec![event("ADDED", &thing("b", 10)), end_of_list(11)]),
    ]);
    assert_eq!(told(&mut script.watcher_of(|things| things.streamed(true)), 2).await, ["reset [a@3]", "reset [b@10]"]);
    assert_eq!(script.asked(), ["stream", "list", "watch 9", "stream"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_stream_lists_is_asked_for_pages() {
    let forbidden =
        json!({"kind": "Status", "code": 422, "reason": "Invalid", "message": "sendInitialEvents is forbidden"});
    let refuses = Script::new([Json(422, forbidden), list(5, &[thing("a", 3)])]);
    assert_eq!(told(&mut refuses.watcher_of(|things| things.streamed(true)), 1).await, ["reset [a@3]"]);
    assert_eq!(refuses.asked(), ["stream", "list"]);
    // One that is too old to know the question watches, and never says where the list ends.
    let ignores = Script::new([Lines(vec![event("BOOKMARK", &thing("", 4))], 60), list(5, &[thing("a", 3)])]);
    assert_eq!(told(&mut ignores.watcher_of(|things| things.streamed(true)), 1).await, ["reset [a@3]"]);
    assert_eq!(ignores.asked(), ["stream", "list"]);
}

#[tokio::test(start_paused = true)]
async fn expired_history_means_a_new_list_however_the_server_says_it() {
    let script = Script::new([
        list(5, &[]),
        Lines(vec![event("ERROR", &gone())], 60),
        list(20, &[thing("a", 19)]),
        Json(410, gone()),
        list(30, &[]),
    ]);
    assert_eq!(told(&mut script.watcher(), 3).await, ["reset []", "reset [a@19]", "reset []"]);
    assert_eq!(script.asked(), ["list", "watch 5", "list", "watch 20", "list"]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_reported_and_the_watch_resumes_without_a_list() {
    let down = || Json(503, json!({"kind": "Status", "code": 503, "reason": "ServiceUnavailable", "message": "away"}));
    let script = Script::new([
        list(5, &[]),
        Lines(vec![event("ADDED", &thing("a", 6))], 1),
        down(),
        down(),
        list(7, &[]),
        Hang(vec![event("MODIFIED", &thing("a", 8))]),
    ]);
    let events = told(&mut script.watcher(), 6).await;
    let interrupted = "interrupted 503 ServiceUnavailable: away";
    assert_eq!(events, ["reset []", "applied a@6 red", interrupted, interrupted, "resumed", "applied a@8 red"]);
    assert_eq!(script.asked(), ["list", "watch 5", "version", "version", "version", "watch 6"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_where_it_was_when_the_watch_broke_off_is_listed_again() {
    let script = Script::new([
        list(50, &[thing("a", 49)]),
        Lines(vec![event("MODIFIED", &thing("a", 60))], 1),
        list(41, &[]),
        list(41, &[thing("a", 40)]),
        Hang(vec![event("MODIFIED", &thing("a", 42))]),
    ]);
    let events = told(&mut script.watcher(), 4).await;
    assert_eq!(events, ["reset [a@49]", "applied a@60 red", "reset [a@40]", "applied a@42 red"]);
    assert_eq!(script.asked(), ["list", "watch 50", "version", "list", "watch 41"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_where_answers_showed_it_is_listed_again_whatever_the_watch_missed() {
    let back = [list(55, &[]), list(55, &[thing("a", 54)])];
    let later = [Hang(vec![]), list(56, &[]), Hang(vec![event("ADDED", &thing("b", 57))])];
    let script = Script::new([list(50, &[]), Hang(vec![])].into_iter().chain(back).chain(later));
    let horizon = Horizon::default();
    let mut watcher = script.watcher_of(|things| things.horizon(&horizon));
    assert_eq!(told(&mut watcher, 1).await, ["reset []"]);
    horizon.show("60");
    assert_eq!(told(&mut watcher, 2).await, ["interrupted no answer within 70s", "reset [a@54]"]);
    // That list has put right what the answer told.
    assert_eq!(told(&mut watcher, 3).await, ["interrupted no answer within 70s", "resumed", "applied b@57 red"]);
    assert_eq!(script.asked(), ["list", "watch 50", "version", "list", "watch 55", "version", "watch 55"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_turned_back_while_no_watch_could_be_opened_is_listed_again() {
    let ended = Lines(vec![event("BOOKMARK", &thing("", 6))], 60);
    let down = Json(503, json!({"kind": "Status", "code": 503}));
    let script = Script::new([list(5, &[]), ended, down, list(4, &[]), list(4, &[thing("a", 3)])]);
    let events = told(&mut script.watcher(), 3).await;
    assert_eq!((events[0].as_str(), events[2].as_str()), ("reset []", "reset [a@3]"), "{events:?}");
    assert_eq!(script.asked(), ["list", "watch 5", "watch 6", "version", "list"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_versions_go_back_is_that_of_another_server() {
    for line in [event("ADDED", &thing("b", 12)), event("BOOKMARK", &thing("", 12))] {
        let script = Script::new([list(50, &[thing("a", 49)]), Hang(vec![line]), list(13, &[thing("b", 12)])]);
        assert_eq!(told(&mut script.watcher(), 2).await, ["reset [a@49]", "reset [b@12]"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_took_long_to_be_opened_may_be_that_of_another_server() {
    let bookmark = || vec![event("BOOKMARK", &thing("", 6))];
    let script = Script::new([list(5, &[]), Lines(bookmark(), 60), Late(11, bookmark()), Lines(bookmark(), 60)]);
    assert_eq!(told(&mut script.watcher(), 2).await, ["reset []", "resumed"]);
    assert_eq!(script.asked(), ["list", "watch 5", "watch 6"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_hangs_past_its_end_counts_as_cut() {
    let script = Script::new([list(5, &[]), Hang(vec![]), list(5, &[]), Hang(vec![event("ADDED", &thing("a", 6))])]);
    let events = told(&mut script.watcher(), 4).await;
    assert_eq!(events, ["reset []", "interrupted no answer within 70s", "resumed", "applied a@6 red"]);
}

#[tokio::test(start_paused = true)]
async fn a_whole_watch_without_a_bookmark_is_not_trusted() {
    let script = Script::new([list(500, &[thing("a", 499)]), Lines(vec![], 60), list(40, &[])]);
    assert_eq!(told(&mut script.watcher(), 2).await, ["reset [a@499]", "reset []"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_is_passed_over_and_stops_nothing() {
    let bad = json!({"metadata": {"name": "bad", "resourceVersion": "6"}, "color": 7});
    let script = Script::new([
        list(5, &[bad.clone(), thing("a", 4)]),
        Lines(vec![event("ADDED", &bad)], 60),
        Hang(vec![event("ADDED", &thing("b", 7))]),
    ]);
    assert_eq!(told(&mut script.watcher(), 2).await, ["reset [a@4]", "applied b@7 red"]);
    assert_eq!(script.asked(), ["list", "watch 5", "watch 6"]);
}
