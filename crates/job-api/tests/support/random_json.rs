//! Random JSON: shaped like Jobs often enough to get past the decoder, and wild otherwise.

use serde_json::{Map, Value, json};

/// A small generator of its own: the tests must not depend on how a library draws its numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// xorshift64*
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % bound
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

const TEXTS: &[&str] = &[
    "",
    "a",
    "A",
    "-",
    "a.b/c",
    "a/b/c",
    "0",
    "1",
    "-1",
    "0-2",
    "2-1",
    "0,1",
    "1,0",
    "x,",
    "+1",
    "00",
    "99999999999999999999",
    "2147483647",
    "1Gi",
    "500m",
    "-5",
    "1e400",
    "1e-400",
    ".",
    "+",
    "0.0000000001",
    "9999999999999999999999Ei",
    "1.5Ki",
    "Indexed",
    "NonIndexed",
    "True",
    "False",
    "Complete",
    "Failed",
    "FailureTarget",
    "SuccessCriteriaMet",
    "Suspended",
    "In",
    "NotIn",
    "Exists",
    "Never",
    "OnFailure",
    "Always",
    "FailIndex",
    "ä\u{0}\u{1F600}",
    "app:latest",
    "a@sha256:b",
    "[::1]:5/x",
    "/",
    "..",
    "../x",
    "hugepages-2Mi",
    "hugepages-",
    "requests.cpu",
    "cpu",
    "kubernetes.io/job-controller",
    "2026-01-01T10:00:00Z",
    "2026-01-01T11:00:00.5+02:00",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
];

const FIELDS: &[&str] = &[
    "parallelism",
    "completions",
    "completionMode",
    "backoffLimit",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    "managedBy",
    "manualSelector",
    "selector",
    "suspend",
    "podFailurePolicy",
    "successPolicy",
    "podReplacementPolicy",
    "template",
    "ttlSecondsAfterFinished",
    "activeDeadlineSeconds",
    "metadata",
    "spec",
    "status",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "name",
    "generateName",
    "uid",
    "containers",
    "initContainers",
    "volumes",
    "volumeMounts",
    "resources",
    "limits",
    "requests",
    "ports",
    "containerPort",
    "hostPort",
    "env",
    "image",
    "tolerations",
    "schedulingGates",
    "nodeSelector",
    "restartPolicy",
    "rules",
    "onExitCodes",
    "onPodConditions",
    "values",
    "operator",
    "action",
    "type",
    "succeededIndexes",
    "succeededCount",
    "matchLabels",
    "matchExpressions",
    "key",
    "conditions",
    "active",
    "ready",
    "failed",
    "succeeded",
    "terminating",
    "startTime",
    "completionTime",
    "completedIndexes",
    "failedIndexes",
    "uncountedTerminatedPods",
    "emptyDir",
    "configMap",
    "secret",
    "items",
    "path",
    "mountPath",
    "subPath",
    "sizeLimit",
    "controller",
    "deletionTimestamp",
];

/// Any value at all.
pub(crate) fn wild(random: &mut Random, depth: usize) -> Value {
    let choices = if depth == 0 { 5 } else { 8 };
    match random.below(choices) {
        0 => Value::Null,
        1 => json!(random.below(2) == 0),
        2 => json!(i64::try_from(random.below(9)).unwrap() - 2),
        3 => json!([i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN, 100_001][random.below(5)]),
        4 => json!(random.pick(TEXTS)),
        5 => (0..random.below(4)).map(|_| wild(random, depth - 1)).collect(),
        _ => {
            let entries = (0..random.below(6)).map(|_| {
                let key = if random.below(8) == 0 { random.pick(TEXTS) } else { random.pick(FIELDS) };
                (key.to_owned(), wild(random, depth - 1))
            });
            Value::Object(entries.collect::<Map<_, _>>())
        }
    }
}

/// Replaces, drops or adds something somewhere in a value. Texts stay texts and numbers numbers more often than not,
/// so that the result is still read as what it was.
pub(crate) fn disturb(random: &mut Random, value: &mut Value) {
    let go_deeper = random.below(10) > 0;
    match value {
        Value::Object(map) if go_deeper && !map.is_empty() => {
            let index = random.below(map.len());
            let key = map.keys().nth(index).cloned().unwrap();
            if random.below(30) == 0 {
                map.remove(&key);
            } else {
                disturb(random, &mut map[&key]);
            }
        }
        Value::Array(list) if go_deeper && !list.is_empty() => {
            let index = random.below(list.len());
            match random.below(10) {
                0 => list.push(list[index].clone()),
                1 => drop(list.remove(index)),
                _ => disturb(random, &mut list[index]),
            }
        }
        Value::String(text) if random.below(20) > 0 => random.pick(TEXTS).clone_into(text),
        Value::Number(_) if random.below(20) > 0 => {
            *value = json!([-1, 0, 1, 3, 5, 100_000, 100_001, i64::from(i32::MAX)][random.below(8)]);
        }
        Value::Bool(flag) => *flag = !*flag,
        _ => *value = wild(random, 3),
    }
}
