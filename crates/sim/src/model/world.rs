//! The state of a small world: what the clusters store, what each dispatcher knows, which requests are under way.
//!
//! Everything is small and ordered, so that states can be compared. Versions and UIDs are numbers of which only the order
//! counts: [`World::in_normal_form`] renumbers them, and takes the dispatchers in a fixed order.

use super::book::Book;
use super::flaw::Flaw;
use super::time::Age;

/// Workers.
pub(super) const WORKERS: usize = 2;
/// Workloads that follow each other under one name.
pub(super) const WORKLOADS: usize = 2;
/// Marks a Job on a worker that is nobody's mirror.
pub(super) const FOREIGN: u8 = 9;

/// A status, by its number in the [`Book`](super::book::Book).
pub(super) type StatusId = u8;
/// A version of an object, or the UID of a mirror (the version at which it was created).
pub(super) type Number = u8;

/// The user's Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Job {
    pub(super) workload: u8,
    pub(super) version: Number,
    pub(super) deleting: bool,
    pub(super) suspended: bool,
    pub(super) record: Option<Record>,
    pub(super) status: StatusId,
}

/// The placement record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Record {
    pub(super) worker: u8,
    pub(super) epoch: u8,
    pub(super) moving: bool,
    pub(super) mirror: Option<Number>,
    pub(super) copied: Option<Number>,
    /// When it was written: the manager's version at that time.
    pub(super) since: Number,
}

/// A Job on a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Mirror {
    /// The workload that it is the mirror of, or [`FOREIGN`].
    pub(super) of: u8,
    pub(super) uid: Number,
    pub(super) version: Number,
    pub(super) epoch: u8,
    /// The version of the workload that it was made of. `None`: nobody knows the workload by an earlier one.
    pub(super) made_of: Option<Number>,
    pub(super) suspended: bool,
    pub(super) deleting: bool,
    pub(super) status: StatusId,
}

/// A worker cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Cluster {
    /// The version of its last write.
    pub(super) version: Number,
    /// The Job of the one name.
    pub(super) job: Option<Mirror>,
    /// The last state of the Job that was removed last.
    pub(super) removed: Option<Mirror>,
    /// Whether a process of each workload runs here.
    pub(super) running: [bool; WORKLOADS],
}

/// What a watch said of a mirror last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Sight {
    Present(Mirror),
    Vanished(Mirror),
}

/// That a worker has no mirror of a workload: for which record it was proved, and whether another Job had its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Absent {
    pub(super) epoch: u8,
    pub(super) mirror: Option<Number>,
    pub(super) name_taken: bool,
}

/// What a dispatcher knows of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Known {
    pub(super) job: Option<Job>,
    pub(super) mirrors: [Option<Sight>; WORKERS],
    pub(super) acknowledged: Option<(u8, Age)>,
    pub(super) absent: Option<Absent>,
    pub(super) evidence: Option<u8>,
    pub(super) in_doubt: Option<Age>,
    pub(super) gone: bool,
    /// The placement that each worker refused, and when.
    pub(super) refused: [Option<(u8, Age)>; WORKERS],
    /// The last placement that was seen, by epoch and time, and when it was first seen.
    pub(super) placement: Option<(u8, Number, Age)>,
    /// The manager's answer to a placement, from which the mirror is made.
    pub(super) fresh: Option<Job>,
    /// This dispatcher placed it before anybody else did.
    pub(super) placed_first: bool,
}

/// One dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Mind {
    /// The manager's list was seen.
    pub(super) listed: bool,
    /// Whether each worker is connected.
    pub(super) live: [bool; WORKERS],
    /// Up to which version each worker's watch was followed.
    pub(super) watched: [Number; WORKERS],
    /// Since when it leads.
    pub(super) leads: Age,
    pub(super) known: [Known; WORKLOADS],
    /// Workloads that the manager's watch said were deleted.
    pub(super) deleted: [bool; WORKLOADS],
}

/// Where a request goes, and so which queue of the dispatcher it keeps busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Lane {
    Manager,
    Worker(u8),
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Ask {
    /// `first`: nobody had placed it, as far as was known when it was sent.
    WriteRecord {
        record: Record,
        version: Number,
        first: bool,
    },
    WriteStatus {
        status: StatusId,
        record: Option<Record>,
        version: Number,
    },
    ReadJob,
    ProveGone,
    Create {
        epoch: u8,
        made_of: Option<Number>,
        suspended: bool,
    },
    /// `seen`: the mirror that had been seen there when it was sent.
    ProveAbsent {
        epoch: u8,
        mirror: Option<Number>,
        seen: Option<Number>,
    },
    Delete {
        uid: Number,
        version: Number,
        pods_first: bool,
    },
    ReadMirror {
        uid: Number,
    },
    Forward {
        uid: Number,
        version: Number,
        suspended: bool,
    },
}

impl Ask {
    /// Whether it may change anything after its client has gone.
    pub(super) fn is_write(self) -> bool {
        !matches!(self, Self::ReadJob | Self::ProveGone | Self::ProveAbsent { .. } | Self::ReadMirror { .. })
    }
}

/// What a server answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Answer {
    Job(Job),
    Mirror(Mirror),
    Done,
    NotFound { pods: bool },
    Conflict,
    Exists,
    Refused,
}

/// A request under way, or its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Flight {
    /// The dispatcher that waits for it. `None`: it has given up, or is dead.
    pub(super) by: Option<u8>,
    pub(super) lane: Lane,
    pub(super) workload: u8,
    pub(super) ask: Ask,
    pub(super) age: Age,
    /// Its dispatcher has listed the worker since: an answer may be the past.
    pub(super) listed_since: bool,
    pub(super) answer: Option<Answer>,
}

/// What the checks need to know of a workload's past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Past {
    pub(super) existed: bool,
    pub(super) finished: bool,
    /// Somebody else deleted its mirror: the documented limit of never-again and never-lost.
    pub(super) meddled: bool,
}

/// How much may still go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Budget {
    /// Things that go wrong, of whatever kind.
    pub faults: u8,
    /// Requests that are answered late, or never; carried out or not.
    pub requests: u8,
    /// Creates that a worker refuses.
    pub refusals: u8,
    /// Crashes of a dispatcher.
    pub crashes: u8,
    /// Connections between a dispatcher and a worker that break.
    pub cuts: u8,
    /// What somebody else does on a worker: deletes a mirror, takes the name.
    pub strangers: u8,
    /// Requests that are under way at the same time.
    pub under_way: u8,
    /// What the user does: deletes, creates again, suspends, resumes. Not a fault.
    pub users: u8,
    /// One dispatcher leads by a lease. When it crashes, the next one leads, and knows nothing.
    pub leased: bool,
}

impl Budget {
    /// How many dispatchers lead at once.
    pub(super) const fn leaders(self) -> usize {
        if self.leased { 1 } else { 2 }
    }
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct World {
    /// The version of the manager's last write.
    pub(super) version: Number,
    pub(super) job: Option<Job>,
    pub(super) clusters: [Cluster; WORKERS],
    pub(super) minds: [Mind; 2],
    pub(super) flights: Vec<Flight>,
    pub(super) past: [Past; WORKLOADS],
    pub(super) left: Budget,
}

/// Whose numbers: those of the manager, or those of a worker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Manager,
    Worker(usize),
}

type Visit<'a> = &'a mut dyn FnMut(Numbers, &mut Number);

impl World {
    /// One Job, just submitted; two dispatchers that have led for long and see both workers (or one, by a lease).
    pub(super) fn new(left: Budget) -> Self {
        let job = Job { workload: 0, version: 1, deleting: false, suspended: false, record: None, status: 0 };
        let mind = Mind { listed: true, live: [true; WORKERS], leads: Age::LONG, ..Mind::default() };
        let past = [Past { existed: true, ..Past::default() }, Past::default()];
        let clusters = [Cluster::default(); WORKERS];
        let nobody = Mind { leads: Age::LONG, ..Mind::default() };
        let minds = [mind, if left.leased { nobody } else { mind }];
        Self { version: 1, job: Some(job), clusters, minds, flights: Vec::new(), past, left }
    }

    /// The same world without what makes no difference any more, with the smallest numbers that keep their order; true if
    /// the dispatchers have changed places.
    pub(super) fn in_normal_form(mut self, book: &Book, flaw: Option<Flaw>) -> (Self, bool) {
        self.drop_sure_conflicts(flaw);
        self.forget_old_sources();
        self.catch_up_with_nothing();
        for mind in &mut self.minds {
            // Whoever has led for long waits for no earlier leader anyway.
            let waits = !mind.leads.is_long();
            for known in &mut mind.known {
                known.placed_first &= waits;
                known.forget_what_is_over(book);
            }
        }
        // The numbers in use, a bit each; there are never more than a few dozen.
        let mut used = [0_u64; 1 + WORKERS];
        self.visit(&mut |whose, number| used[place(whose)] |= 1 << *number);
        self.visit(&mut |whose, number| {
            let below = used[place(whose)] & ((1 << *number) - 1);
            *number = u8::try_from(below.count_ones()).unwrap_or(u8::MAX);
        });
        let swapped = !self.left.leased && self.minds[0] > self.minds[1];
        if swapped {
            self.minds.swap(0, 1);
            for flight in &mut self.flights {
                flight.by = flight.by.map(|by| 1 - by);
            }
        }
        self.flights.sort_unstable();
        (self, swapped)
    }

    /// A write to a version that is no more will be refused, and nobody learns anything from that.
    fn drop_sure_conflicts(&mut self, flaw: Option<Flaw>) {
        let current = self.job.map(|job| (job.workload, job.version));
        self.flights.retain(|flight| match flight.ask {
            Ask::WriteRecord { version, .. } | Ask::WriteStatus { version, .. } => {
                let exists = current.is_some_and(|(workload, _)| workload == flight.workload);
                let conflicts = exists && current.is_some_and(|(_, current)| current != version);
                flight.answer.is_some() || !conflicts || flaw == Some(Flaw::NoVersion)
            }
            _ => true,
        });
    }

    /// What a mirror was made of matters to those that know the workload by an earlier version.
    fn forget_old_sources(&mut self) {
        let mut oldest = [Number::MAX; WORKLOADS];
        let known = self.minds.iter().flat_map(|mind| mind.known).flat_map(|known| [known.job, known.fresh]);
        let heard = self.flights.iter().map(|flight| match flight.answer {
            Some(Answer::Job(job)) => Some(job),
            _ => None,
        });
        for job in known.chain(heard).flatten() {
            let oldest = &mut oldest[usize::from(job.workload)];
            *oldest = job.version.min(*oldest);
        }
        let forget = |of: u8, made_of: &mut Option<Number>| {
            *made_of = made_of.filter(|made_of| oldest.get(usize::from(of)).is_some_and(|oldest| oldest < made_of));
        };
        let stored = self.clusters.iter_mut().flat_map(|cluster| cluster.job.iter_mut().chain(&mut cluster.removed));
        let sights = self.minds.iter_mut().flat_map(|mind| &mut mind.known).flat_map(|known| &mut known.mirrors);
        let seen = sights.flatten().map(|(Sight::Present(mirror) | Sight::Vanished(mirror))| mirror);
        stored.chain(seen).for_each(|mirror| forget(mirror.of, &mut mirror.made_of));
        for flight in &mut self.flights {
            if let Ask::Create { made_of, .. } = &mut flight.ask {
                forget(flight.workload, made_of);
            }
            if let Some(Answer::Mirror(mirror)) = &mut flight.answer {
                forget(mirror.of, &mut mirror.made_of);
            }
        }
    }

    /// A watch that would bring nothing new has caught up. What was removed matters until all have heard of it.
    fn catch_up_with_nothing(&mut self) {
        let leaders = &mut self.minds[..self.left.leaders()];
        for (worker, cluster) in self.clusters.iter_mut().enumerate() {
            for mind in &mut *leaders {
                let mut caught_up = *mind;
                caught_up.watch_worker(worker, cluster, false);
                if (Mind { watched: caught_up.watched, ..*mind }) == caught_up {
                    *mind = caught_up;
                }
            }
            if leaders.iter().all(|mind| mind.watched[worker] == cluster.version) {
                cluster.removed = None;
            }
        }
    }

    fn visit(&mut self, visit: Visit<'_>) {
        visit(Numbers::Manager, &mut self.version);
        self.job.iter_mut().for_each(|job| job.visit(visit));
        for (worker, cluster) in self.clusters.iter_mut().enumerate() {
            visit(Numbers::Worker(worker), &mut cluster.version);
            cluster.job.iter_mut().chain(&mut cluster.removed).for_each(|mirror| mirror.visit(worker, visit));
        }
        for mind in &mut self.minds {
            for worker in 0..WORKERS {
                visit(Numbers::Worker(worker), &mut mind.watched[worker]);
            }
            mind.known.iter_mut().for_each(|known| known.visit(visit));
        }
        self.flights.iter_mut().for_each(|flight| flight.visit(visit));
    }
}

fn place(whose: Numbers) -> usize {
    match whose {
        Numbers::Manager => 0,
        Numbers::Worker(worker) => 1 + worker,
    }
}

impl Job {
    fn visit(&mut self, visit: Visit<'_>) {
        visit(Numbers::Manager, &mut self.version);
        self.record.iter_mut().for_each(|record| record.visit(visit));
    }
}

impl Record {
    fn visit(&mut self, visit: Visit<'_>) {
        let worker = usize::from(self.worker);
        visit(Numbers::Manager, &mut self.since);
        self.mirror.iter_mut().chain(&mut self.copied).for_each(|number| visit(Numbers::Worker(worker), number));
    }
}

impl Mirror {
    /// Whether this is a later state of the same mirror.
    pub(super) fn overtakes(self, other: Self) -> bool {
        self.uid == other.uid && self.version > other.version
    }

    fn visit(&mut self, worker: usize, visit: Visit<'_>) {
        visit(Numbers::Worker(worker), &mut self.uid);
        visit(Numbers::Worker(worker), &mut self.version);
        self.made_of.iter_mut().for_each(|made_of| visit(Numbers::Manager, made_of));
    }
}

impl Known {
    fn visit(&mut self, visit: Visit<'_>) {
        self.job.iter_mut().chain(&mut self.fresh).for_each(|job| job.visit(visit));
        if let Some((_, since, _)) = &mut self.placement {
            visit(Numbers::Manager, since);
        }
        if let (Some(job), Some(Absent { mirror: Some(mirror), .. })) = (&self.job, &mut self.absent) {
            let worker = job.record.map_or(0, |record| usize::from(record.worker));
            visit(Numbers::Worker(worker), mirror);
        }
        for (worker, sight) in self.mirrors.iter_mut().enumerate() {
            if let Some(Sight::Present(mirror) | Sight::Vanished(mirror)) = sight {
                mirror.visit(worker, visit);
            }
        }
    }

    /// Of a workload that has ended no decision looks at how it was placed.
    fn forget_what_is_over(&mut self, book: &Book) {
        if self.job.is_none_or(|job| book.ending(job.status).is_some()) {
            (self.acknowledged, self.absent, self.evidence, self.fresh) = (None, None, None, None);
            self.refused = [None; WORKERS];
        }
        // A create is only sent within the window.
        if self.acknowledged.is_none() {
            self.fresh = None;
        }
    }

    /// The mirror on a worker, as far as it was seen.
    pub(super) fn sight(&self, worker: usize) -> Option<Mirror> {
        self.mirrors[worker].map(|(Sight::Present(mirror) | Sight::Vanished(mirror))| mirror)
    }
}

impl Flight {
    /// The same request, if the other dispatcher had sent it.
    pub(super) fn of_the_other(self) -> Self {
        Self { by: self.by.map(|by| 1 - by), ..self }
    }

    fn visit(&mut self, visit: Visit<'_>) {
        let here = match self.lane {
            Lane::Manager => Numbers::Manager,
            Lane::Worker(worker) => Numbers::Worker(worker.into()),
        };
        match &mut self.ask {
            Ask::WriteRecord { record, version, .. } => {
                // When it is written is not known yet, and nothing was copied.
                record.mirror.iter_mut().for_each(|uid| visit(Numbers::Worker(record.worker.into()), uid));
                visit(here, version);
            }
            Ask::WriteStatus { record, version, .. } => {
                if let Some(record) = record {
                    record.visit(visit);
                }
                visit(here, version);
            }
            Ask::ProveAbsent { mirror, seen, .. } => mirror.iter_mut().chain(seen).for_each(|uid| visit(here, uid)),
            Ask::ReadMirror { uid } => visit(here, uid),
            Ask::Delete { uid, version, .. } | Ask::Forward { uid, version, .. } => {
                visit(here, uid);
                visit(here, version);
            }
            Ask::Create { made_of, .. } => made_of.iter_mut().for_each(|made_of| visit(Numbers::Manager, made_of)),
            Ask::ReadJob | Ask::ProveGone => {}
        }
        match (&mut self.answer, self.lane) {
            (Some(Answer::Job(job)), _) => job.visit(visit),
            (Some(Answer::Mirror(mirror)), Lane::Worker(worker)) => mirror.visit(worker.into(), visit),
            _ => {}
        }
    }
}
