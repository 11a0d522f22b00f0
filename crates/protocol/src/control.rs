//! Control requests: what an SDK host asks of a session, typed.
//!
//! A request is an object with a `subtype`; each subtype is a variant of [`ControlRequest`] with its
//! fields. [`ControlRequest::parse`] is the only reader, and the face matches the enum exhaustively.
//! Unknown fields are ignored; `null` means the same as an absent field unless a field says otherwise.

use crate::hook::OnFailure;
use crate::ids::{RecordId, TaskId, ToolUseId};
use crate::permission::PermissionMode;
use indexmap::IndexMap;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A request of the host.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum ControlRequest {
    /// How the session is set up. The first request of most hosts.
    Initialize(Box<Initialize>),
    /// Stop the turn.
    Interrupt {
        /// Whether prompts that wait are dropped too.
        #[serde(default, deserialize_with = "flag")]
        cancel_queued: bool,
    },
    /// Change the permission mode.
    SetPermissionMode {
        /// The mode.
        mode: PermissionMode,
    },
    /// Give an MCP server a permission mode of its own.
    SetMcpPermissionModeOverride {
        /// The server.
        #[serde(rename = "serverName")]
        server_name: String,
        /// The mode; `None` takes it back.
        #[serde(default)]
        mode: Option<ServerMode>,
    },
    /// Change the model.
    SetModel {
        /// The model; `None` and `default` are the default.
        #[serde(default)]
        model: Option<String>,
    },
    /// Change how much the model thinks, and what of it is shown. An absent field changes nothing.
    SetMaxThinkingTokens {
        /// The budget: `null` resets it, 0 switches thinking off.
        #[serde(default, deserialize_with = "present")]
        max_thinking_tokens: Option<Option<u64>>,
        /// Whether thinking is shown: `null` resets it.
        #[serde(default, deserialize_with = "present")]
        thinking_display: Option<Option<ThinkingDisplay>>,
    },
    /// How full the model's window is.
    GetContextUsage,
    /// The settings, merged and by source.
    GetSettings,
    /// The models that can be chosen.
    ListModels,
    /// The version of the program.
    GetBinaryVersion,
    /// Give the session a title.
    RenameSession {
        /// The title.
        title: String,
    },
    /// Drop a prompt that waits.
    CancelAsyncMessage {
        /// The prompt.
        message_uuid: RecordId,
    },
    /// Let running commands continue in the background.
    BackgroundTasks {
        /// The call; `None` is every call that can.
        #[serde(default)]
        tool_use_id: Option<ToolUseId>,
    },
    /// Change settings for this session.
    ApplyFlagSettings {
        /// The changes; a `null` value unsets its key.
        settings: Map<String, Value>,
    },
    /// Change a settings file.
    UpdateSettings {
        /// Which file.
        source: SettingsFile,
        /// The changes; a `null` value unsets its key.
        settings: Map<String, Value>,
    },
    /// Read skills, commands and agents again.
    ReloadSkills,
    /// Read plugins again.
    ReloadPlugins(ReloadPlugins),
    /// Read output styles again.
    ReloadOutputStyles,
    /// The permission rules.
    ListPermissionRules,
    /// The hooks.
    GetHooksListing,
    /// Usage and cost of the session.
    GetUsage,
    /// The output of a background task.
    GetTaskOutput {
        /// The task.
        task_id: TaskId,
    },
    /// Allow work in one more folder.
    RegisterRepoRoot {
        /// The folder.
        directory: String,
    },
    /// The MCP servers and their state.
    McpStatus,
    /// Read a resource of an MCP server.
    McpReadResource {
        /// The server.
        #[serde(rename = "serverName")]
        server_name: String,
        /// The resource.
        uri: String,
    },
    /// Connect an MCP server again.
    McpReconnect {
        /// The server.
        #[serde(rename = "serverName")]
        server_name: String,
    },
    /// Switch an MCP server on or off.
    McpToggle {
        /// The server.
        #[serde(rename = "serverName")]
        server_name: String,
        /// Whether it is on.
        #[serde(default, deserialize_with = "flag")]
        enabled: bool,
    },
    /// Replace the MCP servers that the host set before.
    McpSetServers {
        /// The servers, by name.
        servers: Map<String, Value>,
    },
    /// Call a tool of an MCP server.
    McpCall {
        /// The tool's full name.
        tool: String,
        /// Its arguments.
        #[serde(default)]
        arguments: Option<Value>,
        /// Whether permissions are checked first. Not tolerant of `null`: better no call than one that
        /// the host believes to be checked.
        #[serde(default)]
        check_permissions: bool,
    },
    /// Take files back to what they were at a prompt.
    RewindFiles {
        /// The prompt.
        user_message_id: RecordId,
        /// Whether it is only said what would change.
        #[serde(default, deserialize_with = "flag")]
        dry_run: bool,
    },
    /// Stop a background task.
    StopTask {
        /// The task.
        task_id: TaskId,
    },
    /// Read a file.
    ReadFile {
        /// The file.
        path: String,
        /// How much of it at most.
        #[serde(default)]
        max_bytes: Option<u64>,
        /// How the content is written down.
        #[serde(default)]
        encoding: Option<FileEncoding>,
    },
    /// Note that the model knows a file.
    SeedReadState {
        /// The file.
        path: String,
        /// Its modification time in milliseconds since 1970.
        #[serde(default)]
        mtime: Option<f64>,
    },
    /// Whether somebody watches what the host passes on. Frames are not held back, so nothing changes.
    SetHasSubscribers,
    /// The cost of the session, as text.
    GetSessionCost,
    /// Files whose names fit.
    FileSuggestions {
        /// The text that was typed.
        query: String,
    },
    /// Any other subtype; [`ControlRequest::parse`] reports it as an error.
    #[serde(other)]
    Unknown,
}

/// A request that can't be carried out as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlRequestError {
    /// No request has this subtype.
    #[error("Unknown control request: {subtype}")]
    Unknown {
        /// The subtype; empty if it isn't a string.
        subtype: String,
    },
    /// A field is missing or has the wrong type.
    #[error("{subtype}: {problem}")]
    Malformed {
        /// The subtype.
        subtype: String,
        /// The reason.
        problem: String,
    },
}

impl ControlRequest {
    /// Reads the `request` of a `control_request` frame.
    ///
    /// # Errors
    /// When no request has the subtype, or a field is missing or has the wrong type.
    pub fn parse(request: &Value) -> Result<Self, ControlRequestError> {
        let subtype = || {
            let subtype = request.get("subtype").and_then(Value::as_str);
            subtype.unwrap_or_default().to_owned()
        };
        if !request.get("subtype").is_some_and(Value::is_string) {
            return Err(ControlRequestError::Unknown { subtype: subtype() });
        }
        match Self::deserialize(request) {
            Ok(Self::Unknown) => Err(ControlRequestError::Unknown { subtype: subtype() }),
            Ok(request) => Ok(request),
            Err(error) => Err(ControlRequestError::Malformed {
                subtype: subtype(),
                problem: error.to_string(),
            }),
        }
    }

    /// Whether carrying it out may wait for a process, a server or a disk. Such a request is answered
    /// when it is done; any other is answered before the frames behind it are read.
    #[must_use]
    pub fn may_wait(&self) -> bool {
        match self {
            Self::McpStatus
            | Self::McpReadResource { .. }
            | Self::McpReconnect { .. }
            | Self::McpToggle { .. }
            | Self::McpSetServers { .. }
            | Self::McpCall { .. }
            | Self::RewindFiles { .. }
            | Self::StopTask { .. }
            | Self::ReadFile { .. }
            | Self::SeedReadState { .. }
            | Self::GetSessionCost
            | Self::FileSuggestions { .. } => true,
            Self::Initialize(_)
            | Self::Interrupt { .. }
            | Self::SetPermissionMode { .. }
            | Self::SetMcpPermissionModeOverride { .. }
            | Self::SetModel { .. }
            | Self::SetMaxThinkingTokens { .. }
            | Self::GetContextUsage
            | Self::SetHasSubscribers
            | Self::GetSettings
            | Self::ListModels
            | Self::GetBinaryVersion
            | Self::RenameSession { .. }
            | Self::CancelAsyncMessage { .. }
            | Self::BackgroundTasks { .. }
            | Self::ApplyFlagSettings { .. }
            | Self::UpdateSettings { .. }
            | Self::ReloadSkills
            | Self::ReloadPlugins(_)
            | Self::ReloadOutputStyles
            | Self::ListPermissionRules
            | Self::GetHooksListing
            | Self::GetUsage
            | Self::GetTaskOutput { .. }
            | Self::RegisterRepoRoot { .. }
            | Self::Unknown => false,
        }
    }
}

/// The permission mode of one MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerMode {
    /// The user is asked.
    Default,
    /// A classifier answers.
    Auto,
}

/// How the model's thinking is shown.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingDisplay {
    /// A summary.
    Summarized,
    /// Nothing.
    Omitted,
    /// A way that isn't known here. It is refused; the budget beside it takes effect.
    #[serde(untagged)]
    Unknown(Value),
}

/// A settings file that hosts may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SettingsFile {
    /// The user's own, for this project.
    LocalSettings,
    /// The user's own, for every project.
    UserSettings,
}

/// How the content of a file is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileEncoding {
    /// Base64.
    Base64,
    /// As text.
    #[serde(other)]
    Text,
}

/// Which plugins are read again, and when not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct ReloadPlugins {
    /// More folders with plugins.
    #[serde(default)]
    pub add_plugins: Option<Vec<AddedPlugin>>,
    /// Leave everything as it is if the tools of a conversation that has begun would change.
    #[serde(default, deserialize_with = "flag")]
    pub hold_on_cache_impact: bool,
    /// Refuse while something runs or waits.
    #[serde(default, deserialize_with = "flag")]
    pub refuse_if_busy: bool,
}

/// A folder with a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AddedPlugin {
    /// The folder, absolute.
    pub path: PathBuf,
    /// Whether its MCP servers are left alone.
    #[serde(default, deserialize_with = "flag", rename = "skipMcpDiscovery")]
    pub skip_mcp_discovery: bool,
}

/// How the session is set up.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialize {
    /// The host's hook functions, by event.
    #[serde(default)]
    pub hooks: Option<IndexMap<String, Vec<HookMatcher>>>,
    /// Replaces the system prompt; `[""]` is none.
    #[serde(default)]
    pub system_prompt: Option<SystemPrompt>,
    /// Added to the system prompt.
    #[serde(default)]
    pub append_system_prompt: Option<String>,
    /// The shape that the answer must have.
    #[serde(default)]
    pub json_schema: Option<Value>,
    /// MCP servers that live in the host.
    #[serde(default)]
    pub sdk_mcp_servers: Option<Vec<String>>,
    /// Configuration of those servers, by name: how long a call may take, which tools to ask about or to
    /// refuse. What isn't of that shape is ignored.
    #[serde(default)]
    pub sdk_mcp_server_configs: Option<Value>,
    /// The answers of those servers to the host's own handshake, by name. What isn't of that shape is
    /// reported in the answer.
    #[serde(default)]
    pub sdk_mcp_server_manifests: Option<Value>,
    /// Whether the system prompt stays as it was first sent, also when the session is resumed.
    #[serde(default)]
    pub system_prompt_snapshot: Option<bool>,
    /// Whether the host shows what agents are doing.
    #[serde(default)]
    pub agent_progress_summaries: Option<bool>,
    /// Policy of the parent process, where it isn't an argument.
    #[serde(default)]
    pub managed_settings: Option<Map<String, Value>>,
    /// Whether the text of sub-agents is shown.
    #[serde(default)]
    pub forward_subagent_text: Option<bool>,
    /// Whether the host stops background tasks one by one; otherwise an interruption stops them all.
    #[serde(default)]
    pub per_task_stop_affordance: Option<bool>,
    /// A title for the session.
    #[serde(default)]
    pub title: Option<String>,
    /// Definitions of agents, by name.
    #[serde(default)]
    pub agents: Option<Map<String, Value>>,
    /// Whether what varies of the system prompt is sent in the conversation.
    #[serde(default)]
    pub exclude_dynamic_sections: Option<bool>,
    /// Names under which the model may call tools.
    #[serde(default)]
    pub tool_aliases: Option<BTreeMap<String, String>>,
    /// Whether the host shows suggestions for the next prompt.
    #[serde(default)]
    pub prompt_suggestions: Option<bool>,
    /// The only skills that are used; absent is all.
    #[serde(default)]
    pub skills: Option<Vec<String>>,
    /// Replaces the instructions of plan mode.
    #[serde(default)]
    pub plan_mode_instructions: Option<String>,
    /// Folders with plugins.
    #[serde(default)]
    pub plugins: Option<Vec<PluginFolder>>,
    /// MCP servers by name, as in `--mcp-config`; their keys stay off the command line.
    #[serde(default)]
    pub mcp_servers: Option<Map<String, Value>>,
    /// Settings, as in `--settings`.
    #[serde(default)]
    pub settings: Option<Map<String, Value>>,
    /// Deny rules, as in `--disallowedTools`.
    #[serde(default)]
    pub disallowed_tools: Option<Vec<String>>,
}

/// A system prompt, whole or in parts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum SystemPrompt {
    /// The whole text.
    Text(String),
    /// Parts of it.
    Parts(Vec<String>),
    /// Anything else, such as the name of a preset; it replaces nothing.
    Other(Value),
}

/// A folder with a plugin: a path, or an object with one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum PluginFolder {
    /// The folder.
    Path(PathBuf),
    /// The folder, and what is left alone in it.
    Entry(AddedPlugin),
}

/// A group of the host's hook functions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookMatcher {
    /// Which calls they are for; `None` is all.
    #[serde(default)]
    pub matcher: Option<String>,
    /// The functions.
    #[serde(default)]
    pub hook_callback_ids: Vec<String>,
    /// Seconds that they may take.
    #[serde(default)]
    pub timeout: Option<f64>,
    /// How a failure is treated.
    #[serde(default)]
    pub on_failure: Option<OnFailure>,
}

/// Reads a flag; `null` is off.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(false))
}

/// Reads a field where `null` isn't the same as absent.
fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_typed_and_unknown_ones_are_ignored() {
        let read = |value: Value| ControlRequest::parse(&value).unwrap();
        assert_eq!(
            read(json!({"subtype": "interrupt", "cancel_queued": true, "novelty": 1})),
            ControlRequest::Interrupt {
                cancel_queued: true
            }
        );
        assert_eq!(
            read(json!({"subtype": "get_usage", "detail": "all"})),
            ControlRequest::GetUsage
        );
        assert_eq!(
            read(json!({"subtype": "mcp_toggle", "serverName": "s", "enabled": null})),
            ControlRequest::McpToggle {
                server_name: "s".to_owned(),
                enabled: false
            }
        );
        let thinking = |tokens| ControlRequest::SetMaxThinkingTokens {
            max_thinking_tokens: tokens,
            thinking_display: None,
        };
        let name = "set_max_thinking_tokens";
        assert_eq!(read(json!({"subtype": name})), thinking(None));
        let reset = json!({"subtype": name, "max_thinking_tokens": null});
        assert_eq!(read(reset), thinking(Some(None)));
        let off = json!({"subtype": name, "max_thinking_tokens": 0});
        assert_eq!(read(off), thinking(Some(Some(0))));
    }

    #[test]
    fn what_is_wrong_with_a_request_is_said_with_its_name() {
        let wrong = |value: Value| ControlRequest::parse(&value).unwrap_err().to_string();
        assert_eq!(
            wrong(json!({"subtype": "novelty"})),
            "Unknown control request: novelty"
        );
        for nameless in [json!({}), json!(null), json!({"subtype": ["interrupt"]})] {
            assert_eq!(wrong(nameless), "Unknown control request: ");
        }
        assert_eq!(
            wrong(json!({"subtype": "rename_session"})),
            "rename_session: missing field `title`"
        );
        let unchecked = json!({"subtype": "mcp_call", "tool": "t", "check_permissions": null});
        assert!(wrong(unchecked).starts_with("mcp_call: invalid type: null"));
        let mode = json!({"subtype": "set_permission_mode", "mode": "yolo"});
        assert!(wrong(mode).contains("acceptEdits"));
    }
}
