//! The commands of a session: built-in ones, skills, custom ones, and prompts of MCP servers.

use crate::conversation::ConversationShared;
use lathe_extensions::{Command, CommandAction, CommandRegistry, ExtensionSource};

impl ConversationShared {
    pub(crate) fn commands(&self) -> CommandRegistry {
        CommandRegistry::new(
            &self.integrations.extensions.skills(),
            &self.prompt_commands(),
        )
    }

    fn prompt_commands(&self) -> Vec<Command> {
        self.integrations
            .mcp
            .prompts()
            .iter()
            .map(of_server)
            .collect()
    }

    /// The names of commands that work without a terminal.
    pub(crate) fn command_names(&self) -> Vec<String> {
        let skills = self.integrations.extensions.skills();
        CommandRegistry::names_without_terminal(&skills, &self.prompt_commands())
    }
}

/// A server's prompt as a command.
fn of_server(prompt: &crate::mcp::control::Prompt) -> Command {
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
