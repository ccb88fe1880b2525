//! `jobferry get`: workloads, where they run and why they wait.

use std::process::ExitCode;

use anyhow::anyhow;
use jobferry_core::custom::KindRef;
use jobferry_kubeio::{self as kubeio, CallError};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Named, Scope, View, not_found_of, sort_out};
use crate::{
    dispatcher::wall_clock,
    install::DEADLINE,
    table::{Table, age},
};

mod watch;

/// Flags of `jobferry get`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    scope: Scope,
    /// A kind, such as jobs or jobsets, and names; without a kind Jobs are meant, without names all
    #[arg(value_name = "NAME")]
    words: Vec<Named>,
    /// The kind, also one that a WorkloadKind of this cluster brought in
    #[arg(short, long, value_name = "KIND")]
    kind: Option<String>,
    /// Of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Go on and print each change; with names, until those are gone
    #[arg(short, long)]
    watch: bool,
    /// How to print them
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Output {
    /// Columns, for people
    Table,
    /// More columns
    Wide,
    /// Views and objects, for programs
    Json,
    /// The same as YAML
    Yaml,
    /// Names, for other commands
    Name,
}

/// What is asked for, once it is clear which kind is meant.
struct Asked {
    kind: KindRef,
    names: Vec<String>,
    /// None: all.
    namespace: Option<String>,
    watch: bool,
    output: Output,
}

/// A workload and what is shown of it.
struct Shown {
    view: View,
    object: Value,
}

impl Shown {
    fn of(kind: &KindRef, mut object: Value) -> anyhow::Result<Self> {
        // The items of a list do not repeat it.
        let (api_version, kind_name) = kind.type_meta();
        object["apiVersion"] = api_version.into();
        object["kind"] = kind_name.into();
        Ok(Self { view: View::of_object(kind, &object, wall_clock())?, object })
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.object.pointer(pointer)?.as_str()
    }
}

/// Prints the workloads.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Value>,
    }
    let (client, namespace) = args.scope.connect().await?;
    let (kind, names) = sort_out(&client, args.kind.as_deref(), &args.words).await?;
    let namespace = (!args.all_namespaces).then_some(namespace);
    let asked = Asked { kind, names, namespace, watch: args.watch, output: args.output };
    if asked.watch {
        return watch::run(&asked, client).await;
    }
    let listed = kubeio::get(&client, &asked.path(), DEADLINE).await;
    let List { items } = listed.map_err(|error| asked.cannot_list(error))?;
    let wanted = asked.wanted(items)?;
    if wanted.is_empty() && asked.names.is_empty() {
        eprintln!("no {} found in {}", asked.kind_in_plural(), asked.place());
    }
    match asked.output {
        Output::Table | Output::Wide if wanted.is_empty() => {}
        Output::Table | Output::Wide => print!("{}", asked.table(&wanted, wall_clock())),
        _ => print!("{}", asked.text(&wanted)?),
    }
    match asked.missing(&wanted) {
        Some(missing) => Err(asked.not_found(missing)),
        None => Ok(ExitCode::SUCCESS),
    }
}

impl Asked {
    fn path(&self) -> String {
        let (root, plural) = self.kind.resource();
        self.namespace.as_ref().map_or_else(|| format!("{root}/{plural}"), |namespace| self.kind.collection(namespace))
    }

    /// `Jobs`, `JobSets`.
    fn kind_in_plural(&self) -> String {
        format!("{}s", self.kind.type_meta().1)
    }

    fn wants(&self, object: &Value) -> bool {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }

    fn wanted(&self, objects: Vec<Value>) -> anyhow::Result<Vec<Shown>> {
        let wanted = objects.into_iter().filter(|object| self.wants(object));
        wanted.map(|object| Shown::of(&self.kind, object)).collect()
    }

    /// A name that was asked for and is not there.
    fn missing(&self, there: &[Shown]) -> Option<&str> {
        let is_there = |name: &str| there.iter().any(|shown| shown.view.name == name);
        self.names.iter().map(String::as_str).find(|name| !is_there(name))
    }

    fn not_found(&self, name: &str) -> anyhow::Error {
        not_found_of(&self.kind, name, self.namespace.as_deref())
    }

    fn place(&self) -> String {
        self.namespace.as_ref().map_or_else(|| "any namespace".into(), |namespace| format!("namespace {namespace}"))
    }

    fn cannot_list(&self, error: CallError) -> anyhow::Error {
        match &self.kind {
            KindRef::Custom(kind) if error.refusal().is_some_and(|refusal| refusal.code == 404) => {
                anyhow!("this cluster does not have {}: its definition {} is not installed", kind.kind, kind.name())
            }
            _ => anyhow!(error).context(format!("cannot list {} in {}", self.kind_in_plural(), self.place())),
        }
    }

    fn table(&self, workloads: &[Shown], now: Timestamp) -> Table {
        let (is_job, all_namespaces) = (self.kind == KindRef::Job, self.namespace.is_none());
        let mut titles = vec!["NAME", "WORKER", "PHASE"];
        titles.extend(is_job.then_some("COMPLETIONS"));
        titles.extend(["AGE", "WHY"]);
        if all_namespaces {
            titles.insert(0, "NAMESPACE");
        }
        if self.output == Output::Wide {
            titles.extend(["MANAGED-BY", "UID"]);
        }
        let mut table = Table::with_titles(&titles);
        for shown in workloads {
            let view = &shown.view;
            let or_dash = |text: Option<&str>| text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned();
            let created = shown.text("/metadata/creationTimestamp").and_then(|created| created.parse().ok());
            let mut cells = vec![
                self.roomy(view.name.clone(), 20),
                self.roomy(or_dash(view.place.as_deref()), 12),
                self.roomy(format!("{:?}", view.phase), 9),
            ];
            cells.extend(view.completions.clone());
            cells.push(created.map_or_else(|| "-".into(), |created| age(created, now)));
            cells.push(or_dash(Some(&view.why)));
            if all_namespaces {
                cells.insert(0, view.namespace.clone());
            }
            if self.output == Output::Wide {
                cells.extend([or_dash(self.managed_by(shown)), or_dash(shown.text("/metadata/uid"))]);
            }
            table.add(cells);
        }
        table
    }

    fn managed_by<'a>(&self, shown: &'a Shown) -> Option<&'a str> {
        match &self.kind {
            KindRef::Job => shown.text("/spec/managedBy"),
            KindRef::Custom(kind) => kind.managed_by.as_ref()?.path.first(&shown.object)?.as_str(),
        }
    }

    /// A table that goes on leaves room for what may come.
    fn roomy(&self, cell: String, width: usize) -> String {
        if self.watch { format!("{cell:<width$}") } else { cell }
    }

    /// Every form but a table.
    fn text(&self, workloads: &[Shown]) -> anyhow::Result<String> {
        let kind = self.kind.type_meta().1.to_lowercase();
        Ok(match self.output {
            Output::Name => workloads.iter().flat_map(|shown| [&kind, "/", &shown.view.name, "\n"]).collect(),
            Output::Yaml => serde_saphyr::to_string(&self.listed(workloads))?,
            _ => serde_json::to_string_pretty(&self.listed(workloads))? + "\n",
        })
    }

    /// Each field of the table is here too.
    fn listed(&self, workloads: &[Shown]) -> Value {
        let (list, field) = match self.kind {
            KindRef::Job => ("JobViewList", "job"),
            KindRef::Custom(_) => ("WorkloadViewList", "object"),
        };
        let items: Vec<Value> = workloads.iter().map(|it| json!({"view": it.view, field: it.object})).collect();
        json!({"apiVersion": "jobferry.dev/v1alpha1", "kind": list, "items": items})
    }
}
