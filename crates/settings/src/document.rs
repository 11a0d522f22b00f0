//! Reading a settings file: JSON with comments and trailing commas, and where each key stands.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// A position in a file, both from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A file's content with the place of every value in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    /// The content; always an object.
    pub value: Value,
    /// JSON pointer → where the key (or, in a list, the element) starts.
    positions: HashMap<String, Position>,
    /// Keys that stand twice in one object (JSON pointers); the last one applies.
    pub duplicates: Vec<String>,
}

/// Why a text is not a settings file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct DocumentError {
    /// The mistake.
    pub message: String,
    /// Where.
    pub position: Position,
}

/// The syntax of a settings file: comments and trailing commas, and otherwise strict JSON.
/// A laxer reading would accept files that other readers of the same file refuse.
#[must_use]
pub(crate) fn parse_options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

impl Document {
    /// Reads a text. An empty one is an empty object.
    ///
    /// # Errors
    /// When it is not JSON, or not an object.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = Lines::new(body);
        let parsed = jsonc_parser::parse_to_ast(body, &CollectOptions::default(), &parse_options())
            .map_err(|error| DocumentError {
                message: format!("not valid JSON: {}", lower_first(&error.kind().to_string())),
                position: lines.position(body, error.range().start),
            })?;
        let mut document = Self::default();
        match parsed.value {
            None => document.value = Value::Object(Map::new()),
            Some(root @ ast::Value::Object(_)) => {
                document.value = document.take(&root, &mut String::new(), body, &lines);
            }
            Some(other) => {
                return Err(DocumentError {
                    message: format!("expected an object {{…}}, found {}", kind_of(&other)),
                    position: lines.position(body, other.range().start),
                });
            }
        }
        Ok(document)
    }

    /// A document without positions, for JSON that doesn't come from a text.
    #[must_use]
    pub fn of_value(value: Value) -> Self {
        Self {
            value,
            ..Self::default()
        }
    }

    /// Where the value at a JSON pointer starts; for a value that isn't there, its nearest parent.
    #[must_use]
    pub fn position(&self, pointer: &str) -> Option<Position> {
        let mut pointer = pointer;
        loop {
            if let Some(position) = self.positions.get(pointer) {
                return Some(*position);
            }
            pointer = &pointer[..pointer.rfind('/')?];
        }
    }

    fn take(
        &mut self,
        node: &ast::Value<'_>,
        pointer: &mut String,
        text: &str,
        lines: &Lines,
    ) -> Value {
        match node {
            ast::Value::StringLit(literal) => Value::String(literal.value.to_string()),
            ast::Value::NumberLit(literal) => number(literal.value),
            ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
            ast::Value::NullKeyword(_) => Value::Null,
            ast::Value::Array(array) => Value::Array(
                array
                    .elements
                    .iter()
                    .enumerate()
                    .map(|(index, element)| {
                        let length = pointer.len();
                        pointer.push_str(&format!("/{index}"));
                        self.positions
                            .insert(pointer.clone(), lines.position(text, element.range().start));
                        let value = self.take(element, pointer, text, lines);
                        pointer.truncate(length);
                        value
                    })
                    .collect(),
            ),
            ast::Value::Object(object) => {
                let mut map = Map::new();
                for property in &object.properties {
                    let name = property.name.as_str();
                    let length = pointer.len();
                    push_pointer(pointer, name);
                    if map.contains_key(name) {
                        self.duplicates.push(pointer.clone());
                    }
                    self.positions
                        .insert(pointer.clone(), lines.position(text, property.range.start));
                    let value = self.take(&property.value, pointer, text, lines);
                    map.insert(name.to_owned(), value);
                    pointer.truncate(length);
                }
                Value::Object(map)
            }
        }
    }
}

/// Adds a step to a JSON pointer.
pub(crate) fn push_pointer(pointer: &mut String, step: &str) {
    pointer.push('/');
    for character in step.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

/// A JSON pointer as people write keys: `permissions.allow[2]`.
#[must_use]
pub(crate) fn pointer_to_key(pointer: &str) -> String {
    let mut key = String::new();
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        if !key.is_empty() && step.chars().all(|character| character.is_ascii_digit()) {
            key.push_str(&format!("[{step}]"));
        } else {
            if !key.is_empty() {
                key.push('.');
            }
            key.push_str(&step);
        }
    }
    key
}

fn number(text: &str) -> Value {
    serde_json::from_str::<serde_json::Number>(text).map_or(Value::Null, Value::Number)
}

fn kind_of(value: &ast::Value<'_>) -> &'static str {
    match value {
        ast::Value::StringLit(_) => "a text",
        ast::Value::NumberLit(_) => "a number",
        ast::Value::BooleanLit(_) => "a boolean",
        ast::Value::Object(_) => "an object",
        ast::Value::Array(_) => "a list",
        ast::Value::NullKeyword(_) => "null",
    }
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_lowercase().collect::<String>() + characters.as_str()
    })
}

/// Where lines start, so that a position is a binary search.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(
            std::iter::once(0)
                .chain(breaks.map(|(index, _)| index + 1))
                .collect(),
        )
    }

    fn position(&self, text: &str, offset: usize) -> Position {
        let line = self.0.partition_point(|start| *start <= offset);
        let start = self.0.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = text.get(start..offset.min(text.len())).unwrap_or("");
        Position {
            line,
            column: before.chars().count() + 1,
        }
    }
}
