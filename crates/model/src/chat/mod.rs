//! OpenAI Chat Completions, and everything that imitates it.
//!
//! `encode` writes requests, `decode` reads responses; both are pure. How servers differ is data
//! ([`crate::providers::Quirks`]), and what a server refuses is learnt once and remembered here.

mod decode;
mod encode;

pub(crate) use decode::usage;
pub(crate) use encode::{
    data_url, document_text, effort_of, is_thinking_off, joined_tools, system_text,
};

use crate::body::RequestBody;
use crate::error::ModelError;
use crate::provider::Transfer;
use crate::providers::{ModelFacts, ProviderEntry, Quirks, ReasoningField, quirks_of};
use crate::request::ModelRequest;
use crate::wire::cache::Translations;
use crate::wire::calls::CallIds;
use crate::wire::{Prepared, Translator};
use bytes::Bytes;
use encode::{Encoded, Wanted};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// The field with a grammar that the server holds the answer to.
pub(crate) const GRAMMAR: &str = "grammar";

/// Gives the facts about a model of this provider.
pub(crate) type FactsOf = Arc<dyn Fn(&str) -> ModelFacts + Send + Sync>;

/// Limits of a server, learned from its refusals.
#[derive(Debug, Default, Clone)]
pub(crate) struct Learned {
    quirks: Quirks,
    no_effort: bool,
    no_parallel: bool,
    /// Fields of the request that it doesn't want.
    dropped: HashSet<&'static str>,
    /// Models whose answers begin inside of the reasoning.
    unopened: HashSet<String>,
}

/// The translator for one provider.
pub(crate) struct Chat {
    entry: Arc<ProviderEntry>,
    facts: FactsOf,
    learned: Arc<Mutex<Learned>>,
    messages: Translations<Encoded>,
    tools: Translations<encode::Tools>,
    system: Translations<Bytes>,
}

impl Chat {
    pub(crate) fn new(entry: Arc<ProviderEntry>, facts: FactsOf) -> Self {
        Self {
            entry,
            facts,
            learned: Arc::default(),
            messages: Translations::default(),
            tools: Translations::default(),
            system: Translations::default(),
        }
    }

    /// How a request for a model is written.
    fn wanted(&self, model: &str) -> Wanted {
        let learned = self.learned.lock().clone();
        let facts = (self.facts)(model);
        Wanted {
            quirks: learned.quirks.clone().or(quirks_of(&self.entry, model)),
            images: facts.images != Some(false),
            effort: facts.reasoning == Some(true) && !learned.no_effort,
            parallel: facts.parallel_tools.filter(|_| !learned.no_parallel),
            marks_cache: encode::marks_cache(&facts, model),
            dropped: learned.dropped,
        }
    }

    fn body(&self, request: &ModelRequest, wanted: &Wanted, transfer: Transfer) -> RequestBody {
        let variant = BuildHasherDefault::<DefaultHasher>::default().hash_one((
            &wanted.quirks,
            wanted.images,
            wanted.marks_cache,
        ));
        self.messages.begin();
        self.tools.begin();
        self.system.begin();
        let mut parts = vec![encode::head(request, wanted, &self.entry.body, transfer)];
        let tools = self.tools(request, wanted, variant);
        if !tools.names.is_empty() {
            parts.push(Bytes::from_static(b",\"tools\":"));
            parts.push(tools.bytes.clone());
            parts.push(encode::tool_options(request, wanted));
        }
        parts.push(Bytes::from_static(b",\"messages\":["));
        let before = parts.len();
        if !request.system.is_empty() {
            let system = self.system.get(&request.system, variant, || {
                encode::system(&request.system, wanted)
            });
            parts.push((*system).clone());
        }
        let mut after_result = false;
        let last = request.messages.len().saturating_sub(1);
        for (number, message) in request.messages.iter().enumerate() {
            let encoded = self.messages.get(&message.bytes, variant, || {
                encode::message(&message, wanted)
            });
            if encoded.bytes.is_empty() {
                continue;
            }
            if parts.len() > before {
                parts.push(Bytes::from_static(b","));
            }
            if wanted.quirks.short_ids() && after_result && encoded.starts_user {
                parts.push(Bytes::from_static(encode::BRIDGE));
            }
            after_result = encoded.ends_result;
            if wanted.marks_cache && number == last {
                parts.push(encode::marked(&encoded.bytes));
            } else {
                parts.push(encoded.bytes.clone());
            }
        }
        parts.push(Bytes::from_static(b"]}"));
        RequestBody::of_parts(parts)
    }

    fn tools(&self, request: &ModelRequest, wanted: &Wanted, variant: u64) -> Arc<encode::Tools> {
        self.tools.get(&request.tools, variant, || {
            encode::tools(&request.tools, wanted)
        })
    }
}

impl Translator for Chat {
    fn prepare(&self, request: &ModelRequest, transfer: Transfer) -> Result<Prepared, ModelError> {
        let wanted = self.wanted(&request.model);
        let body = self.body(request, &wanted, transfer);
        let variant = BuildHasherDefault::<DefaultHasher>::default().hash_one((
            &wanted.quirks,
            wanted.images,
            wanted.marks_cache,
        ));
        let offered = Arc::clone(&self.tools(request, &wanted, variant).names);
        let unopened = wanted.quirks.reasoning() == Some(ReasoningField::Think)
            || begins_thinking(&request.model)
            || self.learned.lock().unopened.contains(&request.model);
        let estimate = decode::Estimate {
            input: crate::estimate::request(request),
        };
        Ok(Prepared {
            path: "chat/completions".to_owned(),
            query: Vec::new(),
            body,
            decoder: Box::new(decode::ChatDecoder::new(decode::Setup {
                offered,
                ids: CallIds::after(&request.messages),
                unopened,
                estimate,
                model: request.model.clone(),
                learned: Arc::clone(&self.learned),
            })),
        })
    }

    fn learn(&self, request: &ModelRequest, error: &ModelError) -> bool {
        let Some(failure) = error.failure() else {
            return false;
        };
        if !matches!(failure.status, Some(400 | 404 | 405 | 422 | 500)) {
            return false;
        }
        let wanted = self.wanted(&request.model);
        let text = failure.message.to_lowercase();
        let mut learned = self.learned.lock();
        lesson(&mut learned, &wanted, &text)
    }
}

/// Takes one lesson from a refusal; `false` if there is nothing new in it.
fn lesson(learned: &mut Learned, wanted: &Wanted, text: &str) -> bool {
    let says = |word: &str| text.contains(word);
    let refused = [
        "unsupported",
        "not supported",
        "unknown",
        "unrecognized",
        "unexpected",
        "extra",
        "invalid",
        "not permitted",
        "does not support",
        "not allowed",
        "must be",
        "use '",
        "instead",
        "unrecognised",
        "not one of",
        "is not",
    ]
    .iter()
    .any(|word| says(word));
    if says("reasoning_content") && (says("passed back") || says("missing") || says("must be")) {
        let known = wanted.quirks.reasoning() == Some(ReasoningField::Content);
        learned.quirks.reasoning_field = Some("reasoning_content".to_owned());
        return !known;
    }
    if says("stream_options") && wanted.quirks.stream_usage != Some(false) {
        learned.quirks.stream_usage = Some(false);
        return true;
    }
    if says("max_completion_tokens") || says("max_tokens") {
        let current = wanted.max_tokens_field();
        let other = if current == "max_tokens" {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        // A limit that is too high names the field too; only a refused field is renamed, and once.
        let named = says(&format!("'{current}'"))
            || says(&format!("\"{current}\""))
            || says(&format!("`{current}`"))
            || says(&format!("{current} is not"))
            || says(&format!("parameter: {current}"))
            || refused && says(current);
        if named && refused && learned.quirks.max_tokens_field.is_none() {
            learned.quirks.max_tokens_field = Some(other.to_owned());
            return true;
        }
    }
    if says("developer") && wanted.system_role() == "developer" {
        learned.quirks.system_role = Some("system".to_owned());
        return true;
    }
    if says("system") && says("role") && refused && wanted.system_role() == "system" {
        learned.quirks.system_role = Some("user".to_owned());
        return true;
    }
    if (says("reasoning_effort") || says("enable_thinking") || says("chat_template_kwargs"))
        && wanted.effort
        && !learned.no_effort
    {
        learned.no_effort = true;
        return true;
    }
    if says("parallel_tool_calls") && !learned.no_parallel {
        learned.no_parallel = true;
        return true;
    }
    if says("strict")
        && refused
        && wanted.quirks.strict.is_some()
        && learned.dropped.insert("strict")
    {
        return true;
    }
    if says(GRAMMAR) && learned.dropped.insert(GRAMMAR) {
        return true;
    }
    let ids = says("tool call id") || says("tool_call_id") || says("tool_call id");
    if ids
        && (says("length 9") || says("a-z, a-z, 0-9") || says("9 characters"))
        && !wanted.quirks.short_ids()
    {
        learned.quirks.tool_ids = Some("short".to_owned());
        return true;
    }
    if says("expected last role") || says("unexpected role 'user' after role 'tool'") {
        let known = wanted.quirks.short_ids();
        learned.quirks.tool_ids = Some("short".to_owned());
        return !known;
    }
    false
}

/// Whether answers of a model are known to begin inside of the reasoning, without an opening tag.
fn begins_thinking(model: &str) -> bool {
    let id = model.to_lowercase();
    [
        "deepseek-r1",
        "qwq",
        "-thinking",
        "minimax-m1",
        "minimax-m2",
        "r1-distill",
    ]
    .iter()
    .any(|word| id.contains(word))
}

#[cfg(test)]
mod tests;
