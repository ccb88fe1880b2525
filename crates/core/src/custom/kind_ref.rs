//! What a workload is: a Job, whose rules are code, or an object of a kind, whose rules are data.

use std::sync::Arc;

use jobferry_api as api;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::{read_mirror, read_workload};
use crate::{
    forward::{self, Share},
    kind::{Kind, Unmirrorable},
    mirror::{self, NotAJob},
    record::{Carried, Placement},
    workload::{Mirror, Workload},
};

/// What kind of workload it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum KindRef {
    /// Kubernetes' own Job, whose status has rules in code.
    #[default]
    Job,
    /// Any other, by the rules of its kind.
    Custom(Arc<Kind>),
}

impl KindRef {
    /// Its name: that of its resource.
    pub fn name(&self) -> String {
        match self {
            Self::Job => "jobs.batch".to_owned(),
            Self::Custom(kind) => kind.name(),
        }
    }

    /// Where its group and version are served, and its name there.
    pub fn resource(&self) -> (String, &str) {
        match self {
            Self::Job => ("/apis/batch/v1".to_owned(), "jobs"),
            Self::Custom(kind) => (format!("/apis/{}", kind.api_version()), &kind.plural),
        }
    }

    /// `apiVersion` and `kind` of its objects.
    pub fn type_meta(&self) -> (String, String) {
        match self {
            Self::Job => ("batch/v1".to_owned(), "Job".to_owned()),
            Self::Custom(kind) => (kind.api_version(), kind.kind.clone()),
        }
    }

    /// The path of its objects in a namespace.
    pub fn collection(&self, namespace: &str) -> String {
        let (root, plural) = self.resource();
        format!("{root}/namespaces/{namespace}/{plural}")
    }

    /// The path of one object.
    pub fn object(&self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(namespace))
    }

    /// The path under which the status of one object is written.
    pub fn status(&self, namespace: &str, name: &str) -> String {
        let object = self.object(namespace, name);
        match self {
            Self::Custom(kind) if kind.status.in_object => object,
            _ => format!("{object}/status"),
        }
    }

    /// Whether it is the same kind, whatever its rules say by now.
    pub fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Job, Self::Job) => true,
            (Self::Custom(one), Self::Custom(other)) => (&one.group, &one.plural) == (&other.group, &other.plural),
            _ => false,
        }
    }

    /// Decodes a workload of this kind from the API server's answer.
    pub fn decode_workload(&self, json: &[u8], now: Timestamp) -> Result<Workload, serde_json::Error> {
        match self {
            Self::Job => serde_json::from_slice(json),
            Self::Custom(kind) => read_workload(kind, &serde_json::from_slice(json)?, now),
        }
    }

    /// Decodes a mirror of this kind from the API server's answer.
    pub fn decode_mirror(&self, json: &[u8], now: Timestamp) -> Result<Mirror, serde_json::Error> {
        match self {
            Self::Job => serde_json::from_slice(json),
            Self::Custom(kind) => read_mirror(kind, &serde_json::from_slice(json)?, now),
        }
    }

    /// The mirror of an object as the manager stores it.
    pub fn mirror_of(&self, object: &Value, placement: &Placement, origin: &str) -> Result<Value, NoMirror> {
        Ok(match self {
            Self::Job => mirror::mirror_of(object, placement, origin)?,
            Self::Custom(kind) => kind.mirror_of(object, placement, origin)?,
        })
    }

    /// The patch that brings a mirror up to date with its user's object, in so far.
    pub fn edit(
        &self,
        object: &Value,
        mirror: &Value,
        carried: Carried,
        share: Share,
    ) -> Result<Option<Value>, NoMirror> {
        Ok(match self {
            Self::Job => forward::edit(object, mirror, carried, share),
            Self::Custom(kind) if share == Share::Everything => kind.edit(object, mirror)?,
            Self::Custom(_) => None,
        })
    }

    /// The UID of the workload that the pods of a mirror are labelled with.
    pub(crate) fn labelled_uid(&self, mirror: &Value) -> Option<String> {
        match self {
            Self::Job => {
                mirror["spec"]["template"]["metadata"]["labels"][api::labels::ORIGIN_UID].as_str().map(str::to_owned)
            }
            Self::Custom(kind) => kind.labelled_uid(mirror),
        }
    }

    /// To whom a worker's admission gave a mirror, if not to the worker's own controller.
    pub(crate) fn foreign_controller<'a>(&self, mirror: &'a Value) -> Option<&'a str> {
        match self {
            Self::Job => mirror["spec"]["managedBy"].as_str().filter(|name| *name != job_api::managed_by::RESERVED),
            Self::Custom(kind) => kind.foreign_controller(mirror),
        }
    }
}

/// An object from which no mirror can be made.
#[derive(Debug, thiserror::Error)]
pub enum NoMirror {
    /// A Job.
    #[error(transparent)]
    Job(#[from] NotAJob),
    /// An object of another kind.
    #[error(transparent)]
    Custom(#[from] Unmirrorable),
}
