//! `lathe hooks`. Everything here returns text; the binary prints it.

use crate::answer::HookOutcome;
use crate::registry::{HookRegistry, kind_name};
use crate::run::{RunContext, matched_value};
use lathe_protocol::hook::{HookEvent, HookInput};
use lathe_settings::cli::Format;
use lathe_settings::nearest::nearest;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// There is no such event.
    #[error("unknown hook event '{word}'{hint}; `lathe hooks list --events` names all")]
    Event {
        /// The word.
        word: String,
        /// A suggestion.
        hint: String,
    },
    /// The input is not usable.
    #[error(
        "the input {0}; give a JSON object such as {{\"tool_name\": \"Bash\", \"tool_input\": {{\"command\": \"ls\"}}}}"
    )]
    Input(String),
}

/// `hooks list`: every hook with its source, and whether it runs.
#[must_use]
pub fn list(registry: &HookRegistry, format: Format) -> String {
    let hooks = registry.list();
    if format == Format::Json {
        return pretty(&serde_json::to_value(&hooks).unwrap_or_default());
    }
    let mut text = String::new();
    let mut event = None;
    for hook in &hooks {
        if event != Some(hook.event) {
            event = Some(hook.event);
            let _ = writeln!(text, "{} — {}", hook.event, hook.event.description());
        }
        let matcher = hook
            .matcher
            .as_deref()
            .filter(|matcher| !matcher.is_empty())
            .unwrap_or("*");
        let _ = write!(
            text,
            "  {matcher:<12} {:<9} {}",
            kind_name(hook.kind),
            hook.hook
        );
        if let Some(condition) = &hook.condition {
            let _ = write!(text, "  if {condition}");
        }
        let _ = write!(text, "  ({}", hook.source);
        if let Some(off) = &hook.off {
            let _ = write!(text, "; off: {off}");
        }
        text.push_str(")\n");
    }
    if hooks.is_empty() {
        text.push_str("no hooks are configured\n");
    }
    for problem in registry.problems() {
        let _ = writeln!(text, "warning: {problem}");
    }
    text
}

/// `hooks list --events`: every event with what its matchers are compared with.
#[must_use]
pub fn events() -> String {
    HookEvent::ALL
        .iter()
        .fold(String::new(), |mut text, event| {
            let matched = event
                .matched_field()
                .map_or_else(String::new, |field| format!(" Matched: {field}."));
            let _ = writeln!(
                text,
                "{:<20} {}{matched}",
                event.name(),
                event.description()
            );
            text
        })
}

/// The event that a word names.
///
/// # Errors
/// When it names none.
pub fn event(word: &str) -> Result<HookEvent, CliError> {
    word.parse().map_err(|_| CliError::Event {
        word: word.to_owned(),
        hint: nearest(word, HookEvent::ALL.iter().map(|event| event.name()))
            .map_or_else(String::new, |near| format!(" (did you mean {near}?)")),
    })
}

/// The input for a trial: the given fields, with defaults for the common ones.
///
/// # Errors
/// When the text is not a JSON object with fitting fields.
pub fn trial_input(event: HookEvent, text: &str, cwd: &Path) -> Result<HookInput, CliError> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let mut value: Value = serde_json::from_str(text)
        .map_err(|error| CliError::Input(format!("is not JSON: {error}")))?;
    let Some(fields) = value.as_object_mut() else {
        return Err(CliError::Input("is not an object".to_owned()));
    };
    for (name, default) in [
        ("session_id", json!("trial")),
        ("transcript_path", json!("")),
        ("cwd", json!(cwd)),
        ("permission_mode", json!("default")),
    ] {
        fields.entry(name).or_insert(default);
    }
    fields.insert("hook_event_name".to_owned(), event.name().into());
    serde_json::from_value(value).map_err(|error| CliError::Input(format!("doesn't fit: {error}")))
}

/// `hooks test <event>`: runs the hooks once and prints their effects.
pub async fn test(
    registry: &HookRegistry,
    input: &HookInput,
    context: &RunContext,
    format: Format,
) -> String {
    let outcome = registry.run(input, context).await;
    if format == Format::Json {
        return pretty(&serde_json::to_value(&outcome).unwrap_or_default());
    }
    let mut text = String::new();
    let value = matched_value(input).map_or_else(String::new, |value| format!(" for {value}"));
    let _ = writeln!(
        text,
        "{}{value}: {} of {} hooks ran",
        input.hook_event_name,
        outcome.runs.len(),
        registry.list().len()
    );
    for run in &outcome.runs {
        let code = run
            .exit_code
            .map_or_else(String::new, |code| format!(", exit code {code}"));
        let _ = writeln!(text, "\n{} ({})", run.hook, run.source);
        let _ = writeln!(text, "  {:?} after {:.2?}{code}", run.outcome, run.duration);
        for (name, output) in [("stdout", &run.stdout), ("stderr", &run.stderr)] {
            for line in output.lines().take(20) {
                let line: String = line
                    .chars()
                    .filter(|character| !character.is_control())
                    .take(200)
                    .collect();
                let _ = writeln!(text, "  {name}: {line}");
            }
        }
    }
    text.push('\n');
    text.push_str(&effects(&outcome));
    text
}

/// The effects of an outcome, one per line.
#[must_use]
pub fn effects(outcome: &HookOutcome) -> String {
    let mut lines = Vec::new();
    if let Some(voice) = &outcome.permission {
        let reason = voice
            .reason
            .as_deref()
            .map_or_else(String::new, |reason| format!(": {reason}"));
        lines.push(format!(
            "decides {}{reason} ({})",
            voice.decision.name(),
            voice.hook
        ));
    }
    if let Some(reply) = &outcome.permission_reply {
        lines.push(format!(
            "answers {}",
            serde_json::to_value(reply).unwrap_or_default()
        ));
    }
    let mut say = |what: &str, text: Option<String>| {
        lines.extend(text.map(|text| format!("{what}: {text}")));
    };
    say(
        "changes the input to",
        outcome.updated_input.as_ref().map(Value::to_string),
    );
    say("blocks", outcome.block.clone());
    say("stops the turn", outcome.stop.clone());
    say(
        "replaces the output with",
        outcome.updated_tool_output.as_ref().map(Value::to_string),
    );
    say(
        "replaces the output with",
        outcome
            .updated_mcp_tool_output
            .as_ref()
            .map(Value::to_string),
    );
    say("names the session", outcome.session_title.clone());
    say("starts with", outcome.initial_user_message.clone());
    for context in &outcome.additional_context {
        say("tells the model", Some(context.clone()));
    }
    for message in &outcome.system_messages {
        say("tells you", Some(message.clone()));
    }
    for warning in &outcome.warnings {
        say("warning", Some(warning.clone()));
    }
    if lines.is_empty() {
        lines.push("nothing: the hooks have no objection and nothing to add".to_owned());
    }
    lines
        .iter()
        .fold(String::new(), |text, line| text + line + "\n")
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
