//! Hooks: the input of a user-defined check and the output that it may give.

use crate::Extra;
use crate::permission::PermissionUpdate;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

macro_rules! hook_events {
    ($($name:ident: $matched:expr, $doc:literal;)*) => {
        /// A moment at which hooks run.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
        pub enum HookEvent {
            $(#[doc = $doc] $name,)*
        }

        impl HookEvent {
            /// Every event.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The event's name in settings and on the wire.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// When it happens, in a sentence.
            #[must_use]
            pub fn description(self) -> &'static str {
                match self { $(Self::$name => $doc,)* }
            }

            /// The input field that a matcher is compared with, if the event has one.
            #[must_use]
            pub fn matched_field(self) -> Option<&'static str> {
                match self { $(Self::$name => $matched,)* }
            }
        }
    };
}

hook_events! {
    PreToolUse: Some("tool_name"), "Before a tool call, after its input was checked.";
    PostToolUse: Some("tool_name"), "After a tool call that succeeded.";
    PostToolUseFailure: Some("tool_name"), "After a tool call that failed.";
    PostToolBatch: None, "After all calls of one model response.";
    PermissionRequest: Some("tool_name"), "When a permission question would be shown.";
    PermissionDenied: Some("tool_name"), "When a call was refused.";
    UserPromptSubmit: None, "When a prompt was submitted, before the model sees it.";
    UserPromptExpansion: Some("command_name"), "When a slash command was expanded into a prompt.";
    Notification: Some("notification_type"), "When the user gets a notification.";
    Stop: None, "When the model has finished its turn.";
    StopFailure: Some("error"), "When a turn ended in an error.";
    SubagentStart: Some("agent_type"), "When a sub-agent starts.";
    SubagentStop: Some("agent_type"), "When a sub-agent has finished.";
    SessionStart: Some("source"), "When a session starts, resumes, was cleared or compacted.";
    SessionEnd: Some("reason"), "When a session ends.";
    Setup: Some("trigger"), "When a workspace is prepared.";
    PreCompact: Some("trigger"), "Before the conversation is compacted.";
    PostCompact: Some("trigger"), "After the conversation was compacted.";
    PreModelSwitch: Some("to_model"), "Before the user or a host switches the model.";
    PostModelSwitch: Some("to_model"), "After the model was switched by the user, a host or a fallback.";
    TaskCreated: None, "When a task was added to the task list.";
    TaskUpdated: None, "Before a task of the task list changes; a hook may refuse the change.";
    TaskCompleted: None, "When a task of the task list was completed.";
    TeammateIdle: Some("teammate_name"), "When a member of a team is about to go idle; a hook may have it continue.";
    Elicitation: Some("mcp_server_name"), "When an MCP server asks the user a question.";
    ElicitationResult: Some("mcp_server_name"), "When the user has answered an MCP server.";
    ConfigChange: Some("source"), "When settings changed while running.";
    CwdChanged: None, "When the working folder changed.";
    DirectoryAdded: None, "When a working root was added.";
    FileChanged: None, "When a watched file changed.";
    WorktreeCreate: None, "Before a worktree is made for a session or an agent; a hook may make it.";
    WorktreeRemove: None, "When a git worktree is removed.";
    InstructionsLoaded: Some("load_reason"), "When an instruction file was loaded.";
    MessageDisplay: None, "When a message of the model is shown.";
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no hook event.
#[derive(Debug, thiserror::Error)]
#[error("unknown hook event '{0}'")]
pub struct UnknownHookEvent(pub String);

impl FromStr for HookEvent {
    type Err = UnknownHookEvent;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .copied()
            .find(|event| event.name() == text)
            .ok_or_else(|| UnknownHookEvent(text.to_owned()))
    }
}

/// The input of a hook: the common fields and those of its event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookInput {
    /// The session.
    pub session_id: String,
    /// The session's transcript.
    pub transcript_path: String,
    /// The working folder.
    pub cwd: String,
    /// The permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// The sub-agent in which it happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// That sub-agent's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// The event.
    pub hook_event_name: HookEvent,
    /// The event's own fields.
    #[serde(flatten)]
    pub fields: Extra,
}

/// The JSON that a hook prints. Unknown fields are kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookOutput {
    /// `false` stops the turn.
    #[serde(default, rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continue_: Option<bool>,
    /// Why it was stopped; shown to the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Whether stdout is kept out of the transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_output: Option<bool>,
    /// A message for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_message: Option<String>,
    /// A notification or a title for the user's terminal, as the escape sequence that makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_sequence: Option<String>,
    /// `approve` or `block`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The event's own answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_specific_output: Option<HookSpecificOutput>,
    /// Continues in the background.
    #[serde(default, rename = "async", skip_serializing_if = "Option::is_none")]
    pub async_: Option<bool>,
    /// How long it may, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub async_timeout: Option<u64>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The part of a hook's answer that belongs to its event.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookSpecificOutput {
    /// The event that it answers.
    #[serde(default)]
    pub hook_event_name: String,
    /// PreToolUse: `allow`, `deny`, `ask` or `defer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_decision: Option<String>,
    /// PreToolUse: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_decision_reason: Option<String>,
    /// PreToolUse: the input to run with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Value>,
    /// Text for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_context: Option<String>,
    /// PermissionRequest: the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<HookPermissionDecision>,
    /// PostToolUse: replaces the tool's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_tool_output: Option<Value>,
    /// PostToolUse of an MCP tool: replaces its output.
    #[serde(
        default,
        rename = "updatedMCPToolOutput",
        skip_serializing_if = "Option::is_none"
    )]
    pub updated_mcp_tool_output: Option<Value>,
    /// UserPromptSubmit, SessionStart: a title for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
    /// SessionStart: words to start with, as if the user had typed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_user_message: Option<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A hook's answer to a permission question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookPermissionDecision {
    /// `allow` or `deny`.
    pub behavior: String,
    /// The input to run with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Value>,
    /// Rules to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_permissions: Option<Vec<PermissionUpdate>>,
    /// The message for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether the turn ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<bool>,
}

/// How a failure of the hook is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// A failure blocks.
    Block,
    /// A failure is reported and has no other effect.
    Ignore,
    /// The same as `ignore`.
    Continue,
    /// The same as `ignore`.
    Allow,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_round_trips_by_name() {
        for event in HookEvent::ALL {
            assert_eq!(event.name().parse::<HookEvent>().unwrap(), *event);
            assert_eq!(serde_json::to_value(event).unwrap(), event.name());
        }
    }

    #[test]
    fn outputs_parse_as_hooks_print_them() {
        let output: HookOutput = serde_json::from_str(
            r#"{"continue":false,"stopReason":"x","hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"},"custom":1}"#,
        )
        .unwrap();
        assert_eq!(output.continue_, Some(false));
        assert_eq!(output.extra["custom"], 1);
        let specific = output.hook_specific_output.unwrap();
        assert_eq!(specific.permission_decision.as_deref(), Some("deny"));
    }
}
