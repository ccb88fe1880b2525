//! What `jobferry worker join` makes on a worker: a ServiceAccount and the narrowest rights that work. docs/security.md
//! says of each rule why it is there; a test takes each away and looks what stops working.
//!
//! ```text
//!   whole cluster      ClusterRole: mirrors, pods, Events, kube-system        bound by a ClusterRoleBinding
//!   some namespaces    Role in each: mirrors, pods, Events                    bound there
//!                      ClusterRole: kube-system only                          bound by a ClusterRoleBinding
//!   both               Role in jobferry-system: its own token
//!                      with --kind, a role of its own for mirrors of these kinds, in the same places
//! ```

use jobferry_api::{SYSTEM_NAMESPACE, labels};
use jobferry_core::token::Account;
use serde_json::{Value, json};

use super::preflight::Need;
use crate::kinds::{self, rights::KindName};

/// One dispatcher's standing on one worker.
pub(super) struct Rights<'a> {
    /// Whose mirrors these are: two managers, or two dispatchers of one, that share a worker do not share an account.
    pub(super) origin: &'a str,
    /// Where mirrors may be; empty: everywhere.
    pub(super) namespaces: &'a [String],
    /// Which kinds they may be of, beside Jobs.
    pub(super) kinds: &'a [KindName],
}

impl Rights<'_> {
    /// The name of everything that is made there.
    pub(super) fn name(&self) -> String {
        let short = |text: &str| -> String {
            text.chars().filter(char::is_ascii_alphanumeric).take(8).map(|c| c.to_ascii_lowercase()).collect()
        };
        // A dispatcher with a name of its own adds to the identity of the manager, behind a dot.
        match self.origin.split_once('.') {
            None => format!("jobferry-{}", short(self.origin)),
            Some((identity, own)) => format!("jobferry-{}-{}", short(identity), short(own)),
        }
    }

    /// The name of the role for kinds beside Jobs.
    pub(super) fn role_for_kinds(&self) -> String {
        format!("{}-kinds", self.name())
    }

    /// Where mirrors may be: in these namespaces, or anywhere.
    pub(super) fn places(&self) -> Vec<Option<&str>> {
        if self.namespaces.is_empty() {
            return vec![None];
        }
        self.namespaces.iter().map(|namespace| Some(namespace.as_str())).collect()
    }

    /// The account that the dispatcher's tokens speak for. They end with its Secret: who deletes that revokes them all.
    pub(super) fn account(&self) -> Account {
        Account { namespace: SYSTEM_NAMESPACE.into(), name: self.name(), secret: Some(self.name()) }
    }

    /// Selects what was made by this dispatcher's join and no other's.
    pub(super) fn selector(&self) -> String {
        format!("{}={}", labels::ORIGIN, self.origin)
    }

    /// All objects, in the order in which they are to be made.
    pub(super) fn objects(&self) -> Vec<Value> {
        let (name, home) = (self.name(), Some(SYSTEM_NAMESPACE));
        let mut objects = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}),
            self.object(("v1", "ServiceAccount"), &name, home, &json!({"automountServiceAccountToken": false})),
            self.object(("v1", "Secret"), &name, home, &json!({"type": "Opaque"})),
        ];
        let mut cluster_wide = vec![identity()];
        if self.namespaces.is_empty() {
            cluster_wide.splice(0..0, mirrors());
        }
        objects.extend(self.granted(&name, None, &cluster_wide));
        for namespace in self.namespaces {
            objects.extend(self.granted(&name, Some(namespace), &mirrors()));
        }
        let kinds = kinds::rights::on_worker(self.kinds);
        if !kinds.is_empty() {
            let role = self.role_for_kinds();
            objects.extend(self.places().into_iter().flat_map(|place| self.granted(&role, place, &kinds)));
        }
        // By another name: its namespace may take mirrors too.
        objects.extend(self.granted(&format!("{name}-token"), Some(SYSTEM_NAMESPACE), &[self.own_token()]));
        objects
    }

    /// A role and its binding.
    fn granted(&self, name: &str, namespace: Option<&str>, rules: &[Value]) -> [Value; 2] {
        let api = "rbac.authorization.k8s.io/v1";
        let (role, binding) =
            if namespace.is_some() { ("Role", "RoleBinding") } else { ("ClusterRole", "ClusterRoleBinding") };
        let bound = json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": self.name(), "namespace": SYSTEM_NAMESPACE}],
        });
        [
            self.object((api, role), name, namespace, &json!({"rules": rules})),
            self.object((api, binding), name, namespace, &bound),
        ]
    }

    fn object(&self, (api_version, kind): (&str, &str), name: &str, namespace: Option<&str>, rest: &Value) -> Value {
        let labels = json!({labels::ORIGIN: self.origin, "app.kubernetes.io/managed-by": "jobferry"});
        let mut object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": labels},
        });
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        for (key, value) in rest.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        object
    }

    /// It renews its own token, and no other's.
    fn own_token(&self) -> Value {
        json!({
            "apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [self.name()], "verbs": ["create"],
        })
    }
}

/// What a dispatcher must be allowed to do on a worker, whoever granted it.
pub(crate) fn needed(namespaces: &[String]) -> Vec<Need> {
    let mut needs = Need::granted(&identity(), "");
    let everywhere = [String::new()];
    for namespace in if namespaces.is_empty() { &everywhere } else { namespaces } {
        needs.extend(mirrors().iter().flat_map(|rule| Need::granted(rule, namespace)));
    }
    needs
}

/// What is done with mirrors, wherever they may be.
fn mirrors() -> Vec<Value> {
    vec![
        json!({
            "apiGroups": ["batch"], "resources": ["jobs"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        }),
        // Pods that a mirror left behind prove that it existed.
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}),
        // Warnings about mirrors are repeated on users' Jobs.
        json!({"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]}),
    ]
}

/// The UID of this namespace is the identity of the cluster.
fn identity() -> Value {
    json!({"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "3F2B-9c1e-aaaa";

    fn objects(namespaces: &[&str]) -> Vec<Value> {
        let namespaces: Vec<String> = namespaces.iter().map(ToString::to_string).collect();
        Rights { origin: ORIGIN, namespaces: &namespaces, kinds: &[] }.objects()
    }

    fn words(rule: &Value) -> Vec<&str> {
        let lists = ["apiGroups", "resources", "verbs", "resourceNames"].map(|part| rule[part].as_array());
        lists.into_iter().flatten().flatten().filter_map(Value::as_str).collect()
    }

    fn summary(objects: &[Value]) -> Vec<String> {
        let line = |object: &Value| {
            let name = object["metadata"]["name"].as_str().unwrap();
            let place = object["metadata"]["namespace"].as_str().unwrap_or("-");
            format!("{} {place}/{name}", object["kind"].as_str().unwrap())
        };
        objects.iter().map(line).collect()
    }

    #[test]
    fn rights_are_cluster_wide_only_where_no_namespaces_are_named() {
        let everywhere = summary(&objects(&[]));
        assert!(everywhere.contains(&"ClusterRole -/jobferry-3f2b9c1e".to_owned()), "{everywhere:?}");
        assert_eq!(everywhere.len(), 7);
        let confined = objects(&["ml", "web"]);
        assert!(summary(&confined).contains(&"RoleBinding web/jobferry-3f2b9c1e".to_owned()), "{confined:?}");
        let cluster_wide = confined.iter().find(|object| object["kind"] == "ClusterRole").unwrap();
        assert_eq!(cluster_wide["rules"], json!([identity()]));
    }

    /// Whoever has a wildcard can do anything; whoever reads Secrets can become anybody.
    #[test]
    fn no_rule_is_wider_than_it_must_be() {
        for object in objects(&[]).iter().chain(&objects(&["ml"])) {
            for rule in object["rules"].as_array().into_iter().flatten() {
                let words = words(rule);
                assert!(!words.contains(&"*") && !words.contains(&"secrets"), "{rule}");
                let about_accounts = words.contains(&"serviceaccounts/token");
                assert!(!about_accounts || rule["resourceNames"] == json!(["jobferry-3f2b9c1e"]), "{rule}");
            }
        }
    }

    #[test]
    fn kinds_beside_jobs_have_a_role_of_their_own_wherever_mirrors_may_be() {
        let kinds = ["JobSet".parse().unwrap()];
        let roles = |namespaces: &[String]| -> Vec<String> {
            let objects = Rights { origin: ORIGIN, namespaces, kinds: &kinds }.objects();
            summary(&objects).into_iter().filter(|line| line.contains("Role ") && line.ends_with("-kinds")).collect()
        };
        assert_eq!(roles(&[]), ["ClusterRole -/jobferry-3f2b9c1e-kinds"]);
        assert_eq!(roles(&["ml".to_owned()]), ["Role ml/jobferry-3f2b9c1e-kinds"]);
    }

    #[test]
    fn dispatchers_of_one_manager_have_accounts_of_their_own() {
        let name = |dispatcher: &str| {
            let origin = jobferry_core::ownership::origin(ORIGIN, dispatcher);
            Rights { origin: &origin, namespaces: &[], kinds: &[] }.name()
        };
        assert_eq!(name(jobferry_api::managed_by::DISPATCHER), "jobferry-3f2b9c1e");
        assert_eq!(name("example.com/other"), "jobferry-3f2b9c1e-89671278");
        assert_ne!(name("example.com/one"), name("example.com/other"));
    }

    #[test]
    fn the_system_namespace_may_take_mirrors_too() {
        let confined = summary(&objects(&[SYSTEM_NAMESPACE]));
        for role in ["Role jobferry-system/jobferry-3f2b9c1e", "Role jobferry-system/jobferry-3f2b9c1e-token"] {
            assert!(confined.contains(&role.to_owned()), "{role} is missing in {confined:?}");
        }
    }
}
