//! Tool inputs: the schema that the model sees, and fitting what the model wrote to it.
//!
//! Models write `"42"` where a number is wanted and `"true"` where a boolean is; that is accepted.
//! An unknown field is refused with the known ones named, since a misspelt option that is silently
//! ignored does the wrong thing.

use crate::tool::ToolError;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The JSON schema of an input type, without the parts that only cost tokens.
#[must_use]
pub fn schema_of<T: JsonSchema>() -> Value {
    stored_schema::<T>()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_else(made_schema::<T>)
}

/// The schema of an input type as JSON, if it was made beforehand.
pub(crate) fn stored_schema<T>() -> Option<&'static str> {
    crate::stored_schemas::find(std::any::type_name::<T>())
}

/// A schema on its way to the model. A stored one stays text: taking thirty of them apart and writing them again would be
/// a fifth of a start.
#[derive(Debug, Clone)]
pub enum InputSchema {
    /// JSON that was made beforehand.
    Stored(&'static str),
    /// Made now, or changed.
    Made(Arc<Value>),
}

impl InputSchema {
    /// The schema, to look into.
    #[must_use]
    pub fn value(&self) -> Arc<Value> {
        match self {
            Self::Stored(text) => Arc::new(serde_json::from_str(text).unwrap_or_default()),
            Self::Made(value) => Arc::clone(value),
        }
    }

    /// The same schema, changed.
    #[must_use]
    pub fn changed(self, change: impl FnOnce(&mut Value)) -> Self {
        let mut value = Arc::unwrap_or_clone(self.value());
        change(&mut value);
        value.into()
    }
}

impl From<Value> for InputSchema {
    fn from(value: Value) -> Self {
        Self::Made(Arc::new(value))
    }
}

impl PartialEq for InputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl Serialize for InputSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Stored(text) => {
                let raw: &RawValue = serde_json::from_str(text).map_err(S::Error::custom)?;
                raw.serialize(serializer)
            }
            Self::Made(value) => value.serialize(serializer),
        }
    }
}

/// The schema, made from the type.
pub(crate) fn made_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    strip(&mut schema, true);
    schema
}

/// Removes titles, formats and `null` alternatives: the model needs none of them, and every byte is
/// sent with every request.
fn strip(schema: &mut Value, is_root: bool) {
    match schema {
        Value::Object(object) => {
            object.retain(|name, value| match name.as_str() {
                "title" | "format" => false,
                "description" => !is_root,
                "default" => !value.is_null(),
                _ => true,
            });
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [single] = types.as_slice() {
                    let single = single.clone();
                    object.insert("type".into(), single);
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
                if let [single] = choices.as_mut_slice() {
                    let single = single.take();
                    object.shift_remove("anyOf");
                    if let Value::Object(single) = single {
                        for (name, value) in single {
                            object.entry(name).or_insert(value);
                        }
                    }
                }
            }
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            simplify_constants(object);
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                for property in properties.values_mut() {
                    strip(property, false);
                }
            }
            for name in ["items", "anyOf", "oneOf", "allOf", "additionalProperties"] {
                match object.get_mut(name) {
                    Some(Value::Array(choices)) => {
                        choices.iter_mut().for_each(|choice| strip(choice, false));
                    }
                    Some(inner @ Value::Object(_)) => strip(inner, false),
                    _ => {}
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, false)),
        _ => {}
    }
}

/// `oneOf` of described constants becomes a plain `enum`: a third of the bytes.
fn simplify_constants(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.get("oneOf") else {
        return;
    };
    let mut constants: Vec<Value> = Vec::new();
    for choice in choices {
        if let Some(constant) = choice.get("const") {
            constants.push(constant.clone());
        } else if let Some(Value::Array(values)) = choice.get("enum") {
            constants.extend(values.iter().cloned());
        } else {
            return;
        }
    }
    object.shift_remove("oneOf");
    object.insert("type".into(), "string".into());
    object.insert("enum".into(), Value::Array(constants));
}

/// Renames fields that came under another name; a field that is there already wins.
#[must_use]
pub fn rename_fields(mut input: Value, aliases: &[(&str, &str)]) -> Value {
    if let Some(object) = input.as_object_mut() {
        for (other, field) in aliases {
            if !object.contains_key(*field)
                && let Some(value) = object.shift_remove(*other)
            {
                object.insert((*field).to_owned(), value);
            }
        }
    }
    input
}

/// Fits an input to its schema.
///
/// # Errors
/// When it isn't an object, a required field is missing, a field is unknown, or a value is of the
/// wrong type. All problems are named at once, with the fields that there are.
pub fn fit(input: Value, schema: &Value, tool: &str) -> Result<Value, ToolError> {
    let input = match input {
        Value::Null => Value::Object(Map::new()),
        // Some models send the arguments as a JSON text.
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    };
    let Value::Object(mut fields) = input else {
        return Err(ToolError::invalid(format!(
            "The input of {tool} must be a JSON object with the fields {}.",
            known_fields(schema)
        )));
    };
    let no_properties = Map::new();
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&no_properties);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();

    // An explicit null for an optional field means that it wasn't given.
    fields.retain(|name, value| !value.is_null() || required.contains(&name.as_str()));

    let mut problems = Vec::new();
    for name in &required {
        if fields.get(*name).is_none_or(Value::is_null) {
            problems.push(format!("the required field `{name}` is missing"));
        }
    }
    let open = schema
        .get("additionalProperties")
        .is_some_and(|extra| extra != &Value::Bool(false));
    for (name, value) in &mut fields {
        match properties.get(name) {
            Some(property) => {
                if let Err(problem) = fit_value(value, property, name) {
                    problems.push(problem.to_string());
                }
            }
            None if open => {}
            None => problems.push(format!("there is no field `{name}`")),
        }
    }
    if problems.is_empty() {
        return Ok(Value::Object(fields));
    }
    Err(ToolError::invalid(format!(
        "The input of {tool} is invalid: {}. Fields: {}.",
        problems.join("; "),
        known_fields(schema)
    )))
}

fn known_fields(schema: &Value) -> String {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    schema
        .get("properties")
        .and_then(Value::as_object)
        .map(|properties| {
            properties
                .keys()
                .map(|name| {
                    let mark = if required.contains(&name.as_str()) {
                        ""
                    } else {
                        "?"
                    };
                    format!("{name}{mark}")
                })
                .collect::<Vec<_>>()
                .join(", ")
        })
        .unwrap_or_default()
}

/// Why a value doesn't fit its schema. The texts are for the model.
#[derive(Debug, thiserror::Error)]
enum Misfit {
    #[error("`{name}` must be at least {least}, not {number}")]
    TooSmall {
        name: String,
        least: i64,
        number: i64,
    },
    #[error("`{name}` must be one of {allowed}, not {value}")]
    NotAllowed {
        name: String,
        allowed: String,
        value: Value,
    },
    #[error("`{name}` must be {wanted}, not {found}")]
    WrongKind {
        name: String,
        wanted: &'static str,
        found: String,
    },
    #[error("`{0}` is missing")]
    Missing(String),
}

fn fit_value(value: &mut Value, schema: &Value, name: &str) -> Result<(), Misfit> {
    fit_kind(value, schema, name)?;
    let least = schema.get("minimum").and_then(Value::as_i64);
    match (least, value.as_i64()) {
        (Some(least), Some(number)) if number < least => Err(Misfit::TooSmall {
            name: name.to_owned(),
            least,
            number,
        }),
        _ => Ok(()),
    }
}

fn fit_kind(value: &mut Value, schema: &Value, name: &str) -> Result<(), Misfit> {
    if let Some(Value::Array(allowed)) = schema.get("enum") {
        if allowed.contains(value) {
            return Ok(());
        }
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        return Err(Misfit::NotAllowed {
            name: name.to_owned(),
            allowed: allowed.join(", "),
            value: value.clone(),
        });
    }
    let wanted = schema
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let wrong = |wanted, found: String| Misfit::WrongKind {
        name: name.to_owned(),
        wanted,
        found,
    };
    let text = value.as_str().map(|text| text.trim().to_owned());
    match (wanted, text) {
        ("integer", Some(text)) => {
            let number = text
                .parse::<i64>()
                .map_err(|_| wrong("a whole number", format!("\"{text}\"")))?;
            *value = Value::from(number);
            Ok(())
        }
        ("number", Some(text)) => {
            let number = text
                .parse::<f64>()
                .map_err(|_| wrong("a number", format!("\"{text}\"")))?;
            *value = Value::from(number);
            Ok(())
        }
        ("boolean", Some(text)) => match text.as_str() {
            "true" => {
                *value = Value::Bool(true);
                Ok(())
            }
            "false" => {
                *value = Value::Bool(false);
                Ok(())
            }
            _ => Err(wrong("true or false", format!("\"{text}\""))),
        },
        ("array" | "object", Some(text)) => match serde_json::from_str::<Value>(&text) {
            Ok(parsed) if parsed.is_array() == (wanted == "array") && !parsed.is_string() => {
                *value = parsed;
                fit_nested(value, schema, name)
            }
            _ if wanted == "array" => Err(wrong("an array", "text".to_owned())),
            _ => Err(wrong("an object", "text".to_owned())),
        },
        ("integer", None) if !value.is_i64() && !value.is_u64() => match value.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 9.0e15 => {
                let number = float as i64;
                *value = Value::from(number);
                Ok(())
            }
            _ => Err(wrong("a whole number", value.to_string())),
        },
        ("string", None) => Err(wrong("text", kind_of(value).to_owned())),
        ("number", None) if !value.is_number() => Err(wrong("a number", kind_of(value).to_owned())),
        ("boolean", None) if !value.is_boolean() => {
            Err(wrong("true or false", kind_of(value).to_owned()))
        }
        ("array", None) if !value.is_array() => Err(wrong("an array", kind_of(value).to_owned())),
        ("object", None) if !value.is_object() => {
            Err(wrong("an object", kind_of(value).to_owned()))
        }
        ("array" | "object", None) => fit_nested(value, schema, name),
        _ => Ok(()),
    }
}

/// Checks the elements of an array and the fields of an object inside the input.
fn fit_nested(value: &mut Value, schema: &Value, name: &str) -> Result<(), Misfit> {
    match value {
        Value::Array(items) => {
            let Some(item_schema) = schema.get("items") else {
                return Ok(());
            };
            for (index, item) in items.iter_mut().enumerate() {
                fit_value(item, item_schema, &format!("{name}[{index}]"))?;
            }
            Ok(())
        }
        Value::Object(fields) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return Ok(());
            };
            if let Some(Value::Array(required)) = schema.get("required") {
                for field in required.iter().filter_map(Value::as_str) {
                    if fields.get(field).is_none_or(Value::is_null) {
                        return Err(Misfit::Missing(format!("{name}.{field}")));
                    }
                }
            }
            for (field, value) in fields.iter_mut() {
                if let Some(property) = properties.get(field)
                    && !value.is_null()
                {
                    fit_value(value, property, &format!("{name}.{field}"))?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(JsonSchema, Deserialize)]
    #[expect(dead_code, reason = "only the schema is used")]
    struct Sample {
        /// Where.
        path: String,
        /// How many.
        count: Option<u32>,
        flag: Option<bool>,
        mode: Option<Mode>,
        items: Option<Vec<Item>>,
    }

    #[derive(JsonSchema, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        /// One.
        First,
        /// Two.
        Second,
    }

    #[derive(JsonSchema, Deserialize)]
    #[expect(dead_code, reason = "only the schema is used")]
    struct Item {
        name: String,
        done: bool,
    }

    #[test]
    fn the_schema_is_small_and_plain() {
        assert_eq!(
            schema_of::<Sample>(),
            json!({
                "type": "object",
                "properties": {
                    "path": {"description": "Where.", "type": "string"},
                    "count": {"description": "How many.", "type": "integer", "minimum": 0},
                    "flag": {"type": "boolean"},
                    "mode": {"type": "string", "enum": ["first", "second"]},
                    "items": {"type": "array", "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "done": {"type": "boolean"}},
                        "required": ["name", "done"]
                    }},
                },
                "required": ["path"]
            })
        );
    }

    #[test]
    fn texts_are_accepted_for_numbers_and_booleans() {
        let input = json!({"path": "a", "count": "42", "flag": "true", "items": "[{\"name\":\"x\",\"done\":\"false\"}]"});
        let fitted = fit(input, &schema_of::<Sample>(), "Sample").unwrap();
        assert_eq!(
            fitted,
            json!({"path": "a", "count": 42, "flag": true, "items": [{"name": "x", "done": false}]})
        );
    }

    #[test]
    fn all_problems_are_named_at_once_with_the_known_fields() {
        let input = json!({"count": "many", "pth": "x", "mode": "third"});
        let error = fit(input, &schema_of::<Sample>(), "Sample")
            .unwrap_err()
            .to_string();
        for part in [
            "`path` is missing",
            "`count`",
            "no field `pth`",
            "\"first\"",
            "path, count?",
        ] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    #[test]
    fn a_null_for_an_optional_field_means_not_given() {
        let fitted = fit(
            json!({"path": "a", "count": null}),
            &schema_of::<Sample>(),
            "Sample",
        )
        .unwrap();
        assert_eq!(fitted, json!({"path": "a"}));
    }

    #[test]
    fn numbers_of_the_wrong_kind_are_refused() {
        let schema = schema_of::<Sample>();
        assert!(fit(json!({"path": "a", "count": 1.5}), &schema, "Sample").is_err());
        assert!(fit(json!({"path": 3}), &schema, "Sample").is_err());
        let negative = fit(json!({"path": "a", "count": "-1"}), &schema, "Sample");
        let negative = negative.unwrap_err().to_string();
        assert!(negative.contains("at least 0, not -1"), "{negative}");
        assert_eq!(
            fit(json!({"path": "a", "count": 2.0}), &schema, "S").unwrap()["count"],
            2
        );
    }
}
