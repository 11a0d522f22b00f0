//! Google Gemini. Calls come whole; a signature of the reasoning sits on the call that it led to and goes back
//! there; schemas are a subset.

mod decode;
mod encode;
pub(crate) mod schema;

use crate::body::RequestBody;
use crate::chat::FactsOf;
use crate::error::ModelError;
use crate::provider::Transfer;
use crate::providers::ProviderEntry;
use crate::request::ModelRequest;
use crate::wire::cache::Translations;
use crate::wire::calls::CallIds;
use crate::wire::{Prepared, Translator};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// How the signature of reasoning begins that this API gave for a call.
pub(crate) const SIGNATURE: &str = "gemini:";

/// The translator for one provider.
pub(crate) struct Gemini {
    entry: Arc<ProviderEntry>,
    facts: FactsOf,
    messages: Translations<encode::Encoded>,
    tools: Translations<encode::Tools>,
    system: Translations<Bytes>,
    untold: Mutex<Vec<String>>,
}

impl Gemini {
    pub(crate) fn new(entry: Arc<ProviderEntry>, facts: FactsOf) -> Self {
        Self {
            entry,
            facts,
            messages: Translations::default(),
            tools: Translations::default(),
            system: Translations::default(),
            untold: Mutex::default(),
        }
    }
}

/// Whether a model insists on signatures.
fn is_modern(model: &str) -> bool {
    !["gemini-1", "gemini-2", "gemma"]
        .iter()
        .any(|older| model.contains(older))
}

impl Translator for Gemini {
    fn prepare(&self, request: &ModelRequest, transfer: Transfer) -> Result<Prepared, ModelError> {
        let facts = (self.facts)(&request.model);
        let wanted = encode::Wanted {
            images: facts.images != Some(false),
            modern: is_modern(&request.model),
        };
        let variant = u64::from(wanted.images) | (u64::from(wanted.modern) << 1);
        self.messages.begin();
        self.tools.begin();
        self.system.begin();
        let mut parts = vec![encode::head(request, &facts, wanted, &self.entry.body)];
        if !request.system.is_empty() {
            let system = self
                .system
                .get(&request.system, 0, || encode::system(&request.system));
            parts.push(Bytes::from_static(b",\"systemInstruction\":"));
            parts.push((*system).clone());
        }
        let tools = self.tools.get(&request.tools, 0, || {
            let tools = encode::tools(&request.tools);
            self.untold.lock().extend(tools.left_out.iter().cloned());
            tools
        });
        if !tools.bytes.is_empty() {
            parts.push(Bytes::from_static(b",\"tools\":"));
            parts.push(tools.bytes.clone());
            parts.push(encode::tool_config(request));
        }
        parts.push(Bytes::from_static(b",\"contents\":["));
        let before = parts.len();
        let mut calls: Arc<encode::Encoded> = Arc::default();
        for message in request.messages.iter() {
            // The names of calls are in the message before: the same one every time.
            let named = Arc::clone(&calls);
            let encoded = self.messages.get(&message.bytes, variant, || {
                encode::message(&message, wanted, &named.calls)
            });
            if !encoded.calls.is_empty() {
                calls = Arc::clone(&encoded);
            }
            if encoded.bytes.is_empty() {
                continue;
            }
            if parts.len() > before {
                parts.push(Bytes::from_static(b","));
            }
            parts.push(encoded.bytes.clone());
        }
        parts.push(Bytes::from_static(b"]}"));
        let model = request
            .model
            .strip_prefix("models/")
            .unwrap_or(&request.model);
        let (method, query) = match transfer {
            Transfer::Streaming => ("streamGenerateContent", vec![("alt", "sse".to_owned())]),
            Transfer::Whole => ("generateContent", Vec::new()),
        };
        Ok(Prepared {
            path: format!("models/{model}:{method}"),
            query,
            body: RequestBody::of_parts(parts),
            decoder: Box::new(decode::GeminiDecoder::new(
                Arc::clone(&tools.names),
                CallIds::after(&request.messages),
                crate::estimate::request(request),
            )),
        })
    }

    fn remarks(&self) -> Vec<String> {
        std::mem::take(&mut *self.untold.lock())
    }
}

#[cfg(test)]
mod tests;
