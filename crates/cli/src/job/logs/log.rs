//! The log of one run of a container. A stream that breaks off is taken up where it broke: no line is lost, none is
//! printed twice.

use std::{pin::pin, time::Duration};

use bytes::BytesMut;
use futures::StreamExt;
use http::Request;
use http_body_util::BodyExt;
use jobferry_kubeio::{self as kubeio, CallError};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{Client, client::Body};
use tokio_util::sync::CancellationToken;

use super::pods::{self, Run, Stage};
use crate::install::DEADLINE;

/// Before a stream that broke off is opened anew.
const PAUSE: Duration = Duration::from_millis(500);
/// How often a log that has ended may break off before it is given up.
const TRIES: u32 = 5;
/// After the end of the Job no container writes any more: a stream that is silent for so long will not end by itself.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(5);

/// A run of a container, and where its log is.
pub(super) struct Log {
    pub(super) cluster: Client,
    pub(super) namespace: String,
    pub(super) run: Run,
}

/// Why a log, or the rest of it, could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the log of pod {pod}, container {container}, cannot be read{}: {why}", if *.begun { " to its end" } else { "" })]
pub(super) struct Lost {
    pod: String,
    container: String,
    begun: bool,
    why: String,
}

/// Why a stream did not come to its end.
enum Broken {
    /// It may be opened again.
    Off(String),
    /// The cluster will not give it.
    Refused(String),
}

impl Log {
    /// All that is there now.
    pub(super) async fn copy(&self, print: impl FnMut(&str)) -> Result<(), Lost> {
        let mut copying = Copying { log: self, place: Place::default(), print, breaks: 0, told: false };
        while !copying.all_there_is(false).await? {}
        Ok(())
    }

    /// All that is there, and all that comes until the container ends. A cluster that does not answer is waited for as long
    /// as the Job goes on.
    pub(super) async fn follow(&self, job_ended: &CancellationToken, print: impl FnMut(&str)) -> Result<(), Lost> {
        let mut copying = Copying { log: self, place: Place::default(), print, breaks: 0, told: false };
        loop {
            let stage = if job_ended.is_cancelled() { Ok(Stage::Ended) } else { self.stage().await };
            match stage {
                // What it wrote until then has come, or will not come any more.
                Ok(Stage::Gone) if copying.breaks == 0 => return Ok(()),
                Ok(Stage::Gone) => return Err(self.lost(copying.place.begun(), "the pod is gone".into())),
                Ok(Stage::Running) => copying.while_it_comes(job_ended).await?,
                Ok(Stage::Ended) if copying.all_there_is(false).await? => return Ok(()),
                Ok(Stage::Replaced) if copying.all_there_is(true).await? => return Ok(()),
                Ok(Stage::Ended | Stage::Replaced) => {}
                Err(error) => copying.tell(&error.to_string()),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Where the run stands now.
    async fn stage(&self) -> Result<Stage, CallError> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", self.namespace, self.run.pod);
        match kubeio::get::<Pod>(&self.cluster, &path, DEADLINE).await {
            Err(error) if error.is_not_found() => Ok(Stage::Gone),
            // Who may read logs but not pods is told by the stream itself.
            Err(error) if error.refusal().is_some_and(|refusal| refusal.code == 403) => Ok(Stage::Running),
            read => read.map(|pod| pods::stage(&pod, &self.run)),
        }
    }

    fn path(&self, follow: bool, previous: bool, since: Option<Timestamp>) -> String {
        let Run { pod, container, .. } = &self.run;
        // Servers know whole seconds here; what was printed of the last one is left out by its time.
        let since = since.map(|time| format!("&sinceTime={}", time.strftime("%Y-%m-%dT%H:%M:%SZ")));
        format!(
            "/api/v1/namespaces/{}/pods/{pod}/log?container={container}&follow={follow}&previous={previous}\
             &timestamps=true{}",
            self.namespace,
            since.unwrap_or_default()
        )
    }

    fn lost(&self, begun: bool, why: String) -> Lost {
        Lost { pod: self.run.pod.clone(), container: self.run.container.clone(), begun, why }
    }
}

/// A log that is being printed.
struct Copying<'a, P> {
    log: &'a Log,
    place: Place,
    print: P,
    /// How often the stream broke off in a row.
    breaks: u32,
    told: bool,
}

impl<P: FnMut(&str)> Copying<'_, P> {
    /// From where we are to the end of what is there. Returns whether that was reached.
    async fn all_there_is(&mut self, previous: bool) -> Result<bool, Lost> {
        match self.stream(false, previous, None).await {
            Ok(()) => Ok(true),
            Err(Broken::Off(_)) if self.breaks < TRIES => {
                self.breaks += 1;
                tokio::time::sleep(PAUSE).await;
                Ok(false)
            }
            Err(Broken::Off(why) | Broken::Refused(why)) => Err(self.log.lost(self.place.begun(), why)),
        }
    }

    /// From where we are until the stream ends or breaks off: which of the two, the pod tells.
    async fn while_it_comes(&mut self, job_ended: &CancellationToken) -> Result<(), Lost> {
        match self.stream(true, false, Some(job_ended)).await {
            Ok(()) => self.breaks = 0,
            Err(Broken::Off(why)) => {
                self.breaks += 1;
                self.tell(&why);
            }
            Err(Broken::Refused(why)) => return Err(self.log.lost(self.place.begun(), why)),
        }
        Ok(())
    }

    /// Says once that something is waited for.
    fn tell(&mut self, why: &str) {
        if !std::mem::replace(&mut self.told, true) {
            eprintln!("the log of pod {} breaks off, trying again: {why}", self.log.run.pod);
        }
    }

    async fn stream(
        &mut self,
        follow: bool,
        previous: bool,
        job_ended: Option<&CancellationToken>,
    ) -> Result<(), Broken> {
        let off = |error: &dyn std::fmt::Display| Broken::Off(error.to_string());
        let request = Request::get(self.log.path(follow, previous, self.place.resume()));
        let request = request.body(Body::empty()).map_err(|error| Broken::Refused(error.to_string()))?;
        let answer = tokio::time::timeout(DEADLINE, self.log.cluster.send(request)).await;
        let answer = answer.map_err(|error| off(&error))?.map_err(|error| off(&error))?;
        let status = answer.status();
        if !status.is_success() {
            let why = format!("the cluster answers {status}");
            let passing = status.is_server_error() || status == http::StatusCode::TOO_MANY_REQUESTS;
            return Err(if passing { Broken::Off(why) } else { Broken::Refused(why) });
        }
        let mut body = pin!(answer.into_body().into_data_stream());
        let mut rest = BytesMut::new();
        loop {
            let chunk = tokio::select! {
                chunk = body.next() => chunk,
                () = silence(job_ended) => return Err(Broken::Off("it does not end".into())),
            };
            let Some(chunk) = chunk else { break };
            rest.extend_from_slice(&chunk.map_err(|error| off(&error))?);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                self.line(&rest.split_to(end + 1)[..end]);
            }
        }
        // The last line of a log need not end. One that a broken stream cut off comes again.
        if !rest.is_empty() && !follow {
            self.line(&rest);
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) {
        if let Some(text) = self.place.pass(line) {
            (self.print)(&String::from_utf8_lossy(text));
            self.breaks = 0;
        }
    }
}

/// Ends when nothing more is to be expected: some time after the Job, if it is known to end, else as for every answer.
async fn silence(job_ended: Option<&CancellationToken>) {
    match job_ended {
        Some(ended) => {
            ended.cancelled().await;
            tokio::time::sleep(LAST_LINES_WITHIN).await;
        }
        None => tokio::time::sleep(DEADLINE).await,
    }
}

/// How far a log was printed: up to its last time, and so many lines of that time.
#[derive(Default)]
struct Place {
    last: Option<Timestamp>,
    lines_of_last: usize,
    /// Lines of the last time that come once more, in a stream that was opened anew.
    to_skip: usize,
    behind: bool,
}

impl Place {
    const fn begun(&self) -> bool {
        self.last.is_some()
    }

    /// Where the next stream has to begin.
    const fn resume(&mut self) -> Option<Timestamp> {
        (self.to_skip, self.behind) = (self.lines_of_last, self.last.is_some());
        self.last
    }

    /// The text of a line, `TIME TEXT`, unless it was printed already.
    fn pass<'a>(&mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        let space = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let time = std::str::from_utf8(&line[..space]).ok().and_then(|time| time.parse::<Timestamp>().ok());
        let Some(time) = time else { return Some(line) };
        let text = line.get(space + 1..).unwrap_or_default();
        match self.last {
            Some(last) if self.behind && time < last => return None,
            Some(last) if self.behind && time == last && self.to_skip > 0 => {
                self.to_skip -= 1;
                return None;
            }
            Some(last) if time <= last => self.lines_of_last += usize::from(time == last),
            _ => (self.last, self.lines_of_last, self.behind) = (Some(time), 1, false),
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests;
