//! Pod statuses as a kubelet writes them: pure functions from what became of the containers.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// What is known of a pod's containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRun {
    /// When the node took the pod.
    pub started: Timestamp,
    /// `spec.restartPolicy`.
    pub restart_policy: RestartPolicy,
    /// Init containers, in order.
    pub init: Vec<ContainerRun>,
    /// Main containers.
    pub main: Vec<ContainerRun>,
    /// The node's address, reported as the pod's own: pods share the host's network.
    pub address: String,
    /// Why the pod as a whole failed, if not because of its containers: reason and message.
    pub failure: Option<(String, String)>,
}

/// When containers are restarted in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Whatever the exit code.
    Always,
    /// Unless it ended well.
    OnFailure,
    /// Never.
    Never,
}

impl RestartPolicy {
    /// The policy of that name; Kubernetes' default for any other text.
    pub fn of(name: &str) -> Self {
        match name {
            "Never" => Self::Never,
            "OnFailure" => Self::OnFailure,
            _ => Self::Always,
        }
    }

    /// Whether a container that ended with this code runs again.
    pub fn restarts(self, code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != 0,
            Self::Never => false,
        }
    }
}

/// One container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRun {
    /// Its name.
    pub name: String,
    /// Its image: reported, never pulled.
    pub image: String,
    /// Where it stands.
    pub state: ContainerState,
    /// How its previous run ended.
    pub last: Option<Ended>,
    /// How often it was started again.
    pub restarts: u32,
    /// It is an init container that runs beside the main ones.
    pub sidecar: bool,
}

/// Where a container stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// Not started, or waiting to be started again.
    Waiting {
        /// Machine-readable, for example `ContainerCreating`.
        reason: String,
        /// For people.
        message: String,
    },
    /// It runs.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// It ended, and is not started again.
    Ended(Ended),
}

/// How a run of a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The exit code; 128 + signal if a signal ended it.
    pub code: i32,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub finished: Timestamp,
    /// Machine-readable: `Completed`, `Error`, `StartError`.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Ended {
    /// The end of a process.
    pub fn with_code(code: i32, started: Timestamp, finished: Timestamp) -> Self {
        let reason = if code == 0 { "Completed" } else { "Error" };
        Self { code, started, finished, reason: reason.to_owned(), message: String::new() }
    }
}

impl ContainerRun {
    /// A container that has not started yet.
    pub fn waiting(name: &str, image: &str, reason: &str) -> Self {
        Self {
            name: name.to_owned(),
            image: image.to_owned(),
            state: ContainerState::Waiting { reason: reason.to_owned(), message: String::new() },
            last: None,
            restarts: 0,
            sidecar: false,
        }
    }

    /// It runs, or has run.
    pub fn has_started(&self) -> bool {
        self.running() || self.ended().is_some() || self.last.is_some()
    }

    /// What comes after this init container may start.
    fn made_way(&self) -> bool {
        if self.sidecar { self.has_started() } else { self.succeeded() }
    }

    fn ended(&self) -> Option<&Ended> {
        if let ContainerState::Ended(ended) = &self.state { Some(ended) } else { None }
    }

    fn succeeded(&self) -> bool {
        self.ended().is_some_and(|ended| ended.code == 0)
    }

    fn running(&self) -> bool {
        matches!(self.state, ContainerState::Running { .. })
    }

    fn status(&self, init: bool) -> Value {
        let state = match &self.state {
            ContainerState::Waiting { reason, message } => json!({"waiting": with_text(json!({}), reason, message)}),
            ContainerState::Running { since } => json!({"running": {"startedAt": seconds(*since)}}),
            ContainerState::Ended(ended) => json!({"terminated": ended.state()}),
        };
        let last = self.last.as_ref().map_or_else(|| json!({}), |ended| json!({"terminated": ended.state()}));
        json!({
            "name": self.name, "image": self.image, "imageID": "", "containerID": "",
            "ready": if init && !self.sidecar { self.succeeded() } else { self.running() },
            "started": self.running(), "restartCount": self.restarts, "state": state, "lastState": last,
        })
    }
}

impl Ended {
    fn state(&self) -> Value {
        let state = json!({
            "exitCode": self.code, "startedAt": seconds(self.started), "finishedAt": seconds(self.finished),
        });
        with_text(state, &self.reason, &self.message)
    }
}

fn with_text(mut value: Value, reason: &str, message: &str) -> Value {
    for (key, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            value[key] = json!(text);
        }
    }
    value
}

impl PodRun {
    /// The phase that follows from the containers.
    pub fn phase(&self) -> &'static str {
        let all_main = |test: fn(&ContainerRun) -> bool| self.main.iter().all(test);
        // How a sidecar ends says nothing about the pod.
        let init_failed = self.init.iter().any(|c| !c.sidecar && c.ended().is_some_and(|ended| ended.code != 0));
        let main_begun = self.main.iter().any(ContainerRun::has_started);
        if self.failure.is_some() || init_failed {
            "Failed"
        } else if !main_begun {
            "Pending"
        } else if all_main(|c| c.ended().is_none()) || !all_main(|c| c.ended().is_some()) {
            "Running"
        } else if all_main(ContainerRun::succeeded) {
            "Succeeded"
        } else {
            "Failed"
        }
    }

    /// Whether the phase is final.
    pub fn ended(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    /// The status, as a strategic merge patch: conditions merge by type, so that those of others stay. A condition that
    /// `previous` (the conditions written last) has with the same status keeps its transition time.
    pub fn status(&self, previous: &[Value], now: Timestamp) -> Value {
        let phase = self.phase();
        let initialized = self.init.iter().all(ContainerRun::made_way);
        let ready = self.main.iter().all(ContainerRun::running) && phase == "Running";
        let unready = match phase {
            "Succeeded" => "PodCompleted",
            "Failed" => "PodFailed",
            _ => "ContainersNotReady",
        };
        let condition = |kind: &str, holds: bool, reason: &str| {
            let status = if holds { "True" } else { "False" };
            let same = previous.iter().find(|c| c["type"] == kind && c["status"] == status);
            let since = same.and_then(|c| c["lastTransitionTime"].as_str()).map_or_else(|| seconds(now), str::to_owned);
            let reason = if holds && phase != "Succeeded" { "" } else { reason };
            let base = json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since});
            with_text(base, reason, "")
        };
        let completed = if phase == "Succeeded" { "PodCompleted" } else { "ContainersNotInitialized" };
        let mut status = json!({
            "phase": phase,
            "conditions": [
                condition("PodReadyToStartContainers", !self.ended(), ""),
                condition("Initialized", initialized, completed),
                condition("Ready", ready, unready),
                condition("ContainersReady", ready, unready),
            ],
            "hostIP": self.address, "hostIPs": [{"ip": self.address}],
            "podIP": self.address, "podIPs": [{"ip": self.address}],
            "startTime": seconds(self.started),
            "containerStatuses": self.main.iter().map(|c| c.status(false)).collect::<Vec<_>>(),
            "qosClass": "BestEffort",
        });
        if !self.init.is_empty() {
            status["initContainerStatuses"] = self.init.iter().map(|c| c.status(true)).collect();
        }
        if let Some((reason, message)) = &self.failure {
            status = with_text(status, reason, message);
        }
        status
    }
}

/// A time as the API server stores it.
pub(crate) fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn container(state: ContainerState) -> ContainerRun {
        ContainerRun { state, ..ContainerRun::waiting("main", "none", "ContainerCreating") }
    }

    fn ended(code: i32) -> ContainerState {
        ContainerState::Ended(Ended::with_code(code, at(1), at(2)))
    }

    fn pod(init: Vec<ContainerState>, main: Vec<ContainerState>) -> PodRun {
        PodRun {
            started: at(0),
            restart_policy: RestartPolicy::Never,
            init: init.into_iter().map(container).collect(),
            main: main.into_iter().map(container).collect(),
            address: "127.0.0.1".to_owned(),
            failure: None,
        }
    }

    #[test]
    fn the_phase_follows_from_the_containers() {
        let waiting = || ContainerState::Waiting { reason: "ContainerCreating".to_owned(), message: String::new() };
        let running = || ContainerState::Running { since: at(1) };
        for (init, main, phase) in [
            (vec![], vec![waiting()], "Pending"),
            (vec![running()], vec![waiting()], "Pending"),
            (vec![ended(0)], vec![waiting()], "Pending"),
            (vec![ended(1)], vec![waiting()], "Failed"),
            (vec![], vec![running()], "Running"),
            (vec![], vec![running(), ended(1)], "Running"),
            (vec![], vec![running(), waiting()], "Running"),
            (vec![ended(0)], vec![ended(0), ended(0)], "Succeeded"),
            (vec![], vec![ended(0), ended(3)], "Failed"),
        ] {
            let pod = pod(init, main);
            assert_eq!(pod.phase(), phase, "{pod:?}");
        }
    }

    #[test]
    fn how_a_sidecar_ends_says_nothing_about_the_pod() {
        let mut run = pod(vec![ended(143)], vec![ended(0)]);
        run.init[0].sidecar = true;
        assert_eq!(run.phase(), "Succeeded");
        run.main[0].state = ContainerState::Running { since: at(1) };
        assert_eq!(run.phase(), "Running");
    }

    #[test]
    fn a_condition_keeps_its_time_as_long_as_it_holds() {
        let run = pod(vec![], vec![ContainerState::Running { since: at(1) }]);
        let first = run.status(&[], at(5));
        let again = run.status(first["conditions"].as_array().unwrap(), at(9));
        assert_eq!(first["conditions"], again["conditions"]);
        let over = pod(vec![], vec![ended(0)]).status(first["conditions"].as_array().unwrap(), at(9));
        let ready = over["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
        assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("PodCompleted")));
        assert_eq!(ready["lastTransitionTime"], "1970-01-01T00:00:09Z");
    }
}
