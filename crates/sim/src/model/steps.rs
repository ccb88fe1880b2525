//! Everything that can happen next.

use std::fmt;

use super::Broken;
use super::book::{Book, COMPLETE, Due, NOTHING, RESUMED, RUNNING, SUSPENDED};
use super::flaw::Flaw;
use super::time::Age;
use super::world::{Answer, Ask, Budget, FOREIGN, Flight, Job, Lane, Mind, Mirror, Past, WORKERS, WORKLOADS, World};

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Send(Flight),
    CarryOut(Flight),
    Refuse(Flight),
    Hear(Flight),
    Break(Flight),
    WatchManager(usize),
    WatchWorker(usize, usize, bool),
    Start(usize, usize),
    End(usize, usize),
    Stop(usize, usize),
    Tick,
    MuchLater,
    Crash(usize),
    Cut(usize, usize),
    StrangerDeletes(usize),
    StrangerComes(usize),
    StrangerLeaves(usize),
    UserDeletes { at_once: bool },
    Removed,
    UserCreates,
    UserSuspends(bool),
}

/// A world that can follow, or a promise that is broken on the way there.
pub(super) type Next = Result<World, Broken>;

/// A step and where it leads. `is_fault`: nothing may depend on its happening.
pub(super) struct Move {
    pub(super) step: Step,
    pub(super) is_fault: bool,
    pub(super) next: Next,
}

/// What decides the steps besides the world itself.
pub(super) struct Rules {
    pub(super) book: Book,
    pub(super) flaw: Option<Flaw>,
}

/// Collects what can follow a world.
struct Future<'a> {
    world: &'a World,
    moves: Vec<Move>,
}

impl Future<'_> {
    fn add(&mut self, step: Step, is_fault: bool, change: impl FnOnce(&mut World) -> Result<(), Broken>) {
        let mut next = self.world.clone();
        let next = change(&mut next).map(|()| next);
        self.moves.push(Move { step, is_fault, next });
    }

    fn free(&mut self, step: Step, change: impl FnOnce(&mut World) -> Result<(), Broken>) {
        self.add(step, false, change);
    }

    /// Something that goes wrong, if it may.
    fn fault(
        &mut self,
        step: Step,
        kind: fn(&mut Budget) -> &mut u8,
        change: impl FnOnce(&mut World) -> Result<(), Broken>,
    ) {
        let mut left = self.world.left;
        if left.faults > 0 && *kind(&mut left) > 0 {
            left.faults -= 1;
            *kind(&mut left) -= 1;
            self.add(step, true, |world| {
                world.left = left;
                change(world)
            });
        }
    }
}

impl Rules {
    /// Everything that can happen next.
    pub(super) fn moves(&mut self, world: &World) -> Vec<Move> {
        let mut future = Future { world, moves: Vec::new() };
        for mind in 0..world.left.leaders() {
            self.minds(&mut future, mind);
        }
        for at in 0..world.flights.len() {
            self.flights(&mut future, at);
        }
        for worker in 0..WORKERS {
            self.workers(&mut future, worker);
        }
        self.user(&mut future);
        time(&mut future);
        future.moves
    }

    fn minds(&mut self, future: &mut Future<'_>, at: usize) {
        let world = future.world;
        let mind = &world.minds[at];
        for workload in 0..WORKLOADS {
            for due in self.due(mind, workload) {
                match due {
                    Due::Request(lane, ask) => send(future, at, workload, lane, ask),
                    Due::IllegalStatus => future.free(Step::WatchManager(at), |_| {
                        Err(Broken::new("legal", "the projection made an illegal status"))
                    }),
                }
            }
        }
        let news = world.job.filter(|job| mind.known[usize::from(job.workload)].job != Some(*job));
        let losses = mind
            .known
            .iter()
            .filter_map(|known| known.job)
            .any(|job| world.job.is_none_or(|now| now.workload != job.workload));
        if news.is_some_and(|job| !mind.deleted[usize::from(job.workload)]) || losses || !mind.listed {
            future.free(Step::WatchManager(at), |world| {
                world.minds[at].watch_manager(world.job);
                Ok(())
            });
        }
        for worker in 0..WORKERS {
            let cluster = &world.clusters[worker];
            if mind.watched[worker] != cluster.version || !mind.live[worker] {
                // A watch that goes on misses nothing; one that starts anew does not tell what was removed meanwhile.
                let [followed, listed] = [false, true].map(|relist| {
                    let mut mind = *mind;
                    mind.watch_worker(worker, cluster, relist);
                    mind
                });
                let is_asked = |flight: &Flight| {
                    flight.by == Some(small(at)) && flight.lane == Lane::Worker(small(worker)) && !flight.listed_since
                };
                future.free(Step::WatchWorker(at, worker, false), |world| {
                    world.minds[at] = followed;
                    Ok(())
                });
                if listed != followed || world.flights.iter().any(is_asked) {
                    future.free(Step::WatchWorker(at, worker, true), |world| {
                        world.minds[at] = listed;
                        for flight in world.flights.iter_mut().filter(|flight| is_asked(flight)) {
                            flight.listed_since = true;
                        }
                        Ok(())
                    });
                }
            }
            if mind.live[worker] {
                future.fault(
                    Step::Cut(at, worker),
                    |left| &mut left.cuts,
                    |world| {
                        world.minds[at].live[worker] = false;
                        Ok(())
                    },
                );
            }
        }
        future.fault(
            Step::Crash(at),
            |left| &mut left.crashes,
            |world| {
                // Who starts again leads anew, and knows nothing.
                world.minds[at] = Mind { watched: world.clusters.map(|cluster| cluster.version), ..Mind::default() };
                world.flights.retain(|flight| {
                    flight.by != Some(small(at)) || (flight.answer.is_none() && flight.ask.is_write())
                });
                for flight in world.flights.iter_mut().filter(|flight| flight.by == Some(small(at))) {
                    flight.by = None;
                }
                Ok(())
            },
        );
    }

    fn due(&mut self, mind: &Mind, workload: usize) -> Vec<Due> {
        let mut mind = *mind;
        if let Some(flaw) = self.flaw {
            flaw.distort(&mut mind);
        }
        let known = &mind.known[workload];
        if !mind.listed || (known.job.is_none() && known.mirrors.iter().all(Option::is_none)) {
            return Vec::new();
        }
        self.book.plan(&mind, workload)
    }

    fn flights(&mut self, future: &mut Future<'_>, at: usize) {
        let flight = future.world.flights[at];
        let Some(answer) = flight.answer else {
            let (book, flaw) = (&self.book, self.flaw);
            future.free(Step::CarryOut(flight), |world| {
                let answer = world.carry_out(&flight, book, flaw)?;
                // Of a write to the workload that conflicts its sender learns nothing: the watch will bring the news.
                let is_news = flight.lane != Lane::Manager || answer != Answer::Conflict;
                match flight.by {
                    Some(_) if is_news => world.flights[at].answer = Some(answer),
                    _ => drop(world.flights.remove(at)),
                }
                Ok(())
            });
            // A quota is looked at before the name is.
            if matches!(flight.ask, Ask::Create { .. }) {
                future.fault(
                    Step::Refuse(flight),
                    |left| &mut left.refusals,
                    |world| {
                        match flight.by {
                            Some(_) => world.flights[at].answer = Some(Answer::Refused),
                            None => drop(world.flights.remove(at)),
                        }
                        Ok(())
                    },
                );
            }
            if flight.by.is_some() {
                future.fault(
                    Step::Break(flight),
                    |left| &mut left.requests,
                    |world| {
                        abandon(world, at);
                        Ok(())
                    },
                );
            }
            return;
        };
        let Some(by) = flight.by else { return };
        let flaw = self.flaw;
        future.free(Step::Hear(flight), |world| {
            world.flights.remove(at);
            if let Some(ask) = world.minds[usize::from(by)].hear(&flight, answer, flaw) {
                world.flights.push(Flight { ask, age: Age::NOW, answer: None, ..flight });
            }
            Ok(())
        });
        future.fault(
            Step::Break(flight),
            |left| &mut left.requests,
            |world| {
                abandon(world, at);
                Ok(())
            },
        );
    }

    /// The worker's own Job controller, its garbage collector, and strangers.
    fn workers(&mut self, future: &mut Future<'_>, worker: usize) {
        let cluster = &future.world.clusters[worker];
        for workload in 0..WORKLOADS {
            let running = cluster.running[workload];
            let own = cluster.job.filter(|mirror| usize::from(mirror.of) == workload);
            let finished = own.is_some_and(|mirror| self.book.ending(mirror.status).is_some());
            if let Some(mirror) = own.filter(|mirror| !running && !finished && !mirror.suspended && !mirror.deleting) {
                let elsewhere =
                    (0..WORKERS).any(|other| other != worker && future.world.clusters[other].running[workload]);
                // Another mirror than the one that has ended: that one would be finished.
                let past = &future.world.past[workload];
                let again = past.finished && !past.meddled;
                let status = if mirror.status == SUSPENDED { RESUMED } else { RUNNING };
                future.free(Step::Start(worker, workload), |world| {
                    if elsewhere {
                        return Err(Broken::new("never-twice", "a workload runs on both workers"));
                    }
                    if again {
                        return Err(Broken::new("never-again", "a workload that had finished runs again"));
                    }
                    world.clusters[worker].running[workload] = true;
                    world.change_mirror(worker, |mirror| mirror.status = status);
                    Ok(())
                });
            }
            // A process that was told to end does not succeed any more: the documented limit of a move.
            if running && own.is_some_and(|mirror| !mirror.suspended && !mirror.deleting) && !finished {
                future.free(Step::End(worker, workload), |world| {
                    world.clusters[worker].running[workload] = false;
                    world.past[workload].finished = true;
                    world.change_mirror(worker, |mirror| mirror.status = COMPLETE);
                    Ok(())
                });
            }
            if running && own.is_none_or(|mirror| mirror.suspended || mirror.deleting || finished) {
                future.free(Step::Stop(worker, workload), |world| {
                    world.clusters[worker].running[workload] = false;
                    match own {
                        Some(mirror) if mirror.suspended => {
                            world.change_mirror(worker, |mirror| mirror.status = SUSPENDED);
                        }
                        _ => {}
                    }
                    Ok(())
                });
            }
            if !running && own.is_some_and(|mirror| mirror.deleting) {
                future.free(Step::Stop(worker, workload), |world| {
                    world.remove(worker);
                    Ok(())
                });
            }
            if !running && own.is_some_and(|mirror| mirror.suspended && mirror.status == NOTHING) {
                future.free(Step::Stop(worker, workload), |world| {
                    world.change_mirror(worker, |mirror| mirror.status = SUSPENDED);
                    Ok(())
                });
            }
        }
        strangers(future, worker);
    }

    fn user(&self, future: &mut Future<'_>) {
        let world = future.world;
        if let Some(job) = world.job.filter(|job| job.deleting) {
            future.free(Step::Removed, |world| {
                delete_job(world, job.workload);
                Ok(())
            });
        }
        if world.left.users == 0 {
            return;
        }
        let mut act = |step, change: &dyn Fn(&mut World)| {
            future.add(step, true, |world| {
                world.left.users -= 1;
                change(world);
                Ok(())
            });
        };
        match world.job {
            Some(job) if !job.deleting => {
                act(Step::UserDeletes { at_once: true }, &|world| delete_job(world, job.workload));
                act(Step::UserDeletes { at_once: false }, &|world| change_job(world, |job| job.deleting = true));
                if self.book.ending(job.status).is_none() {
                    let suspended = !job.suspended;
                    act(Step::UserSuspends(suspended), &|world| change_job(world, |job| job.suspended = suspended));
                }
            }
            None if !world.past[1].existed => act(Step::UserCreates, &|world| {
                world.version += 1;
                let (version, workload) = (world.version, 1);
                world.job =
                    Some(Job { workload, version, deleting: false, suspended: false, record: None, status: NOTHING });
                world.past[1] = Past { existed: true, ..Past::default() };
            }),
            _ => {}
        }
    }
}

/// Takes a request out of the plan, if its queue is free.
fn send(future: &mut Future<'_>, at: usize, workload: usize, lane: Lane, ask: Ask) {
    let (by, workload) = (Some(small(at)), small(workload));
    let busy = |flight: &Flight| (flight.by, flight.lane, flight.workload) == (by, lane, workload);
    let full = future.world.flights.len() >= usize::from(future.world.left.under_way);
    if full || future.world.flights.iter().any(busy) {
        return;
    }
    let mut world = future.world.clone();
    let Some(ask) = made_from(&mut world, at, workload, lane, ask) else { return };
    let flight = Flight { by, lane, workload, ask, age: Age::NOW, listed_since: false, answer: None };
    world.flights.push(flight);
    future.free(Step::Send(flight), |next| {
        *next = world;
        Ok(())
    });
}

/// What a request is made from is read right before it is sent. `None`: it turns out that it must not be.
fn made_from(world: &mut World, at: usize, workload: u8, lane: Lane, ask: Ask) -> Option<Ask> {
    match (ask, lane) {
        (Ask::Create { epoch, .. }, Lane::Worker(worker)) => {
            let source = world.minds[at].known[usize::from(workload)].fresh.take().or(world.job)?;
            let record =
                source.record.filter(|record| !record.moving && (record.worker, record.epoch) == (worker, epoch));
            let fit = source.workload == workload && !source.deleting && record.is_some();
            fit.then_some(Ask::Create { epoch, made_of: Some(source.version), suspended: source.suspended })
        }
        (Ask::Forward { uid, .. }, Lane::Worker(worker)) => {
            let job = world.job.filter(|job| job.workload == workload)?;
            let mirror = world.clusters[usize::from(worker)].job.filter(|mirror| mirror.uid == uid)?;
            Some(Ask::Forward { uid, version: mirror.version, suspended: job.suspended })
        }
        _ => Some(ask),
    }
}

/// The dispatcher hears no more of a request. One that writes may still be carried out.
fn abandon(world: &mut World, at: usize) {
    let flight = world.flights[at];
    if let Some(by) = flight.by {
        world.minds[usize::from(by)].give_up(&flight);
    }
    world.flights[at].by = None;
    if flight.answer.is_some() || !flight.ask.is_write() {
        world.flights.remove(at);
    }
}

/// Time passes. A request that is not answered in the tick in which it was sent is late: something goes wrong. When
/// nothing is under way, single ticks make no difference: everything that is waited for is over at once.
fn time(future: &mut Future<'_>) {
    let world = future.world;
    if world.flights.is_empty() {
        let mut next = world.clone();
        next.minds.iter_mut().for_each(Mind::grow_old);
        if next != *world {
            future.free(Step::MuchLater, |world| {
                *world = next;
                Ok(())
            });
        }
        return;
    }
    let late = small(world.flights.iter().filter(|flight| flight.by.is_some() && flight.age == Age::NOW).count());
    if late > world.left.requests.min(world.left.faults) {
        return;
    }
    future.add(Step::Tick, late > 0, |world| {
        world.left.requests -= late;
        world.left.faults -= late;
        for at in (0..world.flights.len()).rev() {
            if world.flights[at].by.is_some() && world.flights[at].age.older().is_past_deadline() {
                abandon(world, at);
            }
        }
        world.flights.retain_mut(|flight| {
            flight.age = flight.age.older();
            !flight.age.is_forgotten()
        });
        world.minds.iter_mut().for_each(Mind::grow_older);
        Ok(())
    });
}

fn strangers(future: &mut Future<'_>, worker: usize) {
    let cluster = &future.world.clusters[worker];
    match cluster.job {
        Some(mirror) if mirror.of == FOREIGN => future.free(Step::StrangerLeaves(worker), |world| {
            world.remove(worker);
            Ok(())
        }),
        Some(mirror) => future.fault(
            Step::StrangerDeletes(worker),
            |left| &mut left.strangers,
            |world| {
                world.past[usize::from(mirror.of)].meddled = true;
                world.remove(worker);
                Ok(())
            },
        ),
        None => future.fault(
            Step::StrangerComes(worker),
            |left| &mut left.strangers,
            |world| {
                let cluster = &mut world.clusters[worker];
                cluster.version += 1;
                let (uid, version) = (cluster.version, cluster.version);
                let (of, status) = (FOREIGN, NOTHING);
                cluster.job = Some(Mirror {
                    of,
                    uid,
                    version,
                    epoch: 0,
                    made_of: None,
                    suspended: true,
                    deleting: false,
                    status,
                });
                Ok(())
            },
        ),
    }
}

fn change_job(world: &mut World, change: impl FnOnce(&mut Job)) {
    if let Some(job) = &mut world.job {
        world.version += 1;
        job.version = world.version;
        change(job);
    }
}

fn delete_job(world: &mut World, workload: u8) {
    world.version += 1;
    world.job = world.job.filter(|job| job.workload != workload);
}

fn small(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

impl World {
    /// Nothing is under way, and everybody has what was promised: the workload has ended or waits for its user, and
    /// nothing is left of one that is gone.
    pub(super) fn is_good_end(&self, book: &Book) -> bool {
        let served = self.job.is_none_or(|job| !job.deleting && (job.suspended || book.ending(job.status).is_some()));
        let orphan = |mirror: Mirror| mirror.of != FOREIGN && self.job.is_none_or(|job| job.workload != mirror.of);
        let clean = self.clusters.iter().all(|cluster| {
            let runs = |workload: usize| {
                cluster.running[workload]
                    && self.job.is_none_or(|job| job.suspended || usize::from(job.workload) != workload)
            };
            !cluster.job.is_some_and(orphan) && !(0..WORKLOADS).any(runs)
        });
        served && clean && self.flights.is_empty()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = |by: Option<u8>| by.map_or("nobody".to_owned(), |by| format!("d{by}"));
        let about = |flight: &Flight| {
            format!("{} {:?} of job {}: {:?}", who(flight.by), flight.lane, flight.workload, flight.ask)
        };
        match self {
            Self::Send(flight) => write!(f, "sends      {}", about(flight)),
            Self::CarryOut(flight) => write!(f, "carried out {}", about(flight)),
            Self::Refuse(flight) => write!(f, "REFUSED    {}", about(flight)),
            Self::Hear(flight) => write!(f, "hears      {} -> {:?}", about(flight), flight.answer),
            Self::Break(flight) => write!(f, "BROKEN OFF {} ({:?})", about(flight), flight.answer),
            other => write!(f, "{other:?}"),
        }
    }
}
