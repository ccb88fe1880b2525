//! What a scraper and a kubelet ask of a controller: `/metrics`, `/livez`, `/readyz`.

use std::sync::Arc;

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use http::header::CONTENT_TYPE;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The text exposition that Prometheus asks for first.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A process that can be asked how it is.
pub trait Observed: Send + Sync + 'static {
    /// All metrics, as OpenMetrics text.
    fn metrics(&self) -> String;

    /// Whether it does its work or stands by to take it over; the error says what it still waits for.
    fn ready(&self) -> Result<&'static str, &'static str>;
}

/// Answers until `shutdown`. That it answers at all is what `/livez` says: the process is neither frozen nor starved.
pub async fn serve(
    listener: TcpListener,
    observed: Arc<dyn Observed>,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    axum::serve(listener, routes(observed)).with_graceful_shutdown(shutdown.cancelled_owned()).await
}

fn routes(observed: Arc<dyn Observed>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state(observed)
}

async fn metrics(State(observed): State<Arc<dyn Observed>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, OPEN_METRICS)], observed.metrics())
}

async fn ready(State(observed): State<Arc<dyn Observed>>) -> (StatusCode, String) {
    match observed.ready() {
        Ok(how) => (StatusCode::OK, format!("ok: {how}\n")),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use kube::{Client, client::Body};

    use super::*;

    struct Process(Result<&'static str, &'static str>);

    impl Observed for Process {
        fn metrics(&self) -> String {
            "up 1\n".into()
        }

        fn ready(&self) -> Result<&'static str, &'static str> {
            self.0
        }
    }

    async fn ask(process: Process, path: &str) -> (u16, String) {
        let client = Client::new(routes(Arc::new(process)), "default");
        let answer = client.send(http::Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        let code = answer.status().as_u16();
        (code, String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn each_question_has_its_answer() {
        for (process, path, code, text) in [
            (Process(Ok("leading")), "/livez", 200, "ok\n"),
            (Process(Err("listing")), "/livez", 200, "ok\n"),
            (Process(Ok("leading")), "/readyz", 200, "ok: leading\n"),
            (Process(Err("listing")), "/readyz", 503, "not ready: listing\n"),
            (Process(Ok("leading")), "/metrics", 200, "up 1\n"),
            (Process(Ok("leading")), "/secrets", 404, ""),
        ] {
            assert_eq!(ask(process, path).await, (code, text.to_owned()), "{path}");
        }
    }
}
