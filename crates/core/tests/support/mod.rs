//! What several test targets share.

pub(crate) mod server;
