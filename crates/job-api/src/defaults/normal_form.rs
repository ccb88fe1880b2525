//! One way to write what means the same: the server's encoder leaves out empty values of fields that cannot tell
//! empty from absent. Fields that can (`failedIndexes`, `suspend`, ...) are left alone.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::quantity;

pub(super) fn drop_empty_text(text: &mut Option<String>) {
    text.take_if(|text| text.is_empty());
}

fn drop_empty_list<T>(list: &mut Option<Vec<T>>) {
    list.take_if(|list| list.is_empty());
}

fn drop_empty_map<V>(map: &mut Option<BTreeMap<String, V>>) {
    map.take_if(|map| map.is_empty());
}

fn drop_false(flag: &mut Option<bool>) {
    flag.take_if(|flag| !*flag);
}

pub(super) fn metadata(metadata: &mut ObjectMeta) {
    for text in [&mut metadata.generate_name, &mut metadata.name, &mut metadata.namespace, &mut metadata.uid] {
        drop_empty_text(text);
    }
    drop_empty_map(&mut metadata.labels);
    drop_empty_map(&mut metadata.annotations);
    drop_empty_list(&mut metadata.finalizers);
    drop_empty_list(&mut metadata.owner_references);
}

pub(super) fn job_spec(spec: &mut JobSpec) {
    if let Some(LabelSelector { match_labels, match_expressions }) = &mut spec.selector {
        drop_empty_map(match_labels);
        drop_empty_list(match_expressions);
        for requirement in match_expressions.iter_mut().flatten() {
            drop_empty_list(&mut requirement.values);
        }
    }
    for rule in spec.pod_failure_policy.iter_mut().flat_map(|policy| &mut policy.rules) {
        drop_empty_list(&mut rule.on_pod_conditions);
    }
}

pub(super) fn job_status(status: &mut JobStatus) {
    for counter in [&mut status.active, &mut status.failed, &mut status.succeeded] {
        counter.take_if(|count| *count == 0);
    }
    drop_empty_text(&mut status.completed_indexes);
    drop_empty_list(&mut status.conditions);
    for condition in status.conditions.iter_mut().flatten() {
        drop_empty_text(&mut condition.reason);
        drop_empty_text(&mut condition.message);
    }
    if let Some(uncounted) = &mut status.uncounted_terminated_pods {
        drop_empty_list(&mut uncounted.failed);
        drop_empty_list(&mut uncounted.succeeded);
    }
}

pub(super) fn pod_template(template: &mut PodTemplateSpec) {
    metadata(template.metadata.get_or_insert_default());
    let spec = template.spec.get_or_insert_default();
    pod_scalars(spec);
    drop_empty_list(&mut spec.init_containers);
    drop_empty_list(&mut spec.ephemeral_containers);
    drop_empty_list(&mut spec.volumes);
    drop_empty_list(&mut spec.tolerations);
    drop_empty_list(&mut spec.scheduling_gates);
    drop_empty_list(&mut spec.image_pull_secrets);
    drop_empty_list(&mut spec.host_aliases);
    drop_empty_list(&mut spec.readiness_gates);
    drop_empty_list(&mut spec.topology_spread_constraints);
    drop_empty_list(&mut spec.resource_claims);
    drop_empty_map(&mut spec.node_selector);
    for toleration in spec.tolerations.iter_mut().flatten() {
        for text in [&mut toleration.key, &mut toleration.operator, &mut toleration.value, &mut toleration.effect] {
            drop_empty_text(text);
        }
    }
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        self::container(container);
    }
    for volume in spec.volumes.iter_mut().flatten() {
        self::volume(volume);
    }
}

fn pod_scalars(spec: &mut PodSpec) {
    for text in [
        &mut spec.dns_policy,
        &mut spec.hostname,
        &mut spec.node_name,
        &mut spec.priority_class_name,
        &mut spec.restart_policy,
        &mut spec.scheduler_name,
        &mut spec.service_account,
        &mut spec.service_account_name,
        &mut spec.subdomain,
    ] {
        drop_empty_text(text);
    }
    for flag in [&mut spec.host_ipc, &mut spec.host_network, &mut spec.host_pid] {
        drop_false(flag);
    }
}

fn container(container: &mut Container) {
    for text in [
        &mut container.image,
        &mut container.image_pull_policy,
        &mut container.termination_message_path,
        &mut container.termination_message_policy,
        &mut container.working_dir,
    ] {
        drop_empty_text(text);
    }
    for flag in [&mut container.stdin, &mut container.stdin_once, &mut container.tty] {
        drop_false(flag);
    }
    drop_empty_list(&mut container.args);
    drop_empty_list(&mut container.command);
    drop_empty_list(&mut container.env);
    drop_empty_list(&mut container.env_from);
    drop_empty_list(&mut container.ports);
    drop_empty_list(&mut container.resize_policy);
    drop_empty_list(&mut container.volume_devices);
    drop_empty_list(&mut container.volume_mounts);
    for variable in container.env.iter_mut().flatten() {
        drop_empty_text(&mut variable.value);
    }
    for port in container.ports.iter_mut().flatten() {
        for text in [&mut port.name, &mut port.host_ip, &mut port.protocol] {
            drop_empty_text(text);
        }
        port.host_port.take_if(|port| *port == 0);
    }
    for mount in container.volume_mounts.iter_mut().flatten() {
        drop_empty_text(&mut mount.sub_path);
        drop_empty_text(&mut mount.sub_path_expr);
        drop_false(&mut mount.read_only);
    }
    let resources = container.resources.get_or_insert_default();
    drop_empty_list(&mut resources.claims);
    for list in [&mut resources.limits, &mut resources.requests] {
        drop_empty_map(list);
        list.iter_mut().flat_map(BTreeMap::values_mut).for_each(quantity::canonicalise_resource);
    }
}

fn volume(volume: &mut Volume) {
    if let Some(empty_dir) = &mut volume.empty_dir {
        drop_empty_text(&mut empty_dir.medium);
        empty_dir.size_limit.iter_mut().for_each(quantity::canonicalise);
    }
    if let Some(config_map) = &mut volume.config_map {
        drop_empty_list(&mut config_map.items);
    }
    if let Some(secret) = &mut volume.secret {
        drop_empty_text(&mut secret.secret_name);
        drop_empty_list(&mut secret.items);
    }
}
