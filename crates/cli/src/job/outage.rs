//! A cluster that does not answer for a while: said once when it begins and once when it is over.

use std::time::Duration;

use jobferry_kubeio::CallError;
use tokio::time::Instant;

/// Answers that waiting does not change: credentials, rights, a resource that is not there.
const LASTING: [u16; 3] = [401, 403, 404];
/// An API server that has just started refuses for some seconds what it will allow once it knows its roles and resources.
const REFUSES_AT_START_FOR: Duration = Duration::from_secs(60);

/// Whether a cluster that is watched answers.
pub(super) struct Outage {
    cluster: String,
    has_answered: bool,
    told: bool,
    refused_since: Option<Instant>,
}

impl Outage {
    pub(super) fn of(cluster: impl Into<String>) -> Self {
        Self { cluster: cluster.into(), has_answered: false, told: false, refused_since: None }
    }

    /// It did not answer, or refused. `Err`: it will not do otherwise, so there is nothing to wait for.
    pub(super) fn begin(&mut self, error: CallError, now: Instant) -> Result<(), CallError> {
        if error.refusal().is_some_and(|refusal| LASTING.contains(&refusal.code)) {
            let since = *self.refused_since.get_or_insert(now);
            if !self.has_answered || now.duration_since(since) > REFUSES_AT_START_FOR {
                return Err(error);
            }
        } else {
            self.refused_since = None;
        }
        if !std::mem::replace(&mut self.told, true) {
            eprintln!("{} does not answer, trying again: {error}", self.cluster);
        }
        Ok(())
    }

    /// It answered.
    pub(super) fn end(&mut self) {
        (self.has_answered, self.refused_since) = (true, None);
        if std::mem::take(&mut self.told) {
            eprintln!("{} answers again", self.cluster);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobferry_kubeio::Refusal;

    fn refused(code: u16) -> CallError {
        CallError::Refused(Refusal { code, reason: "R".into(), message: "m".into(), name: String::new() })
    }

    fn down() -> CallError {
        CallError::Transport("refused".into())
    }

    #[test]
    fn a_refusal_from_the_start_is_final_and_one_during_a_restart_is_not() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(Outage::of("it").begin(refused(403), start).is_err());
        assert!(Outage::of("it").begin(down(), start).is_ok());
        assert!(Outage::of("it").begin(refused(500), start).is_ok());

        let mut outage = Outage::of("it");
        outage.end();
        for (seconds, error) in [(0, down()), (1, refused(403)), (30, refused(401)), (61, refused(403))] {
            assert!(outage.begin(error, after(seconds)).is_ok(), "after {seconds} s");
        }
        assert!(outage.begin(refused(401), after(62)).is_err(), "it was refused for more than a minute");
    }

    #[test]
    fn a_server_that_falls_silent_in_between_begins_anew() {
        let start = Instant::now();
        let mut outage = Outage::of("it");
        outage.end();
        for (seconds, error) in [(0, refused(403)), (50, down()), (90, refused(403))] {
            assert!(outage.begin(error, start + Duration::from_secs(seconds)).is_ok(), "after {seconds} s");
        }
    }
}
