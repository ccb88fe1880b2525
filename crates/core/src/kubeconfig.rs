//! What a worker's kubeconfig may say. The Secret that holds it is hostile input: a kubeconfig can run programs, read
//! files and dial proxies. So this is a list of what is allowed; everything else is refused with the reason.

mod server;

use serde_json::{Map, Value};

/// How to reach a worker: all that a kubeconfig may say to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// `https://host:port`.
    pub server: String,
    /// The CA that signed the server's certificate, base64 of PEM.
    pub certificate_authority_data: String,
    /// The name to expect in the server's certificate, if it is not the host.
    pub tls_server_name: Option<String>,
    /// Who we are.
    pub credential: Credential,
}

/// Who we are to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// A bearer token.
    Token(String),
    /// A client certificate and its key, base64 of PEM.
    Certificate {
        /// The certificate.
        certificate: String,
        /// Its key.
        key: String,
    },
}

/// Why a kubeconfig is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is not a kubeconfig.
    #[error("kubeconfig: `{0}` is missing or has the wrong type")]
    Malformed(String),
    /// It asks for something that we do not do on behalf of a Secret.
    #[error("kubeconfig: `{field}` is not allowed: {why}")]
    NotAllowed {
        /// The field.
        field: String,
        /// Why.
        why: &'static str,
    },
    /// It names a context, cluster or user that it does not hold.
    #[error("kubeconfig: there is no {kind} named `{name}`")]
    NotFound {
        /// `context`, `cluster` or `user`.
        kind: &'static str,
        /// The name.
        name: String,
    },
}

/// Reads a kubeconfig (already parsed from YAML), allowing only what is harmless.
pub fn read(document: &Value) -> Result<Access, Refused> {
    let config = object(document, "kubeconfig")?;
    only(config, "", &["apiVersion", "kind", "clusters", "users", "contexts", "current-context", "preferences"])?;
    is(config, "apiVersion", "v1")?;
    is(config, "kind", "Config")?;
    let context_name = text(config, "current-context", "current-context")?;
    let context = entry(config, "contexts", "context", context_name)?;
    only(context, "context.", &["cluster", "user", "namespace"])?;
    let cluster = entry(config, "clusters", "cluster", text(context, "cluster", "context.cluster")?)?;
    let user = entry(config, "users", "user", text(context, "user", "context.user")?)?;

    only(cluster, "cluster.", &["server", "certificate-authority-data", "tls-server-name"])?;
    let server = text(cluster, "server", "cluster.server")?;
    server::is_plain(server).map_err(|why| Refused::NotAllowed { field: "cluster.server".into(), why })?;
    only(user, "user.", &["token", "client-certificate-data", "client-key-data"])?;
    let credential = if user.contains_key("token") {
        if user.len() > 1 {
            let why = "a token and a client certificate together: give one of them";
            return Err(Refused::NotAllowed { field: "user.token".into(), why });
        }
        let token = text(user, "token", "user.token")?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = "a token goes into a header: neither spaces nor line breaks";
            return Err(Refused::NotAllowed { field: "user.token".into(), why });
        }
        Credential::Token(token.into())
    } else {
        Credential::Certificate {
            certificate: text(user, "client-certificate-data", "user.token` or `user.client-certificate-data")?.into(),
            key: text(user, "client-key-data", "user.client-key-data")?.into(),
        }
    };
    Ok(Access {
        server: server.into(),
        certificate_authority_data: text(cluster, "certificate-authority-data", "cluster.certificate-authority-data")?
            .into(),
        tls_server_name: match cluster.get("tls-server-name") {
            None => None,
            Some(_) => Some(text(cluster, "tls-server-name", "cluster.tls-server-name")?.into()),
        },
        credential,
    })
}

/// The same kubeconfig with another token; `None` where there is none to replace.
pub fn with_token(document: &Value, token: &str) -> Option<Value> {
    let mut document = document.clone();
    let named = |list: &Value, name: &Value| list.as_array()?.iter().position(|entry| entry["name"] == *name);
    let context = named(&document["contexts"], &document["current-context"])?;
    let user = named(&document["users"], &document["contexts"][context]["context"]["user"])?;
    let held = document["users"][user]["user"].get_mut("token")?;
    *held = token.into();
    Some(document)
}

/// Refuses a document that says to be something else.
fn is(config: &Map<String, Value>, key: &str, expected: &str) -> Result<(), Refused> {
    match config.get(key) {
        Some(found) if found != expected => {
            Err(Refused::NotAllowed { field: key.into(), why: "this is not a kubeconfig of version v1" })
        }
        _ => Ok(()),
    }
}

/// Refuses every key that is not allowed, with the reason for the well-known dangerous ones.
fn only(map: &Map<String, Value>, prefix: &str, allowed: &[&str]) -> Result<(), Refused> {
    match map.keys().find(|key| !allowed.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(Refused::NotAllowed { field: format!("{prefix}{key}"), why: why_not(key) }),
    }
}

fn why_not(key: &str) -> &'static str {
    match key {
        "exec" => "it would run a program in the dispatcher; use a token or a client certificate",
        "auth-provider" => "it may run a program in the dispatcher; use a token or a client certificate",
        "tokenFile" | "client-certificate" | "client-key" | "certificate-authority" => {
            "it would read a file of the dispatcher; give the data inline"
        }
        "proxy-url" => "it would send the credentials through a third party",
        "insecure-skip-tls-verify" => "the worker could be anybody; give certificate-authority-data",
        "username" | "password" => "basic authentication is no longer part of Kubernetes",
        "as" | "as-uid" | "as-groups" | "as-user-extra" => "impersonation hides who we are",
        _ => "it is not needed to reach a worker",
    }
}

fn object<'a>(value: &'a Value, name: &str) -> Result<&'a Map<String, Value>, Refused> {
    value.as_object().ok_or_else(|| Refused::Malformed(name.into()))
}

fn text<'a>(map: &'a Map<String, Value>, key: &str, name: &str) -> Result<&'a str, Refused> {
    let found = map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    found.ok_or_else(|| Refused::Malformed(name.into()))
}

/// The body of the entry called `name` in one of kubeconfig's lists of named things.
fn entry<'a>(
    config: &'a Map<String, Value>,
    list: &str,
    kind: &'static str,
    name: &str,
) -> Result<&'a Map<String, Value>, Refused> {
    let entries = config.get(list).and_then(Value::as_array).ok_or_else(|| Refused::Malformed(list.into()))?;
    let named = |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some(name);
    let mut found = entries.iter().filter(named);
    let first = found.next().ok_or_else(|| Refused::NotFound { kind, name: name.into() })?;
    if found.next().is_some() {
        return Err(Refused::NotAllowed { field: list.into(), why: "two entries have the same name" });
    }
    only(object(first, list)?, &format!("{list}."), &["name", kind])?;
    object(first.get(kind).unwrap_or(&Value::Null), kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kubeconfig() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://eu-1:6443", "certificate-authority-data": "Q0E="}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
        })
    }

    #[test]
    fn a_plain_kubeconfig_with_a_token_or_a_certificate_is_read() {
        let mut document = kubeconfig();
        let access = read(&document).unwrap();
        assert_eq!(access.server, "https://eu-1:6443");
        assert_eq!(access.credential, Credential::Token("secret".into()));
        document["users"][0]["user"] = json!({"client-certificate-data": "Q0VSVA==", "client-key-data": "S0VZ"});
        let expected = Credential::Certificate { certificate: "Q0VSVA==".into(), key: "S0VZ".into() };
        assert_eq!(read(&document).unwrap().credential, expected);
    }

    #[test]
    fn another_token_is_all_that_changes() {
        let mut document = kubeconfig();
        let changed = with_token(&document, "successor").unwrap();
        let expected = Access { credential: Credential::Token("successor".into()), ..read(&document).unwrap() };
        assert_eq!(read(&changed), Ok(expected));
        document["users"][0]["user"] = json!({"client-certificate-data": "Q0VSVA==", "client-key-data": "S0VZ"});
        assert_eq!(with_token(&document, "successor"), None, "a certificate is no token");
    }

    #[test]
    fn what_could_hurt_is_refused_by_name() {
        for (pointer, key, value, refused) in [
            ("/users/0/user", "exec", json!({"command": "sh"}), "`user.exec` is not allowed"),
            ("/users/0/user", "auth-provider", json!({"name": "gcp"}), "`user.auth-provider` is not allowed"),
            ("/users/0/user", "tokenFile", json!("/etc/passwd"), "`user.tokenFile` is not allowed"),
            ("/users/0/user", "client-key", json!("/key"), "`user.client-key` is not allowed"),
            ("/users/0/user", "username", json!("admin"), "`user.username` is not allowed"),
            ("/users/0/user", "as", json!("root"), "`user.as` is not allowed"),
            ("/users/0/user", "client-key-data", json!("S0VZ"), "`user.token` is not allowed"),
            ("/clusters/0/cluster", "proxy-url", json!("http://x"), "`cluster.proxy-url` is not allowed"),
            ("/clusters/0/cluster", "insecure-skip-tls-verify", json!(true), "`cluster.insecure-skip-tls-verify`"),
            ("/clusters/0/cluster", "certificate-authority", json!("/ca"), "`cluster.certificate-authority` is not"),
            ("/clusters/0/cluster", "server", json!("http://eu-1"), "only https servers"),
            ("/clusters/0/cluster", "server", json!(7), "`cluster.server` is missing"),
            ("/contexts/0/context", "cluster", json!("other"), "no cluster named `other`"),
            ("", "current-context", json!("d"), "no context named `d`"),
            ("", "extensions", json!([]), "`extensions` is not allowed"),
            ("", "kind", json!("List"), "`kind` is not allowed: this is not a kubeconfig"),
            ("/users/0", "exec", json!({}), "`users.exec` is not allowed"),
            ("/users/0/user", "token", json!("a\r\nX-Remote-User: root"), "neither spaces nor line breaks"),
            ("/clusters/0/cluster", "tls-server-name", json!(7), "`cluster.tls-server-name` is missing or has"),
        ] {
            let mut document = kubeconfig();
            document.pointer_mut(pointer).unwrap()[key] = value;
            let message = read(&document).unwrap_err().to_string();
            assert!(message.contains(refused), "{pointer}/{key}: {message}");
        }
    }
}
