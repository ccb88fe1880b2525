//! The management cluster: version, clock, rights, delegation, kinds, and whether a dispatcher works there.

use std::time::Duration;

use jobferry_api::{SYSTEM_NAMESPACE, managed_by};
use jobferry_kubeio::{self as kubeio, CallError};
use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::Client;

use super::{Finding, clock, kinds};
use crate::{
    delegation,
    dispatcher::lease_name,
    install::DEADLINE,
    server_version::{self, is_too_old},
    table::age,
    worker::{Need, missing},
};

/// A dispatcher renews its lease every few seconds.
const LEASE_IS_OLD: Duration = Duration::from_secs(30);
/// The finding about whoever places the workloads.
pub(super) const DISPATCHER: &str = "dispatcher";

/// What the commands of this program need: verb, group, resource.
const RIGHTS: [(&str, &str, &str); 5] = [
    ("create", "batch", "jobs"),
    ("list", "batch", "jobs"),
    ("watch", "batch", "jobs"),
    ("list", "jobferry.dev", "workers"),
    ("list", "jobferry.dev", "dispatchpolicies"),
];

/// Everything about the management cluster. `Err`: it does not answer, and nothing else is worth asking.
pub(super) async fn examine(client: &Client, now: Timestamp) -> Result<Vec<Finding>, Finding> {
    let answered = server_version::read(client).await;
    let answered = answered.map_err(|error| Finding::refused("manager", &error, "look at its API server"))?;
    let mut findings = vec![version(&answered)];
    findings.extend(clock::examine(client, "clock", "the manager").await);
    findings.push(rights(client).await);
    findings.push(delegates(delegation::probe(client).await));
    findings.push(dispatcher(client, managed_by::DISPATCHER, now).await);
    findings.extend(kinds::examine(client).await);
    Ok(findings)
}

fn version(version: &str) -> Finding {
    if is_too_old(version) {
        return Finding::bad("manager", format!("{version}: {}", delegation::RUNS_THEM), delegation::MEND);
    }
    Finding::good("manager", version)
}

/// What whoever asks may do.
async fn rights(client: &Client) -> Finding {
    let namespace = |group: &str| if group == "batch" { client.default_namespace() } else { "" };
    let needs = RIGHTS.map(|(verb, group, resource)| Need::new(verb, group, resource, namespace(group)));
    match missing(client, &needs).await {
        Err(error) => Finding::refused("your rights", &error, "ask an admin of the cluster"),
        Ok(missing) if missing.is_empty() => {
            Finding::good("your rights", "submit and watch Jobs, see Workers and policies")
        }
        Ok(missing) => {
            let says = format!("you may not {}", missing.join(", "));
            Finding::bad("your rights", says, "ask an admin for a Role with these")
        }
    }
}

fn delegates(kept: Result<bool, CallError>) -> Finding {
    match kept {
        Ok(true) => Finding::good("delegation", "keeps spec.managedBy"),
        Ok(false) => {
            Finding::bad("delegation", "drops spec.managedBy and runs delegated Jobs itself", delegation::MEND)
        }
        Err(error) => Finding::refused("delegation", &error, "create a Job by hand to see why"),
    }
}

/// The dispatcher that answers to this value of managedBy.
pub(super) async fn dispatcher(client: &Client, name: &str, now: Timestamp) -> Finding {
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases");
    let lease = kubeio::get(client, &format!("{leases}/{}", lease_name(name)), DEADLINE).await;
    holder(name, lease, now)
}

/// The command that starts it.
pub(super) fn to_start(name: &str) -> String {
    match name {
        managed_by::DISPATCHER => "jobferry dispatcher".to_owned(),
        other => format!("jobferry dispatcher --managed-by {other}"),
    }
}

fn holder(name: &str, lease: Result<Lease, CallError>, now: Timestamp) -> Finding {
    let what = match name {
        managed_by::DISPATCHER => DISPATCHER.to_owned(),
        other => format!("{DISPATCHER} {other}"),
    };
    let start = format!("{} (untouched Jobs look as if they ran)", to_start(name));
    match lease {
        Err(error) if error.is_not_found() => Finding::bad(what, "no dispatcher has ever held the lease", start),
        Err(error) => Finding::refused(&what, &error, "look at the API server"),
        Ok(lease) => {
            let spec = lease.spec.unwrap_or_default();
            let holder = spec.holder_identity.unwrap_or_default();
            let Some(renewed) = spec.renew_time.map(|time| time.0) else {
                return Finding::bad(what, "nobody holds the lease", start);
            };
            let old = Duration::try_from(now.duration_since(renewed)).unwrap_or_default() > LEASE_IS_OLD;
            let says = format!("{holder}, seen {} ago", age(renewed, now));
            if old || holder.is_empty() { Finding::bad(what, says, start) } else { Finding::good(what, says) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Judgement;
    use jobferry_kubeio::Refusal;
    use serde_json::json;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn ago(seconds: u64) -> Timestamp {
        NOW.checked_sub(Duration::from_secs(seconds)).unwrap()
    }

    #[test]
    fn a_dispatcher_that_does_not_renew_its_lease_is_down() {
        let lease = |seconds: u64| -> Lease {
            let time = format!("{:.6}", ago(seconds));
            serde_json::from_value(json!({"metadata": {}, "spec": {"holderIdentity": "a", "renewTime": time}})).unwrap()
        };
        assert_eq!(holder(managed_by::DISPATCHER, Ok(lease(5)), NOW).result, Judgement::Ok);
        let down = holder("example.com/other", Ok(lease(60)), NOW);
        assert_eq!((down.what.as_str(), down.result), ("dispatcher example.com/other", Judgement::Wrong));
        assert!(down.mend.unwrap().starts_with("jobferry dispatcher --managed-by example.com/other "));
    }

    #[test]
    fn a_manager_must_be_new_enough() {
        assert_eq!(version("v1.35.8").result, Judgement::Ok);
        assert_eq!(version("v1.31.0").result, Judgement::Wrong);
    }

    #[test]
    fn a_cluster_that_drops_managed_by_is_wrong_and_one_that_cannot_be_tried_says_why() {
        assert_eq!(delegates(Ok(true)).result, Judgement::Ok);
        assert_eq!(delegates(Ok(false)).result, Judgement::Wrong);
        let refusal = Refusal { code: 403, reason: "Forbidden".into(), message: "no".into(), name: String::new() };
        let finding = delegates(Err(CallError::Refused(refusal)));
        assert_eq!(finding.mend.as_deref(), Some("ask an admin of the cluster for this right"));
    }
}
