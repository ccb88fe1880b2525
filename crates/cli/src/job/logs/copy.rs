//! From the logs of many containers to one output, line by line, each run of a container once.

use std::collections::BTreeSet;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    log::{Log, Lost},
    pods::{self, Run},
};

pub(super) struct Copier {
    namespace: String,
    /// Whether a line says whose it is.
    prefixed: bool,
    many_containers: bool,
    copied: BTreeSet<Run>,
    told: BTreeSet<String>,
    followed: JoinSet<Result<(), Lost>>,
    job_ended: CancellationToken,
    /// Logs that could not be read, or not to their ends.
    lost: usize,
}

impl Copier {
    pub(super) fn new(namespace: &str, job: &Job, prefixed: bool) -> Self {
        let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let containers = pod.map_or(0, |pod| pod.containers.len() + pod.init_containers.as_ref().map_or(0, Vec::len));
        Self {
            namespace: namespace.to_owned(),
            prefixed,
            many_containers: containers > 1,
            copied: BTreeSet::new(),
            told: BTreeSet::new(),
            followed: JoinSet::new(),
            job_ended: CancellationToken::new(),
            lost: 0,
        }
    }

    /// Copies what these pods have now and did not have before.
    pub(super) async fn copy_all(&mut self, cluster: &Client, pods: &[Pod]) {
        for run in self.news(pods) {
            let prefix = self.prefix(&run);
            let outcome = self.log(cluster, run).copy(|line| println!("{prefix}{line}")).await;
            self.note(outcome);
        }
    }

    /// Copies what these pods have and will have, beside everything else.
    pub(super) fn follow(&mut self, cluster: &Client, pods: &[Pod]) {
        for run in self.news(pods) {
            let (prefix, job_ended) = (self.prefix(&run), self.job_ended.clone());
            let log = self.log(cluster, run);
            self.followed.spawn(async move { log.follow(&job_ended, |line| println!("{prefix}{line}")).await });
        }
    }

    /// The Job has ended: waits until every log that is followed has, too.
    pub(super) async fn end(&mut self) {
        self.job_ended.cancel();
        while let Some(outcome) = self.followed.join_next().await {
            self.note(outcome.unwrap_or(Ok(())));
        }
    }

    /// Whether all that there was is printed.
    pub(super) const fn is_whole(&self) -> bool {
        self.lost == 0
    }

    /// Whether anything was printed, or said about why there is nothing.
    pub(super) fn has_something(&self) -> bool {
        !self.copied.is_empty() || !self.told.is_empty()
    }

    /// Runs that were not copied yet; what keeps the others is said on the way.
    fn news(&mut self, pods: &[Pod]) -> Vec<Run> {
        for trouble in pods.iter().flat_map(pods::troubles) {
            if self.told.insert(trouble.clone()) {
                eprintln!("{trouble}");
            }
        }
        pods.iter().flat_map(pods::runs).filter(|run| self.copied.insert(run.clone())).collect()
    }

    fn note(&mut self, outcome: Result<(), Lost>) {
        if let Err(lost) = outcome {
            eprintln!("{lost}");
            self.lost += 1;
        }
    }

    fn log(&self, cluster: &Client, run: Run) -> Log {
        Log { cluster: cluster.clone(), namespace: self.namespace.clone(), run }
    }

    fn prefix(&self, run: &Run) -> String {
        match (self.prefixed, self.many_containers) {
            (false, _) => String::new(),
            (true, true) => format!("{}/{}: ", run.pod, run.container),
            (true, false) => format!("{}: ", run.pod),
        }
    }
}
