//! Holds a file to the schema, key by key.
//!
//! Valid values are kept, others are left out and reported; a key that this version doesn't know is
//! kept and reported. Leaving a key out is safe only where the rest still means what was meant: a
//! hook whose `matcher` is no text would otherwise run for everything. Such keys are marked in the
//! schema (`x-narrows`), and without them the whole entry is left out.

use crate::document::push_pointer;
use crate::nearest::nearest;
use crate::schema::json_schema;
use serde_json::{Map, Value};

/// Something that validation has to say about a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The JSON pointer of the value.
    pub pointer: String,
    /// The finding.
    pub kind: FindingKind,
}

/// A finding of the validation.
#[derive(Debug, Clone, PartialEq)]
pub enum FindingKind {
    /// The value doesn't fit and is ignored.
    Wrong {
        /// The expected value.
        expected: String,
        /// The value in the file.
        found: String,
        /// The correction, where that is clear.
        fix: Option<String>,
    },
    /// A key without which the entry makes no sense; the entry is ignored.
    Missing {
        /// The key.
        key: String,
    },
    /// A key that this version doesn't know.
    Unknown {
        /// The known key that was probably meant.
        nearest: Option<String>,
    },
}

/// Checks a settings file. Returns the valid part and the findings.
#[must_use]
pub fn validate(value: &Value) -> (Value, Vec<Finding>) {
    let schema = json_schema();
    let mut check = Check {
        root: schema,
        findings: Vec::new(),
    };
    let kept = check.value(value, schema, &mut String::new());
    (
        kept.unwrap_or_else(|| Value::Object(Map::new())),
        check.findings,
    )
}

/// Checks the value of one key (`["permissions", "allow"]`) as if it stood alone in a file.
#[must_use]
pub fn validate_key(path: &[String], value: &Value) -> Vec<Finding> {
    let file = path.iter().rev().fold(value.clone(), |inner, step| {
        Value::Object(Map::from_iter([(step.clone(), inner)]))
    });
    validate(&file).1
}

struct Check<'a> {
    root: &'a Value,
    findings: Vec<Finding>,
}

impl<'a> Check<'a> {
    fn value(&mut self, value: &Value, schema: &'a Value, pointer: &mut String) -> Option<Value> {
        let schema = self.resolved(schema);
        if value.is_null() {
            // `null` deletes what weaker sources say, whatever the key is.
            return Some(Value::Null);
        }
        if let Some(choices) = alternatives(schema) {
            return self.one_of(value, schema, choices, pointer);
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            return if words.contains(value) {
                Some(value.clone())
            } else {
                self.wrong(value, schema, pointer)
            };
        }
        if !self.has_type(value, schema) {
            return self.wrong(value, schema, pointer);
        }
        match value {
            Value::Object(map) => self.object(map, schema, pointer),
            Value::Array(items) => Some(self.list(items, schema, pointer)),
            other => Some(other.clone()),
        }
    }

    fn object(
        &mut self,
        map: &Map<String, Value>,
        schema: &'a Value,
        pointer: &mut String,
    ) -> Option<Value> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema
            .get("additionalProperties")
            .filter(|others| others.is_object());
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|keys| keys.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let mut kept = Map::new();
        let mut whole = true;
        for (name, value) in map {
            let length = pointer.len();
            push_pointer(pointer, name);
            if let Some(property) = properties.and_then(|properties| properties.get(name)) {
                match self.value(value, property, pointer) {
                    Some(value) => {
                        kept.insert(name.clone(), value);
                    }
                    None => {
                        let narrows = property.get("x-narrows").is_some();
                        whole &= !narrows && !required.contains(&name.as_str());
                    }
                }
            } else if let Some(others) = others {
                if let Some(value) = self.value(value, others, pointer) {
                    kept.insert(name.clone(), value);
                }
            } else {
                kept.insert(name.clone(), value.clone());
                if let Some(properties) = properties {
                    let nearest = nearest(name, properties.keys().map(String::as_str));
                    self.findings.push(Finding {
                        pointer: pointer.clone(),
                        kind: FindingKind::Unknown {
                            nearest: nearest.map(str::to_owned),
                        },
                    });
                }
            }
            pointer.truncate(length);
        }
        for key in required {
            if map.get(key).is_none_or(Value::is_null) {
                whole = false;
                self.findings.push(Finding {
                    pointer: pointer.clone(),
                    kind: FindingKind::Missing {
                        key: key.to_owned(),
                    },
                });
            }
        }
        whole.then_some(Value::Object(kept))
    }

    fn list(&mut self, items: &[Value], schema: &'a Value, pointer: &mut String) -> Value {
        let Some(element) = schema.get("items") else {
            return Value::Array(items.to_vec());
        };
        let mut kept = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let length = pointer.len();
            push_pointer(pointer, &index.to_string());
            // In a list there is nothing that `null` could delete.
            let checked = if item.is_null() && element.is_object() {
                self.wrong(item, self.resolved(element), pointer)
            } else {
                self.value(item, element, pointer)
            };
            kept.extend(checked);
            pointer.truncate(length);
        }
        Value::Array(kept)
    }

    fn one_of(
        &mut self,
        value: &Value,
        schema: &'a Value,
        choices: Vec<&'a Value>,
        pointer: &mut String,
    ) -> Option<Value> {
        let mut closest: Option<(Option<Value>, Vec<Finding>)> = None;
        for choice in choices {
            let choice = self.resolved(choice);
            if choice.get("const").is_some_and(|word| word == value) {
                return Some(value.clone());
            }
            if choice.get("const").is_some() || !self.fits_roughly(value, choice) {
                continue;
            }
            let mut attempt = Check {
                root: self.root,
                findings: Vec::new(),
            };
            let kept = attempt.value(value, choice, pointer);
            if attempt.findings.is_empty() {
                return kept;
            }
            if closest.is_none() {
                closest = Some((kept, attempt.findings));
            }
        }
        match closest {
            Some((kept, findings)) => {
                self.findings.extend(findings);
                kept
            }
            None => self.wrong(value, schema, pointer),
        }
    }

    /// Whether an alternative is about values of this kind at all.
    fn fits_roughly(&self, value: &Value, schema: &'a Value) -> bool {
        match alternatives(schema) {
            Some(choices) => choices.into_iter().any(|choice| {
                let choice = self.resolved(choice);
                choice.get("const").map_or_else(
                    || self.fits_roughly(value, choice),
                    |word| std::mem::discriminant(word) == std::mem::discriminant(value),
                )
            }),
            None => self.has_type(value, schema),
        }
    }

    #[expect(clippy::unused_self, reason = "a method like its siblings")]
    fn has_type(&self, value: &Value, schema: &Value) -> bool {
        if schema.get("const").is_some_and(|word| word != value) {
            return false;
        }
        let of_type = |name: &str| match name {
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => false,
        };
        let right = match schema.get("type") {
            None => true,
            Some(Value::String(name)) => of_type(name),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(of_type),
            Some(_) => true,
        };
        let number = value.as_f64();
        let within = |key: &str, holds: fn(f64, f64) -> bool| match (
            number,
            schema.get(key).and_then(Value::as_f64),
        ) {
            (Some(number), Some(bound)) => holds(number, bound),
            _ => true,
        };
        right
            && within("minimum", |number, least| number >= least)
            && within("maximum", |number, most| number <= most)
    }

    fn resolved(&self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        // References of the generated schema never form a circle without an object between.
        while let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            match reference
                .strip_prefix('#')
                .and_then(|pointer| self.root.pointer(pointer))
            {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }

    fn wrong(&mut self, value: &Value, schema: &'a Value, pointer: &str) -> Option<Value> {
        let words = self.words(schema);
        let fix = match value {
            Value::String(text) => {
                let wants = |kind: &str| self.wants(schema, kind);
                match text.as_str() {
                    "true" | "false" if wants("boolean") => {
                        Some(format!("write {text} without quotes"))
                    }
                    _ if text.parse::<f64>().is_ok() && (wants("integer") || wants("number")) => {
                        Some(format!("write {text} without quotes"))
                    }
                    _ if wants("array") => Some(format!("write [{value}]")),
                    _ => nearest(text, words.iter().map(String::as_str))
                        .map(|near| format!("did you mean \"{near}\"?")),
                }
            }
            Value::Number(_) | Value::Bool(_) if self.wants(schema, "string") => {
                Some(format!("write \"{value}\" with quotes"))
            }
            _ => None,
        };
        self.findings.push(Finding {
            pointer: pointer.to_owned(),
            kind: FindingKind::Wrong {
                expected: self.describe(schema),
                found: shown(value),
                fix,
            },
        });
        None
    }

    fn wants(&self, schema: &'a Value, kind: &str) -> bool {
        let schema = self.resolved(schema);
        match alternatives(schema) {
            Some(choices) => choices.into_iter().any(|choice| self.wants(choice, kind)),
            None => match schema.get("type") {
                Some(Value::String(name)) => name == kind && schema.get("const").is_none(),
                Some(Value::Array(names)) => names.iter().any(|name| name == kind),
                _ => false,
            },
        }
    }

    /// The words that a schema allows.
    fn words(&self, schema: &'a Value) -> Vec<String> {
        let schema = self.resolved(schema);
        let mut words: Vec<String> = Vec::new();
        if let Some(word) = schema.get("const").and_then(Value::as_str) {
            words.push(word.to_owned());
        }
        if let Some(list) = schema.get("enum").and_then(Value::as_array) {
            words.extend(list.iter().filter_map(Value::as_str).map(str::to_owned));
        }
        for choice in alternatives(schema).unwrap_or_default() {
            words.extend(self.words(choice));
        }
        words
    }

    fn describe(&self, schema: &'a Value) -> String {
        describe(self.root, schema)
    }
}

/// The values that a schema accepts, in words.
pub(crate) fn describe(root: &Value, schema: &Value) -> String {
    let check = Check {
        root,
        findings: Vec::new(),
    };
    let schema = check.resolved(schema);
    let words = check.words(schema);
    let mut parts: Vec<String> = Vec::new();
    if let Some(choices) = alternatives(schema) {
        if let [only] = choices.as_slice() {
            return describe(root, only);
        }
        for choice in choices {
            let part = describe(root, choice);
            if check.words(choice).is_empty() && !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    if !words.is_empty() {
        let list: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        parts.push(match list.as_slice() {
            [only] => only.clone(),
            many => format!("one of {}", many.join(", ")),
        });
    }
    if !parts.is_empty() {
        return parts.join(" or ");
    }
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let bounded = match (
        schema.get("minimum").and_then(Value::as_f64),
        schema.get("maximum"),
    ) {
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        (Some(least), None) => format!(", at least {least}"),
        _ => String::new(),
    };
    let described: Vec<String> = kinds
        .into_iter()
        .filter(|kind| *kind != "null")
        .map(|kind| match kind {
            "string" => "a text".to_owned(),
            "boolean" => "true or false".to_owned(),
            "integer" => format!("a whole number{bounded}"),
            "number" => format!("a number{bounded}"),
            "array" => match schema.get("items").map(|items| describe(root, items)) {
                Some(element) if element != "anything" => {
                    format!("a list, each {element}")
                }
                _ => "a list".to_owned(),
            },
            _ => "an object".to_owned(),
        })
        .collect();
    if described.is_empty() {
        "anything".to_owned()
    } else {
        described.join(" or ")
    }
}

/// The alternatives of a schema, without `null`.
fn alternatives(schema: &Value) -> Option<Vec<&Value>> {
    let list = schema
        .get("anyOf")
        .or_else(|| schema.get("oneOf"))?
        .as_array()?;
    Some(
        list.iter()
            .filter(|choice| choice.get("type").and_then(Value::as_str) != Some("null"))
            .collect(),
    )
}

/// A value as a message shows it: its kind, and the value itself when it is short.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => format!("{flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.chars().count() <= 40 => format!("the text {value}"),
        Value::String(_) => "a text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
