//! The traps of copying a Job's status, each with a test of its name.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod counts;
mod end;
mod given;
mod start;
#[path = "../support/mod.rs"]
mod support;
mod writes;
