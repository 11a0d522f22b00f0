//! Problems in users' files. None of them prevents a start.

use lathe_protocol::diagnostic::{Diagnostic, Severity};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// A problem in the file of an agent, a skill, a command, an output style or a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file, or the flag that takes its place (`--agents`).
    pub file: PathBuf,
    /// The line, from 1, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The key; empty for the whole file.
    pub field: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// True if the whole file is ignored because of it.
    pub fatal: bool,
}

impl Problem {
    /// A problem because of which one field is ignored.
    #[must_use]
    pub fn field(
        file: impl Into<PathBuf>,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            file: file.into(),
            line: None,
            field: field.into(),
            message: message.into(),
            fix: None,
            fatal: false,
        }
    }

    /// A problem because of which the whole file is ignored.
    #[must_use]
    pub fn fatal(file: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self {
            fatal: true,
            ..Self::field(file, String::new(), message)
        }
    }

    #[must_use]
    pub fn at(mut self, line: Option<usize>) -> Self {
        self.line = line;
        self
    }

    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

impl From<&Problem> for Diagnostic {
    fn from(problem: &Problem) -> Self {
        let text = if problem.field.is_empty() {
            problem.message.clone()
        } else {
            format!("{}: {}", problem.field, problem.message)
        };
        let severity = if problem.fatal {
            Severity::Error
        } else {
            Severity::Warning
        };
        let mut diagnostic = Self::new(severity, text)
            .about(problem.file.display())
            .line(problem.line);
        diagnostic.hint.clone_from(&problem.fix);
        diagnostic
    }
}

impl std::error::Error for Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Diagnostic::from(self).fmt(f)
    }
}
