//! Settings and flags.

use super::{chatty, run_in, run_with};
use lathe_scripted::Reply;
use lathe_testkit::{StreamJson, TestHome};
use serde_json::{Value, json};

/// Whether a run with settings makes the folder that the model wants.
fn makes(settings: &Value, flags: &[&str]) -> bool {
    let call = Reply::tool_use("Bash", json!({"command": "mkdir made"}));
    let run = run_with(&[], settings, vec![call, Reply::text("done")], flags);
    run.home.project().join("made").exists()
}

#[test]
fn rules_of_settings_allow_ask_and_deny() {
    let rules = |allow: &[&str], ask: &[&str], deny: &[&str]| json!({"permissions": {"allow": allow, "ask": ask, "deny": deny}});
    assert!(!makes(&rules(&[], &[], &[]), &[]));
    assert!(makes(&rules(&["Bash(mkdir:*)"], &[], &[]), &[]));
    assert!(!makes(&rules(&["Bash"], &["Bash(mkdir:*)"], &[]), &[]));
    assert!(!makes(&rules(&["Bash"], &[], &["Bash(mkdir:*)"]), &[]));
    let denied = rules(&[], &[], &["Bash(mkdir:*)"]);
    assert!(!makes(&denied, &["--allowedTools", "Bash"]));
}

#[test]
fn a_session_starts_in_the_mode_that_settings_name() {
    let mode = |settings: Value| {
        let flags = ["--output-format", "stream-json", "--verbose"];
        let run = run_with(&[], &settings, vec![Reply::text("fine")], &flags);
        let frames = run.output.frames();
        let init = frames
            .iter()
            .find(|frame| frame["subtype"] == "init")
            .unwrap();
        init["permissionMode"].as_str().unwrap().to_owned()
    };
    assert_eq!(mode(json!({})), "default");
    for name in ["acceptEdits", "plan", "dontAsk"] {
        let settings = json!({"permissions": {"defaultMode": name}});
        assert_eq!(mode(settings), name);
    }
}

#[test]
fn prices_of_settings_are_what_a_session_costs() {
    let cost = |settings: Value| {
        let reply = Reply::text("fine")
            .usage("input_tokens", 1_000)
            .usage("output_tokens", 100)
            .usage("cache_read_input_tokens", 10_000)
            .usage("cache_creation_input_tokens", 2_000);
        let flags = ["--output-format", "json", "--model", "house"];
        let run = run_with(&[], &settings, vec![reply], &flags);
        run.output.result()["total_cost_usd"].as_f64().unwrap()
    };
    let prices = json!({"input": 10.0, "output": 100.0, "cacheRead": 3.0, "cacheWrite": 5.0});
    let expected = (1_000.0 * 10.0 + 100.0 * 100.0 + 10_000.0 * 3.0 + 2_000.0 * 5.0) / 1e6;
    for settings in [
        json!({"prices": {"house": prices}}),
        json!({"modelPricing": {"overrides": {"house": prices}}}),
    ] {
        let cost = cost(settings.clone());
        assert!((cost - expected).abs() < 1e-9, "{settings}: {cost}");
    }
}

#[test]
fn the_effort_of_settings_reaches_the_request_under_either_name() {
    for key in ["effort", "effortLevel"] {
        let run = run_with(&[], &json!({key: "low"}), vec![Reply::text("fine")], &[]);
        assert_eq!(run.body()["output_config"]["effort"], "low", "{key}");
    }
}

#[test]
fn a_session_works_in_the_folder_that_the_flag_names() {
    let home = TestHome::new();
    home.write("inner/AGENTS.md", "Words of the inner folder.\n");
    let run = run_in(home, vec![Reply::text("fine")], &["--cwd", "inner"]);
    assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
    assert!(run.told().contains("Words of the inner folder."));
    let folder = run.home.project().join("inner").display().to_string();
    assert!(run.told().contains(&folder));
}

#[test]
fn permissions_are_bypassed_only_where_the_flags_say_so() {
    let made = |flags: &[&str]| {
        let home = TestHome::new().variable("IS_SANDBOX", "1");
        let call = Reply::tool_use("Bash", json!({"command": "mkdir made"}));
        let run = run_in(home, vec![call, Reply::text("done")], flags);
        run.home.project().join("made").exists()
    };
    assert!(!made(&[]));
    assert!(made(&["--dangerously-skip-permissions"]));
    assert!(!made(&["--allow-dangerously-skip-permissions"]));
    let server = chatty();
    let entered = |flags: &[&str]| {
        let home = TestHome::with_server(&server).variable("IS_SANDBOX", "1");
        let mut session = StreamJson::start(&home, flags);
        session.control(&json!({"subtype": "initialize"}));
        let asked = json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"});
        let answer = session.control(&asked);
        let _ = session.close();
        answer["response"]["subtype"] == "success"
    };
    assert!(!entered(&[]));
    assert!(entered(&["--allow-dangerously-skip-permissions"]));
}

#[test]
fn files_that_git_ignores_are_suggested_where_settings_say_so() {
    let server = chatty();
    let found = |settings: Value| {
        let home = TestHome::with_server(&server);
        home.write(".gitignore", "*.secretly\n");
        home.write("clock.secretly", "x");
        home.git_init();
        let settings = settings.to_string();
        let mut session = StreamJson::start(&home, ["--settings", &settings]);
        session.control(&json!({"subtype": "initialize"}));
        let asked = json!({"subtype": "file_suggestions", "query": "clock"});
        let answer = session.control(&asked).to_string();
        let _ = session.close();
        answer.contains("clock.secretly")
    };
    assert!(!found(json!({})));
    assert!(found(json!({"respectGitignore": false})));
}
