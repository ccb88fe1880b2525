//! own-only: no object without our origin and UID mark is changed or deleted; every delete carries a UID, every patch of a
//! mirror UID and resourceVersion.

use http::Method;
use serde_json::Value;

use super::{Checker, Seen, Violation};
use crate::etl;
use crate::hub::Exchange;
use crate::truth::{Role, Truth, is_manager};

pub(super) struct OwnOnly;

impl Checker for OwnOnly {
    fn see(&mut self, seen: &Seen<'_>, truth: &Truth) -> Vec<Violation> {
        let Seen::Asked(exchange) = seen else { return Vec::new() };
        if exchange.role != Role::Dispatcher {
            return Vec::new();
        }
        let Some(what) = wrong(exchange, truth) else { return Vec::new() };
        let what = format!("{} {} {} on {}: {what}", exchange.who, exchange.method, exchange.path, exchange.cluster);
        vec![Violation { promise: "own-only", about: vec![exchange.path.clone()], what }]
    }
}

fn wrong(exchange: &Exchange, truth: &Truth) -> Option<&'static str> {
    let is_job = ["/apis/batch/v1/", etl::GROUP].iter().any(|group| exchange.path.starts_with(group));
    if exchange.method == Method::DELETE && is_job {
        let options: Value = serde_json::from_slice(&exchange.body).unwrap_or_default();
        if options["preconditions"]["uid"].as_str().unwrap_or_default().is_empty() {
            return Some("a delete without a UID");
        }
    }
    if exchange.method == Method::PATCH && is_job && !is_manager(&exchange.cluster) {
        let patch: Value = serde_json::from_slice(&exchange.body).unwrap_or_default();
        let says = |field: &str| patch["metadata"][field].as_str().is_some_and(|said| !said.is_empty());
        if !says("uid") || !says("resourceVersion") {
            return Some("a patch without UID and resourceVersion");
        }
    }
    if !exchange.succeeded() || exchange.method == Method::POST || !is_job {
        return None;
    }
    let target = exchange.target.as_ref()?;
    if is_manager(&exchange.cluster) {
        return (!target.is_workload).then_some("a Job that is not delegated to us");
    }
    (!truth.belongs_to(target, &exchange.home)).then_some("a Job without the marks of its manager")
}
