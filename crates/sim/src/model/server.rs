//! The API servers of the model: what a request does to what is stored. No more than Kubernetes promises for one object:
//! a write is carried out as a whole or not at all, preconditions are checked in the same moment, a name is unique.

use super::Broken;
use super::book::{Book, NOTHING};
use super::flaw::Flaw;
use super::world::{Answer, Ask, FOREIGN, Flight, Job, Lane, Mirror, Number, Record, World};

impl World {
    /// Carries a request out.
    pub(super) fn carry_out(&mut self, flight: &Flight, book: &Book, flaw: Option<Flaw>) -> Result<Answer, Broken> {
        let workload = flight.workload;
        let worker = match flight.lane {
            Lane::Manager => 0,
            Lane::Worker(worker) => usize::from(worker),
        };
        match flight.ask {
            Ask::WriteRecord { record, version, .. } => {
                let since = self.version + 1;
                Ok(self.patch_job(workload, version, flaw, |job| job.record = Some(Record { since, ..record })))
            }
            Ask::WriteStatus { status, record, version } => {
                if let Some(job) = self.job.filter(|job| job.workload == workload && job.version == version) {
                    self.judge_status(&job, status, book)?;
                }
                Ok(self.patch_job(workload, version, flaw, |job| {
                    job.status = status;
                    job.record = record.or(job.record);
                }))
            }
            Ask::ReadJob | Ask::ProveGone => Ok(self
                .job
                .filter(|job| job.workload == workload)
                .map_or(Answer::NotFound { pods: false }, Answer::Job)),
            Ask::Create { epoch, made_of, suspended } => Ok(self.create(worker, workload, (epoch, made_of), suspended)),
            Ask::ProveAbsent { .. } => {
                let pods = self.clusters[worker].running[usize::from(workload)];
                Ok(self.clusters[worker].job.map_or(Answer::NotFound { pods }, Answer::Mirror))
            }
            Ask::ReadMirror { .. } => {
                Ok(self.clusters[worker].job.map_or(Answer::NotFound { pods: false }, Answer::Mirror))
            }
            Ask::Delete { uid, version, pods_first } => self.delete(worker, (uid, version), pods_first, book, flaw),
            Ask::Forward { uid, version, suspended } => Ok(self.forward(worker, uid, version, suspended)),
        }
    }

    /// PATCH with UID and resourceVersion.
    fn patch_job(
        &mut self,
        workload: u8,
        version: Number,
        flaw: Option<Flaw>,
        change: impl FnOnce(&mut Job),
    ) -> Answer {
        let Some(job) = &mut self.job else { return Answer::NotFound { pods: false } };
        if job.workload != workload || (job.version != version && flaw != Some(Flaw::NoVersion)) {
            return Answer::Conflict;
        }
        change(job);
        self.version += 1;
        job.version = self.version;
        Answer::Job(*job)
    }

    fn judge_status(&mut self, job: &Job, next: u8, book: &Book) -> Result<(), Broken> {
        if !book.is_legal(job, next) {
            return Err(Broken::new("legal", "the manager rejects a status"));
        }
        let past = &mut self.past[usize::from(job.workload)];
        match book.ending(next) {
            // Every process of this world succeeds.
            Some(false) if !past.meddled => {
                return Err(Broken::new("never-lost", "a workload is declared failed though nothing of it has failed"));
            }
            Some(_) => past.finished = true,
            None => {}
        }
        Ok(())
    }

    fn create(&mut self, worker: usize, of: u8, (epoch, made_of): (u8, Option<Number>), suspended: bool) -> Answer {
        let cluster = &mut self.clusters[worker];
        if cluster.job.is_some() {
            return Answer::Exists;
        }
        cluster.version += 1;
        let (uid, version) = (cluster.version, cluster.version);
        let mirror = Mirror { of, uid, version, epoch, made_of, suspended, deleting: false, status: NOTHING };
        cluster.job = Some(mirror);
        Answer::Mirror(mirror)
    }

    /// DELETE with UID and resourceVersion.
    fn delete(
        &mut self,
        worker: usize,
        (uid, version): (Number, Number),
        pods_first: bool,
        book: &Book,
        flaw: Option<Flaw>,
    ) -> Result<Answer, Broken> {
        let Some(target) = self.clusters[worker].job else { return Ok(Answer::NotFound { pods: false }) };
        let is_meant = match flaw {
            Some(Flaw::NoUid) => true,
            Some(Flaw::DeleteByOldView) => target.uid == uid,
            _ => (target.uid, target.version) == (uid, version),
        };
        if !is_meant {
            return Ok(Answer::Conflict);
        }
        if target.of == FOREIGN {
            return Err(Broken::new("own-only", "a Job that is not ours is deleted"));
        }
        if self.is_wanted(worker, target, book) {
            return Err(Broken::new("calm", "the running mirror of a living workload is deleted"));
        }
        if pods_first && self.clusters[worker].running[usize::from(target.of)] {
            self.change_mirror(worker, |mirror| mirror.deleting = true);
        } else {
            self.remove(worker);
        }
        Ok(Answer::Done)
    }

    /// Whether this is the mirror of the record, of a workload that has not ended. One that came after the recorded mirror
    /// had been deleted by somebody is none: it would run what has run already.
    fn is_wanted(&self, worker: usize, mirror: Mirror, book: &Book) -> bool {
        let Some(job) = self.job.filter(|job| job.workload == mirror.of && !job.deleting) else { return false };
        let named = |record: Record| record.mirror.is_none_or(|named| named == mirror.uid);
        let current = |record: Record| usize::from(record.worker) == worker && record.epoch == mirror.epoch;
        job.record.is_some_and(|record| current(record) && named(record)) && book.ending(job.status).is_none()
    }

    /// PATCH with UID and resourceVersion.
    fn forward(&mut self, worker: usize, uid: Number, version: Number, suspended: bool) -> Answer {
        match self.clusters[worker].job {
            None => Answer::NotFound { pods: false },
            Some(mirror) if (mirror.uid, mirror.version) != (uid, version) => Answer::Conflict,
            Some(_) => {
                self.change_mirror(worker, |mirror| mirror.suspended = suspended);
                self.clusters[worker].job.map_or(Answer::Conflict, Answer::Mirror)
            }
        }
    }

    /// A write to the Job of a worker.
    pub(super) fn change_mirror(&mut self, worker: usize, change: impl FnOnce(&mut Mirror)) {
        let cluster = &mut self.clusters[worker];
        if let Some(mirror) = &mut cluster.job {
            cluster.version += 1;
            mirror.version = cluster.version;
            change(mirror);
        }
    }

    /// The Job of a worker is no more. Its process, if one runs, is ended later.
    pub(super) fn remove(&mut self, worker: usize) {
        let cluster = &mut self.clusters[worker];
        cluster.version += 1;
        cluster.removed = cluster.job.take().map(|mirror| Mirror { version: cluster.version, ..mirror });
    }
}
