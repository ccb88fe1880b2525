//! How stored objects go out: as the stored bytes where possible, otherwise converted, reduced or tabulated.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::http::{Form, IncludeObject, Reply};
use crate::registry::{Resource, Strategy};
use crate::schema::normalise;
use crate::store::{Stored, encode};
use crate::strategy::event;
use crate::table;

/// Everything that decides the form of an answer.
#[derive(Clone)]
pub(crate) struct Renderer {
    pub(crate) resource: Arc<Resource>,
    pub(crate) form: Form,
    /// Ages in table cells are counted to here.
    pub(crate) now: Timestamp,
}

/// What goes into `metadata` of a list.
#[derive(Debug, Default)]
pub(crate) struct ListMeta {
    pub(crate) version: u64,
    pub(crate) resume: Option<String>,
    pub(crate) remaining: Option<usize>,
}

impl ListMeta {
    fn json(&self) -> Value {
        let mut meta = json!({"resourceVersion": self.version.to_string()});
        if let Some(resume) = &self.resume {
            meta["continue"] = resume.clone().into();
        }
        if let Some(remaining) = self.remaining {
            meta["remainingItemCount"] = remaining.into();
        }
        meta
    }
}

/// The object in the version of `resource`.
pub(crate) fn in_version(resource: &Resource, mut object: Value) -> Value {
    match resource.strategy {
        Strategy::NewEvent => {
            let mut event = event::from_core(object);
            // What was stored is in normal form under its other names: this cannot fail.
            drop(normalise(&resource.schema, &mut event));
            event
        }
        Strategy::Custom => {
            object["apiVersion"] = resource.api_version().into();
            object
        }
        _ => object,
    }
}

impl Renderer {
    /// Whether the stored bytes are the answer.
    fn is_verbatim(&self, stored: &Stored) -> bool {
        match self.resource.strategy {
            Strategy::NewEvent => false,
            // Objects are stored in the version they were written in.
            Strategy::Custom => {
                let prefix = format!("{{\"apiVersion\":\"{}\",", self.resource.api_version());
                stored.json.starts_with(prefix.as_bytes())
            }
            _ => true,
        }
    }

    fn whole(&self, stored: &Stored) -> Bytes {
        if self.is_verbatim(stored) {
            return stored.json.clone();
        }
        encode(&in_version(&self.resource, stored.value()))
    }

    /// One object as an answer, or inside of a watch event.
    pub(crate) fn object(&self, stored: &Stored) -> Bytes {
        match self.form {
            Form::Object => self.whole(stored),
            Form::Metadata => Bytes::from(metadata_only(&stored.value()).to_string()),
            Form::Table(include) => {
                let columns = table::columns(&self.resource);
                let meta = json!({"resourceVersion": stored.version.to_string()});
                Bytes::from(self.table(&columns, [stored.value()].into_iter(), include, &meta).to_string())
            }
        }
    }

    /// One object that is not stored (a dry run, an object just deleted).
    pub(crate) fn value(&self, object: &Value) -> Value {
        match self.form {
            Form::Object => object.clone(),
            Form::Metadata => metadata_only(object),
            Form::Table(include) => {
                let columns = table::columns(&self.resource);
                let meta = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                self.table(&columns, [object.clone()].into_iter(), include, &meta)
            }
        }
    }

    /// A reply with one stored object.
    pub(crate) fn reply(&self, stored: &Stored) -> Reply {
        Reply::json(self.object(stored))
    }

    /// A list of objects.
    pub(crate) fn list(&self, objects: &[Arc<Stored>], meta: &ListMeta) -> Bytes {
        match self.form {
            Form::Object => self.object_list(objects, meta),
            Form::Metadata => {
                let items: Vec<Value> = objects.iter().map(|stored| metadata_only(&stored.value())).collect();
                let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": meta.json(), "items": items});
                Bytes::from(list.to_string())
            }
            Form::Table(include) => {
                let columns = table::columns(&self.resource);
                let values = objects.iter().map(|stored| stored.value());
                Bytes::from(self.table(&columns, values, include, &meta.json()).to_string())
            }
        }
    }

    fn object_list(&self, objects: &[Arc<Stored>], meta: &ListMeta) -> Bytes {
        let size: usize = objects.iter().map(|stored| stored.json.len() + 1).sum();
        let mut list = BytesMut::with_capacity(size + 256);
        let (kind, version) = (self.resource.list_kind(), self.resource.api_version());
        let mut meta = meta.json();
        if self.resource.is_custom() && meta["continue"].is_null() {
            // Lists without a Go type of their own always carry it.
            meta["continue"] = "".into();
        }
        let head = format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{},\"items\":[",
            Value::from(kind),
            Value::from(version.as_str()),
            meta
        );
        list.put_slice(head.as_bytes());
        // Items of a typed list do not repeat their type; it stands first in the stored bytes, so it can be cut off.
        let own_type = format!("{{\"apiVersion\":\"{version}\",\"kind\":\"{}\",", self.resource.kind);
        for (index, stored) in objects.iter().enumerate() {
            if index > 0 {
                list.put_u8(b',');
            }
            let object = self.whole(stored);
            match object.strip_prefix(own_type.as_bytes()) {
                Some(rest) if !self.resource.is_custom() => {
                    list.put_u8(b'{');
                    list.put_slice(rest);
                }
                _ => list.put_slice(&object),
            }
        }
        list.put_slice(b"]}");
        list.freeze()
    }

    fn table(
        &self,
        columns: &[table::Column],
        objects: impl Iterator<Item = Value>,
        include: IncludeObject,
        meta: &Value,
    ) -> Value {
        let definitions: Vec<Value> = columns.iter().map(table::Column::definition).collect();
        let rows: Vec<Value> = objects
            .map(|object| {
                let object = in_version(&self.resource, object);
                let cells: Vec<Value> = columns.iter().map(|column| column.cell(&object, self.now)).collect();
                let mut row = json!({"cells": cells});
                match include {
                    IncludeObject::None => {}
                    IncludeObject::Metadata => row["object"] = metadata_only(&object),
                    IncludeObject::Object => row["object"] = object,
                }
                row
            })
            .collect();
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "columnDefinitions": definitions, "rows": rows})
    }

    /// A watch bookmark: an object of the right kind with nothing but a version.
    pub(crate) fn bookmark(&self, version: u64, ends_initial_events: bool) -> Value {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if ends_initial_events {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        match self.form {
            Form::Object => {
                json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata})
            }
            Form::Metadata => metadata_only(&json!({"metadata": metadata})),
            Form::Table(_) => {
                let object = json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
                let row = json!({"cells": [], "object": metadata_only(&object)});
                let meta = json!({"resourceVersion": version.to_string()});
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "columnDefinitions": [], "rows": [row]})
            }
        }
    }
}

fn metadata_only(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}
