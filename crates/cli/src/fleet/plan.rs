//! What a fleet consists of: `--workers N`, or a file.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, anyhow, ensure};
use serde::{Deserialize, Serialize};

use crate::{label, worker};

/// The name of the management cluster among the fleet's clusters.
pub(crate) const MANAGER: &str = "manager";

/// The workers of a fleet. The form of `fleet.yaml`:
///
/// ```yaml
/// workers:
///   - name: eu-1
///     labels: {region: eu, gpu: a100}
///     capacity: {cpu: "8", memory: 16Gi}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FleetPlan {
    pub(crate) workers: Vec<WorkerPlan>,
}

/// A worker to start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WorkerPlan {
    /// Its name.
    pub(crate) name: String,
    /// Labels of its `Worker`.
    pub(crate) labels: BTreeMap<String, String>,
    /// What its node offers to pods; by default what this machine has.
    pub(crate) capacity: BTreeMap<String, String>,
}

impl FleetPlan {
    /// `worker-1`, `worker-2`, ...
    pub(crate) fn numbered(workers: u16) -> Self {
        let worker = |number| WorkerPlan { name: format!("worker-{number}"), ..WorkerPlan::default() };
        Self { workers: (1..=workers).map(worker).collect() }
    }

    /// Reads `fleet.yaml`.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let file = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("fleet file {file}"))?;
        let plan: Self = serde_saphyr::from_str(&text).with_context(|| format!("fleet file {file}"))?;
        plan.check().with_context(|| format!("fleet file {file}"))?;
        Ok(plan)
    }

    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.workers.is_empty(), "`workers` is empty; name at least one");
        for (at, worker) in self.workers.iter().enumerate() {
            let name = &worker.name;
            worker::check_name(name).with_context(|| format!("workers[{at}].name"))?;
            ensure!(name != MANAGER, "workers[{at}].name: `{MANAGER}` is the management cluster; choose another name");
            label::check_all(&worker.labels).map_err(|why| anyhow!("workers[{at}].labels: {why}"))?;
            for (resource, amount) in &worker.capacity {
                let whole = job_api::quantity::canonical(amount).filter(|text| !text.starts_with('-'));
                let form = "write an amount such as 8, 0.5 or 16Gi";
                ensure!(whole.is_some(), "workers[{at}].capacity.{resource} `{amount}` is not a quantity; {form}");
            }
            let twin = self.workers[..at].iter().position(|other| other.name == *name);
            ensure!(twin.is_none(), "workers[{at}].name: `{name}` is there twice");
        }
        Ok(())
    }

    /// The keys of labels that a worker had in this plan and has no longer in `next`.
    pub(crate) fn labels_gone<'a>(&'a self, next: &'a WorkerPlan) -> impl Iterator<Item = &'a String> {
        let before = self.workers.iter().filter(|worker| worker.name == next.name);
        before.flat_map(|worker| worker.labels.keys()).filter(|key| !next.labels.contains_key(*key))
    }

    /// A name of `before` that this plan lacks.
    pub(crate) fn lacks<'a>(&self, before: &'a Self) -> Option<&'a str> {
        let has = |name: &str| self.workers.iter().any(|worker| worker.name == name);
        before.workers.iter().map(|worker| worker.name.as_str()).find(|name| !has(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<FleetPlan> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), text)?;
        FleetPlan::read(file.path())
    }

    #[test]
    fn a_fleet_file_names_workers_with_labels_and_capacity() {
        let plan = read("workers: [{name: eu-1, labels: {region: eu}, capacity: {cpu: '8'}}, {name: us-1}]").unwrap();
        assert_eq!(plan.workers[0].labels["region"], "eu");
        assert_eq!(plan.workers[0].capacity["cpu"], "8");
        assert_eq!(plan.lacks(&FleetPlan::numbered(1)), Some("worker-1"));
        assert_eq!(FleetPlan::numbered(3).lacks(&FleetPlan::numbered(2)), None);
    }

    #[test]
    fn a_label_that_is_taken_out_of_the_file_is_known_by_its_key() {
        let before = read("workers: [{name: eu-1, labels: {region: eu, gpu: a100}}, {name: us-1}]").unwrap();
        let next = read("workers: [{name: eu-1, labels: {region: us}}]").unwrap();
        assert_eq!(before.labels_gone(&next.workers[0]).collect::<Vec<_>>(), ["gpu"]);
    }

    #[test]
    fn what_is_wrong_in_a_fleet_file_is_named() {
        for (text, expected) in [
            ("workers: []", "`workers` is empty"),
            ("workers: [{name: Eu}]", "workers[0].name: `Eu`"),
            ("workers: [{name: a}, {name: a}]", "workers[1].name: `a` is there twice"),
            ("workers: [{name: manager}]", "is the management cluster"),
            ("workers: [{name: a, gpus: 2}]", "gpus"),
            ("workers: [{name: a, labels: {region: e u}}]", "workers[0].labels: `e u`"),
            ("workers: [{name: a, capacity: {cpu: lots}}]", "workers[0].capacity.cpu `lots` is not a quantity"),
            ("workers: [{name: a, capacity: {memory: -1Gi}}]", "workers[0].capacity.memory `-1Gi`"),
            ("[", "fleet file"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
