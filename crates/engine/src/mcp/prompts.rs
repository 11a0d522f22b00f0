//! Prompts of MCP servers as commands: `/mcp__server__prompt` with its arguments.

use super::Mcp;
use crate::core::Core;
use lathe_mcp::State;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_tools::mcp_result::{self, Place, clean};
use lathe_tools::mcp_tool::{prefix, tool_name};
use serde_json::{Map, Value};
use std::time::Duration;

/// How long a command waits for a server that is being connected.
const PATIENCE: Duration = Duration::from_secs(30);

/// A prompt of a server, as a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpPrompt {
    /// The command, without the slash.
    pub command: String,
    /// The server.
    pub server: String,
    /// The server's own name for it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its arguments: name, what it is for, whether it must be given.
    pub arguments: Vec<(String, String, bool)>,
}

impl McpPrompt {
    fn parse(server: &str, entry: &Value) -> Option<Self> {
        let name = entry.get("name")?.as_str()?.to_owned();
        let text = |value: &Value, key: &str| {
            let words = value.get(key).and_then(Value::as_str).unwrap_or_default();
            clean(words)
        };
        let arguments = entry.get("arguments").and_then(Value::as_array);
        Some(Self {
            command: tool_name(server, &name),
            server: server.to_owned(),
            description: text(entry, "description"),
            arguments: arguments
                .into_iter()
                .flatten()
                .filter_map(|argument| {
                    let required = argument.get("required").and_then(Value::as_bool);
                    Some((
                        argument.get("name")?.as_str()?.to_owned(),
                        text(argument, "description"),
                        required.unwrap_or(false),
                    ))
                })
                .collect(),
            name,
        })
    }

    /// What may follow the command, in a line.
    #[must_use]
    pub fn hint(&self) -> String {
        let words: Vec<String> = self
            .arguments
            .iter()
            .map(|(name, _, required)| {
                if *required {
                    format!("<{name}>")
                } else {
                    format!("[{name}]")
                }
            })
            .collect();
        words.join(" ")
    }

    /// The arguments of what was typed after the command.
    fn fill(&self, typed: &str) -> Result<Map<String, Value>, String> {
        let mut words = split(typed);
        let mut filled = Map::new();
        // Arguments by name first; what is left goes to the others in their order.
        words.retain(|word| {
            let Some((name, value)) = word.split_once('=') else {
                return true;
            };
            if !self.arguments.iter().any(|(known, ..)| known == name) {
                return true;
            }
            filled.insert(name.to_owned(), value.into());
            false
        });
        let open: Vec<&String> = self
            .arguments
            .iter()
            .map(|(name, ..)| name)
            .filter(|name| !filled.contains_key(*name))
            .collect();
        let count = words.len();
        let mut words = words.into_iter();
        for (index, name) in open.iter().enumerate() {
            let Some(word) = words.next() else { break };
            // The last argument takes whatever is left.
            let value = if index + 1 == open.len() && count > open.len() {
                let rest: Vec<String> = words.by_ref().collect();
                format!("{word} {}", rest.join(" "))
            } else {
                word
            };
            filled.insert((*name).clone(), value.into());
        }
        let missing: Vec<&str> = self
            .arguments
            .iter()
            .filter(|(name, _, required)| *required && !filled.contains_key(name))
            .map(|(name, ..)| name.as_str())
            .collect();
        if !missing.is_empty() {
            return Err(format!(
                "/{} needs {}. Usage: /{} {}",
                self.command,
                missing.join(" and "),
                self.command,
                self.hint()
            ));
        }
        Ok(filled)
    }
}

/// Splits words at blanks; quotes hold words together.
fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote: Option<char> = None;
    let mut begun = false;
    for letter in text.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => word.push(letter),
            None if letter == '"' || (letter == '\'' && !begun) => {
                quote = Some(letter);
                begun = true;
            }
            None if letter.is_whitespace() => {
                if begun {
                    words.push(std::mem::take(&mut word));
                    begun = false;
                }
            }
            None => {
                word.push(letter);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

/// The command that a prompt's words begin with, if it can be one of a server's, and what follows it.
fn command_of(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim().strip_prefix('/')?;
    let (name, typed) = match rest.split_once(char::is_whitespace) {
        Some((name, typed)) => (name, typed.trim()),
        None => (rest, ""),
    };
    name.starts_with("mcp__").then_some((name, typed))
}

impl Mcp {
    /// The prompts of connected servers.
    pub(crate) fn prompts(&self) -> Vec<McpPrompt> {
        let Some(running) = self.running() else {
            return Vec::new();
        };
        running
            .manager
            .prompts()
            .iter()
            .filter_map(|item| McpPrompt::parse(&item.server, &item.item))
            .collect()
    }

    /// What a command becomes; `None` when the text is no command of a server.
    async fn expand(&self, text: &str, place: &Place) -> Option<Result<Vec<ContentBlock>, String>> {
        let (command, typed) = command_of(text)?;
        let running = self.running()?;
        let pending = |server: &lathe_mcp::ServerStatus| {
            server.state == State::Pending && command.starts_with(&prefix(&server.name))
        };
        let mut found = self.find(command);
        if found.is_none() && running.manager.status().iter().any(pending) {
            running.manager.settled(PATIENCE).await;
            found = self.find(command);
        }
        let Some(prompt) = found else {
            return Some(Err(format!(
                "There is no command /{command}: no connected MCP server has such a prompt."
            )));
        };
        let arguments = match prompt.fill(typed) {
            Ok(arguments) => arguments,
            Err(error) => return Some(Err(error)),
        };
        let result = running
            .manager
            .get_prompt(&prompt.server, &prompt.name, Value::Object(arguments))
            .await;
        Some(match result {
            Ok(result) => Ok(blocks(&result, place)),
            Err(error) => Err(format!("/{command} failed: {}", clean(&error.to_string()))),
        })
    }

    fn find(&self, command: &str) -> Option<McpPrompt> {
        self.prompts()
            .into_iter()
            .find(|prompt| prompt.command == command)
    }
}

/// The blocks of a `GetPromptResult`.
fn blocks(result: &Value, place: &Place) -> Vec<ContentBlock> {
    let messages = result.get("messages").and_then(Value::as_array);
    let mut all = Vec::new();
    for message in messages.into_iter().flatten() {
        let Some(content) = message.get("content") else {
            continue;
        };
        if message.get("role").and_then(Value::as_str) == Some("assistant") {
            all.push(ContentBlock::text("You said before:"));
        }
        all.append(&mut mcp_result::of_content(content, place));
    }
    if all.is_empty() {
        all.push(ContentBlock::text("(The prompt is empty.)"));
    }
    all
}

impl Core {
    /// Puts what a server's prompt says after the words that name it. Gives what is wrong, if something is.
    pub(crate) async fn expand_mcp_prompt(&mut self, text: &str) -> Result<(), String> {
        if command_of(text).is_none() {
            return Ok(());
        }
        let shared = self.shared.clone();
        let limit = (shared.tools.environment)("MAX_MCP_OUTPUT_TOKENS");
        let name = format!("prompt-{}", lathe_protocol::ids::RequestId::random());
        let place = Place::new(&shared.tools.results_folder, &name, limit.as_deref());
        match shared.mcp.expand(text, &place).await {
            None => Ok(()),
            Some(Err(error)) => Err(error),
            Some(Ok(blocks)) => {
                let mut record = self.records.user(self.tip, Content::Blocks(blocks));
                record.is_meta = true;
                self.append(record);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn prompt() -> McpPrompt {
        McpPrompt::parse(
            "my server",
            &json!({"name": "ask.me", "description": "d\u{1b}[1m", "arguments": [
                {"name": "city", "required": true}, {"name": "state"}]}),
        )
        .unwrap()
    }

    #[test]
    fn a_prompt_is_a_command_with_a_hint() {
        let prompt = prompt();
        assert_eq!(prompt.command, "mcp__my_server__ask_me");
        assert_eq!(prompt.description, "d");
        assert_eq!(prompt.hint(), "<city> [state]");
        assert_eq!(command_of(" /mcp__a__b  x y "), Some(("mcp__a__b", "x y")));
        assert_eq!(command_of("/clear"), None);
    }

    #[test]
    fn arguments_come_in_order_by_name_and_in_quotes() {
        let filled = |typed: &str| Value::Object(prompt().fill(typed).unwrap());
        assert_eq!(filled("Rome"), json!({"city": "Rome"}));
        assert_eq!(
            filled("\"New York\" NY"),
            json!({"city": "New York", "state": "NY"})
        );
        assert_eq!(
            filled("state=NY 'New York'"),
            json!({"state": "NY", "city": "New York"})
        );
        assert_eq!(
            filled("Rome the old one"),
            json!({"city": "Rome", "state": "the old one"})
        );
        assert_eq!(filled("it's a=b"), json!({"city": "it's", "state": "a=b"}));
        let error = prompt().fill("").unwrap_err();
        assert!(
            error.contains("city") && error.contains("<city> [state]"),
            "{error}"
        );
    }
}
