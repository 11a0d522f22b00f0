//! Signatures and reasoning that the server has sent, to check that they come back unchanged.

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Signatures and reasoning that the server has sent.
#[derive(Debug, Default)]
pub(crate) struct Issued {
    /// Signatures: the model and the digest of the reasoning.
    signatures: HashMap<String, (String, String)>,
    /// Redacted reasoning, and the model that 'wrote' it.
    redacted: HashMap<String, String>,
    /// Calls: the model, and whether its message began with reasoning.
    calls: HashMap<String, (String, bool)>,
    kinds: HashSet<String>,
    fields: HashSet<(String, String)>,
}

impl Issued {
    /// Remembers a message that goes out.
    pub(crate) fn remember(&mut self, model: &str, content: &[Value]) {
        let kind_of = |block: &Value| block["type"].as_str().unwrap_or_default().to_owned();
        let thinking_first = content.first().is_some_and(|block| {
            matches!(kind_of(block).as_str(), "thinking" | "redacted_thinking")
        });
        for block in content {
            let kind = kind_of(block);
            if let Some(signature) = block["signature"].as_str() {
                let digest = digest(block["thinking"].as_str().unwrap_or_default());
                self.signatures
                    .insert(signature.to_owned(), (model.to_owned(), digest));
            }
            if let Some(data) = block["data"].as_str() {
                self.redacted.insert(data.to_owned(), model.to_owned());
            }
            if kind == "tool_use"
                && let Some(id) = block["id"].as_str()
            {
                self.calls
                    .insert(id.to_owned(), (model.to_owned(), thinking_first));
            }
            for name in block
                .as_object()
                .into_iter()
                .flat_map(|fields| fields.keys())
            {
                self.fields.insert((kind.clone(), name.clone()));
            }
            self.kinds.insert(kind);
        }
    }

    /// Whether a block of this kind has been sent.
    pub(crate) fn sent_kind(&self, kind: &str) -> bool {
        self.kinds.contains(kind)
    }

    /// Whether a block of this kind with this field has been sent.
    pub(crate) fn sent_field(&self, kind: &str, field: &str) -> bool {
        self.fields.contains(&(kind.to_owned(), field.to_owned()))
    }

    /// Whether this model signed the reasoning with that digest.
    pub(crate) fn signed(&self, model: &str, digest: &str, signature: &str) -> bool {
        signature == sign_digest(model, digest)
            || self
                .signatures
                .get(signature)
                .is_some_and(|(signer, signed)| signer == model && signed == digest)
    }

    /// Whether this model wrote the redacted reasoning.
    pub(crate) fn redacted(&self, model: &str, data: &str) -> bool {
        data == redacted_data(model)
            || self
                .redacted
                .get(data)
                .is_some_and(|writer| writer == model)
    }

    /// Whether the message with this call was written by this model and began with reasoning.
    pub(crate) fn call_began_with_thinking(&self, id: &str, model: &str) -> bool {
        self.calls
            .get(id)
            .is_some_and(|(writer, thinking)| *thinking && writer == model)
    }
}

/// The digest of a text, in hexadecimal.
pub(crate) fn digest(text: &str) -> String {
    hexadecimal(&Sha256::digest(text.as_bytes()))
}

/// The signature of a text by a model. It depends on nothing else, so that a session can continue
/// with another server.
#[must_use]
pub fn sign(model: &str, thinking: &str) -> String {
    sign_digest(model, &digest(thinking))
}

fn sign_digest(model: &str, digest: &str) -> String {
    hexadecimal(&Sha256::digest(
        format!("scripted signature\n{model}\n{digest}").as_bytes(),
    ))
}

/// The form of redacted reasoning by a model.
pub(crate) fn redacted_data(model: &str) -> String {
    hexadecimal(&Sha256::digest(
        format!("scripted redacted reasoning\n{model}").as_bytes(),
    ))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
