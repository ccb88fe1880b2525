//! A server of some version that answers what the CLI asks of it, and stores Jobs without `spec.managedBy`, as servers did
//! before that field.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// Starts one that serves as long as the test runs, and returns its kubeconfig.
pub(crate) fn start(version: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || while answer(&stream, version).is_some() {});
        }
    });
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "old",
        "clusters": [{"name": "old", "cluster": {
            "server": format!("http://{address}"), "certificate-authority-data": any_authority(),
        }}],
        "users": [{"name": "old", "user": {"token": "any"}}],
        "contexts": [{"name": "old", "context": {"cluster": "old", "user": "old"}}],
    });
    config.to_string()
}

/// Nobody is joined without one.
fn any_authority() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let authority = rcgen::CertificateParams::default().self_signed(&key).unwrap();
    BASE64_STANDARD.encode(authority.pem())
}

fn answer(mut stream: &TcpStream, version: &str) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut lines = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let request = lines.next()?;
    let length = lines.filter_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok()).last();
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let (code, answer) = respond(version, &request, &body);
    let text = answer.to_string();
    let head = format!("HTTP/1.1 {code} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", text.len());
    stream.write_all((head + &text).as_bytes()).ok()
}

fn respond(version: &str, request: &str, body: &[u8]) -> (u16, Value) {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    if request.starts_with("GET /version ") {
        return (200, json!({ "gitVersion": version }));
    }
    if request.starts_with("GET /api/v1/namespaces/kube-system ") {
        return (200, json!({"metadata": {"name": "kube-system", "uid": format!("the cluster with {version}")}}));
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
