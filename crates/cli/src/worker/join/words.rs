//! What is said when a join did not come to its end.

use super::Args;
use crate::worker::way::Way;

/// Everything is made, but the dispatcher is not connected.
pub(super) fn not_in_use(name: &str, way: &Way) -> String {
    let hint = if way.is_loopback() {
        format!(
            "; only this machine reaches {}: is the dispatcher elsewhere, join with --renew --server URL",
            way.server
        )
    } else {
        String::new()
    };
    format!(
        "it is joined, but not in use; `jobferry worker describe {name}` says more, `jobferry worker leave {name}` undoes it{hint}"
    )
}

/// Something is made, and something is not.
pub(super) fn half_way(error: anyhow::Error, args: &Args, done: &[String]) -> anyhow::Error {
    let whose = args.managed_by.as_ref().map(|name| format!(" --managed-by {name}")).unwrap_or_default();
    let leave = format!("jobferry worker leave {}{}{whose}", args.name, args.admin);
    error.context(format!(
        "stopped half way, after {} steps (the last: {}); the same command goes on from here, `{leave}` undoes them",
        done.len(),
        done.last().map(String::as_str).unwrap_or_default(),
    ))
}
