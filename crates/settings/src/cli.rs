//! The commands `lathe config` and `lathe trust`. Everything here returns text; the binary prints it.

use crate::environment::Variable;
use crate::key::{BadKey, KeyPath};
use crate::load::{LoadOptions, Resolved, files};
use crate::paths::{Environment, Places};
use crate::schema::{ALIASES, json_schema};
use crate::source::{Problem, Severity, Source};
use crate::trust_store::{TrustError, TrustStore, brings};
use crate::write::{Edit, OwnWrites, WriteError, check, write};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The key is not one.
    #[error(transparent)]
    Key(#[from] BadKey),
    /// Nothing sets the key.
    #[error("{0} is not set")]
    NotSet(KeyPath),
    /// The change was not written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The trust store can't be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// There is no such folder.
    #[error("{} is not a folder", .0.display())]
    NoFolder(PathBuf),
}

/// `config get <key>`: the value in effect for a key.
///
/// # Errors
/// When the key is malformed or nothing sets it.
pub fn get(resolved: &Resolved, key: &str, format: Format) -> Result<String, CliError> {
    let key = canonical(key.parse()?);
    let value = key
        .find(&resolved.value)
        .ok_or_else(|| CliError::NotSet(key.clone()))?;
    Ok(match (format, value) {
        (Format::Text, Value::String(text)) => text.clone(),
        _ => pretty(value),
    })
}

/// `config set <key> <value>`: writes a key. A value that is no JSON, or that the key wants as a
/// text, is taken as a text.
///
/// # Errors
/// When the key or value doesn't fit, or the file can't be written.
pub fn set(
    places: &Places,
    scope: Source,
    key: &str,
    value: &str,
    own: Option<&OwnWrites>,
) -> Result<String, CliError> {
    let key: KeyPath = key.parse()?;
    let text = Value::String(value.to_owned());
    let value = match serde_json::from_str::<Value>(value) {
        Ok(parsed) => match check(&key, &parsed) {
            Ok(()) => parsed,
            Err(error) => check(&key, &text).map(|()| text).map_err(|_| error)?,
        },
        Err(_) => check(&key, &text).map(|()| text)?,
    };
    let edit = Edit::Set {
        key: key.clone(),
        value: value.clone(),
    };
    let written = write(places, scope, &[edit], own)?;
    let verb = if written.changed {
        "set"
    } else {
        "already set"
    };
    Ok(format!(
        "{key} is {verb} to {value} in {}",
        written.file.display()
    ))
}

/// `config unset <key>`: removes a key from a file.
///
/// # Errors
/// When the key is malformed or the file can't be written.
pub fn unset(
    places: &Places,
    scope: Source,
    key: &str,
    own: Option<&OwnWrites>,
) -> Result<String, CliError> {
    let key: KeyPath = key.parse()?;
    let mut edits = vec![Edit::Unset { key: key.clone() }];
    // The file may have it under its other name.
    let canonical_key = canonical(key.clone());
    for (alias, name) in ALIASES
        .iter()
        .filter(|(_, name)| canonical_key.0 == [*name])
    {
        edits.push(Edit::Unset {
            key: KeyPath(vec![(*alias).to_owned()]),
        });
        edits.push(Edit::Unset {
            key: KeyPath(vec![(*name).to_owned()]),
        });
    }
    let written = write(places, scope, &edits, own)?;
    let what = if written.changed {
        "is removed from"
    } else {
        "was not set in"
    };
    Ok(format!("{key} {what} {}", written.file.display()))
}

/// `config list`: every key that is set, with where it comes from.
#[must_use]
pub fn list(resolved: &Resolved, format: Format) -> String {
    let mut rows = Vec::new();
    collect(&resolved.value, &mut Vec::new(), &mut rows);
    let rows = rows.into_iter().map(|(key, value)| {
        let origin = resolved.origin(&key);
        (key, value, origin)
    });
    match format {
        Format::Json => pretty(&Value::Array(
            rows.map(|(key, value, origin)| {
                json!({
                    "key": key.to_string(),
                    "value": shown(&key, value),
                    "source": origin.as_ref().map(|origin| origin.source),
                    "file": origin.as_ref().and_then(|origin| origin.path.clone()),
                    "line": origin.and_then(|origin| origin.position).map(|position| position.line),
                })
            })
            .collect(),
        )),
        Format::Text => {
            let mut text = String::new();
            for (key, value, origin) in rows {
                let place = origin.map_or_else(String::new, |origin| {
                    let file = origin
                        .path
                        .map_or_else(|| "--settings".into(), |path| path.display().to_string());
                    let line = origin
                        .position
                        .map_or_else(String::new, |position| format!(":{}", position.line));
                    format!("  ({} {file}{line})", origin.source)
                });
                let _ = writeln!(text, "{key} = {}{place}", shown(&key, value));
            }
            if text.is_empty() {
                "nothing is set\n".to_owned()
            } else {
                text
            }
        }
    }
}

/// `config path`: every file that is read, strongest last.
#[must_use]
pub fn paths(places: &Places, options: &LoadOptions, format: Format) -> String {
    let files = files(places, options);
    match format {
        Format::Json => pretty(&json!({
            "configHome": places.config_home,
            "project": places.project,
            "files": files.iter().map(|(source, file)| json!({
                "source": source, "file": file, "exists": file.exists(),
                "written": places.written_file(*source).as_ref() == Some(file),
            })).collect::<Vec<_>>(),
        })),
        Format::Text => {
            let mut text = format!(
                "config home  {}\nproject      {}\n",
                places.config_home.display(),
                places.project.display()
            );
            for (source, file) in files {
                let there = if file.exists() { "" } else { "  (not there)" };
                let _ = writeln!(text, "{:<12} {}{there}", source.name(), file.display());
            }
            text
        }
    }
}

/// `config edit`: the file to open and the editor's command line. The file is made if it isn't
/// there.
///
/// # Errors
/// When the source is never written or the file can't be made.
pub fn edit(places: &Places, scope: Source) -> Result<(String, PathBuf), CliError> {
    let file = places.written_file(scope).ok_or(WriteError::NotWritten {
        source_name: scope.name(),
    })?;
    if !file.exists() {
        let key = KeyPath(vec!["$schema".to_owned()]);
        let edit = Edit::Set {
            key,
            value: SCHEMA_ADDRESS.into(),
        };
        write(places, scope, &[edit], None)?;
    }
    let editor = places.environment.get(Variable::Editor).unwrap_or("vi");
    Ok((editor.to_owned(), file))
}

/// Where the schema is published.
pub const SCHEMA_ADDRESS: &str =
    "https://raw.githubusercontent.com/lathe-dev/lathe/main/docs/settings.schema.json";

/// `config schema`: the JSON schema of a settings file.
#[must_use]
pub fn schema() -> String {
    format!("{}\n", pretty(json_schema()))
}

/// The result of `config doctor`.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// For the user.
    pub text: String,
    /// Whether anything is ignored.
    pub healthy: bool,
}

/// `config doctor`: which files are read, what is wrong in them, what is ignored and why. `further` are problems
/// that other parts found (rules that don't parse, hooks that never run).
#[must_use]
pub fn doctor(
    places: &Places,
    options: &LoadOptions,
    resolved: &Resolved,
    further: &[String],
    format: Format,
) -> Diagnosis {
    let errors = resolved
        .problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .count();
    let lost = resolved
        .problems
        .iter()
        .any(|problem| problem.restriction_lost);
    let healthy = errors == 0 && further.is_empty() && !lost;
    let withheld = resolved.withheld();
    let text = match format {
        Format::Json => pretty(&json!({
            "healthy": healthy,
            "files": resolved.layers.iter().map(|layer| json!({"source": layer.source, "file": layer.path})).collect::<Vec<_>>(),
            "problems": resolved.problems,
            "further": further,
            "withheld": withheld,
        })),
        Format::Text => {
            let mut text = paths(places, options, Format::Text);
            text.push('\n');
            for severity in [Severity::Error, Severity::Warning, Severity::Note] {
                for problem in of_severity(&resolved.problems, severity) {
                    let word = match severity {
                        Severity::Error => "error",
                        Severity::Warning => "warning",
                        Severity::Note => "note",
                    };
                    let _ = writeln!(text, "{word}: {problem}");
                }
            }
            for problem in further {
                let _ = writeln!(text, "error: {problem}");
            }
            if !withheld.is_empty() {
                let _ = writeln!(
                    text,
                    "\nThis folder is not trusted, so these have no effect (trust it with `lathe trust add`):"
                );
                for bring in &withheld {
                    let _ = writeln!(text, "  {}: {bring}", bring.kind.heading());
                }
            }
            if resolved.problems.is_empty() && further.is_empty() && withheld.is_empty() {
                text.push_str("All settings are in effect.\n");
            } else if healthy {
                text.push_str("Other settings are in effect.\n");
            }
            text
        }
    };
    Diagnosis { text, healthy }
}

fn of_severity(problems: &[Problem], severity: Severity) -> impl Iterator<Item = &Problem> {
    problems
        .iter()
        .filter(move |problem| problem.severity == severity)
}

/// `config env`: every variable that Lathe knows, with what it is set to here.
#[must_use]
pub fn environment(environment: &Environment, format: Format) -> String {
    let value = |variable: Variable| {
        let hidden = variable.is_secret();
        environment
            .get(variable)
            .map(|value| if hidden { "(hidden)" } else { value })
    };
    match format {
        Format::Json => pretty(&Value::Array(
            Variable::ALL
                .iter()
                .map(|&variable| {
                    let mut row = serde_json::to_value(variable.declaration()).unwrap_or_default();
                    row["value"] = value(variable).into();
                    row
                })
                .collect(),
        )),
        Format::Text => {
            let mut text = String::new();
            for &variable in Variable::ALL {
                let declared = variable.declaration();
                let names: Vec<&str> = declared.names().collect();
                let _ = write!(text, "{}\n    {}", names.join(", "), declared.meaning);
                if !declared.default.is_empty() {
                    let _ = write!(text, " Default: {}.", declared.default);
                }
                if let Some(value) = value(variable) {
                    let _ = write!(text, "\n    set to {value}");
                }
                text.push('\n');
            }
            text
        }
    }
}

/// `trust list`.
///
/// # Errors
/// When the store is broken.
pub fn trust_list(store: &TrustStore, format: Format) -> Result<String, CliError> {
    let folders = store.list()?;
    Ok(match format {
        Format::Json => pretty(&serde_json::to_value(&folders).unwrap_or_default()),
        Format::Text if folders.is_empty() => "no folder is remembered\n".to_owned(),
        Format::Text => folders
            .iter()
            .fold(String::new(), |mut text, (folder, entry)| {
                let word = if entry.trusted {
                    "trusted"
                } else {
                    "not trusted"
                };
                let _ = writeln!(text, "{word:<12} {folder}");
                text
            }),
    })
}

/// `trust add [folder]`: trusts a folder and everything in it, and says what that lets in.
///
/// # Errors
/// When there is no such folder or the store can't be written.
pub fn trust_add(
    places: &Places,
    store: &TrustStore,
    folder: &Path,
    now: &str,
) -> Result<String, CliError> {
    let folder = places.environment.cwd.join(folder);
    if !folder.is_dir() {
        return Err(CliError::NoFolder(folder));
    }
    let there = Environment {
        cwd: folder.clone(),
        ..places.environment.clone()
    };
    let brought = brings(&Places::with_managed(there, places.managed.clone()));
    let folder = store.remember(&folder, true, now)?;
    let mut text = format!("{} is trusted from now on\n", folder.display());
    if !brought.is_empty() {
        text.push_str("it contains:\n");
    }
    for bring in brought {
        let _ = writeln!(text, "  {}: {bring}", bring.kind.heading());
    }
    Ok(text)
}

/// `trust remove [folder]`.
///
/// # Errors
/// When the store can't be written.
pub fn trust_remove(
    places: &Places,
    store: &TrustStore,
    folder: &Path,
) -> Result<String, CliError> {
    // Without the `.` of the user who names the folder so.
    let folder: PathBuf = places.environment.cwd.join(folder).components().collect();
    let known = store.forget(&folder)?;
    let what = if known {
        "is no longer trusted; you will be asked again"
    } else {
        "was not remembered"
    };
    let mut text = format!("{} {what}\n", folder.display());
    if store.is_trusted(&folder) {
        text.push_str("a folder above it is trusted, so it still is\n");
    }
    Ok(text)
}

/// A key under its main name.
fn canonical(mut key: KeyPath) -> KeyPath {
    if let Some(first) = key.0.first_mut()
        && let Some((_, name)) = ALIASES.iter().find(|(alias, _)| alias == first)
    {
        (*name).clone_into(first);
    }
    key
}

fn collect<'a>(value: &'a Value, path: &mut Vec<String>, rows: &mut Vec<(KeyPath, &'a Value)>) {
    match value {
        Value::Object(map) if path.is_empty() || !map.is_empty() => {
            for (name, value) in map {
                path.push(name.clone());
                collect(value, path, rows);
                path.pop();
            }
        }
        leaf if !path.is_empty() => rows.push((KeyPath(path.clone()), leaf)),
        _ => {}
    }
}

/// A value for a listing; variables and headers may hold secrets.
fn shown(key: &KeyPath, value: &Value) -> Value {
    let hidden = key.0.first().is_some_and(|first| first == "env")
        || key.0.iter().any(|step| step == "headers");
    if hidden {
        "(hidden)".into()
    } else {
        value.clone()
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
