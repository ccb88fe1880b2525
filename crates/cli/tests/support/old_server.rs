//! A server from before `spec.managedBy`: it answers what the CLI asks of it, and stores Jobs without that field.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use serde_json::{Value, json};

/// Starts one that serves as long as the test runs, and returns its kubeconfig.
pub(crate) fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || while answer(&stream).is_some() {});
        }
    });
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "old",
        "clusters": [{"name": "old", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "old", "user": {"token": "any"}}],
        "contexts": [{"name": "old", "context": {"cluster": "old", "user": "old"}}],
    });
    config.to_string()
}

fn answer(mut stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut lines = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let request = lines.next()?;
    let length = lines.filter_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok()).last();
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let (code, answer) = respond(&request, &body);
    let text = answer.to_string();
    let head = format!("HTTP/1.1 {code} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", text.len());
    stream.write_all((head + &text).as_bytes()).ok()
}

fn respond(request: &str, body: &[u8]) -> (u16, Value) {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    if request.starts_with("GET /version ") {
        return (200, json!({"major": "1", "minor": "31", "gitVersion": "v1.31.9"}));
    }
    if request.starts_with("POST /apis/batch/v1/namespaces/default/jobs?") {
        let mut stored = object;
        stored["spec"].as_object_mut().map(|spec| spec.remove("managedBy"));
        return (201, stored);
    }
    if request.starts_with("POST /apis/authorization.k8s.io/") {
        return (201, json!({"status": {"allowed": true}}));
    }
    let message = "the server could not find the requested resource";
    (404, json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": message}))
}
