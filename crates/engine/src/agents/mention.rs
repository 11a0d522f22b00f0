//! `@agent-name` in a prompt: a reminder asks the model to give the work to that agent.
//!
//! It holds for every face, since the words themselves carry it. A name that isn't there is said to the
//! person, with the nearest one; the words stay as they are.

use crate::conversation::Conversation;
use crate::conversation::records::reminder;
use lathe_protocol::event::NoticeLevel;

const START: &str = "@agent-";
/// Mentions of one prompt that are followed.
const MOST: usize = 8;

/// The names that a text mentions, in order, each once.
fn mentioned(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for (at, _) in text.match_indices(START) {
        let starts = text[..at]
            .chars()
            .next_back()
            .is_none_or(|before| before.is_whitespace() || "([{\"'`".contains(before));
        let rest = &text[at + START.len()..];
        let end = rest
            .find(|letter: char| !(letter.is_alphanumeric() || "-_:.".contains(letter)))
            .unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches(['.', ':', '-']);
        if starts && !name.is_empty() && !found.contains(&name) && found.len() < MOST {
            found.push(name);
        }
    }
    found
}

/// Tells the model of the agents that a prompt asks for.
pub(crate) fn attach_agents(conversation: &mut Conversation, text: &str) {
    if !text.contains(START)
        || conversation
            .shared
            .toolbox
            .registry
            .read()
            .find(lathe_tools::agent::NAME)
            .is_none()
    {
        return;
    }
    let catalog = conversation.shared.session.agents.catalog();
    let mut wanted: Vec<&str> = Vec::new();
    for name in mentioned(text) {
        // A file of that name is meant as a file.
        if conversation
            .shared
            .tools
            .resolve_path(&format!("agent-{name}"))
            .exists()
        {
            continue;
        }
        if let Some(definition) = catalog.get(name) {
            wanted.push(&definition.name);
            continue;
        }
        let near =
            lathe_settings::nearest::nearest(name, catalog.iter().map(|agent| agent.name.as_str()));
        let mut text = format!("There is no agent {name}.");
        match near {
            Some(near) => text.push_str(&format!(" Did you mean @agent-{near}?")),
            None => text.push_str(" /agents lists them."),
        }
        conversation
            .shared
            .events
            .notice(NoticeLevel::Warning, text);
    }
    if wanted.is_empty() {
        return;
    }
    let lines: Vec<String> = wanted
        .iter()
        .map(|name| {
            format!(
                "The user asks for the agent {name} by name. Give this work to it with the Agent tool (subagent_type \"{name}\"), with everything in the prompt that it needs to know; it doesn't see this conversation."
            )
        })
        .collect();
    let record = conversation
        .records
        .meta(conversation.tip, reminder(&lines.join("\n")));
    conversation.append(record);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_where_the_sentence_goes_on() {
        assert_eq!(
            mentioned(
                "(@agent-Explore) and @agent-my-tools:fixer, then @agent-Explore. x@agent-no @agent-"
            ),
            ["Explore", "my-tools:fixer"]
        );
    }
}
