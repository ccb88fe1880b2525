use std::sync::atomic::{AtomicU32, Ordering};

use http_body_util::{BodyExt, Full};
use tokio::time::{Instant, timeout};
use tower::{ServiceExt, service_fn};

use super::*;

/// The same fate for every request, and a road that the test holds in its hands.
struct Always(Fate, Road);

impl Fates for Always {
    fn of_request(&self, _: &Asked) -> Fate {
        self.0
    }
    fn of_watch(&self, _: &Asked) -> WatchFate {
        WatchFate::Undisturbed
    }
    fn road(&self) -> Road {
        self.1.clone()
    }
}

struct Outcome {
    heard: Option<Result<u16, String>>,
    heard_after: Duration,
    carried_out: u32,
}

/// One request of a client that waits ten seconds; then two more minutes pass.
async fn one_request(fate: Fate, road: Passage) -> Outcome {
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    let server = service_fn(move |_: Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let body = Full::new(Bytes::from_static(b"{}")).map_err(|never| match never {}).boxed_unsync();
        std::future::ready(Ok::<_, BoxError>(Response::new(body)))
    });
    let client = Faulty::new(server, Arc::new(Always(fate, Road::new(road))));
    let started = Instant::now();
    let request = Request::get("/version").body(Body::empty()).unwrap();
    let heard = timeout(Duration::from_secs(10), client.oneshot(request)).await.ok();
    let heard_after = started.elapsed();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let heard = heard.map(|heard| heard.map(|r| r.status().as_u16()).map_err(|e| e.to_string()));
    Outcome { heard, heard_after, carried_out: count.load(Ordering::Relaxed) }
}

#[tokio::test(start_paused = true)]
async fn each_fate_is_what_its_name_says() {
    let seconds = Duration::from_secs;
    for (fate, status, carried_out, seconds_waited) in [
        (Fate::Answered, Some(200), 1, 0),
        (Fate::Lost, None, 0, 10),
        (Fate::AnswerLost, None, 1, 10),
        (Fate::Late(seconds(3)), Some(200), 1, 3),
        (Fate::Late(seconds(60)), None, 1, 10),
        (Fate::Late(seconds(80)), None, 0, 10),
        (Fate::AnswerLate(seconds(4)), Some(200), 1, 4),
        (Fate::Refused(403), Some(403), 0, 0),
        (Fate::CommittedButRefused(504), Some(504), 1, 0),
    ] {
        let outcome = one_request(fate, Passage::OPEN).await;
        assert_eq!(outcome.heard.map(|heard| heard.unwrap()), status, "{fate:?}");
        assert_eq!(outcome.carried_out, carried_out, "{fate:?}");
        assert_eq!(outcome.heard_after.as_secs(), seconds_waited, "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_does_not_tell_whether_the_request_was_carried_out() {
    for (fate, carried_out) in [(Fate::Reset, 0), (Fate::AnswerReset, 1)] {
        let outcome = one_request(fate, Passage::OPEN).await;
        assert!(outcome.heard.unwrap().is_err());
        assert_eq!(outcome.carried_out, carried_out, "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_road_closed_one_way_loses_either_the_request_or_only_its_answer() {
    for (there, carried_out) in [(false, 0), (true, 1)] {
        let outcome = one_request(Fate::Answered, Passage { there, back: !there }).await;
        assert!(outcome.heard.is_none());
        assert_eq!(outcome.carried_out, carried_out);
    }
}
