//! Whose is a Job on a worker? A name says nothing; marks and UIDs do.

use jobferry_api::{annotations, labels};
use serde_json::{Value, json};

use crate::{
    custom::{KindRef, says_something},
    forward,
    record::Placement,
    workload::{Mirror, Workload},
};

/// The default of `podReplacementPolicy`. A server without the field does the same.
pub(crate) const DEFAULT_REPLACEMENT: &str = "TerminatingOrFailed";

/// To whom the object under a mirror's name belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// It is the workload's mirror.
    Ours,
    /// It is the workload's mirror, and somebody took marks off it: our watch does not show it.
    Unmarked,
    /// It is the workload's mirror, without its marks, and its removal is under way.
    Going,
    /// It is the mirror of an earlier workload of this name.
    Earlier,
    /// It is somebody else's, and is left alone.
    Foreign,
}

/// Judges what a fresh read of the mirror's name found. `object` is the whole Job, `mirror` the same one read lean.
pub fn whose(object: &Value, mirror: &Mirror, workload: &Workload, at: &Placement, origin: &str) -> Whose {
    let uid = workload.uid.as_str();
    let from_here = is_watched(object, origin);
    let pods_are_ours = workload.kind().labelled_uid(object).as_deref() == Some(uid);
    let marked = object["metadata"]["annotations"][annotations::ORIGIN_UID] == uid;
    if marked && from_here {
        Whose::Ours
    } else if marked || pods_are_ours || at.mirror.as_ref() == Some(&mirror.uid) {
        if mirror.deleting { Whose::Going } else { Whose::Unmarked }
    } else if from_here {
        Whose::Earlier
    } else {
        Whose::Foreign
    }
}

/// The patch (RFC 7386) that puts our marks back on a mirror that lost them.
pub fn marks(mirror: &Mirror, workload: &Workload, at: &Placement, origin: &str) -> Value {
    json!({"metadata": {
        "uid": mirror.uid, "resourceVersion": mirror.resource_version,
        "labels": {labels::ORIGIN: origin},
        "annotations": {annotations::ORIGIN_UID: workload.uid, annotations::EPOCH: at.epoch.to_string()},
    }})
}

/// What a worker made of a mirror, so that it is not fit to run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// A mark of ours is gone: we would not find the mirror again.
    #[error("its admission takes off or changes our mark {0}")]
    Mark(&'static str),
    /// The worker would not run it.
    #[error("its admission gives the mirror to another controller, {0}")]
    Controller(String),
    /// The worker would run something else.
    #[error("its server drops spec.{0}")]
    Dropped(String),
}

impl Misfit {
    /// Whether somebody has put it right since. Another dispatcher does so: it takes a mirror without marks for one that
    /// somebody took them off from, and follows it from then on.
    pub fn is_mended(&self, kind: &KindRef, stored: &Value, uid: &str, origin: &str) -> bool {
        let needed = match self {
            Self::Dropped(_) => return false,
            Self::Mark(mark) => mark,
            Self::Controller(_) => labels::ORIGIN,
        };
        let needed = [labels::ORIGIN, annotations::ORIGIN_UID, needed];
        let is_marked = !lost_marks(stored, uid, origin).any(|lost| needed.contains(&lost));
        is_marked && kind.foreign_controller(stored).is_none()
    }
}

/// What a worker made of the mirror that was sent, if it is not fit to run. What its admission adds is the worker's own
/// business. One that was found may be that of an earlier attempt, made of another version of the workload: what users may have
/// changed since is no alteration.
pub fn misfit(kind: &KindRef, sent: &Value, stored: &Value) -> Option<Misfit> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let uid = text(&sent["metadata"]["annotations"][annotations::ORIGIN_UID]);
    let origin = text(&sent["metadata"]["labels"][labels::ORIGIN]);
    if let Some(mark) = lost_marks(stored, &uid, &origin).next() {
        return Some(Misfit::Mark(mark));
    }
    if let Some(other) = kind.foreign_controller(stored) {
        return Some(Misfit::Controller(other.to_owned()));
    }
    let forwarded = |object: &Value| object["metadata"]["annotations"][annotations::FORWARDED].clone();
    let is_edited = forwarded(stored).is_string() && forwarded(sent) != forwarded(stored);
    // Of other kinds it is their rules that say what users may change, deeper down than here.
    let may_differ = |field: &str| is_edited && (*kind != KindRef::Job || forward::FIELDS.contains(&field));
    let fields = sent["spec"].as_object().into_iter().flatten().filter(|(field, _)| !may_differ(field));
    // Operators of other kinds drop what says nothing, a `suspend: false` for example, when they write an object again.
    let says = |value: &Value| matches!(kind, KindRef::Job) || says_something(value);
    let matters = |value: &Value| !value.is_null() && value != DEFAULT_REPLACEMENT && says(value);
    let dropped = fields.filter(|(_, value)| matters(value)).find(|(field, _)| stored["spec"][*field].is_null());
    dropped.map(|(field, _)| Misfit::Dropped(field.clone()))
}

/// Whether our watch shows an object. Of one that it does not show nothing more would be heard.
pub fn is_watched(object: &Value, origin: &str) -> bool {
    object["metadata"]["labels"][labels::ORIGIN] == origin
}

/// The marks that a mirror of this workload should bear, and does not.
fn lost_marks(stored: &Value, uid: &str, origin: &str) -> impl Iterator<Item = &'static str> {
    let noted = &stored["metadata"]["annotations"];
    [
        (labels::ORIGIN, is_watched(stored, origin)),
        (annotations::ORIGIN_UID, noted[annotations::ORIGIN_UID] == uid),
        (annotations::EPOCH, !noted[annotations::EPOCH].is_null()),
        (annotations::MANAGER_VERSION, !noted[annotations::MANAGER_VERSION].is_null()),
    ]
    .into_iter()
    .filter_map(|(mark, kept)| (!kept).then_some(mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use job_api::managed_by::RESERVED;
    use k8s_openapi::jiff::Timestamp;

    fn placement() -> Placement {
        Placement::new("eu-1".into(), "id-1".into(), 2, Timestamp::UNIX_EPOCH)
    }

    fn workload() -> Workload {
        let job = json!({"metadata": {"namespace": "ml", "name": "train", "uid": "u1", "resourceVersion": "1"}});
        serde_json::from_value(job).unwrap()
    }

    fn sent() -> Value {
        json!({
            "metadata": {
                "namespace": "ml", "name": "train", "uid": "m1", "resourceVersion": "5",
                "labels": {"jobferry.dev/origin": "o1"},
                "annotations": {"jobferry.dev/origin-uid": "u1", "jobferry.dev/epoch": "2",
                                "jobferry.dev/manager-resource-version": "41"},
            },
            "spec": {"suspend": false, "successPolicy": {"rules": []}, "completions": null,
                     "template": {"metadata": {"labels": {"jobferry.dev/origin-uid": "u1"}}}},
        })
    }

    fn without(pointers: &[&str]) -> Value {
        let mut object = sent();
        for pointer in pointers {
            *object.pointer_mut(pointer).unwrap() = Value::Null;
        }
        object
    }

    fn deleted(mut object: Value) -> Value {
        object["metadata"]["deletionTimestamp"] = "2026-11-15T10:00:00Z".into();
        object
    }

    fn judged(object: &Value, at: &Placement) -> Whose {
        whose(object, &serde_json::from_value(object.clone()).unwrap(), &workload(), at, "o1")
    }

    const LABELS: &str = "/metadata/labels";
    const ANNOTATIONS: &str = "/metadata/annotations";
    const POD_LABELS: &str = "/spec/template/metadata/labels";

    #[test]
    fn marks_and_uids_tell_whose_an_object_is() {
        let recorded = placement().with_mirror("m1");
        for (object, at, expected) in [
            (sent(), placement(), Whose::Ours),
            (without(&[POD_LABELS]), placement(), Whose::Ours),
            (without(&[LABELS]), placement(), Whose::Unmarked),
            (without(&[ANNOTATIONS]), placement(), Whose::Unmarked),
            (without(&[LABELS, ANNOTATIONS]), placement(), Whose::Unmarked),
            (without(&[LABELS, ANNOTATIONS, POD_LABELS]), recorded, Whose::Unmarked),
            (without(&[ANNOTATIONS, POD_LABELS]), placement(), Whose::Earlier),
            (deleted(without(&[LABELS])), placement(), Whose::Going),
            (without(&[LABELS, ANNOTATIONS, POD_LABELS]), placement(), Whose::Foreign),
        ] {
            assert_eq!(judged(&object, &at), expected, "{object}");
        }
    }

    #[test]
    fn marks_that_are_put_back_make_the_mirror_ours_again() {
        let mut object = without(&[LABELS, ANNOTATIONS]);
        let mirror = serde_json::from_value(object.clone()).unwrap();
        let patch = marks(&mirror, &workload(), &placement(), "o1");
        object["metadata"]["labels"] = patch["metadata"]["labels"].clone();
        object["metadata"]["annotations"] = patch["metadata"]["annotations"].clone();
        assert_eq!(judged(&object, &placement()), Whose::Ours);
    }

    #[test]
    fn a_mirror_that_came_back_altered_is_not_fit_to_run() {
        assert_eq!(misfit(&KindRef::Job, &sent(), &sent()), None);
        let mut suspended = sent();
        suspended["spec"]["suspend"] = true.into();
        suspended["spec"]["managedBy"] = RESERVED.into();
        assert_eq!(misfit(&KindRef::Job, &sent(), &suspended), None, "a worker's own queue may hold it back");
        let mut earlier = sent();
        earlier["metadata"]["annotations"]["jobferry.dev/manager-resource-version"] = "40".into();
        assert_eq!(misfit(&KindRef::Job, &sent(), &earlier), None, "an earlier attempt was made of an earlier version");
        let mut edited = sent();
        edited["metadata"]["annotations"]["jobferry.dev/forwarded"] = r#"{"spec":{"maxFailedIndexes":1}}"#.into();
        edited["spec"]["maxFailedIndexes"] = 1.into();
        let mut stored = sent();
        assert!(misfit(&KindRef::Job, &edited, &stored).is_some(), "what it was made of is not known");
        stored["metadata"]["annotations"]["jobferry.dev/forwarded"] = "{}".into();
        assert_eq!(misfit(&KindRef::Job, &edited, &stored), None, "its user has limited it since");
        edited["spec"]["podFailurePolicy"] = json!({"rules": []});
        let dropped = Some(Misfit::Dropped("podFailurePolicy".into()));
        assert_eq!(misfit(&KindRef::Job, &edited, &stored), dropped, "nobody could have added that");
        let mut delegated = sent();
        delegated["spec"]["managedBy"] = "example.com/other".into();
        for (stored, expected, told) in [
            (
                without(&[LABELS]),
                Misfit::Mark(labels::ORIGIN),
                "its admission takes off or changes our mark jobferry.dev/origin",
            ),
            (
                delegated,
                Misfit::Controller("example.com/other".into()),
                "its admission gives the mirror to another controller, example.com/other",
            ),
            (
                without(&["/spec/successPolicy"]),
                Misfit::Dropped("successPolicy".into()),
                "its server drops spec.successPolicy",
            ),
        ] {
            assert_eq!(misfit(&KindRef::Job, &sent(), &stored).as_ref(), Some(&expected));
            assert_eq!(expected.to_string(), told);
            assert!(!expected.is_mended(&KindRef::Job, &stored, "u1", "o1"), "{expected}");
            let can_be = !matches!(expected, Misfit::Dropped(_));
            assert_eq!(expected.is_mended(&KindRef::Job, &sent(), "u1", "o1"), can_be, "{expected}");
        }
    }
}
