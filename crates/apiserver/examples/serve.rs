//! A bare API server for kubectl: `cargo run -p jobferry-apiserver --example serve -- /tmp/kubeconfig`.
//!
//! It has no controllers: Jobs are stored and validated, nobody runs them.

use std::error::Error;

use jobferry_apiserver::{ApiServer, Credentials, Options};
use k8s_openapi::jiff::Timestamp;
use tokio::net::TcpListener;

#[tokio::main]
// The one place where the real clock is read.
#[allow(clippy::disallowed_methods)]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: serve FILE (the kubeconfig is written there)")?;
    let server = ApiServer::new(Options::new(Timestamp::now, Timestamp::now().as_microsecond().unsigned_abs()));
    let credentials = Credentials::generate()?;
    let serving = server.serve(TcpListener::bind("127.0.0.1:0").await?, &credentials)?;
    tokio::fs::write(&path, credentials.access(serving.address()).kubeconfig("embedded")).await?;
    tokio::signal::ctrl_c().await?;
    serving.shutdown().await;
    Ok(())
}
