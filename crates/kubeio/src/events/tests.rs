use std::sync::Mutex;

use axum::{Router, body::Bytes, http::Method, routing::any};
use serde_json::Value;

use super::*;

type Requests = Arc<Mutex<Vec<(Method, Value)>>>;

/// A server that takes every write.
fn server() -> (Client, Requests) {
    let requests = Requests::default();
    let seen = Arc::clone(&requests);
    let answer = move |method: Method, body: Bytes| {
        seen.lock().unwrap().push((method, serde_json::from_slice(&body).unwrap()));
        async { "{}" }
    };
    (Client::new(Router::new().fallback(any(answer)), "default"), requests)
}

fn recorder(client: Client) -> (Recorder, impl Future<Output = ()> + Send + 'static) {
    let started = Instant::now();
    let clock = move || Timestamp::UNIX_EPOCH + started.elapsed();
    Recorder::new(client, "tester", Arc::new(clock))
}

fn job(name: &str) -> About {
    let (api_version, kind) = ("batch/v1".into(), "Job".into());
    About { api_version, kind, namespace: "ml".into(), name: name.into(), uid: format!("uid-of-{name}") }
}

fn happened(severity: Severity, message: &str) -> Happening {
    Happening { severity, reason: "Placed".into(), message: message.into() }
}

#[tokio::test(start_paused = true)]
async fn an_event_says_what_happened_to_which_object() {
    let (client, requests) = server();
    let (recorder, writer) = recorder(client);
    recorder.tell(job("train"), happened(Severity::Normal, "on worker eu-1"));
    drop(recorder);
    writer.await;
    let requests = requests.lock().unwrap();
    let [(method, event)] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(method, Method::POST);
    assert_eq!((&event["type"], &event["reason"], &event["count"]), (&"Normal".into(), &"Placed".into(), &1.into()));
    assert_eq!(
        (&event["message"], &event["involvedObject"]["uid"]),
        (&"on worker eu-1".into(), &"uid-of-train".into())
    );
}

#[tokio::test(start_paused = true)]
async fn what_happens_again_is_counted_and_written_once_a_minute() {
    let (client, requests) = server();
    let (recorder, writer) = recorder(client);
    let writer = tokio::spawn(writer);
    for _ in 0..120 {
        recorder.tell(job("train"), happened(Severity::Warning, "no worker fits"));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    drop(recorder);
    writer.await.unwrap();
    let requests = requests.lock().unwrap();
    let written: Vec<_> = requests.iter().map(|(method, event)| (method.as_str(), event["count"].as_u64())).collect();
    assert_eq!(written, [("POST", Some(1)), ("PATCH", Some(61))]);
}

#[tokio::test(start_paused = true)]
async fn one_object_in_trouble_neither_floods_the_server_nor_silences_the_others() {
    let (client, requests) = server();
    let (recorder, writer) = recorder(client);
    for number in 0..100 {
        recorder.tell(job("circle"), happened(Severity::Warning, &format!("round {number}")));
    }
    recorder.tell(job("train"), happened(Severity::Normal, "on worker eu-1"));
    drop(recorder);
    writer.await;
    let requests = requests.lock().unwrap();
    let about = |name: &str| requests.iter().filter(|(_, event)| event["involvedObject"]["name"] == name).count();
    assert_eq!((about("circle"), about("train")), (20, 1));
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_spread_over_time_and_what_does_not_fit_is_counted() {
    let (client, requests) = server();
    let (recorder, writer) = recorder(client);
    for number in 0..2000 {
        recorder.tell(job(&format!("job-{number}")), happened(Severity::Normal, "on worker eu-1"));
    }
    let kept = 2000 - recorder.dropped();
    recorder.tell(job("important"), happened(Severity::Warning, "refused"));
    assert_eq!(2000 - recorder.dropped(), kept, "a warning has room where the rest has none");
    drop(recorder);
    let started = Instant::now();
    writer.await;
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len() as u64, kept + 1);
    let beyond_the_burst = u32::try_from(requests.len()).unwrap() - BUDGET_BURST;
    let needed = BUDGET_STEP * beyond_the_burst;
    assert!(started.elapsed() >= needed && started.elapsed() <= needed * 2, "{:?}", started.elapsed());
}
