//! Admission policies of the management cluster. They keep users from what a kind's own admission does not: changing to whom
//! an object was handed, and writing the dispatcher's notes on it.

use std::collections::BTreeMap;

use jobferry_api::{GROUP, Guard, annotations, rights};
use jobferry_core::kind::BrokenTable;
use serde_json::{Value, json};

use super::rights::KindName;

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

/// The policies for these kinds, each followed by what puts it into force.
pub(crate) fn policies(kinds: &[KindName]) -> Vec<Value> {
    let mut policies: Vec<Value> = notes(kinds).into_iter().collect();
    policies.extend(handovers(kinds));
    let in_force = |policy: Value| {
        let binding = binding(&policy);
        [policy, binding]
    };
    policies.into_iter().flat_map(in_force).collect()
}

/// What an earlier install made for other kinds only, each after what puts it into force.
pub(crate) fn left_over(kinds: &[KindName]) -> Result<Vec<Value>, BrokenTable> {
    let name = |object: &Value| object["metadata"]["name"].clone();
    let in_use: Vec<Value> = policies(kinds).iter().map(name).collect();
    let ever_made = policies(&KindName::built_in()?);
    Ok(ever_made.into_iter().rev().filter(|object| !in_use.contains(&name(object))).collect())
}

/// The notes are guarded on updates only: they name the UID of their object, which nobody knows before it exists.
fn notes(kinds: &[KindName]) -> Option<Value> {
    if kinds.is_empty() {
        return None;
    }
    let allowed =
        format!("authorizer.group('{GROUP}').resource('{}').check('{}').allowed()", rights::PLACEMENTS, rights::RECORD);
    let validations = [annotations::PLACEMENT, annotations::PLACED].map(|note| {
        json!({
            // The cheap question first: hardly any update touches a note.
            "expression": format!("{} || {allowed}", is_unchanged(&format!(".metadata.?annotations[?'{note}']"))),
            "message": format!(
                "the annotation {note} is the dispatcher's note on where this object runs, and only the dispatcher writes \
                 it: send the object with the annotation as it is, or a patch that does not name it"
            ),
            "reason": "Forbidden",
        })
    });
    Some(policy("jobferry-notes", &kinds.iter().collect::<Vec<_>>(), &json!(validations)))
}

/// Where the field can be added, changed or removed later, two controllers would run an object.
fn handovers(kinds: &[KindName]) -> Vec<Value> {
    let mut unguarded: BTreeMap<String, Vec<&KindName>> = BTreeMap::new();
    for kind in kinds {
        if let Some((path, guard)) = kind.managed_by()
            && guard != Guard::Everything
        {
            unguarded.entry(path).or_default().push(kind);
        }
    }
    let policy_of = |(path, kinds): (String, Vec<&KindName>)| {
        let validation = json!({
            "expression": is_unchanged(&format!(".?{}", path.replace('.', ".?"))),
            "message": format!(
                "{path} can be neither added nor changed nor removed, or two controllers would run this object: delete it \
                 and create it again"
            ),
        });
        policy(&format!("jobferry-{}", path.to_lowercase().replace('.', "-")), &kinds, &json!([validation]))
    };
    unguarded.into_iter().map(policy_of).collect()
}

/// Whether an update leaves a text as it is, absence included.
fn is_unchanged(selection: &str) -> String {
    format!("object{selection}.orValue('') == oldObject{selection}.orValue('')")
}

fn policy(name: &str, kinds: &[&KindName], validations: &Value) -> Value {
    let rules: Vec<Value> = kinds
        .iter()
        .map(|kind| {
            json!({
                "apiGroups": [kind.group], "apiVersions": [kind.version()], "resources": [kind.plural],
                "operations": ["UPDATE"],
            })
        })
        .collect();
    json!({
        "apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            // Another version of the same objects is no way around it.
            "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": rules},
            "validations": validations,
        },
    })
}

fn binding(policy: &Value) -> Value {
    let name = &policy["metadata"]["name"];
    json!({
        "apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kinds: &[&str]) -> Vec<KindName> {
        kinds.iter().map(|kind| kind.parse().unwrap()).collect()
    }

    /// What is guarded, and on which resources.
    fn guarded(kinds: &[&str]) -> Vec<(String, Vec<String>)> {
        let objects = policies(&named(kinds));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let policies = objects.iter().filter(|object| object["kind"] == "ValidatingAdmissionPolicy");
        let resources = |policy: &Value| {
            let rules = policy["spec"]["matchConstraints"]["resourceRules"].as_array().unwrap().clone();
            rules.iter().map(|rule| text(&rule["resources"][0])).collect()
        };
        policies.map(|policy| (text(&policy["metadata"]["name"]), resources(policy))).collect()
    }

    #[test]
    fn managed_by_is_guarded_where_the_kind_does_not_do_it_and_the_notes_everywhere() {
        assert_eq!(guarded(&[]), []);
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            guarded(&["JobSet", "RayJob", "MPIJob", "JAXJob", "etlruns.workloads.example.dev"]),
            [
                ("jobferry-notes".to_owned(), words(&["jobsets", "rayjobs", "mpijobs", "jaxjobs", "etlruns"])),
                ("jobferry-spec-managedby".to_owned(), words(&["rayjobs"])),
                ("jobferry-spec-runpolicy-managedby".to_owned(), words(&["mpijobs", "jaxjobs"])),
            ]
        );
    }

    #[test]
    fn policies_for_other_kinds_only_are_left_over_and_their_bindings_go_first() {
        let left = left_over(&named(&["JobSet", "MPIJob"])).unwrap();
        let words: Vec<_> = left.iter().map(crate::manifests::name).collect();
        let name = "jobferry-spec-managedby";
        assert_eq!(
            words,
            [format!("validatingadmissionpolicybinding/{name}"), format!("validatingadmissionpolicy/{name}")]
        );
    }

    #[test]
    fn every_policy_is_put_into_force_after_it_exists() {
        let objects = policies(&named(&["RayJob"]));
        let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        let (policy, binding) = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding");
        assert_eq!(kinds, [policy, binding, policy, binding]);
        for pair in objects.chunks(2) {
            assert_eq!(pair[0]["metadata"]["name"], pair[1]["spec"]["policyName"]);
        }
    }
}
