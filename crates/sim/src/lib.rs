//! The proof: the dispatcher that ships, run in a world that one seed decides, while everything goes wrong.
//!
//! ```text
//!   seed ──► Scenario: workers, workloads, what people do        Weather: what befalls requests, watches, roads
//!                 │                                                 │
//!   dispatcher(s) ──► Faulty (lost, late, refused, cut) ──► Wire ──► API server   (one for each cluster, in process)
//!                                                             │
//!   users, controllers, nodes ────────────────────────────►  │
//!                                                             ▼
//!                                        Hub: event log, truth of all clusters, one checker a promise
//! ```
//!
//! Everything runs on one thread and tokio's paused clock: an hour takes milliseconds, and the same seed gives the same
//! event log, byte for byte.
//!
//! ```
//! use jobferry_sim::{Settings, run};
//!
//! let outcome = run(1, &Settings::default()).unwrap();
//! assert!(outcome.violations.is_empty());
//! ```

mod accidents;
mod actors;
mod admission;
pub mod checkers;
mod cluster;
mod crew;
mod dice;
mod ear;
mod etl;
mod facts;
mod faults;
mod hub;
mod log;
pub mod model;
mod narrow;
mod node;
mod panics;
pub mod planted;
mod report;
mod run;
mod sabotage;
mod scenario;
mod script;
mod shapes;
mod spells;
pub mod stage;
mod stale;
mod strangers;
mod truth;
mod weather;
mod wire;

pub use admission::Rule;
pub use checkers::Violation;
pub use facts::{JobFacts, PlacementFacts};
pub use faults::{Fault, FaultSet, UnknownFault};
pub use hub::Exchange;
pub use report::{Finding, Summary};
pub use run::{Outcome, RunError, Settings, run};
pub use sabotage::Sabotage;
pub use truth::{History, Role, Truth};
