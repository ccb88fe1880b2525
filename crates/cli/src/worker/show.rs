//! `jobferry worker list` and `describe`.

use std::fmt::Write as _;

use anyhow::Context as _;
use jobferry_api::{
    Worker,
    conditions::{ACCEPTED, CONNECTED},
};
use jobferry_kubeio as kubeio;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde::Deserialize;
use serde_json::json;

use super::{WORKERS, tend};
use crate::{
    dispatcher::wall_clock,
    install::DEADLINE,
    table::{Table, age},
    target::Target,
};

/// Flags of `jobferry worker list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    target: Target,
    /// How to print them
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

impl ListArgs {
    pub(super) const fn table(target: Target) -> Self {
        Self { target, output: Output::Table }
    }
}

/// Flags of `jobferry worker describe`.
#[derive(clap::Args)]
pub(crate) struct DescribeArgs {
    #[command(flatten)]
    target: Target,
    /// Name of the worker
    name: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    /// Columns, for people
    Table,
    /// The Worker objects, for programs
    Json,
    /// Names, for other commands
    Name,
}

/// Prints all workers.
pub(super) async fn list(args: ListArgs) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Worker>,
    }
    let manager = args.target.client().await?;
    let list: List = kubeio::get(&manager, WORKERS, DEADLINE).await.context("cannot list Workers")?;
    match args.output {
        Output::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": list.items});
            println!("{}", serde_json::to_string_pretty(&list)?);
        }
        Output::Name => list.items.iter().for_each(|worker| println!("worker/{}", name_of(worker))),
        Output::Table if list.items.is_empty() => eprintln!("no workers; add one with `jobferry worker join`"),
        Output::Table => print!("{}", table(&list.items, wall_clock())),
    }
    Ok(())
}

fn table(workers: &[Worker], now: Timestamp) -> Table {
    let mut titles = vec!["NAME", "STATUS", "VERSION", "UNFINISHED", "CREDENTIAL", "AGE"];
    // Most managers have one dispatcher, and need not be told its name.
    let several = workers.iter().any(|worker| worker.spec.other_dispatcher().is_some());
    if several {
        titles.push("MANAGED-BY");
    }
    let mut table = Table::with_titles(&titles);
    for worker in workers {
        let status = worker.status.clone().unwrap_or_default();
        let mut cells = vec![
            name_of(worker).to_owned(),
            state(worker, now),
            status.version.unwrap_or_else(|| "-".into()),
            status.unfinished.map_or_else(|| "-".into(), |count| count.to_string()),
            status.credential_expires.map_or_else(|| "-".into(), |Time(at)| left(at, now)),
            worker.metadata.creation_timestamp.as_ref().map_or_else(|| "-".into(), |Time(at)| age(*at, now)),
        ];
        if several {
            cells.push(worker.spec.dispatcher().to_owned());
        }
        table.add(cells);
    }
    table
}

/// How long a credential is still good.
fn left(expires: Timestamp, now: Timestamp) -> String {
    if expires <= now { "expired".to_owned() } else { age(now, expires) }
}

/// How a worker is, from its status.
#[derive(Debug, PartialEq, Eq)]
enum Health {
    /// The dispatcher has not looked at it yet.
    Unknown,
    Connected,
    /// It does not answer; for how long.
    Lost(Option<String>),
    /// Its credentials or identity are not accepted.
    Refused,
}

impl Health {
    fn words(&self) -> String {
        match self {
            Self::Unknown => "Unknown".to_owned(),
            Self::Connected => "Connected".to_owned(),
            Self::Lost(None) => "Lost".to_owned(),
            Self::Lost(Some(since)) => format!("Lost({since})"),
            Self::Refused => "Refused".to_owned(),
        }
    }
}

/// How it is, and whether it takes new workloads.
fn state(worker: &Worker, now: Timestamp) -> String {
    let mut words = health(worker, now).words();
    if worker.spec.cordoned {
        words.push_str(",Cordoned");
    }
    if worker.metadata.deletion_timestamp.is_some() {
        words.push_str(",Leaving");
    }
    words
}

fn health(worker: &Worker, now: Timestamp) -> Health {
    let Some(status) = &worker.status else { return Health::Unknown };
    let says = |kind: &str, value: &str| status.conditions.iter().any(|c| c.type_ == kind && c.status == value);
    if says(ACCEPTED, "False") {
        Health::Refused
    } else if says(CONNECTED, "True") {
        Health::Connected
    } else if says(CONNECTED, "False") {
        Health::Lost(status.lost_since.as_ref().map(|Time(since)| age(*since, now)))
    } else {
        Health::Unknown
    }
}

/// Prints one worker.
pub(super) async fn describe(args: DescribeArgs) -> anyhow::Result<()> {
    let manager = args.target.client().await?;
    let worker = tend::read(&manager, &args.name).await?;
    print!("{}", description(&worker, wall_clock())?);
    Ok(())
}

fn description(worker: &Worker, now: Timestamp) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let mut line = |key: &str, value: &str| writeln!(text, "{:<20}{value}", format!("{key}:"));
    let status = worker.status.clone().unwrap_or_default();
    let time = |time: Option<Time>| time.map(|Time(at)| format!("{at} ({} ago)", age(at, now)));
    let labels = worker.metadata.labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let secret = format!("{}/{}", jobferry_api::SYSTEM_NAMESPACE, worker.spec.kubeconfig_secret);
    line("Name", name_of(worker))?;
    line("Labels", &labels.collect::<Vec<_>>().join(","))?;
    line("Status", &state(worker, now))?;
    if let Some(dispatcher) = worker.spec.other_dispatcher() {
        line("Managed by", dispatcher)?;
    }
    line("Credentials", &format!("secret {secret}"))?;
    line("Namespaces", &worker.spec.namespaces.as_ref().map_or_else(|| "all".to_owned(), |names| names.join(",")))?;
    for (key, value) in [
        ("Identity", status.identity),
        ("Version", status.version),
        ("Connected since", time(status.connected_since)),
        ("Lost since", time(status.lost_since)),
        ("Credential expires", status.credential_expires.map(|Time(at)| expiry(at, now))),
        ("Unfinished", status.unfinished.map(|count| format!("{count} workloads"))),
        (
            "Deleted",
            time(worker.metadata.deletion_timestamp.clone()).map(|at| format!("{at}, waits for its workloads")),
        ),
    ] {
        line(key, value.as_deref().unwrap_or("-"))?;
    }
    for missing in &status.missing_kinds {
        line("Missing kind", &format!("{} ({})", missing.name, missing.why))?;
    }
    for condition in &status.conditions {
        line(&condition.type_, &format!("{} ({}): {}", condition.status, condition.reason, condition.message))?;
    }
    Ok(text)
}

fn expiry(at: Timestamp, now: Timestamp) -> String {
    if at <= now { format!("{at} (expired)") } else { format!("{at} (in {})", left(at, now)) }
}

fn name_of(worker: &Worker) -> &str {
    worker.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn worker(cordoned: bool, status: &Value) -> Worker {
        let worker = json!({
            "apiVersion": "jobferry.dev/v1alpha1", "kind": "Worker",
            "metadata": {"name": "eu-1", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"region": "eu"}},
            "spec": {"kubeconfigSecret": "eu-1", "cordoned": cordoned}, "status": status,
        });
        serde_json::from_value(worker).unwrap()
    }

    fn leaving(mut worker: Worker) -> Worker {
        worker.metadata.deletion_timestamp = Some(Time(noon()));
        worker
    }

    fn conditions(accepted: &str, connected: &str) -> Value {
        let condition = |kind: &str, status: &str| {
            let time = "2026-01-01T00:00:00Z";
            json!({"type": kind, "status": status, "reason": "R", "message": "because", "lastTransitionTime": time})
        };
        json!([condition(ACCEPTED, accepted), condition(CONNECTED, connected)])
    }

    fn noon() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn the_status_column_says_how_a_worker_is() {
        let since = "2026-01-01T11:55:00Z";
        for (worker, words) in [
            (worker(false, &Value::Null), "Unknown"),
            (worker(false, &json!({"conditions": conditions("True", "True")})), "Connected"),
            (worker(true, &json!({"conditions": conditions("True", "True")})), "Connected,Cordoned"),
            (leaving(worker(false, &json!({"conditions": conditions("True", "True")}))), "Connected,Leaving"),
            (worker(false, &json!({"conditions": conditions("True", "False")})), "Lost"),
            (worker(false, &json!({"conditions": conditions("True", "False"), "lostSince": since})), "Lost(5m)"),
            (worker(false, &json!({"conditions": conditions("False", "False")})), "Refused"),
        ] {
            assert_eq!(state(&worker, noon()), words);
        }
    }

    #[test]
    fn the_table_has_kubectls_manners() {
        let status = |ends: &str| {
            let conditions = conditions("True", "True");
            json!({"conditions": conditions, "version": "v1.35.8", "unfinished": 12, "credentialExpires": ends})
        };
        let workers = [worker(true, &status("2026-01-02T11:00:00Z")), worker(false, &status("2026-01-01T11:00:00Z"))];
        let expected = "NAME   STATUS               VERSION   UNFINISHED   CREDENTIAL   AGE\n\
                        eu-1   Connected,Cordoned   v1.35.8   12           23h          12h\n\
                        eu-1   Connected            v1.35.8   12           expired      12h\n";
        assert_eq!(table(&workers, noon()).to_string(), expected);
    }

    #[test]
    fn another_dispatcher_is_named() {
        let (ours, mut others) = (worker(false, &Value::Null), worker(false, &Value::Null));
        others.spec.managed_by = Some("example.com/other".into());
        let expected = "NAME   STATUS    VERSION   UNFINISHED   CREDENTIAL   AGE   MANAGED-BY\n\
                        eu-1   Unknown   -         -            -            12h   jobferry.dev/dispatcher\n\
                        eu-1   Unknown   -         -            -            12h   example.com/other\n";
        assert_eq!(table(&[ours.clone(), others.clone()], noon()).to_string(), expected);
        assert!(description(&others, noon()).unwrap().contains("Managed by:         example.com/other\n"));
        assert!(!description(&ours, noon()).unwrap().contains("Managed by"));
    }

    #[test]
    fn a_description_names_what_is_wrong() {
        let printed =
            description(&worker(false, &json!({"conditions": conditions("False", "False")})), noon()).unwrap();
        for words in ["Status:             Refused\n", "secret jobferry-system/eu-1\n", "False (R): because\n"] {
            assert!(printed.contains(words), "{words:?} is missing in\n{printed}");
        }
    }
}
