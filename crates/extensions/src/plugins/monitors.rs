//! The monitors of a plugin: `monitors/monitors.json`, or what the manifest names instead.

use super::contents::{Reader, in_shell};
use super::manifest::read_text;
use crate::plugin::{Monitor, MonitorStart, PluginContribution};
use crate::problem::Problem;
use lathe_settings::document::Document;
use serde_json::Value;
use std::path::{Path, PathBuf};

const KEY: &str = "monitors";
const CONVENTIONAL: &str = "monitors/monitors.json";
const KEYS: [&str; 4] = ["name", "command", "description", "when"];

/// Why an entry is no monitor.
#[derive(Debug, thiserror::Error)]
enum BadMonitor {
    #[error("must be an object with \"name\", \"command\" and \"description\"")]
    NotAnObject,
    #[error("{0:?} is not known here; the monitor is dropped")]
    UnknownKey(String),
    #[error("needs {0:?}, a text")]
    Missing(&'static str),
    #[error("\"when\" is \"always\" or \"on-skill-invoke:<skill>\", not {0:?}")]
    When(String),
    #[error(
        "${{user_config.…}} is not filled in in a shell command; have the command read a file or a variable"
    )]
    UserConfig,
}

/// Reads the monitors of a plugin. An entry that is wrong is reported and left out.
pub(super) fn read(reader: &mut Reader<'_>, plugin: &PluginContribution) -> Vec<Monitor> {
    let mut monitors: Vec<Monitor> = Vec::new();
    for (file, entry) in entries(reader) {
        match of_value(&entry, plugin) {
            Ok(monitor) if monitors.iter().any(|known| known.name == monitor.name) => {
                let field = format!("{KEY}.{}", monitor.name);
                let message = "is there twice; the first one is used";
                reader.problems.push(Problem::field(&file, field, message));
            }
            Ok(monitor) => monitors.push(monitor),
            Err(why) => {
                let name = entry.get("name").and_then(Value::as_str).unwrap_or("?");
                let field = format!("{KEY}.{}", super::plain(name, 60));
                let problem = Problem::field(&file, field, why.to_string());
                reader.problems.push(problem);
            }
        }
    }
    monitors
}

/// The entries with the files that they are in.
fn entries(reader: &mut Reader<'_>) -> Vec<(PathBuf, Value)> {
    let own = reader.file.to_path_buf();
    let named = match reader.manifest.components.get(KEY).cloned() {
        None => return list(reader, None),
        Some(Value::Array(items)) => items,
        Some(other) => vec![other],
    };
    let mut entries = Vec::new();
    for item in named {
        match item {
            Value::String(path) => {
                if let Some(file) = reader.path(KEY, &path) {
                    entries.extend(list(reader, Some(file)));
                }
            }
            entry => entries.push((own.clone(), entry)),
        }
    }
    entries
}

/// The entries of a file; without one, of the conventional file.
fn list(reader: &mut Reader<'_>, file: Option<PathBuf>) -> Vec<(PathBuf, Value)> {
    let Some(file) = file.or_else(|| reader.conventional(CONVENTIONAL)) else {
        return Vec::new();
    };
    match listed(&file) {
        Ok(Some(items)) => of_file(&file, items),
        Ok(None) => {
            let message = "must be a list of monitors";
            reader.problems.push(Problem::field(&file, KEY, message));
            Vec::new()
        }
        Err(problem) => {
            reader.problems.push(Problem {
                fatal: false,
                ..problem
            });
            Vec::new()
        }
    }
}

/// The list that a file holds: itself, or below its key.
fn listed(file: &Path) -> Result<Option<Vec<Value>>, Problem> {
    // A document is an object; comments are allowed in it.
    let text = format!("{{\"{KEY}\": {}\n}}", read_text(file)?);
    let mut document = Document::parse(&text).map_err(|error| {
        Problem::fatal(file, error.message.clone()).at(Some(error.position.line))
    })?;
    let mut value = document.value[KEY].take();
    let value = value.get_mut(KEY).map(Value::take).unwrap_or(value);
    Ok(match value {
        Value::Array(items) => Some(items),
        _ => None,
    })
}

fn of_file(file: &Path, items: Vec<Value>) -> Vec<(PathBuf, Value)> {
    let items = items.into_iter();
    items.map(|item| (file.to_path_buf(), item)).collect()
}

fn of_value(value: &Value, plugin: &PluginContribution) -> Result<Monitor, BadMonitor> {
    let map = value.as_object().ok_or(BadMonitor::NotAnObject)?;
    if let Some(unknown) = map.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(BadMonitor::UnknownKey(unknown.clone()));
    }
    let text = |key: &'static str| {
        let text = map.get(key).and_then(Value::as_str);
        let text = text.filter(|text| !text.trim().is_empty());
        text.map(str::to_owned).ok_or(BadMonitor::Missing(key))
    };
    let command = text("command")?;
    if command.contains("${user_config.") {
        return Err(BadMonitor::UserConfig);
    }
    let when = match map.get("when") {
        None | Some(Value::Null) => MonitorStart::Always,
        Some(Value::String(when)) if when == "always" => MonitorStart::Always,
        Some(when) => when
            .as_str()
            .and_then(|when| when.strip_prefix("on-skill-invoke:"))
            .filter(|skill| !skill.is_empty())
            .map(|skill| MonitorStart::OnSkill(skill.to_owned()))
            .ok_or_else(|| BadMonitor::When(when.to_string()))?,
    };
    Ok(Monitor {
        name: text("name")?,
        command: in_shell(&command, plugin),
        description: text("description")?,
        when,
    })
}
