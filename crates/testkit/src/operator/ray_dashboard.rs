//! The dashboard of Ray clusters that run nothing: what becomes of a job is what its entrypoint says, and every application
//! that is to be served runs.
//!
//! The operator of Ray asks the dashboard in every cluster's head pod. Nothing runs in these pods, so it is told to send
//! all plain HTTP through a proxy, and the proxy is this.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// The entrypoints by the ids of their jobs.
type Jobs = Arc<Mutex<BTreeMap<String, String>>>;
/// What is to be served, by the address of the cluster that was told so.
type Served = Arc<Mutex<BTreeMap<String, Vec<Application>>>>;

/// Which applications a cluster is to serve, and no others.
#[derive(Deserialize)]
struct ServeConfig {
    applications: Vec<Application>,
}

#[derive(Deserialize)]
struct Application {
    name: String,
}

/// Answers until it is dropped.
pub(super) struct RayDashboard {
    _serving: AbortOnDropHandle<()>,
}

impl RayDashboard {
    pub(super) async fn start(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let jobs = Router::new()
            .route("/api/jobs/", post(submit))
            .route("/api/jobs/{id}", get(show))
            .route("/api/jobs/{id}/stop", post(stop))
            .with_state(Jobs::default());
        let served =
            Router::new().route("/api/serve/applications/", get(applications).put(serve)).with_state(Served::default());
        let router = jobs.merge(served);
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "a Ray dashboard ended");
            }
        });
        Ok(Self { _serving: AbortOnDropHandle::new(serving) })
    }
}

async fn submit(State(jobs): State<Jobs>, body: String) -> Result<String, StatusCode> {
    let request: Value = serde_json::from_str(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let text = |field: &str| request[field].as_str().map(str::to_owned).ok_or(StatusCode::BAD_REQUEST);
    let (id, entrypoint) = (text("submission_id")?, text("entrypoint")?);
    jobs.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), entrypoint);
    Ok(json!({"job_id": id}).to_string())
}

async fn show(State(jobs): State<Jobs>, Path(id): Path<String>) -> Result<String, StatusCode> {
    let entrypoint = jobs.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
    let entrypoint = entrypoint.ok_or(StatusCode::NOT_FOUND)?;
    let status = match entrypoint.as_str() {
        "succeed" => "SUCCEEDED",
        "fail" => "FAILED",
        _ => "RUNNING",
    };
    let end = if status == "RUNNING" { 0 } else { 2000 };
    Ok(json!({
        "job_id": id, "submission_id": id, "entrypoint": entrypoint, "status": status, "message": "as its entrypoint says",
        "start_time": 1000, "end_time": end,
    })
    .to_string())
}

async fn stop() -> String {
    json!({"stopped": true}).to_string()
}

async fn serve(State(served): State<Served>, headers: HeaderMap, body: String) -> Result<(), StatusCode> {
    let config: ServeConfig = serde_json::from_str(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    served.lock().unwrap_or_else(PoisonError::into_inner).insert(address(&headers)?, config.applications);
    Ok(())
}

async fn applications(State(served): State<Served>, headers: HeaderMap) -> Result<String, StatusCode> {
    let address = address(&headers)?;
    let served = served.lock().unwrap_or_else(PoisonError::into_inner);
    let running = served.get(&address).into_iter().flatten().map(|Application { name }| {
        (name.clone(), json!({"name": name, "status": "RUNNING", "message": "as all here", "deployments": {}}))
    });
    Ok(json!({"applications": running.collect::<Map<_, _>>()}).to_string())
}

/// A proxy is asked for many clusters.
fn address(headers: &HeaderMap) -> Result<String, StatusCode> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host.map(str::to_owned).ok_or(StatusCode::BAD_REQUEST)
}
