//! Tokens that have expired, signed as the cluster itself signs them. Waiting for one to end would take ten minutes.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jobferry_testkit::{RealCluster, User};
use k8s_openapi::jiff::Timestamp;
use rcgen::SigningKey as _;
use serde_json::json;

use super::{kubectl, succeed};

const ISSUER: &str = "https://kubernetes.default.svc";
const HOUR: i64 = 3600;

/// A kubeconfig of a cluster with a token of its ServiceAccount default/default that ended an hour ago.
pub(crate) fn kubeconfig(cluster: &RealCluster) -> String {
    let good = with_token(cluster, &token(cluster, HOUR));
    let path = cluster.directory().join("good-for-an-hour.kubeconfig");
    std::fs::write(&path, &good).unwrap();
    // Were it not for the time, it would be a good one.
    assert_eq!(succeed(kubectl(&path, &["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])), SUBJECT);
    with_token(cluster, &token(cluster, -HOUR))
}

const SUBJECT: &str = "system:serviceaccount:default:default";

fn with_token(cluster: &RealCluster, token: &str) -> String {
    let admins = cluster.kubeconfig(User::Admin);
    let line = |line: &str| match line.split_once("token: ") {
        Some((before, _)) => format!("{before}token: {token}\n"),
        None => format!("{line}\n"),
    };
    admins.lines().map(line).collect()
}

/// A token that ends so many seconds from now, and began two hours before that.
fn token(cluster: &RealCluster, ends_in_seconds: i64) -> String {
    let account = ["get", "serviceaccount", "default", "-o", "jsonpath={.metadata.uid}"];
    let uid = succeed(kubectl(&cluster.kubeconfig_path(User::Admin), &account));
    #[allow(clippy::disallowed_methods, reason = "a real cluster judges by the real clock")]
    let ends = Timestamp::now().as_second() + ends_in_seconds;
    let part = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({
        "iss": ISSUER, "aud": [ISSUER], "sub": SUBJECT, "iat": ends - 2 * HOUR, "nbf": ends - 2 * HOUR, "exp": ends,
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "default", "uid": uid}},
    });
    let signed = format!("{}.{}", part(json!({"alg": "ES256", "typ": "JWT"})), part(claims));
    let key = std::fs::read_to_string(cluster.directory().join("service-account.key")).unwrap();
    let signature = rcgen::KeyPair::from_pem(&key).unwrap().sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(plain(&signature)))
}

/// X.509 writes a signature as a sequence of two integers; tokens have the two beside each other, 32 bytes each.
fn plain(signature: &[u8]) -> Vec<u8> {
    let mut rest = &signature[2..];
    let mut plain = Vec::new();
    for _ in 0..2 {
        let (integer, after) = rest[2..].split_at(usize::from(rest[1]));
        let significant = &integer[integer.len().saturating_sub(32)..];
        plain.extend(std::iter::repeat_n(0, 32 - significant.len()).chain(significant.iter().copied()));
        rest = after;
    }
    plain
}
