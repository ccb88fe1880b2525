//! `jobferry doctor`: what is wrong with an installation, and the command that mends it.

use std::{process::ExitCode, time::Duration};

use jobferry_api::{
    DISPATCHER_LEASE, SYSTEM_NAMESPACE, Worker,
    conditions::{ACCEPTED, CONNECTED},
};
use jobferry_kubeio::{self as kubeio, CallError};
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::Client;
use serde::{Deserialize, Serialize};

use crate::{
    dispatcher::wall_clock,
    install::DEADLINE,
    table::{Table, age},
    target::Target,
};

/// A dispatcher renews its lease every few seconds.
const LEASE_IS_OLD: Duration = Duration::from_secs(30);
/// Credentials that end sooner should have been renewed by now.
const EXPIRES_SOON: Duration = Duration::from_secs(3600);
/// The oldest Kubernetes whose managedBy can be relied on.
const OLDEST_MINOR: u32 = 32;

/// Flags of `jobferry doctor`.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 nothing is wrong, 1 something is.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// How to print the findings
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    /// For people
    Table,
    /// For programs
    Json,
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Serialize)]
struct Finding {
    what: String,
    good: bool,
    says: String,
    /// The command or the step that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

impl Finding {
    fn good(what: impl Into<String>, says: impl Into<String>) -> Self {
        Self { what: what.into(), good: true, says: says.into(), mend: None }
    }

    fn bad(what: impl Into<String>, says: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { what: what.into(), good: false, says: says.into(), mend: Some(mend.into()) }
    }
}

/// Looks at everything that can be seen from the management cluster.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = args.target.client().await?;
    let findings = examine(&client, wall_clock()).await;
    match args.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&findings)?),
        Output::Table => {
            let mut table = Table::new(["CHECK", "RESULT", "SAYS", "TO-MEND"]);
            for finding in &findings {
                let result = if finding.good { "ok" } else { "WRONG" };
                let mend = finding.mend.clone().unwrap_or_else(|| "-".into());
                table.row([finding.what.clone(), result.into(), finding.says.clone(), mend]);
            }
            print!("{table}");
        }
    }
    Ok(if findings.iter().all(|finding| finding.good) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn examine(client: &Client, now: Timestamp) -> Vec<Finding> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        git_version: String,
    }
    #[derive(Deserialize)]
    struct Workers {
        items: Vec<Worker>,
    }
    let version: Version = match kubeio::get(client, "/version", DEADLINE).await {
        Ok(version) => version,
        Err(error) => {
            let mend = "check --kubeconfig and --context, and that the cluster runs";
            return vec![Finding::bad("manager", error.to_string(), mend)];
        }
    };
    let mut findings = vec![manager(&version.git_version)];
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{DISPATCHER_LEASE}");
    findings.push(dispatcher(kubeio::get(client, &lease, DEADLINE).await, now));
    match kubeio::get::<Workers>(client, "/apis/jobferry.dev/v1alpha1/workers", DEADLINE).await {
        Err(error) => findings.push(Finding::bad("crds", error.to_string(), "jobferry install")),
        Ok(Workers { items }) if items.is_empty() => {
            findings.push(Finding::bad(
                "workers",
                "there are none",
                "jobferry worker join NAME --worker-kubeconfig FILE",
            ));
        }
        Ok(Workers { items }) => findings.extend(items.iter().flat_map(|one| worker(one, now))),
    }
    findings
}

fn manager(version: &str) -> Finding {
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    if minor.is_some_and(|minor| minor < OLDEST_MINOR) {
        let mend = format!("upgrade it to 1.{OLDEST_MINOR} or newer: older servers run delegated Jobs themselves");
        return Finding::bad("manager", version, mend);
    }
    Finding::good("manager", version)
}

fn dispatcher(lease: Result<Lease, CallError>, now: Timestamp) -> Finding {
    let what = "dispatcher";
    let start = "jobferry dispatcher (untouched Jobs look as if they ran)";
    match lease {
        Err(error) if error.is_not_found() => Finding::bad(what, "no dispatcher has ever held the lease", start),
        Err(error) => Finding::bad(what, error.to_string(), "a right to read leases in jobferry-system"),
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

fn worker(worker: &Worker, now: Timestamp) -> Vec<Finding> {
    let name = worker.metadata.name.clone().unwrap_or_default();
    let what = format!("worker {name}");
    let status = worker.status.clone().unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().find(|condition| condition.type_ == type_);
    let refused = condition(ACCEPTED).filter(|accepted| accepted.status != "True");
    let mut findings = vec![match (refused, condition(CONNECTED)) {
        (Some(accepted), _) => Finding::bad(
            &what,
            &accepted.message,
            format!("jobferry worker join {name} with credentials that work, or correct the Secret"),
        ),
        (None, Some(connected)) if connected.status == "True" => {
            Finding::good(&what, format!("connected, {}", status.version.unwrap_or_default()))
        }
        (None, Some(connected)) => {
            let since = status.lost_since.map(|Time(since)| format!(" for {}", age(since, now))).unwrap_or_default();
            let says = format!("no answer{since}: {}", connected.message);
            Finding::bad(&what, says, format!("bring the cluster back, or `jobferry worker forget {name}`"))
        }
        (None, None) => Finding::bad(&what, "no dispatcher has looked at it", "jobferry dispatcher"),
    }];
    if let Some(Time(expires)) = status.credential_expires {
        let left = Duration::try_from(expires.duration_since(now)).unwrap_or_default();
        if left < EXPIRES_SOON {
            let says = format!("its credentials end at {expires}");
            findings.push(Finding::bad(&what, says, format!("jobferry worker join {name}, which makes new ones")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn worker_with(status: &Value) -> Worker {
        serde_json::from_value(json!({
            "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker", "metadata": {"name": "eu-1"},
            "spec": {"kubeconfigSecret": "eu-1"}, "status": status,
        }))
        .unwrap()
    }

    fn condition(type_: &str, status: &str) -> Value {
        json!({"type": type_, "status": status, "reason": "", "message": "m", "lastTransitionTime": NOW.to_string()})
    }

    #[test]
    fn a_worker_is_judged_by_its_conditions_and_by_when_its_credentials_end() {
        let judged = |status: Value| worker(&worker_with(&status), NOW).iter().map(|f| f.good).collect::<Vec<_>>();
        assert_eq!(judged(json!({"conditions": [condition("Connected", "True")]})), [true]);
        assert_eq!(judged(json!({"conditions": [condition("Connected", "False")]})), [false]);
        assert_eq!(judged(json!({})), [false]);
        let refused = json!({"conditions": [condition("Accepted", "False"), condition("Connected", "True")]});
        assert_eq!(judged(refused), [false]);
        let ends = NOW.checked_add(Duration::from_secs(60)).unwrap().to_string();
        let soon = json!({"conditions": [condition("Connected", "True")], "credentialExpires": ends});
        assert_eq!(judged(soon), [true, false]);
    }

    #[test]
    fn a_dispatcher_that_does_not_renew_its_lease_is_down() {
        let lease = |ago: u64| -> Lease {
            let renewed = NOW.checked_sub(Duration::from_secs(ago)).unwrap();
            let time = format!("{renewed:.6}");
            serde_json::from_value(json!({"metadata": {}, "spec": {"holderIdentity": "a", "renewTime": time}})).unwrap()
        };
        assert!(dispatcher(Ok(lease(5)), NOW).good);
        assert!(!dispatcher(Ok(lease(60)), NOW).good);
    }

    #[test]
    fn a_manager_must_be_new_enough() {
        assert!(manager("v1.35.8").good);
        assert!(!manager("v1.31.0").good);
    }
}
