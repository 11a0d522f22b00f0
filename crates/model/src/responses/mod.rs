//! OpenAI Responses. Nothing is stored at the provider: reasoning comes encrypted, and goes back with the item
//! that it belongs to.

mod decode;
mod encode;

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
use std::sync::Arc;

/// How the signature of reasoning begins that this API gave.
pub(crate) const SIGNATURE: &str = "responses:";

/// The translator for one provider.
pub(crate) struct Responses {
    entry: Arc<ProviderEntry>,
    facts: FactsOf,
    messages: Translations<Bytes>,
    tools: Translations<encode::Tools>,
    system: Translations<Bytes>,
}

impl Responses {
    pub(crate) fn new(entry: Arc<ProviderEntry>, facts: FactsOf) -> Self {
        Self {
            entry,
            facts,
            messages: Translations::default(),
            tools: Translations::default(),
            system: Translations::default(),
        }
    }
}

impl Translator for Responses {
    fn prepare(&self, request: &ModelRequest, transfer: Transfer) -> Result<Prepared, ModelError> {
        let facts = (self.facts)(&request.model);
        let images = facts.images != Some(false);
        let variant = u64::from(images);
        self.messages.begin();
        self.tools.begin();
        self.system.begin();
        let mut parts = vec![encode::head(request, &facts, &self.entry.body, transfer)];
        if !request.system.is_empty() {
            let system = self
                .system
                .get(&request.system, 0, || encode::instructions(&request.system));
            parts.push(Bytes::from_static(b",\"instructions\":"));
            parts.push((*system).clone());
        }
        let tools = self
            .tools
            .get(&request.tools, 0, || encode::tools(&request.tools));
        if !tools.bytes.is_empty() {
            parts.push(Bytes::from_static(b",\"tools\":"));
            parts.push(tools.bytes.clone());
            parts.push(encode::tool_options(request, &facts));
        }
        parts.push(Bytes::from_static(b",\"input\":["));
        let before = parts.len();
        for message in request.messages.iter() {
            let encoded = self.messages.get(&message.bytes, variant, || {
                encode::message(&message, images)
            });
            if encoded.is_empty() {
                continue;
            }
            if parts.len() > before {
                parts.push(Bytes::from_static(b","));
            }
            parts.push((*encoded).clone());
        }
        parts.push(Bytes::from_static(b"]}"));
        Ok(Prepared {
            path: "responses".to_owned(),
            query: Vec::new(),
            body: RequestBody::of_parts(parts),
            decoder: Box::new(decode::ResponsesDecoder::new(
                Arc::clone(&tools.names),
                CallIds::after(&request.messages),
                crate::estimate::request(request),
            )),
        })
    }
}

#[cfg(test)]
mod tests;
