//! A message is serialised once per provider: later requests share its bytes, whatever the kind.

use super::Translator;
use crate::chat::Chat;
use crate::cloud::translate::{Cloud, OnCloud};
use crate::gemini::Gemini;
use crate::provider::Transfer;
use crate::providers::{Kind, ModelFacts, ProviderEntry};
use crate::request::ModelRequest;
use crate::responses::Responses;
use crate::text_calls::prompt::Prompts;
use bytes::Bytes;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::message::Role;
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;

/// The size of a message.
const LARGE: usize = 10_000;

fn translators() -> Vec<(&'static str, Box<dyn Translator>)> {
    let facts = || Arc::new(|_: &str| ModelFacts::default());
    let entry = |kind| Arc::new(ProviderEntry::new("house", kind, Some("http://h/v1")));
    let cloud = |cloud| Box::new(OnCloud { cloud });
    vec![
        (
            "openai-chat",
            Box::new(Chat::new(entry(Kind::Chat), facts())),
        ),
        (
            "openai",
            Box::new(Responses::new(entry(Kind::Responses), facts())),
        ),
        (
            "gemini",
            Box::new(Gemini::new(entry(Kind::Gemini), facts())),
        ),
        ("bedrock", cloud(Cloud::Bedrock)),
        (
            "vertex",
            cloud(Cloud::Vertex {
                project: "p".to_owned(),
                region: "r".to_owned(),
            }),
        ),
    ]
}

/// A round: what the user said, a call and its result.
fn add_round(request: &mut ModelRequest, number: usize) {
    let words = "w".repeat(LARGE);
    let id = format!("toolu_{number}");
    let call = json!({"type": "tool_use", "id": id, "name": "Read", "input": {"path": words}});
    let call: ContentBlock = serde_json::from_value(call).unwrap();
    let result = ContentBlock::tool_result(id.into(), words.clone(), false);
    for (role, block) in [
        (Role::User, ContentBlock::text(words)),
        (Role::Assistant, call),
        (Role::User, result),
        (Role::Assistant, ContentBlock::text("so")),
    ] {
        let message = EncodedMessage::new(role, &[block]).unwrap();
        request.messages.push(message);
    }
}

fn request(rounds: usize) -> ModelRequest {
    let mut request = ModelRequest::new("m", 100);
    request.system = json!([{"type": "text", "text": "s".repeat(LARGE)}])
        .to_string()
        .into();
    let schema = json!({"type": "object", "properties": {"path": {"type": "string", "description": "d".repeat(LARGE)}}});
    request.tools = json!([{"name": "Read", "description": "", "input_schema": schema}])
        .to_string()
        .into();
    (0..rounds).for_each(|number| add_round(&mut request, number));
    request
}

fn parts(translator: &dyn Translator, request: &ModelRequest) -> Vec<Bytes> {
    let prepared = translator.prepare(request, Transfer::Streaming).ok();
    prepared.unwrap().body.parts().to_vec()
}

/// The bytes of parts that weren't in an earlier body.
fn made(parts: &[Bytes], before: &[Bytes]) -> usize {
    let place = |part: &Bytes| (part.as_ptr().addr(), part.len());
    let known: HashSet<(usize, usize)> = before.iter().map(place).collect();
    let new = parts.iter().filter(|part| !known.contains(&place(part)));
    new.map(Bytes::len).sum()
}

#[test]
fn no_kind_copies_what_it_has_serialised_before() {
    for (kind, translator) in translators() {
        let mut request = request(10);
        let first = parts(&*translator, &request);
        assert!(made(&first, &[]) > 30 * LARGE, "{kind}");
        add_round(&mut request, 10);
        let second = parts(&*translator, &request);
        let new = made(&second, &first);
        // The new round has three large messages; the one before it may have lost a marker.
        assert!(
            new < 5 * LARGE,
            "{kind}: {new} bytes were made for a round of {}",
            3 * LARGE
        );
        assert_eq!(
            made(&parts(&*translator, &request), &second) / LARGE,
            0,
            "{kind}"
        );
    }
}

#[test]
fn calls_in_words_are_written_once() {
    let prompts = Prompts::default();
    let mut request = request(10);
    let bodies = |rewritten: &ModelRequest| -> Vec<Bytes> {
        let messages = rewritten
            .messages
            .iter()
            .map(|message| message.bytes.clone());
        messages.chain([rewritten.system.clone()]).collect()
    };
    let first = bodies(&prompts.rewritten(&request));
    add_round(&mut request, 10);
    let second = bodies(&prompts.rewritten(&request));
    assert!(made(&second, &first) < 4 * LARGE);
}
