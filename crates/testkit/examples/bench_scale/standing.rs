//! Many Jobs that are placed and not finished: what it takes to know them, to start with them, and to follow one of them.

use std::{fmt, fs, process::Command, time::Duration};

use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use crate::{
    Arguments,
    dispatcher::{Dispatcher, Under},
    measure::{
        spread::Quantiles,
        timeline::{Stage, between},
    },
    mirrors::{Lives, Mirrors},
    world::World,
};

/// Requests of this program that are under way at once.
const IN_FLIGHT: usize = 32;
/// Whatever a dispatcher that is steady would still write, it has written by then.
const STILL_FOR: Duration = Duration::from_secs(5);
/// Under valgrind everything takes long; the count is as good with fewer.
const COUNTED_EVENTS: usize = 300;

/// The figures of one number of Jobs and workers.
pub(crate) struct Standing {
    pub(crate) jobs: usize,
    pub(crate) workers: usize,
    /// From the first creation to the last mirror.
    pub(crate) placed_per_second: f64,
    /// CPU time of the dispatcher from creation to the first status of a Job.
    pub(crate) cpu_per_job: Duration,
    /// From the start of the process until nothing waits.
    pub(crate) start: Duration,
    pub(crate) start_cpu: Duration,
    /// Writes to Jobs until a while after that.
    pub(crate) start_writes: u64,
    /// Of the process that was started with all these Jobs, in bytes.
    pub(crate) memory: u64,
    pub(crate) peak_memory: u64,
    /// CPU time from the change of a mirror to its copy.
    pub(crate) cpu_per_event: Duration,
    pub(crate) event: Quantiles,
    pub(crate) instructions_per_event: Option<u64>,
}

pub(crate) async fn measure(arguments: &Arguments, jobs: usize, workers: usize) -> Standing {
    let world = World::start(&arguments.jobferry, workers).await;
    let mirrors = Mirrors::follow(&world, Lives::Still);
    let names: Vec<String> = (0..jobs).map(|number| format!("job-{number:06}")).collect();
    let dispatcher = Dispatcher::start(&world, &arguments.jobferry, Under::Nothing);
    dispatcher.until_steady(workers, 0).await;

    let (begun, cpu_before) = (Instant::now(), dispatcher.process.cpu());
    mirrors.timeline.expect(&names);
    let create = |name: &String| {
        let (manager, name) = (world.manager.jobs(), name.clone());
        async move { manager.create(&name).await }
    };
    stream::iter(&names).for_each_concurrent(IN_FLIGHT, create).await;
    mirrors.timeline.until(Stage::Mirrored).await;
    #[allow(clippy::cast_precision_loss, reason = "a hundred thousand")]
    let placed_per_second = jobs as f64 / begun.elapsed().as_secs_f64();
    change(&mirrors, &names, None).await;
    let cpu_per_job = dispatcher.process.cpu_since(cpu_before) / u32::try_from(jobs).unwrap();
    dispatcher.until_steady(workers, jobs).await;
    dispatcher.process.stop();

    let writes_before = world.writes_to_jobs().await;
    let begun = Instant::now();
    let dispatcher = Dispatcher::start(&world, &arguments.jobferry, Under::Nothing);
    dispatcher.until_steady(workers, jobs).await;
    let (start, start_cpu) = (begun.elapsed(), dispatcher.process.cpu());
    sleep(STILL_FOR).await;
    let start_writes = world.writes_to_jobs().await - writes_before;
    let (memory, peak_memory) = (dispatcher.process.memory(), dispatcher.process.peak_memory());

    let changed = sample(&names, arguments.events);
    let cpu_before = dispatcher.process.cpu();
    change(&mirrors, &changed, Some(1)).await;
    let cpu_per_event = dispatcher.process.cpu_since(cpu_before) / u32::try_from(changed.len()).unwrap();
    let copies = mirrors.timeline.lives().into_iter().filter_map(|life| between(life.mirror_active, life.user_active));
    let event = Quantiles::of(copies).unwrap();
    dispatcher.process.stop();

    let mut instructions_per_event = None;
    if arguments.instructions {
        instructions_per_event = Some(count_instructions(arguments, &world, &mirrors, &names).await);
    }
    Standing {
        jobs,
        workers,
        placed_per_second,
        cpu_per_job,
        start,
        start_cpu,
        start_writes,
        memory,
        peak_memory,
        cpu_per_event,
        event,
        instructions_per_event,
    }
}

/// So many of them, evenly spread.
fn sample(names: &[String], count: usize) -> Vec<String> {
    let step = (names.len() / count).max(1);
    names.iter().step_by(step).take(count).cloned().collect()
}

/// Makes these mirrors active, or changes them, and waits until their users see it.
async fn change(mirrors: &Mirrors, names: &[String], ready: Option<i32>) {
    let workers: Vec<usize> = names.iter().map(|name| mirrors.worker_of(name)).collect();
    mirrors.timeline.expect(names);
    let changes = stream::iter(names.iter().zip(workers));
    let change = |(name, worker): (&String, usize)| {
        let name = name.clone();
        async move {
            match ready {
                None => mirrors.begin(worker, &name).await,
                Some(ready) => mirrors.set_ready(worker, &name, ready).await,
            }
        }
    };
    changes.for_each_concurrent(IN_FLIGHT, change).await;
    mirrors.timeline.until(Stage::Active).await;
}

async fn count_instructions(arguments: &Arguments, world: &World, mirrors: &Mirrors, names: &[String]) -> u64 {
    let dispatcher = Dispatcher::start(world, &arguments.jobferry, Under::Callgrind);
    dispatcher.until_steady(world.workers.len(), names.len()).await;
    dispatcher.until_idle().await;
    let changed = sample(names, COUNTED_EVENTS);
    // Connections are opened as they are needed; the first round would count their handshakes.
    change(mirrors, &changed, Some(2)).await;
    tell_callgrind(&dispatcher, "--instr=on");
    change(mirrors, &changed, Some(1)).await;
    // Not switched off, which would forget the sum.
    tell_callgrind(&dispatcher, "--dump");
    let out = fs::read_to_string(world.file("callgrind.out.1")).unwrap();
    dispatcher.process.stop();
    let total = out.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: "))).unwrap();
    let total: u64 = total.trim().parse().unwrap();
    assert!(total > 0, "callgrind counted nothing");
    total / changed.len() as u64
}

fn tell_callgrind(dispatcher: &Dispatcher, what: &str) {
    let mut control = Command::new("callgrind_control");
    let done = control.args([what, &dispatcher.process.id().to_string()]).output().unwrap();
    assert!(done.status.success(), "callgrind_control: {}", String::from_utf8_lossy(&done.stderr));
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} Jobs, {} workers: {:.0} placed/s at {:.2} ms CPU; start {:.2} s, {} writes, {} MiB; event {:.3} ms CPU, {}",
            self.jobs,
            self.workers,
            self.placed_per_second,
            self.cpu_per_job.as_secs_f64() * 1000.0,
            self.start.as_secs_f64(),
            self.start_writes,
            self.memory / 1024 / 1024,
            self.cpu_per_event.as_secs_f64() * 1000.0,
            self.event,
        )?;
        match self.instructions_per_event {
            Some(count) => write!(f, ", {count} instructions"),
            None => Ok(()),
        }
    }
}
