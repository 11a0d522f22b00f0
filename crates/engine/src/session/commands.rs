//! The commands of a session: built-in ones, skills, custom ones, and prompts of MCP servers.

use lathe_extensions::{Command, CommandAction, ExtensionSource};

/// A server's prompt as a command.
pub(crate) fn of_server(prompt: &crate::mcp::control::Prompt) -> Command {
    Command {
        name: prompt.command.clone(),
        aliases: Vec::new(),
        description: prompt.description.clone(),
        argument_hint: Some(prompt.hint()).filter(|hint| !hint.is_empty()),
        action: CommandAction::Prompt,
        hidden: false,
        while_busy: false,
        headless: true,
        source: ExtensionSource::Mcp(prompt.server.clone()),
        path: None,
    }
}
