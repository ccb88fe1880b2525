//! A seed turned into a world and what people do in it.

use std::collections::BTreeMap;
use std::time::Duration;

use jobferry_api::{annotations, managed_by};
use jobferry_testkit::{EXIT_CODE, FAILING_INDEXES, RUN_SECONDS};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::etl;
use crate::faults::{Fault, FaultSet, OF_PEOPLE, OF_STRANGERS};
use crate::shapes;
use crate::truth::MANAGER;

/// Everything that a seed decides before the run begins.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// The names of the workers.
    pub(crate) workers: Vec<String>,
    /// The names of the dispatchers that run at once.
    pub(crate) dispatchers: Vec<String>,
    /// Whether one of them leads by lease. Without it all of them work.
    pub(crate) leased: bool,
    /// By how many seconds the clock of each cluster and dispatcher is ahead.
    pub(crate) ahead: BTreeMap<String, i64>,
    /// For how long there are faults.
    pub(crate) storm: Duration,
    /// The workloads and what happens to each.
    pub(crate) workloads: Vec<WorkloadStory>,
    /// What others do on workers.
    pub(crate) incidents: Vec<Incident>,
    /// The workloads of another manager that shares the first worker.
    pub(crate) second: Vec<WorkloadStory>,
    /// When an old Job controller of the manager starts, and for how long it runs.
    pub(crate) old_controller: Option<(Duration, Duration)>,
    /// How many workloads are of a rare shape.
    pub(crate) odd: usize,
    /// How many workloads are edited in rare ways.
    pub(crate) edited: usize,
    /// How many Jobs are submitted in one moment, beside the others.
    pub(crate) crowd: usize,
}

/// One workload and what its user does with it.
#[derive(Debug, Clone)]
pub(crate) struct WorkloadStory {
    /// Its name; several may follow each other under the same.
    pub(crate) name: String,
    /// The Job, or the object of another kind, as it is submitted.
    pub(crate) job: Value,
    /// What happens, each after a wait.
    pub(crate) steps: Vec<(Duration, Step)>,
}

/// What a user does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Submits the Job.
    Create,
    /// Sets `spec.suspend`.
    Suspend(bool),
    /// Sets `spec.parallelism`.
    Resize(u64),
    /// Deletes it, with this propagation.
    Delete(&'static str),
    /// Sets a label of its pod template, which only a suspended Job takes.
    Relabel(u64),
    /// Sets both `spec.completions` and `spec.parallelism`, which only an Indexed Job takes.
    Widen(u64),
    /// Keeps it by a finalizer, or lets it go.
    Keep(bool),
}

/// What somebody else does on a worker.
#[derive(Debug, Clone)]
pub(crate) struct Incident {
    /// When, from the beginning of the faults.
    pub(crate) after: Duration,
    /// On which worker.
    pub(crate) worker: String,
    /// What.
    pub(crate) deed: Deed,
}

/// What somebody else does.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    /// Deletes the Job of that name, whatever it is.
    DeleteMirror(String),
    /// Takes our label off the Job of that name.
    TakeLabel(String),
    /// A queue of the worker's own suspends the Job of that name for a while.
    Hold(String, Duration),
    /// Removes the Worker and registers it again after a while.
    Remove(Duration),
    /// Has a Job of that name for a while.
    TakeName(String, Duration),
    /// Closes the worker for a while.
    Cordon(Duration),
    /// Refuses its credentials for a while, and then changes its Secret.
    Rotate(Duration),
    /// Has these default policies, one after the other, each for a while; in the end none.
    Policies(Vec<Value>, Duration),
    /// Takes the placement record off the workload of that name.
    WipeRecord(String),
    /// Makes it unreadable, and takes it off after a while.
    DamageRecord(String, Duration),
    /// Says by a label that the workload of that name is on this worker.
    ForgeLabel(String),
    /// Changes the Job of that name for a while: first by this, then by that.
    Rewrite(String, [Value; 2], Duration),
    /// Keeps the Job of that name by a finalizer for a while.
    Keep(String, Duration),
    /// Says that the workload of that name has failed.
    End(String),
    /// The worker's Secret leads to another cluster for a while.
    Mislead(String, Duration),
    /// Registers that cluster a second time, for a while.
    Double(String, Duration),
    /// Deletes the namespace of the workloads, and makes it again after a while.
    DeleteNamespace(Duration),
    /// Takes no edit of any mirror for a while.
    RefuseEdits(Duration),
    /// Fails at every mirror for a while.
    Fail(Duration),
}

impl Scenario {
    /// The world of a seed.
    pub(crate) fn of(seed: u64, faults: &FaultSet, mixed: bool) -> Self {
        let mut dice = Dice::new(seed, "scenario");
        let few = dice.between(1, 4);
        let mut extra = Dice::new(seed, "more workers");
        let more = if extra.per_mille(150) { extra.between(1, 2) } else { 0 };
        let workers: Vec<String> = (1..=few + more).map(|number| format!("w{number}")).collect();
        let (number, leased) = match dice.below(10) {
            0..4 if faults.has(Fault::Twins) => (2, false),
            4..7 if faults.has(Fault::Replicas) => (dice.between(2, 3), true),
            _ => (1, false),
        };
        let dispatchers: Vec<String> = (1..=number).map(|number| format!("d{number}")).collect();
        let mut ahead = BTreeMap::new();
        if faults.has(Fault::Skew) && dice.per_mille(300) {
            let clocks = workers.iter().chain(&dispatchers).cloned().chain([MANAGER.to_owned()]);
            ahead = clocks.map(|name| (name, dice.pick(&[-600, -60, -2, 0, 2, 60, 600]))).collect();
        }
        let storm = dice.seconds(60, 600);
        let number = dice.between(3, 12);
        let mut workloads: Vec<_> =
            (1..=number).map(|number| story(format!("job-{number}"), storm, &mut dice)).collect();
        if mixed {
            mix(&mut workloads, &mut Dice::new(seed, "kinds"));
        }
        let mut incidents = Vec::new();
        for fault in OF_PEOPLE {
            if faults.has(fault) && dice.per_mille(250) {
                for _ in 0..dice.between(1, 2) {
                    incidents.push(incident(fault, &workers, &workloads, storm, &mut dice));
                }
            }
        }
        for fault in OF_STRANGERS.into_iter().filter(|fault| faults.has(*fault)) {
            let mut dice = Dice::new(seed, &format!("strangers: {fault}"));
            let number = if dice.per_mille(250) { dice.between(1, 3) } else { 0 };
            incidents.extend((0..number).map(|_| incident(fault, &workers, &workloads, storm, &mut dice)));
        }
        let mut odd = 0;
        if faults.has(Fault::OddShapes) {
            odd = shapes::make_odd(&mut workloads, &mut Dice::new(seed, "odd shapes"));
        }
        let mut edited = 0;
        if faults.has(Fault::UserEdits) {
            edited = shapes::edit_some(&mut workloads, &mut Dice::new(seed, "user edits"));
        }
        let mut crowd = 0;
        if faults.has(Fault::Crowd) {
            workloads.extend(shapes::crowd(storm, &mut Dice::new(seed, "crowd")).inspect(|_| crowd += 1));
        }
        let second = if faults.has(Fault::SecondManager) { second(seed, storm) } else { Vec::new() };
        let mut dice = Dice::new(seed, "old controller");
        let old = (faults.has(Fault::OldController) && dice.per_mille(60))
            .then(|| (dice.time(Duration::ZERO, storm), dice.seconds(5, 100)));
        Self {
            workers,
            dispatchers,
            leased,
            ahead,
            storm,
            workloads,
            incidents,
            second,
            old_controller: old,
            odd,
            edited,
            crowd,
        }
    }

    /// What is wrong with this world from its beginning.
    pub(crate) fn standing_faults(&self) -> Vec<(Fault, &'static str)> {
        let several = self.dispatchers.len() > 1;
        let all = [
            (several && !self.leased, (Fault::Twins, "two dispatchers without a lease")),
            (several && self.leased, (Fault::Replicas, "several dispatchers, one of which leads")),
            (!self.ahead.is_empty(), (Fault::Skew, "clocks differ")),
            (self.odd > 0, (Fault::OddShapes, "some Jobs have a deadline, a success policy or a selector")),
            (self.edited > 0, (Fault::UserEdits, "some Jobs are edited in rare ways, or kept while they are deleted")),
            (self.crowd > 0, (Fault::Crowd, "many Jobs in one moment")),
        ];
        all.into_iter().filter_map(|(is_so, fault)| is_so.then_some(fault)).collect()
    }
}

/// Makes some of the workloads of another kind than Job.
fn mix(workloads: &mut [WorkloadStory], dice: &mut Dice) {
    for (number, story) in (1..).zip(workloads) {
        if dice.per_mille(500) {
            story.name = etl::name(number);
            story.job = etl::etl_run(&story.name, story.job["spec"]["suspend"] == true, dice);
            story.steps.retain(|(_, step)| !matches!(step, Step::Resize(_)));
        }
    }
}

/// The workloads of the second manager, if there is one: of the same names, so that both want the same ones of the worker.
fn second(seed: u64, storm: Duration) -> Vec<WorkloadStory> {
    let mut dice = Dice::new(seed, "second manager");
    if !dice.per_mille(150) {
        return Vec::new();
    }
    (1..=dice.between(1, 4)).map(|number| story(format!("job-{number}"), storm, &mut dice)).collect()
}

/// Default policies that somebody tries out.
fn policies(dice: &mut Dice) -> Vec<Value> {
    let some = [
        json!({}),
        json!({"keepFinished": "10s"}),
        json!({"keepFinished": "5m"}),
        json!({"onWorkerLost": {"action": "Fail", "after": "10s"}}),
        json!({"onWorkerLost": {"action": "Fail", "after": "5m"}}),
        json!({"workers": {"matchLabels": {"zone": "a"}}}),
        json!({"workers": {"matchLabels": {"zone": "nowhere"}}}),
        json!({"prefer": [{"workers": {"matchLabels": {"zone": "b"}}, "weight": 10}]}),
    ];
    (0..dice.between(1, 3)).map(|_| some[usize::try_from(dice.below(8)).unwrap_or(0)].clone()).collect()
}

fn incident(
    fault: Fault,
    workers: &[String],
    workloads: &[WorkloadStory],
    storm: Duration,
    dice: &mut Dice,
) -> Incident {
    let one_of = |dice: &mut Dice, number: usize| usize::try_from(dice.below(number as u64)).unwrap_or(0);
    let worker = workers[one_of(dice, workers.len())].clone();
    let name = workloads[one_of(dice, workloads.len())].name.clone();
    let deed = match fault {
        Fault::MirrorDeleted => Deed::DeleteMirror(name),
        Fault::MirrorEdited => Deed::TakeLabel(name),
        Fault::WorkerQueue => Deed::Hold(name, dice.seconds(1, 200)),
        Fault::WorkerRemoved => Deed::Remove(dice.seconds(1, 200)),
        Fault::NameTaken => Deed::TakeName(name, dice.seconds(1, 200)),
        Fault::SecretRotated => Deed::Rotate(dice.seconds(0, 60)),
        Fault::PolicyChanged => Deed::Policies(policies(dice), dice.seconds(1, 300)),
        Fault::RecordWiped => match dice.below(3) {
            0 => Deed::WipeRecord(name),
            1 => Deed::DamageRecord(name, dice.seconds(1, 200)),
            _ => Deed::ForgeLabel(name),
        },
        Fault::MirrorRewritten => Deed::Rewrite(name, rewritten(dice), dice.seconds(1, 200)),
        Fault::MirrorHeld => Deed::Keep(name, dice.seconds(1, 300)),
        Fault::EndedByOthers => Deed::End(name),
        Fault::SecretMisled => {
            let other = workers[one_of(dice, workers.len())].clone();
            let other = if other == worker { MANAGER.to_owned() } else { other };
            Deed::Mislead(other, dice.seconds(1, 200))
        }
        Fault::WorkerDoubled => {
            let cluster = if dice.per_mille(300) { MANAGER.to_owned() } else { worker.clone() };
            Deed::Double(cluster, dice.seconds(1, 300))
        }
        Fault::NamespaceDeleted => Deed::DeleteNamespace(dice.seconds(1, 100)),
        Fault::EditsRefused => Deed::RefuseEdits(dice.seconds(1, 200)),
        Fault::WebhookDown => Deed::Fail(dice.seconds(1, 200)),
        _ => Deed::Cordon(dice.seconds(1, 200)),
    };
    Incident { after: dice.time(Duration::ZERO, storm), worker, deed }
}

/// What somebody makes of a mirror, and how it is taken back. Not the manager's version that it bears: one that was forged
/// or taken off keeps an orphan for ever, which is a documented limit.
fn rewritten(dice: &mut Dice) -> [Value; 2] {
    let spec = |change: Value, back: Value| [json!({"spec": change}), json!({"spec": back})];
    let annotation = |name: &str, value: Value| {
        let change = json!({"metadata": {"annotations": {name: value}}});
        [change, json!({})]
    };
    match dice.below(6) {
        0 => spec(json!({"parallelism": 0}), json!({"parallelism": 1})),
        1 => spec(json!({"parallelism": 5}), json!({})),
        2 => spec(json!({"activeDeadlineSeconds": 3}), json!({})),
        3 => annotation(annotations::EPOCH, dice.pick(&["0", "7", "seven"]).into()),
        4 => annotation(annotations::EPOCH, Value::Null),
        _ => annotation(annotations::FORWARDED, dice.pick(&[None, Some("{}")]).into()),
    }
}

fn story(name: String, storm: Duration, dice: &mut Dice) -> WorkloadStory {
    let mut steps = vec![(dice.time(Duration::ZERO, storm * 3 / 4), Step::Create)];
    let suspended = dice.per_mille(150);
    if suspended {
        steps.push((dice.seconds(1, 120), Step::Suspend(false)));
    }
    if dice.per_mille(100) {
        steps.push((dice.seconds(0, 40), Step::Suspend(true)));
        steps.push((dice.seconds(1, 60), Step::Suspend(false)));
    }
    if dice.per_mille(100) {
        steps.push((dice.seconds(0, 60), Step::Resize(dice.between(0, 4))));
        steps.push((dice.seconds(1, 60), Step::Resize(dice.between(1, 4))));
    }
    if dice.per_mille(300) {
        let propagation = dice.pick(&["Background", "Background", "Foreground", "Orphan"]);
        steps.push((dice.seconds(0, 60), Step::Delete(propagation)));
        if dice.per_mille(600) {
            let wait = if dice.per_mille(500) { Duration::ZERO } else { dice.seconds(0, 60) };
            steps.push((wait, Step::Create));
        }
    }
    let job = job(&name, suspended, dice);
    WorkloadStory { name, job, steps }
}

/// A Job of some shape.
fn job(name: &str, suspended: bool, dice: &mut Dice) -> Value {
    let seconds = dice.pick(&[0, 1, 5, 20, 60, 200]);
    let mut script = json!({ RUN_SECONDS: seconds.to_string() });
    let mut spec = json!({"suspend": suspended, "managedBy": managed_by::DISPATCHER});
    match dice.below(5) {
        0 | 1 => {}
        2 => {
            spec["completions"] = dice.between(2, 4).into();
            spec["parallelism"] = dice.between(1, 3).into();
        }
        3 => {
            spec["completions"] = dice.between(1, 4).into();
            spec["parallelism"] = dice.between(1, 4).into();
            spec["completionMode"] = "Indexed".into();
            spec["backoffLimit"] = dice.below(3).into();
            if dice.per_mille(500) {
                script[FAILING_INDEXES] = "1".into();
            }
            if dice.per_mille(500) {
                spec["backoffLimitPerIndex"] = 0.into();
            }
        }
        _ => {
            script[EXIT_CODE] = "1".into();
            spec["backoffLimit"] = dice.below(3).into();
        }
    }
    if dice.per_mille(150) {
        spec["ttlSecondsAfterFinished"] = dice.pick(&[0, 5, 60, 600]).into();
    }
    spec["template"] = json!({
        "metadata": {"annotations": script},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]},
    });
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}
