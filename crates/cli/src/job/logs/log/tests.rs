use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use super::*;

/// What a server answers to one request.
enum Answer {
    /// A whole log.
    Whole(&'static str),
    /// A log that breaks off.
    Cut(&'static str),
    /// A pod whose container is in this state.
    Pod(&'static str),
    /// No such pod.
    Gone,
    Status(u16),
}

/// Follows a log, which must come to an end.
async fn follow(cluster: Client) -> (Vec<String>, Result<(), Lost>) {
    let mut printed = Vec::new();
    let (log, job_ended) = (log(cluster), CancellationToken::new());
    let followed = log.follow(&job_ended, |line| printed.push(line.to_owned()));
    let outcome = tokio::time::timeout(Duration::from_secs(60), followed).await.expect("it goes on for ever");
    (printed, outcome)
}

/// A server that gives these answers, one after the other; returns its client and, later, what it was asked for.
fn server(answers: Vec<Answer>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let heard = Arc::clone(&asked);
    std::thread::spawn(move || {
        for (answer, stream) in answers.into_iter().zip(listener.incoming().flatten()) {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            heard.lock().unwrap().push(lines.next().unwrap_or_default());
            lines.for_each(drop);
            give(&stream, &answer);
        }
    });
    let mut config = kube::Config::new(format!("http://{address}").parse().unwrap());
    config.default_retry = false;
    (Client::try_from(config).unwrap(), asked)
}

fn give(mut stream: &TcpStream, answer: &Answer) {
    let (code, body, missing) = match answer {
        Answer::Whole(text) => (200, (*text).to_owned(), 0),
        Answer::Cut(text) => (200, (*text).to_owned(), 1),
        Answer::Pod(state) => {
            let container =
                format!(r#"{{"name":"main","image":"","imageID":"","ready":false,"restartCount":0,"state":{state}}}"#);
            (200, format!(r#"{{"metadata":{{"name":"p"}},"status":{{"containerStatuses":[{container}]}}}}"#), 0)
        }
        Answer::Gone => {
            let status = r#"{"kind":"Status","code":404,"reason":"NotFound","message":"m","details":{"name":"p"}}"#;
            (404, status.to_owned(), 0)
        }
        Answer::Status(code) => (*code, String::new(), 0),
    };
    let length = body.len() + missing;
    let head = format!("HTTP/1.1 {code} x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all((head + &body).as_bytes()).unwrap();
}

fn log(cluster: Client) -> Log {
    Log { cluster, namespace: "ml".into(), run: Run { pod: "p".into(), container: "main".into(), restarts: 0 } }
}

const RUNNING: &str = r#"{"running":{}}"#;
const ENDED: &str = r#"{"terminated":{"exitCode":0,"reason":"Completed"}}"#;

#[tokio::test]
async fn a_followed_log_that_breaks_off_goes_on_where_it_broke() {
    let (cluster, asked) = server(vec![
        Answer::Pod(RUNNING),
        Answer::Cut("2026-01-01T00:00:01.1Z one\n2026-01-01T00:00:01.5Z two\n2026-01-01T00:00:01.5Z thr"),
        Answer::Status(503),
        Answer::Pod(RUNNING),
        Answer::Whole("2026-01-01T00:00:01.1Z one\n2026-01-01T00:00:01.5Z two\n2026-01-01T00:00:01.5Z three\n"),
        Answer::Pod(ENDED),
        Answer::Whole("2026-01-01T00:00:01.5Z two\n2026-01-01T00:00:01.5Z three\n2026-01-01T00:00:02Z four"),
    ]);
    let (printed, outcome) = follow(cluster).await;
    assert!(outcome.is_ok());
    assert_eq!(printed, ["one", "two", "three", "four"]);
    let asked = asked.lock().unwrap();
    assert!(asked[1].contains("follow=true") && !asked[1].contains("sinceTime"), "{}", asked[1]);
    assert!(asked[4].contains("follow=true") && asked[4].contains("sinceTime=2026-01-01T00:00:01Z"), "{}", asked[4]);
    assert!(asked[6].contains("follow=false"), "{}", asked[6]);
}

#[tokio::test]
async fn a_log_that_is_refused_or_never_comes_to_its_end_is_told() {
    let (cluster, _) = server(vec![Answer::Status(403)]);
    let refused = log(cluster).copy(|_| {}).await.unwrap_err().to_string();
    assert_eq!(refused, "the log of pod p, container main, cannot be read: the cluster answers 403 Forbidden");

    let (cluster, _) = server(vec![Answer::Pod(RUNNING), Answer::Cut("2026-01-01T00:00:01Z one\n"), Answer::Gone]);
    let (printed, lost) = follow(cluster).await;
    assert_eq!(printed, ["one"]);
    assert!(lost.unwrap_err().to_string().contains("cannot be read to its end"));
}

#[test]
fn lines_of_a_place_that_was_passed_are_left_out_and_lines_without_time_are_not() {
    let mut place = Place::default();
    let mut pass = |line: &str| place.pass(line.as_bytes()).map(|text| String::from_utf8(text.to_vec()).unwrap());
    assert_eq!(pass("2026-01-01T00:00:02Z a b").as_deref(), Some("a b"));
    assert_eq!(pass("2026-01-01T00:00:01Z earlier").as_deref(), Some("earlier"));
    assert_eq!(pass("no time").as_deref(), Some("no time"));
    assert_eq!(pass("2026-01-01T00:00:02Z").as_deref(), Some(""));
    assert!(place.resume().is_some());
    let seen = ["2026-01-01T00:00:02Z a b", "2026-01-01T00:00:01Z earlier", "2026-01-01T00:00:02Z"];
    assert!(seen.iter().all(|line| place.pass(line.as_bytes()).is_none()));
    assert_eq!(place.pass(b"2026-01-01T00:00:02Z new"), Some(&b"new"[..]));
}
