//! What the benches of the dispatcher share: processes and what they take, moments of Jobs, figures and their spread.

pub(crate) mod plot;
pub(crate) mod process;
pub(crate) mod spread;
pub(crate) mod timeline;
pub(crate) mod usage;
