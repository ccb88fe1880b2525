//! The placement record: which worker, which epoch. It stands in a condition of the user's workload.

use jobferry_api as api;
use k8s_openapi::{api::batch::v1::JobCondition, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde::{Deserialize, Serialize};

use crate::workload::Mirror;

/// What a workload's record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// There is none: the workload was never placed.
    None,
    /// It was placed.
    Placed(Placement),
    /// There is one that we cannot read (a newer version wrote it, or it was damaged): nothing may be assumed.
    Unreadable,
}

/// A recorded decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// The version of this form. A reader that does not know it must not guess.
    v: Version,
    /// The worker's name.
    pub worker: String,
    /// The worker's identity at that time: another cluster behind the same name is another cluster.
    pub identity: String,
    /// Counts the placements of this workload.
    pub epoch: u32,
    /// When it was written.
    pub since: Time,
    /// The intent to leave this worker: nothing is created here any more, and nothing elsewhere before the mirror is
    /// proved absent and the quarantine is over. Its epoch is that of the next placement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moving: bool,
    /// The mirror's UID, once it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<String>,
    /// The mirror's version whose status was copied last: what a slower watch shows of an older one is the past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<u64>,
    /// Counters of earlier epochs, which the mirror of this one does not know.
    #[serde(default, skip_serializing_if = "Carried::is_nothing")]
    pub carried: Carried,
}

/// Counters carried over from earlier epochs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// Pods that failed in earlier epochs.
    pub failed: i32,
}

impl Carried {
    // By reference because serde calls it so.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The one version of the record that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version;

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(1)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u8::deserialize(deserializer)? {
            1 => Ok(Self),
            other => Err(serde::de::Error::custom(format!("placement record of version {other}"))),
        }
    }
}

impl Record {
    /// Reads the message of the record's condition.
    pub fn read(message: &str) -> Self {
        serde_json::from_str(message).map_or(Self::Unreadable, Self::Placed)
    }
}

impl Placement {
    /// The first placement of a workload, or the next one with a higher epoch.
    pub fn new(worker: String, identity: String, epoch: u32, now: Timestamp) -> Self {
        let since = Time(job_api::conditions::whole_seconds(now));
        let (mirror, copied, carried) = (None, None, Carried::default());
        Self { v: Version, worker, identity, epoch, since, moving: false, mirror, copied, carried }
    }

    /// The same placement, now that its mirror was seen.
    #[must_use]
    pub fn with_mirror(&self, uid: &str) -> Self {
        Self { mirror: Some(uid.to_owned()), ..self.clone() }
    }

    /// The same placement, if it is this cluster that answers by its worker's name.
    #[must_use]
    pub fn in_cluster(&self, identity: &str) -> Self {
        Self { identity: identity.to_owned(), ..self.clone() }
    }

    /// The same placement, when the status of this mirror is copied.
    #[must_use]
    pub fn copying(&self, mirror: &Mirror) -> Self {
        Self { copied: mirror.resource_version.parse().ok(), ..self.with_mirror(&mirror.uid) }
    }

    /// Whether it decides what was decided before: the same cluster, in the same epoch, to the same end.
    pub fn repeats(&self, before: &Self) -> bool {
        (&self.worker, &self.identity, self.epoch, self.moving)
            == (&before.worker, &before.identity, before.epoch, before.moving)
    }

    /// Whether a newer state of this mirror was copied already.
    pub fn is_ahead_of(&self, mirror: &Mirror) -> bool {
        let version = mirror.resource_version.parse::<u64>().ok();
        self.mirror.as_ref() == Some(&mirror.uid) && self.copied.zip(version).is_some_and(|(copied, v)| v < copied)
    }

    /// The intent to leave this worker. `failed` is what its mirror counted so far.
    #[must_use]
    pub fn leaving(&self, failed: i32, now: Timestamp) -> Self {
        let mut intent = Self::new(self.worker.clone(), self.identity.clone(), self.epoch + 1, now);
        intent.moving = true;
        intent.carried = Carried { failed };
        intent
    }

    /// The condition that holds this record.
    pub fn condition(&self) -> Result<JobCondition, serde_json::Error> {
        Ok(JobCondition {
            type_: api::conditions::PLACEMENT.into(),
            status: "True".into(),
            reason: Some(api::conditions::REASON_PLACED.into()),
            message: Some(serde_json::to_string(self)?),
            last_probe_time: Some(self.since.clone()),
            last_transition_time: Some(self.since.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement() -> Placement {
        Placement::new("eu-1".into(), "id-1".into(), 3, Timestamp::from_second(1_700_000_000).unwrap())
    }

    #[test]
    fn a_record_survives_the_way_through_its_condition() {
        let mut placement = placement();
        placement.mirror = Some("m-uid".into());
        placement.copied = Some(7);
        placement.carried.failed = 2;
        let condition = placement.condition().unwrap();
        assert_eq!(Record::read(&condition.message.unwrap()), Record::Placed(placement));
    }

    #[test]
    fn a_record_of_another_version_or_form_is_unreadable_not_absent() {
        let newer = placement().condition().unwrap().message.unwrap().replace("\"v\":1", "\"v\":2");
        for message in [newer.as_str(), "", "{}", "null", "{\"v\":1}"] {
            assert_eq!(Record::read(message), Record::Unreadable, "{message}");
        }
    }
}
