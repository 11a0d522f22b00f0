//! Complaints about other programs, each as a test of this one, named after the reports: `opencode`
//! (anomalyco), `goose`, `codex`, `crush`, `cline`, `aider`, `pi`, `vercel` and `continue`.

use crate::peers::{
    answers, ask, asked, calls, chat, chunk, home, house, result, results, roles, says, set,
};
use lathe_scripted::Reply;
use lathe_testkit::{Peer, PeerReply, TestHome, server};
use serde_json::{Value, json};

fn at(peer: &Peer) -> TestHome {
    home(&house("openai-chat", &format!("{}/v1", peer.url())))
}

fn refuses(status: u16, message: &str) -> PeerReply {
    let body = json!({"error": {"message": message}});
    PeerReply::new(status, "application/json", body.to_string())
}

/// Everything that a run told.
fn told(output: &lathe_testkit::Output) -> String {
    format!("{}{}", output.stdout, output.stderr)
}

#[test]
fn opencode_6418_24909_11546_reasoning_of_another_model_is_left_out_after_a_switch() {
    let claude = server([
        Reply::thinking("a signed thought").with_tool_use("Bash", json!({"command": "echo hi"})),
        Reply::thinking("another").with_text("first"),
    ]);
    let peer = answers(vec![says("second")]);
    let home = at(&peer).server(&claude);
    let first = home.run(
        [
            "-p",
            "x",
            "--allowedTools",
            "Bash(echo:*)",
            "--model",
            "claude-opus-5-5",
        ],
        "",
    );
    assert_eq!(first.code(), Some(0), "{first:#?}");
    let second = ask(&home, "house/m", &["-c"]);
    assert_eq!(second.result()["result"], "second");
    assert!(
        second
            .stderr
            .contains("house/m does not get 2 pieces of reasoning"),
        "{second:#?}"
    );
    let body = asked(&peer)[0].to_string();
    assert!(
        !body.contains("a signed thought") && !body.contains("signature"),
        "{body}"
    );
    assert!(body.contains("first") && body.contains("echo hi"), "{body}");
}

#[test]
fn pi_9048_ids_with_bars_are_cleaned_at_both_ends() {
    let call = json!({"index": 0, "id": "call_a|fc_b", "function": {"name": "Bash", "arguments": "{\"command\":\"echo hi\"}"}});
    let peer = answers(vec![
        chat(&[chunk(&json!({"tool_calls": [call]}), None)]),
        says("ok"),
    ]);
    result(&at(&peer), "house/m", &["--allowedTools", "Bash(echo:*)"]);
    let body = asked(&peer)[1].to_string();
    assert!(
        !body.contains('|') && body.contains("call_a_fc_b"),
        "{body}"
    );
}

#[test]
fn opencode_32617_a_call_without_a_result_gets_one_before_the_session_goes_on_elsewhere() {
    let claude = server([Reply::tool_use("Bash", json!({"command": "sleep 1000"}))]);
    let peer = answers(vec![says("second")]);
    let home = at(&peer).server(&claude);
    let running = home.spawn([
        "-p",
        "x",
        "--allowedTools",
        "Bash",
        "--model",
        "claude-opus-5-5",
        "--output-format",
        "stream-json",
        "--verbose",
    ]);
    running.wait_for_stdout("tool_use");
    running.kill();
    let _ = running.finish();
    assert_eq!(result(&home, "house/m", &["-c"])["result"], "second");
    let body = asked(&peer)[0].clone();
    let roles = roles(&body);
    let calls = body["messages"]
        .to_string()
        .matches("\"tool_calls\"")
        .count();
    let answered = roles.iter().filter(|role| *role == "tool").count();
    assert_eq!(calls, answered, "{body}");
}

#[test]
fn codex_3451_1235_vercel_7543_reasoning_items_go_back_only_before_their_item() {
    let reasoning =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VjcmV0"});
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "call_x1y2", "name": "Bash", "arguments": "{\"command\":\"echo hi\"}"});
    let lonely =
        json!({"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "bG9uZWx5"});
    let message = |text: &str| json!({"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
    let answer = |output: Value| {
        let event =
            json!({"type": "response.completed", "response": {"id": "r", "output": output}});
        PeerReply::events(format!("data: {event}\n\n"))
    };
    let peer = answers(vec![
        answer(json!([reasoning, call])),
        answer(json!([message("ok"), lonely])),
        answer(json!([message("again")])),
    ]);
    let mut settings = house("openai", &format!("{}/v1", peer.url()));
    settings["providers"]["house"]["models"]["m"]["reasoning"] = json!(true);
    let home = home(&settings);
    result(&home, "house/m", &["--allowedTools", "Bash(echo:*)"]);
    result(&home, "house/m", &["-c"]);
    let input = asked(&peer)[2]["input"].as_array().unwrap().clone();
    let place = input.iter().position(|item| item["id"] == "rs_1").unwrap();
    assert_eq!(input[place + 1]["type"], "function_call", "{input:?}");
    assert!(input.iter().all(|item| item["id"] != "rs_2"), "{input:?}");
}

#[test]
fn opencode_1034_4428_codex_2293_goose_4000_7672_a_window_that_is_cut_silently_is_known_and_told() {
    let peer = Peer::start(|request, _| match request.path.as_str() {
        "/api/tags" => PeerReply::json(&json!({"models": [{"name": "m"}]})),
        "/api/show" => PeerReply::json(
            &json!({"capabilities": ["tools"], "model_info": {"x.context_length": 131_072}}),
        ),
        "/v1/chat/completions" => says("ok"),
        _ => PeerReply::not_found(),
    });
    let home = home(
        &json!({"providers": {"house": {"kind": "openai-chat", "baseUrl": format!("{}/v1", peer.url())}}}),
    );
    let output = ask(&home, "house/m", &[]);
    assert!(
        output.stderr.contains("4096") && output.stderr.contains("OLLAMA_CONTEXT_LENGTH"),
        "{output:#?}"
    );
    let body = asked(&peer)
        .into_iter()
        .find(|body| body.get("messages").is_some())
        .unwrap();
    // The prompt is a small one, and the answer's limit leaves room.
    assert!(body.to_string().len() < 8_000, "{}", body.to_string().len());
    assert!(
        body["max_tokens"].as_u64().unwrap() <= 1_024,
        "{}",
        body["max_tokens"]
    );
}

#[test]
fn opencode_7083_a_call_that_came_as_text_is_run() {
    let peer = answers(vec![
        says("{\"name\": \"Bash\", \"arguments\": {\"command\": \"echo hi\"}}"),
        says("ok"),
    ]);
    result(&at(&peer), "house/m", &["--allowedTools", "Bash(echo:*)"]);
    assert_eq!(results(&asked(&peer)[1]), ["hi"]);
}

#[test]
fn crush_1767_a_local_server_that_says_nothing_for_long_may_be_loading_the_model() {
    let scenario = lathe_scripted::Scenario::new().reply(
        Reply::text("ok").wait_before_headers(lathe_scripted::Wait::Gate("loaded".to_owned())),
    );
    let slow = lathe_scripted::BlockingServer::start(scenario).unwrap();
    let home = home(&house("openai-chat", &format!("{}/v1", slow.base_url())));
    let mut terminal = home.terminal(["--model", "house/m"], 100, 30);
    terminal.wait("the prompt", |screen| screen.contains("house/m"));
    terminal.say("hello");
    terminal.wait_for("may be loading the model");
    slow.gate("loaded").release();
    terminal.wait_for("ok");
    terminal.leave();
}

#[test]
fn goose_4276_empty_choices_are_no_panic() {
    for body in [
        "{\"choices\":[]}",
        "{\"choices\":null}",
        "{\"choices\":[null]}",
        "{\"choices\":[{}]}",
        "{}",
        "[]",
        "null",
        "0",
    ] {
        let peer = answers(vec![
            PeerReply::events(format!("data: {body}\n\ndata: [DONE]\n\n")),
            says("well"),
        ]);
        let output = ask(&at(&peer), "house/m", &[]);
        assert!(!told(&output).contains("panicked"), "{body}: {output:#?}");
        assert!(output.code().is_some(), "{body}: {output:#?}");
        let peer = answers(vec![
            PeerReply::new(200, "application/json", body),
            says("well"),
        ]);
        let output = ask(&at(&peer), "house/m", &[]);
        assert!(
            !told(&output).contains("panicked") && output.code().is_some(),
            "{body}: {output:#?}"
        );
    }
}

#[test]
fn crush_447_677_2427_3147_servers_on_this_machine_are_found() {
    let peer = Peer::start(|request, _| match request.path.as_str() {
        "/v1/models" => PeerReply::json(&json!({"data": [{"id": "found-here"}]})),
        _ => PeerReply::not_found(),
    });
    let home = home(&json!({"providers": {"lmstudio": {"baseUrl": format!("{}/v1", peer.url())}}}));
    let output = home.run(["models"], "");
    assert!(output.stdout.contains("lmstudio/found-here"), "{output:#?}");
}

#[test]
fn crush_3165_a_doubled_version_and_a_window_of_nothing_do_no_harm() {
    let peer = answers(vec![says("ok")]);
    let mut settings = house("openai-chat", &format!("{}/v1/v1", peer.url()));
    settings["providers"]["house"]["models"]["m"] =
        json!({"contextWindow": 0, "maxOutputTokens": 0});
    result(&home(&settings), "house/m", &[]);
    let request = peer
        .requests()
        .into_iter()
        .find(|it| it.method == "POST")
        .unwrap();
    assert_eq!(request.path, "/v1/chat/completions");
    assert!(request.json()["max_tokens"].as_u64().unwrap() > 0);
}

#[test]
fn opencode_10759_aider_1380_the_server_is_asked_for_its_window() {
    let peer = Peer::start(|request, _| match request.path.as_str() {
        "/v1/models" => PeerReply::json(&json!({"data": [{"id": "m", "max_model_len": 12_000}]})),
        "/v1/chat/completions" => says("ok"),
        _ => PeerReply::not_found(),
    });
    let home = home(
        &json!({"providers": {"house": {"kind": "openai-chat", "baseUrl": format!("{}/v1", peer.url())}}}),
    );
    let result = result(&home, "house/m", &[]);
    assert_eq!(
        result["modelUsage"]["house/m"]["contextWindow"], 12_000,
        "{result}"
    );
}

/// A first turn that fills the history, so that there is something to compact.
fn filled(peer: &Peer) -> TestHome {
    let home = at(peer);
    home.write("long.txt", "line of words\n".repeat(400));
    home
}

#[test]
fn goose_11318_codex_3924_4116_an_overflow_in_a_200_is_compacted_once_and_not_repeated() {
    let overflow = PeerReply::events(format!(
        "data: {}\n\n",
        json!({"error": {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}})
    ));
    let peer = answers(vec![
        calls("Read", &json!({"file_path": "long.txt"})),
        overflow,
        says("<summary>what happened</summary>"),
        says("after the compaction"),
    ]);
    let result = result(&filled(&peer), "house/m", &[]);
    assert_eq!(result["result"], "after the compaction", "{result}");
    assert_eq!(asked(&peer).len(), 4);
}

#[test]
fn goose_10200_a_full_window_without_a_word_is_an_overflow_and_no_answer() {
    let silent = chat(&[
        chunk(&json!({}), Some("length")),
        json!({"choices": [], "usage": {"prompt_tokens": 100_000, "completion_tokens": 0}}),
    ]);
    let peer = answers(vec![
        calls("Read", &json!({"file_path": "long.txt"})),
        silent,
        says("<summary>what happened</summary>"),
        says("after the compaction"),
    ]);
    assert_eq!(
        result(&filled(&peer), "house/m", &[])["result"],
        "after the compaction"
    );
}

#[test]
fn aider_3265_opencode_30510_a_wait_that_the_server_names_is_kept_and_one_layer_repeats() {
    let busy = refuses(429, "Rate limit reached").header("retry-after-ms", "20");
    let peer = answers(vec![busy.clone(), busy, says("ok")]);
    assert_eq!(result(&at(&peer), "house/m", &[])["result"], "ok");
    assert_eq!(asked(&peer).len(), 3);
    let busy = refuses(429, "Rate limit reached");
    let peer = answers(vec![busy]);
    let output = ask(&at(&peer), "house/m", &[]);
    assert_ne!(output.code(), Some(0));
    // The first one and two repetitions, as LATHE_MAX_RETRIES says: nothing multiplies them.
    assert_eq!(asked(&peer).len(), 3);
}

#[test]
fn opencode_39790_a_quota_that_is_used_up_is_not_asked_again() {
    for (status, body) in [
        (
            429,
            json!({"error": {"code": "insufficient_quota", "message": "You exceeded your current quota, please check your plan and billing details."}}),
        ),
        (
            429,
            json!({"error": {"message": "Usage limit reached. It resets in 16 days."}}),
        ),
        (402, json!({"error": {"message": "Insufficient credits"}})),
    ] {
        let peer = answers(vec![PeerReply::new(
            status,
            "application/json",
            body.to_string(),
        )]);
        let output = ask(&at(&peer), "house/m", &[]);
        assert_ne!(output.code(), Some(0));
        assert_eq!(asked(&peer).len(), 1, "{body}");
    }
}

#[test]
fn goose_1589_6987_a_bare_404_names_the_address_and_the_model() {
    let peer = answers(vec![PeerReply::not_found()]);
    let output = ask(&at(&peer), "house/m", &[]);
    let told = told(&output);
    assert!(
        told.contains("/v1/chat/completions") && told.contains("house/m"),
        "{told}"
    );
}

#[test]
fn codex_46248_an_empty_answer_is_asked_for_again_once() {
    let empty = chat(&[chunk(&json!({"content": ""}), Some("stop"))]);
    let peer = answers(vec![empty.clone(), says("ok")]);
    assert_eq!(result(&at(&peer), "house/m", &[])["result"], "ok");
    // Twice the same is what the model wants to say.
    let peer = answers(vec![empty]);
    let output = ask(&at(&peer), "house/m", &[]);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert_eq!(asked(&peer).len(), 2);
}

#[test]
fn goose_7903_azure_takes_its_key_in_a_header_of_its_own() {
    let peer = answers(vec![says("ok")]);
    let mut settings = house("openai-chat", &format!("{}/openai/v1", peer.url()));
    settings["providers"]["house"]["headers"] = json!({"api-key": "${AZURE_OPENAI_API_KEY}"});
    settings["providers"]["house"]["query"] = json!({"api-version": "preview"});
    let home = home(&settings).variable("AZURE_OPENAI_API_KEY", "key-of-azure-01");
    result(&home, "house/my-deployment", &[]);
    let request = peer
        .requests()
        .into_iter()
        .find(|it| it.method == "POST")
        .unwrap();
    assert_eq!(request.header("api-key"), Some("key-of-azure-01"));
    assert_eq!(request.header("authorization"), None);
    assert_eq!(
        request.path,
        "/openai/v1/chat/completions?api-version=preview"
    );
    assert_eq!(request.json()["model"], "my-deployment");
}

#[test]
fn codex_1628_2024_2025_2480_3725_a_wrong_azure_address_gets_a_hint() {
    let peer = answers(vec![PeerReply::new(
        404,
        "application/json",
        r#"{"error":{"code":"404","message":"Resource not found"}}"#,
    )]);
    let output = ask(&at(&peer), "house/m", &[]);
    let told = told(&output);
    assert!(
        told.contains("/openai/v1") && told.contains("deployment"),
        "{told}"
    );
}

#[test]
fn goose_3056_a_profile_of_the_aws_files_is_used() {
    let server = server([Reply::text("ok")]);
    let home =
        home(&json!({"providers": {"bedrock": {"baseUrl": server.base_url(), "profile": "corp"}}}));
    std::fs::create_dir_all(home.home().join(".aws")).unwrap();
    std::fs::write(
        home.home().join(".aws/config"),
        "[profile corp]\nregion = eu-central-1\naws_access_key_id = AKCORP\naws_secret_access_key = s\n",
    )
    .unwrap();
    result(&home, "bedrock/eu.anthropic.claude-x", &[]);
    let authorization = server.requests()[0]
        .header("authorization")
        .unwrap()
        .to_owned();
    assert!(
        authorization.contains("AKCORP/") && authorization.contains("/eu-central-1/"),
        "{authorization}"
    );
}

#[test]
fn goose_2597_a_key_is_nowhere_even_if_the_server_repeats_it() {
    let peer = answers(vec![refuses(
        401,
        "Incorrect API key provided: sk-secret-0123456789 (in house)",
    )]);
    let mut settings = house("openai-chat", &format!("{}/v1", peer.url()));
    settings["providers"]["house"]["apiKeyEnv"] = json!("HOUSE_KEY");
    let home = home(&settings)
        .variable("HOUSE_KEY", "sk-secret-0123456789")
        .variable("LATHE_LOG", "trace");
    let log = home.home().join("log.txt");
    let home = home.variable("LATHE_LOG_FILE", log.display().to_string());
    let output = ask(&home, "house/m", &[]);
    assert!(
        !told(&output).contains("sk-secret-0123456789"),
        "{output:#?}"
    );
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(!log.contains("sk-secret-0123456789"), "the log has the key");
    for file in lathe_testkit::transcript::of_home(&home) {
        assert!(
            !std::fs::read_to_string(file)
                .unwrap()
                .contains("sk-secret-0123456789")
        );
    }
}

/// An MCP server whose tools have these schemas.
fn tools_server(home: &TestHome, schemas: &Value) -> String {
    let program = r#"
import json, sys
tools = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    if message["method"] == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": name, "description": name, "inputSchema": schema} for name, schema in tools.items()]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;
    let program = home.write("odd.py", program);
    json!({"mcpServers": {"odd": {"command": "python3", "args": [program, schemas.to_string()]}}})
        .to_string()
}

/// The declarations that Gemini gets of an MCP server's tools, and what the run told.
fn declared_to_gemini(schemas: &Value) -> (Vec<Value>, String) {
    let model = server([Reply::text("ok")]);
    let home = home(&house("gemini", &format!("{}/v1beta", model.base_url())))
        .variable("ENABLE_TOOL_SEARCH", "false");
    let servers = tools_server(&home, schemas);
    let output = ask(&home, "house/m", &["--mcp-config", &servers]);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    model.finish();
    let sent: Value = serde_json::from_slice(&model.message_requests()[0].raw_body).unwrap();
    let tools = sent["tools"][0]["functionDeclarations"].as_array().unwrap();
    (tools.clone(), told(&output))
}

#[test]
fn cline_7339_11162_opencode_11413_19276_gemini_gets_only_what_its_schemas_know() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "additionalProperties": false, "required": ["list", "gone"],
        "$defs": {"When": {"type": "string", "format": "date-time"}},
        "properties": {
            "list": {"type": "array"},
            "kind": {"const": "a"},
            "level": {"enum": [1, 2]},
            "when": {"$ref": "#/$defs/When"},
            "which": {"oneOf": [{"type": "string"}, {"type": "null"}]},
            "many": {"type": ["string", "null"]},
            "above": {"type": "integer", "exclusiveMinimum": 0},
            "map": {"type": "object", "propertyNames": {"pattern": "^a"}},
        },
    });
    let (tools, _) = declared_to_gemini(&json!({"look": schema}));
    let look = tools.iter().find(|tool| tool["name"] == "mcp__odd__look");
    let look = look.unwrap().to_string();
    for unknown in [
        "$schema",
        "$ref",
        "$defs",
        "additionalProperties",
        "const",
        "oneOf",
        "exclusiveMinimum",
        "propertyNames",
        "\"gone\"",
    ] {
        assert!(!look.contains(unknown), "{unknown}: {look}");
    }
    assert!(look.contains("\"items\""), "{look}");
    // Google's own types read it.
    let body = json!({"contents": [], "tools": [{"functionDeclarations": tools}]});
    crate::official::checked(&[json!({"check": "gemini", "raw": body.to_string()})]);
}

#[test]
fn cline_8433_a_tool_whose_reference_leads_nowhere_is_left_out_and_told() {
    let (tools, told) = declared_to_gemini(&json!({
        "good": {"type": "object", "properties": {"a": {"type": "string"}}},
        "bad": {"type": "object", "properties": {"a": {"$ref": "#/$defs/Gone"}}},
    }));
    let names: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert!(names.contains(&"mcp__odd__good"), "{names:?}");
    assert!(!names.contains(&"mcp__odd__bad"), "{names:?}");
    assert!(told.contains("mcp__odd__bad"), "{told}");
}

#[test]
fn crush_3153_arguments_that_are_no_json_are_not_sent_again() {
    let broken = json!({"index": 0, "id": "a1b2", "function": {"name": "Bash", "arguments": "{\"command\": \"echo"}});
    let peer = answers(vec![
        chat(&[chunk(&json!({"tool_calls": [broken]}), Some("tool_calls"))]),
        says("ok"),
    ]);
    result(&at(&peer), "house/m", &[]);
    let body = asked(&peer)[1].clone();
    let messages = body["messages"].as_array().unwrap();
    let call = messages
        .iter()
        .find(|message| message["tool_calls"].is_array())
        .unwrap();
    let arguments = call["tool_calls"][0]["function"]["arguments"]
        .as_str()
        .unwrap();
    assert!(
        serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()),
        "{arguments}"
    );
    assert_eq!(results(&body).len(), 1);
}

#[test]
fn vercel_6687_a_call_without_arguments_is_a_call() {
    for arguments in [json!(""), json!("null"), Value::Null] {
        let call =
            json!({"index": 0, "id": "a1b2", "function": {"name": "Glob", "arguments": arguments}});
        let peer = answers(vec![
            chat(&[chunk(&json!({"tool_calls": [call]}), Some("tool_calls"))]),
            says("ok"),
        ]);
        assert_eq!(result(&at(&peer), "house/m", &[])["result"], "ok");
        assert_eq!(results(&asked(&peer)[1]).len(), 1);
    }
}

#[test]
fn crush_653_683_mistral_gets_ids_of_nine_and_no_user_after_a_tool() {
    let peer = answers(vec![
        calls("Bash", &json!({"command": "echo hi"})),
        says("one"),
        says("two"),
    ]);
    let mut settings = house("openai-chat", &format!("{}/v1", peer.url()));
    settings["providers"]["house"]["models"]["m"]["quirks"] = json!({"toolIds": "short"});
    let home = home(&settings);
    result(&home, "house/m", &["--allowedTools", "Bash(echo:*)"]);
    result(&home, "house/m", &["-c"]);
    let body = asked(&peer)[2].clone();
    let roles = roles(&body);
    assert!(
        !roles.windows(2).any(|pair| pair == ["tool", "user"]),
        "{roles:?}"
    );
    let id = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|it| it["tool_call_id"].as_str())
        .unwrap();
    assert!(
        id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "{id}"
    );
}

#[test]
fn crush_1258_a_limit_of_nothing_is_never_sent() {
    let peer = answers(vec![says("ok")]);
    let mut settings = house("openai-chat", &format!("{}/v1", peer.url()));
    settings["providers"]["house"]["models"]["m"]["maxOutputTokens"] = json!(0);
    result(&home(&settings), "house/m", &[]);
    assert!(asked(&peer)[0]["max_tokens"].as_u64().unwrap() > 0);
}

#[test]
fn crush_377_no_message_is_sent_without_content() {
    let reasoned = chat(&[chunk(
        &json!({"reasoning_content": "only a thought"}),
        Some("stop"),
    )]);
    let peer = answers(vec![reasoned.clone(), reasoned, says("two")]);
    let home = at(&peer);
    let _ = ask(&home, "house/m", &[]);
    result(&home, "house/m", &["-c"]);
    for message in asked(&peer).last().unwrap()["messages"].as_array().unwrap() {
        let content = &message["content"];
        let empty = content.is_null() || content == "";
        assert!(!empty || message["tool_calls"].is_array(), "{message}");
    }
}

#[test]
fn cline_6659_tags_of_reasoning_are_not_part_of_the_answer() {
    for text in ["<think>hm</think>ok", "<thinking>\nhm\n</thinking>\n\nok"] {
        let pieces: Vec<Value> = text
            .chars()
            .map(|letter| chunk(&json!({"content": letter.to_string()}), None))
            .collect();
        let peer = answers(vec![chat(&pieces)]);
        assert_eq!(result(&at(&peer), "house/m", &[])["result"], "ok", "{text}");
    }
}

#[test]
fn continue_9831_deepseek_gets_its_reasoning_back_where_calls_are() {
    let first = chat(&[
        chunk(&json!({"reasoning_content": "let me see"}), None),
        chunk(
            &json!({"tool_calls": [{"index": 0, "id": "a1b2", "function": {"name": "Bash", "arguments": "{\"command\":\"echo hi\"}"}}]}),
            Some("tool_calls"),
        ),
    ]);
    let peer = answers(vec![first, says("ok")]);
    result(&at(&peer), "house/m", &["--allowedTools", "Bash(echo:*)"]);
    let body = asked(&peer)[1].clone();
    let messages = body["messages"].as_array().unwrap();
    let call = messages
        .iter()
        .find(|message| message["tool_calls"].is_array())
        .unwrap();
    assert_eq!(call["reasoning_content"], "let me see", "{call}");
    // One that insists on it for the history of another model, too, is understood.
    let insists = refuses(
        400,
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
    );
    let peer = answers(vec![
        calls("Bash", &json!({"command": "echo hi"})),
        insists,
        says("ok"),
    ]);
    result(&at(&peer), "house/m", &["--allowedTools", "Bash(echo:*)"]);
    let body = asked(&peer)[2].clone();
    let messages = body["messages"].as_array().unwrap();
    let call = messages
        .iter()
        .find(|message| message["tool_calls"].is_array())
        .unwrap();
    assert_eq!(call["reasoning_content"], "", "{call}");
}

#[test]
fn goose_6089_a_model_of_the_other_api_is_told_with_the_kind_to_declare() {
    let peer = answers(vec![refuses(
        404,
        "This model is only supported in v1/responses and not in v1/chat/completions.",
    )]);
    let output = ask(&at(&peer), "house/m", &[]);
    assert!(
        told(&output).contains("kind \\\"openai\\\"") || told(&output).contains("kind \"openai\""),
        "{output:#?}"
    );
}

#[test]
fn opencode_4256_18440_cached_tokens_are_counted_once_and_writes_are_not_lost() {
    let counted = chat(&[
        chunk(&json!({"content": "ok"}), Some("stop")),
        json!({"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300}}}),
    ]);
    let peer = answers(vec![counted]);
    let home = at(&peer);
    let mut settings = house("openai-chat", &format!("{}/v1", peer.url()));
    settings["providers"]["house"]["models"]["m"]["price"] =
        json!({"input": 10, "output": 20, "cacheRead": 1, "cacheWrite": 12});
    set(&home, &settings);
    let result = result(&home, "house/m", &[]);
    let usage = &result["usage"];
    assert_eq!(
        (
            &usage["input_tokens"],
            &usage["cache_read_input_tokens"],
            &usage["cache_creation_input_tokens"]
        ),
        (&json!(100), &json!(600), &json!(300)),
        "{usage}"
    );
    let cost = result["total_cost_usd"].as_f64().unwrap();
    let wanted = (100.0 * 10.0 + 600.0 + 300.0 * 12.0 + 10.0 * 20.0) / 1e6;
    assert!((cost - wanted).abs() < 1e-12, "{cost} {wanted}");
}
