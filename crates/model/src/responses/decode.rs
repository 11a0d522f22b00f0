//! Responses, to the Messages shape.

use super::SIGNATURE;
use crate::chat::usage;
use crate::classify_foreign;
use crate::error::ModelError;
use crate::lenient;
use crate::search::results_block;
use crate::wire::calls::{CallCollector, CallIds, CallPiece};
use crate::wire::decoding::{Decode, Unusable, broken};
use crate::wire::emit::Emitter;
use lathe_protocol::message::StopReason;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// From here on places are made from ids of items.
const UNNUMBERED: u64 = 1 << 32;

/// Reads one response.
pub(super) struct ResponsesDecoder {
    calls: CallCollector,
    passed: Passed,
    /// The items that are complete.
    complete: HashSet<u64>,
    /// Ids of items, for servers that don't number them.
    item_ids: Vec<String>,
    estimate: u64,
    refusal: bool,
    /// How often the provider searched the web.
    searches: u64,
    done: bool,
}

/// How much of the text or the arguments of each item was passed on. A response has few items, and the last one grows.
#[derive(Default)]
struct Passed(Vec<(u64, String)>);

impl Passed {
    fn get(&self, place: u64) -> Option<&str> {
        let found = self.0.iter().rev().find(|(known, _)| *known == place);
        found.map(|(_, passed)| passed.as_str())
    }

    fn at(&mut self, place: u64) -> &mut String {
        let known = self.0.iter().rposition(|(known, _)| *known == place);
        let index = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push((place, String::new()));
        }
        &mut self.0[index].1
    }
}

/// An event that makes an item grow, as nearly every event does.
#[derive(Deserialize)]
struct Growth<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    output_index: u64,
    #[serde(borrow)]
    delta: Cow<'a, str>,
}

impl ResponsesDecoder {
    pub(super) fn new(offered: Arc<Vec<String>>, ids: CallIds, estimate: u64) -> Self {
        Self {
            calls: CallCollector::new(offered, ids),
            passed: Passed::default(),
            complete: HashSet::new(),
            item_ids: Vec::new(),
            estimate,
            refusal: false,
            searches: 0,
            done: false,
        }
    }

    /// Reads an event that only makes an item grow; `false` if it is another one.
    fn quick(&mut self, data: &[u8], out: &mut Emitter) -> bool {
        let Ok(growth) = serde_json::from_slice::<Growth<'_>>(data) else {
            return false;
        };
        self.grow(growth.kind, growth.output_index, &growth.delta, out)
    }

    /// An item grows; `false` if that is not what an event of this kind says.
    fn grow(&mut self, kind: &str, place: u64, delta: &str, out: &mut Emitter) -> bool {
        match kind {
            "response.output_text.delta" => self.text(place, delta, out),
            "response.refusal.delta" => {
                self.refusal = true;
                self.text(place, delta, out);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                out.thinking(delta);
            }
            "response.function_call_arguments.delta" => self.arguments(place, delta, false, out),
            _ => return false,
        }
        true
    }

    fn text(&mut self, place: u64, delta: &str, out: &mut Emitter) {
        self.passed.at(place).push_str(delta);
        out.text(delta);
    }

    fn arguments(&mut self, place: u64, delta: &str, whole: bool, out: &mut Emitter) {
        self.passed.at(place).push_str(delta);
        let piece = CallPiece {
            index: Some(place),
            arguments: delta,
            whole,
            ..CallPiece::default()
        };
        self.calls.piece(&piece, out);
    }

    /// The part of a complete text that was not emitted yet.
    fn missing(&self, place: u64, whole: &str) -> Result<String, Unusable> {
        let passed = self.passed.get(place).unwrap_or_default();
        match whole.strip_prefix(passed) {
            Some(rest) => Ok(rest.to_owned()),
            // The item says nothing, or the pieces are not what the item says.
            None if whole.is_empty() => Ok(String::new()),
            None => Err(Unusable::Trouble(ModelError::Truncated {
                message: "parts of the answer were lost in transit".to_owned(),
            })),
        }
    }

    /// The place of an event's item: its number, else one that is made from its id.
    fn place(&mut self, event: &Value) -> u64 {
        if let Some(index) = event["output_index"].as_u64() {
            return index;
        }
        let id = event["item_id"].as_str().or(event["item"]["id"].as_str());
        let Some(id) = id else {
            return 0;
        };
        let known = self.item_ids.iter().position(|known| known == id);
        let at = known.unwrap_or_else(|| {
            self.item_ids.push(id.to_owned());
            self.item_ids.len() - 1
        });
        UNNUMBERED + at as u64
    }

    fn added(&mut self, place: u64, item: &Value, out: &mut Emitter) {
        match item["type"].as_str() {
            Some("function_call") => {
                let piece = CallPiece {
                    index: Some(place),
                    id: item["call_id"]
                        .as_str()
                        .or(item["id"].as_str())
                        .unwrap_or_default(),
                    name: item["name"].as_str().unwrap_or_default(),
                    ..CallPiece::default()
                };
                self.passed.at(place);
                self.calls.piece(&piece, out);
            }
            Some("message") => {
                if let Some(phase) = item["phase"].as_str() {
                    out.sign(&format!("{SIGNATURE}{}", json!({"phase": phase})));
                }
                self.passed.at(place);
            }
            _ => {}
        }
    }

    /// An item is complete: what it says is the truth, deltas may have been left out.
    fn item(&mut self, place: u64, item: &Value, out: &mut Emitter) -> Result<(), Unusable> {
        if !self.complete.insert(place) {
            return Ok(());
        }
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
                if self.passed.get(place).is_none() {
                    self.added(place, item, out);
                }
                let mut whole = String::new();
                for part in item["content"].as_array().into_iter().flatten() {
                    self.refusal |= part["type"] == "refusal";
                    let text = part["text"].as_str().or(part["refusal"].as_str());
                    whole.push_str(text.unwrap_or_default());
                }
                let rest = self.missing(place, &whole)?;
                self.text(place, &rest, out);
                out.close();
                sources(item, out);
            }
            Some("web_search_call") => self.searches += 1,
            Some("function_call") => {
                if self.passed.get(place).is_none() {
                    self.added(place, item, out);
                }
                let whole = match &item["arguments"] {
                    Value::String(text) => text.clone(),
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                let rest = self.missing(place, &whole)?;
                self.arguments(place, &rest, true, out);
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, response: &Value, out: &mut Emitter) -> Result<(), Unusable> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        // What no event of its own told.
        for (place, item) in response["output"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            let id = item["id"].as_str();
            let unnumbered = self
                .item_ids
                .iter()
                .position(|known| Some(known.as_str()) == id)
                .map(|at| UNNUMBERED + at as u64);
            self.item(unnumbered.unwrap_or(place as u64), item, out)?;
        }
        self.calls.finish(out);
        let usage = usage(&response["usage"]);
        let mut usage = usage.unwrap_or_else(|| out.estimated_usage(self.estimate));
        usage.server_tool_use.web_search_requests = self.searches;
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

/// The pages that a message names as its sources.
fn sources(item: &Value, out: &mut Emitter) {
    let mut pages: Vec<(String, String)> = Vec::new();
    for part in item["content"].as_array().into_iter().flatten() {
        for note in part["annotations"].as_array().into_iter().flatten() {
            let url = note["url"].as_str().unwrap_or_default();
            if note["type"] == "url_citation" && pages.iter().all(|(_, known)| known != url) {
                let title = note["title"].as_str().unwrap_or(url);
                pages.push((title.to_owned(), url.to_owned()));
            }
        }
    }
    if !pages.is_empty() {
        out.block(results_block("web_search", &pages));
    }
}

impl Decode for ResponsesDecoder {
    fn event(&mut self, _name: &[u8], data: &[u8], out: &mut Emitter) -> Result<(), Unusable> {
        let trimmed = data.trim_ascii();
        if trimmed.is_empty() || trimmed == b"[DONE]" || self.done {
            return Ok(());
        }
        if self.quick(trimmed, out) {
            return Ok(());
        }
        let event: Value = lenient::parse(trimmed)?;
        let place = self.place(&event);
        let delta = event["delta"].as_str().unwrap_or_default();
        let kind = event["type"].as_str().unwrap_or_default();
        if self.grow(kind, place, delta, out) {
            return Ok(());
        }
        match kind {
            "response.created" | "response.in_progress" => {
                out.start(event["response"]["id"].as_str().unwrap_or_default());
            }
            "response.output_item.added" => self.added(place, &event["item"], out),
            "response.reasoning_summary_part.added" if out.is_thinking() => {
                out.thinking("\n\n");
            }
            "response.output_item.done" => self.item(place, &event["item"], out)?,
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
        let response: Value = lenient::parse(body)?;
        if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
            return Err(Unusable::Trouble(classify_foreign::stream_error(error)));
        }
        let Some(items) = response["output"].as_array() else {
            return Err(Unusable::Malformed("the answer has no `output`".to_owned()));
        };
        out.start(response["id"].as_str().unwrap_or_default());
        for (place, item) in items.iter().enumerate() {
            self.item(place as u64, item, out)?;
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
