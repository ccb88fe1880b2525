//! `pods/log`: the server asks whoever runs the pods.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;
use k8s_openapi::jiff::Timestamp;

use crate::error::ApiError;
use crate::http::{Query, Reply};
use crate::server::{Call, Inner};
use crate::store::Key;

/// Pieces of a log as they come.
pub type LogStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// Which part of which log is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRequest {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod as it is stored now.
    pub pod_uid: String,
    /// The container; the only one when the client named none.
    pub container: String,
    /// Keep the stream open and send what is written later.
    pub follow: bool,
    /// Of the container's previous run.
    pub previous: bool,
    /// Put the time before each line.
    pub timestamps: bool,
    /// Only this many lines from the end.
    pub tail_lines: Option<u64>,
    /// Only lines of this time or later.
    pub since: Option<Timestamp>,
    /// At most this many bytes.
    pub limit_bytes: Option<u64>,
}

/// Keeps the logs of pods: the node, in an embedded cluster.
pub trait PodLogs: Send + Sync {
    /// Opens a log. The error is told to the user as it is.
    fn open(&self, request: LogRequest) -> Pin<Box<dyn Future<Output = Result<LogStream, String>> + Send + '_>>;
}

impl Inner {
    pub(crate) async fn pod_log(&self, call: &Call) -> Result<Reply, ApiError> {
        let source = self.logs.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let request = self.log_request(call)?;
        let source = source.ok_or_else(|| ApiError::not_implemented("no node of this cluster keeps logs"))?;
        let stream = source.open(request).await.map_err(ApiError::bad_request)?;
        Ok(Reply::stream("text/plain", stream))
    }

    fn log_request(&self, call: &Call) -> Result<LogRequest, ApiError> {
        let namespace = call.namespace.clone().unwrap_or_default();
        let pod = call.name.clone().unwrap_or_default();
        let key = Key { namespace: namespace.clone(), name: pod.clone() };
        let stored =
            self.store.get(&call.resource.table, &key).ok_or_else(|| ApiError::not_found(&call.resource, &pod))?;
        let spec = &stored.value()["spec"];
        let names = |list: &str| -> Vec<String> {
            let list = spec[list].as_array().into_iter().flatten();
            list.filter_map(|container| container["name"].as_str().map(str::to_owned)).collect()
        };
        let (containers, init_containers) = (names("containers"), names("initContainers"));
        let query = &call.query;
        let container = match (query.get("container").filter(|name| !name.is_empty()), containers.as_slice()) {
            (Some(name), known) if known.iter().chain(&init_containers).any(|known| known == name) => name.to_owned(),
            (Some(name), _) => {
                return Err(ApiError::bad_request(format!("container {name} is not valid for pod {pod}")));
            }
            (None, [only]) => only.clone(),
            (None, many) => {
                let message =
                    format!("a container name must be specified for pod {pod}, choose one of: [{}]", many.join(" "));
                return Err(ApiError::bad_request(message));
            }
        };
        Ok(LogRequest {
            namespace,
            pod,
            pod_uid: stored.uid.clone(),
            container,
            follow: query.flag("follow").unwrap_or(false),
            previous: query.flag("previous").unwrap_or(false),
            timestamps: query.flag("timestamps").unwrap_or(false),
            tail_lines: query.number("tailLines")?,
            since: self.since(query)?,
            limit_bytes: query.number("limitBytes")?,
        })
    }

    fn since(&self, query: &Query) -> Result<Option<Timestamp>, ApiError> {
        if let Some(text) = query.get("sinceTime") {
            let bad = |_| ApiError::bad_request(format!("sinceTime: {text:?} is not an RFC 3339 time"));
            return text.parse().map(Some).map_err(bad);
        }
        let Some(seconds) = query.number::<i64>("sinceSeconds")? else { return Ok(None) };
        let ago = k8s_openapi::jiff::SignedDuration::from_secs(seconds);
        Ok(self.now().checked_sub(ago).ok())
    }
}
