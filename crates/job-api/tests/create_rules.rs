//! What a server fills in and what it refuses when a Job is created: each rule by a value that keeps it and one that
//! breaks it.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking, and reads better with values"
)]

use job_api::{Rules, create};
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

fn errors_of(edit: &Value) -> Vec<String> {
    let mut job = json!({
        "metadata": {"name": "train", "namespace": "ml", "uid": "u"},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}}}
    });
    merge(&mut job, edit);
    let mut job: Job = serde_json::from_value(job).unwrap();
    create::prepare(&mut job);
    let errors = create::validate(&job, Rules::for_server(1, 35, None));
    errors.iter().map(|error| format!("{}@{}", error.kind, error.field)).collect()
}

/// A merge patch: objects melt, everything else replaces.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        merge(&mut target[key], value);
    }
}

fn spec(edit: Value) -> Value {
    json!({ "spec": edit })
}

fn pod(edit: Value) -> Value {
    spec(json!({"template": {"spec": edit}}))
}

fn container(mut edit: Value) -> Value {
    merge(&mut edit, &json!({"name": "main", "image": "app:1"}));
    pod(json!({"containers": [edit]}))
}

fn resources(edit: Value) -> Value {
    container(json!({ "resources": edit }))
}

fn indexed(mut edit: Value) -> Value {
    edit["completionMode"] = json!("Indexed");
    spec(edit)
}

/// Each value with the errors that it causes.
fn check(table: Vec<(Value, Vec<&str>)>) {
    for (edit, expected) in table {
        assert_eq!(errors_of(&edit), expected, "{edit}");
    }
}

#[test]
fn names_fit_where_they_are_used() {
    let (fits, too_long) = ("x".repeat(63), "x".repeat(64));
    let name = |name: &str| json!({"metadata": {"name": name}});
    let in_labels = vec!["Invalid@spec.template.labels"; 2];
    check(vec![
        (name(&fits), vec![]),
        (name(&too_long), in_labels),
        (name("with.dots"), vec![]),
        (json!({"metadata": {"name": "train", "generateName": "Bad"}}), vec!["Invalid@metadata.generateName"]),
        (
            json!({"metadata": {"name": "x".repeat(61)}, "spec": {"completionMode": "Indexed", "completions": 10}}),
            vec![],
        ),
        (
            json!({"metadata": {"name": "x".repeat(61)}, "spec": {"completionMode": "Indexed", "completions": 11}}),
            vec!["Invalid@metadata.name"],
        ),
        (
            json!({"metadata": {"name": "a.b"}, "spec": {"completionMode": "Indexed", "completions": 1}}),
            vec!["Invalid@metadata.name"],
        ),
    ]);
}

#[test]
fn numbers_have_bounds() {
    for field in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        let field_error = format!("Invalid@spec.{field}");
        check(vec![(spec(json!({field: 0})), vec![]), (spec(json!({field: -1})), vec![field_error.as_str()])]);
    }
    check(vec![
        (indexed(json!({"completions": 5, "backoffLimitPerIndex": 0, "maxFailedIndexes": 5})), vec![]),
        (indexed(json!({"completions": 5, "backoffLimitPerIndex": -1})), vec!["Invalid@spec.backoffLimitPerIndex"]),
        (indexed(json!({"completions": 5, "maxFailedIndexes": 1})), vec!["Required@spec.backoffLimitPerIndex"]),
        (
            indexed(json!({"completions": 5, "backoffLimitPerIndex": 1, "maxFailedIndexes": 6})),
            vec!["Invalid@spec.maxFailedIndexes"],
        ),
        (spec(json!({"backoffLimitPerIndex": 1})), vec!["Invalid@spec.backoffLimitPerIndex"]),
        (
            spec(json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 1})),
            vec!["Invalid@spec.backoffLimitPerIndex", "Invalid@spec.maxFailedIndexes"],
        ),
        (spec(json!({"completionMode": "indexed"})), vec!["NotSupported@spec.completionMode"]),
        (indexed(json!({"parallelism": 1})), vec!["Required@spec.completions"]),
        (indexed(json!({"completions": 1, "parallelism": 100_000})), vec![]),
        (indexed(json!({"completions": 1, "parallelism": 100_001})), vec!["Invalid@spec.parallelism"]),
    ]);
}

#[test]
fn very_large_indexed_jobs_have_tighter_bounds() {
    let large = |edit: Value| {
        let mut edit = edit;
        merge(&mut edit, &json!({"completions": 100_001, "backoffLimitPerIndex": 1}));
        indexed(edit)
    };
    check(vec![
        (large(json!({"maxFailedIndexes": 10_000, "parallelism": 10_000})), vec![]),
        (large(json!({})), vec!["Required@spec.maxFailedIndexes"]),
        (
            large(json!({"maxFailedIndexes": 10_001, "parallelism": 10_001})),
            vec!["Invalid@spec.parallelism", "Invalid@spec.maxFailedIndexes"],
        ),
        (
            large(json!({"maxFailedIndexes": 100_001})),
            vec!["Invalid@spec.maxFailedIndexes", "Invalid@spec.maxFailedIndexes"],
        ),
        (indexed(json!({"completions": 100_001, "parallelism": 100_000})), vec![]),
    ]);
}

#[test]
fn success_policies_are_for_indexed_jobs_and_count_what_exists() {
    let policy = |rules: Value| indexed(json!({"completions": 3, "successPolicy": {"rules": rules}}));
    let at = |field: &'static str| vec![field];
    check(vec![
        (policy(json!([{"succeededCount": 3}, {"succeededIndexes": "0,2", "succeededCount": 2}])), vec![]),
        (spec(json!({"successPolicy": {"rules": []}})), at("Invalid@spec.successPolicy")),
        (policy(json!([])), at("Required@spec.successPolicy.rules")),
        (policy(json!(vec![json!({"succeededCount": 1}); 20])), vec![]),
        (policy(json!(vec![json!({"succeededCount": 1}); 21])), at("TooMany@spec.successPolicy.rules")),
        (policy(json!([{}])), at("Required@spec.successPolicy.rules[0]")),
        (policy(json!([{"succeededCount": 4}])), at("Invalid@spec.successPolicy.rules[0].succeededCount")),
        (policy(json!([{"succeededCount": -1}])), at("Invalid@spec.successPolicy.rules[0].succeededCount")),
        (
            policy(json!([{"succeededIndexes": "0,2", "succeededCount": 3}])),
            at("Invalid@spec.successPolicy.rules[0].succeededCount"),
        ),
        (policy(json!([{"succeededIndexes": "2,0"}])), at("Invalid@spec.successPolicy.rules[0].succeededIndexes")),
        (
            policy(json!([{"succeededIndexes": "0".repeat(65_537)}])),
            at("TooLong@spec.successPolicy.rules[0].succeededIndexes"),
        ),
    ]);
}

/// A real 1.35 server crashes on these two.
#[test]
fn a_success_policy_without_completions_is_refused_not_fatal() {
    let rules = json!({"rules": [{"succeededIndexes": "0", "succeededCount": 1}]});
    check(vec![
        (indexed(json!({"parallelism": 1, "successPolicy": rules})), vec!["Required@spec.completions"]),
        (spec(json!({"parallelism": 1, "successPolicy": rules})), vec!["Invalid@spec.successPolicy"]),
    ]);
}

#[test]
fn pod_failure_policies_say_one_thing_about_codes_or_conditions() {
    let policy = |rule: Value| spec(json!({"podFailurePolicy": {"rules": [rule]}}));
    let codes = |edit: Value| {
        let mut rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}});
        merge(&mut rule["onExitCodes"], &edit);
        policy(rule)
    };
    let on = |field: &str| format!("@spec.podFailurePolicy.rules[0]{field}");
    let table = [
        (codes(json!({})), vec![]),
        (codes(json!({"containerName": "main"})), vec![]),
        (codes(json!({"containerName": "other"})), vec![format!("Invalid{}", on(".onExitCodes.containerName"))]),
        (codes(json!({"operator": ""})), vec![format!("Required{}", on(".onExitCodes.operator"))]),
        (codes(json!({"operator": "Is"})), vec![format!("NotSupported{}", on(".onExitCodes.operator"))]),
        (codes(json!({"values": []})), vec![format!("Invalid{}", on(".onExitCodes.values"))]),
        (codes(json!({"values": (1..=255).collect::<Vec<i32>>()})), vec![]),
        (
            codes(json!({"values": (1..=256).collect::<Vec<i32>>()})),
            vec![format!("TooMany{}", on(".onExitCodes.values"))],
        ),
        (codes(json!({"values": [0, 1]})), vec![format!("Invalid{}", on(".onExitCodes.values[0]"))]),
        (codes(json!({"operator": "NotIn", "values": [0, 1]})), vec![]),
        (codes(json!({"values": [1, 1]})), vec![format!("Duplicate{}", on(".onExitCodes.values[1]"))]),
        (codes(json!({"values": [2, 1]})), vec![format!("Invalid{}", on(".onExitCodes.values"))]),
        (policy(json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]})), vec![]),
        (policy(json!({"action": "Ignore"})), vec![format!("Invalid{}", on(""))]),
        (
            policy(json!({"action": "", "onPodConditions": [{"type": "Ready", "status": "Maybe"}]})),
            vec![format!("Required{}", on(".action")), format!("NotSupported{}", on(".onPodConditions[0].status"))],
        ),
        (
            policy(json!({"action": "FailIndex", "onPodConditions": [{"type": "a b"}]})),
            vec![format!("Invalid{}", on(".action")), format!("Invalid{}", on(".onPodConditions[0].type"))],
        ),
    ];
    for (edit, expected) in table {
        assert_eq!(errors_of(&edit), expected, "{edit}");
    }
    let both = json!({"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "TerminatingOrFailed"});
    let on_failure = json!({"podFailurePolicy": {"rules": []}, "template": {"spec": {"restartPolicy": "OnFailure"}}});
    check(vec![
        (spec(both), vec!["NotSupported@spec.podReplacementPolicy"]),
        (spec(json!({"podReplacementPolicy": "Never"})), vec!["NotSupported@spec.podReplacementPolicy"]),
        (spec(on_failure), vec!["Invalid@spec.template.spec.restartPolicy"]),
    ]);
}

#[test]
fn a_job_selects_its_own_pods() {
    let manual = |labels: Value, selector: Value| {
        spec(json!({"manualSelector": true, "selector": selector, "template": {"metadata": {"labels": labels}}}))
    };
    check(vec![
        (manual(json!({"a": "b"}), json!({"matchLabels": {"a": "b"}})), vec![]),
        (
            manual(json!({"a": "b"}), Value::Null),
            vec!["Required@spec.selector", "Invalid@spec.template.metadata.labels"],
        ),
        (manual(json!({"a": "b"}), json!({"matchLabels": {"a": "c"}})), vec!["Invalid@spec.template.metadata.labels"]),
        (
            manual(json!({}), json!({"matchExpressions": [{"key": "a", "operator": "In"}]})),
            vec!["Required@spec.selector.matchExpressions[0].values"],
        ),
        (
            spec(json!({"selector": {"matchLabels": {"a": "b"}}})),
            vec!["Invalid@spec.selector", "Invalid@spec.template.metadata.labels"],
        ),
        (
            spec(json!({"template": {"metadata": {"labels": {"job-name": "other"}}}})),
            vec!["Invalid@spec.template.metadata.labels[job-name]"],
        ),
        (
            spec(json!({"template": {"metadata": {"labels": {"controller-uid": "other"}}}})),
            vec!["Invalid@spec.template.metadata.labels[controller-uid]"],
        ),
    ]);
    let without_uid = json!({"metadata": {"uid": ""}});
    assert!(errors_of(&without_uid).contains(&"Required@metadata.uid".to_owned()));
}

#[test]
fn containers_are_named_and_made_from_an_image() {
    check(vec![
        (pod(json!({"containers": []})), vec!["Required@spec.template.spec.containers"]),
        (pod(json!({"containers": [{"image": "a"}]})), vec!["Required@spec.template.spec.containers[0].name"]),
        (
            pod(json!({"containers": [{"name": "a.b"}]})),
            vec!["Invalid@spec.template.spec.containers[0].name", "Required@spec.template.spec.containers[0].image"],
        ),
        (
            pod(json!({"initContainers": [{"name": "main", "image": "a"}]})),
            vec!["Duplicate@spec.template.spec.initContainers[0].name"],
        ),
        (
            container(json!({"imagePullPolicy": "Often"})),
            vec!["NotSupported@spec.template.spec.containers[0].imagePullPolicy"],
        ),
        (container(json!({"env": [{"name": "with space-1"}]})), vec![]),
        (
            container(json!({"env": [{"name": ""}, {"name": "a=b"}]})),
            vec![
                "Required@spec.template.spec.containers[0].env[0].name",
                "Invalid@spec.template.spec.containers[0].env[1].name",
            ],
        ),
        (container(json!({"ports": [{"containerPort": 80, "name": "http"}]})), vec![]),
        (
            container(json!({"ports": [{"containerPort": 0}, {"containerPort": 65536, "protocol": "tcp"}]})),
            vec![
                "Required@spec.template.spec.containers[0].ports[0].containerPort",
                "Invalid@spec.template.spec.containers[0].ports[1].containerPort",
                "NotSupported@spec.template.spec.containers[0].ports[1].protocol",
            ],
        ),
        (
            container(json!({"ports": [{"containerPort": 1, "hostPort": 2}, {"containerPort": 3, "hostPort": 2}]})),
            vec!["Duplicate@spec.template.spec.containers[0].ports[1].hostPort"],
        ),
        (pod(json!({"restartPolicy": "Always"})), vec!["Required@spec.template.spec.restartPolicy"]),
        (pod(json!({"restartPolicy": "Often"})), vec!["NotSupported@spec.template.spec.restartPolicy"; 2]),
    ]);
}

#[test]
fn requests_stay_within_limits() {
    const LIMITS: &str = "spec.template.spec.containers[0].resources.limits";
    const REQUESTS: &str = "spec.template.spec.containers[0].resources.requests";
    let table = [
        (json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1000m"}}), vec![]),
        (json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1001m"}}), vec![format!("Invalid@{REQUESTS}")]),
        (json!({"limits": {"memory": "-1"}}), vec![format!("Invalid@{LIMITS}[memory]")]),
        (json!({"limits": {"cpu": "lots"}}), vec![format!("Invalid@{LIMITS}[cpu]")]),
        (json!({"limits": {"gpu": "1"}}), vec![format!("Invalid@{LIMITS}[gpu]"); 2]),
        (json!({"limits": {"pods": "1"}}), vec![format!("Invalid@{LIMITS}[pods]")]),
        (json!({"limits": {"a.b/gpu": "1"}}), vec![]),
        (json!({"limits": {"a.b/gpu": "1500m"}}), vec![format!("Invalid@{LIMITS}[a.b/gpu]")]),
        (json!({"requests": {"a.b/gpu": "1"}}), vec![format!("Required@{LIMITS}")]),
        (json!({"limits": {"a.b/gpu": "2"}, "requests": {"a.b/gpu": "1"}}), vec![format!("Invalid@{REQUESTS}")]),
        (json!({"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}}), vec![]),
        (json!({"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}), vec![format!("Invalid@{LIMITS}[hugepages-2Mi]")]),
        (
            json!({"limits": {"hugepages-2Mi": "2Mi"}}),
            vec!["Forbidden@spec.template.spec.containers[0].resources".to_owned()],
        ),
    ];
    for (edit, expected) in table {
        assert_eq!(errors_of(&resources(edit.clone())), expected, "{edit}");
    }
}

#[test]
fn mounts_need_their_volumes() {
    const MOUNT: &str = "NotFound@spec.template.spec.containers[0].volumeMounts[0].name";
    let mounted = |volume: Value, mount: Value| {
        let mut edit = container(json!({"volumeMounts": [mount]}));
        edit["spec"]["template"]["spec"]["volumes"] = json!([volume]);
        edit
    };
    let mount = json!({"name": "v", "mountPath": "/v"});
    check(vec![
        (mounted(json!({"name": "v"}), mount.clone()), vec![]),
        (mounted(json!({"name": "w"}), mount.clone()), vec![MOUNT]),
        // A faulty volume cannot be mounted either.
        (
            mounted(json!({"name": "v", "configMap": {}}), mount.clone()),
            vec!["Required@spec.template.spec.volumes[0].configMap.name", MOUNT],
        ),
        (
            mounted(
                json!({"name": "v", "secret": {"secretName": "s", "items": [{"key": "k", "path": "../x"}]}}),
                mount,
            ),
            vec!["Invalid@spec.template.spec.volumes[0].secret.items[0].path", MOUNT],
        ),
        (
            mounted(json!({"name": "v"}), json!({"name": "v", "mountPath": "", "subPath": "/x"})),
            vec![
                "Required@spec.template.spec.containers[0].volumeMounts[0].mountPath",
                "Invalid@spec.template.spec.containers[0].volumeMounts.subPath",
            ],
        ),
    ]);
}

#[test]
fn scheduling_directives_are_well_formed() {
    check(vec![
        (pod(json!({"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]})), vec![]),
        (pod(json!({"nodeSelector": {"a b": "c d"}})), vec!["Invalid@spec.template.spec.nodeSelector"; 2]),
        (pod(json!({"tolerations": [{"value": "x"}]})), vec!["Invalid@spec.template.spec.tolerations[0].operator"]),
        (
            pod(json!({"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]})),
            vec!["NotSupported@spec.template.spec.tolerations[0].operator"],
        ),
        (
            pod(json!({"tolerations": [{"key": "a", "effect": "Never", "tolerationSeconds": 1}]})),
            vec![
                "Invalid@spec.template.spec.tolerations[0].effect",
                "NotSupported@spec.template.spec.tolerations[0].effect",
            ],
        ),
        (
            pod(json!({"schedulingGates": [{"name": "a"}, {"name": "a"}]})),
            vec!["Duplicate@spec.template.spec.schedulingGates[1]"],
        ),
    ]);
}

#[test]
fn what_lies_beyond_is_not_judged() {
    check(vec![
        (pod(json!({"dnsPolicy": "Sometimes", "hostAliases": [{"ip": "x"}], "priorityClassName": "A B"})), vec![]),
        (container(json!({"livenessProbe": {"httpGet": {"port": 0}}, "securityContext": {"runAsUser": -5}})), vec![]),
        (pod(json!({"volumes": [{"name": "v", "nfs": {"path": "", "server": ""}}]})), vec![]),
    ]);
}
