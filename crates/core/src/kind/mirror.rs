//! The user's object turned into the one that a worker runs.

use jobferry_api::{annotations, labels};
use serde_json::{Value, json};

use super::Kind;
use crate::{
    ownership::{relabel, users_own},
    record::Placement,
};

/// How long a finished mirror may outlive us: its own time to live, instead of the user's. A worker's policy that adds a
/// short one where none is set cannot make the result vanish, and a manager that is gone for good leaves nothing for ever.
const MIRROR_TTL_SECONDS: u32 = 30 * 24 * 3600;

/// The object cannot be mirrored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stored {kind} has no `{field}`")]
pub struct Unmirrorable {
    kind: String,
    field: &'static str,
}

impl Kind {
    /// The mirror of `object` (as the manager stores it) for this placement. `origin` is the manager's identity.
    pub fn mirror_of(&self, object: &Value, placement: &Placement, origin: &str) -> Result<Value, Unmirrorable> {
        let uid = self.text(object, "/metadata/uid", "metadata.uid")?;
        let version = self.text(object, "/metadata/resourceVersion", "metadata.resourceVersion")?;
        let mut mirror = self.bare(object)?;
        let forwarded = self.forwarded(object)?.annotation();
        let metadata = &mut mirror["metadata"];
        metadata["labels"][labels::ORIGIN] = origin.into();
        for (mark, value) in [
            (annotations::ORIGIN_UID, uid),
            (annotations::EPOCH, &placement.epoch.to_string()),
            (annotations::MANAGER_VERSION, version),
            (annotations::FORWARDED, &forwarded),
        ] {
            metadata["annotations"][mark] = value.into();
        }
        Ok(mirror)
    }

    /// What of an object means the same on a worker: without what is the manager's. Its pods can be told by a label; all
    /// other marks are not on it yet.
    pub(super) fn bare(&self, object: &Value) -> Result<Value, Unmirrorable> {
        let name = self.text(object, "/metadata/name", "metadata.name")?;
        let namespace = self.text(object, "/metadata/namespace", "metadata.namespace")?;
        let mut bare = object.as_object().cloned().unwrap_or_default();
        if !bare.contains_key("spec") {
            return Err(Unmirrorable { kind: self.kind.clone(), field: "spec" });
        }
        bare.remove("status");
        bare.insert("apiVersion".into(), self.api_version().into());
        bare.insert("kind".into(), self.kind.clone().into());
        let own_labels = users_own(object.pointer("/metadata/labels"));
        let own_annotations = users_own(object.pointer("/metadata/annotations"));
        let metadata = json!({
            "name": name, "namespace": namespace, "labels": own_labels, "annotations": own_annotations,
        });
        bare.insert("metadata".into(), metadata);
        let mut bare = Value::Object(bare);
        if let Some(managed_by) = &self.managed_by {
            managed_by.path.remove(&mut bare);
        }
        for field in self.strip.iter().filter(|field| field.applies(object)) {
            field.path.remove(&mut bare);
        }
        for ttl in &self.ttl {
            ttl.path.remove(&mut bare);
        }
        if let Some(ttl) = self.ttl.iter().find(|ttl| ttl.after.is_none()) {
            ttl.path.set(&mut bare, MIRROR_TTL_SECONDS.into());
        }
        let uid = self.text(object, "/metadata/uid", "metadata.uid")?;
        if self.pod_templates.is_empty() {
            bare["metadata"]["labels"][labels::ORIGIN_UID] = uid.into();
        }
        for path in &self.pod_templates {
            for (place, template) in path.find(&bare.clone()) {
                place.set(&mut bare, marked(template.clone(), uid));
            }
        }
        Ok(bare)
    }

    /// The UID of the user's object that the pods of a mirror are labelled with, or, where its pods cannot be, the mirror
    /// itself: by this it is known should somebody take the annotation off.
    pub(crate) fn labelled_uid(&self, mirror: &Value) -> Option<String> {
        let template = self.pod_templates.iter().find_map(|path| path.first(mirror));
        let labelled = template.map_or(mirror, |template| template);
        labelled["metadata"]["labels"][labels::ORIGIN_UID].as_str().map(str::to_owned)
    }

    fn text<'a>(&self, object: &'a Value, pointer: &str, field: &'static str) -> Result<&'a str, Unmirrorable> {
        let missing = || Unmirrorable { kind: self.kind.clone(), field };
        object.pointer(pointer).and_then(Value::as_str).ok_or_else(missing)
    }
}

/// A pod template whose pods carry the UID of the user's object. What is no template is left to the worker's admission.
fn marked(mut template: Value, uid: &str) -> Value {
    let mut own = users_own(template.pointer("/metadata/labels"));
    own.insert(labels::ORIGIN_UID.into(), uid.into());
    if let Some(template) = template.as_object_mut() {
        relabel(template, own);
    }
    template
}
