//! What a dispatcher makes of what it sees and hears. These are the rules of the dispatcher's index and of its handling of
//! answers; what is to be done is decided by the shipped plan.

use super::flaw::Flaw;
use super::time::Age;
use super::world::{Absent, Answer, Ask, Cluster, FOREIGN, Flight, Job, Known, Lane, Mind, Mirror, Sight, WORKLOADS};

impl Mind {
    /// Its watch of the manager has caught up.
    pub(super) fn watch_manager(&mut self, job: Option<Job>) {
        self.listed = true;
        for workload in 0..WORKLOADS {
            let exists = job.is_some_and(|job| usize::from(job.workload) == workload);
            if !exists && self.known[workload].job.is_some() {
                self.lose_job(workload);
            }
        }
        if let Some(job) = job {
            self.learn_job(job);
        }
    }

    /// Its watch of a worker has caught up. `relist`: the watch had broken off, so nothing is known of what was removed.
    pub(super) fn watch_worker(&mut self, worker: usize, cluster: &Cluster, relist: bool) {
        if let Some(removed) = cluster.removed.filter(|removed| !relist && removed.version > self.watched[worker]) {
            self.hear_of_removal(worker, removed);
        }
        for known in &mut self.known {
            if let Some(Sight::Present(mirror)) = known.mirrors[worker]
                && cluster.job.is_none_or(|job| job.uid != mirror.uid)
            {
                known.mirrors[worker] = Some(Sight::Vanished(mirror));
                known.tidy();
            }
        }
        if let Some(mirror) = cluster.job {
            self.see(worker, mirror);
        }
        self.watched[worker] = cluster.version;
        self.live[worker] = true;
    }

    /// Its last state comes with the event.
    fn hear_of_removal(&mut self, worker: usize, removed: Mirror) {
        let Some(known) = self.known.get_mut(usize::from(removed.of)) else { return };
        let exists = known.job.is_some() || known.mirrors.iter().any(Option::is_some);
        if exists && known.sight(worker).is_none_or(|seen| seen.uid <= removed.uid) {
            known.mirrors[worker] = Some(Sight::Vanished(removed));
            known.tidy();
        }
    }

    fn see(&mut self, worker: usize, mirror: Mirror) {
        let Some(known) = self.known.get_mut(usize::from(mirror.of)) else { return };
        // An answer that the watch has overtaken.
        if known.sight(worker).is_some_and(|seen| seen.overtakes(mirror)) {
            return;
        }
        known.absent = None;
        known.gone = false;
        known.refused[worker] = None;
        known.mirrors[worker] = Some(Sight::Present(mirror));
        known.tidy();
    }

    /// A mirror is in an answer. What a list that came in between does not have is gone, or the watch will show it.
    fn hear_of(&mut self, worker: usize, mirror: Mirror, flight: &Flight) {
        let sight = self.known.get(usize::from(mirror.of)).and_then(|known| known.mirrors[worker]);
        let in_sight = matches!(sight, Some(Sight::Present(seen)) if seen.uid == mirror.uid);
        if in_sight || !flight.listed_since {
            self.see(worker, mirror);
        } else if sight.is_none_or(|(Sight::Present(seen) | Sight::Vanished(seen))| !seen.overtakes(mirror)) {
            self.hear_of_removal(worker, mirror);
            // A proof of its absence may be from before it came.
            if let Some(known) = self.known.get_mut(usize::from(mirror.of)) {
                known.absent = None;
            }
        }
    }

    fn learn_job(&mut self, job: Job) {
        let workload = usize::from(job.workload);
        if self.deleted[workload] {
            return;
        }
        let known = &mut self.known[workload];
        if known.job.is_some_and(|seen| seen.version > job.version) {
            return;
        }
        known.job = Some(job);
        let seen = known.placement.map(|(epoch, since, _)| (epoch, since));
        if let Some(record) = job.record.filter(|record| seen != Some((record.epoch, record.since))) {
            known.placement = Some((record.epoch, record.since, Age::NOW));
        }
    }

    fn lose_job(&mut self, workload: usize) {
        self.deleted[workload] = true;
        self.known[workload].job = None;
        self.known[workload].tidy();
    }

    /// An answer has come. Some are followed by another request at once.
    pub(super) fn hear(&mut self, flight: &Flight, answer: Answer, flaw: Option<Flaw>) -> Option<Ask> {
        let workload = usize::from(flight.workload);
        let worker = match flight.lane {
            Lane::Manager => return self.hear_manager(flight, answer),
            Lane::Worker(worker) => usize::from(worker),
        };
        let known = &mut self.known[workload];
        match (flight.ask, answer) {
            // Ours of an earlier attempt, or somebody else's: a fresh read tells.
            (Ask::Create { epoch, .. }, Answer::Exists) => {
                let mirror = known.job.and_then(|job| job.record).and_then(|record| record.mirror);
                let seen = known.sight(worker).map(|mirror| mirror.uid);
                return Some(Ask::ProveAbsent { epoch, mirror, seen });
            }
            (Ask::Create { epoch, .. }, Answer::Refused) => {
                known.refused[worker] = Some((epoch, Age::NOW));
            }
            // A mirror that showed up in between is younger than the answer.
            (Ask::ProveAbsent { epoch, mirror, seen }, Answer::NotFound { pods })
                if known.sight(worker).map(|mirror| mirror.uid) == seen =>
            {
                known.absent = Some(Absent { epoch, mirror, name_taken: false });
                known.evidence = pods.then_some(epoch);
                if let Some(uid) = seen {
                    known.vanish(worker, uid);
                }
            }
            (Ask::ProveAbsent { epoch, mirror, .. }, Answer::Mirror(found)) => {
                if flaw == Some(Flaw::ReadIsProof) {
                    known.absent = Some(Absent { epoch, mirror, name_taken: false });
                } else if found.of == flight.workload {
                    self.hear_of(worker, found, flight);
                } else if found.of == FOREIGN {
                    known.absent = Some(Absent { epoch, mirror, name_taken: true });
                    known.refused[worker] = Some((epoch, Age::NOW));
                }
            }
            (Ask::Delete { uid, .. }, Answer::Done) => {
                if let Some(Sight::Present(mirror)) = &mut known.mirrors[worker]
                    && mirror.uid == uid
                {
                    mirror.deleting = true;
                }
            }
            // It has changed since, or the name belongs to another object now.
            (Ask::Delete { uid, .. }, Answer::Conflict) => return Some(Ask::ReadMirror { uid }),
            (Ask::ReadMirror { uid }, Answer::Mirror(found)) if found.uid != uid => known.vanish(worker, uid),
            (Ask::Delete { uid, .. } | Ask::ReadMirror { uid }, Answer::NotFound { .. }) => known.vanish(worker, uid),
            (_, Answer::Mirror(mirror)) => self.hear_of(worker, mirror, flight),
            _ => {}
        }
        self.known[workload].tidy();
        None
    }

    fn hear_manager(&mut self, flight: &Flight, answer: Answer) -> Option<Ask> {
        let workload = usize::from(flight.workload);
        match (flight.ask, answer) {
            (Ask::WriteRecord { record, first, .. }, Answer::Job(job)) => {
                let known = &mut self.known[workload];
                if known.is_known() {
                    let renewed = known.acknowledged.is_some_and(|(epoch, _)| epoch == record.epoch);
                    // It may have been stored as soon as it was sent.
                    known.acknowledged = Some((record.epoch, flight.age)).filter(|(_, age)| !age.is_past_window());
                    known.placed_first |= first;
                    known.absent = None;
                    if !renewed && !record.moving {
                        known.refused[usize::from(record.worker)] = None;
                    }
                    if !record.moving && record.mirror.is_none() {
                        known.fresh = Some(job);
                    }
                }
                self.learn_job(job);
            }
            (Ask::ProveGone, Answer::NotFound { .. }) => {
                let known = &mut self.known[workload];
                known.gone = known.is_known();
            }
            (_, Answer::NotFound { .. }) => self.lose_job(workload),
            (_, Answer::Job(job)) => self.learn_job(job),
            _ => {}
        }
        None
    }

    /// No answer will come.
    pub(super) fn give_up(&mut self, flight: &Flight) {
        if matches!(flight.ask, Ask::Create { .. }) {
            self.known[usize::from(flight.workload)].in_doubt = Some(flight.age);
        }
    }

    /// A tick passes.
    pub(super) fn grow_older(&mut self) {
        self.leads = self.leads.older();
        for known in &mut self.known {
            let older = |(epoch, age): (u8, Age)| (epoch, age.older());
            known.acknowledged = known.acknowledged.map(older).filter(|(_, age)| !age.is_past_window());
            known.in_doubt = known.in_doubt.map(Age::older).filter(|age| !age.is_long());
            known.placement = known.placement.map(|(epoch, since, age)| (epoch, since, age.older()));
            known.refused = known.refused.map(|refused| refused.map(older));
        }
    }

    /// So much time passes that nothing is waited for any more.
    pub(super) fn grow_old(&mut self) {
        while !self.leads.is_long() {
            self.grow_older();
        }
        for _ in 0..Age::LONG.ticks() {
            self.grow_older();
        }
    }
}

impl Known {
    fn is_known(&self) -> bool {
        self.job.is_some() || self.is_present()
    }

    fn is_present(&self) -> bool {
        self.mirrors.iter().any(|sight| matches!(sight, Some(Sight::Present(_))))
    }

    fn vanish(&mut self, worker: usize, uid: u8) {
        if let Some(Sight::Present(mirror)) = self.mirrors[worker]
            && mirror.uid == uid
        {
            self.mirrors[worker] = Some(Sight::Vanished(mirror));
        }
    }

    /// Of what is over nothing is remembered but a create of unknown outcome. The placement of an orphan may be as young as the first sight of it.
    fn tidy(&mut self) {
        if !self.is_known() {
            *self = Self { in_doubt: self.in_doubt, ..Self::default() };
        } else if self.job.is_none() && self.placement.is_none_or(|(epoch, ..)| epoch != 0) {
            self.placement = Some((0, 0, Age::NOW));
        }
    }
}
