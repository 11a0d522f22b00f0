//! Transcript records: one JSON object a line.
//!
//! Field names are the ones that existing readers of such transcripts expect. A line of a kind that
//! this version doesn't know is kept as it is ([`Record::Other`]).

use crate::Extra;
use crate::content::{Content, ContentBlock};
use crate::ids::{AgentId, RecordId, SessionId};
use crate::message::{AssistantMessage, Message};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::time::Duration;

/// One line of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A message or an event of the conversation, linked to its parent.
    Message(Box<MessageRecord>),
    /// A fact about the session, not part of the conversation's chain.
    Fact(Fact),
    /// A line of an unknown kind, verbatim.
    Other(Value),
}

/// The kind of a [`MessageRecord`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// The user's words, tool results, or text that the harness adds.
    User,
    /// Written by the model; one record per content block.
    Assistant,
    /// An event of the session (subtype says which).
    System,
    /// Something attached to a prompt or a result.
    Attachment,
    /// Progress of a call; never sent to the model.
    Progress,
}

/// A linked record of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageRecord {
    /// The kind of record.
    #[serde(rename = "type")]
    pub kind: RecordKind,
    /// The record before this one; `None` for the first.
    pub parent_uuid: Option<RecordId>,
    /// The record before a compaction boundary, where `parentUuid` is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_parent_uuid: Option<RecordId>,
    /// Whether it belongs to a sub-agent's conversation.
    #[serde(default)]
    pub is_sidechain: bool,
    /// That sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Always `external`; readers expect it.
    #[serde(default = "external")]
    pub user_type: String,
    /// The working folder.
    #[serde(default)]
    pub cwd: String,
    /// The session.
    pub session_id: SessionId,
    /// The version that wrote it.
    #[serde(default)]
    pub version: String,
    /// The git branch.
    #[serde(default)]
    pub git_branch: String,
    /// For `system`: which event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtype: Option<String>,
    /// For `user` and `assistant`: the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<RecordMessage>,
    /// For `system`: text. For other kinds unused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
    /// For `attachment`: what is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Value>,
    /// The model sees it, the user doesn't.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_meta: bool,
    /// The user sees it, the model doesn't.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_virtual: bool,
    /// The summary after a compaction.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_compact_summary: bool,
    /// A synthetic message that reports an API error.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_api_error_message: bool,
    /// For tool results: the tool's structured output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_result: Option<Value>,
    /// For tool results: the record of the call.
    #[serde(
        default,
        rename = "sourceToolAssistantUUID",
        skip_serializing_if = "Option::is_none"
    )]
    pub source_tool_assistant_uuid: Option<RecordId>,
    /// The permission mode when a prompt was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// The API's id of the request that gave this message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The record's id.
    pub uuid: RecordId,
    /// When it was written, ISO 8601 with `Z`.
    pub timestamp: String,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The message inside a record: the model's, or one to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(
    clippy::large_enum_variant,
    reason = "a record holds one message and lives on the heap; a box would be one more allocation"
)]
pub enum RecordMessage {
    /// Written by the model (has an id and a model).
    Assistant(AssistantMessage),
    /// Sent to the model.
    Plain(Message),
}

impl RecordMessage {
    /// The message's blocks, whatever its form.
    #[must_use]
    pub fn blocks(&self) -> Vec<ContentBlock> {
        match self {
            Self::Assistant(message) => message.content.clone(),
            Self::Plain(message) => message.content.clone().into_blocks(),
        }
    }

    /// All text of the message.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Assistant(message) => crate::content::joined_text(&message.content),
            Self::Plain(message) => message.content.text(),
        }
    }
}

/// The subtype of the `system` record that marks a compaction.
pub const COMPACT_BOUNDARY: &str = "compact_boundary";

/// The subtype of the `system` record that says how long a turn took.
pub const TURN_DURATION: &str = "turn_duration";

/// The subtype of the `system` record of a command that was answered without the model.
pub const LOCAL_COMMAND: &str = "local_command";

/// The subtype of the `system` record of what a user was told who had been away.
pub const AWAY_SUMMARY: &str = "away_summary";

/// How a user message starts that records an interruption by the user.
pub const INTERRUPTED_BY_USER: &str = "[Request interrupted by user";

/// The field of a record that says how long something ran, in milliseconds.
pub const DURATION: &str = "durationMs";

impl MessageRecord {
    /// How long the call or the turn ran, if the record says so.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        let milliseconds = self.extra.get(DURATION).and_then(Value::as_u64)?;
        Some(Duration::from_millis(milliseconds))
    }

    /// Whether this is the user's own words: not tool results, not text added by the harness, such as
    /// the marker of an interruption.
    #[must_use]
    pub fn is_prompt(&self) -> bool {
        self.kind == RecordKind::User
            && !self.is_meta
            && !self.is_compact_summary
            && match &self.message {
                Some(RecordMessage::Plain(message)) => match &message.content {
                    Content::Text(text) => !text.starts_with(INTERRUPTED_BY_USER),
                    Content::Blocks(blocks) => {
                        let is_marker = matches!(blocks.as_slice(), [ContentBlock::Text(text)]
                            if text.text.starts_with(INTERRUPTED_BY_USER));
                        !is_marker && !blocks.iter().any(|block| block.as_tool_result().is_some())
                    }
                },
                _ => false,
            }
    }

    /// Whether this record marks a compaction.
    #[must_use]
    pub fn is_compact_boundary(&self) -> bool {
        self.kind == RecordKind::System && self.subtype.as_deref() == Some(COMPACT_BOUNDARY)
    }
}

/// A fact about the session. Written with `type` first: the SDKs' readers search for that text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum Fact {
    /// A title that the user gave.
    CustomTitle {
        /// The title.
        custom_title: String,
        /// The session.
        session_id: SessionId,
    },
    /// A title that a model made.
    AiTitle {
        /// The title.
        ai_title: String,
        /// The session.
        session_id: SessionId,
    },
    /// A tag; empty removes it.
    Tag {
        /// The tag.
        tag: String,
        /// The session.
        session_id: SessionId,
    },
    /// The last prompt, for listings.
    LastPrompt {
        /// Its text.
        last_prompt: String,
        /// The session.
        session_id: SessionId,
    },
    /// A summary of the conversation up to a record.
    Summary {
        /// The summary.
        summary: String,
        /// The record it goes up to.
        leaf_uuid: RecordId,
    },
    /// The permission mode changed.
    Mode {
        /// The new mode.
        mode: String,
        /// The session.
        session_id: SessionId,
    },
    /// Which files a turn changed, and what they held before.
    FileHistorySnapshot {
        /// The user record whose turn it is.
        message_id: RecordId,
        /// Path → stored content (`null`: the file did not exist).
        snapshot: Value,
        /// Whether it adds to an earlier snapshot of the same turn.
        #[serde(default)]
        is_snapshot_update: bool,
    },
    /// The words of a tool result, or of a message, were replaced; replayed byte for byte ever after.
    Replacement {
        /// The call whose result it is, or the record of the message.
        tool_use_id: crate::ids::ToolUseId,
        /// The text that the model is sent instead.
        replacement: String,
        /// The session.
        session_id: SessionId,
    },
    /// The model API refused images or documents: the model is sent a word in their place ever after.
    MediaDropped {
        /// Which, by digests of their content.
        media: Vec<String>,
        /// The session.
        session_id: SessionId,
    },
    /// The conversation was rewound: from here on it hangs off this record.
    Rewound {
        /// The record that is the new tip; `None` is the beginning.
        to: Option<RecordId>,
        /// The session.
        session_id: SessionId,
    },
    /// A place in the tree of the conversation got a name; an empty one takes it away.
    Label {
        /// The record.
        record: RecordId,
        /// Its name.
        label: String,
        /// The session.
        session_id: SessionId,
    },
    /// A tool result, or a message, is kept over compactions, or no longer.
    Pinned {
        /// The call whose result it is, or the record of the message.
        tool_use_id: crate::ids::ToolUseId,
        /// Whether it is kept.
        pinned: bool,
        /// The session.
        session_id: SessionId,
    },
    /// The task list changed.
    TodoList {
        /// The whole list, as the tool that keeps it writes it.
        todos: Value,
        /// The session.
        session_id: SessionId,
    },
    /// The system prompt as it was first sent, where the host wants it to stay the same over resumes. It counts
    /// until the conversation is compacted.
    SystemPrompt {
        /// The `system` field of a request.
        system: Value,
        /// The session.
        session_id: SessionId,
    },
    /// The model that answers from here on and how hard it tries, so that a resume continues with them.
    ModelChoice {
        /// The model.
        model: String,
        /// How hard it tries, if someone said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effort: Option<String>,
        /// The session.
        session_id: SessionId,
    },
    /// The session went into a worktree, or left it.
    WorktreeState {
        /// Where it is and where it was before; `null` once it left.
        worktree_session: Value,
        /// The session.
        session_id: SessionId,
    },
    /// The goal of the session was set or ended.
    Goal {
        /// The condition and how far it is; `null` once it ended.
        goal: Value,
        /// The session.
        session_id: SessionId,
    },
    /// Coordinator mode was switched.
    Coordinator {
        /// Whether it is on.
        on: bool,
        /// The session.
        session_id: SessionId,
    },
    /// The session was moved to another machine and continues there.
    Moved {
        /// Where to.
        to: String,
        /// When, ISO 8601 with `Z`.
        at: String,
        /// The session.
        session_id: SessionId,
    },
    /// The session came from another machine: folders as they were named there, and where they are now.
    Roots {
        /// Old path → new path.
        roots: Value,
        /// The machine that it came from.
        from: String,
        /// The session.
        session_id: SessionId,
    },
    /// The prompts that wait for the end of a turn or for its next step, oldest first: the whole list whenever it
    /// changes. One whose record is in the transcript no longer waits.
    WaitingPrompts {
        /// The prompts.
        prompts: Vec<WaitingPrompt>,
        /// The session.
        session_id: SessionId,
    },
    /// Usage and cost so far, so that totals survive a resume.
    Cost {
        /// The totals, per model.
        totals: Value,
        /// The session.
        session_id: SessionId,
    },
}

/// A prompt that was entered while a turn ran, and that the conversation has not accepted yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitingPrompt {
    /// The id of the record that it becomes.
    pub uuid: RecordId,
    /// Text, images and documents.
    pub content: Content,
}

fn external() -> String {
    "external".to_owned()
}

fn is_false(value: &bool) -> bool {
    !*value
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Message(record) => record.serialize(serializer),
            Self::Fact(fact) => fact.serialize(serializer),
            Self::Other(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_value(Value::deserialize(deserializer)?))
    }
}

impl Record {
    /// Reads a record. A known kind with fields that don't fit is kept verbatim, like an unknown kind:
    /// a transcript is never refused for one line.
    #[must_use]
    pub fn from_value(value: Value) -> Self {
        match value.get("type").and_then(Value::as_str) {
            Some("user" | "assistant" | "system" | "attachment" | "progress") => {
                MessageRecord::deserialize(&value).map_or_else(
                    |_| Self::Other(value),
                    |record| Self::Message(Box::new(record)),
                )
            }
            Some(_) => Fact::deserialize(&value).map_or_else(|_| Self::Other(value), Self::Fact),
            None => Self::Other(value),
        }
    }

    /// The record's id, if it is part of the conversation.
    #[must_use]
    pub fn uuid(&self) -> Option<RecordId> {
        match self {
            Self::Message(record) => Some(record.uuid),
            Self::Fact(_) | Self::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn user_line() -> Value {
        json!({
            "type": "user", "parentUuid": null, "isSidechain": false, "userType": "external",
            "cwd": "/w", "sessionId": "6f2a8c1e-0000-4000-8000-000000000001", "version": "0.1.0",
            "gitBranch": "main", "message": {"role": "user", "content": "hello"},
            "uuid": "6f2a8c1e-0000-4000-8000-000000000002", "timestamp": "2026-01-01T00:00:00.000Z",
            "promptId": "p1"
        })
    }

    #[test]
    fn the_marker_of_an_interruption_is_no_prompt() {
        let read = |content: Value| -> MessageRecord {
            serde_json::from_value(serde_json::json!({
                "type": "user", "uuid": RecordId::random(), "parentUuid": null,
                "sessionId": SessionId::random(), "timestamp": "2026-01-01T00:00:00.000Z",
                "cwd": "/", "version": "1", "message": {"role": "user", "content": content},
            }))
            .unwrap()
        };
        let marker = "[Request interrupted by user for tool use]";
        assert!(read("words".into()).is_prompt());
        assert!(!read(marker.into()).is_prompt());
        let block = serde_json::json!([{"type": "text", "text": marker}]);
        assert!(!read(block).is_prompt());
    }

    #[test]
    fn a_line_round_trips_with_unknown_fields() {
        let record = Record::from_value(user_line());
        assert!(matches!(&record, Record::Message(message) if message.is_prompt()));
        assert_eq!(serde_json::to_value(&record).unwrap(), user_line());
    }

    #[test]
    fn a_tag_line_starts_as_readers_search_for_it() {
        let fact = Fact::Tag {
            tag: "x".into(),
            session_id: SessionId::random(),
        };
        let line = serde_json::to_string(&Record::Fact(fact)).unwrap();
        assert!(
            line.starts_with(r#"{"type":"tag","tag":"x","sessionId":""#),
            "{line}"
        );
    }

    #[test]
    fn an_unknown_or_misshapen_line_is_kept_verbatim() {
        for value in [
            json!({"type": "queue-operation", "a": 1}),
            json!({"type": "user"}),
            json!(7),
        ] {
            let record = Record::from_value(value.clone());
            assert!(matches!(record, Record::Other(_)));
            assert_eq!(serde_json::to_value(&record).unwrap(), value);
        }
    }
}
