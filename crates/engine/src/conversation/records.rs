//! Making records: every line of a transcript gets its surroundings here.

use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::ids::{AgentId, RecordId, SessionId};
use lathe_protocol::message::{AssistantMessage, Message};
use lathe_protocol::record::{DURATION, MessageRecord, RecordKind, RecordMessage};
use lathe_session::RecordTemplate;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// The fields that all records of a conversation have in common.
#[derive(Debug, Clone)]
pub(crate) struct RecordFactory {
    pub(crate) session_id: SessionId,
    pub(crate) cwd: PathBuf,
    pub(crate) git_branch: String,
    pub(crate) agent_id: Option<AgentId>,
}

impl RecordFactory {
    fn base(&self, kind: RecordKind, parent: Option<RecordId>) -> MessageRecord {
        let template = RecordTemplate {
            session_id: self.session_id,
            cwd: self.cwd.to_string_lossy().into_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            git_branch: self.git_branch.clone(),
            agent_id: self.agent_id.clone(),
        };
        template.record(kind, parent)
    }

    /// A user record: a prompt, or text that the harness adds.
    pub(crate) fn user(
        &self,
        parent: Option<RecordId>,
        content: impl Into<Content>,
    ) -> MessageRecord {
        let mut record = self.base(RecordKind::User, parent);
        record.message = Some(RecordMessage::Plain(Message::user(content)));
        record
    }

    /// Text that the model sees and the user doesn't.
    pub(crate) fn meta(&self, parent: Option<RecordId>, text: impl Into<String>) -> MessageRecord {
        let mut record = self.user(parent, text.into());
        record.is_meta = true;
        record
    }

    /// One block of a model's message. `header` is the message as far as it is known, without content: with the
    /// last block it says how the message ended and what it cost.
    pub(crate) fn assistant(
        &self,
        parent: Option<RecordId>,
        header: &AssistantMessage,
        block: ContentBlock,
    ) -> MessageRecord {
        let mut message = header.clone();
        message.content = vec![block];
        let mut record = self.base(RecordKind::Assistant, parent);
        record.message = Some(RecordMessage::Assistant(message));
        record
    }

    /// An API error, shown where the model's answer would stand.
    pub(crate) fn api_error(
        &self,
        parent: Option<RecordId>,
        text: &str,
        kind: &str,
    ) -> MessageRecord {
        let mut record = self.base(RecordKind::Assistant, parent);
        record.message = Some(RecordMessage::Assistant(AssistantMessage::synthetic(text)));
        record.is_api_error_message = true;
        record.extra.insert("error".into(), Value::from(kind));
        record
    }

    /// A tool's result, hanging off its own call's record.
    pub(crate) fn tool_result(
        &self,
        call: RecordId,
        block: ContentBlock,
        structured: Value,
        ran_for: Duration,
    ) -> MessageRecord {
        let mut record = self.user(Some(call), vec![block]);
        record.tool_use_result = Some(structured);
        // The times of call and result can't tell: a question to the user may lie between them.
        let milliseconds = u64::try_from(ran_for.as_millis()).unwrap_or(u64::MAX);
        record.extra.insert(DURATION.into(), milliseconds.into());
        record.source_tool_assistant_uuid = Some(call);
        record
    }

    /// Something that goes with a prompt.
    pub(crate) fn attachment(&self, parent: Option<RecordId>, attachment: Value) -> MessageRecord {
        let mut record = self.base(RecordKind::Attachment, parent);
        record.attachment = Some(attachment);
        record
    }

    /// A request that failed and is repeated.
    pub(crate) fn retry(
        &self,
        parent: Option<RecordId>,
        retry: &FailedRequest<'_>,
    ) -> MessageRecord {
        let mut record = self.system(parent, "api_error", retry.error);
        let fields = serde_json::json!({
            "level": "error",
            "error": {"message": retry.error, "status": retry.status},
            "retryInMs": u64::try_from(retry.delay.as_millis()).unwrap_or(u64::MAX),
            "retryAttempt": retry.attempt, "maxRetries": retry.max_retries,
        });
        if let Value::Object(fields) = fields {
            record.extra.extend(fields);
        }
        record
    }

    /// An event of the session.
    pub(crate) fn system(
        &self,
        parent: Option<RecordId>,
        subtype: &str,
        content: &str,
    ) -> MessageRecord {
        let mut record = self.base(RecordKind::System, parent);
        record.subtype = Some(subtype.to_owned());
        record.content = Some(Value::from(content));
        record
    }
}

/// A request that failed and is repeated.
pub(crate) struct FailedRequest<'a> {
    pub(crate) attempt: u32,
    pub(crate) max_retries: u32,
    pub(crate) delay: Duration,
    pub(crate) status: Option<u16>,
    pub(crate) error: &'a str,
}

/// Text from the harness to the model, marked as such.
pub(crate) fn reminder(text: &str) -> String {
    format!("<system-reminder>\n{}\n</system-reminder>", text.trim())
}
