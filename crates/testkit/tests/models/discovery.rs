//! Servers that are found on this machine, what is listed of them, keys that are stored, and the table.

use crate::peers::{answers, ask, asked, calls, chat, chunk, home, house, says, set};
use lathe_scripted::Reply;
use lathe_testkit::{Output, Peer, PeerReply, PeerRequest, StreamJson, TestHome};
use serde_json::{Value, json};

/// A provider that is declared with nothing but its address.
fn at(url: &str) -> Value {
    json!({"providers": {"house": {"kind": "openai-chat", "baseUrl": format!("{url}/v1")}}})
}

fn listed(home: &TestHome) -> Vec<Value> {
    let output = home.run(["models", "--json"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let rows: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    rows.into_iter()
        .filter(|row| row["provider"] == "house")
        .collect()
}

fn ollama(request: &PeerRequest) -> PeerReply {
    match request.path.as_str() {
        "/api/tags" => {
            PeerReply::json(&json!({"models": [{"name": "qwen3:8b"}, {"name": "tiny:1b"}]}))
        }
        "/api/ps" => {
            PeerReply::json(&json!({"models": [{"name": "qwen3:8b", "context_length": 16_384}]}))
        }
        "/api/show"
            if request.json()["model"] == "qwen3:8b" || request.json()["name"] == "qwen3:8b" =>
        {
            PeerReply::json(
                &json!({"capabilities": ["completion", "tools", "thinking"], "model_info": {"qwen3.context_length": 40_960}}),
            )
        }
        "/api/show" => PeerReply::json(
            &json!({"capabilities": ["completion"], "model_info": {"x.context_length": 131_072}}),
        ),
        "/v1/models" => PeerReply::json(&json!({"data": [{"id": "qwen3:8b"}, {"id": "tiny:1b"}]})),
        "/v1/chat/completions" => says("ok"),
        _ => PeerReply::not_found(),
    }
}

#[test]
fn ollama_is_listed_with_the_window_in_use_and_a_silent_cut_is_told() {
    let peer = Peer::start(|request, _| ollama(request));
    let home = home(&at(&peer.url()));
    let rows = listed(&home);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(
        (&rows[0]["model"], &rows[0]["contextWindow"]),
        (&json!("qwen3:8b"), &json!(16_384))
    );
    assert_eq!(
        (&rows[0]["tools"], &rows[0]["images"], &rows[0]["reasoning"]),
        (&json!(true), &json!(false), &json!(true))
    );
    assert_eq!(
        (&rows[1]["contextWindow"], &rows[1]["tools"]),
        (&json!(4_096), &json!(false))
    );
    assert_eq!(
        (&rows[0]["source"], &rows[0]["price"]),
        (&json!("server"), &Value::Null)
    );
    let table = home.run(["models"], "");
    assert!(
        table.stdout.contains("house/qwen3:8b") && table.stdout.contains("16384"),
        "{table:#?}"
    );
    assert!(table.stderr.contains("OLLAMA_CONTEXT_LENGTH"), "{table:#?}");
    // A session asks, too, and says so at its start.
    let output = ask(&home, "house/tiny:1b", &[]);
    assert!(
        output.stderr.contains("OLLAMA_CONTEXT_LENGTH"),
        "{output:#?}"
    );
}

#[test]
fn a_model_that_is_chosen_in_the_middle_of_a_session_is_asked_about_too() {
    let peer = Peer::start(|request, _| ollama(request));
    let first = answers(vec![says("one")]);
    let mut settings = house("openai-chat", &format!("{}/v1", first.url()));
    settings["providers"]["local"] = at(&peer.url())["providers"]["house"].clone();
    let home = home(&settings);
    let mut session = StreamJson::start(&home, ["--model", "house/m"]);
    session.control(&json!({"subtype": "initialize", "hooks": null}));
    session.prompt("hello");
    assert_eq!(session.wait_for_result()["result"], "one");
    session.control(&json!({"subtype": "set_model", "model": "local/tiny:1b"}));
    session.prompt("and now");
    let result = session.wait_for_result();
    let window = &result["modelUsage"]["local/tiny:1b"]["contextWindow"];
    assert_eq!(window, 4_096, "{result}");
    let output = session.close();
    assert!(
        output.stderr.contains("OLLAMA_CONTEXT_LENGTH")
            || output.stdout.contains("OLLAMA_CONTEXT_LENGTH"),
        "{output:#?}"
    );
    // Once is enough.
    let shown = peer.requests();
    let shown = shown.iter().filter(|request| request.path == "/api/tags");
    assert_eq!(shown.count(), 1);
}

#[test]
fn a_server_elsewhere_is_asked_for_the_window_of_a_model_that_no_table_knows() {
    // The peer is the proxy, so it gets the requests for a host that doesn't exist.
    let peer = Peer::start(|request, _| match request.path.as_str() {
        "http://models.example/v1/models?tier=gold" => {
            PeerReply::json(&json!({"data": [{"id": "brand-new", "max_model_len": 24_000}]}))
        }
        "http://models.example/v1/chat/completions?tier=gold" => says("ok"),
        _ => PeerReply::not_found(),
    });
    let home = home(
        &json!({"providers": {"house": {"kind": "openai-chat", "baseUrl": "http://${PLACE}/v1",
        "query": {"tier": "gold"}, "headers": {"api-key": "${GATE_KEY}"}}}}),
    )
    .variable("PLACE", "models.example")
    .variable("GATE_KEY", "key-of-the-gate")
    .variable("HTTP_PROXY", peer.url());
    let output = ask(&home, "house/brand-new", &[]);
    let result = output.result();
    let window = &result["modelUsage"]["house/brand-new"]["contextWindow"];
    assert_eq!(window, 24_000, "{output:#?}");
    let requests = peer.requests();
    assert!(
        requests
            .iter()
            .all(|request| request.header("api-key") == Some("key-of-the-gate"))
    );
}

#[test]
fn lists_that_come_in_pages_are_read_to_their_end() {
    let pages = |request: &PeerRequest| match request.path.as_str() {
        "/v1beta/models" => PeerReply::json(
            &json!({"models": [{"name": "models/a", "inputTokenLimit": 1000}], "nextPageToken": "t 2"}),
        ),
        "/v1beta/models?pageToken=t+2" => {
            PeerReply::json(&json!({"models": [{"name": "models/b", "inputTokenLimit": 2000}]}))
        }
        "/v1/models" => {
            PeerReply::json(&json!({"data": [{"id": "a"}], "has_more": true, "last_id": "a"}))
        }
        "/v1/models?after_id=a" => {
            PeerReply::json(&json!({"data": [{"id": "b"}], "has_more": false, "last_id": "b"}))
        }
        _ => PeerReply::not_found(),
    };
    for (kind, path) in [("gemini", "/v1beta"), ("anthropic", "")] {
        let peer = Peer::start(move |request, _| pages(request));
        let home = home(
            &json!({"providers": {"house": {"kind": kind, "baseUrl": format!("{}{path}", peer.url())}}}),
        );
        let rows = listed(&home);
        let names: Vec<&str> = rows
            .iter()
            .filter_map(|row| row["model"].as_str())
            .collect();
        assert_eq!(names, ["a", "b"], "{kind}");
    }
}

#[test]
fn a_local_server_that_does_not_run_is_told_soon_and_with_the_way_out() {
    let home = home(&json!({"providers": {"ollama": {"baseUrl": "http://127.0.0.1:9/v1"}}}))
        .variable("LATHE_MAX_RETRIES", "");
    let output = home.run(["-p", "x", "--model", "ollama/qwen3"], "");
    assert_ne!(output.code(), Some(0));
    let told = format!("{}{}", output.stdout, output.stderr);
    assert!(told.contains("lathe models"), "{told}");
    assert!(told.contains("(3/3)") && !told.contains("(4/"), "{told}");
    let tried = home.run(["models", "test", "ollama/qwen3"], "");
    assert_eq!(tried.stdout.matches("reach").count(), 2, "{tried:#?}");
    assert_eq!(tried.stdout.matches("not tried").count(), 4, "{tried:#?}");
}

#[test]
fn llama_cpp_is_listed_with_the_window_in_use() {
    let peer = Peer::start(|request, _| match request.path.as_str() {
        "/v1/models" => PeerReply::json(
            &json!({"data": [{"id": "model.gguf", "meta": {"n_ctx_train": 32_768}}]}),
        ),
        "/props" => PeerReply::json(
            &json!({"default_generation_settings": {"n_ctx": 8_192}, "modalities": {"vision": true},
            "chat_template": "{% if tools %}…{% endif %}"}),
        ),
        _ => PeerReply::not_found(),
    });
    let rows = listed(&home(&at(&peer.url())));
    assert_eq!(
        (
            &rows[0]["contextWindow"],
            &rows[0]["tools"],
            &rows[0]["images"]
        ),
        (&json!(8_192), &json!(true), &json!(true)),
        "{rows:?}"
    );
}

#[test]
fn lm_studio_is_listed_with_what_is_loaded() {
    let peer = Peer::start(|request, _| match request.path.as_str() {
        "/api/v0/models" => PeerReply::json(&json!({"data": [
            {"id": "qwen3-8b", "type": "llm", "max_context_length": 131_072, "loaded_context_length": 4_096, "capabilities": ["tool_use"]},
            {"id": "embed", "type": "embeddings"}]})),
        "/v1/models" => PeerReply::json(&json!({"data": [{"id": "qwen3-8b"}]})),
        _ => PeerReply::not_found(),
    });
    let rows = listed(&home(&at(&peer.url())));
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(
        (&rows[0]["contextWindow"], &rows[0]["tools"]),
        (&json!(4_096), &json!(true))
    );
}

#[test]
fn vllm_is_listed_with_its_maximum_length() {
    let peer = Peer::start(|request, _| match request.path.as_str() {
        "/v1/models" => {
            PeerReply::json(&json!({"data": [{"id": "Qwen/Qwen3-8B", "max_model_len": 20_480}]}))
        }
        _ => PeerReply::not_found(),
    });
    let rows = listed(&home(&at(&peer.url())));
    assert_eq!(rows[0]["contextWindow"], 20_480, "{rows:?}");
}

#[test]
fn the_word_of_the_person_goes_before_what_a_server_says() {
    let peer = Peer::start(|request, _| ollama(request));
    let mut settings = at(&peer.url());
    settings["providers"]["house"]["models"] =
        json!({"qwen3:8b": {"contextWindow": 30_000, "tools": false}});
    let rows = listed(&home(&settings));
    let row = rows.iter().find(|row| row["model"] == "qwen3:8b").unwrap();
    assert_eq!(
        (&row["contextWindow"], &row["tools"], &row["source"]),
        (&json!(30_000), &json!(false), &json!("settings"))
    );
}

fn tried(output: &Output) -> Vec<(String, bool)> {
    let rows: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    rows.iter()
        .map(|row| {
            (
                row["name"].as_str().unwrap().to_owned(),
                row["passed"] == true,
            )
        })
        .collect()
}

#[test]
fn models_test_tries_everything_and_says_what_worked() {
    let whole = PeerReply::json(
        &json!({"choices": [{"message": {"content": "ready"}, "finish_reason": "stop"}]}),
    );
    let two = chat(&[chunk(
        &json!({"tool_calls": [
            {"index": 0, "id": "a1b2", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}},
            {"index": 1, "id": "c3d4", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}}]}),
        Some("tool_calls"),
    )]);
    let peer = answers(vec![
        whole,
        says("ready"),
        calls("weather", &json!({"city": "Oslo"})),
        two,
        says("It is red."),
        says("Oslo"),
    ]);
    let home = home(&house("openai-chat", &format!("{}/v1", peer.url())));
    let output = home.run(["models", "test", "house/m", "--json"], "");
    let wanted = [
        ("text", true),
        ("stream", true),
        ("tool", true),
        ("parallel", true),
        ("image", true),
        ("structured", false),
    ];
    assert_eq!(
        tried(&output),
        wanted.map(|(name, passed)| (name.to_owned(), passed))
    );
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert_eq!(asked(&peer).len(), 6);
    let gone = home.run(["models", "test", "nobody/m"], "");
    assert_ne!(gone.code(), Some(0));
}

#[test]
fn a_start_without_a_key_offers_what_was_found() {
    let peer = Peer::start(|request, _| ollama(request));
    let home = home(&at(&peer.url())).variable("GROQ_API_KEY", "key-of-groq-01");
    let output = home.run(["-p", "x"], "");
    assert_eq!(output.code(), Some(3), "{output:#?}");
    assert!(
        output.stderr.contains("lathe --model house/qwen3:8b"),
        "{output:#?}"
    );
    assert!(
        output.stderr.contains("there is a key for groq"),
        "{output:#?}"
    );
    // At a terminal the user chooses, and the session begins.
    let mut terminal = home.terminal(Vec::<String>::new(), 100, 30);
    terminal.wait_for("Which one should be used?");
    terminal.send("1\r");
    terminal.wait_for("house/qwen3:8b");
    terminal.wait("the prompt", |screen| {
        screen.contains('❯') || screen.contains('>')
    });
    terminal.say("hello");
    terminal.wait_for("ok");
    terminal.leave();
}

#[test]
fn a_key_that_was_stored_by_login_is_used_and_removed_by_logout() {
    let peer = answers(vec![says("ok")]);
    let home = home(&json!({"providers": {"groq": {"baseUrl": format!("{}/v1", peer.url())}}}));
    let stored = home.run(["login", "groq"], "key-from-stdin-0123\n");
    assert_eq!(stored.code(), Some(0), "{stored:#?}");
    assert!(stored.stdout.contains("provider-keys.json"), "{stored:#?}");
    let output = ask(&home, "groq/m", &[]);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let sent = peer
        .requests()
        .into_iter()
        .find(|it| it.method == "POST")
        .unwrap();
    assert_eq!(
        sent.header("authorization"),
        Some("Bearer key-from-stdin-0123")
    );
    let status = home.run(["status"], "");
    assert_eq!(home.run(["login"], "").stdout, status.stdout);
    assert!(
        status
            .stdout
            .lines()
            .any(|line| line.starts_with("groq") && line.contains("lathe login")),
        "{status:#?}"
    );
    assert!(!status.stdout.contains("key-from-stdin"), "{status:#?}");
    assert_eq!(home.run(["logout", "groq"], "").code(), Some(0));
    assert_ne!(home.run(["logout", "groq"], "").code(), Some(0));
    let nobody = home.run(["login", "nobody"], "k\n");
    assert!(
        nobody.stderr.contains("there is no provider nobody"),
        "{nobody:#?}"
    );
}

#[test]
fn a_key_of_anthropic_that_was_stored_by_login_is_enough_for_a_plain_start() {
    let server = lathe_testkit::server([Reply::text("ok")]);
    let home = home(&json!({})).variable("ANTHROPIC_BASE_URL", server.base_url());
    let output = home.run(["login", "anthropic"], "sk-ant-of-the-test\n");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let output = home.run(["-p", "hello"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let requests = server.message_requests();
    assert_eq!(requests[0].header("x-api-key"), Some("sk-ant-of-the-test"));
    server.finish();
}

#[test]
fn an_editors_sign_in_asks_for_provider_and_key() {
    let home = home(&json!({}));
    let output = home.run(["acp", "--login"], "openai\nsk-of-openai-42\n");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert!(
        output.stderr.contains("Provider [anthropic]"),
        "{output:#?}"
    );
    let status = home.run(["status"], "");
    let openai = status
        .stdout
        .lines()
        .find(|line| line.starts_with("openai "));
    assert!(openai.unwrap().contains("lathe login"), "{status:#?}");
}

#[test]
fn models_update_fetches_a_table_and_its_rows_count() {
    let peer = Peer::start(|request, _| match request.path.as_str() {
        "/table.json" => PeerReply::json(&json!({"models": {
            "house/m": {"context_window": 54_321, "max_output": 1_000, "prices": {"input": 7, "output": 8}}}})),
        "/list.json" => PeerReply::json(
            &json!({"gpt-new": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 1_000}}),
        ),
        "/page" => PeerReply::new(200, "text/html", "<html></html>"),
        _ => PeerReply::not_found(),
    });
    let mut settings = at("http://127.0.0.1:9");
    settings["modelTableUrl"] = json!(format!("{}/table.json", peer.url()));
    settings["providers"]["house"]["models"] = json!(["m"]);
    let home = home(&settings);
    let output = home.run(["models", "update"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert!(output.stdout.contains("1 models"), "{output:#?}");
    let row = &listed(&home)[0];
    assert_eq!(
        (&row["contextWindow"], &row["price"]["input"]),
        (&json!(54_321), &json!(7.0))
    );
    assert!(
        row["table"]["source"]
            .as_str()
            .unwrap()
            .ends_with("/table.json"),
        "{row}"
    );
    // The user's own word still counts.
    settings["providers"]["house"]["models"] = json!({"m": {"contextWindow": 9_000}});
    set(&home, &settings);
    assert_eq!(listed(&home)[0]["contextWindow"], 9_000);
    // Another address, and another form; what is no table leaves the old one.
    for (path, code) in [("/list.json", 0), ("/page", 1), ("/nothing", 1)] {
        let output = home.run(["models", "update", &format!("{}{path}", peer.url())], "");
        assert_eq!(output.code(), Some(code), "{path}: {output:#?}");
    }
    set(&home, &json!({}));
    let nowhere = home.run(["models", "update"], "");
    assert!(nowhere.stderr.contains("modelTableUrl"), "{nowhere:#?}");
}
