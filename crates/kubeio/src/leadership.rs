//! Holding a lease: of several processes that could do the same work one does it, the others stand by.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    call::{self, CallError, Patch},
    lease::{Bid, LeaseView, Now, Observation, RETRY_PERIOD, leads},
};

/// A renewal that takes longer is of no use.
const DEADLINE: Duration = Duration::from_secs(5);

/// Which lease to hold, and as whom.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The namespace of the lease.
    pub namespace: String,
    /// Its name: the same for all who could do this work.
    pub name: String,
    /// Who we are: unique to this process.
    pub identity: String,
}

/// Whether this process leads, for everybody who is about to write. The default leads always: no lease was asked for.
#[derive(Clone, Default)]
pub struct Leadership {
    /// When the last successful renewal was sent, and what then the time of day was.
    renewed: Arc<Mutex<Option<(Instant, Timestamp)>>>,
    /// The monotonic clock stands still while a machine is suspended; this one does not.
    wall_clock: Option<Arc<dyn Fn() -> Timestamp + Send + Sync>>,
}

impl Leadership {
    fn by(wall_clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self { renewed: Arc::default(), wall_clock: Some(wall_clock) }
    }

    /// Whether a write may go out now. A process that was frozen, or whose machine slept, finds out here, before it writes.
    pub fn holds(&self) -> bool {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.is_none_or(|(sent, at)| {
            let by_wall = self.wall_clock.as_ref().map(|clock| clock().duration_since(at));
            let by_wall = by_wall.and_then(|passed| Duration::try_from(passed).ok()).unwrap_or_default();
            leads(Duration::ZERO, sent.elapsed().max(by_wall))
        })
    }

    /// A renewal that was sent then was successful.
    fn renew(&self, sent: Instant) {
        let Some(clock) = &self.wall_clock else { return };
        let ago = SignedDuration::try_from(sent.elapsed()).unwrap_or_default();
        let at = clock().checked_sub(ago).unwrap_or(Timestamp::MIN);
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = Some((sent, at));
    }
}

/// One that could lead.
pub struct Candidate {
    client: Client,
    lease: Lease,
    wall_clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    started: Instant,
    seen: Observation,
}

impl Candidate {
    /// A candidate for `lease`. The wall clock is only for people who read the lease.
    pub fn new(client: Client, lease: Lease, wall_clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        let seen = Observation { lease: None, since: Duration::ZERO };
        Self { client, lease, wall_clock, started: Instant::now(), seen }
    }

    /// Leads whenever the lease is ours: `work` runs until leadership is lost or `shutdown`, then we stand by again.
    /// `work` ends soon after the token that it is given is cancelled, and writes only while its leadership holds.
    pub async fn lead<W, F>(mut self, shutdown: CancellationToken, work: W)
    where
        W: Fn(Leadership, CancellationToken) -> F,
        F: Future<Output = ()>,
    {
        loop {
            let leadership = tokio::select! { biased;
                () = shutdown.cancelled() => return,
                leadership = self.acquire() => leadership,
            };
            let term = shutdown.child_token();
            let lost = async {
                self.keep(&leadership).await;
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
                self.release().await;
                return;
            }
        }
    }

    /// Waits until the lease is ours.
    async fn acquire(&mut self) -> Leadership {
        let leadership = Leadership::by(Arc::clone(&self.wall_clock));
        loop {
            if let Some(sent) = self.try_once().await {
                tracing::info!(lease = self.lease.name, identity = self.lease.identity, "the lease is ours");
                leadership.renew(sent);
                return leadership;
            }
            tokio::time::sleep(RETRY_PERIOD).await;
        }
    }

    /// Renews for as long as it works; returns when leadership is lost.
    async fn keep(&mut self, leadership: &Leadership) {
        loop {
            tokio::time::sleep(RETRY_PERIOD).await;
            let renewed = self.try_once().await;
            // A term that has lapsed is over, even if the lease could be renewed later: others may have seen the gap.
            if !leadership.holds() {
                break;
            }
            if let Some(sent) = renewed {
                leadership.renew(sent);
            }
        }
        tracing::warn!(lease = self.lease.name, identity = self.lease.identity, "the lease is lost; another may lead");
    }

    /// Gives the lease back, so that the next one need not wait for it to run out.
    async fn release(&mut self) {
        if self.look().await.is_err() {
            return;
        }
        let Some(version) = self.seen.held_by(&self.lease.identity) else { return };
        let body = json!({"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": ""}});
        let body = body.to_string().into_bytes();
        if let Err(error) = call::patch(&self.client, &self.path(), Patch::Merge, body, DEADLINE).await {
            tracing::debug!(%error, "the lease was not given back; it runs out by itself");
        }
    }

    /// Looks, and bids if it may. Success: when the winning request was sent.
    async fn try_once(&mut self) -> Option<Instant> {
        let outcome = async {
            self.look().await?;
            let sent = Instant::now();
            let answer = match self.bid() {
                Bid::Wait => return Ok(None),
                Bid::Create(lease) => {
                    call::create(&self.client, &self.collection(), lease.to_string().into_bytes(), DEADLINE).await?
                }
                Bid::Take(patch) => {
                    let body = patch.to_string().into_bytes();
                    call::patch(&self.client, &self.path(), Patch::Merge, body, DEADLINE).await?
                }
            };
            let now = self.now();
            self.seen = self.seen.clone().look(Some(call::decode(&answer)?), now);
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
        let lease = match call::get::<LeaseView>(&self.client, &self.path(), DEADLINE).await {
            Ok(lease) => Some(lease),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        let now = self.now();
        self.seen = self.seen.clone().look(lease, now);
        Ok(())
    }

    fn bid(&self) -> Bid {
        self.seen.bid(&self.lease.name, &self.lease.namespace, &self.lease.identity, self.now())
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.lease.name)
    }

    fn collection(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.lease.namespace)
    }

    fn now(&self) -> Now {
        Now { wall: (self.wall_clock)(), monotonic: self.started.elapsed() }
    }
}
