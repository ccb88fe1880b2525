//! Who executes what: one lane for the manager, one for each worker. A lane takes a workload from its queue, asks for the
//! plan, carries out the actions that are its own, and hands the workload to the lanes that the others belong to.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::FutureExt;
use jobferry_core::{
    action::Action,
    workload::{Errand, Workload},
};
use jobferry_kubeio::{Queue, Source, Urgency};
use kube::Client;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    Shared,
    breaker::{Breaker, Outcome},
    execute::{self, Asked, Unfinished},
    index::{Index, Planned, Uid},
    link::{self, Connection},
    spawn_while,
};

/// Requests under way to the manager. The client opens a connection for each; an API server's fair queuing gives one
/// client about as much.
const MANAGER_CONCURRENCY: usize = 32;
/// Requests under way to one worker.
const WORKER_CONCURRENCY: usize = 16;
/// After a failed write: short at first, because a conflict is over as soon as the watch has caught up.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// A cluster that is down is asked about each workload twice a minute at most.
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Where deletions come from; no worker can be called so.
const DELETIONS: &str = "/deletions";

/// The queues.
pub(crate) struct Lanes {
    index: Arc<Index>,
    manager: Queue<Uid>,
    workers: Mutex<HashMap<String, Queue<Uid>>>,
}

/// Whose lane an action belongs to.
enum Owner<'a> {
    Manager,
    Worker(&'a str),
    /// Not before this (monotonic) time.
    Nobody(Duration),
}

/// In which line a workload stands: what ends work before what begins it (the two take turns), and both before the rest.
fn line(errand: Errand) -> (Source, Urgency) {
    match errand {
        Errand::Remove => (Source::named(DELETIONS), Urgency::Urgent),
        Errand::Start => (Source::default(), Urgency::Urgent),
        Errand::Follow => (Source::default(), Urgency::Normal),
    }
}

/// What an action of a worker's lane is about.
const fn errand(action: &Action) -> Errand {
    match action {
        Action::DeleteMirror { .. } | Action::DiscardMirror { .. } => Errand::Remove,
        Action::CreateMirror(_) => Errand::Start,
        _ => Errand::Follow,
    }
}

fn owner(action: &Action) -> Owner<'_> {
    match action {
        Action::RecordPlacement(_)
        | Action::ProveGone { .. }
        | Action::ReadAgain
        | Action::WriteStatus { .. }
        | Action::WriteCustomStatus { .. }
        | Action::Tell(_)
        | Action::DeleteWorkload
        | Action::Alarm(_) => Owner::Manager,
        Action::CreateMirror(placement) | Action::DiscardMirror { placement, .. } => Owner::Worker(&placement.worker),
        Action::ProveAbsent { worker, .. }
        | Action::LookForStray { worker }
        | Action::ForwardEdit { worker, .. }
        | Action::DeleteMirror { worker, .. } => Owner::Worker(worker),
        Action::WakeAt(at) => Owner::Nobody(*at),
    }
}

impl Lanes {
    pub(crate) fn new(index: Arc<Index>) -> Self {
        Self { index, manager: Queue::new(FIRST_RETRY, LAST_RETRY), workers: Mutex::default() }
    }

    /// A workload was created or changed.
    pub(crate) fn take_up(&self, workload: Box<Workload>) {
        let (source, urgency) = line(workload.errand());
        self.plan(source, urgency, self.index.apply_workload(workload));
    }

    /// These workloads want to be planned.
    pub(crate) fn plan_all(&self, uids: impl IntoIterator<Item = Uid>) {
        let (source, urgency) = line(Errand::Follow);
        self.plan(source, urgency, uids);
    }

    /// These workloads are gone, or on their way: that is news which may wait neither behind others' progress nor behind a
    /// burst of new ones.
    pub(crate) fn plan_first(&self, uids: impl IntoIterator<Item = Uid>) {
        let (source, urgency) = line(Errand::Remove);
        self.plan(source, urgency, uids);
    }

    /// This worker has news of these workloads. Workers take turns: what one brings after a long absence, or over and over
    /// again, does not hold up the others'.
    pub(crate) fn plan_of(&self, worker: &str, urgency: Urgency, uids: impl IntoIterator<Item = Uid>) {
        self.plan(Source::named(worker), urgency, uids);
    }

    fn plan(&self, source: Source, urgency: Urgency, uids: impl IntoIterator<Item = Uid>) {
        for uid in uids {
            self.manager.add_from(source, urgency, uid);
        }
        self.offer_free_slots();
    }

    /// What was learned, or planned, may have left room for workloads that wait for it.
    fn offer_free_slots(&self) {
        for uid in self.index.offer_free_slots() {
            self.manager.add_from(Source::default(), Urgency::Urgent, uid);
        }
    }

    /// Something is due on this worker: its lane need not wait until the manager's comes to the workload again. What is
    /// urgent is so there too: a worker that is slow, or was away, has many to create, and none of them may hold up the end
    /// of another.
    pub(crate) fn hand_over(&self, worker: &str, uid: &str, errand: Errand) {
        if let Some(lane) = self.worker(worker) {
            let (source, urgency) = line(errand);
            lane.remind(source, urgency, uid.to_owned());
        }
    }

    /// Workloads that wait for the manager's lane.
    pub(crate) fn manager_depth(&self) -> usize {
        self.manager.len()
    }

    /// Workloads that wait for the lane of this worker.
    pub(crate) fn worker_depth(&self, name: &str) -> usize {
        self.worker(name).map_or(0, |queue| queue.len())
    }

    fn worker(&self, name: &str) -> Option<Queue<Uid>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// Starts the lane of the manager.
pub(crate) fn start_manager_lane(shared: &Arc<Shared>) {
    let queue = shared.lanes.manager.clone();
    let turn = |shared: Arc<Shared>, queue: Queue<Uid>, uid| async move {
        manager_turn(&shared, &queue, &uid).await;
    };
    start_lane(shared, &shared.shutdown, queue, MANAGER_CONCURRENCY, turn);
}

/// Starts the lane of a worker whose identity was checked and whose mirrors are listed; it ends with `connection`.
pub(crate) fn start_worker_lane(shared: &Arc<Shared>, worker: &str, connection: &Connection) {
    let queue = Queue::new(FIRST_RETRY, LAST_RETRY);
    let breaker = Arc::new(Breaker::new(shared.options.seed));
    note_breaker(shared, worker, &breaker);
    let mut lanes = shared.lanes.workers.lock().unwrap_or_else(PoisonError::into_inner);
    lanes.insert(worker.to_owned(), queue.clone());
    drop(lanes);
    let client = connection.client.clone();
    let watch_over = watch_over(Arc::clone(shared), worker.to_owned(), client, Arc::clone(&breaker));
    spawn_while(shared, &connection.ended, watch_over);
    let (worker, connection) = (Arc::<str>::from(worker), connection.clone());
    let ended = connection.ended.clone();
    let turn = move |shared: Arc<Shared>, queue: Queue<Uid>, uid| {
        let (worker, connection, breaker) = (Arc::clone(&worker), connection.clone(), Arc::clone(&breaker));
        async move {
            breaker.pass().await;
            let outcome = worker_turn(&shared, &queue, &worker, &connection, &uid).await;
            if breaker.learn(outcome) {
                note_breaker(&shared, &worker, &breaker);
            }
        }
    };
    start_lane(shared, &ended, queue, WORKER_CONCURRENCY, turn);
}

/// Takes turns, so many at once, until `ended`. Each is a task of its own: most lanes have nothing to do at most times, and a
/// task that waits takes as much memory as one that works. One that panics says so on stderr, and is taken again later: what
/// is wrong with one workload stops no other.
fn start_lane<T>(
    shared: &Arc<Shared>,
    ended: &CancellationToken,
    queue: Queue<Uid>,
    concurrency: usize,
    turn: impl Fn(Arc<Shared>, Queue<Uid>, Uid) -> T + Send + 'static,
) where
    T: Future<Output = ()> + Send + 'static,
{
    let (shared_by_lane, room, ends) = (Arc::clone(shared), Arc::new(Semaphore::new(concurrency)), ended.clone());
    spawn_while(shared, ended, async move {
        // Nobody closes the semaphore.
        while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
            let uid = queue.next().await;
            let turn = turn(Arc::clone(&shared_by_lane), queue.clone(), uid.clone());
            let turn = whatever_happens(turn, queue.clone(), uid);
            spawn_while(&shared_by_lane, &ends, async move {
                turn.await;
                drop(permit);
            });
        }
    });
}

/// A turn whose key is handed back in any case.
async fn whatever_happens(turn: impl Future<Output = ()>, queue: Queue<Uid>, uid: Uid) {
    if AssertUnwindSafe(turn).catch_unwind().await.is_err() {
        queue.retry(uid.clone());
    }
    queue.done(&uid);
}

/// Nothing is placed on a worker that does not answer, so it may be that nothing would ever be asked of it again.
async fn watch_over(shared: Arc<Shared>, worker: String, client: Client, breaker: Arc<Breaker>) {
    loop {
        breaker.neglected().await;
        let outcome = match link::identity_of(&client).await {
            Err(error) if execute::goes_unanswered(&error) => Outcome::Unanswered,
            _ => Outcome::Awake,
        };
        if breaker.learn(outcome) {
            note_breaker(&shared, &worker, &breaker);
        }
    }
}

/// Nothing is placed on a worker that does not answer.
fn note_breaker(shared: &Arc<Shared>, worker: &str, breaker: &Breaker) {
    let touched = shared.index.change_worker(worker, |view| {
        let struggling = breaker.is_open();
        if view.struggling != struggling {
            tracing::warn!(worker, struggling, "whether it answers requests has changed");
        }
        view.struggling = struggling;
    });
    shared.lanes.plan_of(worker, Urgency::Normal, touched);
}

async fn manager_turn(shared: &Arc<Shared>, queue: &Queue<Uid>, uid: &Uid) {
    let now = shared.clock.now();
    let Planned { actions, workload } = shared.index.plan(uid, shared.term, now);
    shared.lanes.offer_free_slots();
    let mut failed = false;
    // A worker's lane makes its own plan, and need not wait for what is written here: whoever sees that an edit shows may rely
    // on its being on its way.
    let (first, then): (Vec<_>, Vec<_>) =
        actions.into_iter().partition(|action| matches!(owner(action), Owner::Worker(_)));
    for action in first.into_iter().chain(then) {
        if !shared.leadership.holds() {
            failed = true;
            break;
        }
        match owner(&action) {
            Owner::Manager => failed |= execute::on_manager(shared, uid, workload.as_deref(), action).await.is_err(),
            Owner::Worker(worker) => shared.lanes.hand_over(worker, uid, errand(&action)),
            Owner::Nobody(at) => queue.add_after(uid.clone(), at.saturating_sub(now.monotonic)),
        }
    }
    if failed {
        queue.retry(uid.clone());
    } else {
        queue.forget(uid);
    }
}

/// Returns what came of the requests to the worker.
async fn worker_turn(
    shared: &Arc<Shared>,
    queue: &Queue<Uid>,
    name: &str,
    connection: &Connection,
    uid: &Uid,
) -> Outcome {
    let Planned { actions, workload } = shared.index.plan(uid, shared.term, shared.clock.now());
    shared.lanes.offer_free_slots();
    let (nothing_to_do, mut failed, mut outcome) = (actions.is_empty(), false, Outcome::Unasked);
    for action in actions {
        if !shared.leadership.holds() {
            failed = true;
            break;
        }
        if matches!(owner(&action), Owner::Worker(worker) if worker == name) {
            let asked = Asked::now(shared, connection, name, uid);
            let done = execute::on_worker(shared, asked, uid, workload.as_deref(), action).await;
            failed |= done.is_err();
            outcome = match done {
                Err(Unfinished::Unasked) => outcome,
                Err(Unfinished::Unanswered) => Outcome::Unanswered,
                Err(Unfinished::Stranger) => {
                    connection.ended.cancel();
                    return Outcome::Unasked;
                }
                Ok(()) | Err(Unfinished::Again) => Outcome::Answered,
            };
        }
    }
    if failed {
        queue.retry(uid.clone());
        return outcome;
    }
    queue.forget(uid);
    // What was learned, or what the plan has become meanwhile, may be the manager's turn now.
    if !nothing_to_do {
        shared.lanes.plan_all([uid.clone()]);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn on_a_workers_lane_deletions_do_not_wait_behind_creates_nor_these_behind_edits() {
        let lanes = Lanes::new(Arc::default());
        lanes.workers.lock().unwrap().insert("eu-1".into(), Queue::new(FIRST_RETRY, LAST_RETRY));
        for (uid, errand) in [
            ("edited", Errand::Follow),
            ("new-1", Errand::Start),
            ("new-2", Errand::Start),
            ("new-3", Errand::Start),
            ("deleted", Errand::Remove),
        ] {
            lanes.hand_over("eu-1", uid, errand);
        }
        let lane = lanes.worker("eu-1").unwrap();
        let mut order = Vec::new();
        for _ in 0..5 {
            order.push(lane.next().await);
        }
        assert_eq!(order, ["new-1", "deleted", "new-2", "new-3", "edited"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_workload_whose_turn_panics_is_taken_again_and_holds_up_no_other() {
        let lane: Queue<Uid> = Queue::new(FIRST_RETRY, LAST_RETRY);
        for uid in ["odd", "plain"] {
            lane.add(uid.into());
        }
        let odd = lane.next().await;
        whatever_happens(async { panic!("a worker sent what nobody thought of") }, lane.clone(), odd).await;
        assert_eq!(lane.next().await, "plain");
        assert_eq!(lane.next().await, "odd");
    }
}
