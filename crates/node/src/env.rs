//! The environment, command and arguments of a container.

use std::collections::BTreeMap;

use jobferry_kubeio as kubeio;
use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Pod, Secret};
use kube::Client;

use crate::API_DEADLINE;

/// Why a container cannot be set up. The text goes into its status.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    /// Images are not pulled, so there is no entry point to fall back on.
    #[error("container {0} has no command: images are not pulled here, the command runs on the host; set `command`")]
    NoCommand(String),
    /// A reference leads nowhere.
    #[error("{kind} {name:?} has no key {key:?}")]
    NoKey { kind: &'static str, name: String, key: String },
    /// An object cannot be read.
    #[error("{kind} {name:?} cannot be read: {source}")]
    Unreadable { kind: &'static str, name: String, source: kubeio::CallError },
    /// A field that this node does not know.
    #[error("{0} is not supported by this node")]
    Unsupported(String),
    /// The file system refuses.
    #[error("{path}: {source}")]
    Files { path: String, source: std::io::Error },
}

/// The command of a container with references to its environment put in.
pub(crate) fn command(container: &Container, env: &BTreeMap<String, String>) -> Result<Vec<String>, SetupError> {
    let command = container.command.as_deref().unwrap_or_default();
    if command.is_empty() {
        return Err(SetupError::NoCommand(container.name.clone()));
    }
    Ok(command.iter().chain(container.args.iter().flatten()).map(|text| expand(text, env)).collect())
}

/// The environment of a container, with everything that it refers to.
pub(crate) async fn resolve(
    client: &Client,
    pod: &Pod,
    container: &Container,
    address: &str,
) -> Result<BTreeMap<String, String>, SetupError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let hostname = pod.spec.as_ref().and_then(|spec| spec.hostname.clone()).or_else(|| pod.metadata.name.clone());
    let mut env = BTreeMap::from([("HOSTNAME".to_owned(), hostname.unwrap_or_default())]);
    for source in container.env_from.iter().flatten() {
        let (data, optional) = if let Some(reference) = &source.config_map_ref {
            (config_map(client, namespace, &reference.name).await, reference.optional)
        } else if let Some(reference) = &source.secret_ref {
            (secret(client, namespace, &reference.name).await, reference.optional)
        } else {
            continue;
        };
        let prefix = source.prefix.as_deref().unwrap_or_default();
        for (key, value) in or_nothing(data, optional)? {
            env.insert(format!("{prefix}{key}"), String::from_utf8_lossy(&value).into_owned());
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(text), _) => Some(expand(text, &env)),
            (None, Some(source)) => referred(client, pod, namespace, address, source).await?,
            (None, None) => Some(String::new()),
        };
        if let Some(value) = value {
            env.insert(variable.name.clone(), value);
        }
    }
    Ok(env)
}

async fn referred(
    client: &Client,
    pod: &Pod,
    namespace: &str,
    address: &str,
    source: &EnvVarSource,
) -> Result<Option<String>, SetupError> {
    if let Some(field) = &source.field_ref {
        return self::field(pod, address, &field.field_path).map(Some);
    }
    let (data, key, name, optional, kind) = if let Some(reference) = &source.config_map_key_ref {
        let data = config_map(client, namespace, &reference.name).await;
        (data, &reference.key, &reference.name, reference.optional, "ConfigMap")
    } else if let Some(reference) = &source.secret_key_ref {
        let data = secret(client, namespace, &reference.name).await;
        (data, &reference.key, &reference.name, reference.optional, "Secret")
    } else {
        return Err(SetupError::Unsupported("this source of an environment variable".to_owned()));
    };
    match or_nothing(data, optional)?.remove(key) {
        Some(value) => Ok(Some(String::from_utf8_lossy(&value).into_owned())),
        None if optional == Some(true) => Ok(None),
        None => Err(SetupError::NoKey { kind, name: name.clone(), key: key.clone() }),
    }
}

/// A field of the pod itself.
pub(crate) fn field(pod: &Pod, address: &str, path: &str) -> Result<String, SetupError> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    let entry = |map: &Option<BTreeMap<String, String>>, key: &str| {
        map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default()
    };
    let keyed = |group: &str| path.strip_prefix(group)?.strip_prefix("['")?.strip_suffix("']");
    if let Some(key) = keyed("metadata.labels") {
        return Ok(entry(&meta.labels, key));
    }
    if let Some(key) = keyed("metadata.annotations") {
        return Ok(entry(&meta.annotations, key));
    }
    let value = match path {
        "metadata.name" => meta.name.clone(),
        "metadata.namespace" => meta.namespace.clone(),
        "metadata.uid" => meta.uid.clone(),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()),
        "status.hostIP" | "status.podIP" | "status.hostIPs" | "status.podIPs" => Some(address.to_owned()),
        other => return Err(SetupError::Unsupported(format!("field {other:?}"))),
    };
    Ok(value.unwrap_or_default())
}

/// The data of a ConfigMap or Secret.
pub(crate) type Data = BTreeMap<String, Vec<u8>>;

pub(crate) async fn config_map(client: &Client, namespace: &str, name: &str) -> Result<Data, SetupError> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let object: ConfigMap = kubeio::get(client, &path, API_DEADLINE)
        .await
        .map_err(|source| SetupError::Unreadable { kind: "ConfigMap", name: name.to_owned(), source })?;
    let text = object.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
    Ok(text.chain(object.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0))).collect())
}

pub(crate) async fn secret(client: &Client, namespace: &str, name: &str) -> Result<Data, SetupError> {
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
    let object: Secret = kubeio::get(client, &path, API_DEADLINE).await.map_err(|source| SetupError::Unreadable {
        kind: "Secret",
        name: name.to_owned(),
        source,
    })?;
    Ok(object.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect())
}

/// An optional object that does not exist is an empty one.
pub(crate) fn or_nothing(data: Result<Data, SetupError>, optional: Option<bool>) -> Result<Data, SetupError> {
    match data {
        Err(SetupError::Unreadable { source, .. }) if optional == Some(true) && source.is_not_found() => {
            Ok(Data::new())
        }
        other => other,
    }
}

/// Puts variables in for `$(NAME)`; `$$` stands for a dollar sign; what is not known stays as it is.
fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match env.get(name) {
                Some(value) => out.push_str(value),
                None => out.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_variables_are_put_in() {
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, expected) in
            [("x$(A)y", "x1y"), ("$(B)", "$(B)"), ("$$(A)", "$(A)"), ("$A ${A} $(A", "$A ${A} $(A"), ("5$", "5$")]
        {
            assert_eq!(expand(text, &env), expected);
        }
    }

    #[test]
    fn fields_of_the_pod_are_read() {
        let pod: Pod = serde_json::from_value(serde_json::json!({"metadata": {
            "name": "p", "namespace": "n", "uid": "u", "labels": {"a/b": "c"}, "annotations": {"x": "y"},
        }}))
        .unwrap();
        for (path, expected) in [
            ("metadata.name", Some("p")),
            ("metadata.namespace", Some("n")),
            ("metadata.uid", Some("u")),
            ("metadata.labels['a/b']", Some("c")),
            ("metadata.labels['none']", Some("")),
            ("metadata.annotations['x']", Some("y")),
            ("status.podIP", Some("127.0.0.1")),
            ("spec.nothing", None),
        ] {
            assert_eq!(field(&pod, "127.0.0.1", path).ok().as_deref(), expected, "{path}");
        }
    }
}
