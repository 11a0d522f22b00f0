//! Responses, to the Messages shape.

use super::Learned;
use super::encode::SIGNATURE;
use crate::classify_foreign;
use crate::error::ModelError;
use crate::lenient;
use crate::wire::calls::{CallCollector, CallIds, CallPiece};
use crate::wire::decoding::{Decode, Unusable, broken};
use crate::wire::emit::Emitter;
use crate::wire::think::ThinkSplitter;
use lathe_protocol::message::StopReason;
use lathe_protocol::usage::Usage;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::sync::Arc;

/// Estimates for servers that don't report usage.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Estimate {
    pub(crate) input: u64,
}

/// The inputs of a decoder.
pub(crate) struct Setup {
    pub(crate) offered: Arc<Vec<String>>,
    pub(crate) ids: CallIds,
    pub(crate) unopened: bool,
    pub(crate) estimate: Estimate,
    pub(crate) model: String,
    pub(crate) learned: Arc<Mutex<Learned>>,
}

/// Reads one response.
pub(crate) struct ChatDecoder {
    calls: CallCollector,
    think: ThinkSplitter,
    /// The field in which reasoning came.
    reasoning: Option<&'static str>,
    details: Vec<Value>,
    refusal: bool,
    finish: Option<String>,
    usage: Option<Usage>,
    estimate: Estimate,
    model: String,
    learned: Arc<Mutex<Learned>>,
    /// `[DONE]` came.
    said_done: bool,
    done: bool,
}

/// The part of a chunk that nearly every chunk consists of, and what must not be there beside it: only the careful
/// reading takes that.
#[derive(Deserialize)]
struct Quick<'a> {
    #[serde(borrow)]
    choices: [QuickChoice<'a>; 1],
    #[serde(default)]
    usage: Option<IgnoredAny>,
    #[serde(default)]
    x_groq: Option<IgnoredAny>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct QuickChoice<'a> {
    #[serde(borrow)]
    delta: QuickDelta<'a>,
    #[serde(default)]
    finish_reason: Option<&'a str>,
    #[serde(default)]
    text: Option<IgnoredAny>,
    #[serde(default)]
    usage: Option<IgnoredAny>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickDelta<'a> {
    #[serde(borrow)]
    content: std::borrow::Cow<'a, str>,
}

impl ChatDecoder {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            calls: CallCollector::new(setup.offered, setup.ids),
            think: ThinkSplitter::new(setup.unopened),
            reasoning: None,
            details: Vec::new(),
            refusal: false,
            finish: None,
            usage: None,
            estimate: setup.estimate,
            model: setup.model,
            learned: setup.learned,
            said_done: false,
            done: false,
        }
    }

    fn quick(&mut self, data: &[u8], out: &mut Emitter) -> bool {
        let Ok(chunk) = serde_json::from_slice::<Quick<'_>>(data) else {
            return false;
        };
        let [choice] = &chunk.choices;
        let has_more = choice.finish_reason.is_some()
            || choice.text.is_some()
            || [chunk.usage, chunk.x_groq, chunk.error]
                .iter()
                .any(Option::is_some)
            || [choice.usage, choice.error].iter().any(Option::is_some);
        if has_more {
            return false;
        }
        self.content(&choice.delta.content, out);
        true
    }

    fn content(&mut self, text: &str, out: &mut Emitter) {
        if text.is_empty() {
            return;
        }
        if out.is_thinking() && self.reasoning.is_some() {
            self.end_reasoning(out);
        }
        self.think.push(text, out);
    }

    /// Takes a chunk or a whole answer.
    fn chunk(&mut self, chunk: &Value, out: &mut Emitter) -> Result<(), Unusable> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(Unusable::Trouble(classify_foreign::stream_error(error)));
        }
        // The errors of vLLM are not in a field of their own.
        if chunk["object"] == "error" {
            return Err(Unusable::Trouble(classify_foreign::stream_error(chunk)));
        }
        out.start(chunk["id"].as_str().unwrap_or_default());
        self.take_usage(&chunk["usage"]);
        // llama.cpp and Groq have their own places for it.
        self.take_usage(&chunk["x_groq"]["usage"]);
        let Some(choice) = chunk["choices"].get(0) else {
            return Ok(());
        };
        self.take_usage(&choice["usage"]);
        let delta = [&choice["delta"], &choice["message"]]
            .into_iter()
            .find(|part| part.is_object())
            .unwrap_or(&Value::Null);
        self.delta(delta, out);
        if let Some(text) = choice["text"].as_str() {
            self.content(text, out);
        }
        if let Some(error) = choice.get("error").filter(|error| !error.is_null()) {
            return Err(Unusable::Trouble(classify_foreign::stream_error(error)));
        }
        if let Some(reason) = choice["finish_reason"].as_str().filter(|it| !it.is_empty()) {
            self.finish = Some(reason.to_owned());
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Value, out: &mut Emitter) {
        let fields = ["reasoning_content", "reasoning", "reasoning_text"];
        let found = fields.into_iter().find_map(|field| {
            let text = delta[field].as_str().filter(|text| !text.is_empty())?;
            Some((field, text))
        });
        if let Some(details) = delta["reasoning_details"].as_array() {
            self.reasoning_details(details, found.is_none(), out);
        }
        if let Some((field, text)) = found {
            self.reasoning.get_or_insert(match field {
                "reasoning" => "reasoning",
                _ => "reasoning_content",
            });
            out.thinking(text);
        }
        match &delta["content"] {
            Value::String(text) => self.content(text, out),
            Value::Array(parts) => {
                for part in parts {
                    if part["type"] == "thinking" {
                        // Mistral gives reasoning as parts of the content.
                        for piece in part["thinking"].as_array().into_iter().flatten() {
                            out.thinking(piece["text"].as_str().unwrap_or_default());
                        }
                    } else {
                        self.content(part["text"].as_str().unwrap_or_default(), out);
                    }
                }
            }
            _ => {}
        }
        if let Some(text) = delta["refusal"].as_str().filter(|text| !text.is_empty()) {
            self.refusal = true;
            self.content(text, out);
        }
        match &delta["tool_calls"] {
            Value::Array(calls) => calls.iter().for_each(|call| self.call(call, out)),
            call @ Value::Object(_) => self.call(call, out),
            _ => {}
        }
        if delta["function_call"].is_object() {
            let call = serde_json::json!({"function": delta["function_call"]});
            self.call(&call, out);
        }
    }

    fn reasoning_details(&mut self, details: &[Value], speaks: bool, out: &mut Emitter) {
        for detail in details {
            self.reasoning.get_or_insert("reasoning_details");
            if speaks {
                let text = detail["text"].as_str().or(detail["summary"].as_str());
                out.thinking(text.unwrap_or_default());
            }
            // Pieces of one detail are joined by their index.
            let same = |known: &&mut Value| {
                !detail["index"].is_null()
                    && known["index"] == detail["index"]
                    && known["type"] == detail["type"]
            };
            match self.details.iter_mut().find(same) {
                Some(known) => {
                    for field in ["text", "summary", "data", "signature"] {
                        let Some(more) = detail[field].as_str() else {
                            continue;
                        };
                        let before = known[field].as_str().unwrap_or_default();
                        known[field] = format!("{before}{more}").into();
                    }
                }
                None => self.details.push(detail.clone()),
            }
        }
    }

    fn call(&mut self, call: &Value, out: &mut Emitter) {
        if self.calls.is_empty() {
            self.think.finish(out);
            self.end_reasoning(out);
        }
        // Some put name and arguments beside the id.
        let function = match &call["function"] {
            function @ Value::Object(_) => function,
            _ => call,
        };
        let (arguments, whole) = match &function["arguments"] {
            Value::String(text) => (text.clone(), false),
            Value::Null => (String::new(), false),
            // An object: the whole call came at once.
            other => (other.to_string(), true),
        };
        let id = match &call["id"] {
            Value::String(id) => id.clone(),
            Value::Number(number) => number.to_string(),
            _ => String::new(),
        };
        let piece = CallPiece {
            index: number(&call["index"]),
            id: &id,
            name: function["name"].as_str().unwrap_or_default(),
            arguments: &arguments,
            whole,
        };
        self.calls.piece(&piece, out);
    }

    /// Closes reasoning with the name under which it goes back.
    fn end_reasoning(&mut self, out: &mut Emitter) {
        if !self.details.is_empty() {
            let details = Value::Array(std::mem::take(&mut self.details));
            out.sign(&format!("{SIGNATURE}reasoning_details:{details}"));
            self.reasoning = None;
        } else if out.is_thinking() {
            let field = self.reasoning.unwrap_or("think");
            out.sign(&format!("{SIGNATURE}{field}"));
        }
    }

    fn take_usage(&mut self, value: &Value) {
        if let Some(usage) = usage(value) {
            self.usage = Some(usage);
        }
    }

    fn finish(&mut self, out: &mut Emitter) -> Result<(), Unusable> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        self.think.finish(out);
        if self.think.saw_unopened {
            self.learned.lock().unopened.insert(self.model.clone());
        }
        if self.finish.is_none() && !self.said_done && !self.calls.are_whole() {
            // The stream was cut in the middle of a call.
            return Err(broken());
        }
        self.calls.finish(out);
        self.end_reasoning(out);
        let usage = self.usage.take();
        let mut usage = usage.unwrap_or_else(|| out.estimated_usage(self.estimate.input));
        let reason = match self.finish.as_deref() {
            // Whatever the server calls it, calls decide.
            _ if out.has_calls() => StopReason::ToolUse,
            _ if self.refusal => StopReason::Refusal,
            Some("length" | "max_tokens" | "model_length") if !out.has_anything() => {
                return Err(Unusable::Trouble(classify_foreign::silent_overflow(
                    usage.total_input(),
                )));
            }
            Some("length" | "max_tokens" | "model_length") => StopReason::MaxTokens,
            Some("content_filter") => StopReason::Refusal,
            Some("error") => {
                return Err(Unusable::Trouble(ModelError::Truncated {
                    message: "the server reported an error without saying which".to_owned(),
                }));
            }
            None if !out.has_content() => return Err(broken()),
            _ => StopReason::EndTurn,
        };
        if usage.output_tokens == 0 && out.has_content() {
            usage.output_tokens = out.estimated_output();
        }
        out.end(reason, usage);
        Ok(())
    }
}

/// A number, or a text that is one.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Usage, from any of its dialects.
pub(crate) fn usage(value: &Value) -> Option<Usage> {
    let number = |path: &str| value.pointer(path).and_then(Value::as_u64);
    let prompt = number("/prompt_tokens").or_else(|| number("/input_tokens"))?;
    let output = number("/completion_tokens")
        .or_else(|| number("/output_tokens"))
        .unwrap_or_default();
    let read = number("/prompt_tokens_details/cached_tokens")
        .or_else(|| number("/input_tokens_details/cached_tokens"))
        .or_else(|| number("/prompt_cache_hit_tokens"))
        .or_else(|| number("/cached_tokens"))
        .unwrap_or_default()
        .min(prompt);
    let written = number("/prompt_tokens_details/cache_write_tokens")
        .or_else(|| number("/input_tokens_details/cache_write_tokens"))
        .or_else(|| number("/cache_creation_input_tokens"))
        .unwrap_or_default();
    // Some count what was written as cached, too.
    let read = if read + written > prompt {
        read.saturating_sub(written)
    } else {
        read
    };
    Some(Usage {
        input_tokens: prompt.saturating_sub(read + written),
        cache_read_input_tokens: read,
        cache_creation_input_tokens: written,
        output_tokens: output,
        ..Usage::default()
    })
}

impl Decode for ChatDecoder {
    fn event(&mut self, name: &[u8], data: &[u8], out: &mut Emitter) -> Result<(), Unusable> {
        let trimmed = data.trim_ascii();
        if trimmed.is_empty() || self.done {
            return Ok(());
        }
        if trimmed == b"[DONE]" {
            self.said_done = true;
            return self.finish(out);
        }
        if name != b"error" && self.quick(trimmed, out) {
            return Ok(());
        }
        let value: Value = match lenient::parse(trimmed) {
            Ok(value) => value,
            Err(_) if name == b"error" => {
                let text = String::from_utf8_lossy(trimmed).into_owned();
                return Err(Unusable::Trouble(classify_foreign::stream_error(
                    &Value::String(text),
                )));
            }
            // Events that nothing separates.
            Err(_) if trimmed.contains(&b'\n') => {
                return trimmed
                    .split(|byte| *byte == b'\n')
                    .try_for_each(|line| self.event(name, line, out));
            }
            Err(error) => return Err(error.into()),
        };
        if name == b"error" && value.get("error").is_none() {
            return Err(Unusable::Trouble(classify_foreign::stream_error(&value)));
        }
        self.chunk(&value, out)
    }

    fn whole(&mut self, body: &[u8], out: &mut Emitter) -> Result<(), Unusable> {
        let mut values: Vec<Value> = serde_json::Deserializer::from_slice(body)
            .into_iter()
            .collect::<Result<_, _>>()?;
        // A list of chunks, or of one answer; or one after the other without any framing.
        if let [Value::Array(items)] = values.as_mut_slice() {
            values = std::mem::take(items);
        }
        let [value] = values.as_slice() else {
            for value in &values {
                self.chunk(value, out)?;
            }
            return self.finish(out);
        };
        let is_error = |value: &Value| {
            value.get("error").is_some_and(|error| !error.is_null()) || value["object"] == "error"
        };
        if !is_error(value) && value.get("choices").is_none() {
            if ["message", "detail"]
                .iter()
                .any(|name| value[name].is_string())
            {
                return Err(Unusable::Trouble(classify_foreign::stream_error(value)));
            }
            return Err(Unusable::Malformed(
                "the answer has no `choices`".to_owned(),
            ));
        }
        self.chunk(value, out)?;
        self.finish(out)
    }

    fn is_complete(&self) -> bool {
        self.finish.is_some() || self.said_done
    }

    fn end(&mut self, out: &mut Emitter) -> Result<(), Unusable> {
        self.finish(out)
    }
}
