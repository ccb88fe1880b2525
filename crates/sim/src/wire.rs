//! The last step before an API server: every request of everybody passes here, so this is where the truth is seen.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use jobferry_apiserver::{ApiServer, ResponseBody};
use jobferry_testkit::fault::{AnswerBody, Asked, BoxError};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

use crate::admission::Rule;
use crate::cluster::Address;
use crate::ear::Sent;
use crate::etl;
use crate::facts::JobFacts;
use crate::hub::{Exchange, Hub};
use crate::narrow;
use crate::sabotage::Sabotage;
use crate::truth::{Role, is_manager};

/// An API server and somebody who talks to it.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) address: Address,
    pub(crate) cluster: Arc<str>,
    pub(crate) who: Arc<str>,
    pub(crate) role: Role,
    /// The manager that a dispatcher works for.
    pub(crate) home: Arc<str>,
    pub(crate) hub: Arc<Hub>,
    /// Whether there are other kinds than Job.
    pub(crate) mixed: bool,
    /// A protection that is taken out of a dispatcher's requests.
    pub(crate) sabotage: Option<Sabotage>,
    /// What the cluster does to a dispatcher's requests at present.
    pub(crate) rules: Arc<Mutex<Vec<Rule>>>,
}

impl tower::Service<Request<Body>> for Wire {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<AnswerBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().carry(request))
    }
}

impl Wire {
    async fn carry(self, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let asked = Asked::of(&request);
        if let Some(answer) = narrow::discovery(&asked.path, self.mixed).filter(|_| self.role == Role::Cluster) {
            return Ok(Response::new(whole(answer.to_string().into())));
        }
        let (parts, body) = request.into_parts();
        let sent = parts.extensions.get::<Sent>().map_or_else(Instant::now, |sent| sent.0);
        let mut body = body.collect().await?.to_bytes();
        if let Some(sabotage) = self.sabotage.filter(|_| self.role == Role::Dispatcher) {
            if let Some(time) = sabotage.waits(&self.cluster, &asked)
                && self.hub.truth(|truth| truth.is_another_in_trouble(&self.cluster))
            {
                tokio::time::sleep(time).await;
            }
            body = sabotage.request(&self.cluster, &asked, body);
            if let Some((code, lie)) = sabotage.answer(&self.cluster, &asked, &body) {
                self.hub.log.say(format_args!("-- sabotage: {} {} is answered {code}", asked.method, asked.path));
                return Ok(said(code, &lie));
            }
        }
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for rule in rules.into_iter().filter(|_| self.role == Role::Dispatcher) {
            if let Some((code, refusal)) = rule.refuse(&asked) {
                self.log(&asked, job_of(&asked.path, &body).as_ref(), "", code.as_u16());
                self.report(asked, (body, sent), code.as_u16(), None);
                return Ok(said(code, &refusal));
            }
            body = rule.change(&asked, body);
        }
        let is_write = asked.method != Method::GET;
        let job = is_write.then(|| job_of(&asked.path, &body)).flatten();
        let (number, server) = self.address.resolve();
        let target = match &job {
            Some(job) if self.role == Role::Dispatcher => read(&server, &job.path).await,
            _ => None,
        };
        let response = ask(&server, Request::from_parts(parts, Full::new(body.clone()))).await;
        let code = response.status().as_u16();
        self.log(&asked, job.as_ref(), &gist(&asked, &body), code);
        if asked.is_watch {
            return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
        }
        // What happens in a cluster that was replaced meanwhile is of no interest to anybody.
        let is_there = self.address.resolve().0 == number;
        if let Some(job) = job.as_ref().filter(|_| code < 300 && is_there) {
            let after = read(&server, &job.path).await;
            let is_new = asked.method == Method::POST && self.role == Role::Dispatcher && !is_manager(&self.cluster);
            if let Some(made) = after.as_ref().filter(|_| is_new) {
                self.hub.made(made, &self.home);
            }
            self.hub.changed(&self.cluster, &job.name, after.as_ref(), self.role);
        }
        if is_there {
            self.report(asked, (body, sent), code, target);
        }
        Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
    }

    /// Tells the hub of a write.
    fn report(&self, asked: Asked, (body, sent): (Bytes, Instant), code: u16, target: Option<JobFacts>) {
        let Self { who, home, cluster, role, .. } = self;
        let (who, home, cluster) = (who.to_string(), home.to_string(), cluster.to_string());
        let Asked { method, path, .. } = asked;
        if method != Method::GET {
            self.hub.asked(&Exchange { who, home, role: *role, cluster, method, path, body, sent, code, target });
        }
    }

    fn log(&self, asked: &Asked, job: Option<&JobPath>, gist: &str, code: u16) {
        let Self { who, cluster, .. } = self;
        let Asked { method, path, is_watch } = asked;
        let verb = if *is_watch { "WATCH" } else { method.as_str() };
        let name = job.filter(|_| *method == Method::POST).map_or("", |job| job.name.as_str());
        self.hub.log.say(format_args!("{cluster}: {who} {verb} {path} {name}{gist} -> {code}"));
    }

    /// One write that concerns nobody here, and is not told.
    pub(crate) async fn write_elsewhere(&self, number: u32) {
        let (_, server) = self.address.resolve();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "elsewhere"},
                            "data": {"number": number.to_string()}});
        let path = "/api/v1/namespaces/default/configmaps";
        let request = if number == 0 { Request::post(path) } else { Request::put(format!("{path}/elsewhere")) };
        if let Ok(request) = request.body(Full::new(object.to_string().into())) {
            ask(&server, request).await;
        }
    }

    /// Who the cluster is, and all of its Jobs.
    pub(crate) async fn census(&self) -> (String, Vec<JobFacts>) {
        let (_, server) = self.address.resolve();
        let system = fetch(&server, "/api/v1/namespaces/kube-system").await.unwrap_or_default();
        let mut jobs = Vec::new();
        for collection in ["/apis/batch/v1/jobs", etl::EVERYWHERE] {
            let list = fetch(&server, collection).await.unwrap_or_default();
            jobs.extend(list["items"].as_array().into_iter().flatten().map(JobFacts::of));
        }
        (system["metadata"]["uid"].as_str().unwrap_or_default().to_owned(), jobs)
    }
}

/// A Job as it is stored now.
async fn read(server: &ApiServer, path: &str) -> Option<JobFacts> {
    fetch(server, path).await.map(|job| JobFacts::of(&job))
}

async fn fetch(server: &ApiServer, path: &str) -> Option<Value> {
    let response = ask(server, Request::get(path).body(Full::new(Bytes::new())).ok()?).await;
    if response.status() != 200 {
        return None;
    }
    let body = response.into_body().collect().await.ok()?.to_bytes();
    serde_json::from_slice(&body).ok()
}

async fn ask(server: &ApiServer, request: Request<Full<Bytes>>) -> Response<ResponseBody> {
    match server.service().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn said(code: StatusCode, what: &Value) -> Response<AnswerBody> {
    let mut answer = Response::new(whole(what.to_string().into()));
    *answer.status_mut() = code;
    answer
}

fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// What a write of a status says: its conditions.
fn gist(asked: &Asked, body: &[u8]) -> String {
    if asked.method != Method::PATCH || !asked.path.ends_with("/status") {
        return String::new();
    }
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let conditions = body["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let word = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let said =
        conditions.iter().map(|condition| ["type", "status", "reason"].map(|field| word(condition, field)).join("="));
    format!("({})", said.collect::<Vec<_>>().join(", "))
}

/// Where a Job is to be read.
struct JobPath {
    path: String,
    name: String,
}

/// The workload or mirror, a Job or of another kind, that a write is about.
fn job_of(path: &str, body: &[u8]) -> Option<JobPath> {
    let group = ["/apis/batch/v1", etl::GROUP].into_iter().find(|group| path.starts_with(group))?;
    let mut parts = path[group.len()..].strip_prefix("/namespaces/")?.split('/');
    let (namespace, plural @ ("jobs" | "etlruns")) = (parts.next()?, parts.next()?) else { return None };
    let name = if let Some(name) = parts.next() {
        name.to_owned()
    } else {
        let body: Value = serde_json::from_slice(body).ok()?;
        body["metadata"]["name"].as_str()?.to_owned()
    };
    Some(JobPath { path: format!("{group}/namespaces/{namespace}/{plural}/{name}"), name })
}
