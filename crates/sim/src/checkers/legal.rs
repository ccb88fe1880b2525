//! legal: the API server never rejects a status that we write.

use super::{Checker, Seen, Violation};
use crate::truth::{Role, Truth};

pub(super) struct Legal;

impl Checker for Legal {
    fn see(&mut self, seen: &Seen<'_>, _: &Truth) -> Vec<Violation> {
        let Seen::Asked(exchange) = seen else { return Vec::new() };
        if exchange.role != Role::Dispatcher || exchange.code != 422 || !exchange.path.ends_with("/status") {
            return Vec::new();
        }
        let body = String::from_utf8_lossy(&exchange.body);
        let what = format!("{} wrote a status that was rejected: {} {body}", exchange.who, exchange.path);
        let name = exchange.path.trim_end_matches("/status").rsplit('/').next().unwrap_or_default();
        vec![Violation { promise: "legal", about: vec![format!("/{name}")], what }]
    }
}
