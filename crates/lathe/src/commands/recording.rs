//! A conversation as it was recorded: prompts, the answers of the model, and the results of its calls.

use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::record::{MessageRecord, Record, RecordKind, RecordMessage};
use lathe_session::load::Loaded;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A recorded conversation.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// Where it took place.
    pub(crate) cwd: PathBuf,
    /// The model that answered first.
    pub(crate) model: Option<String>,
    pub(crate) turns: Vec<Turn>,
}

/// A prompt and what followed.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) prompt: String,
    pub(crate) answers: Vec<Answer>,
}

/// One answer of the model.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    id: String,
    /// Its words and calls, in order.
    pub(crate) parts: Vec<Part>,
    pub(crate) output_tokens: u64,
}

/// A piece of an answer. Reasoning is left out: only the model that wrote it can use it.
#[derive(Debug)]
pub(crate) enum Part {
    Text(String),
    Call(Call),
}

/// A call of a tool.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) input: Value,
    /// Absent if the session ended before it.
    pub(crate) result: Option<CallOutcome>,
}

/// The result of a call as the model got it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallOutcome {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    /// Whether the tool itself ran to an end: a refused call has an error in place of a structured result.
    pub(crate) ran: bool,
}

impl Recording {
    /// The conversation of a transcript, from its first prompt to its tip.
    pub(crate) fn of(loaded: &Loaded) -> Self {
        let mut recording = Self::default();
        for record in loaded.history() {
            if let Record::Message(message) = &*record {
                recording.take(message);
            }
        }
        recording
    }

    fn take(&mut self, record: &MessageRecord) {
        if record.is_sidechain || record.is_virtual || record.is_compact_summary {
            return;
        }
        let Some(message) = &record.message else {
            return;
        };
        if self.cwd.as_os_str().is_empty() {
            self.cwd = PathBuf::from(&record.cwd);
        }
        match (record.kind, message) {
            (RecordKind::User, RecordMessage::Plain(_)) if record.is_prompt() => {
                self.turns.push(Turn {
                    prompt: message.text(),
                    answers: Vec::new(),
                });
            }
            (RecordKind::User, RecordMessage::Plain(_)) => {
                let ran = !record
                    .tool_use_result
                    .as_ref()
                    .is_some_and(Value::is_string);
                for block in message.blocks() {
                    self.take_result(&block, ran);
                }
            }
            // A message of our own about an error has no model.
            (RecordKind::Assistant, RecordMessage::Assistant(answer))
                if !record.is_api_error_message =>
            {
                self.model.get_or_insert_with(|| answer.model.clone());
                let Some(turn) = self.turns.last_mut() else {
                    return;
                };
                if turn.answers.last().is_none_or(|last| last.id != answer.id) {
                    turn.answers.push(Answer {
                        id: answer.id.clone(),
                        ..Answer::default()
                    });
                }
                if let Some(last) = turn.answers.last_mut() {
                    last.output_tokens = last.output_tokens.max(answer.usage.output_tokens);
                    last.parts.extend(answer.content.iter().filter_map(part));
                }
            }
            _ => {}
        }
    }

    fn take_result(&mut self, block: &ContentBlock, ran: bool) {
        let Some(result) = block.as_tool_result() else {
            return;
        };
        let calls = self
            .turns
            .iter_mut()
            .rev()
            .flat_map(|turn| &mut turn.answers);
        let mut calls = calls.flat_map(|answer| &mut answer.parts);
        let found = calls.find_map(|part| match part {
            Part::Call(call) if call.id == result.tool_use_id.0 => Some(call),
            _ => None,
        });
        if let Some(call) = found {
            call.result = Some(CallOutcome {
                text: result
                    .content
                    .as_ref()
                    .map(Content::text)
                    .unwrap_or_default(),
                is_error: result.is_error == Some(true),
                ran,
            });
        }
    }

    /// Keeps only so many answers of the model.
    pub(crate) fn truncate(&mut self, answers: usize) {
        let mut left = answers;
        self.turns.retain_mut(|turn| {
            let keep = left > 0;
            turn.answers.truncate(left);
            left -= turn.answers.len();
            keep
        });
    }

    /// Every call, in order.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        let answers = self.turns.iter().flat_map(|turn| &turn.answers);
        answers
            .flat_map(|answer| &answer.parts)
            .filter_map(|part| match part {
                Part::Call(call) => Some(call),
                Part::Text(_) => None,
            })
    }

    /// How many answers the model gave.
    pub(crate) fn answers(&self) -> usize {
        self.turns.iter().map(|turn| turn.answers.len()).sum()
    }
}

fn part(block: &ContentBlock) -> Option<Part> {
    match block {
        ContentBlock::Text(text) => Some(Part::Text(text.text.clone())),
        ContentBlock::ToolUse(call) => Some(Part::Call(Call {
            id: call.id.0.clone(),
            tool: call.name.clone(),
            input: call.input.clone(),
            result: None,
        })),
        _ => None,
    }
}

impl Call {
    /// The block of an answer that asks for this call, under another name or with another input if need be.
    pub(crate) fn block(&self, tool: &str, input: &Value) -> Value {
        json!({"type": "tool_use", "id": self.id, "name": tool, "input": input})
    }
}
