//! Where a setting comes from, and what is wrong with it.

use lathe_protocol::diagnostic::{self, Diagnostic};
use lathe_protocol::permission::RuleSource;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where settings come from, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The user's own settings.
    User,
    /// The project's settings, shared with its people.
    Project,
    /// The project's settings of this person.
    Local,
    /// `--settings`.
    Flag,
    /// The company's policy.
    Managed,
}

impl Source {
    /// All sources, weakest first.
    pub const ALL: [Self; 5] = [
        Self::User,
        Self::Project,
        Self::Local,
        Self::Flag,
        Self::Managed,
    ];

    /// The source's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Flag => "flag",
            Self::Managed => "managed",
        }
    }

    /// Whether its files lie in the project's folder, so that trust decides whether they apply.
    #[must_use]
    pub fn comes_with_the_folder(self) -> bool {
        matches!(self, Self::Project | Self::Local)
    }

    /// The sources that `--setting-sources` names; an empty text names none.
    ///
    /// # Errors
    /// When a word names no source that the flag can choose.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, UnknownSource> {
        text.split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(str::parse)
            .collect()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no settings source.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown settings source '{0}'; known sources: user, project, local")]
pub struct UnknownSource(pub String);

impl FromStr for Source {
    type Err = UnknownSource;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "user" => Ok(Self::User),
            "project" => Ok(Self::Project),
            "local" => Ok(Self::Local),
            other => Err(UnknownSource(other.to_owned())),
        }
    }
}

impl From<Source> for RuleSource {
    fn from(source: Source) -> Self {
        match source {
            Source::User => Self::UserSettings,
            Source::Project => Self::ProjectSettings,
            Source::Local => Self::LocalSettings,
            Source::Flag => Self::FlagSettings,
            Source::Managed => Self::PolicySettings,
        }
    }
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Probably not what was meant.
    Warning,
    /// Something in the file is ignored.
    Error,
}

/// Something that is wrong with a settings file. Nothing of this kind stops a start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The source.
    pub source: Source,
    /// The file; `None` for JSON given on the command line.
    pub file: Option<PathBuf>,
    /// The line, from 1, where it is known.
    pub line: Option<usize>,
    /// The column, from 1, where it is known.
    pub column: Option<usize>,
    /// The key, such as `permissions.allow[2]`; empty for the whole file.
    pub key: String,
    /// The mistake.
    pub message: String,
    /// The remedy.
    pub fix: Option<String>,
    /// Whether a restriction is not in effect because of it; faces show that more prominently.
    pub restriction_lost: bool,
}

impl From<&Problem> for Diagnostic {
    fn from(problem: &Problem) -> Self {
        let severity = match problem.severity {
            Severity::Error => diagnostic::Severity::Error,
            Severity::Warning => diagnostic::Severity::Warning,
            Severity::Note => diagnostic::Severity::Note,
        };
        // The text has file, line, key and fix in the order that people know from settings.
        Self::new(severity, problem.to_string())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}", file.display())?,
            None => write!(f, "--settings")?,
        }
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        if self.key.is_empty() {
            write!(f, ": {}", self.message)?;
        } else {
            write!(f, ": {}: {}", self.key, self.message)?;
        }
        if let Some(fix) = &self.fix {
            write!(f, " ({fix})")?;
        }
        if self.restriction_lost {
            write!(f, " [a restriction is not in effect until this is fixed]")?;
        }
        Ok(())
    }
}
