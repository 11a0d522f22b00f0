//! Holding JSON values against JSON schemas that someone else wrote.
//!
//! The schemas of our own tools come from Rust types and need none of this. A caller's schema for
//! structured output does: it may use anything that JSON Schema has, and what the model is told about
//! a mistake must be exact enough to mend it. References to other documents are not followed: a schema
//! must not make us read files or the network.
//!
//! Start with [`Schema::new`].
#![forbid(unsafe_code)]

use serde_json::Value;
use std::fmt;

/// A schema that values can be held against.
pub struct Schema {
    value: Value,
    validator: jsonschema::Validator,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.value).finish()
    }
}

/// Why something is no schema.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(String);

/// How many mistakes are named at once: more only bury the first.
const MOST_PROBLEMS: usize = 8;

impl Schema {
    /// Reads a schema. It must be an object.
    ///
    /// # Errors
    /// When it is no schema; the text says what is wrong with it.
    pub fn new(value: Value) -> Result<Self, SchemaError> {
        if !value.is_object() {
            return Err(SchemaError(
                "a JSON schema must be an object, for example {\"type\":\"object\",\"properties\":{…}}"
                    .to_owned(),
            ));
        }
        let validator = jsonschema::options()
            .should_validate_formats(false)
            .build(&value)
            .map_err(|error| SchemaError(format!("not a JSON schema: {error}")))?;
        Ok(Self { value, validator })
    }

    /// The schema itself.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// What is wrong with a value, each with its place; empty when it fits.
    #[must_use]
    pub fn problems(&self, value: &Value) -> Vec<String> {
        self.validator
            .iter_errors(value)
            .take(MOST_PROBLEMS)
            .map(|error| {
                let place = error.instance_path().to_string();
                let place = if place.is_empty() { "/" } else { &place };
                format!("{place}: {error}")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_mistake_is_named_with_its_place() {
        let schema = Schema::new(json!({
            "type": "object", "required": ["name", "tags"],
            "properties": {
                "name": {"type": "string", "minLength": 2},
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
            },
        }))
        .unwrap();
        assert_eq!(
            schema.problems(&json!({"name": "ab", "tags": ["a"]})),
            Vec::<String>::new()
        );
        let problems = schema.problems(&json!({"name": "x", "tags": ["c"]}));
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems.iter().any(|problem| problem.starts_with("/name:")));
        assert!(
            problems
                .iter()
                .any(|problem| problem.starts_with("/tags/0:"))
        );
        assert!(schema.problems(&json!([]))[0].starts_with("/:"));
    }

    #[test]
    fn what_is_no_schema_is_refused_with_the_reason() {
        for (value, word) in [
            (json!("x"), "object"),
            (json!({"type": "objekt"}), "objekt"),
        ] {
            let error = Schema::new(value).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn references_inside_work_and_those_to_elsewhere_are_refused() {
        let inside = json!({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}});
        let schema = Schema::new(inside).unwrap();
        assert_eq!(schema.problems(&json!({"a": 1.5})).len(), 1);
        for place in ["http://127.0.0.1:1/schema.json", "file:///etc/hostname"] {
            assert!(Schema::new(json!({"$ref": place})).is_err(), "{place}");
        }
    }
}
