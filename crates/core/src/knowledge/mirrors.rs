//! The mirrors of one workload.

use super::Sighting;

/// Mirrors by worker, in the order of the workers' names. Nearly every workload has one, and there are a hundred thousand of
/// them: a `BTreeMap` makes room for eleven at the first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mirrors(Vec<(Box<str>, Sighting)>);

impl Mirrors {
    /// What is known of the mirror on this worker.
    pub fn get(&self, worker: &str) -> Option<&Sighting> {
        self.place(worker).ok().map(|place| &self.0[place].1)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, worker: &str) -> Option<&mut Sighting> {
        self.place(worker).ok().map(|place| &mut self.0[place].1)
    }

    /// Whether anything is known of one on this worker.
    pub fn is_known_on(&self, worker: &str) -> bool {
        self.place(worker).is_ok()
    }

    /// Replaces what is known of the mirror on this worker.
    pub fn insert(&mut self, worker: &str, sighting: Sighting) {
        match self.place(worker) {
            Ok(place) => self.0[place].1 = sighting,
            Err(place) => {
                self.0.reserve_exact(1);
                self.0.insert(place, (worker.into(), sighting));
            }
        }
    }

    /// Forgets the mirror on this worker.
    pub fn remove(&mut self, worker: &str) {
        if let Ok(place) = self.place(worker) {
            self.0.remove(place);
        }
    }

    /// Whether nothing is known of any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, with their workers.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Sighting)> {
        self.0.iter().map(|(worker, sighting)| (&**worker, sighting))
    }

    /// All of them.
    pub fn values(&self) -> impl Iterator<Item = &Sighting> {
        self.0.iter().map(|(_, sighting)| sighting)
    }

    /// All of them, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Sighting> {
        self.0.iter_mut().map(|(_, sighting)| sighting)
    }

    fn place(&self, worker: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(worker))
    }
}

impl<W: AsRef<str>> FromIterator<(W, Sighting)> for Mirrors {
    fn from_iter<I: IntoIterator<Item = (W, Sighting)>>(sightings: I) -> Self {
        let mut mirrors = Self::default();
        for (worker, sighting) in sightings {
            mirrors.insert(worker.as_ref(), sighting);
        }
        mirrors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(uid: &str) -> Sighting {
        let mirror =
            json!({"metadata": {"name": "train", "uid": uid, "resourceVersion": "1"}, "spec": {"template": {}}});
        Sighting::Present(serde_json::from_value(mirror).unwrap())
    }

    #[test]
    fn mirrors_are_found_by_their_workers_and_come_in_the_order_of_their_names() {
        let mut mirrors: Mirrors = [("us-1", seen("m1")), ("eu-1", seen("m2"))].into_iter().collect();
        mirrors.insert("ap-1", seen("m3"));
        mirrors.insert("us-1", seen("m4"));
        let workers: Vec<&str> = mirrors.iter().map(|(worker, _)| worker).collect();
        assert_eq!(workers, ["ap-1", "eu-1", "us-1"]);
        assert_eq!(mirrors.get("us-1").map(|sighting| sighting.mirror().uid.as_str()), Some("m4"));
        mirrors.remove("us-1");
        mirrors.remove("never seen");
        assert!(mirrors.is_known_on("eu-1") && !mirrors.is_known_on("us-1"));
    }
}
