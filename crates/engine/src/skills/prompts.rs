//! Prompts of MCP servers as skills: listed to the model and used by the Skill tool.
//!
//! They come and go with their servers, so nothing of them is kept: what is listed and what can be used
//! is what connected servers have at that moment. Servers that nobody approved are never connected and
//! so bring nothing. What a server says is only ever words: nothing in it is filled in or run.

use crate::conversation::ConversationShared;
use crate::mcp::PromptError;
use crate::mcp::control::Prompt;
use lathe_extensions::{ExtensionSource, Skill};
use lathe_mcp::State;
use lathe_permissions::PermissionContext;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::permission::Behavior;
use lathe_tools::mcp_tool::{LONGEST_NAME, prefix, tool_name};
use std::collections::HashSet;
use tokio_util::sync::CancellationToken;

/// Whether a skill is a prompt of a server.
pub(super) fn is_prompt(skill: &Skill) -> bool {
    matches!(skill.source, ExtensionSource::Mcp(_))
}

/// A prompt in the words of the listing. What it takes stands first: the end may be cut.
fn as_skill(prompt: &Prompt) -> Skill {
    let hint = prompt.hint();
    let words = if prompt.description.trim().is_empty() {
        format!("a prompt of the MCP server {}", prompt.server)
    } else {
        prompt.description.clone()
    };
    let description = if hint.is_empty() {
        words
    } else {
        format!("(args: {hint}) {words}")
    };
    let hint = Some(hint).filter(|hint| !hint.is_empty());
    Skill::of_server(&prompt.server, &prompt.command, description, hint)
}

/// Whether a name means a prompt: `mcp__server__prompt`, or `server:prompt` as the server writes it.
fn means(name: &str, command: &str) -> bool {
    name == command
        || name
            .match_indices(':')
            .any(|(at, _)| tool_name(&name[..at], &name[at + 1..]) == command)
}

/// Whether a name would be one of a server's prompts.
fn belongs_to(name: &str, server: &str) -> bool {
    name.starts_with(&prefix(server))
        || name
            .strip_prefix(server)
            .is_some_and(|rest| rest.starts_with(':'))
}

impl ConversationShared {
    /// The prompts that the model may use, each with its skill.
    fn usable_prompts(&self) -> Vec<(Prompt, Skill)> {
        let skills = self.integrations.extensions.skills();
        let mut seen = HashSet::new();
        self.integrations
            .mcp
            .prompts()
            .into_iter()
            .filter(|prompt| prompt.command.len() <= LONGEST_NAME)
            .filter(|prompt| !self.permissions.is_blanket_denied(&prompt.command))
            .filter(|prompt| self.integrations.extensions.is_wanted(&prompt.command))
            .filter(|prompt| skills.get(&prompt.command).is_none())
            .filter(|prompt| seen.insert(prompt.command.clone()))
            .map(|prompt| {
                let skill = as_skill(&prompt);
                (prompt, skill)
            })
            .collect()
    }

    /// The prompts of connected servers, as skills for the model.
    pub(crate) fn prompt_skills(&self) -> Vec<Skill> {
        let all = self.usable_prompts();
        all.into_iter().map(|(_, skill)| skill).collect()
    }

    /// The names of all skills for faces: of files first, then of servers.
    pub(crate) fn skill_names(&self) -> Vec<String> {
        let mut names = self.integrations.extensions.skill_names();
        names.extend(self.prompt_skills().into_iter().map(|skill| skill.name));
        names
    }

    /// The prompt that a name means.
    pub(super) fn prompt_skill(&self, name: &str) -> Option<(Prompt, Skill)> {
        if !name.contains("__") && !name.contains(':') {
            return None;
        }
        let mut all = self.usable_prompts().into_iter();
        all.find(|(prompt, _)| means(name, &prompt.command))
    }

    /// Waits for a server that is being connected, if a name is one of its prompts.
    pub(super) async fn await_prompt(&self, name: &str) {
        if self.prompt_skill(name).is_none() {
            self.integrations
                .mcp
                .await_pending(|server| belongs_to(name, server))
                .await;
        }
    }

    /// Why a name that would be a prompt's is none now.
    pub(super) fn missing_prompt(&self, name: &str) -> Option<String> {
        let away = self
            .integrations
            .mcp
            .states()
            .into_iter()
            .find(|(server, state)| *state != State::Connected && belongs_to(name, server));
        if let Some((server, state)) = away {
            let why = match state {
                State::Failed { reason } => format!("can't be used: {reason}"),
                State::NeedsAuth => "requires sign-in".to_owned(),
                State::Disabled => "is disabled".to_owned(),
                State::Pending | State::Connected => "is being connected".to_owned(),
            };
            return Some(format!(
                "The skill {name} is not available: its MCP server {server} {why}."
            ));
        }
        name.starts_with("mcp__").then(|| {
            format!("There is no skill {name}: no connected MCP server has such a prompt.")
        })
    }

    /// Whether a use of a prompt needs no question. Words are harmless; arguments go to the server, and
    /// that takes what calling its tools takes.
    pub(super) fn may_use_prompt(&self, name: &str, arguments: &str) -> bool {
        let context = self.permissions.snapshot();
        let on = |context: &PermissionContext, behavior| {
            let mut rules = context.rules.with(behavior);
            rules.any(|rule| rule.covers_whole(&[name]))
        };
        !on(&context, Behavior::Ask)
            && (arguments.trim().is_empty() || on(&context, Behavior::Allow))
    }

    /// The content of a prompt.
    ///
    /// # Errors
    /// When an argument is missing or the server doesn't give it.
    pub(super) async fn prompt_text(
        &self,
        prompt: &Prompt,
        arguments: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<ContentBlock>, PromptError> {
        let place = self.place_of_prompt();
        let asked = self.integrations.mcp.ask_prompt(prompt, arguments, &place);
        let blocks = tokio::select! {
            blocks = asked => blocks?,
            () = cancel.cancelled() => return Err(PromptError::Interrupted),
        };
        let content = Content::Blocks(blocks.clone());
        self.integrations
            .extensions
            .note_use(&prompt.command, &content.text());
        Ok(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_meant_by_either_of_its_names() {
        let command = "mcp__my_server__ask_me";
        for name in [command, "my server:ask.me", "my_server:ask_me"] {
            assert!(means(name, command), "{name}");
        }
        for name in ["ask_me", "mcp__my_server__ask", "other:ask_me", ""] {
            assert!(!means(name, command), "{name}");
        }
        assert!(belongs_to("a:b:c", "a:b") && belongs_to("mcp__a_b__c", "a:b"));
        assert!(!belongs_to("ab:c", "a"));
    }
}
