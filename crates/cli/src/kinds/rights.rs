//! What the dispatcher must be allowed to do with kinds other than Job. Always in roles of their own: whoever applies the
//! others again, or renews a worker, does not take these away.

use std::{collections::BTreeSet, fmt, str::FromStr};

use jobferry_api::{GROUP, Guard, SYSTEM_NAMESPACE, rights};
use jobferry_core::kind::{BrokenTable, Kind, Table};
use jobferry_kubeio::{self as kubeio, CallError};
use kube::Client;
use serde_json::{Value, json};

use crate::install::DEADLINE;

const ROLE: &str = "jobferry-dispatcher-kinds";
/// Where roles are.
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A kind that was named on the command line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KindName {
    pub(super) group: String,
    pub(super) plural: String,
    /// What is known of it, if it is built in.
    built_in: Option<Box<Kind>>,
}

impl KindName {
    /// Every kind that is known beside Jobs.
    pub(super) fn built_in() -> Result<Vec<Self>, BrokenTable> {
        let table = Table::built_in()?;
        Ok(table.iter().filter(|(_, kind)| kind.group != "batch").map(|(_, kind)| Self::of(kind)).collect())
    }

    fn of(kind: &Kind) -> Self {
        Self { group: kind.group.clone(), plural: kind.plural.clone(), built_in: Some(Box::new(kind.clone())) }
    }

    /// The version to watch over.
    pub(super) fn version(&self) -> &str {
        self.built_in.as_ref().map_or("*", |kind| &kind.version)
    }

    /// What its operator creates, by group and plural. Of a user's own kind that is not known here.
    fn children(&self) -> impl Iterator<Item = (&str, &str)> {
        let children = self.built_in.iter().flat_map(|kind| &kind.children);
        children.map(|children| (children.group.as_str(), children.plural.as_str()))
    }

    /// Where it says to whom an object is handed, and what the kind's own admission refuses there.
    pub(super) fn managed_by(&self) -> Option<(String, Guard)> {
        let managed_by = self.built_in.as_ref()?.managed_by.as_ref()?;
        Some((managed_by.path.to_string(), managed_by.guard))
    }
}

impl fmt::Display for KindName {
    /// In full, as it can be named again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.plural, self.group)
    }
}

impl FromStr for KindName {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let table = Table::built_in().map_err(|error| error.to_string())?;
        if let [(_, kind)] = table.called(word)[..] {
            if kind.group == "batch" {
                return Err(
                    "Jobs are dispatched in any case, and the dispatcher may not delete them: leave it out".into()
                );
            }
            return Ok(Self::of(kind));
        }
        // One of a user's own is known by its full name only.
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        match word.split_once('.') {
            Some((plural, group)) if word.chars().all(plain) && !plural.is_empty() && group.contains('.') => {
                Ok(Self { group: group.to_owned(), plural: plural.to_owned(), built_in: None })
            }
            _ => Err(
                "not a built-in kind (`jobferry kinds list`), nor a full name such as etlruns.workloads.example.dev"
                    .into(),
            ),
        }
    }
}

/// The kinds that the dispatcher may handle on the management cluster already.
pub(crate) async fn allowed_on_manager(manager: &Client) -> Result<Vec<KindName>, CallError> {
    allowed_by(manager, ROLE, None).await
}

/// The kinds that a role allows; none if there is no such role.
pub(crate) async fn allowed_by(
    client: &Client,
    role: &str,
    namespace: Option<&str>,
) -> Result<Vec<KindName>, CallError> {
    let path = match namespace {
        Some(namespace) => format!("{RBAC}/namespaces/{namespace}/roles/{role}"),
        None => format!("{RBAC}/clusterroles/{role}"),
    };
    match kubeio::get(client, &path, DEADLINE).await {
        Ok(role) => Ok(kinds_in(&role)),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Those that a role of ours names.
fn kinds_in(role: &Value) -> Vec<KindName> {
    let words = |rule: &Value, part: &str| -> Vec<String> {
        rule[part].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    // What operators create is only watched.
    let handled = |rule: &&Value| words(rule, "verbs").contains(&"delete".to_owned());
    let mut kinds = Vec::new();
    for rule in role["rules"].as_array().into_iter().flatten().filter(handled) {
        for group in words(rule, "apiGroups") {
            let resources = words(rule, "resources").into_iter();
            kinds.extend(resources.filter_map(|plural| format!("{plural}.{group}").parse::<KindName>().ok()));
        }
    }
    kinds
}

/// What was allowed before stays allowed: mirrors of those kinds may be running.
pub(crate) fn added(mut allowed: Vec<KindName>, named: &[KindName]) -> Vec<KindName> {
    for kind in named {
        if !allowed.contains(kind) {
            allowed.push(kind.clone());
        }
    }
    allowed
}

/// Kinds as they are told.
pub(crate) fn words(kinds: &[KindName]) -> String {
    kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The role on the management cluster: users' objects are read, their status and our notes on them written (which the
/// admission policies ask for by name), and finished ones deleted when their time is over. What an operator creates is watched:
/// it shows that somebody runs on the manager what was handed over.
pub(crate) fn on_manager(kinds: &[KindName]) -> Vec<Value> {
    if kinds.is_empty() {
        return Vec::new();
    }
    let mut rules = vec![rule(GROUP, rights::PLACEMENTS, &[rights::RECORD])];
    rules.extend(kinds.iter().flat_map(|kind| {
        [
            rule(&kind.group, &kind.plural, &["get", "list", "watch", "patch", "delete"]),
            rule(&kind.group, &format!("{}/status", kind.plural), &["patch"]),
        ]
    }));
    let children: BTreeSet<_> = kinds.iter().flat_map(KindName::children).collect();
    rules.extend(children.into_iter().map(|(group, plural)| rule(group, plural, &["list", "watch"])));
    let api = "rbac.authorization.k8s.io/v1";
    vec![
        json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": rules}),
        json!({
            "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": ROLE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": "jobferry-dispatcher", "namespace": SYSTEM_NAMESPACE}],
        }),
    ]
}

/// The rules on a worker: what is done with mirrors.
pub(crate) fn on_worker(kinds: &[KindName]) -> Vec<Value> {
    let verbs = ["get", "list", "watch", "create", "patch", "delete"];
    kinds.iter().map(|kind| rule(&kind.group, &kind.plural, &verbs)).collect()
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_shortly_if_it_is_built_in_and_in_full_if_not() {
        let named = |word: &str| word.parse::<KindName>().map(|kind| format!("{} {}", kind.group, kind.plural));
        assert_eq!(named("JobSet").unwrap(), "jobset.x-k8s.io jobsets");
        assert_eq!(named("rayjobs.ray.io").unwrap(), "ray.io rayjobs");
        assert_eq!(named("etlruns.workloads.example.dev").unwrap(), "workloads.example.dev etlruns");
        for wrong in ["EtlRun", "*.example.dev", "etlruns.", "secrets", "Job", "jobs.batch", ""] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn kinds_are_added_to_those_of_the_role_that_is_there() {
        let named = |words: &[&str]| words.iter().map(|word| word.parse().unwrap()).collect::<Vec<KindName>>();
        // The operator of TrainJobs creates JobSets: those are not dispatched because of that.
        let train_jobs = named(&["TrainJob"]);
        assert_eq!(kinds_in(&on_manager(&train_jobs)[0]), train_jobs);
        let before = named(&["JobSet", "etlruns.workloads.example.dev"]);
        assert_eq!(kinds_in(&on_manager(&before)[0]), before);
        assert_eq!(kinds_in(&json!({"rules": on_worker(&before)})), before);
        assert_eq!(kinds_in(&json!({"rules": null})), []);
        let all = named(&["JobSet", "etlruns.workloads.example.dev", "RayJob"]);
        assert_eq!(added(before, &named(&["RayJob", "jobsets.jobset.x-k8s.io"])), all);
    }

    #[test]
    fn no_rule_is_wider_than_it_must_be() {
        assert_eq!(on_manager(&[]), Vec::<Value>::new());
        let kinds = ["JobSet".parse().unwrap()];
        let role = &on_manager(&kinds)[0];
        assert_eq!(role["rules"][0], json!({"apiGroups": [GROUP], "resources": ["placements"], "verbs": ["record"]}));
        assert_eq!(role["rules"][1]["verbs"], json!(["get", "list", "watch", "patch", "delete"]));
        assert_eq!(role["rules"][2]["resources"], json!(["jobsets/status"]));
        assert_eq!(on_worker(&kinds)[0]["apiGroups"], json!(["jobset.x-k8s.io"]));
    }

    #[test]
    fn what_the_operators_create_may_be_watched_and_no_more() {
        let kinds = ["TFJob", "JAXJob", "RayJob", "etlruns.workloads.example.dev"].map(|kind| kind.parse().unwrap());
        let rules = on_manager(&kinds)[0]["rules"].as_array().unwrap().clone();
        let watched: Vec<_> = rules.into_iter().filter(|rule| rule["verbs"] == json!(["list", "watch"])).collect();
        let (of_ray, pods) = (rule("ray.io", "rayclusters", &["list", "watch"]), rule("", "pods", &["list", "watch"]));
        assert_eq!(watched, [pods, of_ray]);
        assert_eq!(on_worker(&kinds).len(), kinds.len(), "on workers there is nothing to watch for");
    }
}
