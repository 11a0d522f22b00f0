//! The parts of an enabled plugin, as the other loaders take them.

use lathe_settings::schema::HookGroup;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The parts of a plugin for the session as a whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionParts {
    /// Its default settings.
    pub settings: Option<Value>,
    /// Theme files and folders of such files.
    pub themes: Vec<PathBuf>,
    /// Commands that watch something.
    pub monitors: Vec<Monitor>,
}

/// A command that runs beside the session and whose lines reach the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monitor {
    pub name: String,
    /// With the plugin's variables filled in.
    pub command: String,
    pub description: String,
    pub when: MonitorStart,
}

/// When a monitor starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MonitorStart {
    /// With the session.
    Always,
    /// When this skill of the plugin is first used.
    OnSkill(String),
}

/// A command file, or a folder of such files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandPath {
    pub path: PathBuf,
    /// The entry of the file in a manifest that lists commands by name.
    pub named: Option<NamedCommand>,
}

/// An entry of a manifest that lists commands by name. What it gives goes before the file's own keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedCommand {
    pub name: String,
    pub description: Option<String>,
    pub argument_hint: Option<String>,
    pub model: Option<String>,
    pub allowed_tools: Option<Vec<String>>,
    /// The text itself, where the manifest has it instead of a file.
    pub content: Option<String>,
}

impl CommandPath {
    /// A file that a manifest lists under a name; the manifest itself if it has the text.
    pub(crate) fn named(path: PathBuf, name: &str, entry: &Value) -> Self {
        Self {
            path,
            named: Some(NamedCommand::of(name, entry)),
        }
    }
}

impl NamedCommand {
    fn of(name: &str, entry: &Value) -> Self {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        let tools = entry.get("allowedTools").and_then(Value::as_array);
        Self {
            name: name.to_owned(),
            description: text("description"),
            argument_hint: text("argumentHint"),
            model: text("model"),
            content: text("content").filter(|_| entry.get("source").is_none()),
            allowed_tools: tools.map(|tools| {
                let tools = tools.iter().filter_map(Value::as_str);
                tools.map(str::to_owned).collect()
            }),
        }
    }
}

impl From<PathBuf> for CommandPath {
    fn from(path: PathBuf) -> Self {
        Self { path, named: None }
    }
}

/// The parts of one enabled plugin. All paths are absolute and were checked to be inside the
/// plugin's folder.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PluginContribution {
    /// The plugin's name, which prefixes the names of its commands, skills and agents.
    pub name: String,
    /// `name@marketplace`, if it comes from a marketplace.
    pub id: Option<String>,
    pub version: Option<String>,
    pub root: PathBuf,
    /// The folder for data that it keeps across versions.
    pub data: Option<PathBuf>,
    /// Agent files and folders of agent files.
    pub agents: Vec<PathBuf>,
    /// Skill folders (with a `SKILL.md`) and folders of skill folders.
    pub skills: Vec<PathBuf>,
    /// Command files and folders of command files.
    pub commands: Vec<CommandPath>,
    /// Output style files and folders of such files.
    pub output_styles: Vec<PathBuf>,
    /// Hooks by event, with the plugin's variables filled in.
    pub hooks: BTreeMap<String, Vec<HookGroup>>,
    /// MCP servers by their own names (not namespaced), in the format of `.mcp.json`.
    pub mcp_servers: BTreeMap<String, Value>,
    /// Language servers by name.
    pub lsp_servers: BTreeMap<String, Value>,
    /// Its parts for the session as a whole.
    pub session: SessionParts,
    /// The user's options for `${user_config.KEY}`, without sensitive values.
    pub user_config: BTreeMap<String, String>,
    /// True if its installation was confirmed, so that its parts may run.
    pub trusted: bool,
}

impl PluginContribution {
    /// The paths of its commands.
    pub(crate) fn command_paths(&self) -> Vec<PathBuf> {
        let commands = self.commands.iter();
        commands.map(|command| command.path.clone()).collect()
    }

    /// The variables for its files: `CLAUDE_PLUGIN_ROOT`, `CLAUDE_PLUGIN_DATA` (also with `LATHE_`)
    /// and `user_config.KEY`.
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

    /// Expands the plugin's variables in a text: `${CLAUDE_PLUGIN_ROOT}`, `${CLAUDE_PLUGIN_DATA}`
    /// (also with `LATHE_`) and `${user_config.KEY}`. Unknown keys stay unexpanded.
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
