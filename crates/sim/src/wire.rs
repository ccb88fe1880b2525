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
use serde_json::Value;
use tower::ServiceExt;

use crate::admission::Rule;
use crate::facts::JobFacts;
use crate::hub::{Exchange, Hub};
use crate::narrow;
use crate::sabotage::Sabotage;
use crate::truth::Role;

/// An API server and somebody who talks to it.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) server: ApiServer,
    pub(crate) cluster: Arc<str>,
    pub(crate) who: Arc<str>,
    pub(crate) role: Role,
    pub(crate) hub: Arc<Hub>,
    /// A protection that is taken out of a dispatcher's requests.
    pub(crate) sabotage: Option<Sabotage>,
    /// What the cluster does to a dispatcher's requests at present.
    pub(crate) rule: Arc<Mutex<Option<Rule>>>,
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
        if let Some(answer) = narrow::discovery(&asked.path).filter(|_| self.role == Role::Cluster) {
            return Ok(Response::new(whole(answer.to_string().into())));
        }
        let (parts, body) = request.into_parts();
        let mut body = body.collect().await?.to_bytes();
        if let Some(sabotage) = self.sabotage.filter(|_| self.role == Role::Dispatcher) {
            body = sabotage.request(&self.cluster, &asked, body);
            if let Some((code, lie)) = sabotage.answer(&self.cluster, &asked, &body) {
                self.hub.log.say(format_args!("-- sabotage: {} {} is answered {code}", asked.method, asked.path));
                return Ok(said(code, &lie));
            }
        }
        let rule = *self.rule.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rule) = rule.filter(|_| self.role == Role::Dispatcher) {
            if let Some((code, refusal)) = rule.refuse(&asked) {
                self.log(&asked, job_of(&asked.path, &body).as_ref(), "", code.as_u16());
                return Ok(said(code, &refusal));
            }
            body = rule.change(&asked, body);
        }
        let is_write = asked.method != Method::GET;
        let job = is_write.then(|| job_of(&asked.path, &body)).flatten();
        let target = match &job {
            Some(job) if self.role == Role::Dispatcher => self.read(job).await,
            _ => None,
        };
        let response = self.ask(Request::from_parts(parts, Full::new(body.clone()))).await;
        let code = response.status().as_u16();
        self.log(&asked, job.as_ref(), &gist(&asked, &body), code);
        if asked.is_watch {
            return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
        }
        if let Some(job) = job.as_ref().filter(|_| code < 300) {
            let after = self.read(job).await;
            self.hub.changed(&self.cluster, &job.name, after.as_ref(), self.role);
        }
        if is_write {
            let Self { who, cluster, role, .. } = &self;
            let (who, cluster) = (who.to_string(), cluster.to_string());
            let Asked { method, path, .. } = asked;
            self.hub.asked(&Exchange { who, role: *role, cluster, method, path, body, code, target });
        }
        Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
    }

    fn log(&self, asked: &Asked, job: Option<&JobPath>, gist: &str, code: u16) {
        let Self { who, cluster, .. } = self;
        let Asked { method, path, is_watch } = asked;
        let verb = if *is_watch { "WATCH" } else { method.as_str() };
        let name = job.filter(|_| *method == Method::POST).map_or("", |job| job.name.as_str());
        self.hub.log.say(format_args!("{cluster}: {who} {verb} {path} {name}{gist} -> {code}"));
    }

    /// A Job as it is stored now.
    async fn read(&self, job: &JobPath) -> Option<JobFacts> {
        let request = Request::get(&job.path).body(Full::new(Bytes::new())).ok()?;
        let response = self.ask(request).await;
        if response.status() != 200 {
            return None;
        }
        let body = response.into_body().collect().await.ok()?.to_bytes();
        let job: Value = serde_json::from_slice(&body).ok()?;
        Some(JobFacts::of(&job))
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> Response<ResponseBody> {
        match self.server.service().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
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

/// The Job that a write is about.
fn job_of(path: &str, body: &[u8]) -> Option<JobPath> {
    let rest = path.strip_prefix("/apis/batch/v1/namespaces/")?;
    let mut parts = rest.split('/');
    let (namespace, "jobs") = (parts.next()?, parts.next()?) else { return None };
    let name = if let Some(name) = parts.next() {
        name.to_owned()
    } else {
        let body: Value = serde_json::from_slice(body).ok()?;
        body["metadata"]["name"].as_str()?.to_owned()
    };
    Some(JobPath { path: format!("/apis/batch/v1/namespaces/{namespace}/jobs/{name}"), name })
}
