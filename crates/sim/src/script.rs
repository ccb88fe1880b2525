//! Fates of requests that a test has planned.

use jobferry_testkit::fault::{Asked, Fate, WatchFate};

/// What befalls whom next.
#[derive(Debug, Default)]
pub(crate) struct Script {
    requests: Vec<Line<Fate>>,
    watches: Vec<Line<WatchFate>>,
}

/// The fate of the next requests of one kind.
#[derive(Debug)]
struct Line<T> {
    /// The dispatcher, or the beginning of the name of one of its lives.
    who: String,
    cluster: String,
    /// A method and a part of the path, as in `POST jobs`.
    what: String,
    fate: T,
    times: u32,
}

impl<T: Copy> Line<T> {
    fn concerns(&self, link: &str, method: &str, path: &str) -> bool {
        let Some((who, cluster)) = link.split_once('>') else { return false };
        let (wanted, part) = self.what.split_once(' ').unwrap_or((&self.what, ""));
        who.starts_with(&self.who) && cluster == self.cluster && method == wanted && path.contains(part)
    }

    /// The fate from the first line that is about this, which it uses up.
    fn take(lines: &mut Vec<Self>, link: &str, method: &str, path: &str) -> Option<T> {
        let at = lines.iter().position(|line| line.concerns(link, method, path))?;
        lines[at].times -= 1;
        let fate = lines[at].fate;
        if lines[at].times == 0 {
            lines.remove(at);
        }
        Some(fate)
    }
}

impl Script {
    /// The next requests of a dispatcher to a cluster, `what` as in `POST jobs`, have this fate.
    pub(crate) fn add(&mut self, (who, cluster): (&str, &str), what: &str, fate: Fate, times: u32) {
        self.requests.push(line((who, cluster), what, fate, times));
    }

    /// The next watches of a dispatcher have this fate, `what` as in `jobs`.
    pub(crate) fn add_watch(&mut self, (who, cluster): (&str, &str), what: &str, fate: WatchFate, times: u32) {
        self.watches.push(line((who, cluster), &format!("GET {what}"), fate, times));
    }

    /// Nothing more is planned.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn of_request(&mut self, link: &str, asked: &Asked) -> Option<Fate> {
        if asked.is_watch {
            return None;
        }
        Line::take(&mut self.requests, link, asked.method.as_str(), &asked.path)
    }

    pub(crate) fn of_watch(&mut self, link: &str, asked: &Asked) -> Option<WatchFate> {
        Line::take(&mut self.watches, link, asked.method.as_str(), &asked.path)
    }
}

fn line<T>((who, cluster): (&str, &str), what: &str, fate: T, times: u32) -> Line<T> {
    Line { who: who.into(), cluster: cluster.into(), what: what.into(), fate, times: times.max(1) }
}
