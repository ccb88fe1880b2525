//! Holding the lease: one dispatcher of several works, the others stand by.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jobferry_core::lease::{Bid, LeaseView, Observation, RETRY_PERIOD, leads};
use jobferry_kubeio::{self as kubeio, CallError, Patch};
use kube::Client;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::Clock;

/// The name of the lease, in the dispatcher's own namespace.
const LEASE: &str = "jobferry-dispatcher";
/// A renewal that takes longer is of no use.
const DEADLINE: Duration = Duration::from_secs(5);

/// Which lease to hold, and under which name.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The namespace of the lease.
    pub namespace: String,
    /// Who we are: unique to this process.
    pub identity: String,
}

/// Whether this process leads, for everybody who is about to write.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leadership {
    /// When the last successful renewal was sent (monotonic). `None`: leadership is not asked for.
    renewed: Arc<Mutex<Option<Duration>>>,
}

impl Leadership {
    /// Whether a write may go out now. A process that was frozen finds out here, before it writes.
    pub(crate) fn holds(&self, clock: &Clock) -> bool {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.is_none_or(|renewed| leads(renewed, clock.now()))
    }

    fn renew(&self, sent: Duration) {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent);
    }
}

/// One candidate.
pub(crate) struct Candidate {
    client: Client,
    lease: Lease,
    clock: Clock,
    seen: Observation,
}

impl Candidate {
    pub(crate) fn new(client: Client, lease: Lease, clock: Clock) -> Self {
        let seen = Observation { lease: None, since: clock.now().monotonic };
        Self { client, lease, clock, seen }
    }

    /// Waits until the lease is ours.
    pub(crate) async fn acquire(&mut self) -> Leadership {
        let leadership = Leadership::default();
        loop {
            if let Some(sent) = self.try_once().await {
                tracing::info!(identity = self.lease.identity, "this dispatcher leads");
                leadership.renew(sent);
                return leadership;
            }
            tokio::time::sleep(RETRY_PERIOD).await;
        }
    }

    /// Renews for as long as it works; returns when leadership is lost.
    pub(crate) async fn keep(&mut self, leadership: &Leadership) {
        loop {
            tokio::time::sleep(RETRY_PERIOD).await;
            let renewed = self.try_once().await;
            // A term that has lapsed is over, even if the lease could be renewed later: others may have seen the gap.
            if !leadership.holds(&self.clock) {
                break;
            }
            if let Some(sent) = renewed {
                leadership.renew(sent);
            }
        }
        tracing::warn!(identity = self.lease.identity, "the lease is lost; another dispatcher may lead");
    }

    /// Gives the lease back, so that the next dispatcher need not wait for it to run out.
    pub(crate) async fn release(&mut self) {
        if self.look().await.is_err() {
            return;
        }
        let Some(version) = self.seen.held_by(&self.lease.identity) else { return };
        let body = json!({"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": ""}});
        let body = body.to_string().into_bytes();
        if let Err(error) = kubeio::patch(&self.client, &self.path(), Patch::Merge, body, DEADLINE).await {
            tracing::debug!(%error, "the lease was not given back; it runs out by itself");
        }
    }

    /// Looks, and bids if it may. Success: when the winning request was sent (monotonic).
    async fn try_once(&mut self) -> Option<Duration> {
        let outcome = async {
            self.look().await?;
            let sent = self.clock.now().monotonic;
            let answer = match self.bid() {
                Bid::Wait => return Ok(None),
                Bid::Create(lease) => {
                    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.lease.namespace);
                    kubeio::create(&self.client, &path, lease.to_string().into_bytes(), DEADLINE).await?
                }
                Bid::Take(patch) => {
                    let body = patch.to_string().into_bytes();
                    kubeio::patch(&self.client, &self.path(), Patch::Merge, body, DEADLINE).await?
                }
            };
            let lease = serde_json::from_slice(&answer).map_err(|e| CallError::Unreadable(e.to_string()))?;
            self.seen = self.seen.clone().look(Some(lease), self.clock.now());
            Ok::<_, CallError>(Some(sent))
        };
        match outcome.await {
            Ok(won) => won,
            Err(error) if error.is_conflict() || error.is_already_exists() => None,
            Err(error) => {
                tracing::warn!(%error, "the lease cannot be read or written; trying again");
                None
            }
        }
    }

    async fn look(&mut self) -> Result<(), CallError> {
        let lease = match kubeio::get::<LeaseView>(&self.client, &self.path(), DEADLINE).await {
            Ok(lease) => Some(lease),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        self.seen = self.seen.clone().look(lease, self.clock.now());
        Ok(())
    }

    fn bid(&self) -> Bid {
        self.seen.bid(LEASE, &self.lease.namespace, &self.lease.identity, self.clock.now())
    }

    fn path(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/{LEASE}", self.lease.namespace)
    }
}

/// Leads whenever the lease is ours: `work` runs until leadership is lost or `shutdown`, then we stand by again.
pub(crate) async fn lead<W, F>(mut candidate: Candidate, shutdown: CancellationToken, work: W)
where
    W: Fn(Leadership, CancellationToken) -> F,
    F: Future<Output = ()>,
{
    loop {
        let leadership = tokio::select! { biased;
            () = shutdown.cancelled() => return,
            leadership = candidate.acquire() => leadership,
        };
        let term = shutdown.child_token();
        let lost = async {
            candidate.keep(&leadership).await;
            term.cancel();
        };
        tokio::join!(
            async {
                tokio::select! { biased;
                    () = shutdown.cancelled() => {}
                    () = lost => {}
                }
            },
            work(leadership.clone(), term.clone())
        );
        if shutdown.is_cancelled() {
            candidate.release().await;
            return;
        }
    }
}
