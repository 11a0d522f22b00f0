//! How far an answer is: when it began, how much was thought, whether it is a refusal, and what hooks say of its calls.

use crate::conversation::records::reminder;
use crate::conversation::{Conversation, RunningTurn};
use crate::turn::decide::CallEnding;
use lathe_protocol::event::{Event, Refusal};
use lathe_protocol::ids::RecordId;
use lathe_protocol::message::StopReason;
use lathe_protocol::stream::{Delta, StreamEvent};
use serde_json::Value;

/// After so many more tokens of thinking, the faces are told.
const TOLD_EVERY: u64 = 50;
/// Bytes of text in a token, by estimate.
const BYTES_PER_TOKEN: u64 = 4;

/// How much the model has thought in the present block.
#[derive(Debug, Default)]
pub(crate) struct Thought {
    bytes: u64,
    told: u64,
}

impl Thought {
    /// Takes an event into account. Gives the tokens of the block and those that are new, when it is time to tell.
    fn note(&mut self, event: &StreamEvent) -> Option<(u64, u64)> {
        let ends = match event {
            StreamEvent::ContentBlockStart { .. } => {
                *self = Self::default();
                false
            }
            StreamEvent::ContentBlockDelta {
                delta: Delta::ThinkingDelta { thinking },
                ..
            } => {
                self.bytes += thinking.len() as u64;
                false
            }
            StreamEvent::ContentBlockStop { .. } => true,
            _ => return None,
        };
        let tokens = self.bytes.div_ceil(BYTES_PER_TOKEN);
        let fresh = tokens - self.told;
        if fresh == 0 || (fresh < TOLD_EVERY && !ends) {
            return None;
        }
        self.told = tokens;
        Some((tokens, fresh))
    }
}

/// Notes an event of an answer.
pub(super) fn note(
    conversation: &mut Conversation,
    turn: &RunningTurn,
    thought: &mut Thought,
    event: &StreamEvent,
    request_id: impl FnOnce() -> Option<String>,
) {
    let is_content = matches!(event, StreamEvent::ContentBlockDelta { .. });
    conversation.ledger.note_answer(is_content);
    if conversation.parent_tool_use_id.is_some() {
        return;
    }
    if let Some((estimated_tokens, delta)) = thought.note(event) {
        conversation.shared.events.send(Event::Thinking {
            estimated_tokens,
            delta,
        });
    }
    if let StreamEvent::MessageDelta { delta, .. } = event
        && delta.stop_reason == Some(StopReason::Refusal)
    {
        let details = delta.extra.get("stop_details");
        let word = |name: &str| details?.get(name)?.as_str().map(str::to_owned);
        let refusal = Refusal {
            model: conversation.model.clone(),
            request_id: request_id(),
            category: word("category"),
            explanation: word("explanation"),
            prompt: Some(turn.prompt),
        };
        conversation.shared.events.send(Event::Refused(refusal));
    }
}

/// Asks the hooks of all calls of an answer together. They may add context, which becomes a record, and end the turn.
pub(super) async fn after_batch(
    conversation: &mut Conversation,
    batch: Vec<Value>,
) -> (Option<RecordId>, Option<CallEnding>) {
    let verdict = conversation.shared.hooks.post_tool_batch(batch).await;
    let mut words = verdict.additional_context;
    let objection = verdict.block.as_ref();
    words.extend(objection.map(|reason| format!("A hook rejects these results: {reason}")));
    let record = (!words.is_empty()).then(|| {
        let words = reminder(&words.join("\n\n"));
        let record = conversation.records.meta(conversation.tip, words);
        conversation.append(record)
    });
    let reason = verdict.stop.or(verdict.block);
    let ending = reason.map(|reason| CallEnding::HookStopped { reason });
    (record, ending)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn thinking_is_told_in_steps_and_at_its_end() {
        let event = |value| serde_json::from_value::<StreamEvent>(value).unwrap();
        let start = event(json!({
            "type": "content_block_start", "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        }));
        let delta = |length: usize| {
            event(json!({
                "type": "content_block_delta", "index": 0,
                "delta": {"type": "thinking_delta", "thinking": "x".repeat(length)},
            }))
        };
        let stop = event(json!({"type": "content_block_stop", "index": 0}));
        let mut thought = Thought::default();
        assert_eq!(thought.note(&start), None);
        assert_eq!(thought.note(&delta(196)), None);
        assert_eq!(thought.note(&delta(4)), Some((50, 50)));
        assert_eq!(thought.note(&delta(41)), None);
        assert_eq!(thought.note(&stop), Some((61, 11)));
        // The next block is counted for itself, and one without thinking is not told.
        assert_eq!(thought.note(&start), None);
        assert_eq!(thought.note(&stop), None);
    }
}
