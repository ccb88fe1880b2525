//! CEL rules of a custom resource's schema (`x-kubernetes-validations`).

use std::sync::Arc;

use kube_cel::{CompiledSchema, Validator, compile_schema};
use serde_json::Value;

use super::has_rules;
use super::structural::SchemaError;
use crate::error::Cause;

/// Whether this build evaluates rules.
pub(super) const EVALUATED: bool = true;

/// The compiled rules of a schema; nothing at all for the many schemas that have none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expressions(Option<Arc<CompiledSchema>>);

impl Expressions {
    /// Compiles every rule in the schema. The error names the first that is not CEL.
    pub(super) fn compile(schema: &Value) -> Result<Self, SchemaError> {
        if !has_rules(schema) {
            return Ok(Self::default());
        }
        let compiled = compile_schema(schema);
        match first_error(&compiled, "") {
            Some(error) => Err(error),
            None => Ok(Self(Some(Arc::new(compiled)))),
        }
    }

    /// Adds a cause for every rule that does not hold. Rules that speak of `oldSelf` need `old`.
    pub(super) fn check(&self, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        let Some(compiled) = &self.0 else { return };
        let Err(errors) = Validator::new().validate_compiled(compiled, object, old) else { return };
        for error in errors.into_vec() {
            let field = if error.field_path.is_empty() { "<nil>".to_owned() } else { error.field_path };
            causes.push(Cause {
                reason: error.reason.unwrap_or_else(|| "FieldValueInvalid".into()),
                message: format!("Invalid value: {}", error.message),
                field,
            });
        }
    }
}

fn first_error(schema: &CompiledSchema, at: &str) -> Option<SchemaError> {
    if let Some(error) = schema.compilation_errors().first() {
        return Some(SchemaError { at: format!("{at}.x-kubernetes-validations"), message: error.to_string() });
    }
    let mut names: Vec<&String> = schema.properties.keys().collect();
    names.sort();
    names
        .into_iter()
        .find_map(|name| first_error(&schema.properties[name], &format!("{at}.properties[{name}]")))
        .or_else(|| first_error(schema.items.as_deref()?, &format!("{at}.items")))
        .or_else(|| first_error(schema.additional_properties.as_deref()?, &format!("{at}.additionalProperties")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn broken(rule: &Value, object: &Value, old: Option<&Value>) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "x-kubernetes-validations": [rule], "properties": {"n": {"type": "integer"}}}}});
        let mut causes = Vec::new();
        Expressions::compile(&schema).unwrap().check(object, old, &mut causes);
        causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn rules_are_judged_on_create_and_on_change() {
        let spec = |n: i64| json!({"spec": {"n": n}});
        let positive = json!({"rule": "self.n > 0", "message": "n must be positive"});
        assert_eq!(broken(&positive, &spec(1), None), Vec::<String>::new());
        assert_eq!(broken(&positive, &spec(0), None), ["spec: Invalid value: n must be positive"]);
        let growing = json!({"rule": "self.n >= oldSelf.n", "message": "n may only grow"});
        assert_eq!(broken(&growing, &spec(1), None), Vec::<String>::new(), "there is nothing to grow from yet");
        assert_eq!(broken(&growing, &spec(1), Some(&spec(2))), ["spec: Invalid value: n may only grow"]);
    }

    /// The rule of our own Worker.
    #[test]
    fn a_rule_at_the_root_sees_the_name_of_the_object() {
        let schema = json!({"type": "object",
            "x-kubernetes-validations": [{"rule": "size(self.metadata.name) <= 63", "message": "at most 63"}],
            "properties": {"spec": {"type": "object", "properties": {"cordoned": {"type": "boolean"}}}}});
        let rules = Expressions::compile(&schema).unwrap();
        for (length, expected) in [(1, 0), (63, 0), (64, 1), (253, 1)] {
            let worker = json!({"metadata": {"name": "w".repeat(length)}, "spec": {"cordoned": false}});
            let mut causes = Vec::new();
            rules.check(&worker, None, &mut causes);
            assert_eq!(causes.len(), expected, "{length}: {causes:?}");
        }
    }

    #[test]
    fn a_rule_that_is_not_cel_is_found_when_the_schema_is_read() {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.n >"}]});
        assert_eq!(Expressions::compile(&schema).unwrap_err().at, ".x-kubernetes-validations");
    }
}
