//! Small windows and small models.

use crate::peers::{answers, asked, calls, home, house, result, says, set};
use lathe_testkit::{Peer, TestHome};
use serde_json::{Value, json};

fn with_window(peer: &Peer, model: &str, window: u64) -> TestHome {
    let mut settings = house("openai-chat", &format!("{}/v1", peer.url()));
    settings["providers"]["house"]["models"] = json!({model: {"contextWindow": window}});
    home(&settings)
}

fn names(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().unwrap();
    let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
    tools.iter().map(name).collect()
}

/// The part of a request before the user's words, by the estimate that the tokenizers in the tests of `model`
/// hold.
fn floor(body: &Value) -> u64 {
    let system = body["messages"][0].to_string();
    lathe_model::estimate::text(&system) + lathe_model::estimate::text(&body["tools"].to_string())
}

#[test]
fn a_window_of_8k_or_16k_gets_the_lean_set_and_a_larger_one_everything() {
    for window in [8_192, 16_384] {
        let peer = answers(vec![says("ok")]);
        result(&with_window(&peer, "m", window), "house/m", &[]);
        let body = asked(&peer)[0].clone();
        let tokens = floor(&body);
        assert!(tokens <= 3_000, "{window}: {tokens} tokens");
        assert!(
            tokens <= 2_048,
            "{window}: {tokens} tokens are more than a quarter of the smallest window"
        );
        assert_eq!(
            names(&body),
            [
                "Bash",
                "Edit",
                "Glob",
                "Grep",
                "Read",
                "Write",
                "ToolSearch"
            ]
        );
    }
    let peer = answers(vec![says("ok")]);
    result(&with_window(&peer, "m", 32_768), "house/m", &[]);
    let body = asked(&peer)[0].clone();
    assert!(names(&body).len() > 10, "{:?}", names(&body));
    assert!(floor(&body) > 3_000);
}

#[test]
fn the_lean_set_is_told_in_the_report_of_the_window() {
    let peer = answers(vec![says("ok")]);
    for (window, told) in [(8_192, true), (200_000, false)] {
        let home = with_window(&peer, "m", window);
        let mut settings = house("openai-chat", &format!("{}/v1", peer.url()));
        settings["providers"]["house"]["models"] = json!({"m": {"contextWindow": window}});
        settings["model"] = json!("house/m");
        set(&home, &settings);
        let output = home.run(["context"], "");
        assert_eq!(output.stdout.contains("lean set"), told, "{output:#?}");
        let output = home.run(["context", "--json"], "");
        let value: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(value["lean"], told);
        assert_eq!(value["window"], window);
    }
}

#[test]
fn tools_that_are_not_in_the_lean_set_are_loaded_when_they_are_wanted() {
    let peer = answers(vec![
        calls("ToolSearch", &json!({"query": "select:TodoWrite"})),
        says("ok"),
    ]);
    result(&with_window(&peer, "m", 8_192), "house/m", &[]);
    let bodies = asked(&peer);
    let told = bodies[0]["messages"].to_string();
    assert!(
        told.contains("TodoWrite"),
        "the names of the others are told: {told}"
    );
    assert!(
        names(&bodies[1]).contains(&"TodoWrite".to_owned()),
        "{:?}",
        names(&bodies[1])
    );
    // The list of tools grew at its end or in its order, and nothing else changed.
    assert_eq!(bodies[0]["messages"][0], bodies[1]["messages"][0]);
}

#[test]
fn a_tool_that_was_not_loaded_can_be_called_all_the_same() {
    let todos = json!({"todos": [{"content": "a", "status": "pending", "activeForm": "doing a"}]});
    let peer = answers(vec![calls("TodoWrite", &todos), says("ok")]);
    let result = result(&with_window(&peer, "m", 8_192), "house/m", &[]);
    assert_eq!(result["result"], "ok");
    let told = crate::peers::results(&asked(&peer)[1]).join("");
    assert!(
        !told.contains("no such tool") && !told.contains("No such tool"),
        "{told}"
    );
}

#[test]
fn a_chosen_list_of_tools_is_sent_whole() {
    let peer = answers(vec![says("ok")]);
    result(
        &with_window(&peer, "m", 8_192),
        "house/m",
        &["--tools", "Read,TodoWrite"],
    );
    assert_eq!(names(&asked(&peer)[0]), ["Read", "TodoWrite"]);
}

#[test]
fn a_small_model_is_told_at_the_first_repetition_and_stopped_soon() {
    let peer = answers(vec![calls("Bash", &json!({"command": "echo hi"}))]);
    let home = with_window(&peer, "qwen3:8b", 131_072);
    let output = crate::peers::ask(&home, "house/qwen3:8b", &["--allowedTools", "Bash(echo:*)"]);
    assert!(output.stdout.contains("the same result"), "{output:#?}");
    let bodies = asked(&peer);
    assert_eq!(bodies.len(), 4);
    let told = |body: &Value| body["messages"].to_string().contains("It won't change");
    assert_eq!(
        bodies.iter().map(told).collect::<Vec<_>>(),
        [false, false, true, true]
    );
    // A large one is given more time.
    let peer = answers(vec![calls("Bash", &json!({"command": "echo hi"}))]);
    let home = with_window(&peer, "large-70b", 131_072);
    let _ = crate::peers::ask(
        &home,
        "house/large-70b",
        &["--allowedTools", "Bash(echo:*)"],
    );
    assert_eq!(asked(&peer).len(), 10);
}

#[test]
fn a_refusal_says_that_the_option_is_no_command() {
    let peer = answers(vec![
        calls("Bash", &json!({"command": "npm run build"})),
        says("ok"),
    ]);
    result(&with_window(&peer, "m", 8_192), "house/m", &[]);
    let told = crate::peers::results(&asked(&peer)[1]).join("");
    assert!(
        told.contains("only the user who starts Lathe can allow it"),
        "{told}"
    );
    assert!(told.contains("not a command"), "{told}");
    assert!(told.contains("Don't call it again"), "{told}");
}

#[test]
fn a_model_with_another_window_gets_what_fits_it() {
    let peer = answers(vec![says("ok")]);
    let mut settings = house("openai-chat", &format!("{}/v1", peer.url()));
    settings["providers"]["house"]["models"] =
        json!({"big": {"contextWindow": 200_000}, "small": {"contextWindow": 8_192}});
    let home = home(&settings);
    result(&home, "house/big", &[]);
    result(&home, "house/small", &["-c"]);
    result(&home, "house/big", &["-c"]);
    let counts: Vec<usize> = asked(&peer).iter().map(|body| names(body).len()).collect();
    assert!(
        counts[0] > 10 && counts[1] == 7 && counts[2] == counts[0],
        "{counts:?}"
    );
}
