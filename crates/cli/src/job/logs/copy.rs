//! From the logs of many containers to one output, line by line, each run of a container once.

use std::{collections::BTreeSet, pin::pin};

use anyhow::{Context as _, bail};
use bytes::BytesMut;
use futures::StreamExt;
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Client, client::Body};
use tokio::task::JoinSet;

use super::pods::{self, Run};
use crate::install::DEADLINE;

pub(super) struct Copier {
    namespace: String,
    /// Lines of several pods are told apart by the pod's name.
    many_pods: bool,
    many_containers: bool,
    copied: BTreeSet<Run>,
    told: BTreeSet<String>,
    tasks: JoinSet<()>,
}

impl Copier {
    pub(super) fn new(namespace: &str, job: &Job) -> Self {
        let spec = job.spec.as_ref();
        let many = |count: Option<i32>| count.is_some_and(|count| count > 1);
        let pod = spec.and_then(|spec| spec.template.spec.as_ref());
        let containers = pod.map_or(0, |pod| pod.containers.len() + pod.init_containers.as_ref().map_or(0, Vec::len));
        Self {
            namespace: namespace.to_owned(),
            many_pods: spec.is_some_and(|spec| many(spec.completions) || many(spec.parallelism)),
            many_containers: containers > 1,
            copied: BTreeSet::new(),
            told: BTreeSet::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Copies what these pods have now and did not have before. Returns whether anything was ever copied or told.
    pub(super) async fn copy_all(&mut self, cluster: &Client, pods: Vec<Pod>) -> anyhow::Result<bool> {
        self.many_pods |= pods.len() > 1;
        for pod in &pods {
            self.tell_troubles(pod);
            for run in pods::runs(pod) {
                if self.copied.insert(run.clone()) {
                    copy(cluster, &self.path(&run, false), &self.prefix(&run), &run).await?;
                }
            }
        }
        Ok(!self.copied.is_empty() || !self.told.is_empty())
    }

    /// Copies what these pods have and will have, beside everything else.
    pub(super) fn follow(&mut self, cluster: &Client, pods: &[Pod]) {
        for pod in pods {
            self.tell_troubles(pod);
            for run in pods::runs(pod) {
                if self.copied.insert(run.clone()) {
                    let (cluster, path, prefix) = (cluster.clone(), self.path(&run, true), self.prefix(&run));
                    self.tasks.spawn(async move {
                        if let Err(error) = copy(&cluster, &path, &prefix, &run).await {
                            eprintln!("{error:#}");
                        }
                    });
                }
            }
        }
    }

    /// Waits until every log that is followed has ended.
    pub(super) async fn end(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    fn tell_troubles(&mut self, pod: &Pod) {
        for trouble in pods::troubles(pod) {
            if self.told.insert(trouble.clone()) {
                eprintln!("{trouble}");
            }
        }
    }

    fn path(&self, run: &Run, follow: bool) -> String {
        let Run { pod, container, .. } = run;
        format!("/api/v1/namespaces/{}/pods/{pod}/log?container={container}&follow={follow}", self.namespace)
    }

    fn prefix(&self, run: &Run) -> String {
        match (self.many_pods, self.many_containers) {
            (_, true) => format!("{}/{}: ", run.pod, run.container),
            (true, false) => format!("{}: ", run.pod),
            (false, false) => String::new(),
        }
    }
}

/// Prints a log line by line as it comes.
async fn copy(cluster: &Client, path: &str, prefix: &str, run: &Run) -> anyhow::Result<()> {
    let what = || format!("the log of pod {}, container {}, cannot be read", run.pod, run.container);
    let request = Request::get(path).body(Body::empty())?;
    let answer = tokio::time::timeout(DEADLINE, cluster.send(request)).await.with_context(what)?.with_context(what)?;
    if !answer.status().is_success() {
        bail!("{}: the cluster answers {}", what(), answer.status());
    }
    let mut body = pin!(answer.into_body().into_data_stream());
    let mut rest = BytesMut::new();
    while let Some(chunk) = body.next().await {
        rest.extend_from_slice(&chunk.with_context(what)?);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = rest.split_to(end + 1);
            println!("{prefix}{}", String::from_utf8_lossy(&line[..end]));
        }
    }
    if !rest.is_empty() {
        println!("{prefix}{}", String::from_utf8_lossy(&rest));
    }
    Ok(())
}
