//! From events to blocks and the finished message. Pure: no clock, no I/O.

use crate::error::ModelError;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::message::AssistantMessage;
use lathe_protocol::stream::{Delta, StreamEvent};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Whether a call's arguments can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolInput {
    /// They are a JSON object, and in the block.
    Valid,
    /// They are not. The block holds `{}`, which the API takes back; the call must not run.
    Broken {
        /// The text that the model wrote.
        text: String,
        /// The mistake in it.
        error: String,
    },
}

/// A block that will not change any more.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedBlock {
    /// Its place in the message.
    pub index: usize,
    /// The block.
    pub block: ContentBlock,
    /// For a tool call: whether its arguments can be used.
    pub tool_input: Option<ToolInput>,
}

/// The events don't fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// An event before the message began.
    #[error("`{event}` came before `message_start`")]
    NotStarted {
        /// The event.
        event: &'static str,
    },
    /// A second `message_start`.
    #[error("`message_start` came twice")]
    StartedTwice,
    /// A block began twice.
    #[error("block {index} began twice")]
    BlockTwice {
        /// The block.
        index: usize,
    },
    /// An event for a block that isn't open.
    #[error("`{event}` came for block {index}, which is not open")]
    NotOpen {
        /// The event.
        event: &'static str,
        /// The block.
        index: usize,
    },
    /// The message isn't complete.
    #[error("the message has not ended")]
    Incomplete,
}

impl From<AssembleError> for ModelError {
    fn from(error: AssembleError) -> Self {
        Self::Protocol {
            url: "the model API".to_owned(),
            message: error.to_string(),
        }
    }
}

/// Folds the events of one response. One assembler per attempt: after a retraction take a new one.
#[derive(Debug, Default)]
pub struct MessageAssembler {
    message: Option<AssistantMessage>,
    open: BTreeMap<usize, OpenBlock>,
    done: BTreeMap<usize, ContentBlock>,
    ended: bool,
}

#[derive(Debug)]
struct OpenBlock {
    block: ContentBlock,
    /// The arguments of a call so far, as JSON text.
    json: String,
}

impl MessageAssembler {
    /// Takes an event; gives the block that it completes, if it completes one.
    ///
    /// # Errors
    /// When the event doesn't fit to those before it.
    pub fn feed(&mut self, event: &StreamEvent) -> Result<Option<CompletedBlock>, AssembleError> {
        match event {
            StreamEvent::MessageStart { message } => {
                if self.message.is_some() {
                    return Err(AssembleError::StartedTwice);
                }
                let mut message = message.clone();
                self.done = std::mem::take(&mut message.content)
                    .into_iter()
                    .enumerate()
                    .collect();
                self.message = Some(message);
            }
            StreamEvent::ContentBlockStart {
                index,
                content_block,
            } => {
                self.started("content_block_start")?;
                if self.open.contains_key(index) || self.done.contains_key(index) {
                    return Err(AssembleError::BlockTwice { index: *index });
                }
                let block = OpenBlock {
                    block: content_block.clone(),
                    json: String::new(),
                };
                self.open.insert(*index, block);
            }
            StreamEvent::ContentBlockDelta { index, delta } => {
                self.started("content_block_delta")?;
                let open = self.open.get_mut(index).ok_or(AssembleError::NotOpen {
                    event: "content_block_delta",
                    index: *index,
                })?;
                open.grow(delta);
            }
            StreamEvent::ContentBlockStop { index } => {
                self.started("content_block_stop")?;
                return self.close(*index, "content_block_stop").map(Some);
            }
            StreamEvent::MessageDelta {
                delta,
                usage,
                extra,
            } => {
                let message = self.started("message_delta")?;
                if delta.stop_reason.is_some() {
                    message.stop_reason.clone_from(&delta.stop_reason);
                }
                if delta.stop_sequence.is_some() {
                    message.stop_sequence.clone_from(&delta.stop_sequence);
                }
                message.usage.update(usage);
                for (name, value) in delta.extra.iter().chain(extra) {
                    message.extra.insert(name.clone(), value.clone());
                }
            }
            StreamEvent::MessageStop => {
                self.started("message_stop")?;
                // Some servers end the message without having ended its last block.
                let last = match self.open.len() {
                    0 => None,
                    1 => self.open.keys().next().copied(),
                    _ => return Err(AssembleError::Incomplete),
                };
                self.ended = true;
                if let Some(index) = last {
                    return self.close(index, "message_stop").map(Some);
                }
            }
            StreamEvent::Ping | StreamEvent::Error { .. } => {}
        }
        Ok(None)
    }

    fn close(
        &mut self,
        index: usize,
        event: &'static str,
    ) -> Result<CompletedBlock, AssembleError> {
        let open = self
            .open
            .remove(&index)
            .ok_or(AssembleError::NotOpen { event, index })?;
        let (block, tool_input) = open.close();
        self.done.insert(index, block.clone());
        Ok(CompletedBlock {
            index,
            block,
            tool_input,
        })
    }

    fn started(&mut self, event: &'static str) -> Result<&mut AssistantMessage, AssembleError> {
        self.message
            .as_mut()
            .ok_or(AssembleError::NotStarted { event })
    }

    /// Id, model, usage and stop reason so far; its content is empty.
    #[must_use]
    pub fn header(&self) -> Option<&AssistantMessage> {
        self.message.as_ref()
    }

    /// Whether the message is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ended
    }

    /// The finished message.
    ///
    /// # Errors
    /// When it has not ended.
    pub fn finish(self) -> Result<AssistantMessage, AssembleError> {
        if !self.ended || !self.open.is_empty() {
            return Err(AssembleError::Incomplete);
        }
        let mut message = self.message.ok_or(AssembleError::Incomplete)?;
        message.content = self.done.into_values().collect();
        Ok(message)
    }

    /// The content of an interrupted response: the completed blocks, and the words of a text
    /// that was being written. Reasoning without its signature and calls without all of their
    /// arguments are left out, since the API would not take them back. `None` before the first event.
    #[must_use]
    pub fn partial(&self) -> Option<AssistantMessage> {
        let mut message = self.message.clone()?;
        let mut blocks = self.done.clone();
        for (index, open) in &self.open {
            if matches!(&open.block, ContentBlock::Text(_)) && !open.block.is_blank() {
                blocks.insert(*index, open.block.clone());
            }
        }
        message.content = blocks.into_values().collect();
        Some(message)
    }

    /// The words so far, over all text blocks.
    #[must_use]
    pub fn text(&self) -> String {
        let mut blocks: Vec<(usize, &ContentBlock)> = self
            .done
            .iter()
            .map(|(index, block)| (*index, block))
            .chain(self.open.iter().map(|(index, open)| (*index, &open.block)))
            .collect();
        blocks.sort_by_key(|(index, _)| *index);
        let texts = blocks.iter().filter_map(|(_, block)| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl OpenBlock {
    fn grow(&mut self, delta: &Delta) {
        match (&mut self.block, delta) {
            (ContentBlock::Text(block), Delta::TextDelta { text }) => block.text.push_str(text),
            (ContentBlock::Text(block), Delta::CitationsDelta { citation }) => {
                let citations = block
                    .extra
                    .entry("citations")
                    .or_insert_with(|| Value::Array(Vec::new()));
                if citations.is_null() {
                    *citations = Value::Array(Vec::new());
                }
                if let Some(list) = citations.as_array_mut() {
                    list.push(citation.clone());
                }
            }
            (ContentBlock::Thinking(block), Delta::ThinkingDelta { thinking }) => {
                block.thinking.push_str(thinking);
            }
            (ContentBlock::Thinking(block), Delta::SignatureDelta { signature }) => {
                block.signature.push_str(signature);
            }
            (_, Delta::InputJsonDelta { partial_json }) => self.json.push_str(partial_json),
            // A delta of a kind that this version doesn't know, or that doesn't fit the block:
            // what is known of the block stands.
            _ => {}
        }
    }

    fn close(self) -> (ContentBlock, Option<ToolInput>) {
        let Self { mut block, json } = self;
        let outcome = match &mut block {
            ContentBlock::ToolUse(call) => Some(fill(&mut call.input, json)),
            ContentBlock::Other(Value::Object(object)) if !json.trim().is_empty() => {
                // A server tool: its provider ran it, nobody here will.
                fill(object.entry("input").or_insert(Value::Null), json);
                None
            }
            _ => None,
        };
        (block, outcome)
    }
}

/// Puts streamed arguments into a call. Without any, what the block began with stands.
fn fill(input: &mut Value, json: String) -> ToolInput {
    if json.trim().is_empty() {
        if !input.is_object() {
            *input = Value::Object(Map::new());
        }
        return ToolInput::Valid;
    }
    let error = match serde_json::from_str::<Value>(&json) {
        Ok(value) if value.is_object() => {
            *input = value;
            return ToolInput::Valid;
        }
        Ok(_) => "the arguments are not a JSON object".to_owned(),
        Err(error) => error.to_string(),
    };
    *input = Value::Object(Map::new());
    ToolInput::Broken { text: json, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::message::StopReason;
    use serde_json::json;

    fn event(value: Value) -> StreamEvent {
        serde_json::from_value(value).unwrap()
    }

    fn started() -> MessageAssembler {
        let mut assembler = MessageAssembler::default();
        let start = json!({"type": "message_start", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
            "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 12, "cache_read_input_tokens": 3, "output_tokens": 1}}});
        assembler.feed(&event(start)).unwrap();
        assembler
    }

    fn start(assembler: &mut MessageAssembler, index: usize, block: &Value) {
        let begin = json!({"type": "content_block_start", "index": index, "content_block": block});
        assert_eq!(assembler.feed(&event(begin)).unwrap(), None);
    }

    fn delta(assembler: &mut MessageAssembler, index: usize, delta: &Value) {
        let grow = json!({"type": "content_block_delta", "index": index, "delta": delta});
        assert_eq!(assembler.feed(&event(grow)).unwrap(), None);
    }

    fn stop(assembler: &mut MessageAssembler, index: usize) -> CompletedBlock {
        let end = json!({"type": "content_block_stop", "index": index});
        assembler.feed(&event(end)).unwrap().unwrap()
    }

    fn call(assembler: &mut MessageAssembler, index: usize, pieces: &[&str]) -> CompletedBlock {
        let block =
            json!({"type": "tool_use", "id": format!("t{index}"), "name": "Read", "input": {}});
        start(assembler, index, &block);
        for piece in pieces {
            delta(
                assembler,
                index,
                &json!({"type": "input_json_delta", "partial_json": piece}),
            );
        }
        stop(assembler, index)
    }

    fn end(assembler: &mut MessageAssembler) {
        let change = json!({"type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": null, "container": {"id": "c"}},
            "usage": {"output_tokens": 40}, "context_management": {"x": 1}});
        assembler.feed(&event(change)).unwrap();
        assembler.feed(&StreamEvent::MessageStop).unwrap();
    }

    #[test]
    fn a_message_that_ends_ends_its_last_block() {
        let mut assembler = started();
        start(&mut assembler, 0, &json!({"type": "text", "text": ""}));
        delta(
            &mut assembler,
            0,
            &json!({"type": "text_delta", "text": "all of it"}),
        );
        let last = assembler.feed(&StreamEvent::MessageStop).unwrap().unwrap();
        assert_eq!(last.block, ContentBlock::text("all of it"));
        assert_eq!(assembler.finish().unwrap().content, [last.block]);

        let mut torn = started();
        start(&mut torn, 0, &json!({"type": "text", "text": "a"}));
        start(&mut torn, 1, &json!({"type": "text", "text": "b"}));
        assert!(torn.feed(&StreamEvent::MessageStop).is_err());
    }

    #[test]
    fn every_kind_of_block_is_put_together() {
        let mut assembler = started();
        start(
            &mut assembler,
            0,
            &json!({"type": "thinking", "thinking": "", "signature": ""}),
        );
        delta(
            &mut assembler,
            0,
            &json!({"type": "thinking_delta", "thinking": "let me "}),
        );
        delta(
            &mut assembler,
            0,
            &json!({"type": "thinking_delta", "thinking": "see"}),
        );
        delta(
            &mut assembler,
            0,
            &json!({"type": "signature_delta", "signature": "sig"}),
        );
        stop(&mut assembler, 0);
        start(&mut assembler, 1, &json!({"type": "text", "text": ""}));
        delta(
            &mut assembler,
            1,
            &json!({"type": "text_delta", "text": "Hello"}),
        );
        delta(
            &mut assembler,
            1,
            &json!({"type": "citations_delta", "citation": {"n": 1}}),
        );
        delta(
            &mut assembler,
            1,
            &json!({"type": "text_delta", "text": ", you"}),
        );
        assert_eq!(stop(&mut assembler, 1).tool_input, None);
        let search =
            json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}});
        start(&mut assembler, 2, &search);
        delta(
            &mut assembler,
            2,
            &json!({"type": "input_json_delta", "partial_json": "{\"q\":"}),
        );
        delta(
            &mut assembler,
            2,
            &json!({"type": "input_json_delta", "partial_json": "1}"}),
        );
        assert_eq!(stop(&mut assembler, 2).tool_input, None);
        let completed = call(&mut assembler, 3, &["{\"path\"", ": \"a", ".rs\"}"]);
        assert_eq!(completed.tool_input, Some(ToolInput::Valid));
        assert_eq!(
            completed.block.as_tool_use().unwrap().input,
            json!({"path": "a.rs"})
        );
        end(&mut assembler);
        let message = assembler.finish().unwrap();
        assert_eq!(
            serde_json::to_value(&message.content).unwrap(),
            json!([
                {"type": "thinking", "thinking": "let me see", "signature": "sig"},
                {"type": "text", "text": "Hello, you", "citations": [{"n": 1}]},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": 1}},
                {"type": "tool_use", "id": "t3", "name": "Read", "input": {"path": "a.rs"}}
            ])
        );
        assert_eq!(message.stop_reason, Some(StopReason::ToolUse));
        assert_eq!(
            (message.usage.input_tokens, message.usage.output_tokens),
            (12, 40)
        );
        assert_eq!(message.extra["container"], json!({"id": "c"}));
        assert_eq!(message.extra["context_management"], json!({"x": 1}));
    }

    #[test]
    fn arguments_that_are_no_object_are_told_apart_from_none() {
        let mut assembler = started();
        assert_eq!(
            call(&mut assembler, 0, &[]).tool_input,
            Some(ToolInput::Valid)
        );
        assert_eq!(
            call(&mut assembler, 1, &["", " "]).tool_input,
            Some(ToolInput::Valid)
        );
        for (index, text) in [(2, "{\"path\": \"a"), (3, "[1]"), (4, "nonsense")] {
            let completed = call(&mut assembler, index, &[text]);
            assert!(
                matches!(&completed.tool_input, Some(ToolInput::Broken { text: kept, error })
                    if kept == text && !error.is_empty()),
                "{completed:?}"
            );
            assert_eq!(completed.block.as_tool_use().unwrap().input, json!({}));
        }
    }

    #[test]
    fn blocks_that_finish_out_of_order_keep_their_places() {
        let mut assembler = started();
        start(&mut assembler, 0, &json!({"type": "text", "text": "first"}));
        start(
            &mut assembler,
            1,
            &json!({"type": "text", "text": "second"}),
        );
        stop(&mut assembler, 1);
        stop(&mut assembler, 0);
        end(&mut assembler);
        let texts: Vec<String> = assembler
            .finish()
            .unwrap()
            .content
            .iter()
            .map(|block| lathe_protocol::content::joined_text(std::slice::from_ref(block)))
            .collect();
        assert_eq!(texts, ["first", "second"]);
    }

    #[test]
    fn an_interrupted_message_keeps_its_words_and_drops_what_cannot_go_back() {
        let mut assembler = started();
        start(&mut assembler, 0, &json!({"type": "text", "text": "done"}));
        stop(&mut assembler, 0);
        start(
            &mut assembler,
            1,
            &json!({"type": "thinking", "thinking": "hm", "signature": ""}),
        );
        start(
            &mut assembler,
            2,
            &json!({"type": "text", "text": "half a sen"}),
        );
        start(
            &mut assembler,
            3,
            &json!({"type": "tool_use", "id": "t", "name": "N", "input": {}}),
        );
        start(&mut assembler, 4, &json!({"type": "text", "text": " "}));
        let partial = assembler.partial().unwrap();
        assert_eq!(partial.content.len(), 2);
        assert_eq!(assembler.text(), "done\nhalf a sen\n ");
        assert_eq!(assembler.finish(), Err(AssembleError::Incomplete));
        assert_eq!(MessageAssembler::default().partial(), None);
    }

    #[test]
    fn events_that_do_not_fit_are_refused() {
        let mut assembler = MessageAssembler::default();
        let refused = assembler.feed(&event(json!({"type": "content_block_stop", "index": 0})));
        assert_eq!(
            refused,
            Err(AssembleError::NotStarted {
                event: "content_block_stop"
            })
        );
        let mut assembler = started();
        let refused = assembler.feed(&event(json!({"type": "content_block_stop", "index": 5})));
        assert_eq!(
            refused,
            Err(AssembleError::NotOpen {
                event: "content_block_stop",
                index: 5
            })
        );
        start(&mut assembler, 0, &json!({"type": "text", "text": ""}));
        let again = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
        assert_eq!(
            assembler.feed(&event(again)),
            Err(AssembleError::BlockTwice { index: 0 })
        );
        assert_eq!(assembler.feed(&StreamEvent::Ping), Ok(None));
    }

    #[test]
    fn a_delta_of_an_unknown_kind_leaves_the_block_as_it_is() {
        let mut assembler = started();
        start(&mut assembler, 0, &json!({"type": "text", "text": "a"}));
        delta(&mut assembler, 0, &json!({"type": "sparkle_delta", "x": 1}));
        assert_eq!(stop(&mut assembler, 0).block, ContentBlock::text("a"));
    }
}
