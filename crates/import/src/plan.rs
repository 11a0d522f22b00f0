//! The plan of an import, and its report.

use crate::agents::Agent;
use lathe_settings::{KeyPath, Places, Source};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The fate of a part of the setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// As it was.
    Taken,
    /// In another form.
    Changed,
    /// It was there already.
    There,
    /// Not at all.
    Left,
    /// It is a secret, which stays where it is.
    Secret,
}

impl Fate {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Changed => "changed",
            Self::There => "there",
            Self::Left => "left",
            Self::Secret => "secret",
        }
    }
}

/// A line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its fate.
    pub fate: Fate,
    /// To what.
    pub what: String,
    /// Why, or into what; may be empty.
    pub why: String,
}

/// The report of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The agent.
    pub agent: Agent,
    /// The lines, in the order of the files.
    pub lines: Vec<Line>,
}

impl Report {
    /// For people.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n", self.agent.name());
        if self.lines.is_empty() {
            text.push_str("  nothing was found\n");
        }
        for line in &self.lines {
            let _ = write!(text, "  {:<8} {}", line.fate.word(), line.what);
            if !line.why.is_empty() {
                let _ = write!(text, ": {}", line.why);
            }
            text.push('\n');
        }
        text
    }

    /// For programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let lines = self.lines.iter().map(|line| {
            serde_json::json!({"fate": line.fate.word(), "what": line.what, "why": line.why})
        });
        serde_json::json!({"agent": self.agent.name(), "lines": lines.collect::<Vec<Value>>()})
    }

    /// How many lines say that something was taken, changed or not.
    #[must_use]
    pub fn count(&self, fates: &[Fate]) -> usize {
        let lines = self.lines.iter();
        lines.filter(|line| fates.contains(&line.fate)).count()
    }
}

/// Something to write.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// A setting.
    Set {
        /// The file.
        source: Source,
        /// The key.
        key: KeyPath,
        /// Its value.
        value: Value,
    },
    /// An entry of a list of settings: a permission rule, a group of hooks.
    Add {
        /// The file.
        source: Source,
        /// The list.
        key: KeyPath,
        /// The entry.
        item: Value,
    },
    /// An MCP server.
    Server {
        /// The file.
        source: Source,
        /// Its name.
        name: String,
        /// Its entry.
        entry: Value,
    },
    /// A file of ours.
    File {
        /// Where.
        path: PathBuf,
        /// Its content.
        text: String,
    },
}

/// A step of the plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Something to write, with how it is called and, if it changes its form, why.
    Do {
        /// Its name in the report.
        what: String,
        /// Whether it is taken as it is, or in another form.
        fate: Fate,
        /// The form that it gets, or its new place; may be empty.
        change: String,
        /// The change.
        action: Action,
    },
    /// Something that is not written.
    Say(Line),
}

/// The steps of an import.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The agent.
    pub agent: Agent,
    /// The steps, in order.
    pub steps: Vec<Step>,
    config_home: PathBuf,
    project: PathBuf,
    home: Option<PathBuf>,
}

impl Plan {
    pub(crate) fn new(agent: Agent, places: &Places) -> Self {
        Self {
            agent,
            steps: Vec::new(),
            config_home: places.config_home.clone(),
            project: places.project.clone(),
            home: places.environment.home.clone(),
        }
    }

    /// A path as people write it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        if let Ok(inside) = path.strip_prefix(&self.project) {
            return inside.display().to_string();
        }
        match self
            .home
            .as_ref()
            .and_then(|home| path.strip_prefix(home).ok())
        {
            Some(inside) => format!("~/{}", inside.display()),
            None => path.display().to_string(),
        }
    }

    /// Our folder for a source.
    pub(crate) fn folder(&self, source: Source) -> PathBuf {
        if source == Source::User {
            self.config_home.clone()
        } else {
            self.project.join(".lathe")
        }
    }

    fn say(&mut self, fate: Fate, what: impl Into<String>, why: impl Into<String>) {
        self.steps.push(Step::Say(Line {
            fate,
            what: what.into(),
            why: why.into(),
        }));
    }

    /// Something that is not taken.
    pub(crate) fn left(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.say(Fate::Left, what, why);
    }

    /// Something that needs no import.
    pub(crate) fn in_place(&mut self, what: impl Into<String>) {
        self.say(Fate::Taken, what, "it is read where it is");
    }

    /// A secret, and what to do about it.
    pub(crate) fn secret(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.say(Fate::Secret, what, why);
    }

    fn act(
        &mut self,
        fate: Fate,
        what: impl Into<String>,
        change: impl Into<String>,
        action: Action,
    ) {
        self.steps.push(Step::Do {
            what: what.into(),
            fate,
            change: change.into(),
            action,
        });
    }

    /// A setting; `change` says why it has another form, or is empty.
    pub(crate) fn set(&mut self, source: Source, was: &str, key: &str, value: Value, change: &str) {
        let Ok(parsed) = key.parse::<KeyPath>() else {
            return self.left(was, "there is no such setting");
        };
        if let Err(error) = lathe_settings::write::check(&parsed, &value) {
            return self.left(was, error.to_string());
        }
        let form = format!("{key} = {value}");
        let action = Action::Set {
            source,
            key: parsed,
            value,
        };
        let change = match change {
            "" if was == key => String::new(),
            "" => form,
            why => format!("{form} ({why})"),
        };
        self.act(fate_of(&change), was, change, action);
    }

    /// A permission rule.
    pub(crate) fn rule(&mut self, source: Source, was: &str, behavior: &str, rule: String) {
        let change = format!("permissions.{behavior} {rule}");
        self.add(
            source,
            was,
            &["permissions", behavior],
            Value::from(rule),
            change,
        );
    }

    /// An entry of a list of settings.
    pub(crate) fn add(
        &mut self,
        source: Source,
        was: &str,
        key: &[&str],
        item: Value,
        change: impl Into<String>,
    ) {
        let key = KeyPath(key.iter().map(|part| (*part).to_owned()).collect());
        self.act(
            Fate::Changed,
            was,
            change,
            Action::Add { source, key, item },
        );
    }

    /// An MCP server.
    pub(crate) fn server(&mut self, source: Source, name: &str, entry: Value, change: String) {
        let action = Action::Server {
            source,
            name: name.to_owned(),
            entry,
        };
        self.act(
            fate_of(&change),
            format!("MCP server {name}"),
            change,
            action,
        );
    }

    /// A file of ours; `why` says why it has another content than theirs, or is empty.
    pub(crate) fn file(&mut self, was: String, path: PathBuf, text: String, why: &str) {
        let place = self.shown(&path);
        let change = if why.is_empty() {
            place
        } else {
            format!("{place} ({why})")
        };
        self.act(fate_of(why), was, change, Action::File { path, text });
    }
}

fn fate_of(change: &str) -> Fate {
    if change.is_empty() {
        Fate::Taken
    } else {
        Fate::Changed
    }
}
