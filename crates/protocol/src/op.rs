//! Ops: the messages of a face to the engine.

use crate::Extra;
use crate::command::Invocation;
use crate::content::{Content, ContentBlock};
use crate::elicitation::ElicitationReply;
use crate::ids::{RecordId, RequestId, ToolUseId};
use crate::permission::PermissionReply;

/// A message of a face to the session.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// A prompt. During a turn it is queued and delivered with the next tool results.
    Prompt(Prompt),
    /// Stop the turn. Also drops queued prompts when asked to.
    Interrupt {
        /// Whether prompts that wait are dropped too.
        drop_queued: bool,
    },
    /// Let a running foreground command continue in the background.
    Background {
        /// The call; `None` is every call that can.
        tool_use_id: Option<ToolUseId>,
    },
    /// An answer to a permission question.
    PermissionReply {
        /// The question.
        request_id: RequestId,
        /// The answer.
        reply: PermissionReply,
    },
    /// An answer to a question of an MCP server.
    ElicitationReply {
        /// The question.
        request_id: RequestId,
        /// The answer.
        reply: ElicitationReply,
    },
    /// Replace older conversation by a summary.
    Compact {
        /// Instructions for the summary.
        instructions: Option<String>,
    },
    /// Replace what came up to and including a record by a summary; what came after it stays.
    CompactUpTo {
        /// The record.
        record: RecordId,
        /// Instructions for the summary.
        instructions: Option<String>,
    },
    /// Flush everything and end. A running turn is finished first unless it was interrupted.
    Shutdown,
}

/// A prompt, with what the face knows about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The id of the record it becomes.
    pub uuid: RecordId,
    /// Text, images and documents.
    pub content: Content,
    /// The command that the text is, if it is one.
    pub command: Option<Box<Invocation>>,
    /// Deliver as it is: no slash commands, no `@file` expansion.
    pub verbatim: bool,
    /// Add to the conversation without running a turn.
    pub context_only: bool,
    /// The model sees it, the user doesn't.
    pub is_meta: bool,
    /// Echoed on the result (`{"kind":"human"}`).
    pub origin: Option<serde_json::Value>,
    /// Unknown fields of the host's frame.
    pub extra: Extra,
}

impl Prompt {
    /// A prompt typed by the user.
    pub fn new(content: impl Into<Content>) -> Self {
        let content = content.into();
        Self {
            uuid: RecordId::random(),
            command: match &content {
                Content::Text(text) => Invocation::parse(text).map(Box::new),
                Content::Blocks(_) => Invocation::parse(&content.text()).map(Box::new),
            },
            content,
            verbatim: false,
            context_only: false,
            is_meta: false,
            origin: None,
            extra: Extra::new(),
        }
    }

    /// The command that the prompt is, for a face that runs commands. `None` if the prompt has more than
    /// text, or a host or the engine composed it.
    #[must_use]
    pub fn typed_command(&self) -> Option<&Invocation> {
        let only_text = match &self.content {
            Content::Text(_) => true,
            Content::Blocks(blocks) => matches!(blocks.as_slice(), [ContentBlock::Text(_)]),
        };
        let composed = self.verbatim || self.is_meta || self.context_only;
        self.command.as_deref().filter(|_| only_text && !composed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_paths_images_and_composed_text() {
        let name = |prompt: &Prompt| {
            let command = prompt.typed_command()?;
            Some((command.name.clone(), command.arguments.clone()))
        };
        assert_eq!(
            name(&Prompt::new("/compact the tests")),
            Some(("compact".to_owned(), "the tests".to_owned()))
        );
        for text in ["/usr/bin is full", "hello /clear", "/", "/1", "/a.txt"] {
            assert_eq!(name(&Prompt::new(text)), None, "{text}");
        }
        let mut verbatim = Prompt::new("/clear");
        verbatim.verbatim = true;
        assert_eq!(name(&verbatim), None);
        let text = ContentBlock::text("/clear");
        assert!(name(&Prompt::new(vec![text.clone()])).is_some());
        let image = ContentBlock::image("image/png", "AA==");
        assert_eq!(name(&Prompt::new(vec![text, image])), None);
    }
}
