//! Keeps workers' tokens fresh, without dropping a watch.
//!
//! ```text
//!   half of its life is over ──> TokenRequest on the worker, by the old token ──> Secret ──> take_up ──> next request
//!                                                         an admin who rotates it ──┘
//! ```

use std::{sync::Arc, time::Duration};

use jobferry_api::{Worker, events::CREDENTIAL_EXPIRES};
use jobferry_core::{
    time::WRITE_DEADLINE,
    token::{self, Account, Claims},
};
use jobferry_kubeio::{
    self as kubeio, Backoff, CallError,
    events::{About, Happening, Severity},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde::Deserialize;
use serde_json::json;

use crate::{ConnectError, Shared, link, report};

/// How often the clock is looked at: one that is set, or a machine that slept, must not make us miss half of a life.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Between two failed attempts: a worker that is away for a moment, and one that has taken the right away.
const FIRST_RETRY: Duration = Duration::from_secs(15);
const LAST_RETRY: Duration = Duration::from_secs(600);
/// API servers issue nothing shorter.
const SHORTEST_LIFE: SignedDuration = SignedDuration::from_secs(600);

/// Why a token has no successor.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("it is no token of a ServiceAccount that can be asked for")]
    NotRenewable,
    #[error("the worker does not issue one: {0}")]
    Asked(#[from] CallError),
    #[error("the worker issued one that ends no later")]
    NoGain,
    #[error("another dispatcher leads")]
    NotLeading,
    #[error("it could not be stored: {0}")]
    Stored(#[from] ConnectError),
}

/// When the credential that a worker was connected by expires, if that is known.
pub(crate) fn expiry(shared: &Shared, worker: &Worker) -> Option<Timestamp> {
    shared.options.connect.token(worker)?.claims().map(|claims| claims.expires)
}

/// Renews the token of a connected worker for as long as it is polled, and tells when it expires.
pub(crate) async fn keep_fresh(shared: Arc<Shared>, worker: Worker, client: Client) {
    let name = worker.metadata.name.as_deref().unwrap_or_default();
    shared.metrics().credential_expires(name, expiry(&shared, &worker));
    let Some(token) = shared.options.connect.token(&worker) else { return };
    let (mut changes, mut rest_until) = (token.changes(), Duration::ZERO);
    loop {
        match token.claims() {
            None => changes.next().await,
            Some(claims) => tokio::select! { biased;
                () = renew_in_time(&shared, &worker, &client, &claims, rest_until) => {}
                () = changes.next() => {}
            },
        }
        let claims = token.claims();
        rest_until = shared.clock.now().monotonic + claims.as_ref().map_or(LAST_RETRY, Claims::rest);
        let expires = claims.map(|claims| claims.expires);
        shared.metrics().credential_expires(name, expires);
        report::credential(&shared, &worker, expires).await;
    }
}

/// Waits until it is time, and tries until it is done.
async fn renew_in_time(shared: &Arc<Shared>, worker: &Worker, client: &Client, claims: &Claims, rest_until: Duration) {
    let mut backoff = Backoff::new(FIRST_RETRY, LAST_RETRY, shared.options.seed);
    loop {
        let wait = claims.renew_in(shared.clock.now(), rest_until);
        if !wait.is_zero() {
            tokio::time::sleep(wait.min(LOOK_AGAIN)).await;
            continue;
        }
        match renew(shared, worker, client, claims).await {
            Ok(()) => return,
            Err(failure) => complain(shared, worker, claims, &failure),
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

async fn renew(shared: &Arc<Shared>, worker: &Worker, client: &Client, claims: &Claims) -> Result<(), Failure> {
    let account = claims.account.as_ref().ok_or(Failure::NotRenewable)?;
    let successor = request_token(client, account, claims.life()).await?;
    if token::read(&successor).is_none_or(|next| next.expires <= claims.expires) {
        return Err(Failure::NoGain);
    }
    if !shared.leadership.holds() {
        return Err(Failure::NotLeading);
    }
    shared.options.connect.store(worker, &successor).await?;
    // The change of the Secret will be noticed anyway; until then nobody has to wait.
    take_up(shared, worker).await;
    Ok(())
}

/// Asks a cluster for a token of a ServiceAccount, bound to its Secret, if it names one.
pub async fn request_token(client: &Client, account: &Account, life: SignedDuration) -> Result<String, CallError> {
    #[derive(Deserialize)]
    struct Answer {
        status: Issued,
    }
    #[derive(Deserialize)]
    struct Issued {
        token: String,
    }
    let Account { namespace, name, secret } = account;
    let bound = secret.as_ref().map(|secret| json!({"apiVersion": "v1", "kind": "Secret", "name": secret}));
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [], "expirationSeconds": life.max(SHORTEST_LIFE).as_secs(), "boundObjectRef": bound},
    });
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let answer = kubeio::create(client, &path, request.to_string().into_bytes(), WRITE_DEADLINE).await?;
    let answer: Answer = serde_json::from_slice(&answer).map_err(|error| CallError::Unreadable(error.to_string()))?;
    Ok(answer.status.token)
}

/// The Secret of a worker changed. If only the token in it did, and the same cluster takes it, the connection goes on by
/// it. False: the worker is to be connected anew.
pub(crate) async fn take_up(shared: &Arc<Shared>, worker: &Worker) -> bool {
    let name = worker.metadata.name.as_deref().unwrap_or_default();
    let Some(view) = shared.index.worker(name) else { return false };
    let Some(identity) = view.live_identity() else { return false };
    let Some(successor) = shared.options.connect.successor(worker).await else { return false };
    let tried = link::identity_of(&successor.client).await;
    let is_as_good = tried.is_ok_and(|found| found == identity);
    if is_as_good && successor.take_over() {
        tracing::info!(worker = name, "its token was replaced; the connection goes on");
    }
    is_as_good
}

fn complain(shared: &Shared, worker: &Worker, claims: &Claims, failure: &Failure) {
    let name = worker.metadata.name.as_deref().unwrap_or_default();
    tracing::warn!(worker = name, expires = %claims.expires, %failure, "its token is not renewed; trying again");
    if !claims.is_scarce(shared.clock.now().wall) {
        return;
    }
    let about = About {
        api_version: "jobferry.dev/v1alpha1".into(),
        kind: "Worker".into(),
        namespace: String::new(),
        name: name.into(),
        uid: worker.metadata.uid.clone().unwrap_or_default(),
    };
    let message = format!(
        "its credential expires at {} and has no successor: {failure}; make one with `jobferry worker join {name} --renew \
         --worker-kubeconfig FILE`",
        claims.expires
    );
    shared.recorder.tell(about, Happening { severity: Severity::Warning, reason: CREDENTIAL_EXPIRES.into(), message });
}
