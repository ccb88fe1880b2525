//! `/metrics`: requests by verb, resource and code; objects by resource.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use http::Method;

use crate::http::Target;
use crate::server::Inner;

/// Counts answered requests. Labels never hold names of objects, so their number stays small.
#[derive(Default)]
pub(crate) struct Requests(Mutex<BTreeMap<(Label, u16), u64>>);

/// What a request is counted under.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Label {
    method: String,
    resource: String,
}

impl Label {
    pub(crate) fn of(method: &Method, target: &Target) -> Self {
        let resource = match target {
            Target::Resource(path) if path.group.is_empty() => path.plural.clone(),
            Target::Resource(path) => format!("{}.{}", path.plural, path.group),
            _ => String::new(),
        };
        Self { method: method.to_string(), resource }
    }
}

impl Requests {
    pub(crate) fn count(&self, mut label: Label, code: u16) {
        if code == 404 {
            // Paths that lead nowhere are up to the client: they share one label.
            label.resource.clear();
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry((label, code)).or_default() += 1;
    }
}

impl Inner {
    pub(crate) fn metrics(&self) -> String {
        let mut text = String::from(
            "# HELP apiserver_request_total Counter of requests.\n# TYPE apiserver_request_total counter\n",
        );
        let requests = self.requests.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((Label { method, resource }, code), count) in requests.iter() {
            let _ = writeln!(
                text,
                "apiserver_request_total{{method=\"{method}\",resource=\"{resource}\",code=\"{code}\"}} {count}"
            );
        }
        text.push_str(
            "# HELP apiserver_storage_objects Number of stored objects.\n# TYPE apiserver_storage_objects gauge\n",
        );
        for (table, size) in self.store.sizes() {
            let _ = writeln!(text, "apiserver_storage_objects{{resource=\"{table}\"}} {size}");
        }
        text
    }
}
