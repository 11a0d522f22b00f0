//! How sources combine: objects deeply, lists by union, everything else by the stronger source.
//!
//! `null` deletes what weaker sources say. To make combining *associative* — so that it doesn't
//! matter in which order layers are folded together — a combined layer remembers where it replaces
//! rather than adds ([`Merged`]): a list over a text, or over a `null`, starts afresh and stays so
//! when something still weaker is put below it later.

use crate::schema::REPLACED_LISTS;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// One or more layers, combined.
#[derive(Debug, Clone, PartialEq)]
pub enum Merged {
    /// `null`: nothing of what is below.
    Deleted,
    /// A text, number or boolean: replaces what is below.
    Scalar(Value),
    /// A list: adds to a list below, unless it starts afresh.
    List {
        /// Whether it replaces everything below it.
        afresh: bool,
        /// The elements, each once, in order.
        items: Vec<Value>,
    },
    /// An object: adds to an object below, unless it starts afresh.
    Object {
        /// Whether it replaces everything below it.
        afresh: bool,
        /// The fields in order.
        fields: Vec<(String, Merged)>,
    },
}

impl Merged {
    /// Nothing at all: combining with it changes nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self::Object {
            afresh: false,
            fields: Vec::new(),
        }
    }

    /// One layer.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        Self::at(value, "")
    }

    fn at(value: &Value, key: &str) -> Self {
        match value {
            Value::Null => Self::Deleted,
            Value::Array(items) => Self::List {
                afresh: REPLACED_LISTS.contains(&key),
                items: without_repeats(items.iter().cloned()),
            },
            Value::Object(map) => Self::Object {
                afresh: false,
                fields: map
                    .iter()
                    .map(|(name, value)| (name.clone(), Self::at(value, &joined(key, name))))
                    .collect(),
            },
            scalar => Self::Scalar(scalar.clone()),
        }
    }

    /// This layer with a stronger one on top.
    #[must_use]
    pub fn under(self, stronger: Self) -> Self {
        match (self, stronger) {
            (
                Self::List {
                    afresh,
                    items: below,
                },
                Self::List {
                    afresh: false,
                    items: above,
                },
            ) => Self::List {
                afresh,
                items: without_repeats(below.into_iter().chain(above)),
            },
            (
                Self::Object {
                    afresh,
                    fields: below,
                },
                Self::Object {
                    afresh: false,
                    fields: above,
                },
            ) => {
                let mut fields: Vec<(String, Option<Self>)> = below
                    .into_iter()
                    .map(|(name, value)| (name, Some(value)))
                    .collect();
                for (name, stronger) in above {
                    if let Some((_, slot)) = fields.iter_mut().find(|(known, _)| *known == name) {
                        *slot = Some(match slot.take() {
                            Some(weaker) => weaker.under(stronger),
                            None => stronger,
                        });
                    } else {
                        fields.push((name, Some(stronger)));
                    }
                }
                Self::Object {
                    afresh,
                    fields: fields
                        .into_iter()
                        .filter_map(|(name, value)| Some((name, value?)))
                        .collect(),
                }
            }
            // Something of another kind lies below: what is above starts afresh from now on.
            (_, Self::List { items, .. }) => Self::List {
                afresh: true,
                items,
            },
            (_, Self::Object { fields, .. }) => Self::Object {
                afresh: true,
                fields,
            },
            (_, stronger) => stronger,
        }
    }

    /// The merged value, without the deletions.
    #[must_use]
    pub fn into_value(self) -> Option<Value> {
        match self {
            Self::Deleted => None,
            Self::Scalar(value) => Some(value),
            Self::List { items, .. } => Some(Value::Array(items)),
            Self::Object { fields, .. } => Some(Value::Object(
                fields
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value.into_value()?)))
                    .collect::<Map<_, _>>(),
            )),
        }
    }
}

/// All layers, weakest first, as one object.
pub fn merge<'a>(layers: impl IntoIterator<Item = &'a Value>) -> Value {
    layers
        .into_iter()
        .map(Merged::of)
        .fold(Merged::nothing(), Merged::under)
        .into_value()
        .unwrap_or_else(|| Value::Object(Map::new()))
}

fn joined(key: &str, name: &str) -> String {
    if key.is_empty() {
        name.to_owned()
    } else {
        format!("{key}.{name}")
    }
}

fn without_repeats(items: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(item.to_string())).collect()
}
