//! Who leads: the rules of the lease, immune to clock skew.
//!
//! Nobody compares its wall clock with another's. A candidate takes a lease over when it has *watched it not change* for
//! the whole lease duration; a leader stops believing in itself earlier than that, counted from before the request that
//! renewed it. No lease is a fence: every write of ours is safe under two leaders, this only keeps them rare.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// A moment, by two clocks: objects carry the wall clock, which may jump; waiting uses the monotonic one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) wall: Timestamp,
    /// Since some moment in the life of this process.
    pub(crate) monotonic: Duration,
}

/// A lease that was not renewed for this long may be taken over. As in Kubernetes' own controllers.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A leader that could not renew for this long stops. The rest up to [`LEASE_DURATION`] is for requests under way.
pub(crate) const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often a leader renews and a candidate looks.
pub(crate) const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// What a `coordination.k8s.io/v1` Lease says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct LeaseView {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    resource_version: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<String>,
    lease_transitions: Option<i64>,
}

/// What a candidate knows of the lease, and since when it has not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observation {
    /// The lease; `None` if there is none yet.
    pub(crate) lease: Option<LeaseView>,
    /// When (monotonic) this state was first seen.
    pub(crate) since: Duration,
}

/// What a candidate does next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bid {
    /// Create the lease.
    Create(Value),
    /// Merge this into it; it carries the resourceVersion that was observed, so only one candidate can win.
    Take(Value),
    /// Somebody else leads.
    Wait,
}

impl Observation {
    /// Takes a new look into account.
    pub(crate) fn look(self, lease: Option<LeaseView>, now: Now) -> Self {
        if self.lease == lease { self } else { Self { lease, since: now.monotonic } }
    }

    /// Whether `me` holds it; the version that says so.
    pub(crate) fn held_by(&self, me: &str) -> Option<&str> {
        let lease = self.lease.as_ref()?;
        (lease.spec.holder_identity.as_deref() == Some(me)).then_some(lease.metadata.resource_version.as_str())
    }

    /// What `me` does with what it sees. Also how a leader renews.
    pub(crate) fn bid(&self, name: &str, namespace: &str, me: &str, now: Now) -> Bid {
        let Some(lease) = &self.lease else {
            let spec = spec(me, 0, now, true);
            let metadata = json!({"name": name, "namespace": namespace});
            return Bid::Create(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec,
            }));
        };
        let holder = lease.spec.holder_identity.as_deref().filter(|holder| !holder.is_empty());
        let mine = holder == Some(me);
        let expired = now.monotonic.saturating_sub(self.since) >= LEASE_DURATION;
        if !mine && holder.is_some() && !expired {
            return Bid::Wait;
        }
        let transitions = lease.spec.lease_transitions.unwrap_or(0) + i64::from(!mine);
        Bid::Take(json!({
            "metadata": {"resourceVersion": lease.metadata.resource_version},
            "spec": spec(me, transitions, now, !mine),
        }))
    }
}

/// Whether a leader whose last successful renewal was *sent* at `renewed` (monotonic) still leads.
pub(crate) fn leads(renewed: Duration, now: Duration) -> bool {
    now.saturating_sub(renewed) < RENEW_DEADLINE
}

fn spec(me: &str, transitions: i64, now: Now, acquired: bool) -> Value {
    // MicroTime wants exactly six digits.
    let at = now.wall.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let mut spec = json!({
        "holderIdentity": me, "leaseDurationSeconds": LEASE_DURATION.as_secs(), "renewTime": at,
        "leaseTransitions": transitions,
    });
    if acquired {
        spec["acquireTime"] = at.into();
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now { wall: Timestamp::UNIX_EPOCH, monotonic: Duration::from_secs(seconds) }
    }

    fn held_by(holder: &str, version: &str) -> LeaseView {
        let lease = json!({"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": holder, "leaseTransitions": 4}});
        serde_json::from_value(lease).unwrap()
    }

    fn nothing() -> Observation {
        Observation { lease: None, since: Duration::ZERO }
    }

    fn bid(observation: &Observation, now: Now) -> Bid {
        observation.bid("dispatcher", "jobferry-system", "me", now)
    }

    #[test]
    fn a_missing_lease_is_created() {
        let Bid::Create(lease) = bid(&nothing(), at(0)) else { panic!("no lease is there") };
        assert_eq!((&lease["spec"]["holderIdentity"], &lease["spec"]["leaseTransitions"]), (&json!("me"), &json!(0)));
    }

    #[test]
    fn a_lease_is_taken_over_only_after_it_was_watched_not_to_change() {
        let seen = nothing().look(Some(held_by("other", "1")), at(100));
        assert_eq!(bid(&seen, at(114)), Bid::Wait);
        let renewed = seen.clone().look(Some(held_by("other", "2")), at(114));
        assert_eq!(bid(&renewed, at(120)), Bid::Wait, "it was renewed in between");
        let same = seen.look(Some(held_by("other", "1")), at(114));
        let Bid::Take(patch) = bid(&same, at(115)) else { panic!("it did not change for 15 s") };
        assert_eq!(patch["metadata"]["resourceVersion"], "1", "only one candidate can win");
        assert_eq!(patch["spec"]["leaseTransitions"], 5);
    }

    #[test]
    fn a_lease_that_was_given_back_is_taken_at_once() {
        let seen = nothing().look(Some(held_by("", "1")), at(100));
        assert!(matches!(bid(&seen, at(100)), Bid::Take(_)));
    }

    #[test]
    fn a_leader_renews_without_a_transition_and_stops_before_others_may_start() {
        let seen = nothing().look(Some(held_by("me", "7")), at(100));
        let Bid::Take(patch) = bid(&seen, at(101)) else { panic!("it is mine") };
        assert_eq!(patch["spec"]["leaseTransitions"], 4);
        let still_leads = |seconds| leads(Duration::from_secs(100), Duration::from_secs(seconds));
        assert!(still_leads(109) && !still_leads(110));
        assert!(RENEW_DEADLINE < LEASE_DURATION);
    }
}
