//! Every refusal of this server, as the `metav1.Status` that Kubernetes clients understand.

use serde_json::{Value, json};

use crate::registry::Resource;

/// A refused request. It is rendered as a `metav1.Status` whatever the client asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
}

/// One violated field rule: an entry of `details.causes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// `FieldValueInvalid`, `FieldValueRequired`, ...
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) field: String,
}

impl Cause {
    /// A value that is not allowed: `detail` says why.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {}: {detail}", shown(value)),
            field: field.into(),
        }
    }

    /// A value that must be present; `detail` may be empty.
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let colon = if detail.is_empty() { "" } else { ": " };
        Self {
            reason: "FieldValueRequired".into(),
            message: format!("Required value{colon}{detail}"),
            field: field.into(),
        }
    }

    /// A change or a value that the rules forbid here.
    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self { reason: "FieldValueForbidden".into(), message: format!("Forbidden: {detail}"), field: field.into() }
    }

    /// A value outside of a closed set.
    pub(crate) fn not_supported(field: impl Into<String>, value: &Value, allowed: &[String]) -> Self {
        Self {
            reason: "FieldValueNotSupported".into(),
            message: format!("Unsupported value: {}: supported values: {}", shown(value), allowed.join(", ")),
            field: field.into(),
        }
    }

    /// A list entry that occurs twice.
    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueDuplicate".into(),
            message: format!("Duplicate value: {}", shown(value)),
            field: field.into(),
        }
    }
}

/// How a value appears inside a message: strings quoted, objects as JSON.
fn shown(value: &Value) -> String {
    value.to_string()
}

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    /// About the request as such: upstream sends details then, too, but nothing in them.
    fn bare(mut self) -> Self {
        self.details = Some(json!({}));
        self
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        let mut details = json!({"kind": resource.plural});
        if !name.is_empty() {
            details["name"] = name.into();
        }
        if !resource.group.is_empty() {
            details["group"] = resource.group.clone().into();
        }
        self.details = Some(details);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.group_resource());
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// The path leads nowhere: no such group, resource or page.
    pub(crate) fn no_such_page() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").bare()
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", resource.group_resource())).about(resource, name)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource").bare()
    }

    pub(crate) fn not_acceptable(offered: &str) -> Self {
        Self::new(406, "NotAcceptable", format!("only the following media types are accepted: {offered}")).bare()
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", resource.group_resource()))
            .about(resource, name)
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.group_resource());
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// Somebody else wrote first: the optimistic lock did not hold.
    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// Fields belong to other managers; server-side apply does not take them without force.
    pub(crate) fn apply_conflict(message: String, causes: &[Cause]) -> Self {
        let mut error = Self::new(409, "Conflict", message);
        error.details = Some(json!({"causes": causes.iter().map(cause_json).collect::<Vec<_>>()}));
        error
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}"),
        )
    }

    /// A patch of a kind that this resource does not take.
    pub(crate) fn unsupported_patch_type(accepted: &str) -> Self {
        Self::unsupported_media_type(accepted).bare()
    }

    /// The object breaks field rules; `causes` is not empty.
    pub(crate) fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        let mut lines: Vec<String> = Vec::new();
        for cause in causes {
            let line = format!("{}: {}", cause.field, cause.message);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let told = match lines.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let kind = match resource.group.as_str() {
            "" => resource.kind.clone(),
            group => format!("{}.{group}", resource.kind),
        };
        let mut error =
            Self::new(422, "Invalid", format!("{kind} \"{name}\" is invalid: {told}")).about(resource, name);
        if let Some(details) = &mut error.details {
            details["kind"] = resource.kind.clone().into();
            details["causes"] = causes.iter().map(cause_json).collect();
        }
        error
    }

    /// A query parameter or a body of options breaks a rule; `kind` is `ListOptions`, `CreateOptions`, ...
    pub(crate) fn invalid_options(kind: &str, cause: &Cause) -> Self {
        let message = format!("{kind}.meta.k8s.io \"\" is invalid: {}: {}", cause.field, cause.message);
        let mut error = Self::new(422, "Invalid", message);
        error.details = Some(json!({"group": "meta.k8s.io", "kind": kind, "causes": [cause_json(cause)]}));
        error
    }

    /// The object that a patch leads to has fields that its kind does not know.
    pub(crate) fn invalid_patch(message: &str) -> Self {
        let cause = Cause::invalid("patch", &Value::Null, message);
        let mut error = Self::new(422, "Invalid", format!(" \"\" is invalid: patch: {}", cause.message));
        error.details = Some(json!({"causes": [cause_json(&cause)]}));
        error
    }

    /// The same refusal, told about the resource by another name.
    pub(crate) fn told_about(mut self, kind: &str) -> Self {
        if let Some(details) = &mut self.details {
            details["kind"] = kind.into();
        }
        self
    }

    /// The request is well formed but cannot be done to this object (a failed JSON patch `test`, a wrong uid).
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message).bare()
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    pub(crate) fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(501, "NotImplemented", message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// The body that goes to the client, also inside of a watch ERROR event.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

fn cause_json(cause: &Cause) -> Value {
    json!({"reason": cause.reason, "message": cause.message, "field": cause.field})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    #[test]
    fn an_invalid_object_lists_each_violated_rule_once_in_the_text_and_always_in_the_causes() {
        let registry = Registry::built_in();
        let jobs = registry.find("batch", "v1", "jobs").unwrap();
        let cause = Cause::required("spec.selector", "");
        let error = ApiError::invalid(&jobs, "train", &[cause.clone(), cause]);
        assert_eq!(error.message, r#"Job.batch "train" is invalid: spec.selector: Required value"#);
        assert_eq!(error.status()["details"]["causes"].as_array().unwrap().len(), 2);
        assert_eq!(error.status()["details"]["kind"], "Job");
    }

    #[test]
    fn core_resources_are_named_without_a_group() {
        let registry = Registry::built_in();
        let pods = registry.find("", "v1", "pods").unwrap();
        let status = ApiError::not_found(&pods, "web").status();
        assert_eq!(status["message"], r#"pods "web" not found"#);
        assert_eq!(status["details"], json!({"kind": "pods", "name": "web"}));
    }
}
