//! The commands, skills, agent definitions, output styles and language servers of a session.

use crate::conversation::ConversationShared;
use crate::skills::UnknownStyle;
use lathe_extensions::{
    AgentCatalog, CommandRegistry, OutputStyles, PluginContribution, Problem, Skill, SkillCatalog,
};
use lathe_lsp::Status;
use std::sync::Arc;

/// The commands, skills, agent definitions, output styles and language servers of a session.
///
/// Answers don't wait for a turn that runs.
#[derive(Clone, Copy)]
pub struct ExtensionsHandle<'a> {
    pub(in crate::session) shared: &'a Arc<ConversationShared>,
}

impl ExtensionsHandle<'_> {
    /// All commands of the session: built-in ones, skills, custom ones, plugins' and servers'.
    #[must_use]
    pub fn commands(self) -> CommandRegistry {
        self.shared.commands()
    }

    /// The skills and custom commands.
    #[must_use]
    pub fn skills(self) -> Arc<SkillCatalog> {
        self.shared.integrations.extensions.skills()
    }

    /// The prompts of connected MCP servers, as skills for the model.
    #[must_use]
    pub fn prompt_skills(self) -> Vec<Skill> {
        self.shared.prompt_skills()
    }

    /// The definitions of agents that the session has.
    #[must_use]
    pub fn agents(self) -> Arc<AgentCatalog> {
        self.shared.session.agents.catalog()
    }

    /// The output styles, and the name of the one in effect.
    #[must_use]
    pub fn output_styles(self) -> (Arc<OutputStyles>, String) {
        let extensions = &self.shared.integrations.extensions;
        (extensions.styles(), extensions.style_name())
    }

    /// Chooses an output style for this session; it takes effect with the next request. Gives its name.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn set_output_style(self, name: &str) -> Result<String, UnknownStyle> {
        self.shared.integrations.extensions.change_style(name)
    }

    /// The contributions of plugins.
    #[must_use]
    pub fn contributions(self) -> Vec<PluginContribution> {
        self.shared.integrations.extensions.plugins()
    }

    /// Problems of the files of agents, skills, commands and output styles.
    #[must_use]
    pub fn problems(self) -> Vec<Problem> {
        self.shared.integrations.extensions.problems()
    }

    /// Reads agents, skills, commands and output styles again; with `plugins`, those plugins count from
    /// now on.
    pub fn reload(self, plugins: Option<Vec<PluginContribution>>) {
        let extensions = &self.shared.integrations.extensions;
        let agents = &self.shared.session.agents;
        match plugins {
            Some(plugins) => extensions.set_plugins(plugins, agents),
            None => extensions.reload(agents),
        }
    }

    /// The language servers and where they stand.
    #[must_use]
    pub fn language_servers(self) -> Vec<Status> {
        self.shared.integrations.language.servers.status()
    }
}
