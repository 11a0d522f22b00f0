//! Diagnostics: remarks, notices, problems and warnings as values.
//!
//! Reading settings, hooks, extensions and servers never fails as a whole: what is wrong with one entry
//! is a [`Diagnostic`], the entry is skipped, and the rest takes effect. A crate that checks something
//! returns `Vec<Diagnostic>` (or converts its own richer type with `From`); faces print them with
//! [`Display`](fmt::Display) and pick a colour by [`Severity`].

use serde::{Deserialize, Serialize};
use std::fmt;

/// How severe a diagnostic is. Ordered: an error is greater than a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information; nothing needs to be done.
    Note,
    /// Probably a mistake, but everything takes effect.
    Warning,
    /// Something has no effect or failed.
    Error,
}

impl Severity {
    /// `note`, `warning` or `error`, as it is printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One remark for the user. It never stops anything by itself.
///
/// Printed as `about:line: text (hint)`. Build one with [`Diagnostic::warning`] and friends:
///
/// ```
/// use lathe_protocol::diagnostic::Diagnostic;
///
/// let diagnostic = Diagnostic::error("unknown hook event \"PreTool\"")
///     .about("settings.json")
///     .line(7)
///     .hint("did you mean PreToolUse?");
/// assert_eq!(
///     diagnostic.to_string(),
///     "settings.json:7: unknown hook event \"PreTool\" (did you mean PreToolUse?)"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How severe it is.
    pub severity: Severity,
    /// The file, flag, setting or server it concerns; `None` if the text says so itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub about: Option<String>,
    /// The line in that file, from 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<usize>,
    /// The problem, in one sentence.
    pub text: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<String>,
}

impl Diagnostic {
    /// A diagnostic without place and hint.
    #[must_use]
    pub fn new(severity: Severity, text: impl Into<String>) -> Self {
        Self {
            severity,
            about: None,
            line: None,
            text: text.into(),
            hint: None,
        }
    }

    /// Information; nothing needs to be done.
    #[must_use]
    pub fn note(text: impl Into<String>) -> Self {
        Self::new(Severity::Note, text)
    }

    /// Probably a mistake, but everything takes effect.
    #[must_use]
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, text)
    }

    /// Something has no effect or failed.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self::new(Severity::Error, text)
    }

    /// Names the file, flag, setting or server it concerns.
    #[must_use]
    pub fn about(mut self, about: impl fmt::Display) -> Self {
        self.about = Some(about.to_string());
        self
    }

    /// Adds the line, from 1. Accepts a number or an `Option` of one.
    #[must_use]
    pub fn line(mut self, line: impl Into<Option<usize>>) -> Self {
        self.line = line.into();
        self
    }

    /// Says what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(about) = &self.about {
            write!(f, "{about}")?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{}", self.text)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_parts_leave_no_punctuation_behind() {
        assert_eq!(Diagnostic::note("all fine").to_string(), "all fine");
        let about = Diagnostic::warning("is old").about("x.json");
        assert_eq!(about.to_string(), "x.json: is old");
        assert_eq!(
            about.hint("update it").to_string(),
            "x.json: is old (update it)"
        );
    }

    #[test]
    fn errors_sort_above_warnings_and_notes() {
        assert!(Severity::Error > Severity::Warning && Severity::Warning > Severity::Note);
    }
}
