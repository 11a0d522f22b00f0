//! The keys of a hook.

use lathe_protocol::Extra;
use lathe_protocol::hook::OnFailure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The hooks that run when a matcher matches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HookGroup {
    /// Which tools (or sources, triggers, types) the hooks are for: empty or `*` for all, a name or
    /// `A|B` for exactly those, anything else is a regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub matcher: Option<String>,
    /// The hooks.
    pub hooks: Vec<HookDefinition>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookDefinition {
    /// The kind of hook: `command`, `http`, `prompt`, `agent`, `mcp_tool` or `callback`.
    #[serde(rename = "type")]
    pub kind: HookKind,
    /// command: what the shell runs, or the program when `args` is given. It gets JSON on stdin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub command: Option<String>,
    /// command: runs `command` without a shell, with these arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub args: Option<Vec<String>>,
    /// command: the shell to use; `bash` where it is installed, else `sh`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// http: the address that gets the JSON by POST.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub url: Option<String>,
    /// http: headers; `$NAME` and `${NAME}` are filled in for the variables of `allowedEnvVars`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// http: the environment variables that headers may use. command: which of the keys for models and servers
    /// the command gets; it gets none of them otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_env_vars: Option<Vec<String>>,
    /// prompt, agent: the prompt; `$ARGUMENTS` is replaced by the JSON input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub prompt: Option<String>,
    /// prompt, agent: the model that answers (default: the small model).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// callback: the host's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_id: Option<String>,
    /// mcp_tool: the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub server: Option<String>,
    /// mcp_tool: the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub tool: Option<String>,
    /// mcp_tool: the tool's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// A permission rule such as `Bash(git *)`: the hook runs only for calls that match it.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub condition: Option<String>,
    /// After how many seconds it is stopped (default 60).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Whether it runs in the background, its answer going into a later turn.
    #[serde(default, rename = "async", skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    /// Whether a background hook that blocks wakes the model instead of waiting for the next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub async_rewake: Option<bool>,
    /// Whether it runs only once a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<bool>,
    /// The message shown while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// `block` turns a failure or time-out of the hook into a block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// prompt: whether an objection lets the turn continue, with its reason for the model. Otherwise it ends the
    /// turn (except at `Stop` and `SubagentStop`, where an objection always makes the model continue).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_on_block: Option<bool>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The kind of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookKind {
    /// A shell command.
    Command,
    /// A POST to an address.
    Http,
    /// A question to a model.
    Prompt,
    /// A sub-agent with read tools.
    Agent,
    /// A tool of an MCP server.
    McpTool,
    /// A function of the SDK host.
    Callback,
}
