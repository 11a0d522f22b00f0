//! Making records: the fields that every record of a conversation shares, filled in one place.

use lathe_protocol::Extra;
use lathe_protocol::ids::{AgentId, RecordId, SessionId};
use lathe_protocol::message::{AssistantMessage, Message};
use lathe_protocol::record::{MessageRecord, RecordKind, RecordMessage};
use serde_json::Value;

/// The fields that all records of a conversation share. Change the fields as the session moves on
/// (another folder, another branch).
#[derive(Debug, Clone)]
pub struct RecordTemplate {
    /// The session.
    pub session_id: SessionId,
    /// The working folder.
    pub cwd: String,
    /// The version that writes.
    pub version: String,
    /// The git branch, empty outside a repository.
    pub git_branch: String,
    /// The sub-agent whose conversation it is; `None` for the main one.
    pub agent_id: Option<AgentId>,
}

impl RecordTemplate {
    /// A record of any kind with a fresh id and the present time.
    #[must_use]
    pub fn record(&self, kind: RecordKind, parent: Option<RecordId>) -> MessageRecord {
        MessageRecord {
            kind,
            parent_uuid: parent,
            logical_parent_uuid: None,
            is_sidechain: self.agent_id.is_some(),
            agent_id: self.agent_id.clone(),
            user_type: "external".to_owned(),
            cwd: self.cwd.clone(),
            session_id: self.session_id,
            version: self.version.clone(),
            git_branch: self.git_branch.clone(),
            subtype: None,
            message: None,
            content: None,
            attachment: None,
            is_meta: false,
            is_virtual: false,
            is_compact_summary: false,
            is_api_error_message: false,
            tool_use_result: None,
            source_tool_assistant_uuid: None,
            permission_mode: None,
            request_id: None,
            uuid: RecordId::random(),
            timestamp: timestamp_now(),
            extra: Extra::new(),
        }
    }

    /// A message to the model. A prompt's content is best given as plain text: hosts compare it.
    #[must_use]
    pub fn user(&self, parent: Option<RecordId>, message: Message) -> MessageRecord {
        let mut record = self.record(RecordKind::User, parent);
        record.message = Some(RecordMessage::Plain(message));
        record
    }

    /// A message, or one block of it, by the model.
    #[must_use]
    pub fn assistant(&self, parent: Option<RecordId>, message: AssistantMessage) -> MessageRecord {
        let mut record = self.record(RecordKind::Assistant, parent);
        record.message = Some(RecordMessage::Assistant(message));
        record
    }

    /// An event of the session.
    #[must_use]
    pub fn system(
        &self,
        parent: Option<RecordId>,
        subtype: impl Into<String>,
        content: Option<Value>,
    ) -> MessageRecord {
        let mut record = self.record(RecordKind::System, parent);
        record.subtype = Some(subtype.into());
        record.content = content;
        record
    }

    /// Something attached to a prompt or a result; see [`crate::history`] for the fields that
    /// reach the model.
    #[must_use]
    pub fn attachment(&self, parent: Option<RecordId>, attachment: Value) -> MessageRecord {
        let mut record = self.record(RecordKind::Attachment, parent);
        record.attachment = Some(attachment);
        record
    }
}

/// The present time as records write it: ISO 8601, milliseconds, `Z`.
#[must_use]
pub fn timestamp_now() -> String {
    format_timestamp(jiff::Timestamp::now())
}

/// A time as records write it.
#[must_use]
pub fn format_timestamp(time: jiff::Timestamp) -> String {
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_end_in_z() {
        let time = jiff::Timestamp::from_second(0).unwrap();
        assert_eq!(format_timestamp(time), "1970-01-01T00:00:00.000Z");
    }
}
