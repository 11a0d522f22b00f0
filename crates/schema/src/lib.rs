//! Validates JSON values against JSON schemas written by others.
//!
//! The schemas of the built-in tools come from Rust types and need no validator. A caller's schema for
//! structured output does: it may use any JSON Schema feature, and the messages must be exact enough
//! for the model to correct its output. Drafts 4, 6, 7, 2019-09 and 2020-12 are supported, selected by
//! `$schema`; the default is 2020-12. `format` is an annotation only, as in the newest drafts.
//! References to other documents are rejected: a schema must not cause file or network access.
//!
//! The validator is our own because a session checks only a handful of values: the available crates
//! come with tables, resolvers and formats that would make up a tenth of the binary.
//!
//! `compile` turns a schema into the nodes of `node`, and `keywords` parses the individual keywords;
//! `check` validates a value; `number` and `pattern` implement numbers and regular expressions.
//! Start with [`Schema::new`].
#![forbid(unsafe_code)]
#![expect(
    missing_docs,
    reason = "not published; only what names don't say is documented"
)]

mod check;
mod compile;
mod error;
mod keywords;
mod node;
mod number;
mod pattern;

pub use error::SchemaError;
pub use pattern::PatternError;

use serde_json::Value;
use std::fmt;

/// A compiled schema.
pub struct Schema {
    value: Value,
    compiled: compile::Compiled,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.value).finish()
    }
}

impl Schema {
    /// Compiles a schema, which must be an object.
    ///
    /// # Errors
    /// If the value is not a valid schema, or refers to another document.
    pub fn new(value: Value) -> Result<Self, SchemaError> {
        if !value.is_object() {
            return Err(SchemaError::NotAnObject);
        }
        let compiled = compile::compile(&value)?;
        Ok(Self { value, compiled })
    }

    /// The schema as it was given.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Up to eight validation errors, each with its JSON pointer; empty if the value is valid.
    #[must_use]
    pub fn problems(&self, value: &Value) -> Vec<String> {
        check::problems(&self.compiled, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_validation_error_names_its_location() {
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
    fn an_invalid_schema_is_rejected_with_the_reason() {
        for (value, word) in [
            (json!("x"), "object"),
            (json!({"type": "objekt"}), "objekt"),
        ] {
            let error = Schema::new(value).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn references_within_the_schema_resolve_and_others_are_rejected() {
        let inside = json!({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}});
        let schema = Schema::new(inside).unwrap();
        assert_eq!(schema.problems(&json!({"a": 1.5})).len(), 1);
        for place in [
            "http://127.0.0.1:1/schema.json",
            "file:///etc/hostname",
            "#/$defs/absent",
            "#absent",
        ] {
            let error = Schema::new(json!({"$ref": place})).unwrap_err().to_string();
            assert!(error.contains(place), "{error}");
        }
    }

    #[test]
    fn errors_in_a_schema_name_their_location() {
        for (schema, words) in [
            (
                json!({"properties": {"a": {"minLength": -1}}}),
                "/properties/a: minLength",
            ),
            (json!({"$defs": {"a": {"type": 5}}}), "/$defs/a: type"),
            (json!({"required": "a"}), "required"),
            (json!({"items": 5}), "/items"),
            (json!({"anyOf": []}), "anyOf"),
            (json!({"pattern": "("}), "regular expression"),
            (json!({"multipleOf": 0}), "multipleOf"),
            (json!({"$defs": {"a": {"$ref": "#/$defs/a"}}}), "never end"),
            (json!({"allOf": [{"not": {"$ref": "#"}}]}), "never end"),
        ] {
            let error = Schema::new(schema).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_schema_may_contain_itself() {
        let schema = Schema::new(json!({
            "type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": false,
        }))
        .unwrap();
        assert!(schema.problems(&json!({"next": {"next": {}}})).is_empty());
        assert_eq!(
            schema.problems(&json!({"next": {"next": {"other": 1}}})),
            ["/next/next/other: this property is not allowed"]
        );
        // The depth limit of the JSON parser passes; a deeper value is an error, not a crash.
        let nested = |depth: usize| {
            (0..depth).fold(json!({}), |inner, _| {
                Value::Object(std::iter::once(("next".to_owned(), inner)).collect())
            })
        };
        assert!(schema.problems(&nested(127)).is_empty());
        assert!(schema.problems(&nested(1_000))[0].contains("too deeply"));
    }

    #[test]
    fn validation_errors_say_what_was_expected() {
        let check = |schema: Value, value: Value| Schema::new(schema).unwrap().problems(&value);
        for (schema, value, problem) in [
            (
                json!({"type": ["string", "null"]}),
                json!(5),
                "/: 5 is not a string or null",
            ),
            (
                json!({"enum": ["a", 1]}),
                json!("b"),
                "/: \"b\" is not \"a\" or 1",
            ),
            (
                json!({"minItems": 2}),
                json!([1]),
                "/: it has 1 items, the minimum is 2",
            ),
            (
                json!({"required": ["a/b"]}),
                json!({}),
                "/: the property \"a/b\" is missing",
            ),
            (
                json!({"properties": {"a/b": {"maximum": 3}}}),
                json!({"a/b": 4}),
                "/a~1b: 4 is more than 3",
            ),
            (
                json!({"pattern": "^x"}),
                json!("y"),
                "/: \"y\" doesn't match ^x",
            ),
            (
                json!({"uniqueItems": true}),
                json!([1, 2, 1.0]),
                "/: items 0 and 2 are the same",
            ),
            (
                json!({"anyOf": [{"type": "string"}, {"required": ["a"]}]}),
                json!({}),
                "/: it matches none of the 2 allowed schemas (/: {} is not a string and /: the property \"a\" is missing)",
            ),
        ] {
            assert_eq!(check(schema, value), [problem]);
        }
        let many = check(json!({"items": {"type": "string"}}), json!(vec![0; 100]));
        assert_eq!(many.len(), 8);
        let long = check(json!({"type": "null"}), json!("x".repeat(10_000)));
        assert!(long[0].len() < 500, "{long:?}");
    }
}
