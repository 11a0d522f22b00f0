//! Skills: know-how in files, listed by name and read when it is needed.

use crate::source::ExtensionSource;
use lathe_settings::schema::{Effort, HookGroup};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A skill, without its body: that is read when it is used.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// The name by which it is called (`plugin:name` for a plugin's).
    pub name: String,
    /// What it does.
    pub description: String,
    /// When to use it, beside the description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_to_use: Option<String>,
    /// What its arguments look like, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// Names of its arguments, in order; `$name` in the body stands for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Rules that hold as allowed while it is at work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// The model for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model works in its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Whether it runs in a sub-agent instead of the conversation (`context: fork`).
    pub fork: bool,
    /// The agent as which a forked skill runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Patterns of files; the skill is listed once one of them was touched. Empty: always.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Hooks that count from its use on, by event. Empty unless its file is trusted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: BTreeMap<String, Vec<HookGroup>>,
    /// Whether the model may use it by itself.
    pub model_invocable: bool,
    /// Whether people may use it as `/name`.
    pub user_invocable: bool,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its licence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// What it needs to work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// What its author noted beside.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Where it comes from.
    pub source: ExtensionSource,
    /// Its folder; `None` for one that comes with Lathe or from a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Whether its commands and hooks may run.
    pub trusted: bool,
}
