//! Defaults of a pod template. It is a template's defaulting, not a pod's: requests are not copied from limits.

use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, HTTPGetAction, PodSecurityContext, PodTemplateSpec, Probe, Volume,
};

use super::normal_form;
use crate::image;

/// Permissions of files in a volume, 0644.
const FILE_MODE: i32 = 0o644;
const TERMINATION_GRACE_PERIOD_SECONDS: i64 = 30;

pub(super) fn apply(template: &mut PodTemplateSpec) {
    normal_form::pod_template(template);
    let spec = template.spec.get_or_insert_default();
    set_text(&mut spec.dns_policy, "ClusterFirst");
    set_text(&mut spec.restart_policy, "Always");
    set_text(&mut spec.scheduler_name, "default-scheduler");
    spec.security_context.get_or_insert_with(PodSecurityContext::default);
    spec.termination_grace_period_seconds.get_or_insert(TERMINATION_GRACE_PERIOD_SECONDS);
    for volume in spec.volumes.iter_mut().flatten() {
        apply_to_volume(volume);
    }
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        apply_to_container(container);
    }
}

fn set_text(field: &mut Option<String>, default: &str) {
    field.get_or_insert_with(|| default.to_owned());
}

fn apply_to_container(container: &mut Container) {
    let is_latest = image::means_latest(container.image.as_deref().unwrap_or_default());
    set_text(&mut container.image_pull_policy, if is_latest { "Always" } else { "IfNotPresent" });
    set_text(&mut container.termination_message_path, "/dev/termination-log");
    set_text(&mut container.termination_message_policy, "File");
    for port in container.ports.iter_mut().flatten() {
        set_text(&mut port.protocol, "TCP");
    }
    for source in container.env.iter_mut().flatten().filter_map(|variable| variable.value_from.as_mut()) {
        if let Some(field) = &mut source.field_ref {
            set_text(&mut field.api_version, "v1");
        }
    }
    for probe in [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe] {
        probe.iter_mut().for_each(apply_to_probe);
    }
    if let Some(lifecycle) = &mut container.lifecycle {
        for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
            handler.http_get.iter_mut().for_each(apply_to_http_get);
        }
    }
}

fn apply_to_probe(probe: &mut Probe) {
    for (field, default) in [
        (&mut probe.timeout_seconds, 1),
        (&mut probe.period_seconds, 10),
        (&mut probe.success_threshold, 1),
        (&mut probe.failure_threshold, 3),
    ] {
        field.take_if(|value| *value == 0);
        field.get_or_insert(default);
    }
    probe.http_get.iter_mut().for_each(apply_to_http_get);
    if let Some(grpc) = &mut probe.grpc {
        set_text(&mut grpc.service, "");
    }
}

fn apply_to_http_get(action: &mut HTTPGetAction) {
    normal_form::drop_empty_text(&mut action.path);
    normal_form::drop_empty_text(&mut action.scheme);
    set_text(&mut action.path, "/");
    set_text(&mut action.scheme, "HTTP");
}

fn apply_to_volume(volume: &mut Volume) {
    let is_nothing_but_a_name = *volume == Volume { name: volume.name.clone(), ..Volume::default() };
    if is_nothing_but_a_name {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    }
    if let Some(host_path) = &mut volume.host_path {
        set_text(&mut host_path.type_, "");
    }
    for mode in [
        volume.secret.as_mut().map(|source| &mut source.default_mode),
        volume.config_map.as_mut().map(|source| &mut source.default_mode),
        volume.downward_api.as_mut().map(|source| &mut source.default_mode),
        volume.projected.as_mut().map(|source| &mut source.default_mode),
    ]
    .into_iter()
    .flatten()
    {
        mode.get_or_insert(FILE_MODE);
    }
}
