//! Responses, to the Messages shape.

use super::SIGNATURE;
use crate::chat::usage;
use crate::classify_foreign;
use crate::wire::calls::{CallCollector, CallPiece};
use crate::wire::decoding::{Decode, Unusable, broken};
use crate::wire::emit::Emitter;
use lathe_protocol::message::StopReason;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// Reads one response.
pub(super) struct ResponsesDecoder {
    calls: CallCollector,
    /// How much of the text or the arguments of an item was passed on, by its place.
    passed: HashMap<u64, String>,
    refusal: bool,
    done: bool,
}

impl ResponsesDecoder {
    pub(super) fn new(offered: Arc<Vec<String>>) -> Self {
        Self {
            calls: CallCollector::new(offered),
            passed: HashMap::new(),
            refusal: false,
            done: false,
        }
    }

    fn text(&mut self, place: u64, delta: &str, out: &mut Emitter) {
        self.passed.entry(place).or_default().push_str(delta);
        out.text(delta);
    }

    fn arguments(&mut self, place: u64, delta: &str, whole: bool, out: &mut Emitter) {
        self.passed.entry(place).or_default().push_str(delta);
        let piece = CallPiece {
            index: Some(place),
            arguments: delta,
            whole,
            ..CallPiece::default()
        };
        self.calls.piece(&piece, out);
    }

    /// What of a complete text was not passed on yet.
    fn missing(&self, place: u64, whole: &str) -> String {
        let passed = self.passed.get(&place).map_or("", String::as_str);
        whole.strip_prefix(passed).unwrap_or_default().to_owned()
    }

    fn added(&mut self, place: u64, item: &Value, out: &mut Emitter) {
        match item["type"].as_str() {
            Some("function_call") => {
                let piece = CallPiece {
                    index: Some(place),
                    id: item["call_id"].as_str().unwrap_or_default(),
                    name: item["name"].as_str().unwrap_or_default(),
                    ..CallPiece::default()
                };
                self.passed.entry(place).or_default();
                self.calls.piece(&piece, out);
            }
            Some("message") => {
                if let Some(phase) = item["phase"].as_str() {
                    out.sign(&format!("{SIGNATURE}{}", json!({"phase": phase})));
                }
                self.passed.entry(place).or_default();
            }
            _ => {}
        }
    }

    /// An item is complete: what it says is the truth, deltas may have been left out.
    fn item(&mut self, place: u64, item: &Value, out: &mut Emitter) {
        match item["type"].as_str() {
            Some("reasoning") => {
                if !out.is_thinking() {
                    let parts = item["summary"].as_array().into_iter().flatten();
                    let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
                    out.thinking(&texts.join("\n\n"));
                }
                let kept = json!({
                    "type": "reasoning",
                    "id": item["id"],
                    "summary": item.get("summary").cloned().unwrap_or_else(|| json!([])),
                    "encrypted_content": item["encrypted_content"],
                });
                if item["encrypted_content"].is_string() {
                    out.sign(&format!("{SIGNATURE}{kept}"));
                } else {
                    out.close();
                }
            }
            Some("message") => {
                if !self.passed.contains_key(&place) {
                    self.added(place, item, out);
                }
                let mut whole = String::new();
                for part in item["content"].as_array().into_iter().flatten() {
                    self.refusal |= part["type"] == "refusal";
                    let text = part["text"].as_str().or(part["refusal"].as_str());
                    whole.push_str(text.unwrap_or_default());
                }
                let rest = self.missing(place, &whole);
                self.text(place, &rest, out);
                out.close();
            }
            Some("function_call") => {
                if !self.passed.contains_key(&place) {
                    self.added(place, item, out);
                }
                let rest = self.missing(place, item["arguments"].as_str().unwrap_or_default());
                self.arguments(place, &rest, true, out);
            }
            _ => {}
        }
    }

    fn finish(&mut self, response: &Value, out: &mut Emitter) -> Result<(), Unusable> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        self.calls.finish(out);
        let usage = usage(&response["usage"]).unwrap_or_default();
        let incomplete = response["incomplete_details"]["reason"].as_str();
        let reason = match incomplete {
            Some("max_output_tokens") if !out.has_anything() && usage.output_tokens == 0 => {
                return Err(Unusable::Trouble(classify_foreign::silent_overflow(
                    usage.total_input(),
                )));
            }
            Some("content_filter") => StopReason::Refusal,
            _ if out.has_calls() => StopReason::ToolUse,
            Some("max_output_tokens") => StopReason::MaxTokens,
            _ if self.refusal => StopReason::Refusal,
            _ => StopReason::EndTurn,
        };
        out.end(reason, usage);
        Ok(())
    }
}

impl Decode for ResponsesDecoder {
    fn event(&mut self, _name: &[u8], data: &[u8], out: &mut Emitter) -> Result<(), Unusable> {
        let trimmed = data.trim_ascii();
        if trimmed.is_empty() || trimmed == b"[DONE]" || self.done {
            return Ok(());
        }
        let event: Value = serde_json::from_slice(trimmed)?;
        let place = event["output_index"].as_u64().unwrap_or_default();
        let delta = event["delta"].as_str().unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "response.created" | "response.in_progress" => {
                out.start(event["response"]["id"].as_str().unwrap_or_default());
            }
            "response.output_item.added" => self.added(place, &event["item"], out),
            "response.output_text.delta" => self.text(place, delta, out),
            "response.refusal.delta" => {
                self.refusal = true;
                self.text(place, delta, out);
            }
            "response.reasoning_summary_part.added" if out.is_thinking() => {
                out.thinking("\n\n");
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                out.thinking(delta);
            }
            "response.function_call_arguments.delta" => self.arguments(place, delta, false, out),
            "response.output_item.done" => self.item(place, &event["item"], out),
            "response.completed" | "response.incomplete" => {
                return self.finish(&event["response"], out);
            }
            "response.failed" => {
                let error = &event["response"]["error"];
                return Err(Unusable::Trouble(classify_foreign::stream_error(error)));
            }
            "error" => {
                let error = event.get("error").filter(|error| error.is_object());
                return Err(Unusable::Trouble(classify_foreign::stream_error(
                    error.unwrap_or(&event),
                )));
            }
            _ if event.get("error").is_some_and(Value::is_object) => {
                return Err(Unusable::Trouble(classify_foreign::stream_error(
                    &event["error"],
                )));
            }
            // News from a newer API.
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, body: &[u8], out: &mut Emitter) -> Result<(), Unusable> {
        let response: Value = serde_json::from_slice(body)?;
        if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
            return Err(Unusable::Trouble(classify_foreign::stream_error(error)));
        }
        let Some(items) = response["output"].as_array() else {
            return Err(Unusable::Malformed("the answer has no `output`".to_owned()));
        };
        out.start(response["id"].as_str().unwrap_or_default());
        for (place, item) in items.iter().enumerate() {
            self.item(place as u64, item, out);
        }
        self.finish(&response, out)
    }

    fn end(&mut self, out: &mut Emitter) -> Result<(), Unusable> {
        if out.is_ended() {
            Ok(())
        } else {
            Err(broken())
        }
    }
}
