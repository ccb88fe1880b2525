//! In which order the containers of a pod run.
//!
//! ```text
//!   init 1 ─► sidecar ─► init 2 ─► all main containers ─► the end
//!                └──────────── runs beside them ───────────┘ stopped when they have ended
//! ```

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::sync::watch;

use crate::{
    NodeContext,
    board::{Board, Place},
    container::{Surroundings, Wish},
    pod::grace_of,
    status::{ContainerRun, RestartPolicy},
    volumes,
};

/// Whether an init container runs beside the others instead of before them.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Makes the volumes and runs all containers to their end.
pub(crate) async fn run(
    context: &Arc<NodeContext>,
    pod: &Pod,
    board: &Board,
    directory: PathBuf,
    wishes: watch::Receiver<Wish>,
) {
    let places = match volumes::prepare(&context.client, pod, &context.address, &directory.join("volumes")).await {
        Ok(places) => places,
        Err(error) => {
            board.update(|run| run.failure = Some(("VolumesNotReady".to_owned(), error.to_string())));
            return;
        }
    };
    Sequence { context, pod, board, directory, places: &places }.run(wishes).await;
}

struct Sequence<'a> {
    context: &'a Arc<NodeContext>,
    pod: &'a Pod,
    board: &'a Board,
    directory: PathBuf,
    places: &'a BTreeMap<String, PathBuf>,
}

impl Sequence<'_> {
    async fn run(&self, wishes: watch::Receiver<Wish>) {
        // How many init containers have had their turn to start.
        let (turn, turns) = watch::channel(0);
        let (sidecar_wish, sidecar_wishes) = watch::channel(Wish::Run);
        let sidecars = self
            .init_containers()
            .filter(|(_, container)| is_sidecar(container))
            .map(|(place, container)| self.run_sidecar(container, place, turns.clone(), sidecar_wishes.clone()));
        let others = async {
            if self.prepare(&turn, wishes.clone()).await {
                self.run_main(&wishes).await;
            }
            let grace = match *wishes.borrow() {
                Wish::Run => grace_of(self.pod),
                Wish::Stop(grace) => grace,
            };
            let _ = sidecar_wish.send(Wish::Stop(grace));
        };
        tokio::join!(others, join_all(sidecars));
    }

    fn init_containers(&self) -> impl Iterator<Item = (Place, &Container)> {
        let list = self.pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        list.enumerate().map(|(position, container)| (Place { init: true, position }, container))
    }

    /// Runs init containers one after the other, and lets sidecars start in between. Returns whether all went well.
    async fn prepare(&self, turn: &watch::Sender<usize>, mut wishes: watch::Receiver<Wish>) -> bool {
        // An init container that ended well is never run again, whatever the policy.
        let policy = match self.board.read().restart_policy {
            RestartPolicy::Never => RestartPolicy::Never,
            RestartPolicy::OnFailure | RestartPolicy::Always => RestartPolicy::OnFailure,
        };
        for (place, container) in self.init_containers() {
            let _ = turn.send(place.position + 1);
            let went_well = if is_sidecar(container) {
                let mut changes = self.board.subscribe();
                let started =
                    changes.wait_for(|run| run.init.get(place.position).is_none_or(ContainerRun::has_started));
                tokio::select! { biased;
                    _ = wishes.wait_for(|wish| *wish != Wish::Run) => false,
                    _ = started => true,
                }
            } else {
                self.around(policy).run(container, place, wishes.clone()).await
            };
            if !went_well {
                return false;
            }
        }
        true
    }

    async fn run_main(&self, wishes: &watch::Receiver<Wish>) {
        let around = self.around(self.board.read().restart_policy);
        let containers = self.pod.spec.iter().flat_map(|spec| &spec.containers).enumerate();
        let run = |(position, container)| around.run(container, Place { init: false, position }, wishes.clone());
        join_all(containers.map(run)).await;
    }

    async fn run_sidecar(
        &self,
        container: &Container,
        place: Place,
        mut turns: watch::Receiver<usize>,
        mut wishes: watch::Receiver<Wish>,
    ) {
        let its_turn = tokio::select! { biased;
            _ = wishes.wait_for(|wish| *wish != Wish::Run) => false,
            _ = turns.wait_for(|turn| *turn > place.position) => true,
        };
        if its_turn {
            self.around(RestartPolicy::Always).run(container, place, wishes).await;
        }
    }

    fn around(&self, policy: RestartPolicy) -> Surroundings<'_> {
        let directory = self.directory.clone();
        Surroundings {
            context: self.context,
            pod: self.pod,
            directory,
            volumes: self.places,
            board: self.board,
            policy,
        }
    }
}
