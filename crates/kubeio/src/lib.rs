//! What every Jobferry controller does with an API server, and nothing about any of them.
//!
//! ```text
//!   API server --watch--> Event<T> --> (a controller's index) --> Queue<K> --> (its plan) --call--> API server
//! ```
//!
//! - [`watch`] lists and watches one [`Collection`], resumes where it was cut, and lists again only when it must.
//! - [`Queue`] hands out each key once at a time, in order, fair over sources, with a back-off per key.
//! - [`Candidate`] holds a lease, so that of several processes one works.
//! - [`events::Recorder`] tells people what happened, without ever holding anybody up.
//! - [`metrics::serve`] answers scrapers and kubelets.
//! - [`call`] sends one request under a deadline and says what is known of its outcome when it fails.
//!
//! Objects are decoded straight into the caller's own type, so a controller that reads ten fields keeps ten fields.

mod backoff;
mod call;
pub mod events;
mod horizon;
mod leadership;
mod lease;
pub mod metrics;
mod queue;
mod watch;

pub use backoff::Backoff;
pub use call::{CallError, Patch, Refusal, call, create, delete, get, patch};
pub use horizon::Horizon;
pub use leadership::{Candidate, Leadership, Lease};
pub use queue::{Queue, Source, Urgency};
pub use watch::{Collection, Event, Watcher, watch};
