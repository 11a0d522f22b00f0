//! Prompts of MCP servers as commands: `/mcp__server__prompt` with its arguments. The model uses the same
//! ones as skills (`crate::skills`).

use super::Mcp;
use crate::conversation::Conversation;
use lathe_mcp::{Manager, State};
use lathe_protocol::command::Invocation;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_tools::mcp_result::{self, ResultStore, clean};
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
    /// Its description.
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

    /// The arguments of the command, in a line.
    #[must_use]
    pub fn hint(&self) -> String {
        let words: Vec<String> = self
            .arguments
            .iter()
            .map(|(name, _, required)| {
                let name = clean(name);
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
    fn fill(&self, typed: &str) -> Result<Map<String, Value>, Missing> {
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
            return Err(Missing {
                command: self.command.clone(),
                names: clean(&missing.join(" and ")),
                hint: self.hint(),
            });
        }
        Ok(filled)
    }

    /// Whether everything is given that must be.
    pub(crate) fn check(&self, typed: &str) -> Result<(), Missing> {
        self.fill(typed).map(|_| ())
    }
}

/// Arguments that must be given and weren't.
#[derive(Debug)]
pub(crate) struct Missing {
    command: String,
    names: String,
    hint: String,
}

impl Missing {
    /// For someone who typed the command.
    fn for_person(&self) -> String {
        let Self {
            command,
            names,
            hint,
        } = self;
        format!("/{command} needs {names}. Usage: /{command} {hint}")
    }

    /// For the model, which calls a tool.
    pub(crate) fn for_model(&self) -> String {
        let Self {
            command,
            names,
            hint,
        } = self;
        format!(
            "The skill {command} needs {names}. Give it in args, in this order, with quotes around arguments that contain spaces: {hint}"
        )
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

impl Mcp {
    /// The prompts of connected servers.
    pub(crate) fn prompts(&self) -> Vec<McpPrompt> {
        let may_use = |command: &str| {
            let agent = self.of_agent.as_ref();
            agent.is_none_or(|agent| !agent.filter.removes_named(command))
        };
        self.managers()
            .iter()
            .flat_map(Manager::prompts)
            .filter_map(|item| McpPrompt::parse(&item.server, &item.item))
            .filter(|prompt| may_use(&prompt.command))
            .collect()
    }

    /// The content that a command of a server stands for; `None` when no server is configured.
    async fn expand(
        &self,
        command: &Invocation,
        place: &ResultStore,
    ) -> Option<Result<Vec<ContentBlock>, ExpandError>> {
        let (command, typed) = (command.name.as_str(), command.arguments.as_str());
        self.running()?;
        let mut found = self.find(command);
        if found.is_none() {
            self.await_pending(|server| command.starts_with(&prefix(server)))
                .await;
            found = self.find(command);
        }
        let Some(prompt) = found else {
            return Some(Err(ExpandError::Unknown(command.to_owned())));
        };
        if let Err(missing) = prompt.check(typed) {
            return Some(Err(ExpandError::Missing(missing)));
        }
        let blocks = self.ask_prompt(&prompt, typed, place).await;
        Some(blocks.map_err(ExpandError::Prompt))
    }

    /// Asks a server for a prompt.
    ///
    /// # Errors
    /// When an argument is missing or the server doesn't give it. The message begins with the command's name.
    pub(crate) async fn ask_prompt(
        &self,
        prompt: &McpPrompt,
        typed: &str,
        place: &ResultStore,
    ) -> Result<Vec<ContentBlock>, PromptError> {
        let command = &prompt.command;
        let arguments = prompt.fill(typed).map_err(PromptError::Missing)?;
        let managers = self.managers();
        let manager = managers
            .iter()
            .find(|manager| manager.server(&prompt.server).is_some())
            .ok_or_else(|| PromptError::ServerGone(command.clone()))?;
        let result = manager
            .get_prompt(&prompt.server, &prompt.name, Value::Object(arguments))
            .await;
        match result {
            Ok(result) => Ok(blocks(&result, place)),
            Err(source) => Err(PromptError::Server {
                command: command.clone(),
                source,
            }),
        }
    }

    /// Waits for servers that are being connected, if one of them is meant.
    pub(crate) async fn await_pending(&self, is_meant: impl Fn(&str) -> bool) {
        let pending = |server: &lathe_mcp::ServerStatus| {
            server.state == State::Pending && is_meant(&server.name)
        };
        for manager in self.managers() {
            if manager.status().iter().any(pending) {
                manager.settled(PATIENCE).await;
            }
        }
    }

    /// All servers, and where they stand.
    pub(crate) fn states(&self) -> Vec<(String, State)> {
        let all = self.managers();
        all.iter()
            .flat_map(Manager::status)
            .map(|server| (server.name, server.state))
            .collect()
    }

    fn find(&self, command: &str) -> Option<McpPrompt> {
        self.prompts()
            .into_iter()
            .find(|prompt| prompt.command == command)
    }
}

/// Why a server's prompt has no content. The message begins with the command's name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PromptError {
    #[error("{}", .0.for_model())]
    Missing(Missing),
    #[error("{0} failed: its MCP server is no longer connected")]
    ServerGone(String),
    #[error("{command} failed: {}", clean(&source.to_string()))]
    Server {
        command: String,
        source: lathe_mcp::McpError,
    },
    #[error("It was interrupted.")]
    Interrupted,
}

/// Why the user's command for a server's prompt is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExpandError {
    #[error("There is no command /{0}: no connected MCP server has such a prompt.")]
    Unknown(String),
    #[error("{}", .0.for_person())]
    Missing(Missing),
    #[error("/{0}")]
    Prompt(#[source] PromptError),
}

/// The blocks of a `GetPromptResult`.
fn blocks(result: &Value, place: &ResultStore) -> Vec<ContentBlock> {
    let messages = result.get("messages").and_then(Value::as_array);
    // All in one, so that the limit is for all of them.
    let mut items = Vec::new();
    for message in messages.into_iter().flatten() {
        let Some(content) = message.get("content") else {
            continue;
        };
        let text = |words: &str| serde_json::json!({"type": "text", "text": words});
        if message.get("role").and_then(Value::as_str) == Some("assistant") {
            items.push(text("You said before:"));
        }
        match content {
            Value::Array(parts) => items.extend(parts.iter().cloned()),
            Value::String(words) => items.push(text(words)),
            part => items.push(part.clone()),
        }
    }
    if items.is_empty() {
        return vec![ContentBlock::text("(The prompt is empty.)")];
    }
    mcp_result::of_content(&Value::Array(items), place)
}

/// Adds the content of a server's prompt after the prompt that names it.
///
/// # Errors
/// When there is no such prompt or its server doesn't give it.
pub(crate) async fn expand_mcp_prompt(
    conversation: &mut Conversation,
    command: Option<&Invocation>,
) -> Result<(), ExpandError> {
    let Some(command) = command.filter(|command| command.name.starts_with("mcp__")) else {
        return Ok(());
    };
    let shared = conversation.shared.clone();
    let place = shared.place_of_prompt();
    match shared.integrations.mcp.expand(command, &place).await {
        None => Ok(()),
        Some(Err(error)) => Err(error),
        Some(Ok(blocks)) => {
            let mut record = conversation
                .records
                .user(conversation.tip, Content::Blocks(blocks));
            record.is_meta = true;
            conversation.append(record);
            Ok(())
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
        let missing = prompt().fill("").unwrap_err();
        for error in [missing.for_person(), missing.for_model()] {
            assert!(
                error.contains("needs city") && error.contains("<city> [state]"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_limit_is_for_all_messages_of_a_prompt() {
        let folder = tempfile::tempdir().unwrap();
        let place = ResultStore::new(folder.path(), "p", Some("100"));
        let message = |role: &str, content: Value| json!({"role": role, "content": content});
        let few = json!({"messages": [
            message("user", json!({"type": "text", "text": "a\u{1b}[1mb"})),
            message("assistant", json!("c")),
        ]});
        let said = Content::Blocks(blocks(&few, &place)).text();
        for words in ["ab", "You said before:", "c"] {
            assert!(said.contains(words), "{said}");
        }
        let part = message("user", json!({"type": "text", "text": "word ".repeat(50)}));
        let many = json!({"messages": vec![part; 50]});
        let said = Content::Blocks(blocks(&many, &place)).text();
        assert!(said.contains("too large to show"), "{said}");
        assert!(said.len() < 4_000, "{}", said.len());
        let empty = Content::Blocks(blocks(&json!({}), &place)).text();
        assert_eq!(empty, "(The prompt is empty.)");
    }
}
