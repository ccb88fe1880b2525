use std::time::Duration;

use jobferry_api::managed_by;
use jobferry_kubeio::Refusal;
use serde_json::json;

use super::*;

fn refused(code: u16) -> CallError {
    CallError::Refused(Refusal { code, reason: String::new(), message: String::new(), name: String::new() })
}

fn eu_1() -> WorkerStanding {
    WorkerStanding { name: "eu-1".into(), up: true, unfinished: 3, queue: 2, ..WorkerStanding::default() }
}

#[tokio::test(start_paused = true)]
async fn the_stages_of_a_workload_are_timed() {
    let metrics = Metrics::default();
    let job = json!({
        "metadata": {"namespace": "ml", "name": "train", "uid": "a", "resourceVersion": "1"},
        "spec": {"managedBy": managed_by::DISPATCHER, "template": {}},
    });
    metrics.seen(&serde_json::from_value(job).unwrap());
    tokio::time::advance(Duration::from_millis(20)).await;
    metrics.placed("a", "eu-1");
    tokio::time::advance(Duration::from_millis(300)).await;
    metrics.mirrored("a");
    metrics.mirror_changed("a");
    tokio::time::advance(Duration::from_millis(7)).await;
    metrics.status_copied("a", "eu-1");
    let text = metrics.exposition(&Standing::default());
    for line in [
        r#"jobferry_stage_duration_seconds_bucket{le="0.01",stage="placed"} 0"#,
        r#"jobferry_stage_duration_seconds_bucket{le="0.025",stage="placed"} 1"#,
        r#"jobferry_stage_duration_seconds_bucket{le="0.5",stage="mirrored"} 1"#,
        r#"jobferry_status_lag_seconds_bucket{le="0.01",worker="eu-1"} 1"#,
        r#"jobferry_placements_total{worker="eu-1"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[test]
fn failed_writes_are_told_apart_by_what_is_known_of_them() {
    let metrics = Metrics::default();
    for error in [refused(409), refused(422), refused(403), CallError::Deadline(Duration::from_secs(1))] {
        metrics.manager_write_failed(&error);
        metrics.worker_write_failed("eu-1", &error);
    }
    let text = metrics.exposition(&Standing::default());
    for outcome in ["conflict", "invalid", "refused", "unknown"] {
        let of_manager = format!(r#"jobferry_manager_writes_failed_total{{outcome="{outcome}"}} 1"#);
        let of_worker = format!(r#"jobferry_worker_writes_failed_total{{worker="eu-1",outcome="{outcome}"}} 1"#);
        assert!(text.contains(&of_manager) && text.contains(&of_worker), "{outcome} is missing in\n{text}");
    }
}

#[test]
fn a_scrape_shows_how_things_stand_and_forgets_removed_workers() {
    let metrics = Metrics::default();
    let standing =
        Standing { leads: true, waiting: 4, workers: vec![eu_1()], events_dropped: 5, ..Standing::default() };
    let text = metrics.exposition(&standing);
    for line in [
        "jobferry_leader 1",
        "jobferry_halted 0",
        "jobferry_workloads_waiting 4",
        r#"jobferry_worker_up{worker="eu-1"} 1"#,
        r#"jobferry_worker_unfinished{worker="eu-1"} 3"#,
        r#"jobferry_queue_depth{lane="worker",worker="eu-1"} 2"#,
        "jobferry_events_dropped_total 5",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    let text = metrics.exposition(&Standing { events_dropped: 7, ..Standing::default() });
    assert!(!text.contains("eu-1") && text.contains("jobferry_leader 0"), "{text}");
    assert!(text.contains("jobferry_events_dropped_total 7"), "counters only rise by what is new:\n{text}");
}
