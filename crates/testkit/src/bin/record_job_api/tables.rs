//! Values worth asking about: for each field legal ones, the bounds, and what lies just beyond them.
//! Each entry is a JSON pointer and a JSON array; `null` leaves the field out.

pub(crate) type Table = &'static [(&'static str, &'static str)];

/// Fields of a Job that may vary without making it invalid by themselves.
pub(crate) const HARMLESS: Table = &[
    ("/spec/parallelism", "[null, 0, 1, 2, 3]"),
    ("/spec/completions", "[null, 0, 1, 2, 3]"),
    ("/spec/backoffLimit", "[null, 0, 4]"),
    ("/spec/suspend", "[null, true, false]"),
    ("/spec/activeDeadlineSeconds", "[null, 0, 30]"),
    ("/spec/ttlSecondsAfterFinished", "[null, 0, 100]"),
    ("/spec/managedBy", r#"[null, "example.com/queue", "kubernetes.io/job-controller", "a/b/c//"]"#),
    ("/spec/podReplacementPolicy", r#"[null, "Failed", "TerminatingOrFailed"]"#),
    ("/spec/template/spec/restartPolicy", r#"["Never", "OnFailure"]"#),
    ("/spec/template/spec/terminationGracePeriodSeconds", "[null, 0, 5, -1]"),
    ("/spec/template/spec/nodeSelector", r#"[null, {}, {"disk": "ssd"}, {"a.b/c": ""}]"#),
    ("/spec/template/spec/schedulingGates", r#"[null, [], [{"name": "example.com/gate"}]]"#),
    (
        "/spec/template/spec/tolerations",
        r#"[null, [], [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}], [{"operator": "Exists"}],
            [{"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}, {"key": "c", "operator": ""}]]"#,
    ),
    ("/spec/template/metadata/labels", r#"[null, {}, {"app": "x"}, {"a": ""}]"#),
    ("/spec/template/metadata/annotations", r#"[null, {}, {"A.b/C": "anything at all"}]"#),
    ("/metadata/labels", r#"[null, {}, {"team": "ml"}, {"app": "x"}]"#),
    ("/metadata/annotations", r#"[null, {}, {"note": "x y z"}]"#),
    ("/metadata/finalizers", r#"[null, [], ["example.com/hold"], ["orphan"]]"#),
    (
        "/metadata/ownerReferences",
        r#"[null, [], [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u1", "controller": true}]]"#,
    ),
    ("/spec/template/spec/containers/0/imagePullPolicy", r#"[null, "", "Always", "IfNotPresent", "Never"]"#),
    (
        "/spec/template/spec/containers/0/image",
        r#"["app", "app:latest", "app:1", "example.com:5000/a/b", "Example.com/a", "App", "a//b", "app@sha256:abc", "a:b:c", " ",
            "app@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "localhost/x:latest", "a_b", "a___b",
            "app:latest@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "UPPER/x", "x/Y", "a.b/", "[::1]:5/a"]"#,
    ),
    ("/spec/template/spec/containers/0/command", r#"[null, [], ["sh", "-c", "true"], [""]]"#),
    ("/spec/template/spec/containers/0/args", r#"[null, [], ["a", ""]]"#),
    (
        "/spec/template/spec/containers/0/env",
        r#"[null, [], [{"name": "A", "value": ""}], [{"name": "a b.c-1", "value": "x"}]]"#,
    ),
    (
        "/spec/template/spec/containers/0/ports",
        r#"[null, [], [{"containerPort": 80}], [{"containerPort": 80, "hostPort": 0, "name": "http", "protocol": "UDP"}],
            [{"containerPort": 65535, "hostPort": 1, "hostIP": "10.0.0.1", "protocol": "SCTP"}]]"#,
    ),
    (
        "/spec/template/spec/containers/0/resources",
        r#"[null, {}, {"limits": {}}, {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
            {"requests": {"cpu": "0.1", "memory": "1024Mi", "ephemeral-storage": "2G"}},
            {"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "2"}},
            {"limits": {"cpu": "1.500", "memory": "1.5Gi"}}, {"limits": {"cpu": "0.0001", "memory": "12e6"}},
            {"limits": {"cpu": "+1", "memory": "007"}}, {"limits": {"cpu": 2, "memory": "1000000k"}},
            {"limits": {"cpu": "100u", "memory": "123456789Mi"}}, {"limits": {"memory": "1e3", "cpu": "1E"}},
            {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Mi"}}, {"requests": {"memory": "0.1Ki"}},
            {"limits": {"memory": "1000Ki", "cpu": "2000"}, "requests": {"memory": "1024000"}},
            {"limits": {"memory": "99999999999Gi", "cpu": "12345678901234567890"}}, {"limits": {"memory": "100e-1", "cpu": "12.3456"}}]"#,
    ),
    ("/spec/template/spec/containers/0/stdin", "[null, false, true]"),
    ("/spec/template/spec/containers/0/workingDir", r#"[null, "", "/work"]"#),
];

/// Volumes and mounts come together.
pub(crate) const VOLUMES: &str = r#"[
    {"name": "v"}, {"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {"medium": "", "sizeLimit": "1024Mi"}},
    {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "0.5Gi"}}, {"name": "v", "configMap": {"name": "c"}},
    {"name": "v", "configMap": {"name": "c", "defaultMode": 511, "items": [{"key": "k", "path": "a/b", "mode": 0}]}},
    {"name": "v", "secret": {"secretName": "s", "items": [], "optional": true}},
    {"name": "v", "secret": {"secretName": "s", "defaultMode": 256, "items": [{"key": "k", "path": "a..b"}]}},
    {"name": "v", "emptyDir": {"sizeLimit": "-1"}}, {"name": "v", "configMap": {}}, {"name": "v", "configMap": {"name": "", "defaultMode": 512}},
    {"name": "v", "secret": {}}, {"name": "v", "secret": {"secretName": "s", "defaultMode": -1}},
    {"name": "v", "secret": {"secretName": "s", "items": [{"key": "", "path": ""}, {"key": "k", "path": "/abs", "mode": 512}]}},
    {"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "../up"}, {"key": "k", "path": "..x"}, {"key": "k", "path": "a/../b"}]}},
    {"name": "v", "emptyDir": {}, "secret": {"secretName": ""}}, {"name": "v", "secret": {"secretName": "s"}, "configMap": {"name": ""}},
    {"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}, "configMap": {"name": "c"}},
    {"name": "", "emptyDir": {}}, {"name": "V", "emptyDir": {}}, {"name": "a.b", "emptyDir": {}}, {"emptyDir": {}}]"#;

pub(crate) const MOUNTS: &str = r#"[
    {"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/w", "readOnly": false, "subPath": ""},
    {"name": "v", "mountPath": "/x", "readOnly": true, "subPath": "a/b"}, {"name": "v", "mountPath": "v", "subPathExpr": "$(A)"},
    {"name": "none", "mountPath": "/v"}, {"name": "", "mountPath": "/v"}, {"name": "v", "mountPath": ""}, {"name": "v"},
    {"name": "v", "mountPath": "/y", "subPath": "/abs"}, {"name": "v", "mountPath": "/y", "subPath": "../x", "subPathExpr": "/b/.."},
    {"name": "v", "mountPath": "/z", "mountPropagation": "None"}, {"name": "v", "mountPath": "/z", "mountPropagation": "Bidirectional"},
    {"name": "v", "mountPath": "/z", "mountPropagation": "Sideways"}, {"name": "v", "mountPath": "/z", "recursiveReadOnly": "Enabled"},
    {"name": "v", "mountPath": "/z", "recursiveReadOnly": "Disabled"}, {"name": "v", "mountPath": "/z", "recursiveReadOnly": "Maybe"},
    {"name": "v", "mountPath": "/z", "readOnly": true, "recursiveReadOnly": "IfPossible", "mountPropagation": "HostToContainer"}]"#;

/// Values that break a rule, or lie on its bound.
pub(crate) const FAULTS: Table = &[
    ("/spec/parallelism", "[-1, 10000, 10001, 100000, 100001]"),
    ("/spec/completions", "[-1, 10, 100000, 100001]"),
    ("/spec/backoffLimit", "[-1, 2147483647]"),
    ("/spec/activeDeadlineSeconds", "[-1]"),
    ("/spec/ttlSecondsAfterFinished", "[-1]"),
    ("/spec/backoffLimitPerIndex", "[-1, 0, 1]"),
    ("/spec/maxFailedIndexes", "[-1, 0, 3, 4, 10000, 10001, 100000, 100001]"),
    ("/spec/completionMode", r#"["", "indexed", "Indexed", "NonIndexed"]"#),
    ("/spec/podReplacementPolicy", r#"["", "Always", "Failed", "TerminatingOrFailed"]"#),
    (
        "/spec/managedBy",
        r#"["", "x", "/x", "x/", "A.b/c", "a..b/c", "a.b/c d", "a.b/ä", "a.b/c?d", "a.b/%zz",
            "a.b/ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc", "a.b/cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "-a/@"]"#,
    ),
    ("/spec/manualSelector", "[true, false]"),
    (
        "/spec/selector",
        r#"[{}, {"matchLabels": {"app": "x"}}, {"matchLabels": {"app": "y"}}, {"matchLabels": {"A/B": "x"}}, {"matchLabels": {"app": "x y"}},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}, {"matchExpressions": [{"key": "app", "operator": "In"}]},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}, {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]},
            {"matchExpressions": [{"key": "none", "operator": "DoesNotExist", "values": []}]}, {"matchExpressions": [{"key": "", "operator": "Is", "values": ["x"]}]},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "not a label"]}]},
            {"matchLabels": {"batch.kubernetes.io/controller-uid": "wrong"}}]"#,
    ),
    (
        "/spec/template/metadata/labels",
        r#"[{"app": "x"}, {"job-name": "other"}, {"controller-uid": "wrong"}, {"batch.kubernetes.io/job-name": "other"}, {"A/": "x"}, {"": "x"},
            {"a": "-"}, {"a/b/c": "x"}, {"a": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
            {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": "x y"}]"#,
    ),
    (
        "/spec/template/metadata/annotations",
        r#"[{"": "x"}, {"a b": "x"}, {"/a": "x"}, {"kubernetes.io/config.mirror": "x"}, {"controller.kubernetes.io/pod-deletion-cost": "5"},
            {"controller.kubernetes.io/pod-deletion-cost": "+5"}, {"controller.kubernetes.io/pod-deletion-cost": "05"}, {"controller.kubernetes.io/pod-deletion-cost": ""},
            {"controller.kubernetes.io/pod-deletion-cost": "-2147483649"}, {"controller.kubernetes.io/pod-deletion-cost": "-0"},
            {"seccomp.security.alpha.kubernetes.io/pod": "x"}, {"seccomp.security.alpha.kubernetes.io/pod": "localhost//a/../b"},
            {"container.seccomp.security.alpha.kubernetes.io/main": "docker/default"}, {"container.apparmor.security.beta.kubernetes.io/none": "x"},
            {"container.apparmor.security.beta.kubernetes.io/main": "localhost/x"}, {"container.apparmor.security.beta.kubernetes.io/main": "odd"},
            {"scheduler.alpha.kubernetes.io/tolerations": "[{\"key\":\"a b\"}]"}, {"scheduler.alpha.kubernetes.io/tolerations": "{"},
            {"scheduler.alpha.kubernetes.io/tolerations": ""}, {"scheduler.alpha.kubernetes.io/tolerations": "[]"}]"#,
    ),
    ("/metadata/labels", r#"[{"A/B": "x"}, {"a": "x y"}, {"": ""}, {"a/b/c": "_"}]"#),
    ("/metadata/annotations", r#"[{"A/B": "x"}, {"a b": ""}, {"": ""}, {"Aa.Bb/C": "fine"}]"#),
    (
        "/metadata/finalizers",
        r#"[["x"], ["orphan", "foregroundDeletion"], ["a/b", "A/b"], ["kubernetes"], [""], ["a/b/c"]]"#,
    ),
    (
        "/metadata/ownerReferences",
        r#"[[{"apiVersion": "", "kind": "", "name": "", "uid": ""}], [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}],
            [{"apiVersion": "a/b/c", "kind": "K", "name": "n", "uid": "u"}], [{"apiVersion": "g/", "kind": "K", "name": "n", "uid": "u"}],
            [{"apiVersion": "v1", "kind": "A", "name": "n", "uid": "u", "controller": true}, {"apiVersion": "v1", "kind": "B", "name": "m", "uid": "w", "controller": true}]]"#,
    ),
    ("/metadata/generateName", r#"["ok-", "Bad-", "a/b", "-", "a--", "50%", ".."]"#),
    ("/spec/template/spec/restartPolicy", r#"["Always", "", null, "Sometimes", "OnFailure"]"#),
    (
        "/spec/podFailurePolicy",
        r#"[{"rules": []}, {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}]},
            {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}, {"rules": [{"action": "Count"}]},
            {"rules": [{"action": "", "onExitCodes": {"operator": "", "values": []}}]}, {"rules": [{"action": "Explode", "onExitCodes": {"operator": "Within", "values": [0, 0]}}]},
            {"rules": [{"action": "FailIndex", "onExitCodes": {"containerName": "main", "operator": "NotIn", "values": [0, 5, 3]}}]},
            {"rules": [{"action": "FailJob", "onExitCodes": {"containerName": "none", "operator": "In", "values": [0, 1, 1]}}]},
            {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}, "onPodConditions": [{"type": "a/b/c", "status": "Maybe"}]}]},
            {"rules": [{"action": "Count", "onPodConditions": [{"type": "", "status": ""}, {"type": "Ready", "status": "Unknown"}]}]},
            {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3, 1, 2]}}, {"action": "Ignore", "onPodConditions": []}]}]"#,
    ),
    (
        "/spec/template/spec/containers/0/name",
        r#"["", "Main", "a.b", "-a", "a_b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", null]"#,
    ),
    ("/spec/template/spec/containers/0/image", r#"["", null]"#),
    ("/spec/template/spec/containers/0/imagePullPolicy", r#"["Sometimes", "always"]"#),
    (
        "/spec/template/spec/containers/0/env",
        r#"[[{"name": ""}], [{"name": "a=b"}, {"name": "ä"}, {"name": "A"}, {"name": "A"}], [{"name": "a\tb"}, {"value": "x"}]]"#,
    ),
    (
        "/spec/template/spec/containers/0/ports",
        r#"[[{"containerPort": 0}], [{}], [{"containerPort": -1}, {"containerPort": 65536, "hostPort": 65536}], [{"containerPort": 1, "name": "A--"}],
            [{"containerPort": 1, "name": "123"}, {"containerPort": 1, "name": "-"}], [{"containerPort": 1, "name": "a123456789012345"}],
            [{"containerPort": 1, "name": "http"}, {"containerPort": 2, "name": "http"}], [{"containerPort": 1, "protocol": "tcp"}],
            [{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}], [{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5, "protocol": "UDP"}],
            [{"containerPort": 1, "hostPort": -5}, {"containerPort": 2, "hostPort": -5, "hostIP": "10.0.0.1"}]]"#,
    ),
    (
        "/spec/template/spec/containers/0/resources",
        r#"[{"limits": {"cpu": "-1"}}, {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}, {"limits": {"cpu": "1"}, "requests": {"cpu": "1000m"}},
            {"limits": {"memory": "1G"}, "requests": {"memory": "1Gi"}}, {"limits": {"gpu": "1"}}, {"limits": {"pods": "1.5"}}, {"limits": {"requests.cpu": "1"}},
            {"limits": {"example.com/gpu": "1.5"}, "requests": {"example.com/gpu": "1"}}, {"requests": {"example.com/gpu": "1"}}, {"limits": {"requests.a.b/c": "1"}},
            {"limits": {"kubernetes.io/x": "1"}}, {"limits": {"a.kubernetes.io/x": "1.5"}, "requests": {"a.kubernetes.io/x": "1"}}, {"limits": {"": "1"}}, {"limits": {"A/b": "1"}},
            {"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}, {"limits": {"hugepages-2Mi": "2Mi"}}, {"requests": {"hugepages-2Mi": "2Mi", "cpu": "1"}}, {"limits": {"hugepages-x": "1", "cpu": "1"}},
            {"limits": {"hugepages-2Mi": "2Mi", "memory": "1"}, "requests": {"hugepages-2Mi": "4Mi"}}, {"limits": {"hugepages-0": "0", "cpu": "1"}}, {"limits": {"requests.hugepages-2Mi": "2Mi"}},
            {"limits": {"storage": "1"}, "requests": {"storage": "2"}}, {"requests": {"attachable-volumes-x": "1"}}, {"limits": {"cpu": "1", "memory": "-0.5", "x.y/z": "-1"}},
            {"limits": {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b/c": "1"}}, {"limits": {"a b": "1"}, "requests": {"a/b/c": "1"}}]"#,
    ),
    (
        "/spec/template/spec/tolerations",
        r#"[[{"key": "a b"}], [{"value": "x"}], [{"key": "a", "operator": "Exists", "value": "x"}], [{"key": "a", "operator": "Like"}], [{"key": "a", "operator": "Lt", "value": "5"}],
            [{"key": "a", "effect": "Never"}], [{"key": "a", "tolerationSeconds": 5}], [{"key": "a", "tolerationSeconds": -5, "effect": "NoExecute"}], [{"key": "a", "value": "x y"}],
            [{"operator": "Equal", "effect": "NoSchedule", "tolerationSeconds": 1}, {"key": "A/B/C", "operator": "Gt", "value": "x"}]]"#,
    ),
    (
        "/spec/template/spec/schedulingGates",
        r#"[[{"name": ""}], [{"name": "a"}, {"name": "a"}], [{"name": "A/B"}], [{"name": "a/b/c"}, {"name": "a/b/c"}]]"#,
    ),
    (
        "/spec/template/spec/nodeSelector",
        r#"[{"": "x"}, {"a b": "c d"}, {"a/b/c": ""}, {"A/b": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}]"#,
    ),
    ("/spec/template/spec/containers", "[[], null]"),
    ("/spec/template/spec/hostNetwork", "[true]"),
    (
        "/spec/template/spec/initContainers",
        r#"[[{"name": "main", "image": "a"}], [{"name": "i", "image": "a"}, {"name": "i", "image": ""}], [{"name": "", "image": "a"}, {"name": ""}],
        [{"name": "i", "image": "a:1", "ports": [{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]}],
        [{"name": "i", "image": "a:1"}, {"name": "j", "image": "b", "imagePullPolicy": "x", "ports": [{"containerPort": 1, "hostPort": 7}, {"containerPort": 2, "hostPort": 7}]}],
        [{"name": "i", "image": "a:1", "volumeMounts": [{"name": "none", "mountPath": "/v"}], "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}]]"#,
    ),
];

/// The rules of a success policy need completions: without, a real 1.35 server crashes on them.
pub(crate) const SUCCESS_POLICIES: &str = r#"[
    {"rules": []}, {"rules": [{}]}, {"rules": [{"succeededCount": 1}]}, {"rules": [{"succeededCount": 3}]}, {"rules": [{"succeededCount": 4}, {"succeededCount": -1}]},
    {"rules": [{"succeededIndexes": "0-2"}]}, {"rules": [{"succeededIndexes": "0,2", "succeededCount": 2}]}, {"rules": [{"succeededIndexes": "0,2", "succeededCount": 3}]},
    {"rules": [{"succeededIndexes": "2,0"}]}, {"rules": [{"succeededIndexes": "3", "succeededCount": 1}]}, {"rules": [{"succeededIndexes": "", "succeededCount": 0}]},
    {"rules": [{"succeededIndexes": "", "succeededCount": 1}]}, {"rules": [{"succeededIndexes": "0--2"}, {"succeededIndexes": "x"}]}, {"rules": [{"succeededIndexes": "+0,01"}]}]"#;

/// What a stored Job may look like, beside what was created.
pub(crate) const STORED: Table = &[
    ("/spec/suspend", "[true, true, true, false, null]"),
    ("/status/startTime", r#"[null, null, "2026-01-01T10:00:00Z"]"#),
    ("/status/active", "[null, 0, 1]"),
    (
        "/status/conditions",
        r#"[null, [{"type": "Suspended", "status": "True"}], [{"type": "Suspended", "status": "False"}], [{"type": "Complete", "status": "True"}]]"#,
    ),
    ("/metadata/deletionTimestamp", r#"[null, null, null, null, "2026-01-01T10:00:00Z"]"#),
    ("/spec/managedBy", r#"[null, "example.com/queue", "bad value", "kubernetes.io/job-controller"]"#),
    ("/metadata/labels", r#"[null, {"old": "not a label"}]"#),
];

/// Faults that are tolerated once they are stored.
pub(crate) const RATCHETS: Table = &[
    ("/spec/template/metadata/labels/batch.kubernetes.io~1job-name", "[null]"),
    ("/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid", "[null]"),
    (
        "/spec/selector/matchExpressions",
        r#"[[{"key": "app", "operator": "NotIn", "values": ["not a label"]}], [{"key": "app", "operator": "NotIn", "values": ["z"]}]]"#,
    ),
    ("/spec/template/spec/containers/0/resources", r#"[{"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}]"#),
    (
        "/spec/template/spec/tolerations",
        r#"[[{"key": "a", "operator": "Gt", "value": "5"}], [{"key": "a", "operator": "Lt", "value": "05"}, {"key": "b", "operator": "Gt", "value": "x"}]]"#,
    ),
    ("/spec/template/metadata/annotations", r#"[{"controller.kubernetes.io/pod-deletion-cost": "many"}]"#),
    ("/spec/parallelism", "[-5, 3]"),
    ("/spec/template/spec/containers/0/name", r#"["Old_Name"]"#),
];

/// Edits that a client may try.
pub(crate) const EDITS: Table = &[
    ("/spec/parallelism", "[0, 1, 2, 3, 7, -1]"),
    ("/spec/completions", "[null, 0, 1, 2, 3, 7]"),
    ("/spec/suspend", "[true, false, null]"),
    ("/spec/backoffLimit", "[0, 9, -1]"),
    ("/spec/activeDeadlineSeconds", "[null, 10, -1]"),
    ("/spec/ttlSecondsAfterFinished", "[null, 10]"),
    ("/spec/maxFailedIndexes", "[null, 1]"),
    ("/spec/backoffLimitPerIndex", "[null, 1]"),
    ("/spec/completionMode", r#"["Indexed", "NonIndexed", null, "x"]"#),
    ("/spec/podReplacementPolicy", r#"["Failed", "TerminatingOrFailed", null, "x"]"#),
    ("/spec/managedBy", r#"[null, "example.com/queue", "other.com/queue", "kubernetes.io/job-controller", "bad"]"#),
    ("/spec/selector", r#"[null, {"matchLabels": {"app": "x"}}]"#),
    ("/spec/manualSelector", "[true, false, null]"),
    (
        "/spec/podFailurePolicy",
        r#"[null, {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}]"#,
    ),
    ("/spec/successPolicy", r#"[null, {"rules": [{"succeededCount": 1}]}]"#),
    ("/spec/template/metadata/labels/extra", r#"["x", "not a label", null]"#),
    ("/spec/template/metadata/labels/job-name", r#"["other", null]"#),
    ("/spec/template/metadata/annotations", r#"[null, {"note": "new"}, {"a b": ""}]"#),
    ("/spec/template/spec/nodeSelector", r#"[null, {}, {"disk": "ssd"}, {"a b": ""}]"#),
    ("/spec/template/spec/tolerations", r#"[null, [], [{"operator": "Exists"}], [{"key": "a b"}]]"#),
    ("/spec/template/spec/schedulingGates", r#"[null, [], [{"name": "example.com/gate"}], [{"name": ""}]]"#),
    (
        "/spec/template/spec/affinity",
        r#"[null, {}, {"nodeAffinity": {}}, {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}},
            {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}]}}]"#,
    ),
    (
        "/spec/template/spec/containers/0/resources",
        r#"[{}, {"limits": {"cpu": "3"}}, {"limits": {"cpu": "3000m"}}, {"limits": {"cpu": "1", "memory": "1073741824"}, "requests": {"cpu": "0.5"}}]"#,
    ),
    ("/spec/template/spec/containers/0/image", r#"["other:1"]"#),
    ("/spec/template/spec/containers/0/name", r#"["other"]"#),
    ("/spec/template/spec/containers/0/command", r#"[[], ["other"]]"#),
    ("/spec/template/spec/containers/0/stdin", "[false, true]"),
    ("/spec/template/spec/restartPolicy", r#"["Never", "OnFailure"]"#),
    ("/spec/template/spec/terminationGracePeriodSeconds", "[null, 30, 31]"),
    ("/spec/template/spec/activeDeadlineSeconds", "[null, 5]"),
    ("/metadata/labels", r#"[null, {}, {"new": "x"}, {"a b": ""}]"#),
    ("/metadata/annotations", r#"[null, {"new": "x"}, {"a b": ""}]"#),
    ("/metadata/finalizers", r#"[null, [], ["example.com/hold"], ["example.com/other"], ["bad"], ["A b"]]"#),
    ("/metadata/ownerReferences", r#"[null, [{"apiVersion": "", "kind": "K", "name": "n", "uid": "u"}]]"#),
    ("/metadata/generateName", r#"[null, "a/b", "Bad-"]"#),
    ("/metadata/deletionGracePeriodSeconds", "[null, 5]"),
    ("/metadata/generation", "[null, 1, 99]"),
    ("/status/active", "[null, 9]"),
];

/// What a client may send to `/status` beside the status.
pub(crate) const STATUS_EDITS: Table = &[
    ("/metadata/labels", r#"[null, {"new": "x"}, {"a b": ""}, {"A/B/C": "x y"}]"#),
    ("/metadata/annotations", r#"[null, {"new": "x"}, {"a b": ""}]"#),
    (
        "/metadata/finalizers",
        r#"[null, ["example.com/hold"], ["example.com/other"], ["bad"], ["A b"], ["orphan", "foregroundDeletion"]]"#,
    ),
    ("/metadata/ownerReferences", r#"[null, [{"apiVersion": "", "kind": "", "name": "n", "uid": ""}]]"#),
    ("/metadata/generateName", r#"[null, "a/b"]"#),
    ("/metadata/deletionTimestamp", r#"[null, "2027-01-01T10:00:00Z"]"#),
    ("/spec/parallelism", "[-1, 5]"),
    ("/spec/managedBy", r#"["other.com/queue"]"#),
    ("/status/active", "[null, 0, 1, -1]"),
    ("/status/startTime", r#"[null, "2026-01-01T11:00:00Z"]"#),
    (
        "/status/conditions",
        r#"[null, [{"type": "Failed", "status": "True"}], [{"type": "FailureTarget", "status": "True"}, {"type": "Failed", "status": "True"}]]"#,
    ),
    ("/status/succeeded", "[null, 1]"),
];
