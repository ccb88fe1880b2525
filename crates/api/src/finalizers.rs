//! Finalizers.

/// On a Worker: unfinished workloads are placed on it, and deleting it now would lose sight of them.
pub const PLACEMENTS: &str = "jobferry.dev/placements";
