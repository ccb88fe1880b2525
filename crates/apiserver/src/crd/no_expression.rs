//! Stands in for `expression` in builds without CEL: rules are stored, and whoever writes them is told.

use serde_json::Value;

use super::structural::SchemaError;
use crate::error::Cause;

/// Whether this build evaluates rules.
pub(super) const EVALUATED: bool = false;

/// No rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expressions;

impl Expressions {
    // The signature is that of the build with CEL.
    #[allow(clippy::unnecessary_wraps)]
    pub(super) fn compile(_: &Value) -> Result<Self, SchemaError> {
        Ok(Self)
    }

    #[allow(clippy::unused_self)]
    pub(super) fn check(&self, _: &Value, _: Option<&Value>, _: &mut Vec<Cause>) {}
}
