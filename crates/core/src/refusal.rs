//! What a worker said when it refused a mirror, and how soon it is worth asking again.

use std::time::Duration;

/// A refusal, as this process remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The placement that was refused.
    pub epoch: u32,
    /// What kind of refusal it was.
    pub ground: Ground,
    /// The worker's words.
    pub why: String,
    /// When (monotonic).
    pub at: Duration,
    /// How often this worker has refused this workload.
    pub times: u32,
}

/// Why a worker refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ground {
    /// The namespace does not exist, or is being deleted.
    Namespace,
    /// A quota is used up.
    Quota,
    /// A Job of somebody else has the name.
    NameTaken,
    /// The mirror of an earlier workload of this name has it, and is being removed.
    BeingRemoved,
    /// Our credentials do not allow it.
    Forbidden,
    /// A policy or webhook denied it.
    Denied,
    /// The server does not accept the object: it is older, or younger, than what the user wrote for.
    Invalid,
    /// It was stored as something else than what was sent.
    Altered,
    /// The server fails at it, over and over again: a webhook that it must ask does not answer, as a rule. Unlike the others
    /// this is no word that nothing was created.
    Failing,
}

/// Whether a server says by this answer that it cannot answer, whatever it is asked. Other troubles (500: a webhook's) are about
/// the object.
pub const fn is_unavailable(code: u16) -> bool {
    matches!(code, 503 | 504)
}

/// How often a worker's server has failed at the mirror of one placement, to create or to change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failures {
    epoch: u32,
    times: u32,
}

/// So many failures are no accident. As a rule they come within a second: whoever waits for more holds a create slot.
const ENOUGH_FAILURES: u32 = 3;

/// The longest pause. Permissions, quotas and versions are changed by people, who will not wait longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// In bytes, or characters of a longer one: it stands in the status of the workload, next to what a worker said of all others.
const LONGEST_WHY: usize = 2000;

impl Ground {
    /// Reads a refused create. `None`: this says nothing about the object. The server is overloaded or in trouble, or
    /// does not take our credentials.
    pub fn of(code: u16, reason: &str, message: &str) -> Option<Self> {
        let says = |words: &str| message.contains(words);
        // Whoever wrote a webhook chose the code, and may have chosen one that means something else.
        let by_webhook = says("admission webhook") && says("denied the request");
        let is_denied = by_webhook || (says("ValidatingAdmissionPolicy") && says("denied request"));
        Some(match code {
            _ if is_denied => Self::Denied,
            // 409: a quota that is being counted. The next try will do.
            401 | 408 | 409 | 429 | 500.. => return None,
            _ if says("admission webhook") || says("ValidatingAdmissionPolicy") => Self::Denied,
            403 if says("exceeded quota") => Self::Quota,
            403 if says("being terminated") => Self::Namespace,
            403 if says("cannot create resource") => Self::Forbidden,
            404 if reason == "NotFound" && says("namespaces") => Self::Namespace,
            404 => Self::Forbidden,
            400 | 415 | 422 => Self::Invalid,
            _ => Self::Denied,
        })
    }

    /// Whether such an answer means that the server failed at this object. One that fails at everything is given a rest as a
    /// whole.
    pub const fn is_failure(code: u16) -> bool {
        code >= 500 && !is_unavailable(code)
    }

    /// The pause after the first refusal: short where others clear the way, long where only a person can.
    const fn first_pause(self) -> Duration {
        Duration::from_secs(match self {
            Self::BeingRemoved => 1,
            Self::Namespace | Self::Quota | Self::NameTaken | Self::Failing => 15,
            Self::Forbidden | Self::Denied => 60,
            Self::Invalid | Self::Altered => 600,
        })
    }

    /// The longest pause. What is being removed is gone any moment, and a server that was mended says so to nobody.
    const fn longest_pause(self) -> Duration {
        match self {
            Self::BeingRemoved => Duration::from_secs(5),
            Self::Failing => Duration::from_secs(60),
            _ => LONGEST_PAUSE,
        }
    }

    /// From how many refusals on it is news.
    pub(crate) const fn told_from(self) -> u32 {
        match self {
            Self::BeingRemoved => 3,
            _ => 1,
        }
    }

    /// From how many refusals on it is better to go elsewhere. What is being removed is gone in a moment as a rule, and a
    /// minute and a half later at the latest; a move takes longer than that. It also takes longer than it takes a webhook to
    /// be restarted.
    pub(crate) const fn left_from(self) -> u32 {
        match self {
            Self::BeingRemoved => 24,
            Self::Failing => 2,
            _ => 1,
        }
    }
}

impl Failures {
    /// One more, at the placement of this epoch.
    #[must_use]
    pub fn after(before: Option<Self>, epoch: u32) -> Self {
        let times = before.filter(|before| before.epoch == epoch).map_or(0, |before| before.times);
        Self { epoch, times: times.saturating_add(1) }
    }

    /// Whether they amount to a refusal. Then each further one does.
    pub const fn are_refusal(self) -> bool {
        self.times >= ENOUGH_FAILURES
    }
}

impl Refusal {
    /// The next refusal of the same thing, after `before`.
    #[must_use]
    pub fn after(before: Option<&Self>, epoch: u32, ground: Ground, why: String, at: Duration) -> Self {
        let why = if why.len() > LONGEST_WHY { why.chars().take(LONGEST_WHY).chain(['…']).collect() } else { why };
        Self { epoch, ground, why, at, times: before.map_or(0, |before| before.times) + 1 }
    }

    /// When (monotonic) the worker may be asked again. Each further refusal doubles the pause.
    pub fn over_at(&self) -> Duration {
        let doubled = 2_u32.saturating_pow(self.times.saturating_sub(1));
        self.at + self.ground.first_pause().saturating_mul(doubled).min(self.ground.longest_pause())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_words_tell_why_it_refuses() {
        for (code, reason, message, expected) in [
            (404, "NotFound", r#"namespaces "ml" not found"#, Some(Ground::Namespace)),
            (404, "NotFound", "the server could not find the requested resource", Some(Ground::Forbidden)),
            (403, "Forbidden", r#"jobs.batch "a" is forbidden: exceeded quota: q"#, Some(Ground::Quota)),
            (
                403,
                "Forbidden",
                "unable to create new content in namespace x because it is being terminated",
                Some(Ground::Namespace),
            ),
            (403, "Forbidden", r#"User "x" cannot create resource "jobs""#, Some(Ground::Forbidden)),
            (403, "Forbidden", r#"admission webhook "w" denied the request: no"#, Some(Ground::Denied)),
            (409, "AlreadyExists", r#"admission webhook "w" denied the request: no"#, Some(Ground::Denied)),
            (
                401,
                "Unauthorized",
                "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
                Some(Ground::Denied),
            ),
            (429, "TooManyRequests", r#"admission webhook "w" denied the request: full"#, Some(Ground::Denied)),
            (400, "BadRequest", "strict decoding error: unknown field", Some(Ground::Invalid)),
            (422, "Invalid", "spec.completions: must be", Some(Ground::Invalid)),
            (401, "Unauthorized", "Unauthorized", None),
            (429, "TooManyRequests", "later", None),
            (500, "InternalError", r#"failed calling webhook "w""#, None),
            (504, "Timeout", "request did not complete", None),
        ] {
            assert_eq!(Ground::of(code, reason, message), expected, "{code} {message}");
        }
    }

    #[test]
    fn a_server_that_goes_on_failing_at_a_placement_refuses_it() {
        let mut failures = None;
        let mut fails = |epoch| {
            failures = Some(Failures::after(failures, epoch));
            failures.is_some_and(Failures::are_refusal)
        };
        assert_eq!([1, 1, 1, 1].map(&mut fails), [false, false, true, true]);
        assert_eq!([2, 2, 2].map(&mut fails), [false, false, true], "another placement is another matter");
        let failure = [429, 500, 502, 503, 504].map(Ground::is_failure);
        assert_eq!(failure, [false, true, true, false, false], "some fail at everything");
    }

    #[test]
    fn a_worker_that_says_too_much_is_cut_short() {
        let said = |why: String| Refusal::after(None, 1, Ground::Denied, why, Duration::ZERO).why;
        assert_eq!(said("no".into()), "no");
        assert_eq!(said("ä".repeat(100_000)).chars().count(), LONGEST_WHY + 1);
    }

    #[test]
    fn each_further_refusal_doubles_the_pause_up_to_ten_minutes() {
        let pauses = |ground| {
            [1, 2, 3, 7, 40].map(|times| {
                let at = Duration::from_secs(100);
                let refusal = Refusal { epoch: 1, ground, why: String::new(), at, times };
                refusal.over_at().as_secs() - 100
            })
        };
        assert_eq!(pauses(Ground::Quota), [15, 30, 60, 600, 600]);
        assert_eq!(pauses(Ground::Denied), [60, 120, 240, 600, 600]);
        assert_eq!(pauses(Ground::Invalid), [600; 5]);
    }
}
