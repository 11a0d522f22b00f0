//! What the commands about agents and skills have in common.

use super::{finish, load_options, print};
use lathe_extensions::{ExtensionSource, Problem, Sources, plugins};
use lathe_headless::exit::Exit;
use lathe_settings::{Places, load};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Where extensions are looked for here, with the plugins that are on.
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
    /// What only JSON shows.
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

/// A list, and what is wrong.
pub(super) struct Listing<'a> {
    pub(super) what: &'static str,
    pub(super) entries: Vec<Named>,
    pub(super) hidden: Vec<Named>,
    pub(super) problems: &'a [Problem],
    pub(super) json: bool,
}

impl Listing<'_> {
    /// Prints the list; with `all`, also what is hidden.
    pub(super) fn list(&self, all: bool) -> Exit {
        let hidden: &[Named] = if all { &self.hidden } else { &[] };
        if self.json {
            let entries: Vec<Value> = self
                .entries
                .iter()
                .map(|entry| entry.json(false))
                .chain(hidden.iter().map(|entry| entry.json(true)))
                .collect();
            let value = json!({format!("{}s", self.what): entries, "problems": self.problems});
            return finish::<String>(
                Ok(serde_json::to_string_pretty(&value).unwrap_or_default()),
                Exit::Failure,
            );
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
            let description: String = entry.description.chars().take(100).collect();
            let _ = writeln!(
                text,
                "{:<width$}  {:<10}{note}  {}",
                entry.name,
                entry.source.to_string(),
                description.replace('\n', " ")
            );
        }
        if !self.problems.is_empty() {
            let _ = writeln!(
                text,
                "{} problem(s); `lathe {}s validate` names them",
                self.problems.len(),
                self.what
            );
        }
        print(&text)
    }

    /// Prints what is wrong. Fails if a file doesn't count because of it.
    pub(super) fn validate(&self) -> Exit {
        let exit = if self.problems.iter().any(|problem| problem.fatal) {
            Exit::Failure
        } else {
            Exit::Success
        };
        let text = if self.json {
            let value = json!({"problems": self.problems, "count": self.entries.len()});
            format!(
                "{}\n",
                serde_json::to_string_pretty(&value).unwrap_or_default()
            )
        } else {
            let mut text = String::new();
            for problem in self.problems {
                let mark = if problem.fatal { "error" } else { "warning" };
                let _ = writeln!(text, "{mark}: {problem}");
            }
            let _ = writeln!(
                text,
                "{} {}s, {} problem(s)",
                self.entries.len(),
                self.what,
                self.problems.len()
            );
            text
        };
        match print(&text) {
            Exit::Success => exit,
            failed => failed,
        }
    }
}
