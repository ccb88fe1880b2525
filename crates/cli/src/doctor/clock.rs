//! Clocks: times of different machines meet in deadlines, leases and the expiry of credentials.

use std::time::Duration;

use http::{Request, header};
use k8s_openapi::jiff::{Timestamp, fmt::rfc2822};
use kube::{Client, client::Body};

use super::Finding;
use crate::install::DEADLINE;

/// All that depends on clocks bears a few seconds.
const SKEW_ALLOWED: Duration = Duration::from_secs(5);

/// Compares a cluster's clock with ours. Servers need not tell theirs.
pub(super) async fn examine(client: &Client, what: &str, cluster: &str, now: Timestamp) -> Option<Finding> {
    server_time(client).await.map(|theirs| judge(what, cluster, theirs, now))
}

/// The time in the header of an answer.
async fn server_time(client: &Client) -> Option<Timestamp> {
    let request = Request::get("/version").body(Body::empty()).ok()?;
    let answer = tokio::time::timeout(DEADLINE, client.send(request)).await.ok()?.ok()?;
    let date = answer.headers().get(header::DATE)?.to_str().ok()?;
    rfc2822::DateTimeParser::new().parse_timestamp(date).ok()
}

fn judge(what: &str, cluster: &str, theirs: Timestamp, ours: Timestamp) -> Finding {
    let skew = theirs.duration_since(ours).unsigned_abs();
    if skew > SKEW_ALLOWED {
        let says = format!("{cluster} and this machine differ by {} s", skew.as_secs());
        return Finding::bad(what, says, "set both clocks, for example by `timedatectl set-ntp true`");
    }
    Finding::good(what, "as on this machine")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Judgement;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    #[test]
    fn clocks_may_differ_by_seconds_only() {
        let ago = |seconds: u64| NOW.checked_sub(Duration::from_secs(seconds)).unwrap();
        let judged = |theirs, ours| judge("clock", "the manager", theirs, ours);
        assert_eq!(judged(ago(3), NOW).result, Judgement::Ok);
        assert_eq!(judged(ago(90), NOW).says, "the manager and this machine differ by 90 s");
        assert_eq!(judged(NOW, ago(90)).says, "the manager and this machine differ by 90 s");
    }
}
