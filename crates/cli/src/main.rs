//! The one binary, `jobferry`.

fn main() {}
