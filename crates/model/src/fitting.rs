//! Requests in the Messages shape, fitted to what settings say about their model.
//!
//! Other families get this from their translators; here the request is sent as it is, so only what has to be different
//! is made anew, once per message.

use crate::providers::ModelFacts;
use crate::request::{CacheMarkers, ModelRequest};
use crate::wire::cache::Translations;
use bytes::Bytes;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::message::Message;
use lathe_settings::schema::CacheSetting;
use serde_json::{Value, json};

const NO_IMAGE: &str = "[image omitted: the model does not accept images]";

/// Fitted parts of requests, kept between requests.
#[derive(Default)]
pub(crate) struct Fitting {
    messages: Translations<EncodedMessage>,
    systems: Translations<Bytes>,
}

impl Fitting {
    /// Fits a request to its model.
    pub(crate) fn fit(&self, request: &mut ModelRequest, facts: &ModelFacts) {
        if facts.parallel_tools == Some(false) && request.tools.len() > "[]".len() {
            let extra = &mut request.extra;
            let choice = extra
                .entry("tool_choice")
                .or_insert_with(|| json!({"type": "auto"}));
            if choice["type"] != "none" {
                choice["disable_parallel_tool_use"] = true.into();
            }
        }
        if facts.reasoning == Some(false) {
            request.thinking = None;
            if let Some(output) = request.extra.get_mut("output_config")
                && let Some(fields) = output.as_object_mut()
            {
                fields.shift_remove("effort");
                if fields.is_empty() {
                    request.extra.shift_remove("output_config");
                }
            }
        }
        if facts.cache == Some(CacheSetting::Switch(false)) {
            request.cache_markers = CacheMarkers::None;
            self.systems.begin();
            let unmarked = self
                .systems
                .get(&request.system, 0, || without_marks(&request.system));
            request.system = Bytes::clone(&unmarked);
        }
        if facts.images == Some(false) {
            self.messages.begin();
            let fitted = request.messages.iter().map(|message| {
                let made = self
                    .messages
                    .get(&message.bytes, 0, || without_images(&message));
                EncodedMessage::clone(&made)
            });
            request.messages = fitted.collect();
        }
    }
}

fn without_marks(system: &Bytes) -> Bytes {
    let Ok(mut blocks) = serde_json::from_slice::<Vec<Value>>(system) else {
        return system.clone();
    };
    for block in blocks.iter_mut().filter_map(Value::as_object_mut) {
        block.shift_remove("cache_control");
    }
    Bytes::from(Value::Array(blocks).to_string())
}

/// A message with notes where its images were; one without images shares its bytes.
fn without_images(message: &EncodedMessage) -> EncodedMessage {
    if memchr::memmem::find(&message.bytes, b"\"image\"").is_none() {
        return message.clone();
    }
    let Ok(parsed) = serde_json::from_slice::<Message>(&message.bytes) else {
        return message.clone();
    };
    let mut blocks = parsed.content.into_blocks();
    for block in &mut blocks {
        replace(block);
        if let ContentBlock::ToolResult(result) = block
            && let Some(Content::Blocks(inner)) = &mut result.content
        {
            inner.iter_mut().for_each(replace);
        }
    }
    EncodedMessage::new(message.role, &blocks).unwrap_or_else(|_| message.clone())
}

fn replace(block: &mut ContentBlock) {
    if matches!(block, ContentBlock::Image(_)) {
        *block = ContentBlock::text(NO_IMAGE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::message::Role;

    fn request() -> ModelRequest {
        let mut request = ModelRequest::new("m", 10);
        request.system =
            json!([{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}])
                .to_string()
                .into();
        request.tools = json!([{"name": "Read"}]).to_string().into();
        request.cache_markers = CacheMarkers::FiveMinutes;
        for blocks in [
            vec![ContentBlock::text("words")],
            vec![
                ContentBlock::image("image/png", "AAAA"),
                ContentBlock::text("look"),
            ],
        ] {
            request
                .messages
                .extend(EncodedMessage::new(Role::User, &blocks));
        }
        request
    }

    #[test]
    fn a_model_that_says_nothing_gets_the_request_as_it_is() {
        let mut fitted = request();
        let before = fitted.messages.get(1).unwrap().bytes.as_ptr();
        Fitting::default().fit(&mut fitted, &ModelFacts::default());
        assert_eq!(fitted.messages.get(1).unwrap().bytes.as_ptr(), before);
        assert_eq!(fitted.cache_markers, CacheMarkers::FiveMinutes);
        assert!(fitted.extra.is_empty());
    }

    #[test]
    fn images_are_a_note_and_everything_else_stays_the_same_bytes() {
        let facts = ModelFacts {
            images: Some(false),
            ..ModelFacts::default()
        };
        let fitting = Fitting::default();
        let whole = request();
        let (mut first, mut second) = (whole.clone(), whole.clone());
        fitting.fit(&mut first, &facts);
        fitting.fit(&mut second, &facts);
        let at = |request: &ModelRequest, index: usize| {
            request.messages.get(index).unwrap().bytes.clone()
        };
        assert_eq!(at(&first, 0).as_ptr(), at(&whole, 0).as_ptr());
        let noted = String::from_utf8(at(&first, 1).to_vec()).unwrap();
        assert!(noted.contains(NO_IMAGE) && noted.contains("look") && !noted.contains("AAAA"));
        // Made once, however often it is sent.
        assert_eq!(at(&first, 1).as_ptr(), at(&second, 1).as_ptr());
    }

    #[test]
    fn a_cache_that_is_off_has_no_marks_and_calls_come_one_at_a_time_where_that_is_said() {
        let facts = ModelFacts {
            cache: Some(CacheSetting::Switch(false)),
            parallel_tools: Some(false),
            ..ModelFacts::default()
        };
        let mut fitted = request();
        Fitting::default().fit(&mut fitted, &facts);
        assert_eq!(fitted.cache_markers, CacheMarkers::None);
        assert!(
            !String::from_utf8(fitted.system.to_vec())
                .unwrap()
                .contains("cache_control")
        );
        assert_eq!(
            fitted.extra["tool_choice"],
            json!({"type": "auto", "disable_parallel_tool_use": true})
        );
    }
}
