//! Variables in a server's configuration: `${NAME}` and `${NAME:-default}`.
//!
//! Nothing else is expanded: `$NAME`, `$(…)` and backquotes are plain text, so loading a
//! configuration can't run anything. A variable that is not set and has no default is reported with
//! its field; an empty value could send requests to another server.

use serde_json::{Map, Value};

pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub variable: String,
    /// The field that refers to it, such as `env.TOKEN` or `args[2]`.
    pub field: String,
}

/// The fields in which variables are expanded.
const FIELDS: [&str; 6] = ["command", "args", "env", "url", "headers", "headersHelper"];

/// Expands the variables of an entry. Returns the entry and the variables that are not set.
#[must_use]
pub fn entry(entry: &Map<String, Value>, lookup: Lookup<'_>) -> (Map<String, Value>, Vec<Missing>) {
    let mut missing = Vec::new();
    let expanded = entry
        .iter()
        .map(|(key, found)| {
            let found = if FIELDS.contains(&key.as_str()) {
                value(found, key, lookup, &mut missing)
            } else {
                found.clone()
            };
            (key.clone(), found)
        })
        .collect();
    (expanded, missing)
}

fn value(found: &Value, field: &str, lookup: Lookup<'_>, missing: &mut Vec<Missing>) -> Value {
    match found {
        Value::String(words) => Value::String(text(words, field, lookup, missing)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| value(item, &format!("{field}[{index}]"), lookup, missing))
            .collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(name, item)| {
                    let field = format!("{field}.{name}");
                    (name.clone(), value(item, &field, lookup, missing))
                })
                .collect(),
        ),
        other => other.clone(),
    }
}

/// Expands the variables of a text. Variables that are not set stay unexpanded.
pub fn text(words: &str, field: &str, lookup: Lookup<'_>, missing: &mut Vec<Missing>) -> String {
    let mut expanded = String::with_capacity(words.len());
    let mut rest = words;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        expanded.push_str(before);
        let Some((name, default, length)) = reference(from) else {
            expanded.push_str("${");
            rest = &from[2..];
            continue;
        };
        // As in a shell, the default replaces an empty variable.
        let found = lookup(name).filter(|found| !found.is_empty() || default.is_none());
        match (found, default) {
            (Some(found), _) => expanded.push_str(&found),
            (None, Some(default)) => expanded.push_str(default),
            (None, None) => {
                let one = Missing {
                    variable: name.to_owned(),
                    field: field.to_owned(),
                };
                if !missing.contains(&one) {
                    missing.push(one);
                }
                expanded.push_str(&from[..length]);
            }
        }
        rest = &from[length..];
    }
    expanded.push_str(rest);
    expanded
}

/// Parses `${NAME}` or `${NAME:-default}` at the start of a text: name, default and length.
fn reference(from: &str) -> Option<(&str, Option<&str>, usize)> {
    let inner = from.strip_prefix("${")?;
    let end = inner.find('}')?;
    let body = &inner[..end];
    let (name, default) = match body.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (body, None),
    };
    let is_name = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name.then_some((name, default, end + 3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/home/a".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn expand(words: &str) -> (String, Vec<String>) {
        let mut missing = Vec::new();
        let expanded = text(words, "f", &lookup, &mut missing);
        let names = missing.into_iter().map(|one| one.variable).collect();
        (expanded, names)
    }

    #[test]
    fn variables_and_defaults_expand_and_nothing_else_does() {
        for (written, expanded) in [
            ("${HOME}/x", "/home/a/x"),
            ("a${NONE:-b}c", "abc"),
            ("${NONE:-}", ""),
            ("${EMPTY}", ""),
            ("${EMPTY:-d}", "d"),
            ("$HOME $(id) `id`", "$HOME $(id) `id`"),
            ("${HOME", "${HOME"),
            ("${1}${a b}", "${1}${a b}"),
            ("${NONE:-http://a:1/b}", "http://a:1/b"),
            ("ä${HOME}ö", "ä/home/aö"),
        ] {
            assert_eq!(
                expand(written),
                (expanded.to_owned(), Vec::new()),
                "{written}"
            );
        }
    }

    #[test]
    fn unset_variables_are_reported_once_per_field() {
        let (expanded, names) = expand("${A} ${B} ${A}");
        assert_eq!(expanded, "${A} ${B} ${A}");
        assert_eq!(names, ["A", "B"]);
        let written = json!({"command": "${A}", "args": ["x", "${B}"], "env": {"K": "${C}"},
            "headers": {"Authorization": "Bearer ${D}"}, "other": "${E}"});
        let (expanded, missing) = entry(written.as_object().unwrap(), &lookup);
        let fields: Vec<&str> = missing.iter().map(|one| one.field.as_str()).collect();
        assert_eq!(
            fields,
            ["command", "args[1]", "env.K", "headers.Authorization"]
        );
        assert_eq!(expanded["other"], "${E}");
    }
}
