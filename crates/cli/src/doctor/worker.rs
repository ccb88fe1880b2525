//! A worker, by the status that the dispatcher writes.

use std::time::Duration;

use jobferry_api::{
    Worker,
    conditions::{ACCEPTED, CONNECTED, REASON_SECRET_UNREADABLE},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::{Finding, manager};
use crate::{
    server_version::{OLDEST_MINOR, is_too_old},
    table::age,
};

/// A quarter of the life that `worker join` gives to a token. It is renewed at half of it, so by now something prevents it.
const EXPIRES_SOON: Duration = Duration::from_secs(6 * 3600);

/// How it is, and how long its credentials last.
pub(super) fn judge(worker: &Worker, now: Timestamp) -> Vec<Finding> {
    let name = worker.metadata.name.as_deref().unwrap_or_default();
    let mut findings = vec![connection(worker, name, now)];
    let expires = worker.status.as_ref().and_then(|status| status.credential_expires.as_ref());
    findings.extend(expires.map(|Time(expires)| credentials(*expires, name, now)));
    findings
}

fn connection(worker: &Worker, name: &str, now: Timestamp) -> Finding {
    let what = format!("worker {name}");
    let status = worker.status.clone().unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().find(|condition| condition.type_ == type_);
    let refused = condition(ACCEPTED).filter(|accepted| accepted.status != "True");
    match (refused, condition(CONNECTED)) {
        (Some(accepted), _) if accepted.reason == REASON_SECRET_UNREADABLE => {
            Finding::bad(what, &accepted.message, "`jobferry install` lets the dispatcher read it")
        }
        (Some(accepted), _) => Finding::bad(what, &accepted.message, acceptable(name, &accepted.message)),
        (None, Some(connected)) if connected.status == "True" => {
            let cordoned = if worker.spec.cordoned { ", cordoned" } else { "" };
            let leaving = if worker.metadata.deletion_timestamp.is_some() { ", being removed" } else { "" };
            let version = status.version.unwrap_or_default();
            let other = worker.spec.other_dispatcher().map(|name| format!(", used by {name}")).unwrap_or_default();
            let says = format!("connected, {version}{cordoned}{leaving}{other}");
            if is_too_old(&version) {
                return Finding::bad(what, says, format!("upgrade it to Kubernetes 1.{OLDEST_MINOR} or newer"));
            }
            Finding::good(what, says)
        }
        (None, Some(connected)) => {
            let since = status.lost_since.map(|Time(since)| format!(" for {}", age(since, now))).unwrap_or_default();
            let says = format!("no answer{since}: {}", connected.message);
            Finding::bad(what, says, format!("bring the cluster back, or `jobferry worker forget {name}`"))
        }
        (None, None) => {
            Finding::bad(what, "no dispatcher has looked at it", manager::to_start(worker.spec.dispatcher()))
        }
    }
}

fn credentials(expires: Timestamp, name: &str, now: Timestamp) -> Finding {
    let what = format!("credentials {name}");
    let mend = new_credentials(name);
    if expires <= now {
        return Finding::bad(what, format!("ended {} ago", age(expires, now)), mend);
    }
    let says = format!("end in {}", age(now, expires));
    let left = Duration::try_from(expires.duration_since(now)).unwrap_or_default();
    if left < EXPIRES_SOON { Finding::bad(what, says, mend) } else { Finding::good(what, says) }
}

/// What helps a worker that is not accepted. Of a cluster that is registered twice, new credentials make no other one.
fn acceptable(name: &str, why: &str) -> String {
    if why.contains("registered already") {
        return format!("`jobferry worker forget {name}`: the cluster has another name already");
    }
    format!("{}, or `jobferry worker forget {name}`", new_credentials(name))
}

fn new_credentials(worker: &str) -> String {
    format!("`jobferry worker join {worker} --renew --worker-kubeconfig FILE`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Judgement;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn findings(status: &Value) -> Vec<(bool, String)> {
        let worker: Worker = serde_json::from_value(json!({
            "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker", "metadata": {"name": "eu-1"},
            "spec": {"kubeconfigSecret": "eu-1"}, "status": status,
        }))
        .unwrap();
        judge(&worker, NOW).into_iter().map(|finding| (finding.result == Judgement::Ok, finding.says)).collect()
    }

    fn condition(type_: &str, status: &str) -> Value {
        json!({"type": type_, "status": status, "reason": "", "message": "m", "lastTransitionTime": NOW.to_string()})
    }

    #[test]
    fn a_worker_is_judged_by_its_conditions() {
        let connected = json!({"conditions": [condition("Connected", "True")], "version": "v1.35.8"});
        assert_eq!(findings(&connected), [(true, "connected, v1.35.8".to_owned())]);
        assert_eq!(
            findings(&json!({"conditions": [condition("Connected", "False")]})),
            [(false, "no answer: m".into())]
        );
        let old = json!({"conditions": [condition("Connected", "True")], "version": "v1.31.9"});
        assert_eq!(findings(&old), [(false, "connected, v1.31.9".to_owned())]);
        assert_eq!(findings(&json!({})), [(false, "no dispatcher has looked at it".to_owned())]);
        let refused = json!({"conditions": [condition("Accepted", "False"), condition("Connected", "True")]});
        assert_eq!(findings(&refused), [(false, "m".to_owned())]);
    }

    #[test]
    fn a_cluster_that_is_registered_twice_is_forgotten_under_one_of_its_names() {
        assert!(
            acceptable("twin", "this cluster is registered already, as Worker eu-1")
                .starts_with("`jobferry worker forget twin`")
        );
        assert!(acceptable("stale", "the credentials are refused").starts_with("`jobferry worker join stale --renew"));
    }

    #[test]
    fn credentials_that_should_have_been_renewed_are_wrong() {
        for (seconds, good, says) in
            [(86_400, true, "end in 24h"), (3600, false, "end in 60m"), (-60, false, "ended 60s ago")]
        {
            let ends = Timestamp::new(NOW.as_second() + seconds, 0).unwrap().to_string();
            let found = findings(&json!({"conditions": [condition("Connected", "True")], "credentialExpires": ends}));
            assert_eq!(found[1], (good, says.to_owned()), "{seconds}");
        }
    }
}
