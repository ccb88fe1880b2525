//! Rights that no API server checks by itself: admission policies of ours ask for them.

/// The resource, in our own group, that stands for placement records of workloads of kinds other than Job.
pub const PLACEMENTS: &str = "placements";
/// The verb on [`PLACEMENTS`] that the dispatcher needs: whoever has it may write those records.
pub const RECORD: &str = "record";
