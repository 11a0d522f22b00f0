//! The keys of language servers.

use super::EnvValue;
use lathe_protocol::Extra;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A language server: a program that knows a programming language. The same keys stand in a plugin's
/// `.lsp.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LanguageServerSettings {
    /// The program, by name or by path.
    pub command: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-narrows" = true))]
    pub args: Vec<String>,
    /// Which files it is for, and what language each is: `{".py": "python"}`.
    pub extension_to_language: BTreeMap<String, String>,
    /// How it is spoken to; only `stdio` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub transport: Option<LanguageServerTransport>,
    /// Environment variables for it. API keys of Lathe are not passed on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, EnvValue>,
    /// Options that the server gets when it starts, in its own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization_options: Option<Value>,
    /// The answer when the server asks for its configuration, in its own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Value>,
    /// The folder that it works in (default: found by `rootMarkers`, else the session's).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_folder: Option<String>,
    /// Names of files or folders that mark the root of a project, such as `Cargo.toml`: the nearest
    /// folder above a file that holds one is what the server works in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub root_markers: Vec<String>,
    /// How long it may take to start, in milliseconds (default 30000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_timeout: Option<u64>,
    /// How long it may take to end before it is made to, in milliseconds (default 2000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown_timeout: Option<u64>,
    /// Whether it is restarted after a crash (default true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_on_crash: Option<bool>,
    /// How often it is started again (default and most 3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_restarts: Option<u32>,
    /// Whether new problems that it reports after an edit are sent to the model (default true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostics: Option<bool>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// How a language server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LanguageServerTransport {
    /// By its standard input and output.
    Stdio,
}

/// Which problems that language servers find are sent to the model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LspDiagnostics {
    /// Whether new problems are sent after an edit (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How many seconds the next request waits for them at most (default 3); later ones are sent with
    /// a later one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 120))]
    pub wait_seconds: Option<f64>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
