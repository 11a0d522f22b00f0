//! A request as the server got it, with the questions that tests ask about it.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

/// A request as the server got it.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// `POST` and so on.
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as JSON; `null` if it wasn't JSON. Under [`crate::Validation::Light`], `messages`
    /// holds only the last two.
    pub body: Value,
    /// The body as it came.
    pub raw_body: Bytes,
    /// How many requests came before this one (to any path).
    pub received_at_index: usize,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub http_version: String,
}

impl RecordedRequest {
    /// A header as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The API key or bearer token.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        let own = self
            .header("x-api-key")
            .or_else(|| self.header("x-goog-api-key"));
        own.or_else(|| self.header("api-key")).or_else(|| {
            let value = self.header("authorization")?;
            value
                .strip_prefix("Bearer ")
                .or_else(|| value.strip_prefix("bearer "))
        })
    }

    /// The model that is asked for.
    #[must_use]
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Whether the answer shall be streamed.
    #[must_use]
    pub fn wants_stream(&self) -> bool {
        self.body["stream"].as_bool().unwrap_or_default()
    }

    /// The messages.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The names of the tools that are offered.
    #[must_use]
    pub fn tool_names(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        tools
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .collect()
    }

    /// The system prompt as text.
    #[must_use]
    pub fn system_text(&self) -> String {
        text_of(&self.body["system"])
    }

    /// The text of the last user message, without tool results.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        let last = self
            .messages()
            .iter()
            .rev()
            .find(|message| message["role"] == "user");
        last.map(|message| text_of(&message["content"]))
            .unwrap_or_default()
    }

    /// The text of the last tool result in the last user message; empty if there is none.
    #[must_use]
    pub fn last_tool_result(&self) -> String {
        self.last_results()
            .last()
            .map(|result| text_of(&result["content"]))
            .unwrap_or_default()
    }

    /// The tool results of the last user message.
    #[must_use]
    pub fn last_results(&self) -> Vec<&Value> {
        let last = self
            .messages()
            .iter()
            .rev()
            .find(|message| message["role"] == "user");
        let blocks = last.and_then(|message| message["content"].as_array());
        blocks
            .into_iter()
            .flatten()
            .filter(|block| block["type"] == "tool_result")
            .collect()
    }

    /// The names of the tools whose results are in the last user message.
    #[must_use]
    pub fn answered_tools(&self) -> Vec<String> {
        let results = self.last_results();
        let assistant = self
            .messages()
            .iter()
            .rev()
            .find(|message| message["role"] == "assistant");
        let calls = assistant.and_then(|message| message["content"].as_array());
        calls
            .into_iter()
            .flatten()
            .filter(|block| block["type"] == "tool_use")
            .filter(|call| {
                results
                    .iter()
                    .any(|result| result["tool_use_id"] == call["id"])
            })
            .filter_map(|call| call["name"].as_str().map(str::to_owned))
            .collect()
    }

    /// The tool result for a call, wherever it is in the conversation.
    #[must_use]
    pub fn result_of(&self, tool_use_id: &str) -> Option<&Value> {
        self.messages()
            .iter()
            .filter_map(|message| message["content"].as_array())
            .flatten()
            .find(|block| block["type"] == "tool_result" && block["tool_use_id"] == tool_use_id)
    }

    /// The request as one JSON object, keys hidden.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let headers: serde_json::Map<String, Value> = self
            .headers
            .iter()
            .map(|(name, value)| {
                let secret = matches!(name.as_str(), "x-api-key" | "authorization");
                let shown = if secret {
                    "***"
                } else {
                    value.to_str().unwrap_or("(binary)")
                };
                (name.to_string(), Value::from(shown))
            })
            .collect();
        json!({
            "index": self.received_at_index,
            "method": self.method,
            "path": self.path,
            "http_version": self.http_version,
            "headers": headers,
            "body": self.body,
        })
    }

    #[cfg(test)]
    pub(crate) fn for_test(body: Value) -> Self {
        Self {
            method: "POST".into(),
            path: "/v1/messages".into(),
            headers: HeaderMap::new(),
            raw_body: serde_json::to_vec(&body).unwrap().into(),
            body,
            received_at_index: 0,
            http_version: "HTTP/1.1".into(),
        }
    }
}

/// The text of a content value: a string, or the text blocks of a list, joined by line ends.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks
                .iter()
                .filter(|block| block["type"] == "text")
                .filter_map(|block| block["text"].as_str())
                .collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
