//! Making sessions.

use lathe_protocol::Extra;
use lathe_protocol::content::{Content, ContentBlock, ThinkingBlock, ToolUseBlock};
use lathe_protocol::ids::{RecordId, SessionId};
use lathe_protocol::message::{AssistantMessage, Message, Role};
use lathe_protocol::record::{COMPACT_BOUNDARY, Record, RecordKind};
use lathe_protocol::usage::Usage;
use lathe_session::{RecordTemplate, SessionPaths};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

pub(crate) const MODEL: &str = "model-a";

/// Builds the records of a session one after the other, each hanging off the last.
pub(crate) struct Script {
    pub(crate) template: RecordTemplate,
    pub(crate) records: Vec<Arc<Record>>,
    pub(crate) parent: Option<RecordId>,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self::with_id(SessionId::random())
    }

    pub(crate) fn with_id(session_id: SessionId) -> Self {
        let template = RecordTemplate {
            session_id,
            cwd: "/work".to_owned(),
            version: "0.1.0".to_owned(),
            git_branch: "main".to_owned(),
            agent_id: None,
        };
        Self {
            template,
            records: Vec::new(),
            parent: None,
        }
    }

    pub(crate) fn id(&self) -> SessionId {
        self.template.session_id
    }

    pub(crate) fn push(&mut self, record: lathe_protocol::record::MessageRecord) -> RecordId {
        let id = record.uuid;
        self.parent = Some(id);
        self.records
            .push(Arc::new(Record::Message(Box::new(record))));
        id
    }

    pub(crate) fn fact(&mut self, fact: lathe_protocol::record::Fact) {
        self.records.push(Arc::new(Record::Fact(fact)));
    }

    pub(crate) fn prompt(&mut self, text: &str) -> RecordId {
        self.push(self.template.user(self.parent, Message::user(text)))
    }

    pub(crate) fn meta(&mut self, text: &str) -> RecordId {
        let mut record = self.template.user(self.parent, Message::user(text));
        record.is_meta = true;
        self.push(record)
    }

    pub(crate) fn says(&mut self, message: &str, block: ContentBlock) -> RecordId {
        self.says_as(MODEL, message, vec![block])
    }

    pub(crate) fn says_as(
        &mut self,
        model: &str,
        message: &str,
        content: Vec<ContentBlock>,
    ) -> RecordId {
        self.push(
            self.template
                .assistant(self.parent, assistant(model, message, content)),
        )
    }

    pub(crate) fn result(&mut self, call: &str, text: &str) -> RecordId {
        let blocks = vec![ContentBlock::tool_result(call.into(), text, false)];
        self.push(self.template.user(self.parent, Message::user(blocks)))
    }

    /// A result that hangs off its call's record, as those of parallel calls do.
    pub(crate) fn result_under(&mut self, parent: RecordId, call: &str, text: &str) -> RecordId {
        let blocks = vec![ContentBlock::tool_result(call.into(), text, false)];
        let mut record = self.template.user(Some(parent), Message::user(blocks));
        record.source_tool_assistant_uuid = Some(parent);
        self.push(record)
    }

    pub(crate) fn boundary(&mut self) -> RecordId {
        let mut record = self.template.system(None, COMPACT_BOUNDARY, None);
        record.logical_parent_uuid = self.parent;
        self.push(record)
    }

    /// The summary that a compaction begins with.
    pub(crate) fn summary(&mut self, text: &str) -> RecordId {
        let mut record = self.template.user(self.parent, Message::user(text));
        record.is_compact_summary = true;
        self.push(record)
    }

    pub(crate) fn progress(&mut self) -> RecordId {
        self.push(self.template.record(RecordKind::Progress, self.parent))
    }

    pub(crate) fn lines(&self) -> String {
        self.records.iter().map(|record| line(record)).collect()
    }

    pub(crate) fn write(&self, path: &Path) {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(path, self.lines()).unwrap();
    }

    /// Writes the session where it belongs under a configuration folder.
    pub(crate) fn write_under(&self, config_home: &Path, cwd: &Path) -> SessionPaths {
        let paths = SessionPaths::new(config_home, cwd, self.id());
        self.write(&paths.transcript());
        paths
    }
}

pub(crate) fn line(record: &Record) -> String {
    serde_json::to_string(record).unwrap() + "\n"
}

pub(crate) fn assistant(model: &str, id: &str, content: Vec<ContentBlock>) -> AssistantMessage {
    AssistantMessage {
        id: id.to_owned(),
        kind: "message".to_owned(),
        role: Role::Assistant,
        model: model.to_owned(),
        content,
        stop_reason: None,
        stop_sequence: None,
        usage: Usage::default(),
        extra: Extra::new(),
    }
}

pub(crate) fn text(text: &str) -> ContentBlock {
    ContentBlock::text(text)
}

pub(crate) fn call(id: &str) -> ContentBlock {
    ContentBlock::ToolUse(ToolUseBlock {
        id: id.into(),
        name: "Read".to_owned(),
        input: serde_json::json!({"file_path": "/a"}),
        extra: Extra::new(),
    })
}

/// Reasoning signed by a model; the signature says by which.
pub(crate) fn thinking(model: &str) -> ContentBlock {
    ContentBlock::Thinking(ThinkingBlock {
        thinking: "hm".to_owned(),
        signature: format!("signed by {model}"),
        extra: Extra::new(),
    })
}

pub(crate) fn shape(messages: &[Message]) -> Vec<String> {
    messages
        .iter()
        .map(|message| {
            let blocks: Vec<String> = message
                .content
                .clone()
                .into_blocks()
                .iter()
                .map(block_shape)
                .collect();
            format!("{:?}: {}", message.role, blocks.join(", "))
        })
        .collect()
}

fn block_shape(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => format!("{:?}", text.text),
        ContentBlock::ToolUse(call) => format!("call {}", call.id),
        ContentBlock::ToolResult(result) => {
            let text = result
                .content
                .as_ref()
                .map(Content::text)
                .unwrap_or_default();
            let text: String = text.chars().take(24).collect();
            format!("result {} {text:?}", result.tool_use_id)
        }
        other => other.kind().to_owned(),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is mapped over messages")]
pub(crate) fn json(message: lathe_protocol::encoded::EncodedMessage) -> Value {
    serde_json::from_slice(&message.bytes).unwrap()
}
