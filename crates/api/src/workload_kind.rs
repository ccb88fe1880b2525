//! The `WorkloadKind` resource: what the dispatcher must know of a kind in order to ferry its objects.
//!
//! The built-in kinds are written in this form too. What the rules mean is in `jobferry_core::kind`.
#![allow(unreachable_pub, reason = "the schema derive repeats the struct in a private module")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Where a kind keeps what matters to the dispatcher. Paths are written as `spec.a.b`; `.*` is every value of a map, `[*]`
/// every item of a list, `[name=x]` the items whose field `name` is x, `[name=*]` every item, told apart by `name`, and
/// `["a.b/c"]` a key with dots (`["a.b/*"]`: every key that begins so).
#[derive(CustomResource, Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "jobferry.dev",
    version = "v1alpha1",
    kind = "WorkloadKind",
    plural = "workloadkinds",
    shortname = "wlk",
    category = "jobferry",
    doc = "A kind of workload that the dispatcher ferries to workers, beside the kinds that it knows by itself. Its name is \
           that of the custom resource definition: the plural and the group of the kind.",
    status = "WorkloadKindStatus",
    derive = "PartialEq",
    validation = kube::core::Rule::new("self.metadata.name == self.spec.plural + '.' + self.spec.group")
        .message("the name of a WorkloadKind is the plural and the group of its kind, with a dot between"),
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.kind"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Accepted")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = kube::core::Rule::new(
    "self.group == oldSelf.group && self.kind == oldSelf.kind && self.plural == oldSelf.plural"
)
.message("group, kind and plural cannot change: delete the WorkloadKind and create another"))]
#[x_kube(validation = kube::core::Rule::new(
    "has(self.managedBy) == has(oldSelf.managedBy) && (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)"
)
.message("managedBy cannot change: every object that was handed over by it would be taken back; \
          delete the WorkloadKind when no object of it is placed, and create another"))]
#[x_kube(validation = kube::core::Rule::new(
    "has(self.managedBy) || self.operatorOnManager == 'Forbidden'"
)
.message("without managedBy nothing keeps the kind's operator from running the objects on the manager: \
          operatorOnManager must be Forbidden"))]
pub struct WorkloadKindSpec {
    /// The API group of the kind.
    #[schemars(length(max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub group: String,
    /// The version to read and write, the same on the manager and on workers.
    #[schemars(length(max = 63), regex(pattern = r"^[a-z][a-z0-9]*$"))]
    pub version: String,
    /// The kind, as it stands in manifests.
    #[schemars(length(max = 63), regex(pattern = r"^[A-Z][A-Za-z0-9]*$"))]
    pub kind: String,
    /// The name of the kind in URLs.
    #[schemars(length(max = 63), regex(pattern = r"^[a-z][a-z0-9]*$"))]
    pub plural: String,
    /// The field by which an object is handed to another controller than the kind's own operator. Absent: there is none; then
    /// the label `jobferry.dev/dispatch: "true"` alone hands an object to the dispatcher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<ManagedBy>,
    /// Whether the kind's own operator may run on the manager.
    #[serde(default)]
    pub operator_on_manager: OperatorOnManager,
    /// The first release of the operator that leaves delegated objects alone. Older ones must not run on the manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub operator_on_manager_since: Option<String>,
    /// When an object is suspended. Absent: the kind cannot be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Test>,
    /// When an object has ended: the first rule that holds tells how. Empty: objects of this kind run until they are deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub finished: Vec<Ending>,
    /// Where an object says how many seconds it may stay after its end: the first rule that applies counts. On the mirror the
    /// dispatcher puts a long time of its own, so that nothing ends there before it was seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub ttl: Vec<TimeToLive>,
    /// Who deletes a finished object on the manager when its time is over.
    #[serde(default)]
    pub ttl_on_manager: TtlOnManager,
    /// What is taken off the mirror, beside managedBy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub strip: Vec<Field>,
    /// Paths of the pod templates in the object. The mirror's get a label: pods prove that it existed. Empty: the label is put
    /// on the mirror itself, whose labels some operators pass on to pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 256)))]
    pub pod_templates: Vec<String>,
    /// Fields of the spec whose later edits are sent to the mirror. Labels and annotations always are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub forward: Vec<Field>,
    /// Fields of the spec that belong to the worker's side (an autoscaler's, for example), inside of what is forwarded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub worker_owned: Vec<Field>,
    /// Objects that cannot be dispatched, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub refuse: Vec<Refuse>,
    /// Names of other objects that must exist on the worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub requires: Vec<Requirement>,
    /// What the kind's own operator creates for an object, with an owner reference to it. One of these on the manager means that
    /// somebody runs there what was handed to the dispatcher, which then leaves it alone. Empty: only a status that somebody
    /// else writes tells of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub children: Vec<Child>,
    /// How the status is brought back.
    #[serde(default)]
    pub status: StatusRules,
}

/// The field by which an object is handed to another controller.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManagedBy {
    /// Where it is.
    #[schemars(schema_with = "path")]
    pub path: String,
    /// The value that hands an object to the dispatcher. Absent: `jobferry.dev/dispatcher`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub dispatcher: Option<String>,
    /// The value that means the kind's own operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub operator: Option<String>,
    /// Which values the kind's own admission lets pass.
    #[serde(default)]
    pub admits: Admits,
    /// What the kind's own admission keeps from being done to the field.
    #[serde(default)]
    pub guard: Guard,
}

/// Which values of managedBy pass admission.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admits {
    /// Any that looks like a controller's name.
    #[default]
    Any,
    /// The operator's own and `kueue.x-k8s.io/multikueue`. The latter, together with the label
    /// `jobferry.dev/dispatch: "true"`, hands an object to the dispatcher.
    MultiKueue,
}

/// What the kind's own admission refuses.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// managedBy can be added, changed and removed at any time.
    #[default]
    Nothing,
    /// managedBy cannot be changed, but can be added and removed.
    Change,
    /// managedBy is fixed when the object is created.
    Everything,
}

/// Whether the kind's own operator may run on the manager.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperatorOnManager {
    /// It leaves delegated objects alone.
    #[default]
    Allowed,
    /// It would run them: the manager has the custom resource definition only.
    Forbidden,
}

/// Who deletes finished objects on the manager when their time is over.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TtlOnManager {
    /// The dispatcher: the kind's operator does not look at delegated objects.
    #[default]
    Dispatcher,
    /// The cluster itself.
    Cluster,
}

/// A question to an object. It looks at every value that the path leads to. Exactly one of is, isNot and exists is asked.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = kube::core::Rule::new(
    "(has(self.is) ? 1 : 0) + (has(self.isNot) ? 1 : 0) + (has(self.exists) ? 1 : 0) == 1"
)
.message("a test asks exactly one of is, isNot and exists"))]
pub struct Test {
    /// Where to look.
    #[schemars(schema_with = "path")]
    pub path: String,
    /// One of the values there is one of these. Numbers and booleans are written as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16), inner(length(max = 63)))]
    pub is: Option<Vec<String>>,
    /// None of the values there is one of these; also when there is none at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16), inner(length(max = 63)))]
    pub is_not: Option<Vec<String>>,
    /// True: there is a value. False: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
}

/// A field, and the objects of which it is meant.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Where it is.
    #[schemars(schema_with = "path")]
    pub path: String,
    /// Only of objects for which all these hold, asked of the object on the manager.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub when: Vec<Test>,
}

/// One way to end.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// How it ended.
    pub outcome: Outcome,
    /// All these hold.
    #[schemars(length(min = 1, max = 8))]
    pub when: Vec<Test>,
    /// An end that the operator may take back counts only when it has stood for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settles: Option<Settling>,
}

/// How an object ended.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it was meant to do.
    #[default]
    Succeeded,
    /// It did not.
    Failed,
    /// The kind does not say how.
    Unknown,
}

/// How long an end must have stood.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Settling {
    /// The time since when it stands.
    #[schemars(schema_with = "path")]
    pub since: String,
    /// How many seconds.
    #[schemars(with = "i32", range(min = 1, max = 86400))]
    pub seconds: u32,
}

/// Where an object says how long it may stay after its end.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TimeToLive {
    /// Where the seconds are.
    #[schemars(schema_with = "path")]
    pub path: String,
    /// Only after this outcome. Absent: after any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Outcome>,
}

/// Objects that cannot be dispatched.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Refuse {
    /// All these hold.
    #[schemars(length(min = 1, max = 8))]
    pub when: Vec<Test>,
    /// Why: the user is told so.
    #[schemars(length(min = 1, max = 256))]
    pub why: String,
}

/// The name of an object that must exist on the worker.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// What kind of object, for people.
    #[schemars(length(min = 1, max = 63))]
    pub what: String,
    /// Where its name is.
    #[schemars(schema_with = "path")]
    pub path: String,
}

/// A resource of which an operator creates objects for those of its kind.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Child {
    /// The API group. Absent: the one of pods, which has no name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), regex(pattern = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"))]
    pub group: String,
    /// The version to watch.
    #[schemars(length(max = 63), regex(pattern = r"^[a-z][a-z0-9]*$"))]
    pub version: String,
    /// The name of the resource in URLs.
    #[schemars(length(max = 63), regex(pattern = r"^[a-z][a-z0-9]*$"))]
    pub plural: String,
    /// A label that the operator puts on each of them, whatever its value: the API server then sends no others. Absent: it
    /// sends all that there are, which no manager can afford of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 317),
        regex(pattern = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
    )]
    pub label: Option<String>,
}

/// How the status is brought back.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusRules {
    /// True: the kind has no subresource `status`; it is written with the object itself.
    #[serde(default)]
    pub in_object: bool,
    /// Parts of the mirror's status that stay on the worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub leave_out: Vec<Field>,
    /// Parts that name something that exists on the worker only. They are copied; an annotation says where they hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 256)))]
    pub worker_references: Vec<String>,
    /// Fields that the definition requires and that a mirror may not have yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub fill: Vec<Fill>,
    /// Where the status counts generations of the mirror. Absent: `status.observedGeneration` and that of conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(length(max = 256)))]
    pub observed_generation: Option<Vec<String>>,
}

/// A field that must be there.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// Where it is.
    #[schemars(schema_with = "path")]
    pub path: String,
    /// What it says as long as the mirror says nothing.
    #[schemars(length(max = 63))]
    pub text: String,
}

/// What the dispatcher says of the kind.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadKindStatus {
    /// `Accepted`: its rules make sense and contradict no built-in kind. `Served`: the manager has the kind. The messages
    /// say what is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The form of a path, as far as a pattern can say it: a wrong one is refused when it is written.
fn path(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 256,
        "pattern": r#"^(metadata|spec|status)(\.[A-Za-z0-9_-]+|\.\*|\[\*\]|\["[^"*]+\*?"\]|\[[A-Za-z0-9_-]+=[^\]=]+\])*$"#,
    })
}
