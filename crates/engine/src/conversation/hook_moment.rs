//! Where a conversation stands, as its hooks are told: the prompt, the model, how hard it tries.

use crate::conversation::ConversationShared;
use lathe_protocol::ids::{RecordId, SessionId};
use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Instant;

/// How hard models try by the API's own default.
pub(crate) const DEFAULT_EFFORT: &str = "high";

/// Where a conversation stands, for hooks.
#[derive(Default)]
pub(crate) struct Moment {
    /// Text of hooks for the model's next request.
    pub(super) pending: Vec<String>,
    /// When the model was asked last.
    pub(super) asked: Option<Instant>,
    /// The prompt that is worked on.
    pub(super) prompt: Option<RecordId>,
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    /// How the program was started (`CLAUDE_CODE_ENTRYPOINT`).
    entrypoint: String,
    /// The conversation that knows the MCP servers.
    pub(super) servers: Weak<ConversationShared>,
}

impl Moment {
    /// Before the first prompt.
    pub(crate) fn new(entrypoint: String) -> Self {
        Self {
            entrypoint,
            ..Self::default()
        }
    }

    /// For the hooks of an agent, which has a model and an effort of its own: the prompt that it was started for.
    pub(crate) fn for_agent(&self) -> Self {
        Self {
            prompt: self.prompt,
            model: self.model.clone(),
            effort: self.effort.clone(),
            entrypoint: self.entrypoint.clone(),
            servers: self.servers.clone(),
            ..Self::default()
        }
    }

    /// How hard the model tries; the API's own default if nobody said so.
    pub(super) fn effort(&self) -> &str {
        self.effort.as_deref().unwrap_or(DEFAULT_EFFORT)
    }

    /// The fields common to all hooks.
    pub(super) fn environment(&self, session: SessionId) -> BTreeMap<String, String> {
        [
            ("CLAUDE_CODE_SESSION_ID", session.to_string()),
            ("CLAUDE_CODE_ENTRYPOINT", self.entrypoint.clone()),
            ("CLAUDE_EFFORT", self.effort().to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}
