//! What the management cluster needs before anything works: our CRDs and our namespace.

use std::time::Duration;

use anyhow::Context as _;
use jobferry_kubeio::{self as kubeio, Patch};
use kube::Client;
use serde_json::{Value, json};

/// Each request must be answered within this time.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Creates or updates the CRDs and the namespace, and waits until the API server serves the CRDs.
pub(crate) async fn install(manager: &Client) -> anyhow::Result<()> {
    for definition in jobferry_api::custom_resource_definitions() {
        let definition = serde_json::to_value(definition)?;
        apply(manager, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    }
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": jobferry_api::SYSTEM_NAMESPACE},
    });
    apply(manager, "/api/v1/namespaces", &namespace).await?;
    wait_until_served(manager).await
}

/// Creates the object, or merges it into the one of that name.
pub(crate) async fn apply(client: &Client, collection: &str, object: &Value) -> anyhow::Result<()> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let body = object.to_string().into_bytes();
    let created = match kubeio::create(client, collection, body.clone(), DEADLINE).await {
        Err(error) if error.is_already_exists() => {
            kubeio::patch(client, &format!("{collection}/{name}"), Patch::Merge, body, DEADLINE).await
        }
        outcome => outcome,
    };
    created.with_context(|| format!("cannot write {kind} {name}")).map(drop)
}

async fn wait_until_served(manager: &Client) -> anyhow::Result<()> {
    let mut tries = 0;
    loop {
        match kubeio::get::<Value>(manager, "/apis/jobferry.dev/v1alpha1/workers", DEADLINE).await {
            Ok(_) => return Ok(()),
            Err(error) if tries == 50 => return Err(error).context("the API server does not serve Workers"),
            Err(_) => tries += 1,
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
