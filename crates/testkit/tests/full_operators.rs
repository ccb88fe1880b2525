//! The operators of the other kinds, as they were released, on the manager and on a worker: one life for all of them.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use futures::future::try_join_all;
use jobferry_testkit::{
    Operator, RealCluster, RealFleet,
    fleet::Fleet,
    operator::{
        APPWRAPPER, JOBSET, KUBERAY, MPI_OPERATOR, Program, TEKTON, TRAINER, TRAINER_2_2, TRAINING_OPERATOR,
        TRAINING_OPERATOR_WITH_JAX,
    },
    scenarios::{self, Specimen},
};
use tokio::sync::Mutex;

/// Held by the test whose clusters run: two API servers with many definitions are enough for one machine.
static TURN: Mutex<()> = Mutex::const_new(());

async fn start(programs: &[Program], cluster: &RealCluster) -> Vec<Operator> {
    let mut operators = Vec::new();
    for program in programs {
        operators.push(Operator::start(program, cluster).await.unwrap());
    }
    operators
}

async fn dispatched(clusters: &RealFleet) -> Fleet {
    let fleet = clusters.undispatched_with_kinds().await.unwrap();
    fleet.start_dispatcher().await;
    fleet
}

/// The operators of the manager and of the worker run at once.
async fn live(specimens: &[&str], programs: &[Program]) {
    let _turn = TURN.lock().await;
    let clusters = RealFleet::start(&["manager", "worker"]).await.unwrap();
    let _operators = tokio::join!(start(programs, clusters.manager()), start(programs, &clusters.workers()[0]));
    let fleet = dispatched(&clusters).await;
    let lives = specimens.iter().map(async |text| {
        let specimen = Specimen::read(text);
        tokio::try_join!(
            scenarios::it_is_left_alone_on_the_manager(&fleet, &specimen),
            scenarios::it_lives_on_its_worker(&fleet, &specimen),
        )
    });
    try_join_all(lives).await.unwrap();
}

/// The same for an operator of which a machine has room for one: first on the manager, then on the worker.
async fn live_in_turns(specimens: &[&str], program: Program) {
    let _turn = TURN.lock().await;
    let clusters = RealFleet::start(&["manager", "worker"]).await.unwrap();
    let worker = &clusters.workers()[0];
    Operator::install(&program, worker).await.unwrap();
    let operator = start(&[program], clusters.manager()).await;
    let fleet = dispatched(&clusters).await;
    let specimens: Vec<Specimen> = specimens.iter().map(|text| Specimen::read(text)).collect();
    let left_alone = specimens.iter().map(|specimen| scenarios::it_is_left_alone_on_the_manager(&fleet, specimen));
    try_join_all(left_alone).await.unwrap();
    drop(operator);
    let _operator = start(&[program], worker).await;
    let lives = specimens.iter().map(|specimen| scenarios::it_lives_on_its_worker(&fleet, specimen));
    try_join_all(lives).await.unwrap();
}

macro_rules! specimen {
    ($name:literal) => {
        include_str!(concat!("../specimens/", $name, ".yaml"))
    };
}

/// What is wrong in the form of one is told in every run of the tests, not only in the long ones.
#[test]
fn every_specimen_can_be_read() {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/specimens")).unwrap();
    let specimens = files.map(|file| Specimen::read(&std::fs::read_to_string(file.unwrap().path()).unwrap()));
    assert!(specimens.count() >= 14);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
async fn kinds_of_the_training_operator() {
    let specimens = [specimen!("pytorchjob"), specimen!("tfjob"), specimen!("xgboostjob"), specimen!("paddlejob")];
    live(&specimens, &[TRAINING_OPERATOR]).await;
}

/// The training operator does not look at `managedBy` of a JAXJob: on the manager it must not run this kind.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
async fn a_jax_job() {
    let _turn = TURN.lock().await;
    let clusters = RealFleet::start(&["manager", "worker"]).await.unwrap();
    let _operators = tokio::join!(
        start(&[TRAINING_OPERATOR], clusters.manager()),
        start(&[TRAINING_OPERATOR_WITH_JAX], &clusters.workers()[0])
    );
    let fleet = dispatched(&clusters).await;
    scenarios::it_lives_on_its_worker(&fleet, &Specimen::read(specimen!("jaxjob"))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
async fn an_app_wrapper() {
    live(&[specimen!("appwrapper")], &[APPWRAPPER]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
async fn a_train_job() {
    live(&[specimen!("trainjob")], &[JOBSET, TRAINER]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
async fn an_mpi_job() {
    live_in_turns(&[specimen!("mpijob")], MPI_OPERATOR).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
async fn kinds_of_tekton() {
    live_in_turns(&[specimen!("taskrun"), specimen!("pipelinerun")], TEKTON).await;
}

/// What is in their pods is not Ray, so a dashboard of ours says how jobs and applications get on.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
async fn kinds_of_ray() {
    live(&[specimen!("rayjob"), specimen!("raycluster"), specimen!("rayservice")], &[KUBERAY]).await;
}

/// The manager's operator runs what is handed over. `other` is of a kind of which it does not.
async fn contested(specimen: &str, other: &str, programs: &[Program]) {
    let _turn = TURN.lock().await;
    let clusters = RealFleet::start(&["manager", "worker"]).await.unwrap();
    let _operators = tokio::join!(start(programs, clusters.manager()), start(programs, &clusters.workers()[0]));
    let fleet = dispatched(&clusters).await;
    let (specimen, other) = (Specimen::read(specimen), Specimen::read(other));
    scenarios::it_is_noticed_that_the_manager_runs_it(&fleet, &specimen, &other).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
async fn a_jax_job_that_the_operator_of_the_manager_runs_is_noticed() {
    contested(specimen!("jaxjob"), specimen!("pytorchjob"), &[TRAINING_OPERATOR_WITH_JAX]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real Kubernetes: cargo xtask test --full"]
async fn a_train_job_that_an_old_operator_of_the_manager_runs_is_noticed() {
    contested(specimen!("trainjob"), specimen!("jobset"), &[JOBSET, TRAINER_2_2]).await;
}
