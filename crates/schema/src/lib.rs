//! Holding JSON values against JSON schemas that someone else wrote.
//!
//! The schemas of our own tools come from Rust types and need none of this. A caller's schema for
//! structured output does: it may use anything that JSON Schema has, and what the model is told about
//! a mistake must be exact enough to mend it. Drafts 4, 6, 7, 2019-09 and 2020-12 are known, told by
//! `$schema`; without it the newest counts. `format` is a remark, as the newest drafts have it.
//! References to other documents are not followed: a schema must not make us read files or the network.
//!
//! It is our own because a schema is held against a handful of values in a session: what can be had
//! brings tables, resolvers and formats that weigh more than the rest of a small program.
//!
//! `compile` reads a schema into the nodes of `node`, with `keywords` for what each member means;
//! `check` holds a value against them; `number` and `pattern` know the two kinds of values that need it.
//! Start with [`Schema::new`].
#![forbid(unsafe_code)]

mod check;
mod compile;
mod keywords;
mod node;
mod number;
mod pattern;

use serde_json::Value;
use std::fmt;

/// A schema that values can be held against.
pub struct Schema {
    value: Value,
    compiled: compile::Compiled,
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
        let compiled = compile::compile(&value)
            .map_err(|error| SchemaError(format!("not a JSON schema: {error}")))?;
        Ok(Self { value, compiled })
    }

    /// The schema itself.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// What is wrong with a value, each with its place; empty when it fits. At most eight are named.
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
    fn mistakes_in_a_schema_are_named_with_their_place() {
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
        // As deep as JSON is read at all, and beyond: told, not a crash.
        let nested = |depth: usize| {
            (0..depth).fold(json!({}), |inner, _| {
                Value::Object(std::iter::once(("next".to_owned(), inner)).collect())
            })
        };
        assert!(schema.problems(&nested(127)).is_empty());
        assert!(schema.problems(&nested(1_000))[0].contains("too deeply"));
    }

    #[test]
    fn what_is_wrong_is_said_so_that_it_can_be_mended() {
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
                "/: it has 1 items, 2 are the least",
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
                "/: it fits none of the 2 shapes that are allowed (/: {} is not a string and /: the property \"a\" is missing)",
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
