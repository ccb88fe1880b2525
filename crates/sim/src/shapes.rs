//! Rare shapes of Jobs and rare edits, made of those that a seed has anyway, and many Jobs at once. All have dice of their own.

use std::time::Duration;

use jobferry_core::placement::CREATE_SLOTS;
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::scenario::{Step, WorkloadStory};
use crate::stage::job;

/// Of a thousand Jobs, how many are odd.
const PER_MILLE: u64 = 200;

/// Of a thousand worlds, how many have a crowd.
const CROWDS_PER_MILLE: u64 = 20;

/// In a few worlds more Jobs come in one moment than a worker has create slots: some must wait for others to be answered.
pub(crate) fn crowd(storm: Duration, dice: &mut Dice) -> impl Iterator<Item = WorkloadStory> {
    let slots = u64::from(CREATE_SLOTS);
    let number = if dice.per_mille(CROWDS_PER_MILLE) { dice.between(slots + 1, 2 * slots) } else { 0 };
    let (moment, seconds) = (dice.time(Duration::ZERO, storm * 3 / 4), dice.pick(&[0, 5, 60]));
    (1..=number).map(move |number| {
        let name = format!("crowd-{number}");
        WorkloadStory { job: job(&name, seconds), name, steps: vec![(moment, Step::Create)] }
    })
}

/// Makes some of the Jobs odd; returns how many.
pub(crate) fn make_odd(workloads: &mut [WorkloadStory], dice: &mut Dice) -> usize {
    let jobs = workloads.iter_mut().map(|story| &mut story.job).filter(|job| job["kind"] == "Job");
    jobs.filter(|_| dice.per_mille(PER_MILLE)).collect::<Vec<_>>().into_iter().map(|job| change(job, dice)).count()
}

/// Has the users of some Jobs do rare things with them; returns how many.
pub(crate) fn edit_some(workloads: &mut [WorkloadStory], dice: &mut Dice) -> usize {
    let jobs = workloads.iter_mut().filter(|story| story.job["kind"] == "Job");
    jobs.filter(|_| dice.per_mille(PER_MILLE)).collect::<Vec<_>>().into_iter().map(|story| edit(story, dice)).count()
}

fn edit(story: &mut WorkloadStory, dice: &mut Dice) {
    let is_indexed = story.job["spec"]["completionMode"] == "Indexed";
    let steps = match dice.below(3) {
        0 => vec![
            (dice.seconds(0, 30), Step::Suspend(true)),
            (dice.seconds(0, 20), Step::Relabel(dice.below(3))),
            (dice.seconds(0, 20), Step::Suspend(false)),
        ],
        1 if is_indexed => vec![
            (dice.seconds(0, 30), Step::Widen(dice.between(1, 5))),
            (dice.seconds(0, 20), Step::Widen(dice.between(1, 5))),
            (dice.seconds(0, 20), Step::Resize(dice.between(1, 4))),
        ],
        _ => {
            // Whoever submits it again would wait for the finalizer.
            story.steps.retain(|(_, step)| !matches!(step, Step::Delete(_)));
            story.steps.truncate(story.steps.iter().rposition(|(_, step)| *step != Step::Create).unwrap_or(0) + 1);
            story.steps.push((dice.seconds(0, 90), Step::Delete(dice.pick(&["Background", "Foreground", "Orphan"]))));
            story.steps.push((dice.seconds(0, 120), Step::Keep(false)));
            vec![(Duration::from_secs(0), Step::Keep(true))]
        }
    };
    story.steps.splice(1..1, steps);
}

fn change(job: &mut Value, dice: &mut Dice) {
    let name = job["metadata"]["name"].clone();
    let spec = &mut job["spec"];
    match dice.below(4) {
        // It passes while the worker is out of reach, or while nobody looks.
        0 | 1 => spec["activeDeadlineSeconds"] = dice.pick(&[5, 30, 100, 300]).into(),
        2 => {
            spec["completionMode"] = "Indexed".into();
            spec["completions"] = dice.between(2, 4).into();
            spec["parallelism"] = dice.between(1, 4).into();
            spec["successPolicy"] = json!({"rules": [{"succeededIndexes": "0"}]});
        }
        // Its pods are those with a label that others may have as well.
        _ => {
            spec["manualSelector"] = true.into();
            spec["selector"] = json!({"matchLabels": {"app": name}});
            spec["template"]["metadata"]["labels"] = json!({"app": name});
        }
    }
}
