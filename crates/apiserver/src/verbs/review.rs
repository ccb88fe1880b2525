//! SelfSubjectAccessReview: there is one user, and everything is allowed to it.

use http::StatusCode;
use serde_json::{Value, json};

use crate::http::Reply;

pub(super) fn review(mut object: Value) -> Reply {
    object["status"] = json!({"allowed": true});
    Reply::value(&object).with_code(StatusCode::CREATED)
}
