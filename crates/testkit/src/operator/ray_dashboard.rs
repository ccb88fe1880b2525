//! The dashboard of a Ray cluster that runs nothing: what becomes of a job is what its entrypoint says.
//!
//! The operator of Ray asks the dashboard in every cluster's head pod. Nothing runs in these pods, so it is told to send
//! all plain HTTP through a proxy, and the proxy is this.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// The entrypoints by the ids of their jobs.
type Jobs = Arc<Mutex<BTreeMap<String, String>>>;

/// Answers until it is dropped.
pub(super) struct RayDashboard {
    _serving: AbortOnDropHandle<()>,
}

impl RayDashboard {
    pub(super) async fn start(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let router = Router::new()
            .route("/api/jobs/", post(submit))
            .route("/api/jobs/{id}", get(show))
            .route("/api/jobs/{id}/stop", post(stop))
            .with_state(Jobs::default());
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
