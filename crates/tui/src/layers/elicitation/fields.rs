//! The fields of a form: made from the server's schema, filled in, held against it, shown.

use super::error::FieldError;
use crate::layers::form::field;
use crate::prompt::editor::Editor;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, truncate_line, width, wrap};
use crate::terminal::inline_screen::Cursor;
use serde_json::Value;
use std::collections::BTreeSet;

/// How a field is filled in.
pub(super) enum FieldInput {
    Text(Editor),
    Number(Editor),
    Switch(Option<bool>),
    One {
        offered: Vec<(Value, String)>,
        chosen: Option<usize>,
    },
    Many {
        offered: Vec<(Value, String)>,
        chosen: BTreeSet<usize>,
        at: usize,
    },
}

/// A field of the form.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) required: bool,
    pub(super) schema: Value,
    pub(super) entry: FieldInput,
    pub(super) problem: Option<String>,
}

impl Field {
    /// The value; `Ok(None)` for an empty field that is not required.
    pub(super) fn value(&self) -> Result<Option<Value>, FieldError> {
        let value = match &self.entry {
            FieldInput::Text(editor) => {
                (!editor.text().is_empty()).then(|| Value::String(editor.text().to_owned()))
            }
            FieldInput::Number(editor) => {
                let text = editor.text().trim();
                if text.is_empty() {
                    None
                } else {
                    let number: Value = serde_json::from_str(text)
                        .ok()
                        .filter(Value::is_number)
                        .ok_or_else(|| FieldError::NotANumber(text.to_owned()))?;
                    Some(number)
                }
            }
            FieldInput::Switch(value) => value.map(Value::Bool),
            FieldInput::One { offered, chosen } => chosen
                .and_then(|at| offered.get(at))
                .map(|(v, _)| v.clone()),
            FieldInput::Many {
                offered, chosen, ..
            } => {
                let values: Vec<Value> = chosen
                    .iter()
                    .filter_map(|at| offered.get(*at))
                    .map(|(value, _)| value.clone())
                    .collect();
                (!values.is_empty() || self.required).then_some(Value::Array(values))
            }
        };
        let Some(value) = value else {
            return if self.required {
                Err(FieldError::Required)
            } else {
                Ok(None)
            };
        };
        if let Ok(schema) = lathe_schema::Schema::new(self.schema.clone())
            && let Some(problem) = schema.problems(&value).into_iter().next()
        {
            return Err(FieldError::schema(&problem));
        }
        Ok(Some(value))
    }

    pub(super) fn rows(
        &self,
        here: bool,
        column: usize,
        look: Look<'_>,
        out: &mut Vec<Line>,
        cursor: &mut Cursor,
    ) {
        let theme = look.theme;
        let mut line = if here {
            Line::styled("❯ ", theme.selected)
        } else {
            Line::plain("  ")
        };
        let title = crate::render::text::truncate(&self.title, column.max(1));
        let star = if self.required { "*" } else { "" };
        let padding = column.saturating_sub(width(&title) + star.len());
        line.push(title, if here { theme.selected } else { Style::PLAIN });
        line.push(star, theme.warning);
        line.push(" ".repeat(padding + 2), Style::PLAIN);
        let used = line.width();
        match &self.entry {
            FieldInput::Text(editor) | FieldInput::Number(editor) => {
                let (shown, at) = field(editor, look.columns.saturating_sub(used + 1).max(4));
                if here {
                    *cursor = Cursor {
                        row: out.len(),
                        column: used + at,
                        visible: true,
                    };
                }
                line.push(shown, theme.code);
            }
            FieldInput::Switch(value) => line.push(
                match value {
                    Some(true) => "yes",
                    Some(false) => "no",
                    None => "–",
                },
                theme.code,
            ),
            FieldInput::One { offered, chosen } => line.push(
                chosen
                    .and_then(|at| offered.get(at))
                    .map_or("–", |(_, label)| label.as_str()),
                theme.code,
            ),
            FieldInput::Many {
                offered,
                chosen,
                at,
            } => {
                for (index, (_, label)) in offered.iter().enumerate() {
                    let mark = if chosen.contains(&index) {
                        "[x]"
                    } else {
                        "[ ]"
                    };
                    let style = if here && index == *at {
                        theme.selected
                    } else {
                        theme.code
                    };
                    line.push(format!("{mark} {label}  "), style);
                }
            }
        }
        out.push(truncate_line(&line, look.columns));
        if let Some(problem) = &self.problem {
            out.extend(wrap(
                &Line::styled(format!("    {}", clean(problem)), theme.error),
                look.columns,
                4,
            ));
        } else if here && !self.description.is_empty() {
            out.push(truncate_line(
                &Line::styled(format!("    {}", self.description), theme.muted),
                look.columns,
            ));
        }
    }
}

fn text_of(value: &Value, key: &str) -> String {
    clean(value.get(key).and_then(Value::as_str).unwrap_or_default()).replace('\n', " ")
}

/// The fields of a flat schema.
pub(super) fn fields(schema: &Value) -> Vec<Field> {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let title = text_of(property, "title");
            Field {
                name: name.clone(),
                title: if title.is_empty() {
                    clean(name).replace('\n', " ")
                } else {
                    title
                },
                description: text_of(property, "description"),
                required: required.contains(&name.as_str()),
                entry: entry(property),
                schema: property.clone(),
                problem: None,
            }
        })
        .collect()
}

/// How a property is filled in, with the server's default.
fn entry(property: &Value) -> FieldInput {
    let default = property.get("default");
    if property.get("type").and_then(Value::as_str) == Some("array") {
        let offered = property.get("items").map(offered).unwrap_or_default();
        let chosen = offered
            .iter()
            .enumerate()
            .filter(|(_, (value, _))| {
                default
                    .and_then(Value::as_array)
                    .is_some_and(|default| default.contains(value))
            })
            .map(|(index, _)| index)
            .collect();
        return FieldInput::Many {
            offered,
            chosen,
            at: 0,
        };
    }
    let choices = offered(property);
    if !choices.is_empty() {
        let chosen =
            default.and_then(|default| choices.iter().position(|(value, _)| value == default));
        return FieldInput::One {
            offered: choices,
            chosen,
        };
    }
    let mut editor = Editor::default();
    match default {
        Some(Value::String(text)) => editor.set_text(text),
        Some(Value::Number(number)) => editor.set_text(&number.to_string()),
        _ => {}
    }
    match property.get("type").and_then(Value::as_str) {
        Some("boolean") => FieldInput::Switch(default.and_then(Value::as_bool)),
        Some("number" | "integer") => FieldInput::Number(editor),
        _ => FieldInput::Text(editor),
    }
}

/// The choices of a property: plain, or with names beside the values.
fn offered(property: &Value) -> Vec<(Value, String)> {
    let label = |value: &Value| {
        clean(
            &value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned),
        )
        .replace('\n', " ")
    };
    for key in ["oneOf", "anyOf"] {
        if let Some(choices) = property.get(key).and_then(Value::as_array) {
            return choices
                .iter()
                .filter_map(|choice| {
                    let value = choice.get("const")?;
                    let title = text_of(choice, "title");
                    let title = if title.is_empty() {
                        label(value)
                    } else {
                        title
                    };
                    Some((value.clone(), title))
                })
                .collect();
        }
    }
    let names = property.get("enumNames").and_then(Value::as_array);
    property
        .get("enum")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(index, value)| {
            let name = names.and_then(|names| names.get(index));
            (value.clone(), label(name.unwrap_or(value)))
        })
        .collect()
}
