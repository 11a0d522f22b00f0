//! The search that a provider runs itself, as one question.
//!
//! The question is written in the Messages shape with the server's tool in its list; the translators make the
//! provider's own form of it and give the results back as blocks of that shape.

use crate::ask::{self, AskError, Question};
use crate::providers::Kind;
use crate::{Catalog, ModelRequest, Provider, RecoveryPolicy};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::message::AssistantMessage;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// How often a provider searches for one question.
const MOST_SEARCHES: u32 = 8;
/// The name and the kind of the tool in the Messages shape.
const TOOL: &str = "web_search";
const KIND: &str = "web_search_20250305";
/// The block with results.
const RESULTS: &str = "web_search_tool_result";

/// A search.
#[derive(Debug, Clone)]
pub struct WebQuestion {
    /// The model that searches.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The words.
    pub words: String,
    /// Only these domains.
    pub allowed: Vec<String>,
    /// Not these.
    pub blocked: Vec<String>,
    /// The most tokens of the answer.
    pub max_tokens: u32,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebPart {
    /// Words.
    Text(String),
    /// Results: title and address.
    Results {
        /// The call that they belong to.
        id: String,
        /// Title and address of each.
        pages: Vec<(String, String)>,
    },
    /// A search failed.
    Failed(String),
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct WebAnswer {
    /// Its parts in order.
    pub parts: Vec<WebPart>,
    /// Model and usage.
    pub header: AssistantMessage,
}

/// Whether the provider of a model has a search of its own.
#[must_use]
pub fn has_search(catalog: &Catalog, model: &str) -> bool {
    let providers = catalog.providers();
    let entry = providers.get(providers.located(model).provider);
    entry.is_some_and(|entry| {
        matches!(
            entry.kind,
            Kind::Anthropic | Kind::Responses | Kind::Gemini | Kind::Vertex
        )
    })
}

/// The server's tool in a list of tools of the Messages shape, if it is there.
pub(crate) fn search_tool(tools: &[u8]) -> Option<Value> {
    if tools.len() > 4_096 {
        // It never stands beside a session's own tools.
        return None;
    }
    let list: Vec<Value> = serde_json::from_slice(tools).ok()?;
    list.into_iter().find(|tool| tool["type"] == KIND)
}

/// A block with results of the Messages shape.
pub(crate) fn results_block(id: &str, pages: &[(String, String)]) -> ContentBlock {
    let content: Vec<Value> = pages
        .iter()
        .map(|(title, url)| json!({"type": "web_search_result", "title": title, "url": url}))
        .collect();
    ContentBlock::Other(json!({"type": RESULTS, "tool_use_id": id, "content": content}))
}

impl WebQuestion {
    fn request(&self) -> Result<ModelRequest, AskError> {
        let question = Question {
            model: self.model.clone(),
            system: self.system.clone(),
            prompt: format!("Search the web for: {}", self.words),
            max_tokens: self.max_tokens,
        };
        let mut request = question.request()?;
        let mut tool = json!({"type": KIND, "name": TOOL, "max_uses": MOST_SEARCHES});
        if !self.allowed.is_empty() {
            tool["allowed_domains"] = json!(self.allowed);
        }
        if !self.blocked.is_empty() {
            tool["blocked_domains"] = json!(self.blocked);
        }
        request.tools = json!([tool]).to_string().into();
        Ok(request)
    }
}

/// Searches.
///
/// # Errors
/// When the provider fails for good, or its answer can't be read.
pub async fn search(
    provider: Arc<dyn Provider>,
    question: &WebQuestion,
    cancel: &CancellationToken,
) -> Result<WebAnswer, AskError> {
    let request = question.request()?;
    let policy = RecoveryPolicy::default();
    let assembler = ask::assembled(provider, request, policy, cancel).await?;
    let message = assembler.partial().ok_or(AskError::Nothing)?;
    Ok(WebAnswer {
        parts: parts(&message.content),
        header: AssistantMessage {
            content: Vec::new(),
            ..message
        },
    })
}

fn parts(blocks: &[ContentBlock]) -> Vec<WebPart> {
    let mut parts = Vec::new();
    for block in blocks {
        match block {
            ContentBlock::Text(text) => match parts.last_mut() {
                // A sentence comes in pieces, one for each of its sources.
                Some(WebPart::Text(before)) => before.push_str(&text.text),
                _ => parts.push(WebPart::Text(text.text.clone())),
            },
            ContentBlock::Other(value) if value["type"] == RESULTS => parts.push(of_results(value)),
            _ => {}
        }
    }
    parts.retain(|part| !matches!(part, WebPart::Text(text) if text.trim().is_empty()));
    parts
}

fn of_results(value: &Value) -> WebPart {
    let id = value["tool_use_id"].as_str().unwrap_or_default().to_owned();
    if let Some(code) = value["content"]["error_code"].as_str() {
        return WebPart::Failed(code.to_owned());
    }
    let text = |page: &Value, key: &str| page[key].as_str().unwrap_or_default().to_owned();
    let pages = value["content"].as_array().into_iter().flatten();
    let pages = pages.map(|page| (text(page, "title"), text(page, "url")));
    WebPart::Results {
        id,
        pages: pages.filter(|(_, url)| !url.is_empty()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_words_results_and_failures_in_order() {
        let blocks: Vec<ContentBlock> = serde_json::from_value(json!([
            {"type": "text", "text": "I look. "},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [
                {"type": "web_search_result", "title": "A", "url": "https://a.example/", "encrypted_content": "…"}]},
            {"type": "web_search_tool_result", "tool_use_id": "s2", "content":
                {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}},
            {"type": "text", "text": "One "},
            {"type": "text", "text": "sentence.", "citations": []},
        ]))
        .unwrap();
        let expected = vec![
            WebPart::Text("I look. ".to_owned()),
            WebPart::Results {
                id: "s1".to_owned(),
                pages: vec![("A".to_owned(), "https://a.example/".to_owned())],
            },
            WebPart::Failed("max_uses_exceeded".to_owned()),
            WebPart::Text("One sentence.".to_owned()),
        ];
        assert_eq!(parts(&blocks), expected);
    }

    #[test]
    fn the_servers_tool_is_found_in_a_list() {
        let question = WebQuestion {
            model: "m".to_owned(),
            system: "s".to_owned(),
            words: "w".to_owned(),
            allowed: vec!["a.example".to_owned()],
            blocked: Vec::new(),
            max_tokens: 100,
        };
        let request = question.request().unwrap();
        let tool = search_tool(&request.tools).unwrap();
        assert_eq!(tool["max_uses"], 8);
        assert_eq!(tool["allowed_domains"], json!(["a.example"]));
        assert_eq!(
            search_tool(br#"[{"name": "Read", "input_schema": {}}]"#),
            None
        );
    }
}
