//! The real binary, as people run it.
