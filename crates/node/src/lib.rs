//! A node that runs pods as local processes and keeps their logs.
//!
//! ```text
//!   API server --watch pods bound to me--> Node --one task a pod--> containers: process groups on this host
//!        ^                                                  |
//!        +---- status, as a kubelet writes it --------------+----> log files, scratch directories
//! ```
//!
//! There is no isolation: images are not pulled, commands run on the host with the rights of this process, requests are
//! bookkeeping. A container is a process group with a scratch directory and an environment of its own.
//!
//! The program that runs a node must call [`enter_if_asked`] first in `main`: see there.

mod board;
mod container;
mod env;
mod logs;
mod node;
mod pod;
mod process;
mod reaper;
mod sequence;
pub mod status;
mod volumes;

pub use logs::LogQuery;
pub(crate) use node::{API_DEADLINE, NodeContext};
pub use node::{Clock, Logs, Node, NodeError, Options};
pub use reaper::{REAPER_ARGUMENT, enter_if_asked};
