//! Since when a worker is lost. The time is on its `Worker`, so that a restart does not turn the clock back; and it is
//! over as soon as anybody there answers, so that a loss of last week does not count for one that begins now.

use k8s_openapi::jiff::Timestamp;

/// What came of talking to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contact {
    /// It has shown its mirrors.
    Connected,
    /// It must not be used: it refuses our credentials, is another cluster, or its kubeconfig is refused. 401 and 403 are
    /// answers; and a worker that nobody may dial is not waited for.
    Unfit,
    /// It was not asked, for a reason of the manager's. That says nothing of the worker.
    Unasked,
    /// It does not answer.
    Unanswered,
}

/// The loss of a worker, if it is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loss {
    since: Option<Timestamp>,
}

impl Loss {
    /// The loss that is written on a `Worker`, whoever wrote it.
    pub const fn recorded(since: Option<Timestamp>) -> Self {
        Self { since }
    }

    /// The loss after this contact: a known one goes on, a new one begins now.
    #[must_use]
    pub fn after(self, contact: Contact, now: Timestamp) -> Self {
        let since = match contact {
            Contact::Connected | Contact::Unfit => None,
            Contact::Unasked => self.since,
            Contact::Unanswered => self.since.or(Some(now)),
        };
        Self { since }
    }

    /// Since when.
    pub const fn since(self) -> Option<Timestamp> {
        self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Contact::{Connected, Unanswered, Unasked, Unfit};

    const LAST_WEEK: i64 = -7 * 24 * 3600;

    /// Contacts come one a second, from the first second on.
    fn lost_since(recorded: Option<i64>, contacts: &[Contact]) -> Option<i64> {
        let time = |second| Timestamp::from_second(second).unwrap();
        let contacts = (1..).map(time).zip(contacts);
        let loss = contacts.fold(Loss::recorded(recorded.map(time)), |loss, (now, contact)| loss.after(*contact, now));
        loss.since().map(Timestamp::as_second)
    }

    #[test]
    fn a_loss_goes_on_until_the_worker_answers() {
        for (recorded, contacts, since) in [
            (None, [].as_slice(), None),
            (None, &[Unanswered, Unanswered], Some(1)),
            (Some(LAST_WEEK), &[Unanswered, Unanswered], Some(LAST_WEEK)),
            (Some(LAST_WEEK), &[Unasked, Unanswered], Some(LAST_WEEK)),
            (None, &[Unanswered, Unasked, Unanswered], Some(1)),
            (Some(LAST_WEEK), &[Connected], None),
        ] {
            assert_eq!(lost_since(recorded, contacts), since, "{recorded:?} {contacts:?}");
        }
    }

    #[test]
    fn whatever_was_recorded_is_over_once_it_answered_and_whatever_came_in_between() {
        for (contacts, since) in [
            ([Connected, Unanswered].as_slice(), 2),
            (&[Unfit, Unanswered], 2),
            (&[Connected, Unfit, Unanswered], 3),
            (&[Connected, Unasked, Unanswered], 3),
            (&[Unanswered, Connected, Unfit, Unasked, Unanswered, Unanswered], 5),
        ] {
            assert_eq!(lost_since(Some(LAST_WEEK), contacts), Some(since), "{contacts:?}");
        }
    }
}
