//! Reading the files of other agents, within limits: JSON with comments, TOML, YAML, front matter.

use crate::plan::Plan;
use lathe_settings::document::Document;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use toml_edit::{Item, TableLike, Value as TomlValue};

/// The largest file of a setup.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
/// How deep folders of commands and rules are searched.
const DEEPEST: usize = 5;
/// How many files of a folder are taken.
const MOST_FILES: usize = 1000;

/// The text of a file; `None` if it isn't there. What can't be read is in the report.
pub(crate) fn text(path: &Path, plan: &mut Plan) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    if !found.is_file() {
        return None;
    }
    if found.len() > MOST_BYTES {
        plan.left(plan.shown(path), "it is larger than 4 MB");
        return None;
    }
    match std::fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) => {
            plan.left(plan.shown(path), format!("it can't be read: {error}"));
            None
        }
    }
}

/// A file of JSON, with or without comments.
pub(crate) fn json(path: &Path, plan: &mut Plan) -> Option<Map<String, Value>> {
    let text = text(path, plan)?;
    let problem = match Document::parse(&text) {
        Ok(document) => match document.value {
            Value::Object(object) => return Some(object),
            _ => "it is not an object".to_owned(),
        },
        Err(error) => format!("line {}: {}", error.position.line, error.message),
    };
    plan.left(plan.shown(path), format!("it is broken: {problem}"));
    None
}

/// A file of TOML.
pub(crate) fn toml(path: &Path, plan: &mut Plan) -> Option<Map<String, Value>> {
    let text = text(path, plan)?;
    match text.parse::<toml_edit::DocumentMut>() {
        Ok(document) => Some(table(document.as_table())),
        Err(error) => {
            let line = error.span().map_or(1, |span| {
                text.get(..span.start)
                    .unwrap_or_default()
                    .lines()
                    .count()
                    .max(1)
            });
            let why = format!("it is broken: line {line}: {}", error.message());
            plan.left(plan.shown(path), why);
            None
        }
    }
}

fn table(table: &dyn TableLike) -> Map<String, Value> {
    table
        .iter()
        .map(|(key, item)| (key.to_owned(), item_value(item)))
        .collect()
}

fn item_value(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => toml_value(value),
        Item::Table(inner) => Value::Object(table(inner)),
        Item::ArrayOfTables(list) => Value::Array(
            list.iter()
                .map(|inner| Value::Object(table(inner)))
                .collect(),
        ),
    }
}

fn toml_value(value: &TomlValue) -> Value {
    match value {
        TomlValue::String(text) => Value::from(text.value().as_str()),
        TomlValue::Integer(number) => Value::from(*number.value()),
        TomlValue::Float(number) => Value::from(*number.value()),
        TomlValue::Boolean(flag) => Value::from(*flag.value()),
        TomlValue::Datetime(time) => Value::from(time.value().to_string()),
        TomlValue::Array(list) => Value::Array(list.iter().map(toml_value).collect()),
        TomlValue::InlineTable(inner) => Value::Object(table(inner)),
    }
}

/// A file of YAML.
pub(crate) fn yaml(path: &Path, plan: &mut Plan) -> Option<Map<String, Value>> {
    let text = text(path, plan)?;
    if text.trim().is_empty() {
        return Some(Map::new());
    }
    match serde_saphyr::from_str::<Value>(&text) {
        Ok(Value::Object(object)) => Some(object),
        Ok(Value::Null) => Some(Map::new()),
        Ok(_) => {
            plan.left(plan.shown(path), "it is broken: it is not a mapping");
            None
        }
        Err(error) => {
            let why = error.to_string();
            let first = why.lines().next().unwrap_or_default();
            plan.left(plan.shown(path), format!("it is broken: {first}"));
            None
        }
    }
}

/// The front matter of a Markdown file and the text below it.
pub(crate) fn front_matter(text: &str) -> (Map<String, Value>, &str) {
    let Some(rest) = text
        .strip_prefix("---\n")
        .or_else(|| text.strip_prefix("---\r\n"))
    else {
        return (Map::new(), text);
    };
    let Some(end) = rest.find("\n---") else {
        return (Map::new(), text);
    };
    let body = rest[end + 4..].trim_start_matches('-');
    let body = body.strip_prefix('\r').unwrap_or(body);
    let body = body.strip_prefix('\n').unwrap_or(body);
    let fields = lines_of(&rest[..end]);
    (fields, body)
}

/// Fields of front matter. One agent writes patterns such as `*.ts` without quotes, which are no YAML, so what YAML
/// refuses is read line by line.
fn lines_of(text: &str) -> Map<String, Value> {
    if let Ok(Value::Object(fields)) = serde_saphyr::from_str::<Value>(text) {
        return fields;
    }
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| !key.trim().is_empty())
        .map(|(key, value)| {
            let value = match value.trim() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                "" => Value::Null,
                text => Value::from(text.trim_matches(['"', '\''])),
            };
            (key.trim().to_owned(), value)
        })
        .collect()
}

/// A field of front matter as YAML that any reader takes: a JSON string is one.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The files of a folder and below with an ending, sorted, with their paths inside of it.
pub(crate) fn files(folder: &Path, ending: &str) -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    collect(folder, folder, ending, 0, &mut found);
    found.sort();
    found
}

fn collect(
    root: &Path,
    folder: &Path,
    ending: &str,
    depth: usize,
    found: &mut Vec<(PathBuf, PathBuf)>,
) {
    if depth > DEEPEST {
        return;
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // Links could lead anywhere, also in a circle.
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            collect(root, &path, ending, depth + 1, found);
        } else if kind.is_file()
            && path
                .extension()
                .is_some_and(|extension| extension == ending)
            && found.len() < MOST_FILES
            && let Ok(inside) = path.strip_prefix(root)
        {
            found.push((path.clone(), inside.to_path_buf()));
        }
    }
}
