//! Responses, to the Messages shape.

use super::SIGNATURE;
use crate::classify_foreign;
use crate::error::ModelError;
use crate::lenient;
use crate::search::results_block;
use crate::wire::calls::{CallIds, meant, repaired};
use crate::wire::decoding::{Decode, Unusable, broken};
use crate::wire::emit::Emitter;
use lathe_protocol::content::FOLLOWS_WORDS;
use lathe_protocol::message::StopReason;
use lathe_protocol::usage::Usage;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// Reads one response.
pub(super) struct GeminiDecoder {
    /// The name that was sent and the name of the tool.
    names: Arc<Vec<(String, String)>>,
    ids: CallIds,
    estimate: u64,
    finish: Option<String>,
    blocked: bool,
    usage: Option<Usage>,
    /// The pages that the answer is based on, and how often the provider searched.
    pages: Vec<(String, String)>,
    searches: u64,
    done: bool,
}

/// A chunk with one piece of words and nothing else, as nearly every chunk is. Anything more is read the careful way.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Quick<'a> {
    #[serde(borrow)]
    candidates: [QuickCandidate<'a>; 1],
    #[serde(default)]
    usage_metadata: Option<Counts>,
    #[serde(borrow, default)]
    response_id: Cow<'a, str>,
    #[serde(default, rename = "modelVersion")]
    _version: IgnoredAny,
    #[serde(default, rename = "createTime")]
    _time: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickCandidate<'a> {
    #[serde(borrow)]
    content: QuickContent<'a>,
    #[serde(default, rename = "index")]
    _index: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickContent<'a> {
    #[serde(borrow)]
    parts: [QuickPart<'a>; 1],
    #[serde(default, rename = "role")]
    _role: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickPart<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
    #[serde(default)]
    thought: bool,
}

/// How many tokens a chunk counts so far.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Counts {
    prompt_token_count: u64,
    tool_use_prompt_token_count: u64,
    cached_content_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
}

impl Counts {
    fn usage(&self) -> Usage {
        let prompt = self.prompt_token_count + self.tool_use_prompt_token_count;
        let read = self.cached_content_token_count.min(prompt);
        Usage {
            input_tokens: prompt - read,
            cache_read_input_tokens: read,
            output_tokens: self.candidates_token_count + self.thoughts_token_count,
            ..Usage::default()
        }
    }
}

impl GeminiDecoder {
    /// Reads a chunk that is nothing but words; `false` if it is more than that.
    fn quick(&mut self, data: &[u8], out: &mut Emitter) -> bool {
        let Ok(chunk) = serde_json::from_slice::<Quick<'_>>(data) else {
            return false;
        };
        out.start(&chunk.response_id);
        if let Some(counts) = &chunk.usage_metadata {
            self.usage = Some(counts.usage());
        }
        let Quick {
            candidates: [candidate],
            ..
        } = chunk;
        let [part] = candidate.content.parts;
        if part.thought {
            out.thinking(&part.text);
        } else {
            out.text(&part.text);
        }
        true
    }

    pub(super) fn new(names: Arc<Vec<(String, String)>>, ids: CallIds, estimate: u64) -> Self {
        Self {
            names,
            ids,
            estimate,
            finish: None,
            blocked: false,
            usage: None,
            pages: Vec::new(),
            searches: 0,
            done: false,
        }
    }

    fn tool(&self, name: &str) -> String {
        let exact = self.names.iter().find(|(sent, _)| sent == name);
        if let Some((_, tool)) = exact {
            return tool.clone();
        }
        let offered: Vec<String> = self.names.iter().map(|(_, tool)| tool.clone()).collect();
        meant(name, &offered).unwrap_or(name).to_owned()
    }

    fn part(&mut self, part: &Value, out: &mut Emitter) {
        let signature = part["thoughtSignature"]
            .as_str()
            .filter(|it| !it.is_empty());
        if let Some(call) = part.get("functionCall").filter(|call| call.is_object()) {
            if let Some(signature) = signature {
                out.sign(&format!("{SIGNATURE}call:{signature}"));
            }
            let id = self.ids.unique(call["id"].as_str().unwrap_or_default());
            let name = self.tool(call["name"].as_str().unwrap_or_default());
            out.call(&id, &name);
            let arguments = call["args"].to_string();
            out.arguments(&match call["args"] {
                Value::Object(_) => arguments,
                _ => repaired(&arguments),
            });
            out.close();
            return;
        }
        let text = part["text"].as_str().unwrap_or_default();
        if part["thought"] == true {
            out.thinking(text);
            return;
        }
        out.text(text);
        if let Some(signature) = signature {
            out.close();
            // A part with nothing but a signature goes back as such a part.
            let of = if text.is_empty() { "part" } else { "text" };
            out.sign(&format!("{FOLLOWS_WORDS}{SIGNATURE}{of}:{signature}"));
        }
    }

    fn chunk(&mut self, chunk: &Value, out: &mut Emitter) -> Result<(), Unusable> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(Unusable::Trouble(classify_foreign::stream_error(error)));
        }
        out.start(chunk["responseId"].as_str().unwrap_or_default());
        if chunk["usageMetadata"].is_object() {
            self.usage = Some(usage(&chunk["usageMetadata"]));
        }
        self.blocked |= chunk["promptFeedback"]["blockReason"].is_string();
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            self.part(part, out);
        }
        self.grounding(&candidate["groundingMetadata"]);
        if let Some(reason) = candidate["finishReason"].as_str() {
            self.finish = Some(reason.to_owned());
        }
        Ok(())
    }

    /// Where the answer comes from; each chunk says everything so far.
    fn grounding(&mut self, metadata: &Value) {
        if let Some(queries) = metadata["webSearchQueries"].as_array() {
            self.searches = queries.len() as u64;
        }
        for chunk in metadata["groundingChunks"].as_array().into_iter().flatten() {
            let page = &chunk["web"];
            let url = page["uri"].as_str().unwrap_or_default();
            if !url.is_empty() && self.pages.iter().all(|(_, known)| known != url) {
                let title = page["title"].as_str().unwrap_or(url);
                self.pages.push((title.to_owned(), url.to_owned()));
            }
        }
    }

    fn finish(&mut self, out: &mut Emitter) -> Result<(), Unusable> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        let usage = self.usage.take();
        let mut usage = usage.unwrap_or_else(|| out.estimated_usage(self.estimate));
        usage.server_tool_use.web_search_requests = self.searches;
        if !self.pages.is_empty() {
            out.block(results_block("google_search", &self.pages));
        }
        let reason = match self.finish.as_deref() {
            _ if self.blocked => StopReason::Refusal,
            Some("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE") => {
                return Err(Unusable::Trouble(ModelError::Truncated {
                    message: "the model wrote a call that can't be read".to_owned(),
                }));
            }
            Some(
                "SAFETY" | "RECITATION" | "PROHIBITED_CONTENT" | "BLOCKLIST" | "SPII" | "LANGUAGE"
                | "IMAGE_SAFETY",
            ) => StopReason::Refusal,
            _ if out.has_calls() => StopReason::ToolUse,
            Some("MAX_TOKENS") if !out.has_anything() && usage.output_tokens == 0 => {
                return Err(Unusable::Trouble(classify_foreign::silent_overflow(
                    usage.total_input(),
                )));
            }
            Some("MAX_TOKENS") => StopReason::MaxTokens,
            None => return Err(broken()),
            Some(_) => StopReason::EndTurn,
        };
        out.end(reason, usage);
        Ok(())
    }
}

fn usage(value: &Value) -> Usage {
    let number = |name: &str| value[name].as_u64().unwrap_or_default();
    let counts = Counts {
        prompt_token_count: number("promptTokenCount"),
        tool_use_prompt_token_count: number("toolUsePromptTokenCount"),
        cached_content_token_count: number("cachedContentTokenCount"),
        candidates_token_count: number("candidatesTokenCount"),
        thoughts_token_count: number("thoughtsTokenCount"),
    };
    counts.usage()
}

impl Decode for GeminiDecoder {
    fn event(&mut self, _name: &[u8], data: &[u8], out: &mut Emitter) -> Result<(), Unusable> {
        let trimmed = data.trim_ascii();
        if trimmed.is_empty() || trimmed == b"[DONE]" || self.done {
            return Ok(());
        }
        if self.quick(trimmed, out) {
            return Ok(());
        }
        match lenient::parse(trimmed)? {
            Value::Array(chunks) => chunks.iter().try_for_each(|chunk| self.chunk(chunk, out)),
            chunk => self.chunk(&chunk, out),
        }
    }

    fn whole(&mut self, body: &[u8], out: &mut Emitter) -> Result<(), Unusable> {
        let value: Value = lenient::parse(body)?;
        let chunks = match value {
            Value::Array(chunks) => chunks,
            one => vec![one],
        };
        for chunk in &chunks {
            self.chunk(chunk, out)?;
        }
        self.finish(out)
    }

    fn end(&mut self, out: &mut Emitter) -> Result<(), Unusable> {
        self.finish(out)
    }
}
