//! Changes the text of a settings file: a pure function that leaves comments, order, indentation and
//! every byte that isn't part of the change as they are.

use crate::document::{Document, Position, parse_options};
use crate::key::KeyPath;
use crate::write::WriteError;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;
use std::path::PathBuf;

/// One change to a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Sets a key.
    Set {
        /// The key.
        key: KeyPath,
        /// Its value.
        value: Value,
    },
    /// Removes a key.
    Unset {
        /// The key.
        key: KeyPath,
    },
    /// Adds what isn't there yet to the end of a list.
    Add {
        /// The list's key.
        key: KeyPath,
        /// The entry to add.
        items: Vec<Value>,
    },
    /// Takes elements out of a list.
    Remove {
        /// The list's key.
        key: KeyPath,
        /// The entry to remove.
        items: Vec<Value>,
    },
}

/// Applies changes to the text of a settings file and leaves the rest as it is. An empty text
/// becomes a new file.
///
/// # Errors
/// When the text is broken, or something else stands where the change goes.
pub fn patch(text: &str, edits: &[Edit]) -> Result<String, WriteError> {
    let broken = |position, message| WriteError::Broken {
        file: PathBuf::new(),
        position,
        message,
    };
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    Document::parse(body).map_err(|error| broken(error.position, error.message))?;
    let fresh = body.trim().is_empty();
    let root = CstRootNode::parse(if fresh { "{\n}\n" } else { body }, &parse_options())
        .map_err(|error| broken(Position { line: 1, column: 1 }, error.to_string()))?;
    let Some(object) = root.object_value_or_create() else {
        return Err(WriteError::InTheWay {
            key: "the file".into(),
            wanted: "an object",
        });
    };
    let mut changed = false;
    for edit in edits {
        changed |= apply(&object, edit)?;
    }
    if changed {
        Ok(format!("{mark}{root}"))
    } else {
        Ok(text.to_owned())
    }
}

fn apply(root: &CstObject, edit: &Edit) -> Result<bool, WriteError> {
    let (key, create) = match edit {
        Edit::Set { key, .. } | Edit::Add { key, .. } => (key, true),
        Edit::Unset { key } | Edit::Remove { key, .. } => (key, false),
    };
    let Some((last, parents)) = key.0.split_last() else {
        return Ok(false);
    };
    let mut object = root.clone();
    for (depth, step) in parents.iter().enumerate() {
        object = match property(&object, step) {
            Some(found) => match found.object_value() {
                Some(inner) => inner,
                None if is_null(&found) && create => found.object_value_or_set(),
                None => {
                    let key = KeyPath(key.0[..=depth].to_vec()).to_string();
                    return Err(WriteError::InTheWay {
                        key,
                        wanted: "an object",
                    });
                }
            },
            None if create => object.object_value_or_set(step),
            None => return Ok(false),
        };
    }
    let found = property(&object, last);
    match edit {
        Edit::Set { value, .. } => Ok(set(&object, last, found.as_ref(), value)),
        Edit::Unset { .. } => Ok(found.map(CstObjectProp::remove).is_some()),
        Edit::Add { items, .. } => add(&object, key, last, found.as_ref(), items),
        Edit::Remove { items, .. } => {
            let Some(list) = found.and_then(|found| found.array_value()) else {
                return Ok(false);
            };
            let mut changed = false;
            for element in list.elements() {
                if value_of(&element).is_some_and(|value| items.contains(&value)) {
                    element.remove();
                    changed = true;
                }
            }
            Ok(changed)
        }
    }
}

fn set(object: &CstObject, name: &str, found: Option<&CstObjectProp>, value: &Value) -> bool {
    match found {
        Some(found) => {
            if found.value().and_then(|node| value_of(&node)).as_ref() == Some(value) {
                return false;
            }
            found.set_value(input(value));
        }
        None => {
            object.append(name, input(value));
        }
    }
    true
}

fn add(
    object: &CstObject,
    key: &KeyPath,
    name: &str,
    found: Option<&CstObjectProp>,
    items: &[Value],
) -> Result<bool, WriteError> {
    let list = match found {
        Some(found) => match found.array_value() {
            Some(list) => list,
            None if is_null(found) => found.array_value_or_set(),
            None => {
                return Err(WriteError::InTheWay {
                    key: key.to_string(),
                    wanted: "a list",
                });
            }
        },
        None => object.array_value_or_set(name),
    };
    let mut known: Vec<Value> = list.elements().iter().filter_map(value_of).collect();
    let mut changed = false;
    for item in items {
        if !known.contains(item) {
            if known.is_empty() {
                list.ensure_multiline();
            }
            list.append(input(item));
            known.push(item.clone());
            changed = true;
        }
    }
    Ok(changed)
}

/// The property that applies: the last of two with the same name.
fn property(object: &CstObject, name: &str) -> Option<CstObjectProp> {
    object
        .properties()
        .into_iter()
        .rfind(|property| property.decoded_name().as_deref() == Some(name))
}

fn value_of(node: &CstNode) -> Option<Value> {
    jsonc_parser::parse_to_serde_value(&node.to_string(), &parse_options()).ok()
}

fn is_null(property: &CstObjectProp) -> bool {
    property
        .value()
        .is_some_and(|value| value.as_null_keyword().is_some())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(map) => CstInputValue::Object(
            map.iter()
                .map(|(name, value)| (name.clone(), input(value)))
                .collect(),
        ),
    }
}
