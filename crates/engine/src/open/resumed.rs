//! The end of a resumed conversation, as the hooks of its start are told.

use crate::conversation::ConversationShared;
use crate::conversation::model_switch::ModelSwitch;
use lathe_protocol::record::{Record, RecordMessage};
use lathe_session::Loaded;
use serde_json::{Value, json};

/// How long ago the model answered, how large the conversation was, and what it costs if the provider's cache has
/// forgotten it. `None` if the model never answered.
pub(super) fn facts(history: &Loaded, shared: &ConversationShared) -> Option<Value> {
    let (at, tokens) = last_answer(history)?;
    let seconds = jiff::Timestamp::now().as_second() - at.as_second();
    let model = shared.choices.read().model.clone();
    let switch = ModelSwitch::of(shared, &model, &model, None, "resume");
    let kept = if switch.hour { 3600 } else { 300 };
    #[expect(
        clippy::cast_precision_loss,
        reason = "a window has far fewer tokens than that"
    )]
    let cost = switch.price.unwrap_or(0.0) * tokens as f64 / 1e6;
    Some(json!({
        "seconds_since_last_response": seconds.max(0), "context_tokens": tokens,
        "prompt_cache_likely_expired": seconds > kept, "estimated_cache_write_usd": cost,
    }))
}

/// When the model answered last, and the tokens of that request and its answer.
fn last_answer(history: &Loaded) -> Option<(jiff::Timestamp, u64)> {
    history.records.iter().rev().find_map(|record| {
        let Record::Message(record) = &**record else {
            return None;
        };
        let Some(RecordMessage::Assistant(message)) = &record.message else {
            return None;
        };
        let tokens = message.usage.total_input() + message.usage.output_tokens;
        let at = record.timestamp.parse().ok()?;
        (tokens > 0).then_some((at, tokens))
    })
}
