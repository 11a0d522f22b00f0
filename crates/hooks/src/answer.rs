//! The answer of one hook, and the outcome of all hooks of an event. Pure functions over text and data.
//!
//! [`parse`] reads one hook's exit code and output; [`of_output`] reads a structured answer; [`merge`]
//! folds many answers into a [`HookOutcome`]. The rule that holds them together: what can't be
//! understood never grants anything. A decision in an unknown word asks; output that is only half
//! JSON is reported and has no other effect.

use crate::sequence;
use lathe_protocol::Extra;
use lathe_protocol::hook::{HookEvent, HookOutput, HookPermissionDecision, HookSpecificOutput};
use lathe_protocol::permission::PermissionReply;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// The decision of a `PreToolUse` hook. Ordered by strength: of several decisions the strongest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HookDecision {
    /// No question is needed. Deny and ask rules and hard safety checks still apply.
    Allow,
    /// The user must be asked.
    Ask,
    /// The run ends here; the host will run the call itself.
    Defer,
    /// The call may not run.
    Deny,
}

impl HookDecision {
    /// The decision's name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Defer => "defer",
            Self::Deny => "deny",
        }
    }
}

/// A decision, why, and whose it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookPermission {
    /// The decision.
    pub decision: HookDecision,
    /// Why.
    pub reason: Option<String>,
    /// The hook.
    pub hook: String,
}

/// The answer of one hook.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct HookAnswer {
    /// The hook, as the user would recognise it.
    pub hook: String,
    /// `PreToolUse`: its decision and why.
    pub permission: Option<(HookDecision, Option<String>)>,
    /// `PreToolUse`: the input to run with instead.
    pub updated_input: Option<Value>,
    /// Text for the model.
    pub additional_context: Option<String>,
    /// An objection and its reason. The effect depends on the event.
    pub block: Option<String>,
    /// The whole turn ends, and why.
    pub stop: Option<String>,
    /// A message for the user.
    pub system_message: Option<String>,
    /// `PermissionRequest`: its answer.
    pub permission_reply: Option<PermissionReply>,
    /// `PostToolUse`: what the model gets instead of the tool's output.
    pub updated_tool_output: Option<Value>,
    /// `PostToolUse` of an MCP tool: the same.
    pub updated_mcp_tool_output: Option<Value>,
    /// A title for the session.
    pub session_title: Option<String>,
    /// `SessionStart`: words to start with.
    pub initial_user_message: Option<String>,
    /// Its output is kept out of the transcript.
    pub suppress_output: bool,
    /// It continues in the background, for at most so many milliseconds.
    pub background: Option<u64>,
    /// A problem with the hook; it is shown to the user, and the turn continues.
    pub warning: Option<String>,
    /// Fields of the event's own answer that this version doesn't know (`watchPaths`, …).
    pub extra: Extra,
}

/// Takes an approval back: the hook saw more than it was written for.
pub(crate) fn withhold_approval(answer: &mut HookAnswer) {
    if matches!(answer.permission, Some((HookDecision::Allow, _))) {
        answer.permission = None;
    }
    if matches!(answer.permission_reply, Some(PermissionReply::Allow { .. })) {
        answer.permission_reply = None;
    }
}

/// How a hook's run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RunOutcome {
    /// It answered.
    Success,
    /// It objected (exit code 2).
    Blocked,
    /// It failed: a bad exit code, a signal, a connection that broke.
    Error,
    /// It took too long and was stopped.
    TimedOut,
    /// The turn was cancelled.
    Cancelled,
    /// It continues in the background.
    Background,
}

impl RunOutcome {
    /// The outcome in the words of the frames: `success`, `error` or `cancelled`.
    #[must_use]
    pub fn wire(self) -> &'static str {
        match self {
            Self::Success | Self::Background => "success",
            Self::Blocked | Self::Error => "error",
            Self::TimedOut | Self::Cancelled => "cancelled",
        }
    }
}

/// One hook's run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookRun {
    /// Names the run.
    pub id: String,
    /// The hook, as the user would recognise it.
    pub hook: String,
    /// Where it comes from.
    pub source: String,
    /// Its exit code, when it was a process that ended by itself.
    pub exit_code: Option<i32>,
    /// Its standard output, bounded.
    pub stdout: String,
    /// Its standard error, bounded.
    pub stderr: String,
    /// How long it took.
    pub duration: Duration,
    /// How it ended.
    pub outcome: RunOutcome,
}

/// The answers of all hooks of an event, merged.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct HookOutcome {
    /// `PreToolUse`: the strongest decision. An `allow` is not a permission: deny and ask rules and
    /// hard safety checks come after it.
    pub permission: Option<HookPermission>,
    /// `PreToolUse`: the input to run with. To be checked again by schema and permissions.
    pub updated_input: Option<Value>,
    /// Text for the model, in the hooks' order.
    pub additional_context: Vec<String>,
    /// An objection and its reason.
    pub block: Option<String>,
    /// The whole turn ends, and why (may be empty).
    pub stop: Option<String>,
    /// Messages for the user.
    pub system_messages: Vec<String>,
    /// Problems with hooks, for the user.
    pub warnings: Vec<String>,
    /// `PermissionRequest`: the answer; a denial beats an approval.
    pub permission_reply: Option<PermissionReply>,
    /// `PostToolUse`: what the model gets instead of the tool's output.
    pub updated_tool_output: Option<Value>,
    /// `PostToolUse` of an MCP tool: the same.
    pub updated_mcp_tool_output: Option<Value>,
    /// A title for the session.
    pub session_title: Option<String>,
    /// `SessionStart`: words to start with.
    pub initial_user_message: Option<String>,
    /// Every hook wants its output kept out of the transcript.
    pub suppress_output: bool,
    /// Further fields of the event's own answers.
    pub extra: Extra,
    /// The runs, in the hooks' order.
    pub runs: Vec<HookRun>,
}

impl HookOutcome {
    /// `SessionStart`: whether hooks put skills or commands in place that are to be found at once.
    #[must_use]
    pub fn reloads_skills(&self) -> bool {
        self.extra.get("reloadSkills") == Some(&Value::Bool(true))
    }

    /// Notifications and titles for the user's terminal.
    pub fn terminal_sequences(&self) -> impl Iterator<Item = &str> {
        let sequences = self.extra.get(TERMINAL_SEQUENCES).and_then(Value::as_array);
        sequences.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Whether a refused prompt is to be left out of the message about it.
    #[must_use]
    pub fn hides_prompt(&self) -> bool {
        self.extra.get("suppressOriginalPrompt") == Some(&Value::Bool(true))
    }

    /// Whether the hooks have no effect.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        Self {
            runs: Vec::new(),
            suppress_output: false,
            ..self.clone()
        } == Self::default()
    }
}

/// Whether exit code 2 and `decision: block` mean something at an event. Elsewhere the thing has
/// already happened, and the text goes to the user.
#[must_use]
pub fn can_block(event: HookEvent) -> bool {
    !matches!(
        event,
        HookEvent::Notification
            | HookEvent::SessionStart
            | HookEvent::SessionEnd
            | HookEvent::Setup
            | HookEvent::SubagentStart
            | HookEvent::StopFailure
            | HookEvent::PostCompact
            | HookEvent::PostModelSwitch
            | HookEvent::PermissionDenied
            | HookEvent::CwdChanged
            | HookEvent::DirectoryAdded
            | HookEvent::FileChanged
            | HookEvent::WorktreeRemove
            | HookEvent::InstructionsLoaded
            | HookEvent::MessageDisplay
    )
}

/// Whether plain text that a hook prints is context for the model.
fn text_is_context(event: HookEvent) -> bool {
    matches!(
        event,
        HookEvent::UserPromptSubmit | HookEvent::UserPromptExpansion | HookEvent::SessionStart
    )
}

/// Reads what a process left: its exit code (`None`: a signal), stdout and stderr.
#[must_use]
pub fn parse(
    event: HookEvent,
    hook: &str,
    exit_code: Option<i32>,
    stdout: &str,
    stderr: &str,
) -> HookAnswer {
    let mut answer = match exit_code {
        Some(0) => of_text(event, stdout),
        Some(2) => {
            let reason = match stderr.trim() {
                "" => format!("the hook {hook} objected without saying why"),
                words => words.to_owned(),
            };
            objection(event, reason)
        }
        Some(code) => warned(format!(
            "the hook {hook} failed with exit code {code}{}",
            first_line(stderr)
        )),
        None => warned(format!(
            "the hook {hook} was ended by a signal{}",
            first_line(stderr)
        )),
    };
    hook.clone_into(&mut answer.hook);
    answer
}

/// An objection, in the form that its event understands.
#[must_use]
pub fn objection(event: HookEvent, reason: String) -> HookAnswer {
    let mut answer = HookAnswer::default();
    match event {
        HookEvent::PreToolUse => answer.permission = Some((HookDecision::Deny, Some(reason))),
        HookEvent::PermissionRequest => {
            answer.permission_reply = Some(PermissionReply::deny(reason));
        }
        event if can_block(event) => answer.block = Some(reason),
        _ => answer.system_message = Some(reason),
    }
    answer
}

/// Reads what a hook printed when all went well.
#[must_use]
pub fn of_text(event: HookEvent, stdout: &str) -> HookAnswer {
    let text = stdout.trim();
    if text.starts_with('{') {
        // A first line of `{"async": true}` may be followed by the answer proper.
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let mut last = None;
        let mut trouble = None;
        for value in &mut values {
            match value {
                Ok(value) => last = Some(value),
                Err(error) => {
                    trouble = Some(error);
                    break;
                }
            }
        }
        return match (last, trouble) {
            (Some(value), None) => of_value(event, value),
            (_, Some(error)) => warned(format!(
                "its output starts like JSON but is invalid: {error}"
            )),
            (None, None) => HookAnswer::default(),
        };
    }
    let mut answer = HookAnswer::default();
    if !text.is_empty() && text_is_context(event) {
        answer.additional_context = Some(text.to_owned());
    }
    answer
}

/// Reads a JSON answer. Fields of the wrong type are reported and ignored; the rest takes effect.
#[must_use]
pub fn of_value(event: HookEvent, value: Value) -> HookAnswer {
    let Value::Object(mut map) = value else {
        return warned("its JSON output is not an object".to_owned());
    };
    let mut odd = Vec::new();
    if let Some(Value::Object(specific)) = map.get_mut("hookSpecificOutput") {
        odd.extend(
            drop_odd::<HookSpecificOutput>(specific)
                .into_iter()
                .map(|key| format!("hookSpecificOutput.{key}")),
        );
    }
    odd.extend(drop_odd::<HookOutput>(&mut map));
    let output = HookOutput::deserialize(Value::Object(map)).unwrap_or_default();
    let mut answer = of_output(event, output);
    if !odd.is_empty() {
        add_warning(
            &mut answer,
            format!("its answer has invalid fields: {}", odd.join(", ")),
        );
    }
    answer
}

/// Takes out of an object the fields that don't fit the type, and names them.
fn drop_odd<T: for<'de> Deserialize<'de>>(map: &mut Extra) -> Vec<String> {
    if T::deserialize(Value::Object(map.clone())).is_ok() {
        return Vec::new();
    }
    let odd: Vec<String> = map
        .iter()
        .filter(|(key, value)| {
            let alone = Extra::from_iter([((*key).clone(), (*value).clone())]);
            T::deserialize(Value::Object(alone)).is_err()
        })
        .map(|(key, _)| key.clone())
        .collect();
    for key in &odd {
        map.shift_remove(key);
    }
    odd
}

/// Reads a structured answer.
#[must_use]
pub fn of_output(event: HookEvent, output: HookOutput) -> HookAnswer {
    let mut answer = match output.decision.as_deref() {
        Some("block" | "deny") => objection(
            event,
            output
                .reason
                .clone()
                .unwrap_or_else(|| "a hook objected without saying why".to_owned()),
        ),
        Some("approve" | "allow") => match event {
            HookEvent::PreToolUse => HookAnswer {
                permission: Some((HookDecision::Allow, output.reason.clone())),
                ..HookAnswer::default()
            },
            HookEvent::PermissionRequest => HookAnswer {
                permission_reply: Some(PermissionReply::allow()),
                ..HookAnswer::default()
            },
            _ => HookAnswer::default(),
        },
        Some(other) => warned(format!(
            "its decision {other:?} is neither approve nor block"
        )),
        None => HookAnswer::default(),
    };
    if output.continue_ == Some(false) {
        answer.stop = Some(output.stop_reason.or(output.reason).unwrap_or_default());
    }
    if output.async_ == Some(true) {
        answer.background = Some(output.async_timeout.unwrap_or(DEFAULT_ASYNC_TIMEOUT_MS));
    }
    answer.suppress_output = output.suppress_output == Some(true);
    answer.system_message = output.system_message.or(answer.system_message);
    let sequence = output
        .terminal_sequence
        .map(|text| sequence::permitted(&text));
    if let Some(specific) = output.hook_specific_output {
        if specific.hook_event_name.is_empty() || specific.hook_event_name == event.name() {
            read_specific(event, specific, &mut answer);
        } else {
            let named = &specific.hook_event_name;
            add_warning(
                &mut answer,
                format!(
                    "its output is for {named}, but the event is {event}; that part is ignored"
                ),
            );
        }
    }
    if let Some(sequence) = sequence.filter(|sequence| !sequence.is_empty()) {
        // A list, so that those of several hooks are joined.
        let sequences = Value::Array(vec![sequence.into()]);
        answer
            .extra
            .insert(TERMINAL_SEQUENCES.to_owned(), sequences);
    }
    answer
}

/// The name of the sequences for the terminal among the further fields of an answer.
const TERMINAL_SEQUENCES: &str = "terminalSequence";

/// The default time limit of a background hook, in milliseconds.
pub const DEFAULT_ASYNC_TIMEOUT_MS: u64 = 600_000;

fn read_specific(event: HookEvent, specific: HookSpecificOutput, answer: &mut HookAnswer) {
    if matches!(event, HookEvent::PreToolUse | HookEvent::PreModelSwitch) {
        let reason = specific.permission_decision_reason;
        match specific.permission_decision.as_deref() {
            Some("allow" | "approve") => answer.permission = Some((HookDecision::Allow, reason)),
            Some("ask") => answer.permission = Some((HookDecision::Ask, reason)),
            Some("deny" | "block") => answer.permission = Some((HookDecision::Deny, reason)),
            Some("defer") => answer.permission = Some((HookDecision::Defer, reason)),
            Some(other) => {
                let reason = format!("a hook gave the unknown decision {other:?}");
                add_warning(answer, format!("{reason}; confirmation is needed"));
                answer.permission = Some((HookDecision::Ask, Some(reason)));
            }
            None => {}
        }
        answer.updated_input = specific.updated_input.filter(Value::is_object);
    }
    if event == HookEvent::PermissionRequest
        && let Some(decision) = specific.decision
    {
        match reply(decision) {
            Ok(reply) => answer.permission_reply = Some(reply),
            Err(warning) => add_warning(answer, warning.to_string()),
        }
    }
    if event == HookEvent::PostToolUse {
        answer.updated_tool_output = specific.updated_tool_output;
        answer.updated_mcp_tool_output = specific.updated_mcp_tool_output;
    }
    answer.additional_context = specific
        .additional_context
        .filter(|text| !text.trim().is_empty());
    answer.session_title = specific.session_title;
    answer.initial_user_message = specific.initial_user_message;
    answer.extra = specific.extra;
}

fn reply(decision: HookPermissionDecision) -> Result<PermissionReply, UnknownBehavior> {
    match decision.behavior.as_str() {
        "allow" => Ok(PermissionReply::Allow {
            updated_input: decision.updated_input.filter(Value::is_object),
            updated_permissions: decision.updated_permissions.unwrap_or_default(),
            extra: Extra::new(),
        }),
        "deny" => Ok(PermissionReply::Deny {
            message: decision.message.unwrap_or_default(),
            interrupt: decision.interrupt.unwrap_or(false),
            extra: Extra::new(),
        }),
        _ => Err(UnknownBehavior(decision.behavior)),
    }
}

/// A decision of a hook that says neither yes nor no.
#[derive(Debug, thiserror::Error)]
#[error("its behavior {0:?} is neither allow nor deny; the question stays open")]
struct UnknownBehavior(String);

/// An answer that is only a warning.
#[must_use]
pub fn warned(warning: String) -> HookAnswer {
    HookAnswer {
        warning: Some(warning),
        ..HookAnswer::default()
    }
}

fn add_warning(answer: &mut HookAnswer, warning: String) {
    answer.warning = Some(match answer.warning.take() {
        Some(before) => format!("{before}; {warning}"),
        None => warning,
    });
}

fn first_line(stderr: &str) -> String {
    stderr
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map_or_else(String::new, |line| {
            let short: String = line.chars().take(300).collect();
            format!(": {short}")
        })
}

/// Folds what several hooks said, in their order, into one. The strictest decision wins; texts add
/// up; of replacements the last one wins.
#[must_use]
pub fn merge(answers: Vec<HookAnswer>) -> HookOutcome {
    let mut outcome = HookOutcome {
        suppress_output: !answers.is_empty(),
        ..HookOutcome::default()
    };
    for answer in answers {
        if let Some((decision, reason)) = answer.permission {
            let voice = HookPermission {
                decision,
                reason,
                hook: answer.hook.clone(),
            };
            outcome.permission = Some(match outcome.permission.take() {
                Some(known) => stronger(known, voice),
                None => voice,
            });
        }
        outcome.updated_input = answer.updated_input.or(outcome.updated_input);
        outcome.additional_context.extend(answer.additional_context);
        outcome.block = joined(outcome.block, answer.block);
        outcome.stop = outcome.stop.or(answer.stop);
        outcome.system_messages.extend(answer.system_message);
        outcome.warnings.extend(answer.warning.map(|warning| {
            if answer.hook.is_empty() || warning.contains(&answer.hook) {
                warning
            } else {
                format!("the hook {}: {warning}", answer.hook)
            }
        }));
        outcome.permission_reply = match (outcome.permission_reply, answer.permission_reply) {
            (Some(known), Some(new)) => Some(stricter(known, new)),
            (known, new) => new.or(known),
        };
        outcome.updated_tool_output = answer.updated_tool_output.or(outcome.updated_tool_output);
        outcome.updated_mcp_tool_output = answer
            .updated_mcp_tool_output
            .or(outcome.updated_mcp_tool_output);
        outcome.session_title = answer.session_title.or(outcome.session_title);
        outcome.initial_user_message =
            joined(outcome.initial_user_message, answer.initial_user_message);
        outcome.suppress_output &= answer.suppress_output;
        for (name, value) in answer.extra {
            // Lists of several hooks (`watchPaths`) are joined.
            match (outcome.extra.get_mut(&name), value) {
                (Some(Value::Array(known)), Value::Array(new)) => known.extend(new),
                (_, value) => {
                    outcome.extra.insert(name, value);
                }
            }
        }
    }
    outcome
}

fn stronger(known: HookPermission, new: HookPermission) -> HookPermission {
    match known.decision.cmp(&new.decision) {
        std::cmp::Ordering::Greater => known,
        std::cmp::Ordering::Less => new,
        std::cmp::Ordering::Equal => HookPermission {
            reason: joined(known.reason, new.reason),
            ..known
        },
    }
}

fn stricter(known: PermissionReply, new: PermissionReply) -> PermissionReply {
    match (known, new) {
        (
            PermissionReply::Deny {
                message: first,
                interrupt: one,
                extra,
            },
            PermissionReply::Deny {
                message: second,
                interrupt: other,
                ..
            },
        ) => PermissionReply::Deny {
            message: joined(Some(first), Some(second)).unwrap_or_default(),
            interrupt: one || other,
            extra,
        },
        (deny @ PermissionReply::Deny { .. }, PermissionReply::Allow { .. })
        | (PermissionReply::Allow { .. }, deny @ PermissionReply::Deny { .. }) => deny,
        (
            PermissionReply::Allow {
                updated_input: first,
                updated_permissions: mut rules,
                extra,
            },
            PermissionReply::Allow {
                updated_input: second,
                updated_permissions: more,
                ..
            },
        ) => {
            rules.extend(more);
            PermissionReply::Allow {
                updated_input: second.or(first),
                updated_permissions: rules,
                extra,
            }
        }
    }
}

fn joined(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) if first.is_empty() || first == second => Some(second),
        (Some(first), Some(second)) if second.is_empty() => Some(first),
        (Some(first), Some(second)) => Some(format!("{first}\n{second}")),
        (first, second) => first.or(second),
    }
}
