//! Requests that the server refuses: every rule of the API that a client can break, one by one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests assert by panicking"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "json! needs no borrow at every call"
)]

mod common;

use common::{body, connect, hello, post, post_to};
use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use serde_json::{Value, json};
use std::io::{BufReader, Write};

fn serve(scenario: Scenario) -> BlockingServer {
    BlockingServer::start(scenario).unwrap()
}

/// The problems that a fresh server finds in a request; it must refuse it if there are any.
fn problems_of(request: &Value) -> Vec<String> {
    let server = serve(Scenario::new().reply(Reply::text("ok")));
    let response = post(&server.base_url(), request);
    let problems = server.problems();
    assert_eq!(
        response.status,
        if problems.is_empty() { 200 } else { 400 },
        "{problems:?}"
    );
    if !problems.is_empty() {
        assert_eq!(response.json()["error"]["type"], "invalid_request_error");
    }
    problems
}

#[track_caller]
fn refused(request: &Value, because: &str) {
    let problems = problems_of(request);
    assert!(
        problems.iter().any(|problem| problem.contains(because)),
        "expected {because:?} in {problems:?} for {request}"
    );
}

#[track_caller]
fn accepted(request: &Value) {
    assert_eq!(problems_of(request), Vec::<String>::new(), "for {request}");
}

fn with(changes: Value) -> Value {
    let mut request = hello();
    for (name, value) in changes.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Bash", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "done"})
}

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

#[test]
fn good_requests_pass() {
    accepted(&hello());
    accepted(&with(json!({
        "system": [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "tools": [{"name": "mcp__a__b", "description": "d", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto"},
        "metadata": {"user_id": "u"},
        "thinking": {"type": "disabled"},
        "temperature": 0.5
    })));
    accepted(&body(json!([
        user(
            json!([text("look"), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}])
        ),
        assistant(json!([text("two calls"), call("a"), call("b")])),
        user(json!([result("b"), result("a"), text("go on")])),
    ])));
    accepted(&body(json!([
        user(json!("hi")),
        assistant(json!("The answer is"))
    ])));
}

#[test]
fn required_fields_and_unknown_ones_are_noticed() {
    refused(&with(json!({"model": ""})), "model: field required");
    refused(&with(json!({"max_tokens": 0})), "max_tokens");
    refused(&with(json!({"max_tokens": null})), "max_tokens");
    refused(&body(json!([])), "at least one message");
    refused(&with(json!({"colour": "red"})), "colour: extra inputs");
    refused(
        &body(json!([{"role": "user", "content": "x", "uuid": 1}])),
        "messages.0.uuid",
    );
    refused(
        &body(json!([user(
            json!([{"type": "text", "text": "x", "isMeta": true}])
        )])),
        "isMeta",
    );
    let server = serve(
        Scenario::new()
            .allow_field("colour")
            .reply(Reply::text("ok")),
    );
    assert_eq!(
        post(&server.base_url(), &with(json!({"colour": "red"}))).status,
        200
    );
    server.finish();
}

#[test]
fn roles_must_alternate_and_begin_with_the_user() {
    refused(
        &body(json!([assistant(json!("hi")), user(json!("hi"))])),
        "first message",
    );
    refused(
        &body(json!([user(json!("a")), user(json!("b"))])),
        "two user messages in a row",
    );
    refused(
        &body(json!([{"role": "system", "content": "x"}])),
        "messages.0.role",
    );
}

#[test]
fn empty_content_is_refused_in_all_its_forms() {
    refused(&body(json!([user(json!(""))])), "non-empty");
    refused(
        &body(json!([user(json!([]))])),
        "content: must not be empty",
    );
    refused(&body(json!([user(json!([text("")]))])), "non-empty");
    refused(
        &body(json!([user(json!([text(" \n\t")]))])),
        "non-whitespace",
    );
    refused(&with(json!({"system": [text("")]})), "system.0");
    refused(
        &body(json!([
            user(json!("x")),
            assistant(json!([call("a")])),
            user(json!([{"type": "tool_result", "tool_use_id": "a", "content": [text("")]}]))
        ])),
        "messages.2.content.0.content.0",
    );
    refused(
        &body(json!([user(json!("x")), assistant(json!("so "))])),
        "trailing whitespace",
    );
}

#[test]
fn calls_and_results_must_pair() {
    let turn =
        |calls: Value, after: Value| body(json!([user(json!("x")), assistant(calls), user(after)]));
    refused(
        &turn(json!([call("a"), call("b")]), json!([result("a")])),
        "without `tool_result`",
    );
    refused(
        &turn(json!([call("a")]), json!([text("no"), result("a")])),
        "before other content",
    );
    refused(
        &turn(json!([call("a")]), json!([result("a"), result("a")])),
        "a second `tool_result`",
    );
    refused(
        &turn(json!([call("a")]), json!([result("a"), result("z")])),
        "unexpected `tool_use_id`",
    );
    refused(
        &turn(json!([call("a"), call("a")]), json!([result("a")])),
        "must be unique",
    );
    refused(
        &turn(json!([call("a b")]), json!([result("a b")])),
        "must match",
    );
    refused(
        &body(json!([user(json!("x")), assistant(json!([call("a")]))])),
        "without `tool_result`",
    );
    refused(
        &body(json!([user(json!([result("a")]))])),
        "unexpected `tool_use_id`",
    );
    // A result may not come a message late.
    refused(
        &body(json!([
            user(json!("x")),
            assistant(json!([call("a")])),
            user(json!("wait")),
            assistant(json!("ok")),
            user(json!([result("a")]))
        ])),
        "messages.4.content.0: unexpected",
    );
    refused(
        &turn(
            json!([{"type": "tool_use", "id": "a", "name": "Bash", "input": "ls"}]),
            json!([result("a")]),
        ),
        "input: must be an object",
    );
    refused(
        &turn(
            json!([call("a")]),
            json!([{"type": "tool_result", "tool_use_id": "a", "is_error": true, "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
            ]}]),
        ),
        "if `is_error` is true",
    );
    refused(
        &body(json!([user(json!([call("a")]))])),
        "can't be in a user message",
    );
}

#[test]
fn tools_need_good_unique_names_and_an_object_schema() {
    let tool = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    refused(
        &with(json!({"tools": [tool("a"), tool("a")]})),
        "must be unique",
    );
    refused(&with(json!({"tools": [tool("a.b")]})), "must match");
    refused(
        &with(json!({"tools": [tool(&"x".repeat(129))]})),
        "must match",
    );
    refused(
        &with(json!({"tools": [{"name": "a", "input_schema": {"type": "string"}}]})),
        "object",
    );
    refused(
        &with(json!({"tool_choice": {"type": "auto"}})),
        "together with tools",
    );
    accepted(&with(
        json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    ));
}

#[test]
fn cache_markers_are_counted_and_placed() {
    let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let four = json!([marked, marked, marked, marked]);
    accepted(&body(json!([user(four.clone())])));
    let mut five = body(json!([user(four)]));
    five["system"] = json!([marked]);
    refused(&five, "maximum of 4");
    let long =
        json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}});
    refused(
        &body(json!([user(json!([marked, long]))])),
        "must not come after",
    );
    let wrong = json!({"type": "text", "text": "x", "cache_control": {"type": "forever"}});
    refused(&body(json!([user(json!([wrong]))])), "must be ephemeral");
    // Nested markers count as well.
    let nested =
        json!({"type": "tool_result", "tool_use_id": "a", "content": [marked, marked, marked]});
    refused(
        &body(json!([
            user(json!("x")),
            assistant(json!([call("a")])),
            user(json!([nested, marked, marked]))
        ])),
        "maximum of 4",
    );
}

#[test]
fn thinking_has_its_budget_and_its_company() {
    refused(
        &with(json!({"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 2000}})),
        "greater than thinking.budget_tokens",
    );
    let on = |more: Value| {
        let mut request = with(
            json!({"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 2000}}),
        );
        for (name, value) in more.as_object().unwrap() {
            request[name] = value.clone();
        }
        request
    };
    accepted(&on(json!({})));
    refused(&on(json!({"temperature": 0})), "temperature");
    refused(
        &on(json!({"messages": [user(json!("a")), assistant(json!("b"))]})),
        "prefill",
    );
}

/// Asks for a reply and returns its blocks.
fn blocks_of(server: &BlockingServer, request: &Value) -> Vec<Value> {
    let mut request = request.clone();
    request["stream"] = json!(false);
    post(&server.base_url(), &request).json()["content"]
        .as_array()
        .unwrap()
        .clone()
}

#[test]
fn reasoning_must_come_back_unchanged_to_the_model_that_wrote_it() {
    let server = serve(Scenario::new().responder(|_| {
        Reply::thinking("hm")
            .with_text("so")
            .with_tool_use("Bash", json!({}))
    }));
    let on = json!({"type": "enabled", "budget_tokens": 1024});
    let ask = |messages: Value, model: &str| json!({"model": model, "max_tokens": 5000, "stream": false, "thinking": on, "messages": messages});
    let blocks = blocks_of(&server, &ask(json!([user(json!("x"))]), "m"));
    let id = blocks[2]["id"].as_str().unwrap().to_owned();
    let go_on = |blocks: &[Value], model: &str| {
        ask(
            json!([
                user(json!("x")),
                assistant(json!(blocks)),
                user(json!([result(&id)]))
            ]),
            model,
        )
    };
    let problems_after = |request: &Value| {
        let before = server.problems().len();
        post(&server.base_url(), request);
        server.problems().split_off(before).join("\n")
    };
    assert_eq!(problems_after(&go_on(&blocks, "m")), "");
    assert!(problems_after(&go_on(&blocks, "other")).contains("not written by other"));
    assert!(problems_after(&go_on(&blocks[1..], "m")).contains("must keep its reasoning"));
    let mut changed = blocks.clone();
    changed[0]["thinking"] = json!("hm!");
    assert!(problems_after(&go_on(&changed, "m")).contains("changed since"));
    changed[0]["signature"] = json!("");
    assert!(problems_after(&go_on(&changed, "m")).contains("must not be empty"));
    let mut moved = blocks.clone();
    moved.swap(0, 1);
    assert!(problems_after(&go_on(&moved, "m")).contains("before other blocks"));
    let mut marked = blocks.clone();
    marked[0]["cache_control"] = json!({"type": "ephemeral"});
    assert!(problems_after(&go_on(&marked, "m")).contains("not permitted on thinking"));
    let only = ask(
        json!([
            user(json!("x")),
            assistant(json!([blocks[0]])),
            user(json!("y"))
        ]),
        "m",
    );
    assert!(problems_after(&only).contains("cannot be `thinking`"));
}

#[test]
fn a_block_of_an_unknown_kind_is_fine_if_the_server_sent_it() {
    let strange = json!({"type": "compaction", "content": "c", "new": 1});
    let server = serve(
        Scenario::new()
            .reply(Reply::blocks(vec![
                strange.clone(),
                json!({"type": "text", "text": "t", "novel": true}),
            ]))
            .reply(Reply::text("ok")),
    );
    let blocks = blocks_of(&server, &hello());
    let request = body(json!([
        user(json!("x")),
        assistant(json!(blocks)),
        user(json!("y"))
    ]));
    assert_eq!(post(&server.base_url(), &request).status, 200);
    server.finish();
    refused(
        &body(json!([
            user(json!("x")),
            assistant(json!([strange])),
            user(json!("y"))
        ])),
        "compaction",
    );
}

fn raw_post(url: &str, headers: &str, body: &str) -> u16 {
    let mut stream = connect(url);
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: h\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    common::read_head(&mut BufReader::new(stream))
        .unwrap()
        .status
}

#[test]
fn headers_are_checked() {
    let server = serve(Scenario::new().accept_key("good").reply(Reply::text("ok")));
    let url = server.base_url();
    let usual = "anthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n";
    let body = hello().to_string();
    assert_eq!(
        raw_post(
            &url,
            &format!("authorization: Bearer bad\r\n{usual}"),
            &body
        ),
        401
    );
    assert_eq!(
        server.problems().len(),
        0,
        "a wrong key is the scenario's wish"
    );
    assert_eq!(raw_post(&url, usual, &body), 401);
    assert_eq!(raw_post(&url, "x-api-key: good\r\n", &body), 400);
    let problems = server.problems().join("\n");
    assert!(problems.contains("neither x-api-key nor a bearer token"));
    assert!(problems.contains("anthropic-version") && problems.contains("content-type"));
    assert_eq!(
        raw_post(
            &url,
            &format!("authorization: Bearer good\r\n{usual}"),
            &body
        ),
        200
    );
    assert_eq!(
        raw_post(&url, &format!("x-api-key: good\r\n{usual}"), "{not json"),
        400
    );
}

#[test]
fn requests_are_recorded_as_they_came() {
    let server = serve(Scenario::new().reply(Reply::text("ok").times(2)));
    post(&server.base_url(), &hello());
    post(&server.base_url(), &body(json!([user(json!("second"))])));
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].raw_body, hello().to_string());
    assert_eq!(requests[0].body, hello());
    assert_eq!(requests[1].received_at_index, 1);
    assert_eq!(requests[1].last_user_text(), "second");
    assert_eq!(requests[1].http_version, "HTTP/1.1");
    assert_eq!(requests[1].header("x-api-key"), Some("k"));
    assert_eq!(requests[1].to_json()["headers"]["x-api-key"], "***");
}

#[test]
fn light_validation_looks_at_the_outline_only() {
    let scenario = Scenario::new()
        .validation(Validation::Light)
        .keep_requests(false);
    let server = serve(scenario.responder(|request| Reply::text(request.last_user_text())));
    let request = body(json!([
        user(json!("a")),
        user(json!("")),
        user(json!("b")),
        user(json!("c"))
    ]));
    assert!(post(&server.base_url(), &request).text().contains("\"c\""));
    assert_eq!(
        post(&server.base_url(), &with(json!({"max_tokens": 0}))).status,
        400
    );
    assert_eq!((server.requests().len(), server.request_count()), (0, 2));
}

#[test]
fn without_validation_another_program_may_send_what_is_not_known() {
    let scenario = Scenario::new().validation(Validation::Off);
    let server = serve(scenario.responder(|request| Reply::text(request.last_user_text())));
    let request = with(json!({"max_tokens": 0, "some_field_of_tomorrow": true}));
    let reply = post(&server.base_url(), &request);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(server.problems(), Vec::<String>::new());
}

#[test]
fn the_same_history_is_checked_in_depth_only_once_and_still_whole() {
    // A bad message must be found however often the rest of the conversation has been seen.
    let server = serve(Scenario::new().responder(|_| Reply::text("ok")));
    let mut messages = vec![user(json!("0"))];
    for index in 1..40 {
        messages.push(assistant(json!([call(&format!("t{index}"))])));
        messages.push(user(json!([result(&format!("t{index}"))])));
        assert_eq!(post(&server.base_url(), &body(json!(messages))).status, 200);
    }
    messages[4] = user(json!([text("")]));
    for _ in 0..2 {
        assert_eq!(post(&server.base_url(), &body(json!(messages))).status, 400);
    }
    let problems = server.problems();
    assert!(
        problems
            .iter()
            .filter(|problem| problem.contains("messages.4"))
            .count()
            >= 2
    );
}

#[test]
fn count_tokens_checks_the_conversation_too() {
    let server = serve(Scenario::new());
    let request = json!({"model": "m", "messages": [assistant(json!("x"))]}).to_string();
    let response = post_to(&server.base_url(), "/v1/messages/count_tokens", &request).unwrap();
    assert_eq!(response.status, 400);
    assert_eq!(server.problems().len(), 1);
}

#[test]
fn a_paused_answer_may_come_last_even_with_thinking() {
    let search = json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}});
    let paused = Reply::blocks(vec![search.clone()]).stop_reason("pause_turn");
    let server = serve(Scenario::new().reply(paused).reply(Reply::text("ok")));
    let mut request = hello();
    request["thinking"] = json!({"type": "adaptive"});
    assert_eq!(blocks_of(&server, &request), std::slice::from_ref(&search));
    request["messages"] = json!([user(json!("hello")), assistant(json!([search]))]);
    assert_eq!(post(&server.base_url(), &request).status, 200);
    server.finish();
}

#[test]
fn a_body_can_be_checked_without_a_server() {
    use lathe_scripted::validate::{problems_of, sign};
    assert_eq!(problems_of(&hello()), Vec::<String>::new());
    assert_eq!(problems_of(&body(json!([assistant(json!("x"))]))).len(), 1);
    assert_eq!(problems_of(&json!([])).len(), 1);
    let thinking = |signature: String| {
        let block = json!({"type": "thinking", "thinking": "hm", "signature": signature});
        body(json!([
            user(json!("x")),
            assistant(json!([block, text("y")])),
            user(json!("z"))
        ]))
    };
    assert_eq!(
        problems_of(&thinking(sign("m", "hm"))),
        Vec::<String>::new()
    );
    assert_eq!(problems_of(&thinking(sign("other", "hm"))).len(), 1);
}
