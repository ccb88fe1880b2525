//! Whatever comes over HTTP, the answer is an answer: never a panic, never silence, every refusal a `Status`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use jobferry_apiserver::{ApiServer, Credentials, Options};
use k8s_openapi::jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

const REQUESTS: usize = 6000;

/// A source of bad ideas.
struct Chaos(ChaCha8Rng);

impl Chaos {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.next_u64() % u64::try_from(bound).unwrap()).unwrap()
    }

    fn one<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }

    fn bytes(&mut self, limit: usize) -> Vec<u8> {
        (0..self.below(limit)).map(|_| self.0.next_u64().to_le_bytes()[0]).collect()
    }

    fn junk(&mut self) -> Value {
        match self.below(12) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(i64::MIN),
            3 => json!(u64::MAX),
            4 => json!(1e300),
            5 => json!(""),
            6 => json!("\u{0}\u{ffff}\n../..%2f"),
            7 => json!("x".repeat(70_000)),
            8 => json!([[[[]], {"a": [null]}]]),
            9 => json!({"": {"": {}}, "$patch": "delete", "~1": 1}),
            10 => json!({"type": null, "status": 5}),
            _ => json!([1, "a", null, {"name": "x"}, {"name": "x"}]),
        }
    }

    /// Puts junk somewhere into a tree.
    fn spoil(&mut self, value: &mut Value) {
        match value {
            Value::Object(entries) if !entries.is_empty() && self.below(4) > 0 => {
                let at = self.below(entries.len());
                if let Some(entry) = entries.values_mut().nth(at) {
                    self.spoil(entry);
                }
            }
            Value::Array(items) if !items.is_empty() && self.below(4) > 0 => {
                let at = self.below(items.len());
                self.spoil(&mut items[at]);
            }
            other => *other = self.junk(),
        }
    }

    fn job(&mut self) -> Value {
        let name = self.one(&["a", "b", "c", "A", "", "..", "x.y"]).to_owned();
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": {"a": "b"},
            "finalizers": ["a/b"], "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]},
            "spec": {"completionMode": "Indexed", "completions": 3, "parallelism": 2,
            "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]},
            "successPolicy": {"rules": [{"succeededIndexes": "0-1"}]},
            "template": {"metadata": {"labels": {"x": "y"}}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "m", "image": "i", "resources": {"limits": {"cpu": "1"}},
            "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}]}]}}},
            "status": {"active": 1, "conditions": [{"type": "Complete", "status": "True"}]}})
    }

    fn definition(&mut self) -> Value {
        let mut definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "boats.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat"}, "versions": [{"name": "v1", "served": true, "storage": true,
            "additionalPrinterColumns": [{"name": "P", "type": "string", "jsonPath": ".spec.port[?(@.a==\"b\")]"}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"port": {"type": "array", "items": {"type": "string", "pattern": "^a", "maxLength": 3}},
            "n": {"type": "integer", "default": 5, "multipleOf": 2}}}}}}}]}});
        if self.below(3) > 0 {
            self.spoil(&mut definition);
        }
        definition
    }

    fn path(&mut self) -> String {
        let base = self.one(&[
            "/apis/batch/v1/namespaces/default/jobs",
            "/apis/batch/v1/jobs",
            "/api/v1/namespaces/default/pods",
            "/api/v1/namespaces/default/configmaps",
            "/api/v1/namespaces/default/secrets",
            "/api/v1/namespaces",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "/apis/example.com/v1/namespaces/default/boats",
            "/api/v1/namespaces/%2e%2e/jobs",
            "/api/v1//pods",
            "/openapi/v3/apis/batch/v1",
            "/apis/batch",
            "/version",
            "/x/%ff/%00",
        ]);
        let tail = self.one(&[
            "",
            "",
            "/a",
            "/b",
            "/boats.example.com",
            "/a/status",
            "/a/binding",
            "/a/log",
            "/a/../b",
            "/%20",
        ]);
        let query = self.one(&[
            "",
            "",
            "?labelSelector=a%3Db,c%20in%20(d",
            "?labelSelector=%ff%fe,,!",
            "?fieldSelector=metadata.name%3Da,spec.x!%3D1",
            "?limit=1",
            "?limit=-1",
            "?continue=eyJ2IjoxfQ",
            "?continue=%00%ff",
            "?resourceVersion=99999999999&timeoutSeconds=1",
            "?resourceVersion=-5",
            "?watch=1&timeoutSeconds=1",
            "?watch=true&resourceVersion=1&timeoutSeconds=1&allowWatchBookmarks=1",
            "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
            "?dryRun=All&fieldValidation=Strict",
            "?fieldManager=me&force=true",
            "?fieldManager=me",
            "?gracePeriodSeconds=-9&propagationPolicy=Foreground",
            "?&&=&%=%",
        ]);
        format!("{base}{tail}{query}")
    }

    fn body(&mut self) -> Vec<u8> {
        match self.below(10) {
            0 => Vec::new(),
            1 => self.bytes(200),
            2 => [b"k8s\0".to_vec(), self.bytes(300)].concat(),
            3 => [vec![b'['; 5000], vec![b']'; 5000]].concat(),
            4 => b"a: &x [*x]\nb: !!binary ///\n- {\n".to_vec(),
            5 => json!([{"op": "test", "path": "/spec/x", "value": self.junk()}, {"op": "move", "from": "/metadata", "path": "/spec/a"}]).to_string().into_bytes(),
            6 => self.definition().to_string().into_bytes(),
            7 => {
                let mut text = self.job().to_string().into_bytes();
                let at = self.below(text.len());
                text[at] = self.bytes(2).first().copied().unwrap_or(b'"');
                text
            }
            8 => self.job().to_string().into_bytes(),
            _ => {
                let mut job = self.job();
                for _ in 0..=self.below(4) {
                    self.spoil(&mut job);
                }
                job.to_string().into_bytes()
            }
        }
    }

    fn request(&mut self) -> Request<Full<Bytes>> {
        let methods =
            [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::OPTIONS];
        let content = self.one(&[
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/json-patch+json",
            "application/apply-patch+yaml",
            "text/plain; charset=\"",
        ]);
        let accept = self.one(&[
            "application/json",
            "*/*",
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            "text/html",
            ";;=,",
            "application/json;as=PartialObjectMetadataList;v=v1",
        ]);
        let method = methods[self.below(methods.len())].clone();
        let builder = Request::builder().method(method).header("content-type", content).header("accept", accept);
        let body = Full::new(Bytes::from(self.body()));
        builder.uri(self.path()).body(body).unwrap()
    }
}

fn server() -> ApiServer {
    ApiServer::new(Options { history: 64, ..Options::new(|| Timestamp::UNIX_EPOCH, 3) })
}

#[tokio::test(start_paused = true)]
async fn any_request_gets_a_proper_answer() {
    let server = server();
    let mut chaos = Chaos(ChaCha8Rng::seed_from_u64(2026));
    let (mut fine, mut refused) = (0, 0);
    for number in 0..REQUESTS {
        let request = chaos.request();
        let told = format!("request {number}: {} {}", request.method(), request.uri());
        let answer = tokio::time::timeout(Duration::from_secs(60), async {
            let response = server.clone().oneshot(request).await.unwrap();
            let code = response.status().as_u16();
            (code, response.into_body().collect().await.unwrap().to_bytes())
        });
        let (code, body) = answer.await.unwrap_or_else(|_| panic!("{told}: no answer"));
        assert_ne!(code, 500, "{told}: {}", String::from_utf8_lossy(&body));
        if code < 400 {
            fine += 1;
            continue;
        }
        refused += 1;
        let status: Value = serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{told}: {error}"));
        let seen = (&status["kind"], &status["code"], status["message"].is_string());
        assert_eq!(seen, (&json!("Status"), &json!(code), true), "{told}");
    }
    assert!(fine > REQUESTS / 50 && refused > REQUESTS / 4, "the mix is poor: {fine} fine, {refused} refused");
}

#[tokio::test(start_paused = true)]
async fn a_body_beyond_the_limit_is_refused() {
    for (size, code) in [(3 * 1024 * 1024 + 1, 413), (3 * 1024 * 1024, 400)] {
        let body = Full::new(Bytes::from(vec![b' '; size]));
        let request = Request::post("/api/v1/namespaces").body(body).unwrap();
        let response = server().oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), code, "{size} bytes");
    }
}

#[tokio::test]
async fn noise_on_the_socket_harms_nobody() {
    let credentials = Credentials::generate().unwrap();
    let serving = server().serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), &credentials).unwrap();
    let mut chaos = Chaos(ChaCha8Rng::seed_from_u64(7));
    let mut open = Vec::new();
    for round in 0..40 {
        let mut stream = TcpStream::connect(serving.address()).await.unwrap();
        let noise = if round % 2 == 0 { b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec() } else { chaos.bytes(500) };
        drop(stream.write_all(&noise).await);
        if round % 4 == 0 {
            // Stays connected and says nothing more.
            open.push(stream);
        } else {
            drop(tokio::time::timeout(Duration::from_millis(20), stream.read(&mut [0; 64])).await);
        }
    }
    let config = kube::config::Kubeconfig::from_yaml(&credentials.access(serving.address()).kubeconfig("x")).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let version = tokio::time::timeout(Duration::from_secs(10), client.apiserver_version()).await.unwrap().unwrap();
    assert_eq!(version.minor, "35");
    serving.shutdown().await;
}
