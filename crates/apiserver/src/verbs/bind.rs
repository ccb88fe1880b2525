//! pods/binding: a scheduler's decision, made once.

use http::StatusCode;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::http::{Reply, media_type, parse, protobuf};
use crate::metadata;
use crate::schema::{built_in, seconds};
use crate::selection::draft;
use crate::server::{Call, Inner};

impl Inner {
    pub(super) fn bind(&self, call: &Call) -> Result<Reply, ApiError> {
        let binding = match media_type(&call.parts.headers) {
            "application/vnd.kubernetes.protobuf" => protobuf(&built_in("core.v1.Binding"), &call.body)?,
            media => parse(media, &call.body)?.0,
        };
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        if node.is_empty() {
            let cause = crate::error::Cause::required("target.name", "");
            return Err(ApiError::invalid(&call.resource, &call.key().name, &[cause]));
        }
        let options = call.query.write_options("CreateOptions", call.user_agent())?;
        loop {
            let stored = self.stored(call)?;
            let mut pod = stored.value();
            self.assign(call, &mut pod, node)?;
            let done = options.dry_run
                || self.store.replace(&call.resource.table, draft(&call.resource, pod), stored.version).is_ok();
            if done {
                let success =
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
                return Ok(Reply::value(&success).with_code(StatusCode::CREATED));
            }
        }
    }

    fn assign(&self, call: &Call, pod: &mut Value, node: &str) -> Result<(), ApiError> {
        let name = metadata::text(pod, "name").to_owned();
        if metadata::is_deleting(pod) {
            let why = format!("pod {name} is being deleted, cannot be assigned to a host");
            return Err(ApiError::conflict(&call.resource, &name, &why));
        }
        let current = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if !current.is_empty() {
            let why = format!("pod {name} is already assigned to node {current:?}");
            return Err(ApiError::conflict(&call.resource, &name, &why).told_about("pods/binding"));
        }
        pod["spec"]["nodeName"] = node.into();
        let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": seconds(self.now())});
        match pod["status"]["conditions"].as_array_mut() {
            Some(conditions) => {
                conditions.retain(|condition| condition["type"] != "PodScheduled");
                conditions.push(scheduled);
            }
            None => pod["status"]["conditions"] = json!([scheduled]),
        }
        Ok(())
    }
}
