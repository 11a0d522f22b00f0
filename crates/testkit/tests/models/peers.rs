//! Servers that say exactly what a test wants them to say.

use lathe_testkit::{Output, Peer, PeerReply, PeerRequest, TestHome};
use serde_json::{Value, json};

/// A home with nothing but settings.
pub(crate) fn home(settings: &Value) -> TestHome {
    let home = TestHome::new()
        .variable("LATHE_RETRY_BASE_MS", "1")
        .variable("LATHE_MAX_RETRIES", "2")
        // No cloud is asked from a test.
        .variable("AWS_EC2_METADATA_DISABLED", "true");
    set(&home, settings);
    home
}

/// Writes the user's own settings.
pub(crate) fn set(home: &TestHome, settings: &Value) {
    std::fs::write(home.config().join("settings.json"), settings.to_string()).unwrap();
}

/// Settings with one provider `house` of a kind at an address.
pub(crate) fn house(kind: &str, url: &str) -> Value {
    json!({"providers": {"house": {"kind": kind, "baseUrl": url,
        "models": {"m": {"contextWindow": 100_000}}}}})
}

/// Runs print mode with JSON output.
pub(crate) fn ask(home: &TestHome, model: &str, more: &[&str]) -> Output {
    let mut arguments = vec![
        "-p",
        "the prompt",
        "--output-format",
        "json",
        "--model",
        model,
    ];
    arguments.extend(more);
    home.run(arguments, "")
}

/// The result of a run that must go well.
pub(crate) fn result(home: &TestHome, model: &str, more: &[&str]) -> Value {
    let output = ask(home, model, more);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    output.result()
}

/// A peer that gives these answers to requests for a model, in this order; the last one for ever. Everything else isn't
/// there.
pub(crate) fn answers(replies: Vec<PeerReply>) -> Peer {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    Peer::start(move |request, _| {
        if request.method != "POST" {
            return PeerReply::not_found();
        }
        let number = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        replies[number.min(replies.len() - 1)].clone()
    })
}

/// The requests for a model that a peer got, as JSON.
pub(crate) fn asked(peer: &Peer) -> Vec<Value> {
    let requests = peer.requests();
    let posted = requests.iter().filter(|request| request.method == "POST");
    posted.map(PeerRequest::json).collect()
}

/// A stream of Chat Completions of these chunks.
pub(crate) fn chat(chunks: &[Value]) -> PeerReply {
    let mut text: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    text.push_str("data: [DONE]\n\n");
    PeerReply::events(text)
}

/// A chunk with one choice.
pub(crate) fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

/// An answer in words.
pub(crate) fn says(text: &str) -> PeerReply {
    chat(&[
        chunk(&json!({"role": "assistant", "content": text}), None),
        chunk(&json!({}), Some("stop")),
        json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 2}}),
    ])
}

/// An answer that is one call.
pub(crate) fn calls(name: &str, arguments: &Value) -> PeerReply {
    let call = json!({"index": 0, "id": "call_abc123", "type": "function",
        "function": {"name": name, "arguments": arguments.to_string()}});
    chat(&[chunk(&json!({"tool_calls": [call]}), Some("tool_calls"))])
}

/// The roles of the messages of a Chat request.
pub(crate) fn roles(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap();
    let role = |message: &Value| message["role"].as_str().unwrap_or_default().to_owned();
    messages.iter().map(role).collect()
}

/// The results of calls in a Chat request.
pub(crate) fn results(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results
        .map(|message| message["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}
