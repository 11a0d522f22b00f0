//! Resources that a prompt mentions: `@server:uri`.

use crate::conversation::Conversation;
use crate::conversation::records::reminder;
use lathe_mcp::Manager;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::event::NoticeLevel;
use lathe_settings::Variable;
use lathe_tools::mcp_resources::names_closed_file;
use lathe_tools::mcp_result::{self, ResultStore, clean};
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How many resources of one prompt are read.
const MOST_MENTIONS: usize = 10;
/// How long a prompt waits for one.
const PATIENCE: Duration = Duration::from_secs(30);

/// A resource of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpResource {
    /// The server.
    pub server: String,
    /// Its address; a template has parts in braces.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its media type, if the server says it.
    pub mime_type: Option<String>,
    /// Whether the address is a template.
    pub is_template: bool,
}

/// The resources of connected servers, and their templates.
pub(super) fn resources(manager: &Manager) -> Vec<McpResource> {
    let read = |server: String, item: &serde_json::Value, key: &str| {
        let text = |name: &str| {
            item.get(name)
                .and_then(serde_json::Value::as_str)
                .map(clean)
        };
        Some(McpResource {
            server,
            uri: text(key)?,
            name: text("title").or_else(|| text("name")).unwrap_or_default(),
            description: text("description").unwrap_or_default(),
            mime_type: text("mimeType"),
            is_template: key == "uriTemplate",
        })
    };
    let plain = manager.resources().into_iter();
    let templates = manager.resource_templates().into_iter();
    plain
        .filter_map(|item| read(item.server, &item.item, "uri"))
        .chain(templates.filter_map(|item| read(item.server, &item.item, "uriTemplate")))
        .collect()
}

/// The mentions of a text: server and address. Only names of servers are mentions.
fn mentions(text: &str, servers: &[String]) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        let starts = letter == '@' && (before.is_whitespace() || "([{\"'`".contains(before));
        before = letter;
        if !starts {
            continue;
        }
        let word = text[at + 1..]
            .split(char::is_whitespace)
            .next()
            .unwrap_or_default()
            .trim_end_matches(['.', ',', ';', ')', ']', '!', '?', '`', '\'', '"']);
        let server = servers
            .iter()
            .filter(|server| {
                word.strip_prefix(server.as_str())
                    .is_some_and(|rest| rest.len() > 1 && rest.starts_with(':'))
            })
            .max_by_key(|server| server.len());
        if let Some(server) = server {
            let mention = (server.clone(), word[server.len() + 1..].to_owned());
            if !found.contains(&mention) && found.len() < MOST_MENTIONS {
                found.push(mention);
            }
        }
    }
    found
}

/// Attaches the resources that a prompt mentions. One that can't be read is reported.
pub(crate) async fn attach_resources(
    conversation: &mut Conversation,
    text: &str,
    cancel: &CancellationToken,
) {
    let shared = conversation.shared.clone();
    let Some(running) = shared.integrations.mcp.running() else {
        return;
    };
    if !text.contains('@') {
        return;
    }
    let servers: Vec<String> = running
        .manager
        .status()
        .into_iter()
        .map(|server| server.name)
        .collect();
    for (server, uri) in mentions(text, &servers) {
        let folder = shared.tools.working_folder.read().clone();
        if names_closed_file(&uri, &folder, &shared.tools.secrets) {
            let why = "it may contain secrets, or a rule denies it";
            shared.events.notice(
                NoticeLevel::Warning,
                clean(&format!("@{server}:{uri} was not attached: {why}")),
            );
            continue;
        }
        let caller: &dyn lathe_tools::mcp_tool::McpCaller = running.caller.as_ref();
        let reading = caller.read_resource(&server, &uri, cancel.child_token());
        let result = tokio::time::timeout(PATIENCE, reading)
            .await
            .unwrap_or(Err(lathe_tools::mcp_tool::McpCallError::TimedOut));
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                shared.events.notice(
                    NoticeLevel::Warning,
                    clean(&format!("@{server}:{uri} was not attached: {error}")),
                );
                continue;
            }
        };
        let limit = shared.tools.environment.get(Variable::MaxMcpOutputTokens);
        let name = format!("resource-{}", lathe_protocol::ids::RequestId::random());
        let place = ResultStore::new(&shared.tools.results_folder, &name, limit);
        let read = lathe_spawn::blocking(move || mcp_result::of_resource(&result, &place));
        let Ok(output) = read.await else { continue };
        let words = format!(
            "The user mentioned {} of the MCP server {server}:",
            clean(&uri)
        );
        let mut blocks = vec![ContentBlock::text(reminder(&words))];
        if let Content::Blocks(mut more) = output.content {
            blocks.append(&mut more);
        }
        let content = serde_json::to_value(&blocks).unwrap_or_default();
        let attachment =
            json!({"type": "mcp_resource", "server": server, "uri": uri, "content": content});
        let record = conversation
            .records
            .attachment(conversation.tip, attachment);
        conversation.append(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_servers_are_mentions() {
        let servers = ["docs".to_owned(), "docs-2".to_owned()];
        let found = mentions(
            "see @docs:file:///a.md, (@docs-2:x://y?a=b) @other:z me@docs:q @docs: @docs:file:///a.md",
            &servers,
        );
        assert_eq!(
            found,
            [
                ("docs".to_owned(), "file:///a.md".to_owned()),
                ("docs-2".to_owned(), "x://y?a=b".to_owned())
            ]
        );
    }
}
