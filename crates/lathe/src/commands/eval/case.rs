//! A case: a small project, a prompt, and what must hold afterwards. One JSON file each.

use crate::error::CliError;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A case as its file has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Case {
    /// Taken from the name of the file.
    #[serde(skip)]
    pub(crate) name: String,
    /// The behaviour that it is about, in a line.
    pub(crate) about: String,
    pub(crate) prompt: String,
    /// Files of the project, by path.
    #[serde(default)]
    pub(crate) files: BTreeMap<PathBuf, String>,
    /// Whether the project is a git repository with everything committed.
    #[serde(default)]
    pub(crate) git: bool,
    /// The permission mode; `acceptEdits` if it says nothing.
    #[serde(default)]
    pub(crate) mode: Option<String>,
    /// Rules that allow.
    #[serde(default)]
    pub(crate) allow: Vec<String>,
    /// Rules that deny.
    #[serde(default)]
    pub(crate) deny: Vec<String>,
    /// Maximum number of model answers.
    #[serde(default)]
    pub(crate) max_answers: Option<u32>,
    pub(crate) graders: Vec<Grader>,
    /// Answers of a model that behaves well, and of one that does not: they show that the graders can tell.
    #[serde(default)]
    pub(crate) good: Vec<Value>,
    #[serde(default)]
    pub(crate) bad: Vec<Value>,
}

/// A condition on a run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(crate) enum Grader {
    /// A call was made.
    Called(CallPattern),
    /// No such call was made.
    NotCalled(CallPattern),
    /// The first such call comes before the second, which may be missing.
    Order {
        first: CallPattern,
        then: CallPattern,
    },
    /// At most so many calls.
    CallsAtMost(usize),
    /// The same call with the same input at most so often.
    RepeatsAtMost(usize),
    /// A file of the project.
    File(FileState),
    /// Files that are as they were.
    Unchanged(Vec<PathBuf>),
    /// A command that succeeds in the project.
    Command(String),
    /// A pattern in the last answer: for facts, not for style.
    Answer(String),
}

/// Calls by tool, and by a pattern in their input.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(crate) struct CallPattern {
    /// A pattern for the name of the tool.
    pub(crate) tool: String,
    /// A pattern for the input as JSON.
    #[serde(default)]
    pub(crate) input: Option<String>,
    /// Only calls that failed, or that did not.
    #[serde(default)]
    pub(crate) failed: Option<bool>,
}

/// The state of a file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(crate) struct FileState {
    pub(crate) path: PathBuf,
    /// Whether it is there.
    #[serde(default = "yes")]
    pub(crate) exists: bool,
    /// Patterns that it has.
    #[serde(default)]
    pub(crate) has: Vec<String>,
    /// Patterns that it has not.
    #[serde(default)]
    pub(crate) lacks: Vec<String>,
}

fn yes() -> bool {
    true
}

/// The cases of files and folders, by name. A case that can't be read is an error.
pub(crate) fn load(paths: &[PathBuf]) -> Result<Vec<Case>, CliError> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = std::fs::read_dir(path)
                .map_err(|error| CliError::usage(error).about(path.display()))?;
            let entries = entries.flatten().map(|entry| entry.path());
            files.extend(entries.filter(|it| it.extension().is_some_and(|it| it == "json")));
        } else {
            files.push(path.clone());
        }
    }
    files.sort();
    files.dedup();
    if files.is_empty() {
        return Err(CliError::usage("no cases were found")
            .hint("name files or folders with cases: `lathe eval run cases/`"));
    }
    files.iter().map(|file| read(file)).collect()
}

fn read(file: &Path) -> Result<Case, CliError> {
    let wrong =
        |error: &dyn std::fmt::Display| CliError::usage(error.to_string()).about(file.display());
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let mut case: Case = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    case.name = file
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let patterns = case.graders.iter().flat_map(Grader::patterns);
    for pattern in patterns {
        regex::Regex::new(pattern).map_err(|error| wrong(&error))?;
    }
    if case.graders.is_empty() {
        return Err(wrong(&"`graders` is empty: nothing would be checked"));
    }
    for path in case.files.keys() {
        let climbs = path
            .components()
            .any(|step| step == std::path::Component::ParentDir);
        if path.is_absolute() || climbs {
            return Err(wrong(&format!(
                "`files`: {} is outside of the project",
                path.display()
            )));
        }
    }
    Ok(case)
}

impl Grader {
    fn patterns(&self) -> Vec<&str> {
        match self {
            Self::Called(call) | Self::NotCalled(call) => call.patterns(),
            Self::Order { first, then } => [first.patterns(), then.patterns()].concat(),
            Self::File(file) => file
                .has
                .iter()
                .chain(&file.lacks)
                .map(String::as_str)
                .collect(),
            Self::Answer(pattern) => vec![pattern],
            Self::CallsAtMost(_)
            | Self::RepeatsAtMost(_)
            | Self::Unchanged(_)
            | Self::Command(_) => Vec::new(),
        }
    }
}

impl CallPattern {
    fn patterns(&self) -> Vec<&str> {
        std::iter::once(self.tool.as_str())
            .chain(self.input.as_deref())
            .collect()
    }
}
