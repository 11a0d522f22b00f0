//! Permissions: modes, rules, questions and answers.

use crate::Extra;
use crate::ids::{AgentId, RequestId, ToolUseId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// How questions are answered when no rule decides.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Ask the user.
    #[default]
    Default,
    /// File edits and simple file commands inside the roots pass.
    AcceptEdits,
    /// Reads only, and the plan file.
    Plan,
    /// Every question becomes a denial.
    DontAsk,
    /// Everything passes that no deny rule or hard safety check stops.
    BypassPermissions,
    /// A classifier answers the questions.
    Auto,
}

impl PermissionMode {
    /// All modes, in the order in which they are offered.
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::AcceptEdits,
        Self::Plan,
        Self::DontAsk,
        Self::BypassPermissions,
        Self::Auto,
    ];

    /// The mode's name in settings and on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no permission mode.
#[derive(Debug, thiserror::Error)]
#[error(
    "unknown permission mode '{0}'; known modes: default, acceptEdits, plan, dontAsk, bypassPermissions, auto"
)]
pub struct UnknownMode(pub String);

impl FromStr for PermissionMode {
    type Err = UnknownMode;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

/// The effect of a rule. Ordered by strength: deny beats ask, ask beats allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Behavior {
    /// Let it pass.
    Allow,
    /// Ask the user.
    Ask,
    /// Refuse.
    Deny,
}

/// A rule's two parts, as hosts exchange them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleValue {
    /// The tool.
    pub tool_name: String,
    /// Which calls of the tool; `None` is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_content: Option<String>,
}

/// Where a rule comes from, or where a choice is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RuleSource {
    /// Managed policy.
    PolicySettings,
    /// The `--settings` file.
    FlagSettings,
    /// The user's settings.
    UserSettings,
    /// The project's settings.
    ProjectSettings,
    /// The project's settings of this user.
    LocalSettings,
    /// The command line.
    CliArg,
    /// A command or skill while it is active.
    Command,
    /// This session only.
    Session,
}

/// A change to rules, mode or roots, as hosts exchange it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum PermissionUpdate {
    /// Add rules.
    AddRules {
        /// The rules.
        rules: Vec<RuleValue>,
        /// Their effect.
        behavior: Behavior,
        /// Where they are kept.
        destination: RuleSource,
    },
    /// Replace all rules of that behaviour at that destination.
    ReplaceRules {
        /// The rules.
        rules: Vec<RuleValue>,
        /// Their effect.
        behavior: Behavior,
        /// Where they are kept.
        destination: RuleSource,
    },
    /// Remove rules.
    RemoveRules {
        /// The rules.
        rules: Vec<RuleValue>,
        /// Their effect so far.
        behavior: Behavior,
        /// Where they were kept.
        destination: RuleSource,
    },
    /// Change the mode.
    SetMode {
        /// The new mode.
        mode: PermissionMode,
        /// Where it is kept.
        destination: RuleSource,
    },
    /// Add working roots.
    AddDirectories {
        /// The folders.
        directories: Vec<PathBuf>,
        /// Where they are kept.
        destination: RuleSource,
    },
    /// Remove working roots.
    RemoveDirectories {
        /// The folders.
        directories: Vec<PathBuf>,
        /// Where they were kept.
        destination: RuleSource,
    },
}

/// The resources that a call would touch, as its tool reports them. The input of the permission decision, together
/// with rules and mode; a tool that says nothing is judged as [`Subject::Unknown`].
#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// Touches nothing outside the session (a task list).
    Nothing,
    /// Reads files or folders.
    Read {
        /// Absolute paths, as written after `~` and relative parts were resolved.
        paths: Vec<PathBuf>,
    },
    /// Creates, changes or deletes files.
    Write {
        /// Absolute paths, as written after `~` and relative parts were resolved.
        paths: Vec<PathBuf>,
    },
    /// Runs a shell command.
    Shell {
        /// The command as written.
        command: String,
        /// The folder it would run in.
        cwd: PathBuf,
        /// Whether the call asks to run without the sandbox.
        unsandboxed: bool,
    },
    /// Types into a program that runs on a terminal.
    Typing {
        /// The program's name; empty where it is not known.
        program: String,
        /// Whether the program runs in the sandbox.
        sandboxed: bool,
    },
    /// Fetches from the network.
    Fetch {
        /// The address.
        url: String,
    },
    /// Searches the web.
    Search {
        /// The words.
        query: String,
    },
    /// Calls a tool of an MCP server.
    Mcp {
        /// The server.
        server: String,
        /// The tool, without the server's prefix.
        tool: String,
        /// Whether the server says that it only reads.
        read_only: bool,
    },
    /// Runs a skill, an agent, or anything else that rules name by a word.
    Named {
        /// The word that a rule's content is compared with.
        name: String,
        /// Whether it passes where no rule says otherwise.
        harmless: bool,
    },
    /// Needs the user each time, whatever the rules (leaving plan mode, a question to the user).
    Person,
    /// Says nothing about itself.
    Unknown,
}

/// Why a decision came out as it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum DecisionReason {
    /// A rule matched.
    Rule {
        /// The rule as written.
        rule: String,
        /// Its effect.
        behavior: Behavior,
        /// Where it stands.
        source: RuleSource,
    },
    /// The mode decided.
    Mode {
        /// The mode.
        mode: PermissionMode,
    },
    /// Parts of a shell command were judged one by one.
    SubcommandResults {
        /// The part that decided.
        part: String,
        /// Why.
        reason: String,
    },
    /// A hook decided.
    Hook {
        /// The hook.
        name: String,
        /// Its reason.
        reason: Option<String>,
    },
    /// The classifier of auto mode decided.
    Classifier {
        /// Its reason.
        reason: String,
    },
    /// A path lies inside or outside the roots.
    WorkingDirectory {
        /// Which path and why.
        reason: String,
    },
    /// A hard safety check.
    SafetyCheck {
        /// Which one.
        reason: String,
    },
    /// The call asks to leave the sandbox.
    SandboxOverride {
        /// The question.
        reason: String,
    },
    /// A background agent has nobody to ask.
    AsyncAgent {
        /// The question that was not asked.
        reason: String,
    },
    /// It is more than the agent that calls may do, whatever its session allows.
    AgentLimit {
        /// The limit.
        reason: String,
    },
    /// The user answered.
    Person,
    /// Anything else.
    Other {
        /// In words.
        reason: String,
    },
}

impl DecisionReason {
    /// The reason in words.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Rule {
                rule,
                behavior,
                source,
            } => {
                let verb = match behavior {
                    Behavior::Allow => "allows",
                    Behavior::Ask => "asks for",
                    Behavior::Deny => "denies",
                };
                format!("the rule {rule} ({}) {verb} it", source_words(*source))
            }
            Self::Mode { mode } => format!("permission mode {mode}"),
            Self::SubcommandResults { part, reason } => format!("`{part}`: {reason}"),
            Self::Hook { name, reason } => reason.as_ref().map_or_else(
                || format!("the hook {name}"),
                |reason| format!("{reason} (hook {name})"),
            ),
            Self::Classifier { reason }
            | Self::WorkingDirectory { reason }
            | Self::SafetyCheck { reason }
            | Self::SandboxOverride { reason }
            | Self::AsyncAgent { reason }
            | Self::AgentLimit { reason }
            | Self::Other { reason } => reason.clone(),
            Self::Person => "the user's answer".to_owned(),
        }
    }

    /// The reason's kind on the wire, in the words that hosts know.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rule { .. } => "rule",
            Self::Mode { .. } => "mode",
            Self::SubcommandResults { .. } => "subcommandResults",
            Self::Hook { .. } => "hook",
            Self::Classifier { .. } => "classifier",
            Self::WorkingDirectory { .. } => "workingDir",
            Self::SafetyCheck { .. } => "safetyCheck",
            Self::SandboxOverride { .. } => "sandboxOverride",
            Self::AsyncAgent { .. } => "asyncAgent",
            Self::AgentLimit { .. } | Self::Person | Self::Other { .. } => "other",
        }
    }
}

fn source_words(source: RuleSource) -> &'static str {
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

/// The permission decision on a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It may run.
    Allow {
        /// Why.
        reason: DecisionReason,
    },
    /// Someone must be asked.
    Ask {
        /// Why.
        reason: DecisionReason,
        /// The rules that 'always allow' would save.
        suggestions: Vec<PermissionUpdate>,
        /// The path that made it ask.
        blocked_path: Option<PathBuf>,
        /// Whether even bypass mode may not answer this by itself.
        hard: bool,
    },
    /// It may not run.
    Deny {
        /// Why.
        reason: DecisionReason,
    },
}

/// The display name of a question about a host that a sandboxed command connects to.
pub const NETWORK: &str = "Network";

/// A permission question to the user or another answerer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermissionRequest {
    /// Names the question.
    pub request_id: RequestId,
    /// The tool.
    pub tool_name: String,
    /// Its input.
    pub input: Value,
    /// The call.
    pub tool_use_id: ToolUseId,
    /// The rules that 'always allow' would save.
    #[serde(default)]
    pub permission_suggestions: Vec<PermissionUpdate>,
    /// The path that made it ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_path: Option<PathBuf>,
    /// Why it is asked, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_reason: Option<String>,
    /// The kind of the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_reason_type: Option<String>,
    /// A short name for the action; [`NETWORK`] for a host that a sandboxed command connects to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The action in a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The purpose of the action, as the model states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The sub-agent that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The same for people.
    #[serde(flatten)]
    pub agent: Option<AskingAgent>,
}

impl PermissionRequest {
    /// A question of its own id about a call, without reasons and suggestions.
    #[must_use]
    pub fn new(tool_name: impl Into<String>, input: Value, tool_use_id: ToolUseId) -> Self {
        Self {
            request_id: RequestId::random(),
            tool_name: tool_name.into(),
            input,
            tool_use_id,
            permission_suggestions: Vec::new(),
            blocked_path: None,
            decision_reason: None,
            decision_reason_type: None,
            display_name: None,
            title: None,
            description: None,
            agent_id: None,
            agent: None,
        }
    }
}

/// A sub-agent that asks a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskingAgent {
    /// Its type.
    pub agent_type: String,
    /// The name that it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// Its task in a few words.
    pub agent_task: String,
    /// The colour of its name, of a member of a team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_color: Option<String>,
}

impl AskingAgent {
    /// One line: its name, its type and its task.
    #[must_use]
    pub fn line(&self) -> String {
        let named = self.agent_name.as_ref().map(|name| format!("{name}, "));
        let kind = &self.agent_type;
        format!(
            "agent {}{kind}: {}",
            named.unwrap_or_default(),
            self.agent_task
        )
    }
}

/// An answer to a [`PermissionRequest`], in the shape that hosts send it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "behavior", rename_all = "lowercase")]
pub enum PermissionReply {
    /// Let it run.
    Allow {
        /// The input to run with; `None` keeps the model's.
        #[serde(
            default,
            rename = "updatedInput",
            skip_serializing_if = "Option::is_none"
        )]
        updated_input: Option<Value>,
        /// Rules, mode and roots to change from now on.
        #[serde(
            default,
            rename = "updatedPermissions",
            deserialize_with = "null_is_empty"
        )]
        updated_permissions: Vec<PermissionUpdate>,
        /// Unknown fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Don't.
    Deny {
        /// The message for the model.
        #[serde(default)]
        message: String,
        /// Whether the turn ends with it.
        #[serde(default)]
        interrupt: bool,
        /// Unknown fields.
        #[serde(flatten)]
        extra: Extra,
    },
}

fn null_is_empty<'de, D>(deserializer: D) -> Result<Vec<PermissionUpdate>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl PermissionReply {
    /// A plain yes.
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow {
            updated_input: None,
            updated_permissions: Vec::new(),
            extra: Extra::new(),
        }
    }

    /// A no with a message for the model.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny {
            message: message.into(),
            interrupt: false,
            extra: Extra::new(),
        }
    }
}

/// A call that was refused, as the result lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermissionDenial {
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub tool_use_id: ToolUseId,
    /// Its input.
    pub tool_input: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_parse_as_hosts_send_them() {
        let reply: PermissionReply = serde_json::from_str(
            r#"{"behavior":"allow","updatedInput":{"command":"ls"},"updatedPermissions":null,"toolUseID":"x"}"#,
        )
        .unwrap();
        assert!(matches!(
            reply,
            PermissionReply::Allow {
                updated_input: Some(_),
                ..
            }
        ));
        let reply: PermissionReply =
            serde_json::from_str(r#"{"behavior":"deny","message":"no","interrupt":true}"#).unwrap();
        assert!(matches!(
            reply,
            PermissionReply::Deny {
                interrupt: true,
                ..
            }
        ));
    }

    #[test]
    fn updates_have_the_hosts_spelling() {
        let update = PermissionUpdate::AddRules {
            rules: vec![RuleValue {
                tool_name: "Bash".into(),
                rule_content: Some("ls:*".into()),
            }],
            behavior: Behavior::Allow,
            destination: RuleSource::LocalSettings,
        };
        assert_eq!(
            serde_json::to_string(&update).unwrap(),
            r#"{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"ls:*"}],"behavior":"allow","destination":"localSettings"}"#
        );
        let mode: PermissionUpdate = serde_json::from_str(
            r#"{"type":"setMode","mode":"acceptEdits","destination":"session"}"#,
        )
        .unwrap();
        assert!(matches!(
            mode,
            PermissionUpdate::SetMode {
                mode: PermissionMode::AcceptEdits,
                ..
            }
        ));
    }

    #[test]
    fn every_mode_round_trips_by_name() {
        for mode in PermissionMode::ALL {
            assert_eq!(mode.name().parse::<PermissionMode>().unwrap(), mode);
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.name());
        }
        assert!(
            "yolo"
                .parse::<PermissionMode>()
                .unwrap_err()
                .to_string()
                .contains("acceptEdits")
        );
    }
}
