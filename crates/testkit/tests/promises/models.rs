//! Which model is asked, how it thinks, and who takes over.

use super::{chatty, run_in, run_with};
use lathe_scripted::{Ending, Position, Reply};
use lathe_testkit::{StreamJson, TestHome};
use serde_json::{Value, json};

const OPUS: &str = "claude-opus-5-5";
const SONNET: &str = "claude-sonnet-4-5";
const HAIKU: &str = "claude-haiku-4-5";

fn thinking(settings: &Value, arguments: &[&str]) -> Value {
    let run = run_with(&[], settings, vec![Reply::text("fine")], arguments);
    run.body()["thinking"].clone()
}

#[test]
fn settings_switch_thinking_on_and_off() {
    let on_sonnet = |settings: Value| thinking(&settings, &["--model", SONNET]);
    for off in [
        json!({"thinking": false}),
        json!({"thinking": "disabled"}),
        json!({"alwaysThinkingEnabled": false}),
    ] {
        let kind = on_sonnet(off.clone())["type"].clone();
        assert!(kind.is_null() || kind == "disabled", "{off}: {kind}");
    }
    for on in [
        json!({"thinking": true}),
        json!({"thinking": "adaptive"}),
        json!({"alwaysThinkingEnabled": true}),
    ] {
        assert_eq!(on_sonnet(on.clone())["type"], "enabled", "{on}");
    }
    // The flag is stronger.
    let off = json!({"thinking": false});
    let flagged = thinking(&off, &["--model", SONNET, "--max-thinking-tokens", "3000"]);
    assert_eq!(flagged["budget_tokens"], 3000);
}

#[test]
fn how_much_of_the_thinking_is_shown_is_a_flag_of_its_own() {
    let none = json!({});
    let usual = thinking(&none, &["--model", OPUS]);
    assert_eq!(usual["display"], "summarized", "{usual}");
    for flags in [
        &["--thinking-display", "omitted"][..],
        &["--thinking-display", "omitted", "--thinking", "adaptive"],
    ] {
        let shown = thinking(&none, &[&["--model", OPUS], flags].concat());
        assert_eq!(shown["display"], "omitted", "{flags:?}");
        assert_eq!(shown["type"], "adaptive", "{flags:?}");
    }
    let hidden = json!({"showThinkingSummaries": false});
    let shown = thinking(
        &hidden,
        &["--model", OPUS, "--thinking-display", "summarized"],
    );
    assert_eq!(shown["display"], "summarized");
}

/// The models that were asked, in order, and the answer.
fn asked(fallbacks: &Value, flags: &[&str], replies: Vec<Reply>) -> (Vec<String>, String) {
    let variables = [("LATHE_RETRY_BASE_MS", "1")];
    let flags = [&["--model", OPUS], flags].concat();
    let run = run_with(&variables, fallbacks, replies, &flags);
    let models = run
        .requests
        .iter()
        .map(|request| request.model().to_owned());
    (models.collect(), run.output.stdout.trim().to_owned())
}

#[test]
fn fallback_models_take_over_in_order_also_after_server_errors_and_broken_streams() {
    let overloaded = || Reply::error(529).times(3);
    let broken = || Reply::error(500).times(3);
    let list = json!({"fallbackModel": [SONNET, HAIKU]});
    let flag = format!("{SONNET},{HAIKU}");
    for (settings, flags) in [
        (list.clone(), vec![]),
        (json!({}), vec!["--fallback-model", flag.as_str()]),
    ] {
        let replies = vec![overloaded(), broken(), Reply::text("from the third")];
        let (models, answer) = asked(&settings, &flags, replies);
        assert_eq!(answer, "from the third");
        let expected = [[OPUS; 3], [SONNET; 3]].concat();
        assert_eq!(models[..6], expected[..], "{settings} {flags:?}");
        assert_eq!(models[6..], [HAIKU]);
    }
    let cut = || Reply::text("half of it").cut(Position::MidBlock(0), Ending::Drop);
    let replies = vec![cut().times(4), Reply::text("whole")];
    let (models, answer) = asked(&json!({"fallbackModel": SONNET}), &[], replies);
    assert_eq!(answer, "whole");
    assert_eq!(models.last().unwrap(), SONNET);
    assert_eq!(models.len(), 5);
}

#[test]
fn the_model_of_the_environment_overrides_settings_and_a_flag_overrides_both() {
    let model = |variables: &[(&str, &str)], settings: Value, flags: &[&str]| {
        let run = run_with(variables, &settings, vec![Reply::text("fine")], flags);
        run.requests[0].model().to_owned()
    };
    let of_settings = || json!({"model": HAIKU});
    let of_environment = [("ANTHROPIC_MODEL", SONNET)];
    assert_eq!(model(&[], of_settings(), &[]), HAIKU);
    assert_eq!(model(&of_environment, of_settings(), &[]), SONNET);
    let flag = ["--model", OPUS];
    assert_eq!(model(&of_environment, of_settings(), &flag), OPUS);
    let both = [("LATHE_MODEL", HAIKU), ("ANTHROPIC_MODEL", SONNET)];
    assert_eq!(model(&both, json!({}), &[]), HAIKU);
    // The weakest: only where nothing else names a model.
    let default = [("ANTHROPIC_DEFAULT_MODEL", SONNET)];
    assert_eq!(model(&default, json!({}), &[]), SONNET);
    assert_eq!(model(&default, of_settings(), &[]), HAIKU);
    assert_eq!(
        model(&default, of_settings(), &["--model", "default"]),
        SONNET
    );
}

#[test]
fn the_small_model_is_chosen_by_variable_and_setting() {
    let small = |variables: &[(&str, &str)], settings: Value| {
        let titles = [("LATHE_SESSION_TITLES", "1")];
        let run = run_with(
            &[&titles[..], variables].concat(),
            &settings,
            vec![Reply::text("fine"), Reply::text("A title").optional()],
            &["--model", OPUS],
        );
        let side = run.requests.iter().find(|request| request.model() != OPUS);
        side.map(|request| request.model().to_owned())
    };
    let title_by = |model: &str| Some(model.to_owned());
    for key in ["smallModel", "smallFastModel"] {
        assert_eq!(small(&[], json!({key: SONNET})), title_by(SONNET), "{key}");
    }
    for name in ["LATHE_SMALL_MODEL", "ANTHROPIC_SMALL_FAST_MODEL"] {
        let settings = json!({"smallModel": HAIKU});
        let chosen = small(&[(name, SONNET)], settings);
        assert_eq!(chosen, title_by(SONNET), "{name}");
    }
    let off = [("LATHE_SESSION_TITLES", "0"), ("LATHE_SMALL_MODEL", HAIKU)];
    assert_eq!(small(&off, json!({})), None, "no title is asked for");
}

#[test]
fn plan_mode_can_have_a_model_of_its_own() {
    let model = |settings: Value, flags: &[&str]| {
        let run = run_with(&[], &settings, vec![Reply::text("fine")], flags);
        run.requests[0].model().to_owned()
    };
    let plan = ["--permission-mode", "plan"];
    let planner = || json!({"model": SONNET, "planModel": OPUS});
    assert_eq!(model(planner(), &plan), OPUS);
    assert_eq!(model(planner(), &[]), SONNET);
    let named = || json!({"model": "opusplan"});
    assert_eq!(model(named(), &plan), OPUS);
    assert_eq!(model(named(), &[]), "claude-sonnet-5-5");
    let flags = ["--model", "opusplan", "--permission-mode", "plan"];
    assert_eq!(model(json!({}), &flags), OPUS);
}

#[test]
fn a_system_prompt_of_the_caller_replaces_ours_and_nothing_else() {
    let home = TestHome::new();
    home.write("AGENTS.md", "Words of the project.\n");
    let flags = ["--system-prompt", "Only this."];
    let run = run_in(home, vec![Reply::text("fine")], &flags);
    assert_eq!(run.requests[0].system_text(), "Only this.");
    let told = run.body()["messages"].to_string();
    assert!(told.contains("Words of the project."), "{told}");
    assert!(told.contains("Today: "), "{told}");
    assert!(!told.contains("You are Lathe"), "{told}");
}

#[test]
fn tools_are_searched_for_unless_the_environment_says_so() {
    let tools: Vec<Value> = (0..60)
        .map(|index| {
            json!({"name": format!("tool{index}"), "description": "words ".repeat(400),
                "inputSchema": {"type": "object"}})
        })
        .collect();
    let script = "import sys, json
tools = json.load(open('tools.json'))
for line in sys.stdin:
    request = json.loads(line)
    if 'id' not in request:
        continue
    answers = {
        'initialize': {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}},
                       'serverInfo': {'name': 'many', 'version': '1'}},
        'tools/list': {'tools': tools},
    }
    answer = {'jsonrpc': '2.0', 'id': request['id'], 'result': answers.get(request['method'], {})}
    print(json.dumps(answer), flush=True)
";
    let names = |value: &str| {
        let home = TestHome::new().variable("ENABLE_TOOL_SEARCH", value);
        home.write("tools.json", Value::from(tools.clone()).to_string());
        home.write("server.py", script);
        let servers =
            json!({"mcpServers": {"many": {"command": "python3", "args": ["server.py"]}}});
        let servers = servers.to_string();
        let server = chatty();
        let home = home.server(&server);
        let mut session = StreamJson::start(&home, ["--mcp-config", &servers, "--model", HAIKU]);
        session.control(&json!({"subtype": "initialize"}));
        let asked = json!({"subtype": "mcp_status"});
        while !session
            .control(&asked)
            .to_string()
            .contains("\"connected\"")
        {}
        session.prompt("go");
        session.wait_for_result();
        let _ = session.close();
        let request = server.message_requests()[0].clone();
        let names = request.tool_names();
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let is_search = |names: &[String]| names.iter().any(|name| name == "ToolSearch");
    let searched = names("1");
    assert!(is_search(&searched) && searched.len() < 60, "{searched:?}");
    for off in ["0", "false"] {
        let all = names(off);
        assert!(!is_search(&all) && all.len() > 60, "{off}: {all:?}");
    }
}

#[test]
fn a_model_is_asked_for_under_the_name_that_settings_give_it() {
    for settings in [
        json!({"modelOverrides": {OPUS: "arn:opus"}}),
        json!({"models": {OPUS: {"name": "arn:opus"}}}),
    ] {
        let flags = ["--model", "opus", "--output-format", "json"];
        let run = run_with(&[], &settings, vec![Reply::text("fine")], &flags);
        assert_eq!(run.body()["model"], "arn:opus");
        // The rest of the program knows it by its own name, and with that its price.
        let result: Value = serde_json::from_str(&run.output.stdout).unwrap();
        assert!(
            result["modelUsage"][OPUS]["costUSD"].as_f64().unwrap() > 0.0,
            "{result}"
        );
    }
}

#[test]
fn a_model_that_settings_say_does_not_think_is_not_asked_to() {
    let facts = json!({"models": {OPUS: {"thinking": false}}});
    assert_eq!(thinking(&facts, &["--model", "opus"]), Value::Null);
    assert_ne!(thinking(&json!({}), &["--model", "opus"]), Value::Null);
}

#[test]
fn facts_about_a_model_count_where_its_provider_is_not_named() {
    let asked = |facts: Value| {
        let settings = json!({"models": {OPUS: facts}});
        let arguments = ["--model", OPUS, "--output-format", "json"];
        run_with(&[], &settings, vec![Reply::text("fine")], &arguments)
    };
    let usual = asked(json!({}));
    assert!(usual.body().to_string().contains("cache_control"));
    let unmarked = asked(json!({"cache": false}));
    assert!(!unmarked.body().to_string().contains("cache_control"));
    let serial = asked(json!({"parallelTools": false}));
    assert_eq!(
        serial.body()["tool_choice"]["disable_parallel_tool_use"],
        true
    );
    let in_words = asked(json!({"tools": false}));
    assert!(in_words.body().get("tools").is_none());
    let cost = |run: &super::Run| run.output.result()["total_cost_usd"].as_f64().unwrap();
    let price = json!({"input": 1000, "output": 1000, "cacheRead": 1000, "cacheWrite": 1000});
    let dear = asked(json!({"price": price}));
    assert!(cost(&dear) > 10.0 * cost(&usual), "{}", cost(&dear));
}
