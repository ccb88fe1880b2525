//! The management cluster: version, clock, rights, delegation, and whether a dispatcher works there.

use std::time::Duration;

use http::{Request, header};
use jobferry_api::{DISPATCHER_LEASE, SYSTEM_NAMESPACE};
use jobferry_kubeio::{self as kubeio, CallError};
use k8s_openapi::{
    api::coordination::v1::Lease,
    jiff::{Timestamp, fmt::rfc2822},
};
use kube::{Client, client::Body};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Finding;
use crate::{delegation, install::DEADLINE, table::age};

/// A dispatcher renews its lease every few seconds.
const LEASE_IS_OLD: Duration = Duration::from_secs(30);
/// The oldest Kubernetes whose managedBy can be relied on.
const OLDEST_MINOR: u32 = 32;
/// Times of different clocks meet in deadlines, leases and the expiry of credentials; all of them bear a few seconds.
const SKEW_ALLOWED: Duration = Duration::from_secs(5);

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
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        git_version: String,
    }
    let answered: Result<Version, CallError> = kubeio::get(client, "/version", DEADLINE).await;
    let answered = answered.map_err(|error| Finding::refused("manager", &error, "look at its API server"))?;
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{DISPATCHER_LEASE}");
    let mut findings = vec![version(&answered.git_version)];
    findings.extend(server_time(client).await.map(|time| clock(time, now)));
    findings.push(rights(client).await);
    findings.push(delegates(delegation::probe(client).await));
    findings.push(dispatcher(kubeio::get(client, &lease, DEADLINE).await, now));
    Ok(findings)
}

fn version(version: &str) -> Finding {
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    if minor.is_some_and(|minor| minor < OLDEST_MINOR) {
        let mend = format!("upgrade it to 1.{OLDEST_MINOR} or newer: older servers run delegated Jobs themselves");
        return Finding::bad("manager", version, mend);
    }
    Finding::good("manager", version)
}

/// The time in the header of an answer. Servers need not send it.
async fn server_time(client: &Client) -> Option<Timestamp> {
    let request = Request::get("/version").body(Body::empty()).ok()?;
    let answer = tokio::time::timeout(DEADLINE, client.send(request)).await.ok()?.ok()?;
    let date = answer.headers().get(header::DATE)?.to_str().ok()?;
    rfc2822::DateTimeParser::new().parse_timestamp(date).ok()
}

fn clock(theirs: Timestamp, ours: Timestamp) -> Finding {
    let skew = theirs.duration_since(ours).unsigned_abs();
    if skew > SKEW_ALLOWED {
        let says = format!("the manager and this machine differ by {} s", skew.as_secs());
        return Finding::bad("clock", says, "set both clocks, for example by `timedatectl set-ntp true`");
    }
    Finding::good("clock", "as on this machine")
}

/// What whoever asks may do.
async fn rights(client: &Client) -> Finding {
    let mut missing = Vec::new();
    for (verb, group, resource) in RIGHTS {
        let attributes = json!({"verb": verb, "group": group, "resource": resource, "namespace":
            if group == "batch" { client.default_namespace() } else { "" }});
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = kubeio::create(client, path, review.to_string().into_bytes(), DEADLINE).await;
        match answer.map(|answer| serde_json::from_slice::<Value>(&answer)) {
            Ok(Ok(answer)) if answer["status"]["allowed"] == true => {}
            Ok(_) => missing.push(format!("{verb} {resource}.{group}")),
            Err(error) => return Finding::refused("your rights", &error, "ask an admin of the cluster"),
        }
    }
    if missing.is_empty() {
        return Finding::good("your rights", "submit and watch Jobs, see Workers and policies");
    }
    Finding::bad("your rights", format!("you may not {}", missing.join(", ")), "ask an admin for a Role with these")
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

fn dispatcher(lease: Result<Lease, CallError>, now: Timestamp) -> Finding {
    let what = "dispatcher";
    let start = "jobferry dispatcher (untouched Jobs look as if they ran)";
    match lease {
        Err(error) if error.is_not_found() => Finding::bad(what, "no dispatcher has ever held the lease", start),
        Err(error) => Finding::refused(what, &error, "look at the API server"),
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
    use jobferry_kubeio::Refusal;

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
        assert!(dispatcher(Ok(lease(5)), NOW).good);
        assert!(!dispatcher(Ok(lease(60)), NOW).good);
    }

    #[test]
    fn a_manager_must_be_new_enough() {
        assert!(version("v1.35.8").good);
        assert!(!version("v1.31.0").good);
    }

    #[test]
    fn clocks_may_differ_by_seconds_only() {
        assert!(clock(ago(3), NOW).good);
        assert_eq!(clock(ago(90), NOW).says, "the manager and this machine differ by 90 s");
        assert_eq!(clock(NOW, ago(90)).says, "the manager and this machine differ by 90 s");
    }

    #[test]
    fn a_cluster_that_drops_managed_by_is_wrong_and_one_that_cannot_be_tried_says_why() {
        assert!(delegates(Ok(true)).good);
        assert!(!delegates(Ok(false)).good);
        let refusal = Refusal { code: 403, reason: "Forbidden".into(), message: "no".into(), name: String::new() };
        let finding = delegates(Err(CallError::Refused(refusal)));
        assert_eq!(finding.mend.as_deref(), Some("ask an admin of the cluster for this right"));
    }
}
