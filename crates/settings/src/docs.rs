//! The tables of `docs/settings.md`, made from the declarations.

use crate::environment::Variable;
use crate::schema::{ALIASES, json_schema};
use crate::validate::describe;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// One table of the settings page: its heading and its Markdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The name by which the page refers to it.
    pub name: &'static str,
    /// The table.
    pub markdown: String,
}

/// All tables.
#[must_use]
pub fn tables() -> Vec<Table> {
    vec![
        Table {
            name: "keys",
            markdown: keys(),
        },
        Table {
            name: "environment",
            markdown: environment(),
        },
    ]
}

/// Puts the tables between their marks (`<!-- begin keys -->` … `<!-- end keys -->`) in a page.
#[must_use]
pub fn fill(page: &str) -> String {
    tables().into_iter().fold(page.to_owned(), |page, table| {
        let (begin, end) = (
            format!("<!-- begin {} -->\n", table.name),
            format!("<!-- end {} -->", table.name),
        );
        match (page.find(&begin), page.find(&end)) {
            (Some(from), Some(to)) if from + begin.len() <= to => {
                format!("{}{begin}{}{}", &page[..from], table.markdown, &page[to..])
            }
            _ => page,
        }
    })
}

fn keys() -> String {
    let schema = json_schema();
    let mut text = String::new();
    let empty = Map::new();
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    rows(&mut text, properties, |name| {
        !ALIASES.iter().any(|(alias, _)| *alias == name)
    });
    let definitions = schema
        .get("$defs")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    for (name, definition) in definitions {
        let Some(properties) = definition.get("properties").and_then(Value::as_object) else {
            continue;
        };
        let about = definition
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let places = places_of(schema, name);
        let _ = write!(
            text,
            "\n### {}\n\n{}\n\n",
            places.join(", "),
            one_line(about)
        );
        rows(&mut text, properties, |_| true);
    }
    text.push_str("\n### Other names\n\nFiles of this ecosystem use these too:\n\n| in a file | the same as |\n|---|---|\n");
    for (alias, key) in ALIASES {
        let _ = writeln!(text, "| `{alias}` | `{key}` |");
    }
    text
}

fn rows(text: &mut String, properties: &Map<String, Value>, wanted: impl Fn(&str) -> bool) {
    text.push_str("| key | value | meaning |\n|---|---|---|\n");
    for (name, property) in properties.iter().filter(|(name, _)| wanted(name)) {
        let about = property
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let kind = describe(json_schema(), property).replace('|', "\\|");
        let _ = writeln!(
            text,
            "| `{name}` | {kind} | {} |",
            one_line(about).replace('|', "\\|")
        );
    }
}

/// The keys whose value is a definition, as `permissions` or `providers.*`.
fn places_of(schema: &Value, definition: &str) -> Vec<String> {
    let reference = format!("#/$defs/{definition}");
    let mut places = Vec::new();
    let mut search = |owner: &str, properties: &Map<String, Value>| {
        for (name, property) in properties {
            if ALIASES.iter().any(|(alias, _)| alias == name) {
                continue;
            }
            let steps = steps_to(property, &reference);
            places.extend(steps.map(|steps| format!("`{owner}{name}{steps}`")));
        }
    };
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        search("", properties);
    }
    for (owner, inner) in schema
        .get("$defs")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Some(properties) = inner.get("properties").and_then(Value::as_object) {
            let place = match owner.as_str() {
                "HookGroup" => "hooks.<event>[].".to_owned(),
                "SandboxSettings" => "sandbox.".to_owned(),
                other => format!("{other}."),
            };
            search(&place, properties);
        }
    }
    places
}

fn steps_to(schema: &Value, reference: &str) -> Option<String> {
    if schema.get("$ref").and_then(Value::as_str) == Some(reference) {
        return Some(String::new());
    }
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        return choices
            .iter()
            .find_map(|choice| steps_to(choice, reference));
    }
    if let Some(items) = schema.get("items") {
        return steps_to(items, reference).map(|rest| format!("[]{rest}"));
    }
    if let Some(others) = schema
        .get("additionalProperties")
        .filter(|others| others.is_object())
    {
        return steps_to(others, reference).map(|rest| format!(".<name>{rest}"));
    }
    None
}

fn environment() -> String {
    let mut text =
        String::from("| variable | also | meaning | default | used by |\n|---|---|---|---|---|\n");
    for variable in Variable::ALL.iter().map(|variable| variable.declaration()) {
        let also: Vec<String> = variable
            .aliases
            .iter()
            .map(|alias| format!("`{alias}`"))
            .collect();
        let default = if variable.default.is_empty() {
            String::new()
        } else {
            format!("`{}`", variable.default)
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {default} | {} |",
            variable.name,
            also.join(", "),
            variable.meaning,
            variable.used_by
        );
    }
    text
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
