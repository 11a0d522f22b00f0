//! Implementation of `lathe permissions list|add|remove|explain|test`. Everything here returns text; the binary
//! prints it.

use crate::context::{CallFacts, PermissionContext, resolve};
use crate::rule::{RuleError, parse_rule};
use crate::ruleset::{Rule, RuleProblem, RuleSet};
use crate::shell::{CommandVerdict, judge};
use lathe_protocol::permission::{
    Behavior, Decision, DecisionReason, PermissionMode, PermissionUpdate, RuleSource, Subject,
    UnknownMode,
};
use lathe_settings::load::Resolved;
use lathe_settings::paths::Places;
use lathe_settings::write::{WriteError, save_update};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Plain,
    /// For people, in colour.
    Colour,
    /// For programs.
    Json,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// `--rule` without a behaviour.
    #[error("`{0}` is not a rule with its effect; write allow:Bash(git status:*), ask:… or deny:…")]
    NoBehavior(String),
    /// Not a rule.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// Not a mode.
    #[error(transparent)]
    Mode(#[from] UnknownMode),
    /// The change was not written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A place that is never written.
    #[error("rules can be saved in user, project or local settings")]
    NotWritable,
    /// A line of expectations that is none.
    #[error("line {line}: {problem}")]
    Expectation {
        /// The line, from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
}

/// Adds a rule as `--rule` gives it: `allow:Bash(git status:*)`.
///
/// # Errors
/// When it names no behaviour or is no rule.
pub fn add_rule(context: &mut PermissionContext, text: &str) -> Result<(), CliError> {
    let (behavior, rule) =
        split_behavior(text).ok_or_else(|| CliError::NoBehavior(text.to_owned()))?;
    let anchors = context.anchors(RuleSource::CliArg);
    let rule = Rule::new(parse_rule(rule)?, behavior, RuleSource::CliArg, &anchors)?;
    context.rules.add(rule);
    Ok(())
}

fn split_behavior(text: &str) -> Option<(Behavior, &str)> {
    let (word, rule) = text.split_once(':')?;
    let behavior = match word.trim() {
        "allow" => Behavior::Allow,
        "ask" => Behavior::Ask,
        "deny" => Behavior::Deny,
        _ => return None,
    };
    Some((behavior, rule))
}

// ---- explain ----------------------------------------------------------------------------------

/// The decision about a command, with the reasons.
#[derive(Debug, Clone)]
pub struct Explanation {
    verdict: CommandVerdict,
    decided_by: DecidedBy,
    /// Whether the kernel confines the command to reading.
    confined: bool,
    /// Allow rules that the mode suspends.
    set_aside: Vec<String>,
}

/// The basis of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecidedBy {
    /// A rule.
    Rule,
    /// The permission mode.
    Mode,
    /// A safety check: a protected file, a secret, a vital removal, an effect that can't be known.
    SafetyCheck,
    /// Nobody trusted the folder; in a trusted one the decision is another.
    Trust,
    /// The analysis of the command and of the files that it names.
    Analysis,
}

impl DecidedBy {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Mode => "mode",
            Self::SafetyCheck => "safety check",
            Self::Trust => "trust",
            Self::Analysis => "analysis",
        }
    }
}

/// A context in a mode, as a session enters it, with the rules that the mode suspends.
#[must_use]
pub fn in_mode(
    context: PermissionContext,
    mode: PermissionMode,
) -> (PermissionContext, Vec<String>) {
    let (context, set_aside) = crate::live::entered(context, mode);
    let texts = set_aside.iter().map(Rule::text).collect();
    (context, texts)
}

/// Explains a command: the same code as a session's, on the same context.
#[must_use]
pub fn explain(command: &str, context: &PermissionContext) -> Explanation {
    let subject = Subject::Shell {
        command: command.to_owned(),
        cwd: context.cwd.clone(),
        unsandboxed: false,
    };
    let input = json!({ "command": command });
    let call = CallFacts {
        tool_name: "Bash",
        aliases: &[],
        input: &input,
        subject: &subject,
        read_only: false,
        resolved: resolve(&subject, context),
    };
    let verdict = judge(&call, command, &context.cwd, false, context);
    let confined = crate::confinement(&call, &verdict.decision, context).is_some();
    let decided_by = match reason_of(&verdict.decision) {
        DecisionReason::Rule { .. } => DecidedBy::Rule,
        DecisionReason::Mode { .. } => DecidedBy::Mode,
        DecisionReason::SafetyCheck { .. } => DecidedBy::SafetyCheck,
        reason if !context.trusted && !matches!(verdict.decision, Decision::Allow { .. }) => {
            let mut trusted = context.clone();
            trusted.trusted = true;
            let call = CallFacts {
                resolved: resolve(&subject, &trusted),
                ..call.clone()
            };
            let there = judge(&call, command, &context.cwd, false, &trusted);
            if reason_of(&there.decision) == reason {
                DecidedBy::Analysis
            } else {
                DecidedBy::Trust
            }
        }
        _ => DecidedBy::Analysis,
    };
    Explanation {
        verdict,
        decided_by,
        confined,
        set_aside: Vec::new(),
    }
}

impl Explanation {
    /// The decision.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.verdict.decision
    }

    /// Adds the rules that the mode suspends.
    #[must_use]
    pub fn with_set_aside(mut self, rules: Vec<String>) -> Self {
        self.set_aside = rules;
        self
    }

    /// The basis of the decision.
    #[must_use]
    pub fn decided_by(&self) -> DecidedBy {
        self.decided_by
    }

    /// `allow`, `ask` or `deny`.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        word_of(&self.verdict.decision)
    }

    /// Whether the command was understood and only reads.
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.verdict.analysis.read_only
    }

    /// As one JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let suggestions = match &self.verdict.decision {
            Decision::Ask { suggestions, .. } => suggestions.as_slice(),
            Decision::Allow { .. } | Decision::Deny { .. } => &[],
        };
        let parts: Vec<Value> = self
            .verdict
            .parts
            .iter()
            .map(|part| {
                json!({
                    "text": part.text,
                    "verdict": word_of(&part.decision),
                    "reason": reason_of(&part.decision).text(),
                })
            })
            .collect();
        json!({
            "verdict": self.verdict(),
            "readOnly": self.verdict.analysis.read_only,
            "understood": self.verdict.analysis.understood.is_ok(),
            "reason": reason_of(&self.verdict.decision).text(),
            "decidedBy": self.decided_by.word(),
            "confined": self.confined,
            "setAside": self.set_aside,
            "parts": parts,
            "suggestions": suggestions,
        })
    }

    /// For people.
    #[must_use]
    pub fn to_text(&self, colour: bool) -> String {
        let paint = Paint(colour);
        let mut text = String::new();
        let parts = &self.verdict.parts;
        let widest = parts
            .iter()
            .map(|part| shown(&part.text).chars().count())
            .max()
            .unwrap_or(0);
        for part in parts {
            let shown = shown(&part.text);
            let gap = " ".repeat(widest - shown.chars().count());
            let _ = writeln!(
                text,
                "  {}  {shown}{gap}  {}",
                paint.verdict(&part.decision),
                paint.faint(&reason_of(&part.decision).text())
            );
        }
        if let Err(problem) = &self.verdict.analysis.understood {
            let _ = writeln!(
                text,
                "  {}",
                paint.faint(&format!("not understood: {problem}"))
            );
        }
        let note = match &self.verdict.decision {
            Decision::Ask {
                hard: true,
                suggestions,
                ..
            } if suggestions.is_empty() => " (in every mode, under any rule)",
            Decision::Ask { hard: true, .. } => {
                " (in every mode, unless a rule spells out this command)"
            }
            _ => "",
        };
        let _ = writeln!(
            text,
            "{}{note}: {}",
            paint.word(&self.verdict.decision, word_of(&self.verdict.decision)),
            reason_of(&self.verdict.decision).text()
        );
        if let Decision::Ask { suggestions, .. } = &self.verdict.decision {
            for update in suggestions {
                let _ = writeln!(text, "  from now on: {}", update_words(update));
            }
        }
        let kernel = if !self.confined {
            ""
        } else if lathe_sandbox::support().confines_reads() {
            "; the kernel confines it to reading"
        } else {
            "; this kernel can't confine it to reading"
        };
        let _ = writeln!(text, "  decided by: {}{kernel}", self.decided_by.word());
        for rule in &self.set_aside {
            let _ = writeln!(text, "  suspended in this mode: {rule}");
        }
        text
    }
}

fn word_of(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow { .. } => "allow",
        Decision::Ask { .. } => "ask",
        Decision::Deny { .. } => "deny",
    }
}

fn reason_of(decision: &Decision) -> &DecisionReason {
    match decision {
        Decision::Allow { reason } | Decision::Ask { reason, .. } | Decision::Deny { reason } => {
            reason
        }
    }
}

/// A part's text in one bounded line.
fn shown(text: &str) -> String {
    const WIDEST: usize = 60;
    let line: String = text
        .chars()
        .map(|character| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        })
        .collect();
    if line.chars().count() <= WIDEST {
        return line;
    }
    line.chars().take(WIDEST - 1).chain(['…']).collect()
}

/// A change in words.
#[must_use]
pub fn update_words(update: &PermissionUpdate) -> String {
    let rules = |rules: &[lathe_protocol::permission::RuleValue]| {
        rules
            .iter()
            .map(crate::rule::format_rule)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let folders = |folders: &[std::path::PathBuf]| {
        folders
            .iter()
            .map(|folder| folder.display().to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (what, destination) = match update {
        PermissionUpdate::AddRules {
            rules: list,
            behavior,
            destination,
        } => (
            format!("{} {}", behavior_word(*behavior), rules(list)),
            destination,
        ),
        PermissionUpdate::ReplaceRules {
            rules: list,
            behavior,
            destination,
        } => (
            format!("{} only {}", behavior_word(*behavior), rules(list)),
            destination,
        ),
        PermissionUpdate::RemoveRules {
            rules: list,
            behavior,
            destination,
        } => (
            format!("no longer {} {}", behavior_word(*behavior), rules(list)),
            destination,
        ),
        PermissionUpdate::SetMode { mode, destination } => {
            (format!("permission mode {mode}"), destination)
        }
        PermissionUpdate::AddDirectories {
            directories,
            destination,
        } => (format!("work in {}", folders(directories)), destination),
        PermissionUpdate::RemoveDirectories {
            directories,
            destination,
        } => (
            format!("no longer work in {}", folders(directories)),
            destination,
        ),
    };
    format!("{what} ({})", source_word(*destination))
}

fn behavior_word(behavior: Behavior) -> &'static str {
    match behavior {
        Behavior::Allow => "allow",
        Behavior::Ask => "ask",
        Behavior::Deny => "deny",
    }
}

/// Where a rule comes from, in words.
#[must_use]
pub fn source_word(source: RuleSource) -> &'static str {
    match source {
        RuleSource::PolicySettings => "managed policy",
        RuleSource::FlagSettings => "--settings",
        RuleSource::UserSettings => "user settings",
        RuleSource::ProjectSettings => "project settings",
        RuleSource::LocalSettings => "local settings",
        RuleSource::CliArg => "command line",
        RuleSource::Command => "command",
        RuleSource::Session => "this session",
    }
}

struct Paint(bool);

impl Paint {
    fn verdict(&self, decision: &Decision) -> String {
        self.word(decision, &format!("{:<5}", word_of(decision)))
    }

    fn word(&self, decision: &Decision, word: &str) -> String {
        let colour = match decision {
            Decision::Allow { .. } => "32",
            Decision::Ask { .. } => "33",
            Decision::Deny { .. } => "31",
        };
        if self.0 {
            format!("\u{1b}[{colour}m{word}\u{1b}[0m")
        } else {
            word.to_owned()
        }
    }

    fn faint(&self, text: &str) -> String {
        if self.0 {
            format!("\u{1b}[2m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

// ---- list, add, remove ------------------------------------------------------------------------

/// `permissions list`: every effective rule with its source, and the rules without effect.
#[must_use]
pub fn list(
    settings: &Resolved,
    rules: &RuleSet,
    problems: &[RuleProblem],
    format: Format,
) -> String {
    let sourced = settings.rules();
    let place = |rule: &Rule| {
        let text = rule.text();
        sourced
            .iter()
            .find(|known| {
                known.source == rule.source
                    && known.behavior == rule.behavior
                    && parse_rule(&known.rule)
                        .is_ok_and(|value| crate::rule::format_rule(&value) == text)
            })
            .and_then(|known| {
                let file = known.file.as_ref()?.display().to_string();
                Some(known.position.map_or_else(
                    || file.clone(),
                    |position| format!("{file}:{}", position.line),
                ))
            })
    };
    if format == Format::Json {
        let entries: Vec<Value> = rules
            .iter()
            .map(|rule| json!({"behavior": rule.behavior, "rule": rule.text(), "source": rule.source, "place": place(rule)}))
            .collect();
        let broken: Vec<Value> = problems
            .iter()
            .map(|problem| json!({"behavior": problem.behavior, "rule": problem.rule, "place": problem.place, "error": problem.error.to_string()}))
            .collect();
        return json!({"rules": entries, "problems": broken}).to_string() + "\n";
    }
    let mut text = String::new();
    for (behavior, heading) in [
        (Behavior::Deny, "Denied"),
        (Behavior::Ask, "Asked about"),
        (Behavior::Allow, "Allowed"),
    ] {
        let mut entries: Vec<(String, String)> = rules
            .with(behavior)
            .map(|rule| {
                let from = place(rule).map_or_else(String::new, |place| format!(", {place}"));
                (rule.text(), format!("{}{from}", source_word(rule.source)))
            })
            .collect();
        entries.sort();
        if entries.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{heading}:");
        let widest = entries
            .iter()
            .map(|(rule, _)| rule.chars().count())
            .max()
            .unwrap_or(0);
        for (rule, from) in entries {
            let gap = " ".repeat(widest - rule.chars().count());
            let _ = writeln!(
                text,
                "  {rule}{gap}  {}",
                Paint(format == Format::Colour).faint(&from)
            );
        }
    }
    if text.is_empty() {
        text.push_str(
            "No rules. Reads inside the working folder are allowed, everything else needs confirmation.\n",
        );
    }
    for problem in problems {
        let _ = writeln!(text, "not counted: {problem}");
    }
    text
}

/// `permissions add`: saves a rule.
///
/// # Errors
/// When it is no rule, or the file can't be written.
pub fn add(
    places: &Places,
    behavior: Behavior,
    rule: &str,
    destination: RuleSource,
) -> Result<String, CliError> {
    let value = parse_rule(rule)?;
    // Compiled only to hold its content to what the tool's rules can have.
    let home = places.environment.home.clone().unwrap_or_default();
    let context = PermissionContext::new(&places.environment.cwd, &home, &places.config_home);
    Rule::new(
        value.clone(),
        behavior,
        destination,
        &context.anchors(destination),
    )?;
    let update = PermissionUpdate::AddRules {
        rules: vec![value.clone()],
        behavior,
        destination,
    };
    save(
        places,
        &update,
        &crate::rule::format_rule(&value),
        "added to",
        "already in",
    )
}

/// `permissions remove`: takes a rule out of a file.
///
/// # Errors
/// When the file can't be written.
pub fn remove(
    places: &Places,
    behavior: Behavior,
    rule: &str,
    destination: RuleSource,
) -> Result<String, CliError> {
    let value = parse_rule(rule)?;
    let update = PermissionUpdate::RemoveRules {
        rules: vec![value.clone()],
        behavior,
        destination,
    };
    save(
        places,
        &update,
        &crate::rule::format_rule(&value),
        "removed from",
        "not in",
    )
}

fn save(
    places: &Places,
    update: &PermissionUpdate,
    rule: &str,
    done: &str,
    nothing: &str,
) -> Result<String, CliError> {
    let written = save_update(places, update, None)?.ok_or(CliError::NotWritable)?;
    let verb = if written.changed { done } else { nothing };
    Ok(format!("{rule} {verb} {}\n", written.file.display()))
}

// ---- test -------------------------------------------------------------------------------------

/// The result of a file of expectations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestReport {
    /// How many expectations there were.
    pub total: usize,
    /// Unmet expectations, as text.
    pub differences: Vec<String>,
}

impl TestReport {
    /// The report for people.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for difference in &self.differences {
            let _ = writeln!(text, "{difference}");
        }
        let _ = writeln!(
            text,
            "{} of {} as expected",
            self.total - self.differences.len(),
            self.total
        );
        text
    }
}

/// `permissions test <file>`: checks expectations, one a line: `allow|ask|deny`, a tab or blanks, the
/// command (a JSON string if it has several lines). `mode: …` and `rule: allow:…` hold for the lines
/// after them, `#` starts a comment.
///
/// # Errors
/// When a line is not an expectation.
pub fn test(text: &str, context: &PermissionContext) -> Result<TestReport, CliError> {
    let mut context = context.clone();
    let mut report = TestReport {
        total: 0,
        differences: Vec::new(),
    };
    for (index, line) in text.lines().enumerate() {
        let wrong = |problem: String| CliError::Expectation {
            line: index + 1,
            problem,
        };
        let line = line.trim_end();
        if line.trim_start().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        if let Some(mode) = line.strip_prefix("mode:") {
            context.mode = mode
                .trim()
                .parse::<PermissionMode>()
                .map_err(|error| wrong(error.to_string()))?;
            continue;
        }
        if let Some(rule) = line.strip_prefix("rule:") {
            add_rule(&mut context, rule.trim()).map_err(|error| wrong(error.to_string()))?;
            continue;
        }
        let (wanted, command) = line
            .split_once(char::is_whitespace)
            .filter(|(wanted, _)| matches!(*wanted, "allow" | "ask" | "deny"))
            .ok_or_else(|| {
                wrong(
                    "expected allow, ask or deny and a command, `mode: …` or `rule: …`".to_owned(),
                )
            })?;
        let command = command.trim_start();
        let command =
            serde_json::from_str::<String>(command).unwrap_or_else(|_| command.to_owned());
        let explanation = explain(&command, &context);
        report.total += 1;
        if explanation.verdict() != wanted {
            report.differences.push(format!(
                "line {}: expected {wanted}, got {}: {} ({})",
                index + 1,
                explanation.verdict(),
                shown(&command),
                reason_of(explanation.decision()).text()
            ));
        }
    }
    Ok(report)
}
