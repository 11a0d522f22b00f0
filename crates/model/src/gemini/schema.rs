//! The part of JSON Schema that Gemini knows.

use serde_json::{Map, Value, json};

/// How deep references are followed: a schema that contains itself has no end.
const DEEPEST: usize = 12;

/// Why a schema can't be expressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SchemaError {
    #[error("the reference {0} does not resolve")]
    Dangling(String),
    #[error("it contains itself")]
    Endless,
}

const KEPT: [&str; 14] = [
    "title",
    "description",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "pattern",
    "default",
    "nullable",
    "format",
];
const FORMATS: [&str; 7] = [
    "enum",
    "date-time",
    "int32",
    "int64",
    "float",
    "double",
    "date",
];

/// A schema with what the API knows, and nothing else.
pub(crate) fn projected(schema: &Value) -> Result<Value, SchemaError> {
    let mut out = project(schema, schema, 0)?;
    if out.get("type").is_none() && out.get("anyOf").is_none() {
        out["type"] = "object".into();
    }
    Ok(out)
}

fn project(schema: &Value, root: &Value, depth: usize) -> Result<Value, SchemaError> {
    if depth > DEEPEST {
        return Err(SchemaError::Endless);
    }
    let Some(fields) = schema.as_object() else {
        // `true`: anything.
        return Ok(json!({"type": "string"}));
    };
    if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
        let target = reference
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer))
            .ok_or_else(|| SchemaError::Dangling(reference.to_owned()))?;
        let mut out = project(target, root, depth + 1)?;
        if let Some(description) = fields.get("description") {
            out["description"] = description.clone();
        }
        return Ok(out);
    }
    let mut out = Map::new();
    for key in KEPT {
        if let Some(value) = fields.get(key) {
            let known = key != "format"
                || value
                    .as_str()
                    .is_some_and(|format| FORMATS.contains(&format));
            if known {
                out.insert(key.to_owned(), value.clone());
            }
        }
    }
    choices(fields, root, depth, &mut out)?;
    kind(fields, &mut out);
    words(fields, &mut out);
    object(fields, root, depth, &mut out)?;
    if out.get("type").is_some_and(|kind| kind == "array") {
        let items = fields
            .get("items")
            .cloned()
            .unwrap_or_else(|| json!({"type": "string"}));
        // A tuple is a list of any of its parts.
        let items = match items {
            Value::Array(parts) => parts
                .into_iter()
                .next()
                .unwrap_or_else(|| json!({"type": "string"})),
            other => other,
        };
        out.insert("items".to_owned(), typed(project(&items, root, depth + 1)?));
    }
    Ok(Value::Object(out))
}

/// Something without a type is a text.
fn typed(mut schema: Value) -> Value {
    if schema.get("type").is_none() && schema.get("anyOf").is_none() {
        schema["type"] = "string".into();
    }
    schema
}

fn choices(
    fields: &Map<String, Value>,
    root: &Value,
    depth: usize,
    out: &mut Map<String, Value>,
) -> Result<(), SchemaError> {
    let list = ["anyOf", "oneOf"]
        .into_iter()
        .find_map(|key| fields.get(key).and_then(Value::as_array));
    if let Some(list) = list {
        let is_null = |choice: &&Value| choice["type"] == "null";
        if list.iter().any(|choice| is_null(&choice)) {
            out.insert("nullable".to_owned(), true.into());
        }
        let mut kept = Vec::new();
        for choice in list.iter().filter(|choice| !is_null(choice)) {
            kept.push(typed(project(choice, root, depth + 1)?));
        }
        if kept.len() == 1 {
            if let Some(Value::Object(only)) = kept.pop() {
                for (key, value) in only {
                    out.entry(key).or_insert(value);
                }
            }
        } else if !kept.is_empty() {
            out.insert("anyOf".to_owned(), Value::Array(kept));
        }
    }
    for part in fields
        .get("allOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if let Value::Object(part) = project(part, root, depth + 1)? {
            for (key, value) in part {
                out.entry(key).or_insert(value);
            }
        }
    }
    Ok(())
}

fn kind(fields: &Map<String, Value>, out: &mut Map<String, Value>) {
    match fields.get("type") {
        Some(Value::String(kind)) if kind == "null" => {
            out.insert("type".to_owned(), "string".into());
            out.insert("nullable".to_owned(), true.into());
        }
        Some(Value::String(kind)) => {
            out.insert("type".to_owned(), kind.as_str().into());
        }
        Some(Value::Array(kinds)) => {
            if kinds.iter().any(|kind| kind == "null") {
                out.insert("nullable".to_owned(), true.into());
            }
            let kinds: Vec<&Value> = kinds.iter().filter(|kind| *kind != "null").collect();
            match kinds.as_slice() {
                [] => {}
                [only] => {
                    out.insert("type".to_owned(), (*only).clone());
                }
                many => {
                    let any: Vec<Value> = many
                        .iter()
                        .map(|kind| {
                            if *kind == "array" {
                                json!({"type": "array", "items": {"type": "string"}})
                            } else {
                                json!({"type": kind})
                            }
                        })
                        .collect();
                    out.insert("anyOf".to_owned(), any.into());
                }
            }
        }
        _ if fields.contains_key("properties") => {
            out.insert("type".to_owned(), "object".into());
        }
        _ if fields.contains_key("items") => {
            out.insert("type".to_owned(), "array".into());
        }
        _ => {}
    }
    // Exclusive bounds of whole numbers are bounds.
    for (theirs, ours, step) in [
        ("exclusiveMinimum", "minimum", 1),
        ("exclusiveMaximum", "maximum", -1),
    ] {
        if let Some(bound) = fields.get(theirs).and_then(Value::as_i64) {
            out.insert(ours.to_owned(), (bound + step).into());
        }
    }
}

/// Allowed values are texts.
fn words(fields: &Map<String, Value>, out: &mut Map<String, Value>) {
    let single = fields.get("const").map(|value| vec![value.clone()]);
    let list = fields
        .get("enum")
        .and_then(Value::as_array)
        .cloned()
        .or(single);
    let Some(list) = list else {
        return;
    };
    let texts: Vec<Value> = list
        .iter()
        .filter(|value| !value.is_null())
        .map(|value| match value {
            Value::String(text) => Value::String(text.clone()),
            other => Value::String(other.to_string()),
        })
        .collect();
    let all_text = list
        .iter()
        .all(|value| value.is_string() || value.is_null());
    if texts.is_empty() {
        return;
    }
    if all_text || out.get("type").is_none() {
        out.insert("type".to_owned(), "string".into());
        out.insert("enum".to_owned(), Value::Array(texts));
    }
}

fn object(
    fields: &Map<String, Value>,
    root: &Value,
    depth: usize,
    out: &mut Map<String, Value>,
) -> Result<(), SchemaError> {
    let Some(properties) = fields.get("properties").and_then(Value::as_object) else {
        return Ok(());
    };
    let mut kept = Map::new();
    for (name, schema) in properties {
        kept.insert(name.clone(), typed(project(schema, root, depth + 1)?));
    }
    let required: Vec<Value> = fields
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|name| name.as_str().is_some_and(|name| kept.contains_key(name)))
        .cloned()
        .collect();
    out.insert("properties".to_owned(), Value::Object(kept));
    if !required.is_empty() {
        out.insert("required".to_owned(), Value::Array(required));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a schema has only what the API knows.
    fn is_clean(schema: &Value) -> bool {
        let Some(fields) = schema.as_object() else {
            return false;
        };
        let known = ["type", "enum", "items", "properties", "required", "anyOf"];
        fields.iter().all(|(key, value)| match key.as_str() {
            "properties" => value.as_object().unwrap().values().all(is_clean),
            "items" => is_clean(value),
            "anyOf" => value.as_array().unwrap().iter().all(is_clean),
            "type" => value.is_string(),
            "enum" => value.as_array().unwrap().iter().all(Value::is_string),
            key => known.contains(&key) || KEPT.contains(&key),
        }) && (schema["type"] != "array" || schema.get("items").is_some())
    }

    #[test]
    fn only_what_the_api_knows_is_left() {
        let schema = json!({
            "$schema": "x", "type": "object", "additionalProperties": false, "required": ["a", "gone"],
            "$defs": {"D": {"type": "object", "properties": {"n": {"type": ["integer", "null"], "exclusiveMinimum": 0}}}},
            "properties": {
                "a": {"$ref": "#/$defs/D", "description": "d"},
                "b": {"type": "array"},
                "c": {"const": "x"},
                "d": {"enum": [1, 2]},
                "e": {"oneOf": [{"type": "string", "format": "uri"}, {"type": "null"}]},
                "f": {"type": ["string", "array"]},
                "g": true,
                "h": {"type": "object", "propertyNames": {"pattern": "x"}, "patternProperties": {}},
                "i": {"items": [{"type": "string"}, {"type": "number"}]}
            }
        });
        let out = projected(&schema).unwrap();
        assert!(is_clean(&out), "{out:#}");
        assert_eq!(out["required"], json!(["a"]));
        assert_eq!(out["properties"]["a"]["properties"]["n"]["minimum"], 1);
        assert_eq!(out["properties"]["c"]["enum"], json!(["x"]));
        assert_eq!(out["properties"]["e"]["nullable"], true);
    }

    #[test]
    fn a_reference_that_leads_nowhere_or_back_is_an_error() {
        let dangling = json!({"properties": {"a": {"$ref": "#/$defs/No"}}});
        assert_eq!(
            projected(&dangling),
            Err(SchemaError::Dangling("#/$defs/No".into()))
        );
        let endless = json!({"$defs": {"T": {"properties": {"t": {"$ref": "#/$defs/T"}}}}, "$ref": "#/$defs/T"});
        assert_eq!(projected(&endless), Err(SchemaError::Endless));
    }
}
