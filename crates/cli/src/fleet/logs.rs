//! `kubectl logs` on an embedded cluster: the API server asks, the node answers.

use std::pin::Pin;

use jobferry_apiserver::{LogRequest, LogStream, PodLogs};
use jobferry_node::{LogQuery, Logs};

/// The logs of a cluster's only node.
pub(crate) struct NodeLogs(pub(crate) Logs);

impl PodLogs for NodeLogs {
    fn open(&self, request: LogRequest) -> Pin<Box<dyn Future<Output = Result<LogStream, String>> + Send + '_>> {
        Box::pin(async move {
            let query = LogQuery {
                tail_lines: request.tail_lines,
                since: request.since,
                timestamps: request.timestamps,
                follow: request.follow,
                limit_bytes: request.limit_bytes,
                previous: request.previous,
            };
            let log = self.0.open(&request.pod_uid, &request.container, query).await;
            let log =
                log.map_err(|error| format!("the log of container {} cannot be read: {error}", request.container))?;
            Ok(Box::pin(log) as LogStream)
        })
    }
}
