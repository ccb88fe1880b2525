//! Questions to a real API server, and its answers in short form.

use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use http::{Method, Request};
use jobferry_testkit::{RealCluster, User};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A loaded machine answers within a second.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

pub(crate) struct Server {
    api: Client,
    etcd: Client,
}

/// What the server said.
pub(crate) enum Answer {
    /// The object as stored now, without what differs from run to run.
    Accepted(Value),
    /// Kind and field of each cause, in the server's order.
    Refused(Value),
    /// Neither: the body could not be decoded, the name is taken, the server closed the connection.
    Unfit,
}

impl Server {
    pub(crate) async fn of(cluster: &RealCluster) -> Result<Self> {
        let etcd = kube::Config::new(cluster.etcd_url().parse().context("the URL of etcd")?);
        Ok(Self { api: cluster.client(User::Admin).await?, etcd: Client::try_from(etcd).context("a client for etcd")? })
    }

    /// The version of the server, such as `1.35.8`.
    pub(crate) async fn version(&self) -> Result<String> {
        let version = self.api.apiserver_version().await.context("asking for the version of the server")?;
        Ok(version.git_version.trim_start_matches('v').to_owned())
    }

    pub(crate) async fn create(&self, job: &Value) -> Result<Answer> {
        self.ask(Method::POST, JOBS, job).await
    }

    pub(crate) async fn update(&self, name: &str, job: &Value) -> Result<Answer> {
        self.ask(Method::PUT, &format!("{JOBS}/{name}"), job).await
    }

    pub(crate) async fn update_status(&self, name: &str, job: &Value) -> Result<Answer> {
        self.ask(Method::PUT, &format!("{JOBS}/{name}/status"), job).await
    }

    /// Writes a Job into the store behind the server's back, so that any stored state can be a start.
    pub(crate) async fn store(&self, name: &str, job: &Value) -> Result<()> {
        let base64 = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
        let body = json!({"key": base64(format!("/registry/jobs/default/{name}")), "value": base64(job.to_string())});
        let (code, _) = send(&self.etcd, Method::POST, "/v3/kv/put", &body).await?;
        anyhow::ensure!(code == 200, "etcd answered {code} to a put");
        Ok(())
    }

    async fn ask(&self, method: Method, path: &str, job: &Value) -> Result<Answer> {
        // The known panic of 1.35 closes the connection; such a question has no answer.
        let Ok((code, body)) = send(&self.api, method, path, job).await else { return Ok(Answer::Unfit) };
        Ok(match code {
            200 | 201 => Answer::Accepted(without_noise(body)),
            422 => causes(&body).map_or(Answer::Unfit, Answer::Refused),
            _ => Answer::Unfit,
        })
    }
}

async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Result<(u16, Value)> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string().into_bytes()))?;
    let answer = tokio::time::timeout(ANSWER_WITHIN, client.send(request)).await.context("no answer in time")??;
    let code = answer.status().as_u16();
    let body = answer.into_body().collect_bytes().await?;
    Ok((code, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

fn causes(status: &Value) -> Option<Value> {
    let causes = status.pointer("/details/causes")?.as_array()?;
    let short = causes.iter().map(|cause| {
        let kind = cause["reason"].as_str()?.trim_start_matches("FieldValue");
        Some(json!([kind, cause["field"]]))
    });
    short.collect::<Option<Vec<_>>>().map(Value::Array)
}

fn without_noise(mut job: Value) -> Value {
    if let Some(metadata) = job.get_mut("metadata").and_then(Value::as_object_mut) {
        for noise in ["resourceVersion", "creationTimestamp", "managedFields"] {
            metadata.remove(noise);
        }
    }
    job
}
