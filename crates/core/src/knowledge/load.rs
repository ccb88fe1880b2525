//! What a workload costs the worker that it is placed on.

use super::Knowledge;
use crate::record::{Placement, Record};

/// What a workload adds to the load of its worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// The worker's name.
    pub worker: String,
    /// It takes a create slot: its mirror is being created, or nobody knows what came of that.
    pub unacknowledged: bool,
}

impl Knowledge {
    /// Where it is placed, as long as it is ours and has not ended.
    pub fn placement(&self) -> Option<&Placement> {
        let workload = self.workload.as_ref().filter(|workload| workload.is_ours() && !workload.is_finished())?;
        match &workload.record {
            Record::Placed(placement) => Some(placement),
            Record::None | Record::Unreadable => None,
        }
    }

    /// The worker that it is placed on, as long as it is ours and has not ended.
    pub fn placed_on(&self) -> Option<&str> {
        self.placement().map(|placement| placement.worker.as_str())
    }

    /// What it adds to the load of its worker.
    pub fn load(&self) -> Option<Load> {
        let at = self.placement()?;
        let refused = self.memory.refusals.get(&at.worker).is_some_and(|refusal| refusal.epoch == at.epoch);
        // What somebody else runs is not created, nor what is placed on a cluster that is no more.
        let replaced = self.memory.no_stray_in.is_some();
        let settled = at.mirror.is_some() || at.moving || refused || replaced || self.activity().is_some();
        let unacknowledged = !settled && !self.mirrors.is_known_on(&at.worker);
        Some(Load { worker: at.worker.clone(), unacknowledged })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::{
        knowledge::{Memory, Sighting},
        refusal::{Ground, Refusal},
    };

    fn placed(at: &Placement) -> Knowledge {
        let job = json!({
            "metadata": {"name": "train", "uid": "u1", "resourceVersion": "1"},
            "spec": {"managedBy": jobferry_api::managed_by::DISPATCHER, "template": {}},
            "status": {"conditions": [at.condition().unwrap()]},
        });
        Knowledge { workload: Some(serde_json::from_value(job).unwrap()), ..Knowledge::default() }
    }

    fn takes_a_slot(known: &Knowledge) -> bool {
        known.load().unwrap().unacknowledged
    }

    #[test]
    fn a_slot_is_taken_until_it_is_known_what_came_of_the_create() {
        let at = Placement::new("eu-1".into(), "id-1".into(), 1, Timestamp::UNIX_EPOCH);
        assert!(takes_a_slot(&placed(&at)));
        assert!(!takes_a_slot(&placed(&at.with_mirror("m1"))), "the record names its mirror");
        assert!(!takes_a_slot(&placed(&at.leaving(0, Timestamp::UNIX_EPOCH))), "nothing is created any more");

        let mut seen = placed(&at);
        let mirror =
            json!({"metadata": {"name": "train", "uid": "m1", "resourceVersion": "1"}, "spec": {"template": {}}});
        seen.mirrors.insert("eu-1", Sighting::Present(serde_json::from_value(mirror).unwrap()));
        assert!(!takes_a_slot(&seen));

        let refused_in = |epoch| {
            let refusal = Refusal::after(None, epoch, Ground::Quota, "no".into(), Duration::ZERO);
            let memory = Memory { refusals: [("eu-1".to_owned(), refusal)].into(), ..Memory::default() };
            Knowledge { memory, ..placed(&at) }
        };
        assert!(!takes_a_slot(&refused_in(1)));
        assert!(takes_a_slot(&refused_in(0)), "an earlier create was refused, not this one");

        let replaced = Memory { no_stray_in: Some("id-9".into()), ..Memory::default() };
        assert!(!takes_a_slot(&Knowledge { memory: replaced, ..placed(&at) }), "its cluster is no more");

        let run_by_another = Memory { local_child: Some("pods/train-0".into()), ..Memory::default() };
        assert!(!takes_a_slot(&Knowledge { memory: run_by_another, ..placed(&at) }));
    }

    #[test]
    fn what_has_ended_is_no_load() {
        let mut known = placed(&Placement::new("eu-1".into(), "id-1".into(), 1, Timestamp::UNIX_EPOCH));
        assert_eq!(known.placed_on(), Some("eu-1"));
        let ended = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        known.workload.as_mut().unwrap().status = serde_json::from_value(ended).unwrap();
        assert_eq!((known.load(), known.placed_on()), (None, None));
    }
}
