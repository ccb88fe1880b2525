//! Keeps the [canary](jobferry_core::canary) and heeds what it tells.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use jobferry_api::events as reasons;
use jobferry_core::{
    canary::{self, Canary, NAME, Verdict},
    halts::Halt,
    time::WRITE_DEADLINE,
};
use jobferry_kubeio::{
    self as kubeio, CallError, Collection, Event,
    events::{Happening, Severity},
};

use crate::{Shared, events::about_job, paths};

/// After a failure to create the canary. Nothing is placed without one.
const CREATE_AGAIN: Duration = Duration::from_secs(10);
/// A Job controller acts on a new Job within milliseconds; one that is busy gets a little longer.
const TIME_TO_ACT: Duration = Duration::from_secs(3);

/// Keeps a canary in `namespace` and watches it for ever. Nothing is placed before it has told something.
pub(crate) async fn keep(shared: Arc<Shared>, namespace: String) {
    let canaries = Collection::new(paths::jobs(&namespace), |canary: &Canary| &canary.metadata.resource_version)
        .fields(format!("metadata.name={NAME}"))
        .seed(shared.options.seed);
    let mut events = std::pin::pin!(kubeio::watch(shared.manager.clone(), canaries));
    let mut judged = None;
    while let Some(event) = events.next().await {
        let canary = match event {
            Event::Reset(canaries) => canaries.into_iter().next(),
            Event::Applied(canary) => Some(canary),
            Event::Deleted(_) => None,
            Event::Interrupted(_) | Event::Resumed => continue,
        };
        let canary = match canary {
            Some(canary) => canary,
            None => hatch(&shared, &namespace).await,
        };
        let verdict = Verdict::of(&canary);
        if judged.as_ref().is_none_or(|before| verdict.is_news_after(before)) {
            heed(&shared, &namespace, &verdict);
            judged = Some(verdict);
        }
    }
}

/// Creates a canary, and looks at it after it had the time to be acted on.
async fn hatch(shared: &Shared, namespace: &str) -> Canary {
    let body = canary::body(namespace).to_string();
    loop {
        match try_to_hatch(shared, namespace, body.clone().into_bytes()).await {
            Ok(canary) => return canary,
            Err(error) => {
                tracing::error!(namespace, %error, "there is no canary: nothing is placed");
                let why = format!(
                    "it is not known whether this cluster leaves delegated Jobs alone: the Job {namespace}/{NAME}, \
                     which would show it, cannot be created: {error}"
                );
                shared.lanes.plan_all(shared.index.heed_canary(Some(Halt::Because(why))));
            }
        }
        tokio::time::sleep(CREATE_AGAIN).await;
    }
}

async fn try_to_hatch(shared: &Shared, namespace: &str, body: Vec<u8>) -> Result<Canary, CallError> {
    if shared.leadership.holds() {
        match kubeio::create(&shared.manager, &paths::jobs(namespace), body, WRITE_DEADLINE).await {
            Err(error) if !error.is_already_exists() => return Err(error),
            _ => tokio::time::sleep(TIME_TO_ACT).await,
        }
    }
    kubeio::get(&shared.manager, &paths::job(namespace, NAME), WRITE_DEADLINE).await
}

fn heed(shared: &Shared, namespace: &str, verdict: &Verdict) {
    match verdict.why {
        None => tracing::info!("delegated Jobs are left alone: work may be placed"),
        Some(why) => {
            tracing::error!(why, "placing is halted; what runs goes on");
            let reason = reasons::DELEGATION_BROKEN.into();
            let happening = Happening { severity: Severity::Warning, reason, message: why.into() };
            shared.recorder.tell(about_job(namespace, NAME, &verdict.uid), happening);
        }
    }
    let halt = verdict.why.map(|why| Halt::Because(why.to_owned()));
    shared.lanes.plan_all(shared.index.heed_canary(halt));
}
