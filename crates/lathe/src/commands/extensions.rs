//! Code that `lathe agents` and `lathe skills` share.

use super::{exit_if, load_options, print};
use crate::error::{CliError, Outcome};
use lathe_extensions::{ExtensionSource, PluginContribution, Problem, Sources, plugins};
use lathe_settings::{Places, load};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The sources of extensions in this folder, with the enabled plugins.
pub(super) fn sources(places: &Places, plugin_folders: &[PathBuf]) -> Sources {
    let options = load_options(places, &[], None);
    let settings = load(places, &options);
    let loaded = plugins::load(places, &settings, plugin_folders);
    Sources::new(places, &options.trust, None).with_plugins(loaded.contributions())
}

/// An agent or a skill in a list.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) source: ExtensionSource,
    pub(super) description: String,
    pub(super) path: Option<PathBuf>,
    /// Fields of the JSON output only.
    pub(super) more: Value,
}

impl Named {
    fn json(&self, hidden: bool) -> Value {
        let mut value = json!({
            "name": self.name, "source": self.source, "description": self.description,
            "path": self.path, "hidden": hidden,
        });
        if let (Some(fields), Some(more)) = (value.as_object_mut(), self.more.as_object()) {
            fields.extend(more.clone());
        }
        value
    }
}

/// The first 100 characters of a description, on one line.
fn shortened(text: &str) -> String {
    const MOST: usize = 100;
    let mut words: String = text.replace('\n', " ");
    if let Some((end, _)) = words.char_indices().nth(MOST) {
        words.truncate(end);
        words.push('…');
    }
    words
}

/// Sources that hold one file or folder only, as if a plugin contained it.
pub(super) fn alone(path: &Path, add: impl FnOnce(&mut PluginContribution)) -> Sources {
    let mut contribution = PluginContribution {
        name: "this".to_owned(),
        root: path.parent().unwrap_or(path).to_owned(),
        trusted: true,
        ..PluginContribution::default()
    };
    if path.is_dir() {
        path.clone_into(&mut contribution.root);
    }
    add(&mut contribution);
    Sources::default().with_plugins(vec![contribution])
}

/// The path of a command-line argument, resolved.
///
/// # Errors
/// When there is no such file.
pub(super) fn named_path(places: &Places, path: &Path) -> Result<PathBuf, CliError> {
    let path = places.environment.resolve(&path.to_string_lossy());
    std::fs::canonicalize(&path).map_err(|error| CliError::failure(error).about(path.display()))
}

/// The error for an unknown name, with the nearest known one as a hint.
pub(super) fn no_such(what: &str, name: &str, nearest: Option<&str>) -> CliError {
    let error = CliError::failure(format!("there is no {what} {name}"));
    match nearest {
        Some(nearest) => error.hint(format!("did you mean {nearest}?")),
        None => error.hint(format!("`lathe {what}s list` shows them")),
    }
}

/// Whether a file is inside a folder, or is the file.
pub(super) fn lies_in(file: &Path, path: &Path) -> bool {
    let real = std::fs::canonicalize(file);
    real.as_deref().unwrap_or(file).starts_with(path)
}

/// A list of agents or skills, with the problems of their files.
pub(super) struct Listing<'a> {
    pub(super) what: &'static str,
    pub(super) entries: Vec<Named>,
    pub(super) hidden: Vec<Named>,
    pub(super) problems: &'a [Problem],
    pub(super) json: bool,
}

impl Listing<'_> {
    /// Prints the list; with `all`, also hidden entries.
    pub(super) fn list(&self, all: bool) -> Outcome {
        let hidden: &[Named] = if all { &self.hidden } else { &[] };
        if self.json {
            let entries: Vec<Value> = self
                .entries
                .iter()
                .map(|entry| entry.json(false))
                .chain(hidden.iter().map(|entry| entry.json(true)))
                .collect();
            let value = json!({format!("{}s", self.what): entries, "problems": self.problems});
            return print(&format!("{value:#}\n"));
        }
        let width = self
            .entries
            .iter()
            .chain(hidden)
            .map(|entry| entry.name.chars().count())
            .max()
            .unwrap_or(0)
            .min(32);
        let mut text = String::new();
        for (entry, note) in self
            .entries
            .iter()
            .map(|entry| (entry, ""))
            .chain(hidden.iter().map(|entry| (entry, " [hidden]")))
        {
            let _ = writeln!(
                text,
                "{:<width$}  {:<10}{note}  {}",
                entry.name,
                entry.source.to_string(),
                shortened(&entry.description)
            );
        }
        if !self.problems.is_empty() {
            let _ = writeln!(
                text,
                "{}; `lathe {}s validate` lists them",
                counted(self.problems.len(), "problem"),
                self.what
            );
        }
        print(&text)
    }

    /// Prints the problems. Fails if a file is not loaded because of one.
    pub(super) fn validate(&self) -> Outcome {
        let text = if self.json {
            let value = json!({"problems": self.problems, "count": self.entries.len()});
            format!("{value:#}\n")
        } else {
            let mut text = String::new();
            for problem in self.problems {
                let mark = if problem.fatal { "error" } else { "warning" };
                let _ = writeln!(text, "{mark}: {problem}");
            }
            let _ = writeln!(
                text,
                "{}, {}",
                counted(self.entries.len(), self.what),
                counted(self.problems.len(), "problem")
            );
            text
        };
        print(&text)?;
        Ok(exit_if(!self.problems.iter().any(|problem| problem.fatal)))
    }
}

/// A count with its noun: `1 agent`, `2 agents`.
fn counted(count: usize, what: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {what}{end}")
}
