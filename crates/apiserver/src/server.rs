//! The server: what it is made of, and the way of a request through it.

use std::convert::Infallible;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::USER_AGENT;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use k8s_openapi::jiff::Timestamp;

use crate::error::ApiError;
use crate::expiry::Expiry;
use crate::freeze::Freeze;
use crate::http::{Query, Reply, ResourcePath, ResponseBody, Target, accepts_gzip, route};
use crate::identity::Identities;
use crate::logs::PodLogs;
use crate::registry::{Registry, Resource, Subresource};
use crate::store::{Journal, Store, StoreError};
use crate::{discovery, metrics, openapi};

/// Request bodies beyond this are refused, as upstream does.
const BODY_LIMIT_BYTES: usize = 3 * 1024 * 1024;

/// Tells the time of this cluster.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a server needs from outside: time and randomness, so that a run can be repeated.
#[derive(Clone)]
pub struct Options {
    /// Timestamps in objects come from here. Timers use tokio's clock, which tests can pause.
    pub clock: Clock,
    /// UIDs and generated names come from here: the same seed and the same requests give the same objects. Clusters
    /// that should be told apart need different seeds.
    pub seed: u64,
    /// How many changes of each resource a watch can be resumed over. A watcher that falls further behind is cut off.
    pub history: usize,
}

impl Options {
    /// Options with a clock and a seed, and what a local cluster wants for the rest.
    pub fn new(clock: impl Fn() -> Timestamp + Send + Sync + 'static, seed: u64) -> Self {
        Self { clock: Arc::new(clock), seed, history: 8192 }
    }
}

/// A Kubernetes API server in this process. Cloning is cheap and gives the same server.
///
/// It is a [`tower::Service`] over HTTP requests, so it can be the transport of a kube client; [`ApiServer::serve`]
/// offers it on a socket too.
#[derive(Clone)]
pub struct ApiServer(pub(crate) Arc<Inner>);

/// A state of a cluster: see [`ApiServer::snapshot`].
#[derive(Debug, Clone)]
pub struct Snapshot(crate::store::Snapshot);

/// What handlers work with.
pub(crate) struct Inner {
    pub(crate) registry: Registry,
    pub(crate) store: Arc<Store>,
    pub(crate) identities: Identities,
    pub(crate) logs: std::sync::RwLock<Option<Arc<dyn PodLogs>>>,
    pub(crate) requests: metrics::Requests,
    pub(crate) expiry: Expiry,
    pub(crate) freeze: Freeze,
    clock: Clock,
}

/// A request to a resource, with everything resolved that its path and query say.
pub(crate) struct Call {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<Subresource>,
    pub(crate) query: Query,
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
}

impl Call {
    pub(crate) fn user_agent(&self) -> &str {
        self.parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("unknown")
    }
}

impl ApiServer {
    /// A new cluster in memory: namespaces `default` and `kube-system`, nothing else. The UID of `kube-system` is the
    /// cluster's identity.
    pub fn new(options: Options) -> Self {
        let store = Store::in_memory(options.history);
        let inner = Inner::new(options, store);
        inner.create_first_namespaces();
        Self(Arc::new(inner))
    }

    /// The cluster that is kept in the file at `path`, or a new one. A write is answered after it is on disk; the
    /// process may be killed at any moment. One process at a time can have the file open. It holds Secrets: it is
    /// created with mode 0600.
    pub fn open(mut options: Options, path: &Path) -> Result<Self, StoreError> {
        let (journal, kept, version) = Journal::open(path)?;
        let store = Store::durable(journal, version, options.history);
        // The source of randomness starts over with the process, but must not give the same identities again.
        options.seed ^= version.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let inner = Inner::new(options, store);
        inner.restore(kept);
        if version == 0 {
            inner.create_first_namespaces();
        }
        Ok(Self(Arc::new(inner)))
    }

    /// This server as a tower service, for `kube::Client::new(server.service(), "default")`.
    #[must_use]
    pub fn service(&self) -> Self {
        self.clone()
    }

    /// Where the logs of pods come from. Without a source `pods/log` answers 501.
    pub fn set_pod_logs(&self, logs: Arc<dyn PodLogs>) {
        *self.0.logs.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(logs);
    }

    /// The last committed resourceVersion.
    pub fn resource_version(&self) -> u64 {
        self.0.store.version()
    }

    /// The state of the whole cluster as it is now, to turn back to.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.0.store.snapshot())
    }

    /// Turns the cluster back, as if a backup of it had been restored: later objects are gone, the resourceVersion is
    /// the old one, all watches end. Identities given out afterwards are new ones. `false`: this cluster is durable
    /// and cannot be turned back.
    pub fn turn_back(&self, snapshot: &Snapshot) -> bool {
        let done = self.0.store.turn_back(&snapshot.0);
        if done {
            self.0.redefine();
        }
        done
    }

    /// Stands still until [`ApiServer::thaw`]: requests are taken and not answered, watches stay open and say nothing.
    /// Whatever waits by then happens at the thaw, except for requests whose clients have given up and hung up.
    pub fn freeze(&self) {
        self.0.freeze.begin();
    }

    /// Goes on after [`ApiServer::freeze`], as if nothing had happened.
    pub fn thaw(&self) {
        self.0.freeze.end();
    }

    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.0.freeze.over().await;
        let (parts, body) = request.into_parts();
        let target = route(parts.uri.path());
        let label = metrics::Label::of(&parts.method, &target);
        let wants_gzip = accepts_gzip(&parts.headers);
        let reply = match collect(body).await {
            Ok(body) => self.0.dispatch(target, parts, body).await,
            Err(error) => Err(error),
        };
        let mut reply = reply.unwrap_or_else(Reply::from);
        if wants_gzip {
            reply = reply.compressed().await;
        }
        let response = reply.into_response();
        self.0.requests.count(label, response.status().as_u16());
        // What was done just before a freeze is known to the client after it.
        self.0.freeze.over().await;
        response
    }
}

async fn collect<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_LIMIT_BYTES).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(BODY_LIMIT_BYTES)),
        Err(error) => Err(ApiError::bad_request(format!("the request body ended early: {error}"))),
    }
}

impl Inner {
    fn new(options: Options, store: Arc<Store>) -> Self {
        Self {
            registry: Registry::built_in(),
            store,
            identities: Identities::seeded(options.seed),
            logs: std::sync::RwLock::new(None),
            requests: metrics::Requests::default(),
            expiry: Expiry::default(),
            freeze: Freeze::default(),
            clock: options.clock,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    async fn dispatch(self: &Arc<Self>, target: Target, parts: Parts, body: Bytes) -> Result<Reply, ApiError> {
        let Target::Resource(path) = target else {
            if parts.method != Method::GET && parts.method != Method::HEAD {
                return Err(match target {
                    Target::Nothing => ApiError::no_such_page(),
                    _ => ApiError::method_not_allowed(),
                });
            }
            return self.page(&target, &parts);
        };
        let call = self.resolve(path, parts, body)?;
        self.perform(&call).await
    }

    fn page(&self, target: &Target, parts: &Parts) -> Result<Reply, ApiError> {
        match target {
            Target::Health => Ok(Reply::text("text/plain; charset=utf-8", "ok")),
            Target::Version => Ok(Reply::value(&discovery::version())),
            Target::Metrics => Ok(Reply::text("text/plain; version=0.0.4", self.metrics())),
            Target::CoreVersions => Ok(discovery::core(&self.registry, &parts.headers)),
            Target::Groups => Ok(discovery::groups(&self.registry, &parts.headers)),
            Target::Group(group) => discovery::group(&self.registry, group),
            Target::GroupVersion { group, version } => discovery::resources(&self.registry, group, version),
            Target::OpenApiIndex => Ok(openapi::index(&self.registry)),
            Target::OpenApi { group, version } => openapi::document(&self.registry, group, version),
            Target::Resource(_) | Target::Nothing => Err(ApiError::no_such_page()),
        }
    }

    fn resolve(&self, path: ResourcePath, parts: Parts, body: Bytes) -> Result<Call, ApiError> {
        let resource =
            self.registry.find(&path.group, &path.version, &path.plural).ok_or_else(ApiError::no_such_page)?;
        // A namespaced path to a cluster-scoped resource, or an object of a namespaced one without its namespace.
        let misplaced = path.namespace.is_some() && !resource.namespaced
            || path.namespace.is_none() && resource.namespaced && path.name.is_some();
        if misplaced {
            return Err(ApiError::no_such_page());
        }
        let subresource = match &path.subresource {
            None => None,
            Some(name) => Some(resource.subresource(name).ok_or_else(ApiError::no_such_page)?),
        };
        let query = Query::parse(parts.uri.query());
        Ok(Call { resource, namespace: path.namespace, name: path.name, subresource, query, parts, body })
    }
}

impl<B> tower::Service<Request<B>> for ApiServer
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.answer(request).await) })
    }
}
