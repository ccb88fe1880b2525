//! A worker as the dispatcher meets it: by the kubeconfig in its Secret. Its clock, and the rights that we have there.

use jobferry_api::{KUBECONFIG_KEY, SYSTEM_NAMESPACE, Worker, conditions::CONNECTED};
use jobferry_core::token;
use jobferry_kubeio as kubeio;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use serde_json::Value;

use super::{Finding, clock};
use crate::{
    install::DEADLINE,
    worker::{Need, missing, needed},
};

/// What is seen there. Nothing is said of a worker that the dispatcher itself does not reach: that is told already.
pub(super) async fn examine(manager: &Client, worker: &Worker) -> Vec<Finding> {
    let conditions = worker.status.iter().flat_map(|status| &status.conditions);
    if !conditions.into_iter().any(|condition| condition.type_ == CONNECTED && condition.status == "True") {
        return Vec::new();
    }
    let name = worker.metadata.name.as_deref().unwrap_or_default();
    let inside = format!("inside {name}");
    let kubeconfig = match kubeconfig(manager, &worker.spec.kubeconfig_secret).await {
        Ok(kubeconfig) => kubeconfig,
        Err(why) => return vec![Finding::unknown(inside, why, "run this as somebody who may read that Secret")],
    };
    let reached = jobferry_dispatcher::reach(&kubeconfig).await.map_err(|error| error.to_string());
    let there = match reached {
        Ok(there) => there,
        Err(why) => return vec![Finding::unknown(inside, why, format!("jobferry worker describe {name}"))],
    };
    let mut needs = needed(worker.spec.namespaces.as_deref().unwrap_or_default());
    needs.extend(own_token(&kubeconfig));
    let missing = match missing(&there, &needs).await {
        Ok(missing) => missing,
        Err(error) => {
            let mend = "run this where the worker can be reached, as the dispatcher does";
            return vec![Finding::unknown(inside, error.to_string(), mend)];
        }
    };
    let clock = clock::examine(&there, &format!("clock {name}"), name).await;
    clock.into_iter().chain([rights(name, &missing)]).collect()
}

async fn kubeconfig(manager: &Client, secret: &str) -> Result<Vec<u8>, String> {
    let path = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets/{secret}");
    let secret = kubeio::get::<Secret>(manager, &path, DEADLINE).await.map_err(|error| error.to_string())?;
    let kubeconfig = secret.data.unwrap_or_default().remove(KUBECONFIG_KEY);
    kubeconfig.map(|bytes| bytes.0).ok_or_else(|| "its Secret has no kubeconfig".to_owned())
}

/// Who goes by a token that ends must be able to get the next one.
fn own_token(kubeconfig: &[u8]) -> Option<Need> {
    let document: Value = serde_saphyr::from_str(std::str::from_utf8(kubeconfig).ok()?).ok()?;
    let account = token::read(document["users"][0]["user"]["token"].as_str()?)?.account?;
    Some(Need::new("create", "", "serviceaccounts/token", &account.namespace).named(&account.name))
}

fn rights(name: &str, missing: &[String]) -> Finding {
    let what = format!("rights on {name}");
    if missing.is_empty() {
        return Finding::good(what, "the dispatcher may do all it needs to");
    }
    let says = format!("the dispatcher may not {}", missing.join(", "));
    Finding::bad(what, says, format!("jobferry worker join {name} --renew --worker-kubeconfig FILE"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
    use serde_json::json;

    fn kubeconfig_with(token: &str) -> Vec<u8> {
        json!({"users": [{"name": "worker", "user": {"token": token}}]}).to_string().into_bytes()
    }

    #[test]
    fn only_a_token_of_an_account_wants_a_successor() {
        let claims = json!({"exp": 1_800_000_000, "kubernetes.io": {
            "namespace": "jobferry-system", "serviceaccount": {"name": "jobferry-1", "uid": "u"}}});
        let token = format!("e30.{}.sig", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()));
        let expected = Need::new("create", "", "serviceaccounts/token", "jobferry-system").named("jobferry-1");
        assert_eq!(own_token(&kubeconfig_with(&token)), Some(expected));
        assert_eq!(own_token(&kubeconfig_with("static")), None);
    }

    #[test]
    fn rights_that_are_missing_are_named() {
        let finding = rights("eu-1", &["list pods".to_owned()]);
        assert_eq!(finding.says, "the dispatcher may not list pods");
        assert!(finding.mend.unwrap().starts_with("jobferry worker join eu-1 --renew"));
    }
}
