//! Containers and init containers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec, VolumeMount};

use super::{TemplateLeniency, resources, volumes};
use crate::{Errors, formats, path::Path};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
const RECURSIVE_READ_ONLY: [&str; 3] = ["Disabled", "Enabled", "IfPossible"];

type Names<'a> = BTreeSet<&'a str>;

pub(super) fn validate(
    field: &Path<'_>,
    spec: &PodSpec,
    volumes: &Names<'_>,
    leniency: TemplateLeniency,
    errors: &mut Errors,
) {
    if spec.containers.is_empty() {
        return errors.required(field, "");
    }
    let mut names = Names::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let field = field.index(index);
        validate_container(&field, container, volumes, leniency, errors);
        if !names.insert(&container.name) {
            errors.duplicate(&field.child("name"), &container.name);
        }
    }
    validate_host_ports(field, &spec.containers, errors);
}

pub(super) fn validate_init(
    field: &Path<'_>,
    spec: &PodSpec,
    volumes: &Names<'_>,
    leniency: TemplateLeniency,
    errors: &mut Errors,
) {
    let mut names: Names<'_> = spec.containers.iter().map(|container| container.name.as_str()).collect();
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let item = field.index(index);
        validate_container(&item, container, volumes, leniency, errors);
        if names.contains(container.name.as_str()) {
            errors.duplicate(&item.child("name"), &container.name);
        } else if !container.name.is_empty() {
            names.insert(&container.name);
        }
        // Init containers run one after the other, so each is checked alone; the server then calls each the first.
        validate_host_ports(field, std::slice::from_ref(container), errors);
    }
}

fn validate_container(
    field: &Path<'_>,
    container: &Container,
    volumes: &Names<'_>,
    leniency: TemplateLeniency,
    errors: &mut Errors,
) {
    let name = field.child("name");
    if container.name.is_empty() {
        errors.required(&name, "");
    } else {
        errors.invalid_format(&name, &container.name, formats::dns_label(&container.name));
    }
    if container.image.as_deref().unwrap_or_default().is_empty() {
        errors.required(&field.child("image"), "");
    }
    validate_ports(&field.child("ports"), container.ports.as_deref().unwrap_or_default(), errors);
    validate_environment(&field.child("env"), container, errors);
    validate_mounts(&field.child("volumeMounts"), container, volumes, errors);
    match container.image_pull_policy.as_deref().unwrap_or_default() {
        "" => errors.required(&field.child("imagePullPolicy"), ""),
        policy if !PULL_POLICIES.contains(&policy) => {
            errors.not_supported(&field.child("imagePullPolicy"), policy, &PULL_POLICIES);
        }
        _ => {}
    }
    if let Some(requirements) = &container.resources {
        resources::validate(&field.child("resources"), requirements, leniency, errors);
    }
}

fn validate_ports(field: &Path<'_>, ports: &[ContainerPort], errors: &mut Errors) {
    let mut names = Names::new();
    for (index, port) in ports.iter().enumerate() {
        let field = field.index(index);
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            let broken = formats::port_name(name);
            if broken.is_empty() && !names.insert(name) {
                errors.duplicate(&field.child("name"), name);
            }
            errors.invalid_format(&field.child("name"), name, broken);
        }
        let number = |name: &str, value: i32, errors: &mut Errors| {
            for broken in formats::port_number(value) {
                errors.invalid_number(&field.child(name), value, broken);
            }
        };
        if port.container_port == 0 {
            errors.required(&field.child("containerPort"), "");
        } else {
            number("containerPort", port.container_port, errors);
        }
        if let Some(host_port) = port.host_port.filter(|port| *port != 0) {
            number("hostPort", host_port, errors);
        }
        match port.protocol.as_deref().unwrap_or_default() {
            "" => errors.required(&field.child("protocol"), ""),
            protocol if !PROTOCOLS.contains(&protocol) => {
                errors.not_supported(&field.child("protocol"), protocol, &PROTOCOLS);
            }
            _ => {}
        }
    }
}

/// No two containers of a pod can have the same port of the node.
fn validate_host_ports(field: &Path<'_>, containers: &[Container], errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let container_field = field.index(index);
        let ports_field = container_field.child("ports");
        for (index, port) in container.ports.iter().flatten().enumerate() {
            let Some(host_port) = port.host_port.filter(|port| *port != 0) else { continue };
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let key = format!("{}/{}/{host_port}", text(&port.protocol), text(&port.host_ip));
            if taken.contains(&key) {
                errors.duplicate(&ports_field.index(index).child("hostPort"), &key);
            } else {
                taken.insert(key);
            }
        }
    }
}

/// In the node's network a container's port is the node's port, so a given one must be the same.
pub(super) fn validate_host_network(field: &Path<'_>, spec: &PodSpec, errors: &mut Errors) {
    if spec.host_network != Some(true) {
        return;
    }
    for (index, container) in spec.containers.iter().enumerate() {
        let container_field = field.index(index);
        let ports_field = container_field.child("ports");
        for (index, port) in container.ports.iter().flatten().enumerate() {
            let host_port = port.host_port.unwrap_or(0);
            if host_port != 0 && host_port != port.container_port {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid_number(&ports_field.index(index).child("hostPort"), host_port, detail);
            }
        }
    }
}

fn validate_environment(field: &Path<'_>, container: &Container, errors: &mut Errors) {
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let item = field.index(index);
        let field = item.child("name");
        if variable.name.is_empty() {
            errors.required(&field, "");
        } else {
            errors.invalid_format(&field, &variable.name, formats::variable_name(&variable.name));
        }
    }
}

fn validate_mounts(field: &Path<'_>, container: &Container, volumes: &Names<'_>, errors: &mut Errors) {
    let devices = container.volume_devices.as_deref().unwrap_or_default();
    let mut mount_points = Names::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let item = field.index(index);
        let (name, path) = (item.child("name"), item.child("mountPath"));
        if mount.name.is_empty() {
            errors.required(&name, "");
        }
        if !volumes.contains(mount.name.as_str()) {
            errors.not_found(&name, &mount.name);
        }
        if mount.mount_path.is_empty() {
            errors.required(&path, "");
        }
        if !mount_points.insert(&mount.mount_path) {
            errors.invalid_text(&path, &mount.mount_path, "must be unique");
        }
        if devices.iter().any(|device| device.name == mount.name) {
            errors.invalid_text(&name, &mount.name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| device.device_path == mount.mount_path) {
            errors.invalid_text(&path, &mount.mount_path, "must not already exist as a path in volumeDevices");
        }
        validate_sub_paths(field, &item, mount, errors);
        validate_propagation(field, container, mount, errors);
    }
}

/// Most of these errors are on the list instead of the entry: so the server writes their paths.
fn validate_sub_paths(list: &Path<'_>, item: &Path<'_>, mount: &VolumeMount, errors: &mut Errors) {
    let sub_path = mount.sub_path.as_deref().unwrap_or_default();
    let expression = mount.sub_path_expr.as_deref().unwrap_or_default();
    if !sub_path.is_empty() {
        volumes::validate_descending_path(&list.child("subPath"), sub_path, errors);
    }
    if !expression.is_empty() {
        if !sub_path.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.invalid_text(&item.child("subPathExpr"), expression, detail);
        }
        volumes::validate_descending_path(&list.child("subPathExpr"), expression, errors);
    }
}

fn validate_propagation(list: &Path<'_>, container: &Container, mount: &VolumeMount, errors: &mut Errors) {
    let field = list.child("mountPropagation");
    let propagation = mount.mount_propagation.as_deref();
    if let Some(propagation) = propagation {
        let is_privileged = container.security_context.as_ref().and_then(|context| context.privileged) == Some(true);
        if !PROPAGATIONS.contains(&propagation) {
            errors.not_supported(&field, propagation, &PROPAGATIONS);
        }
        if propagation == "Bidirectional" && !is_privileged {
            errors.forbidden(&field, "Bidirectional mount propagation is available only to privileged containers");
        }
    }
    let field = list.child("recursiveReadOnly");
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount.read_only != Some(true) {
                errors.forbidden(&field, "may only be specified when readOnly is true");
            }
            if propagation.is_some_and(|propagation| propagation != "None") {
                errors.forbidden(&field, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(unknown) => errors.not_supported(&field, unknown, &RECURSIVE_READ_ONLY),
    }
}
