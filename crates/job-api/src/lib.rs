//! The batch/v1 Job contract of Kubernetes as pure functions.
//!
//! Since Kubernetes 1.32 a Job can name the controller that runs it: with `spec.managedBy` set, the cluster's own Job
//! controller steps aside. What it does not hand over are its manners. An external controller has to know by itself
//! which status may follow which, when `startTime` may move, which conditions belong together, and the API server
//! refuses every write that breaks a rule. This crate is those rules: what a server fills in, what it accepts and what
//! it refuses, with the same kinds of errors on the same fields in the same order. No client, no clock, no runtime.
//!
//! ```text
//!            your controller                                  API server
//!   ┌──────────────────────────────┐                 ┌──────────────────────────┐
//!   │ observe ─► next status ──────┼── PUT /status ─►│ 200, or 422 and causes   │
//!   │                 │            │                 └──────────────────────────┘
//!   │      status::validate ◄──────┼── says the same, before you send it
//!   └──────────────────────────────┘
//! ```
//!
//! | question | entry |
//! | --- | --- |
//! | Who runs this Job? | [`managed_by::ManagedBy`] |
//! | May this status follow that one? | [`status::validate`], on a small [`SpecView`] |
//! | What will the server make of this manifest? | [`defaults::apply`], [`create::prepare`] |
//! | Will it accept it? | [`create::validate`], [`update::validate`], [`cron_job::validate`] |
//! | Which indexes are done? | [`IndexSet`] |
//! | How do I write a condition? | [`conditions`] |
//!
//! Servers differ: pass the [`Rules`] of the one you talk to.
//!
//! ```
//! use job_api::{Rules, SpecView, conditions, status};
//! use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
//! use k8s_openapi::jiff::Timestamp;
//!
//! let spec = SpecView::of(&JobSpec { completions: Some(1), parallelism: Some(1), ..JobSpec::default() });
//! let started = Time("2026-11-15T12:00:00Z".parse::<Timestamp>()?);
//! let ended = "2026-11-15T12:05:00Z".parse::<Timestamp>()?;
//! let running = JobStatus { active: Some(1), start_time: Some(started), ..JobStatus::default() };
//!
//! // The interim condition, the final one, both times, no pods left: a legal end in one write.
//! let mut done = JobStatus { active: None, succeeded: Some(1), completion_time: Some(Time(ended)), ..running.clone() };
//! let list = done.conditions.get_or_insert_default();
//! for type_ in [conditions::SUCCESS_CRITERIA_MET, conditions::COMPLETE] {
//!     let (reason, message) = (conditions::reason::COMPLETIONS_REACHED, conditions::message::COMPLETIONS_REACHED);
//!     conditions::set(list, type_, true, reason, message, ended);
//! }
//! assert!(status::validate(&spec, &running, &done, Rules::for_server(1, 35, None)).is_empty());
//!
//! // Nothing may be taken back afterwards.
//! let errors = status::validate(&spec, &done, &running, Rules::for_server(1, 35, None));
//! assert!(errors.iter().any(|error| error.field == "status.conditions"));
//! # Ok::<(), k8s_openapi::jiff::Error>(())
//! ```
//!
//! The types are those of `k8s-openapi`; the crate chooses no version feature, the binary does.

pub mod conditions;
pub mod create;
pub mod cron_job;
pub mod defaults;
mod errors;
mod formats;
mod image;
pub mod index_set;
pub mod labels;
pub mod managed_by;
mod metadata;
mod path;
pub mod quantity;
mod rules;
mod schedule;
mod selector;
mod spec;
mod spec_view;
pub mod status;
mod template;
pub mod update;

pub use errors::{ErrorKind, Errors, FieldError};
pub use index_set::IndexSet;
pub use rules::{Gates, Rules};
pub use spec_view::SpecView;
