//! A scenario: the replies, in the order or under the conditions they are given, and the rules
//! that requests are held to.
//!
//! As a file it is JSON with the same names as the Rust fields; what is left out has its default:
//!
//! ```
//! # let text = r#"
//! {
//!   "replies": [
//!     {"text": "Let me look.", "content": [{"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}]},
//!     {"text": "Done.", "when": {"tool_result_for": "Bash"}, "usage": {"output_tokens": 7}},
//!     {"fault": {"error": {"status": 429}}, "headers": {"retry-after": "1"}, "repeat": 2},
//!     {"text": "slow", "chunks": {"bytes": 3}, "chunk_delay_ms": 5},
//!     {"text": "held", "pauses": [{"at": {"mid_block": 0}, "wait": {"gate": "go"}}]},
//!     {"text": "dropped", "cut": {"at": {"byte": 200}, "how": "drop"}},
//!     {"text": "busy", "cut": {"at": {"before_event": "message_delta"},
//!       "how": {"error_event": {"kind": "overloaded_error", "message": "Overloaded"}}}},
//!     {"text": "title", "when": {"system_contains": "title"}, "repeat": "forever", "optional": true}
//!   ],
//!   "accepted_keys": ["secret"]
//! }
//! # "#;
//! # let scenario: lathe_scripted::Scenario = serde_json::from_str(text).unwrap();
//! # assert_eq!(scenario.replies.len(), 8);
//! ```

use crate::reply::{Repeat, Reply};
use crate::request::RecordedRequest;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Makes up a reply from a request.
pub type Responder = Arc<dyn Fn(&RecordedRequest) -> Reply + Send + Sync>;

/// The behaviour of the server.
///
/// A request gets the first unused reply whose [`When`] fits it, or else the first unused reply
/// without a condition, or else what the responder makes up. When nothing is left the request is
/// answered with a `400` and is a problem.
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// The replies.
    pub replies: Vec<Reply>,
    /// How closely requests are looked at.
    pub validation: Validation,
    /// Top-level request fields that are fine beyond those of the API.
    pub allowed_fields: Vec<String>,
    /// Keys (or bearer tokens) that are let in; everybody is if there are none.
    pub accepted_keys: Vec<String>,
    /// Tokens that a request may have before it is refused as too long; no limit by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The shortest prefix that the prompt cache keeps, in tokens.
    pub cache_minimum_tokens: u64,
    /// Whether `anthropic-ratelimit-*` headers are sent.
    pub rate_limit_headers: bool,
    /// Whether requests are kept for [`crate::ScriptedServer::requests`]. A benchmark turns it off.
    pub keep_requests: bool,
    /// The models that `GET /v1/models` lists.
    pub models: Vec<String>,
    /// Makes up replies when the list has none that fits.
    #[serde(skip)]
    pub responder: Option<Responder>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            replies: Vec::new(),
            validation: Validation::Full,
            allowed_fields: Vec::new(),
            accepted_keys: Vec::new(),
            context_window: None,
            cache_minimum_tokens: 1024,
            rate_limit_headers: false,
            keep_requests: true,
            models: ["claude-opus-4-6", "claude-sonnet-4-6", "claude-haiku-4-5"]
                .map(str::to_owned)
                .to_vec(),
            responder: None,
        }
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario")
            .field("replies", &self.replies)
            .field("validation", &self.validation)
            .field("responder", &self.responder.is_some())
            .finish_non_exhaustive()
    }
}

/// How closely requests are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validation {
    /// As the API does.
    #[default]
    Full,
    /// Only the headers and the top-level fields. Messages but the last two are neither parsed nor
    /// kept in [`RecordedRequest::body`], and no prompt cache is kept, so that the server stays out
    /// of a benchmark's way.
    Light,
    /// Nothing: for other programs, which send more than is modelled here. Otherwise as [`Validation::Light`].
    Off,
}

/// A condition on a request. All fields that are given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// The text of the last user message contains this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_user_text_contains: Option<String>,
    /// The last message has a result of this tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result_for: Option<String>,
    /// The last message has a tool result containing this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result_contains: Option<String>,
    /// The request names this model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The system prompt contains this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_contains: Option<String>,
    /// The request is this one, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_index: Option<usize>,
    /// Whether the request offers no tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools_empty: Option<bool>,
    /// Whether the request wants a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
}

impl When {
    /// The text of the last user message contains this.
    pub fn last_user_text_contains(text: impl Into<String>) -> Self {
        Self {
            last_user_text_contains: Some(text.into()),
            ..Self::default()
        }
    }

    /// The last message has a result of this tool.
    pub fn tool_result_for(tool: impl Into<String>) -> Self {
        Self {
            tool_result_for: Some(tool.into()),
            ..Self::default()
        }
    }

    /// The request names this model.
    pub fn model(model: impl Into<String>) -> Self {
        Self {
            model: Some(model.into()),
            ..Self::default()
        }
    }

    /// The system prompt contains this.
    pub fn system_contains(text: impl Into<String>) -> Self {
        Self {
            system_contains: Some(text.into()),
            ..Self::default()
        }
    }

    /// The request is this one, counted from 0.
    #[must_use]
    pub fn request_index(index: usize) -> Self {
        Self {
            request_index: Some(index),
            ..Self::default()
        }
    }

    /// The request offers no tools.
    #[must_use]
    pub fn tools_empty() -> Self {
        Self {
            tools_empty: Some(true),
            ..Self::default()
        }
    }

    /// Whether the request fits.
    #[must_use]
    pub fn fits(&self, request: &RecordedRequest) -> bool {
        let contains = |want: &Option<String>, have: &dyn Fn() -> String| {
            want.as_ref()
                .is_none_or(|want| have().contains(want.as_str()))
        };
        contains(&self.last_user_text_contains, &|| request.last_user_text())
            && contains(&self.tool_result_contains, &|| request.last_tool_result())
            && contains(&self.system_contains, &|| request.system_text())
            && self
                .tool_result_for
                .as_ref()
                .is_none_or(|tool| request.answered_tools().iter().any(|name| name == tool))
            && self
                .model
                .as_ref()
                .is_none_or(|model| request.model() == model)
            && self
                .request_index
                .is_none_or(|index| request.received_at_index == index)
            && self
                .tools_empty
                .is_none_or(|empty| request.tool_names().is_empty() == empty)
            && self
                .stream
                .is_none_or(|stream| request.wants_stream() == stream)
    }
}

/// Why a scenario can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file can't be read.
    #[error("can't read the scenario {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file isn't a scenario.
    #[error("{path} is not a scenario: {source}")]
    Parse {
        /// The file.
        path: String,
        /// Why, with line and column.
        source: serde_json::Error,
    },
}

impl Scenario {
    /// A scenario without replies.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a scenario file.
    ///
    /// # Errors
    /// When the file can't be read or isn't a scenario.
    pub fn from_file(path: &Path) -> Result<Self, ScenarioError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| ScenarioError::Read {
            path: shown.clone(),
            source,
        })?;
        serde_json::from_str(&text).map_err(|source| ScenarioError::Parse {
            path: shown,
            source,
        })
    }

    /// Adds a reply.
    #[must_use]
    pub fn reply(mut self, reply: Reply) -> Self {
        self.replies.push(reply);
        self
    }

    /// Makes up replies when the list has none that fits.
    #[must_use]
    pub fn responder(
        mut self,
        responder: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        self.responder = Some(Arc::new(responder));
        self
    }

    /// Sets how closely requests are looked at.
    #[must_use]
    pub fn validation(mut self, validation: Validation) -> Self {
        self.validation = validation;
        self
    }

    /// Lets requests have another top-level field.
    #[must_use]
    pub fn allow_field(mut self, name: impl Into<String>) -> Self {
        self.allowed_fields.push(name.into());
        self
    }

    /// Lets only this key in (and those given before); others get a `401`, which is no problem.
    #[must_use]
    pub fn accept_key(mut self, key: impl Into<String>) -> Self {
        self.accepted_keys.push(key.into());
        self
    }

    /// Refuses requests of more tokens as too long, which is no problem.
    #[must_use]
    pub fn context_window(mut self, tokens: u64) -> Self {
        self.context_window = Some(tokens);
        self
    }

    /// Sets the shortest prefix that the prompt cache keeps.
    #[must_use]
    pub fn cache_minimum_tokens(mut self, tokens: u64) -> Self {
        self.cache_minimum_tokens = tokens;
        self
    }

    /// Whether requests are kept.
    #[must_use]
    pub fn keep_requests(mut self, keep: bool) -> Self {
        self.keep_requests = keep;
        self
    }
}

/// The replies that are left.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: Vec<ReplyEntry>,
}

#[derive(Debug)]
struct ReplyEntry {
    reply: Reply,
    used: usize,
}

impl ReplyEntry {
    fn left(&self) -> bool {
        match self.reply.repeat {
            Repeat::Once => self.used == 0,
            Repeat::Forever => true,
            Repeat::Times(times) => self.used < times,
        }
    }

    fn owed(&self) -> bool {
        !self.reply.optional
            && match self.reply.repeat {
                Repeat::Once | Repeat::Forever => self.used == 0,
                Repeat::Times(times) => self.used < times,
            }
    }
}

impl Queue {
    pub(crate) fn push(&mut self, reply: Reply) {
        self.entries.push(ReplyEntry { reply, used: 0 });
    }

    /// Takes the reply for a request.
    pub(crate) fn take(&mut self, request: &RecordedRequest) -> Option<Reply> {
        let fitting = self.entries.iter().position(|entry| {
            entry.left()
                && entry
                    .reply
                    .when
                    .as_ref()
                    .is_some_and(|when| when.fits(request))
        });
        let next = || {
            self.entries
                .iter()
                .position(|entry| entry.left() && entry.reply.when.is_none())
        };
        let index = fitting.or_else(next)?;
        let entry = self.entries.get_mut(index)?;
        entry.used += 1;
        let reply = entry.reply.clone();
        if !entry.left() {
            // A long session must not scan over what is used up.
            self.entries.remove(index);
        }
        Some(reply)
    }

    /// Descriptions of the replies that should have been used and weren't.
    pub(crate) fn unused(&self) -> Vec<String> {
        self.entries
            .iter()
            .filter(|entry| entry.owed())
            .map(|entry| serde_json::to_string(&entry.reply.summary()).unwrap_or_default())
            .collect()
    }
}
