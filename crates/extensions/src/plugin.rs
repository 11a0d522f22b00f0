//! What an enabled plugin brings, as the other loaders take it.

use lathe_settings::schema::HookGroup;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What one enabled plugin brings. All paths are absolute and inside the plugin's folder; whoever
/// makes this has checked that.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PluginContribution {
    /// The plugin's name, which becomes the first part of its commands', skills' and agents' names.
    pub name: String,
    /// Its full id (`name@marketplace`), where it came from a marketplace.
    pub id: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its folder.
    pub root: PathBuf,
    /// Where it keeps its own data between versions.
    pub data: Option<PathBuf>,
    /// Agent files, and folders of them.
    pub agents: Vec<PathBuf>,
    /// Skill folders (that hold `SKILL.md`), and folders of skill folders.
    pub skills: Vec<PathBuf>,
    /// Command files, and folders of them.
    pub commands: Vec<PathBuf>,
    /// Output style files, and folders of them.
    pub output_styles: Vec<PathBuf>,
    /// Hooks by event, with the plugin's variables filled in.
    pub hooks: BTreeMap<String, Vec<HookGroup>>,
    /// MCP servers by their own names (not namespaced), in the format of `.mcp.json`.
    pub mcp_servers: BTreeMap<String, Value>,
    /// Language servers by name.
    pub lsp_servers: BTreeMap<String, Value>,
    /// Settings that it presets.
    pub settings: Option<Value>,
    /// What users filled in, for `${user_config.KEY}`; sensitive values are left out.
    pub user_config: BTreeMap<String, String>,
    /// Whether its install was confirmed, so that what it brings may run.
    pub trusted: bool,
}

impl PluginContribution {
    /// What its files may name: `CLAUDE_PLUGIN_ROOT`, `CLAUDE_PLUGIN_DATA` (also with `LATHE_`) and
    /// `user_config.KEY`, with their values.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        let mut add = |name: &str, value: &std::path::Path| {
            for brand in ["CLAUDE", "LATHE"] {
                variables.push((
                    format!("{brand}_PLUGIN_{name}"),
                    value.display().to_string(),
                ));
            }
        };
        add("ROOT", &self.root);
        if let Some(data) = &self.data {
            add("DATA", data);
        }
        for (key, value) in &self.user_config {
            variables.push((format!("user_config.{key}"), value.clone()));
        }
        variables
    }

    /// A text with the plugin's variables filled in: `${CLAUDE_PLUGIN_ROOT}`, `${CLAUDE_PLUGIN_DATA}`
    /// (also with `LATHE_`) and `${user_config.KEY}`. An unknown key stays as it is.
    #[must_use]
    pub fn expand(&self, text: &str) -> String {
        if !text.contains("${") {
            return text.to_owned();
        }
        let mut text = text.to_owned();
        for (name, value) in self.variables() {
            text = text.replace(&format!("${{{name}}}"), &value);
        }
        text
    }
}
