//! The decisions of a `batch/v1` Job controller as one pure function.
//!
//! A Job controller turns a Job into pods and the fate of pods into the Job's status. This crate decides; it has no
//! client, no clock and no threads. Around it a shell watches, carries out one step and asks again:
//!
//! ```text
//!        Job, its pods, memory, now
//!                  |
//!                sync
//!                  |
//!     +------------+-------------+
//!     |            |             |
//!  Record        Pods          Rest ----> wait for an event, or until wake_at
//!  (a status)    (create, delete,
//!     |           discard, release)
//!     +-----+------+
//!           |
//!    the API server's answers become the next view
//! ```
//!
//! **Counting exactly once.** Every pod holds a finalizer. When it has ended, its UID goes into
//! `status.uncountedTerminatedPods`, then the finalizer goes, then the counter grows and the UID leaves the list. Whoever
//! crashes or restarts between two of these writes finds in the objects how far it was.
//!
//! ```
//! use job_controller::{JobView, Memory, PodAction, Step, sync};
//! use k8s_openapi::jiff::Timestamp;
//!
//! let job: JobView = serde_json::from_value(serde_json::json!({
//!     "metadata": {"namespace": "default", "name": "hello", "uid": "1"},
//!     "spec": {"parallelism": 2, "completions": 5, "template": {"spec": {"restartPolicy": "Never"}}},
//! }))?;
//! let decision = sync(&job, &[], &Memory::default(), Timestamp::UNIX_EPOCH);
//! let Step::Pods(actions) = decision.step else { panic!("pods are missing") };
//! assert!(matches!(actions[..], [PodAction::Create(_), PodAction::Create(_)]));
//! # Ok::<(), serde_json::Error>(())
//! ```

mod backoff;
mod census;
mod failure_policy;
mod job;
pub mod names;
mod outcome;
mod ownership;
mod pod;
mod record;
mod success_policy;
mod sync;
mod template;
mod workforce;

pub use backoff::Backoff;
pub use job::{JobView, Spec};
pub use ownership::{Claim, claim};
pub use pod::{Exit, Owner, Phase, PodView, Restarts};
pub use sync::{IndexFailures, Memory, Notice, PodAction, PodPlan, PodRef, Step, Sync, sync};
pub use template::{pod, pod_name};
