//! Whether a pod fits on a node, and which node it gets. Pure.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{
    api::core::v1::{Container, Node, NodeSelectorRequirement, Pod, Taint, Toleration},
    apimachinery::pkg::api::resource::Quantity,
};

use super::quantity::{self, Amounts};

/// What a pod asks of a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    requests: Amounts,
    selector: BTreeMap<String, String>,
    /// Any of these groups suffices; all requirements of a group must hold.
    affinity: Option<Vec<Vec<NodeSelectorRequirement>>>,
    tolerations: Vec<Toleration>,
}

/// What a node offers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offer {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) ready: bool,
    pub(crate) unschedulable: bool,
    pub(crate) taints: Vec<Taint>,
    pub(crate) allocatable: Amounts,
    /// What the pods on it have requested.
    pub(crate) used: Amounts,
}

/// Why a node is no place for a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Obstacle {
    NotReady,
    Unschedulable,
    Selector,
    Taint(String),
    Insufficient(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("node(s) were not ready"),
            Self::Unschedulable => f.write_str("node(s) were unschedulable"),
            Self::Selector => f.write_str("node(s) didn't match Pod's node affinity/selector"),
            Self::Taint(taint) => write!(f, "node(s) had untolerated taint {{{taint}}}"),
            Self::Insufficient(resource) => write!(f, "Insufficient {resource}"),
        }
    }
}

impl Wanted {
    pub(crate) fn of(pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        let mut requests = Amounts::new();
        for container in &spec.containers {
            quantity::add(&mut requests, &container_requests(container));
        }
        // Init containers run one after the other and before the others: the largest of them has to fit.
        for container in spec.init_containers.iter().flatten() {
            quantity::raise(&mut requests, &container_requests(container));
        }
        quantity::add(&mut requests, &amounts(spec.overhead.as_ref()));
        requests.insert("pods".to_owned(), 1000);
        let required = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let required = required.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
        let affinity = required.map(|selector| {
            let terms = selector.node_selector_terms.iter();
            terms.map(|term| term.match_expressions.clone().unwrap_or_default()).collect()
        });
        Self {
            requests,
            selector: spec.node_selector.clone().unwrap_or_default(),
            affinity,
            tolerations: spec.tolerations.clone().unwrap_or_default(),
        }
    }

    pub(crate) fn requests(&self) -> &Amounts {
        &self.requests
    }
}

impl Offer {
    pub(crate) fn of(node: &Node) -> Self {
        let status = node.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            ready: conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
            unschedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false),
            taints: node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            allocatable: amounts(status.and_then(|status| status.allocatable.as_ref())),
            used: Amounts::new(),
        }
    }

    /// What keeps the pod from this node.
    pub(crate) fn obstacle(&self, wanted: &Wanted) -> Option<Obstacle> {
        if self.unschedulable {
            return Some(Obstacle::Unschedulable);
        }
        if !self.ready {
            return Some(Obstacle::NotReady);
        }
        let selected = wanted.selector.iter().all(|(key, value)| self.labels.get(key) == Some(value));
        let terms = wanted.affinity.as_ref();
        let attracted = terms.is_none_or(|terms| terms.iter().any(|term| term.iter().all(|r| self.meets(r))));
        if !selected || !attracted {
            return Some(Obstacle::Selector);
        }
        let hard = self.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule");
        if let Some(taint) = hard.into_iter().find(|taint| !wanted.tolerations.iter().any(|t| tolerates(t, taint))) {
            let value = taint.value.as_deref().unwrap_or_default();
            return Some(Obstacle::Taint(format!("{}: {value}", taint.key)));
        }
        let short = wanted.requests.iter().find(|(resource, amount)| {
            let used = self.used.get(*resource).copied().unwrap_or(0);
            **amount > 0 && self.allocatable.get(*resource).copied().unwrap_or(0) < used + **amount
        });
        short.map(|(resource, _)| Obstacle::Insufficient(resource.clone()))
    }

    fn meets(&self, requirement: &NodeSelectorRequirement) -> bool {
        let value = self.labels.get(&requirement.key);
        let values = requirement.values.as_deref().unwrap_or_default();
        let listed = value.is_some_and(|value| values.contains(value));
        let number = |text: Option<&String>| text.and_then(|text| text.parse::<i64>().ok());
        match requirement.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => number(value).zip(number(values.first())).is_some_and(|(value, bound)| value > bound),
            "Lt" => number(value).zip(number(values.first())).is_some_and(|(value, bound)| value < bound),
            _ => false,
        }
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let exists = toleration.operator.as_deref() == Some("Exists");
    let key = toleration.key.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    (key == taint.key || (key.is_empty() && exists))
        && (effect.is_empty() || effect == taint.effect)
        && (exists || value == taint.value.as_deref().unwrap_or_default())
}

/// The node with the most room that fits, or what keeps the pod from each.
pub(crate) fn choose<'a>(wanted: &Wanted, offers: impl Iterator<Item = &'a Offer>) -> Result<&'a str, Vec<Obstacle>> {
    let mut best: Option<(&i128, &str)> = None;
    let mut obstacles = Vec::new();
    for offer in offers {
        if let Some(obstacle) = offer.obstacle(wanted) {
            obstacles.push(obstacle);
        } else {
            let candidate = (offer.used.get("pods").unwrap_or(&0), offer.name.as_str());
            best = Some(best.map_or(candidate, |known| known.min(candidate)));
        }
    }
    best.map(|(_, name)| name).ok_or(obstacles)
}

fn container_requests(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

fn amounts(quantities: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let quantities = quantities.into_iter().flatten();
    quantities.filter_map(|(name, quantity)| Some((name.clone(), quantity::milli(&quantity.0)?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Wanted {
        let mut spec = spec;
        spec.as_object_mut().unwrap().entry("containers").or_insert_with(|| json!([{"name": "c"}]));
        Wanted::of(&serde_json::from_value(json!({"spec": spec})).unwrap())
    }

    fn node(spec: &Value) -> Offer {
        let node = json!({
            "metadata": {"name": "n", "labels": {"zone": "a", "size": "5"}}, "spec": spec,
            "status": {"allocatable": {"cpu": "2", "pods": "3"}, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        Offer::of(&serde_json::from_value(node).unwrap())
    }

    #[test]
    fn a_pod_fits_where_nothing_keeps_it_out() {
        let cpu = |amount: &str| json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}]});
        let affinity = |key: &str, operator: &str, values: Value| {
            let term = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
            let required = json!({"nodeSelectorTerms": [term]});
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
        };
        let taint = json!({"taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]});
        for (wanted, offered, expected) in [
            (json!({}), json!({}), None),
            (json!({}), json!({"unschedulable": true}), Some(Obstacle::Unschedulable)),
            (cpu("2"), json!({}), None),
            (cpu("2100m"), json!({}), Some(Obstacle::Insufficient("cpu".to_owned()))),
            (json!({"nodeSelector": {"zone": "a"}}), json!({}), None),
            (json!({"nodeSelector": {"zone": "b"}}), json!({}), Some(Obstacle::Selector)),
            (affinity("zone", "In", json!(["a", "b"])), json!({}), None),
            (affinity("zone", "NotIn", json!(["a"])), json!({}), Some(Obstacle::Selector)),
            (affinity("size", "Gt", json!(["4"])), json!({}), None),
            (affinity("none", "Exists", json!([])), json!({}), Some(Obstacle::Selector)),
            (json!({}), taint.clone(), Some(Obstacle::Taint("gpu: x".to_owned()))),
            (json!({"tolerations": [{"operator": "Exists"}]}), taint.clone(), None),
            (json!({"tolerations": [{"key": "gpu", "value": "x"}]}), taint.clone(), None),
            (json!({"tolerations": [{"key": "gpu", "value": "y"}]}), taint, Some(Obstacle::Taint("gpu: x".to_owned()))),
        ] {
            assert_eq!(node(&offered).obstacle(&pod(wanted.clone())), expected, "{wanted} on {offered}");
        }
    }

    #[test]
    fn the_emptier_node_is_chosen_and_a_full_one_never() {
        let one = Offer { name: "a".to_owned(), used: Amounts::from([("pods".to_owned(), 2000)]), ..node(&json!({})) };
        let two = Offer { name: "b".to_owned(), used: Amounts::from([("pods".to_owned(), 1000)]), ..node(&json!({})) };
        let full = Offer { name: "c".to_owned(), used: Amounts::from([("pods".to_owned(), 3000)]), ..node(&json!({})) };
        assert_eq!(choose(&pod(json!({})), [&one, &two, &full].into_iter()), Ok("b"));
        assert_eq!(choose(&pod(json!({})), [&full].into_iter()), Err(vec![Obstacle::Insufficient("pods".to_owned())]));
    }
}
