//! ReportFindings: the result of a code review, in a form that programs read.

use crate::context::{CallContext, ToolContext};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;

/// The tool's name.
pub const NAME: &str = "ReportFindings";
/// Findings of one report.
pub const MOST_FINDINGS: usize = 32;

/// Findings that were reported, for who waits for them; `None` until they were.
pub type Reported = Arc<Mutex<Option<Vec<Finding>>>>;

/// Reports the findings of a review.
#[derive(Default)]
pub struct ReportFindings {
    /// Takes what is reported.
    pub reported: Option<Reported>,
}

/// A report.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Input {
    /// How thorough the review was.
    #[serde(default)]
    pub level: Option<Level>,
    /// Most severe first.
    pub findings: Vec<Finding>,
}

/// How thorough a review is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names of the interface")]
pub enum Level {
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Relative to the repository.
    pub file: String,
    /// Counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// One sentence on the defect.
    pub summary: String,
    /// At most 60 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_summary: Option<String>,
    /// Input or state, and the wrong result.
    pub failure_scenario: String,
    /// Such as correctness, security, efficiency, simplification, test-coverage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Only after verification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Only after fixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// The result of verifying a finding.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// It was shown to be so.
    Confirmed,
    /// It could not be refuted.
    Plausible,
}

/// The fate of a finding after fixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is gone.
    Fixed,
    /// It is still there.
    Skipped,
    /// It was none.
    NoChangeNeeded,
}

impl Outcome {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Skipped => "not fixed",
            Self::NoChangeNeeded => "no change needed",
        }
    }
}

impl Finding {
    /// The place, as editors and terminals link it.
    #[must_use]
    pub fn place(&self) -> String {
        match self.line {
            Some(line) => format!("{}:{line}", self.file),
            None => self.file.clone(),
        }
    }
}

/// Findings as text, for people and for the model.
#[must_use]
pub fn text_of(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "No findings.".to_owned();
    }
    let mut text = String::new();
    for (number, finding) in findings.iter().enumerate() {
        let mut marks = Vec::new();
        marks.extend(finding.category.clone());
        marks.extend(finding.verdict.map(|verdict| match verdict {
            Verdict::Confirmed => "confirmed".to_owned(),
            Verdict::Plausible => "plausible".to_owned(),
        }));
        marks.extend(finding.outcome.map(|outcome| outcome.words().to_owned()));
        let marks = match marks.as_slice() {
            [] => String::new(),
            marks => format!(" ({})", marks.join(", ")),
        };
        let _ = writeln!(text, "{}. {}{marks}", number + 1, finding.place());
        let _ = writeln!(text, "   {}", finding.summary.trim());
        let _ = writeln!(text, "   {}", finding.failure_scenario.trim());
    }
    text.truncate(text.trim_end().len());
    text
}

impl Tool for ReportFindings {
    type Input = Input;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &str {
        include_str!("report_findings.md")
    }

    /// Who has it to take the report needs it at once.
    fn deferred(&self) -> bool {
        self.reported.is_none()
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits {
            concurrency_safe: false,
            ..CallTraits::READS
        }
    }

    fn subject(&self, _input: &Input, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, _input: &Input) -> String {
        "Reporting findings".to_owned()
    }

    async fn validate(&self, input: &Input, _context: &ToolContext) -> Result<(), ToolError> {
        if input.findings.len() > MOST_FINDINGS {
            return Err(ToolError::invalid(format!(
                "A report has at most {MOST_FINDINGS} findings: keep the most severe ones."
            )));
        }
        if let Some(finding) = input.findings.iter().find(|it| it.line == Some(0)) {
            return Err(ToolError::invalid(format!(
                "{}: lines start at 1.",
                finding.file
            )));
        }
        Ok(())
    }

    async fn call(&self, input: Input, _context: CallContext) -> Result<ToolOutput, ToolError> {
        let count = input.findings.len();
        let structured = json!({"count": count, "level": input.level, "findings": input.findings});
        let display = Display::Text {
            text: text_of(&input.findings),
        };
        if let Some(reported) = &self.reported {
            *reported.lock() = Some(input.findings);
        }
        let words = match count {
            1 => "1 finding is reported.".to_owned(),
            count => format!("{count} findings are reported."),
        };
        Ok(ToolOutput::new(words, structured, display))
    }
}
