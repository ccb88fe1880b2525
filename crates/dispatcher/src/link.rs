//! The connection to one worker: identity first, then its mirrors, for as long as the `Worker` exists.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use jobferry_api::{Worker, labels};
use jobferry_core::{
    custom::KindRef,
    loss::{Contact, Loss},
    placement::Link,
    workload::Mirror,
};
use jobferry_kubeio::{self as kubeio, Backoff, CallError, Collection, Event, Horizon, Urgency};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::{
    ConnectError, READ_DEADLINE, ServerVersion, Shared, credentials, events,
    index::Kept,
    kinds, lanes, report, restored,
    scope::{self, Scope},
    spawn_while,
};

/// The first and the longest pause before a connection is tried again.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];
/// A connection that held for so long was a good one.
const LASTING: Duration = Duration::from_secs(30);

/// The identity of a cluster: the UID of its kube-system namespace, which lives exactly as long as the cluster does.
pub(crate) async fn identity_of(client: &Client) -> Result<String, CallError> {
    #[derive(Deserialize)]
    struct Namespace {
        metadata: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        uid: String,
    }
    let namespace: Namespace = kubeio::get(client, "/api/v1/namespaces/kube-system", READ_DEADLINE).await?;
    Ok(namespace.metadata.uid)
}

/// One connection to a worker.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// How far the worker has come, as its answers show.
    pub(crate) horizon: Horizon,
    pub(crate) ended: CancellationToken,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    /// It does not answer; it may be back any moment.
    #[error("{0}")]
    Away(String),
    /// It must not be used until somebody changes something.
    #[error("{0}")]
    Unfit(String),
    /// It was not even asked: the manager does not say how to reach it. That says nothing about the worker.
    #[error("{0}")]
    Unasked(String),
}

impl Ended {
    const fn contact(&self) -> Contact {
        match self {
            Self::Away(_) => Contact::Unanswered,
            Self::Unfit(_) => Contact::Unfit,
            Self::Unasked(_) => Contact::Unasked,
        }
    }
}

/// Since when a worker is lost, as all connections to it know, one after the other: the `Worker` that one starts with may
/// be older than what the one before found out.
#[derive(Debug, Clone)]
pub(crate) struct KnownLoss(Arc<Mutex<Loss>>);

impl KnownLoss {
    pub(crate) fn recorded_on(worker: &Worker) -> Self {
        let since = worker.status.as_ref().and_then(|status| status.lost_since.as_ref()).map(|time| time.0);
        Self(Arc::new(Mutex::new(Loss::recorded(since))))
    }

    fn learn(&self, contact: Contact, now: Timestamp) -> Loss {
        let mut loss = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *loss = loss.after(contact, now);
        *loss
    }
}

/// Connects, and connects again whenever it ends, until `stop`.
pub(crate) async fn keep_connected(shared: Arc<Shared>, worker: Worker, loss: KnownLoss, stop: CancellationToken) {
    let name = worker.metadata.name.clone().unwrap_or_default();
    let mut backoff = Backoff::new(PAUSES[0], PAUSES[1], shared.options.seed);
    let mut told_before = None;
    loop {
        let connection = stop.child_token();
        let begun = shared.clock.now().monotonic;
        let ended = tokio::select! { biased;
            () = stop.cancelled() => return,
            () = connection.cancelled() => Ended::Away("another cluster answers in its place".into()),
            ended = connect_and_follow(&shared, &worker, &name, &loss, &connection) => ended,
        };
        connection.cancel();
        // The next connection lists them anew.
        shared.index.change_worker(&name, |worker| worker.kinds.clear());
        // One that ends as soon as it is made (it may be listed, but not watched) is not tried again and again.
        if shared.clock.now().since(begun) > LASTING {
            backoff.reset();
        }
        let words = ended.to_string();
        tracing::warn!(worker = name, reason = words, "not connected");
        let link = shared.index.worker(&name).map(|worker| worker.link);
        // Whoever has answered since is lost anew, if it is: that is told again.
        let answered = match link {
            Some(Link::Live { .. }) => true,
            Some(Link::Connecting) => !matches!(ended, Ended::Unasked(_)),
            _ => false,
        };
        let told = told_before.as_ref() == Some(&words) && !answered;
        told_before = Some(words);
        loss.learn(ended.contact(), shared.clock.now().wall);
        let tell = async {
            match ended {
                Ended::Unfit(why) => {
                    set_link(&shared, &name, Link::Unfit { why: why.clone() });
                    if !told {
                        report::refused(&shared, &worker, &why).await;
                    }
                }
                Ended::Away(why) => {
                    let since = lose(&shared, &name, &loss);
                    if !told {
                        report::disconnected(&shared, &worker, &why, Some(since)).await;
                    }
                }
                Ended::Unasked(why) => {
                    if !matches!(link, Some(Link::Away { .. })) {
                        set_link(&shared, &name, Link::Connecting);
                    }
                    if !told {
                        report::unasked(&shared, &worker, &why).await;
                    }
                }
            }
            tokio::time::sleep(backoff.next_delay()).await;
        };
        tokio::select! { biased;
            () = stop.cancelled() => return,
            () = tell => {}
        }
    }
}

async fn connect_and_follow(
    shared: &Arc<Shared>,
    worker: &Worker,
    name: &str,
    loss: &KnownLoss,
    ended: &CancellationToken,
) -> Ended {
    let client = match shared.options.connect.connect(worker).await {
        Ok(client) => client,
        // The manager is in trouble, not the worker.
        Err(ConnectError::Secret { source, .. }) if !source.is_not_found() => {
            return Ended::Unasked(format!("its Secret cannot be read: {source}"));
        }
        Err(error) => return Ended::Unfit(error.to_string()),
    };
    let identity = match check_identity(shared, name, &client).await {
        Ok(identity) => identity,
        Err(ended) => return ended,
    };
    let version: ServerVersion = match kubeio::get(&client, "/version", READ_DEADLINE).await {
        Ok(version) => version,
        Err(error) => return ended_by(&error),
    };
    let (minor, version) = (version.minor(), version.git_version);
    shared.lanes.plan_all(shared.index.change_worker(name, |worker| worker.minor = minor));
    let scopes = Scope::all_of(worker);
    let connection = Connection { client, horizon: Horizon::default(), ended: ended.clone() };
    let client = &connection.client;
    let mut events = scope::watch(client, &scopes, ("/apis/batch/v1", "jobs"), |path| {
        Collection::new(path, |mirror: &Kept<Mirror>| &mirror.resource_version)
            .labels(format!("{}={}", labels::ORIGIN, shared.origin))
            .streamed(shared.options.streamed_lists)
            .horizon(&connection.horizon)
            .seed(shared.options.seed)
    });
    // What is not listed yet, or out of sight at the moment.
    let all_scopes = scopes.len();
    let mut unseen: BTreeSet<Scope> = scopes.into_iter().collect();
    let mut session =
        Session { shared, worker, name, loss, identity, version, live: false, lane: false, complaint: None };
    while let Some((scope, event)) = events.next().await {
        // A list, and whatever comes after a break, may come from another cluster behind the same address.
        if matches!(event, Event::Reset(_) | Event::Resumed) {
            match check_identity(shared, name, client).await {
                Ok(found) if found == session.identity => {}
                Ok(found) => {
                    let known = &session.identity;
                    return Ended::Unfit(format!("another cluster answers: {found} instead of {known}"));
                }
                Err(ended) => return ended,
            }
        }
        match event {
            Event::Reset(mirrors) => {
                session.answered();
                restored::check(shared, &mirrors).await;
                let touched = shared.index.reset_mirrors(name, &KindRef::Job, scope.namespace(), mirrors);
                unseen.remove(&scope);
                if unseen.is_empty() {
                    session.connected(&connection).await;
                }
                shared.lanes.plan_of(name, Urgency::Normal, touched);
            }
            Event::Resumed => {
                session.answered();
                unseen.remove(&scope);
                if unseen.is_empty() {
                    session.connected(&connection).await;
                }
            }
            Event::Applied(mirror) => {
                shared.metrics().mirror_changed(&mirror.origin_uid);
                let urgency = if mirror.is_finished() { Urgency::Urgent } else { Urgency::Normal };
                shared.lanes.plan_of(name, urgency, shared.index.apply_mirror(name, mirror));
            }
            Event::Deleted(mirror) => {
                shared.lanes.plan_of(name, Urgency::Urgent, shared.index.delete_mirror(name, mirror));
            }
            Event::Interrupted(error) => match ended_by(&error) {
                ended @ (Ended::Unfit(_) | Ended::Unasked(_)) => return ended,
                Ended::Away(_) => {
                    unseen.insert(scope);
                    session.interrupted(&error, unseen.len() == all_scopes).await;
                }
            },
        }
    }
    Ended::Away("the watch ended".into())
}

/// One connection, as far as people and plans are told of it.
struct Session<'a> {
    shared: &'a Arc<Shared>,
    worker: &'a Worker,
    name: &'a str,
    loss: &'a KnownLoss,
    identity: String,
    version: String,
    live: bool,
    /// Its lane was started.
    lane: bool,
    /// What people were told of the last interruption, and whether it was that of the last watch.
    complaint: Option<(String, bool)>,
}

impl Session<'_> {
    /// It has shown its mirrors: it is not lost, even if the manager must be asked before anything is concluded from them.
    fn answered(&mut self) {
        self.complaint = None;
        self.loss.learn(Contact::Connected, self.shared.clock.now().wall);
        if matches!(self.shared.index.worker(self.name).map(|worker| worker.link), Some(Link::Away { .. })) {
            set_link(self.shared, self.name, Link::Connecting);
        }
    }

    async fn connected(&mut self, connection: &Connection) {
        self.complaint = None;
        // Not before its identity is checked and its mirrors are listed: what is asked there counts as proof.
        if !std::mem::replace(&mut self.lane, true) {
            let (client, ended) = (&connection.client, &connection.ended);
            lanes::start_worker_lane(self.shared, self.name, connection);
            let warnings = events::repeat_warnings(Arc::clone(self.shared), self.worker.clone(), client.clone());
            spawn_while(self.shared, ended, warnings);
            let renewal = credentials::keep_fresh(Arc::clone(self.shared), self.worker.clone(), client.clone());
            spawn_while(self.shared, ended, renewal);
            let (worker, identity) = (self.worker.clone(), self.identity.clone());
            let mirrors = kinds::follow_mirrors(Arc::clone(self.shared), worker, identity, connection.clone());
            spawn_while(self.shared, ended, mirrors);
        }
        if !std::mem::replace(&mut self.live, true) {
            tracing::info!(worker = self.name, identity = self.identity, version = self.version, "connected");
            self.shared.metrics().connected(self.name);
            self.loss.learn(Contact::Connected, self.shared.clock.now().wall);
            set_link(self.shared, self.name, Link::Live { identity: self.identity.clone() });
            let expires = credentials::expiry(self.shared, self.worker);
            report::connected(self.shared, self.worker, &self.identity, &self.version, expires).await;
        }
    }

    /// A watch broke off. One that goes on in another namespace shows that the worker is not lost; it is not used either.
    async fn interrupted(&mut self, error: &CallError, was_last: bool) {
        let was_live = std::mem::take(&mut self.live);
        let mut lost_since = None;
        if was_last {
            lost_since = Some(lose(self.shared, self.name, self.loss));
        } else if was_live {
            set_link(self.shared, self.name, Link::Connecting);
        }
        let complaint = (error.to_string(), was_last);
        if was_live || self.complaint.as_ref() != Some(&complaint) {
            tracing::warn!(worker = self.name, %error, "connection lost; running work goes on");
            report::disconnected(self.shared, self.worker, &complaint.0, lost_since).await;
            self.complaint = Some(complaint);
        }
    }
}

fn set_link(shared: &Arc<Shared>, name: &str, link: Link) {
    shared.lanes.plan_of(name, Urgency::Normal, shared.index.change_worker(name, |worker| worker.link = link));
}

/// The worker does not answer. Returns since when it is lost.
fn lose(shared: &Arc<Shared>, name: &str, loss: &KnownLoss) -> Timestamp {
    let now = shared.clock.now();
    let since = loss.learn(Contact::Unanswered, now.wall).since().unwrap_or(now.wall);
    // One that is away already was noticed then, not now.
    if !matches!(shared.index.worker(name).map(|worker| worker.link), Some(Link::Away { .. })) {
        set_link(shared, name, Link::Away { since, noticed: now.monotonic });
    }
    since
}

/// A worker that refuses our credentials, or does not let us watch, is there: it is not lost, but of no use.
fn ended_by(error: &CallError) -> Ended {
    match error.refusal().map(|refusal| refusal.code) {
        Some(401) => {
            Ended::Unfit(format!("the credentials are refused: {error}; `jobferry worker join --renew` makes new ones"))
        }
        Some(403) => Ended::Unfit(format!("a permission is missing: {error}")),
        _ => Ended::Away(error.to_string()),
    }
}

/// The worker's identity, if it is fit to be one: not the manager, and no other worker's.
async fn check_identity(shared: &Arc<Shared>, name: &str, client: &Client) -> Result<String, Ended> {
    let identity = identity_of(client).await.map_err(|error| ended_by(&error))?;
    if identity == shared.identity {
        return Err(Ended::Unfit("this is the management cluster itself; it cannot be its own worker".into()));
    }
    let already = |other| Ended::Unfit(format!("this cluster is registered already, as Worker {other}"));
    shared.index.claim_identity(name, &identity).map_err(already)?;
    Ok(identity)
}
