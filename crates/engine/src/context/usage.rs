//! How full the model's window is, by part.

use serde::Serialize;
use std::path::PathBuf;

/// How full the model's window is, by part. Sizes are estimates except for those that the provider counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ContextUsage {
    /// Tokens of the system prompt, without what is counted as memory.
    pub system: u64,
    /// Tokens of the built-in tools' definitions.
    pub tools: u64,
    /// Tokens of the definitions of MCP servers' tools.
    pub mcp_tools: u64,
    /// Tokens of instruction files and kept memory.
    pub memory: u64,
    /// Tokens of the list of skills.
    pub skills: u64,
    /// Tokens of the list of agents that work can be given to.
    pub agents: u64,
    /// Tokens of the conversation, without the list of skills.
    pub messages: u64,
    /// Whether the provider has counted what was sent; otherwise everything is a guess.
    pub counted: bool,
    /// The model's window.
    pub window: u64,
    /// The model's output limit.
    pub max_output: u64,
    /// Whether the window is so small that a short prompt and few tools are sent.
    pub lean: bool,
    /// Where the conversation is compacted, and where the user is warned.
    #[serde(flatten)]
    pub thresholds: ContextThresholds,
    /// The model.
    pub model: String,
    /// The instruction files: path, whose they are, tokens.
    pub instruction_files: Vec<(PathBuf, String, u64)>,
    /// The provider's count for the last answer.
    pub api_usage: Option<lathe_protocol::usage::Usage>,
}

/// Where the conversation is compacted, and where the user is warned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ContextThresholds {
    /// Tokens at which the conversation is compacted.
    pub compact_at: u64,
    /// Tokens at which the user is warned.
    pub warn_at: u64,
    /// Whether the conversation is compacted without a command.
    pub auto_compact: bool,
}

/// A part of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ContextPart {
    /// Its name.
    pub name: &'static str,
    /// Its tokens.
    pub tokens: u64,
    /// `used`, `free` or `reserve`.
    pub kind: &'static str,
}

impl ContextUsage {
    /// The notice about a small window.
    pub const LEAN: &str = "lean set: the window is small, so a short prompt and few tools are sent; the model loads the others with ToolSearch";

    /// Tokens that the next request has.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.system
            + self.tools
            + self.mcp_tools
            + self.memory
            + self.agents
            + self.skills
            + self.messages
    }

    /// Tokens that compaction keeps free; none where it is off.
    #[must_use]
    pub fn reserve(&self) -> u64 {
        if self.thresholds.auto_compact {
            self.window.saturating_sub(self.thresholds.compact_at)
        } else {
            0
        }
    }

    /// Tokens that are left before compaction.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.window.saturating_sub(self.used() + self.reserve())
    }

    /// The window by part, in the order in which it is sent; empty parts are left out.
    #[must_use]
    pub fn parts(&self) -> Vec<ContextPart> {
        let part = |name, tokens, kind| ContextPart { name, tokens, kind };
        let mut parts = vec![
            part("System prompt", self.system, "used"),
            part("System tools", self.tools, "used"),
            part("MCP tools", self.mcp_tools, "used"),
            part("Memory files", self.memory, "used"),
            part("Custom agents", self.agents, "used"),
            part("Skills", self.skills, "used"),
            part("Messages", self.messages, "used"),
            part("Free space", self.free(), "free"),
            part("Autocompact buffer", self.reserve(), "reserve"),
        ];
        parts.retain(|part| part.tokens > 0);
        parts
    }
}

/// Fills in what depends on the model and the instruction files.
pub(crate) fn complete(
    usage: &mut ContextUsage,
    shared: &crate::conversation::ConversationShared,
    model: &str,
) {
    let catalog = &shared.session.catalog;
    let info = catalog.resolve(model).info;
    let windows = crate::context::Windows::of(&info).limited(catalog.compaction);
    usage.window = windows.window;
    usage.max_output = windows.max_output;
    usage.lean = crate::context::lean::applies(info.context_window);
    usage.thresholds.compact_at = windows.compact_at();
    usage.thresholds.warn_at = windows.warn_at();
    model.clone_into(&mut usage.model);
    if let Some(instructions) = shared.state.instructions.lock().as_ref() {
        usage.instruction_files = instructions
            .files()
            .iter()
            .map(|file| {
                let scope = serde_json::to_value(file.scope)
                    .ok()
                    .and_then(|scope| scope.as_str().map(str::to_owned))
                    .unwrap_or_default();
                (
                    file.path.clone(),
                    scope,
                    lathe_model::estimate::text(&file.text),
                )
            })
            .collect();
    }
}
