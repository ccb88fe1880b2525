//! Every decision of the dispatcher, as pure functions: no client, no runtime, no clock. Time comes in as an argument.
//!
//! ```text
//!   Workload (manager)  ┐
//!   Mirror   (worker)   ├─ View ── plan() ──> [Action]      what to write next, where, and why
//!   WorkerView          ┘
//! ```
//!
//! - [`workload`]: the few fields that decisions need, decoded straight from the API server's JSON.
//! - [`custom`]: workloads of kinds other than Job, in the words of a Job.
//! - [`record`]: the placement record that lives on the user's workload; it is the only memory that must survive us.
//! - [`policy`]: who may use which workers.
//! - [`refusal`]: what a worker that refuses says, and how soon it is asked again.
//! - [`canary`]: whether the manager leaves delegated Jobs alone; [`halts`]: whether anything may be placed at all.
//! - [`placement`]: which worker, with a verdict for each one that was not chosen.
//! - [`loss`]: since when a worker is lost.
//! - [`mirror`]: the user's Job turned into the Job that a worker runs.
//! - [`claim`]: whose an object under a mirror's name is.
//! - [`forward`]: later edits of the user's Job, each sent to the mirror once.
//! - [`project`]: the mirror's status turned into a status that the manager's API server accepts.
//! - [`kind`]: what differs from kind to kind, as data.
//! - [`knowledge`] -> [`phase`] -> [`plan`] -> [`action`]: from what is known of one workload to what is due.
//! - [`patch`]: the bodies of our writes.
//! - [`kubeconfig`]: what a worker's credentials may say; [`token`]: how long they live.

pub mod action;
pub mod canary;
pub mod claim;
pub mod custom;
mod fingerprint;
pub mod forward;
pub mod halts;
pub mod kind;
pub mod knowledge;
pub mod kubeconfig;
pub mod loss;
pub mod mirror;
pub mod ownership;
pub mod patch;
pub mod phase;
pub mod placement;
pub mod plan;
pub mod policy;
pub mod project;
pub mod record;
pub mod refusal;
pub mod selector;
pub mod time;
pub mod token;
pub mod workload;
