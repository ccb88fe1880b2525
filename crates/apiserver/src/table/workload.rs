//! Jobs, CronJobs, Nodes and Events in a table.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::duration::{between, since};
use super::{Column, age, name, or_none, text};

pub(super) fn job_columns() -> Vec<Column> {
    vec![
        Column::new("Name", name),
        Column::new("Status", |job, _| job_status(job).into()),
        Column::new("Completions", |job, _| completions(job).into()),
        Column::new("Duration", |job, now| {
            let status = &job["status"];
            let took = between(&status["startTime"], &status["completionTime"]);
            took.or_else(|| since(&status["startTime"], now)).unwrap_or_default().into()
        }),
        Column::new("Age", age),
        Column::wide("Containers", |job, _| containers(&job["spec"]["template"], "name")),
        Column::wide("Images", |job, _| containers(&job["spec"]["template"], "image")),
        Column::wide("Selector", |job, _| selector(&job["spec"]["selector"])),
    ]
}

pub(super) fn cron_job_columns() -> Vec<Column> {
    vec![
        Column::new("Name", name),
        Column::new("Schedule", |cron, _| cron["spec"]["schedule"].clone()),
        Column::new("Timezone", |cron, _| or_none(&cron["spec"]["timeZone"])),
        Column::new("Suspend", |cron, _| match cron["spec"]["suspend"] {
            Value::Bool(true) => "True".into(),
            _ => "False".into(),
        }),
        Column::new("Active", |cron, _| cron["status"]["active"].as_array().map_or(0, Vec::len).into())
            .of_kind("integer"),
        Column::new("Last Schedule", |cron, now| {
            since(&cron["status"]["lastScheduleTime"], now).unwrap_or_else(|| "<none>".into()).into()
        }),
        Column::new("Age", age),
        Column::wide("Containers", |cron, _| containers(&cron["spec"]["jobTemplate"]["spec"]["template"], "name")),
        Column::wide("Images", |cron, _| containers(&cron["spec"]["jobTemplate"]["spec"]["template"], "image")),
        Column::wide("Selector", |cron, _| selector(&cron["spec"]["jobTemplate"]["spec"]["selector"])),
    ]
}

pub(super) fn node_columns() -> Vec<Column> {
    fn info(node: &Value, field: &str) -> Value {
        match text(&node["status"]["nodeInfo"][field]) {
            "" => "<unknown>".into(),
            text => text.into(),
        }
    }
    fn address(node: &Value, kind: &str) -> Value {
        let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
        addresses
            .clone()
            .find(|address| address["type"] == kind)
            .map_or("<none>".into(), |found| found["address"].clone())
    }
    vec![
        Column::new("Name", name),
        Column::new("Status", |node, _| node_status(node).into()),
        Column::new("Roles", |node, _| roles(node).into()),
        Column::new("Age", age),
        Column::new("Version", |node, _| text(&node["status"]["nodeInfo"]["kubeletVersion"]).into()),
        Column::wide("Internal-IP", |node, _| address(node, "InternalIP")),
        Column::wide("External-IP", |node, _| address(node, "ExternalIP")),
        Column::wide("OS-Image", |node, _| info(node, "osImage")),
        Column::wide("Kernel-Version", |node, _| info(node, "kernelVersion")),
        Column::wide("Container-Runtime", |node, _| info(node, "containerRuntimeVersion")),
    ]
}

pub(super) fn event_columns() -> Vec<Column> {
    vec![
        Column::new("Last Seen", last_seen),
        Column::new("Type", |event, _| event["type"].clone()),
        Column::new("Reason", |event, _| event["reason"].clone()),
        Column::new("Object", |event, _| {
            let about = either(event, "involvedObject", "regarding");
            let kind = text(&about["kind"]).to_lowercase();
            match text(&about["name"]) {
                "" => kind.into(),
                name => format!("{kind}/{name}").into(),
            }
        }),
        Column::wide("Subobject", |event, _| text(&either(event, "involvedObject", "regarding")["fieldPath"]).into()),
        Column::wide("Source", |event, _| {
            let source = either(event, "source", "deprecatedSource");
            let component = match text(&source["component"]) {
                "" => text(either(event, "reportingComponent", "reportingController")),
                component => component,
            };
            match text(&source["host"]) {
                "" => component.into(),
                host => format!("{component}, {host}").into(),
            }
        }),
        Column::new("Message", |event, _| text(either(event, "message", "note")).trim().into()),
        Column::wide("First Seen", first_seen),
        Column::wide("Count", |event, _| {
            let count =
                event["series"]["count"].as_i64().or_else(|| either(event, "count", "deprecatedCount").as_i64());
            count.filter(|count| *count > 0).unwrap_or(1).into()
        }),
        Column::wide("Name", name),
    ]
}

/// A field of an event under its name in either group.
fn either<'a>(event: &'a Value, core: &str, new: &str) -> &'a Value {
    event.get(core).unwrap_or(&event[new])
}

fn first_seen(event: &Value, now: Timestamp) -> Value {
    let first = either(event, "firstTimestamp", "deprecatedFirstTimestamp");
    since(first, now).or_else(|| since(&event["eventTime"], now)).unwrap_or_else(|| "<unknown>".into()).into()
}

fn last_seen(event: &Value, now: Timestamp) -> Value {
    let last = either(event, "lastTimestamp", "deprecatedLastTimestamp");
    let told = since(&event["series"]["lastObservedTime"], now).or_else(|| since(last, now));
    told.map_or_else(|| first_seen(event, now), Value::from)
}

fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn job_status(job: &Value) -> &'static str {
    match () {
        () if has_condition(job, "Complete") => "Complete",
        () if has_condition(job, "Failed") => "Failed",
        () if !job["metadata"]["deletionTimestamp"].is_null() => "Terminating",
        () if has_condition(job, "Suspended") => "Suspended",
        () if has_condition(job, "FailureTarget") => "FailureTarget",
        () if has_condition(job, "SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let succeeded = job["status"]["succeeded"].as_i64().unwrap_or(0);
    let parallelism = job["spec"]["parallelism"].as_i64().unwrap_or(0);
    match job["spec"]["completions"].as_i64() {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn containers(template: &Value, field: &str) -> Value {
    let list = template["spec"]["containers"].as_array().into_iter().flatten();
    list.map(|container| text(&container[field])).collect::<Vec<_>>().join(",").into()
}

fn selector(selector: &Value) -> Value {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut parts: Vec<String> = labels.map(|(key, value)| format!("{key}={}", text(value))).collect();
    for requirement in selector["matchExpressions"].as_array().into_iter().flatten() {
        let values: Vec<&str> = requirement["values"].as_array().into_iter().flatten().map(text).collect();
        let key = text(&requirement["key"]);
        parts.push(match text(&requirement["operator"]) {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    if parts.is_empty() { "<none>".into() } else { parts.join(",").into() }
}

fn node_status(node: &Value) -> String {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let word = match ready {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if node["spec"]["unschedulable"] == true { format!("{word},SchedulingDisabled") } else { word.to_owned() }
}

fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            _ => None,
        })
        .collect();
    roles.sort_unstable();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_of_a_job_follows_the_precedence_of_kubectl() {
        let job = |conditions: &[&str]| {
            let list: Vec<Value> = conditions.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
            json!({"metadata": {}, "status": {"conditions": list}})
        };
        let cases: [(&[&str], &str); 5] = [
            (&[], "Running"),
            (&["Suspended"], "Suspended"),
            (&["FailureTarget", "Suspended"], "Suspended"),
            (&["SuccessCriteriaMet"], "SuccessCriteriaMet"),
            (&["SuccessCriteriaMet", "Complete"], "Complete"),
        ];
        for (conditions, expected) in cases {
            assert_eq!(job_status(&job(conditions)), expected, "{conditions:?}");
        }
    }

    #[test]
    fn completions_show_work_queues_too() {
        let cases = [
            (json!({"completions": 3, "parallelism": 1}), "2/3"),
            (json!({"parallelism": 4}), "2/1 of 4"),
            (json!({"parallelism": 1}), "2/1"),
        ];
        for (spec, expected) in cases {
            assert_eq!(completions(&json!({"spec": spec, "status": {"succeeded": 2}})), expected);
        }
    }
}
