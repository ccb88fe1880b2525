//! `jobferry dispatcher` as a process, and what it tells of itself.

use std::{net::TcpListener, path::Path, process::Command, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::{measure::process::Process, world::World};

/// Between two questions. Each costs the dispatcher a look at its workers.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Nobody who still has something to do is idle for so long.
const IDLE_FOR: Duration = Duration::from_secs(10);
/// A dispatcher that is not steady by then never will be.
const STEADY_WITHIN: Duration = Duration::from_mins(20);

pub(crate) struct Dispatcher {
    pub(crate) process: Process,
    port: u16,
}

/// What runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Under {
    /// The machine itself.
    Nothing,
    /// A simulated CPU that counts instructions once it is told to.
    Callgrind,
}

impl Dispatcher {
    pub(crate) fn start(world: &World, jobferry: &Path, under: Under) -> Self {
        // Free a moment ago; nobody else here asks for ports.
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let mut command = match under {
            Under::Nothing => Command::new(jobferry),
            Under::Callgrind => {
                let mut command = Command::new("valgrind");
                let out = format!("--callgrind-out-file={}", world.file("callgrind.out").display());
                command.args(["--tool=callgrind", "--instr-atstart=no", &out]).arg(jobferry);
                command
            }
        };
        command.args(["dispatcher", "--metrics-address", &format!("127.0.0.1:{port}"), "--kubeconfig"]);
        command.arg(world.kubeconfig());
        Self { process: Process::start(command, world.file("dispatcher.log")), port }
    }

    /// Waits until it leads, all workers are connected, it knows of so many unfinished Jobs, and nothing waits for its turn.
    pub(crate) async fn until_steady(&self, workers: usize, unfinished: usize) {
        let deadline = Instant::now() + STEADY_WITHIN;
        loop {
            let text = self.metrics().await.unwrap_or_default();
            let sum = |name: &str| {
                let values = text.lines().filter(|line| line.starts_with(name));
                values.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum::<usize>()
            };
            let known = (sum("jobferry_worker_up{"), sum("jobferry_worker_unfinished{"));
            let busy = sum("jobferry_queue_depth{") + sum("jobferry_worker_unacknowledged{");
            if known == (workers, unfinished) && busy == 0 {
                return;
            }
            let log =
                || self.process.log().chars().rev().take(2000).collect::<String>().chars().rev().collect::<String>();
            assert!(
                Instant::now() < deadline,
                "not steady: {known:?} of {workers}, {unfinished}, busy {busy}: {}",
                log()
            );
            sleep(ASK_EVERY).await;
        }
    }

    /// Waits until it has done nothing for a while. Who is slowed down still takes in its lists when nothing waits any more.
    pub(crate) async fn until_idle(&self) {
        loop {
            let before = self.process.cpu();
            sleep(IDLE_FOR).await;
            if self.process.cpu_since(before) < IDLE_FOR / 20 {
                return;
            }
        }
    }

    async fn metrics(&self) -> Option<String> {
        let exchange = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await.ok()?;
            Some(text)
        };
        timeout(Duration::from_secs(5), exchange).await.ok()?
    }
}
