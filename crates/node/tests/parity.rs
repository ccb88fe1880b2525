//! Our Job controller on our API server ends every scenario as the built-in controller of a real cluster does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod life_cycles;
#[path = "processes/setting.rs"]
mod setting;

use libtest_mimic::{Arguments, Failed, Trial};
use life_cycles::{Stage, all, differences, recorded};

fn main() {
    if jobferry_node::enter_if_asked() {
        return;
    }
    let trial = Trial::test("every_job_ends_on_an_embedded_cluster_as_on_a_real_one", || {
        let runtime = tokio::runtime::Runtime::new().map_err(Failed::from)?;
        let found = runtime.block_on(async {
            let cluster = setting::Embedded::start();
            Stage::new(cluster.client.clone(), None, cluster.directory.path().to_owned()).play(all()).await
        });
        let differences = differences(&recorded(), &found);
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n").into()) }
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit();
}
