//! Clocks: times of different machines meet in deadlines, leases and the expiry of credentials.

use std::{ops::RangeInclusive, time::Duration};

use http::{Request, header};
use k8s_openapi::jiff::{Timestamp, fmt::rfc2822};
use kube::{Client, client::Body};

use super::Finding;
use crate::{dispatcher::wall_clock, install::DEADLINE};

/// All that depends on clocks bears a few seconds.
const SKEW_ALLOWED: Duration = Duration::from_secs(5);

/// Compares a cluster's clock with ours. Servers need not tell theirs.
pub(super) async fn examine(client: &Client, what: &str, cluster: &str) -> Option<Finding> {
    let asked = wall_clock();
    let theirs = server_time(client).await?;
    Some(judge(what, cluster, theirs, asked..=wall_clock()))
}

/// The time in the header of an answer.
async fn server_time(client: &Client) -> Option<Timestamp> {
    let request = Request::get("/version").body(Body::empty()).ok()?;
    let answer = tokio::time::timeout(DEADLINE, client.send(request)).await.ok()?.ok()?;
    let date = answer.headers().get(header::DATE)?.to_str().ok()?;
    rfc2822::DateTimeParser::new().parse_timestamp(date).ok()
}

/// Their time must lie between our question and their answer, which may have taken a while.
fn judge(what: &str, cluster: &str, theirs: Timestamp, ours: RangeInclusive<Timestamp>) -> Finding {
    let ahead = theirs.duration_since(*ours.end());
    let behind = ours.start().duration_since(theirs);
    let skew = Duration::try_from(ahead.max(behind)).unwrap_or_default();
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
        let judged = |theirs, asked, answered| judge("clock", "the manager", theirs, asked..=answered);
        assert_eq!(judged(ago(3), NOW, NOW).result, Judgement::Ok);
        assert_eq!(judged(ago(20), ago(40), NOW).result, Judgement::Ok, "the answer took long");
        assert_eq!(judged(ago(90), NOW, NOW).says, "the manager and this machine differ by 90 s");
        assert_eq!(judged(NOW, ago(95), ago(90)).says, "the manager and this machine differ by 90 s");
    }
}
