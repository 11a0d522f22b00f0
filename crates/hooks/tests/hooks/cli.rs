//! `lathe hooks`.

use crate::{Bench, command, within};
use lathe_hooks::cli;
use lathe_protocol::hook::HookEvent;
use lathe_settings::cli::Format;
use serde_json::{Value, json};

#[tokio::test]
async fn hooks_are_listed_with_their_source_and_tried_without_a_session() {
    let bench = Bench::new(&json!({"hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [command("echo 'not here' >&2; exit 2")]}, {"matcher": "[", "hooks": [command("x")]}],
        "Stop": [{"hooks": [{"type": "prompt", "prompt": "done?"}]}]
    }}));
    let text = cli::list(&bench.registry, Format::Text);
    assert!(text.contains("PreToolUse — Before a tool call"), "{text}");
    assert!(
        text.contains("Bash         command   echo 'not here' >&2; exit 2  (user settings)"),
        "{text}"
    );
    assert!(
        text.contains("warning: settings.json: hooks.PreToolUse: the matcher \"[\""),
        "{text}"
    );
    let rows: Value = serde_json::from_str(&cli::list(&bench.registry, Format::Json)).unwrap();
    assert_eq!(rows[2]["kind"], "prompt");
    assert_eq!(rows[0]["timeout"], 60.0);

    let event = cli::event("PreToolUse").unwrap();
    let given = r#"{"tool_name": "Bash", "tool_input": {"command": "ls"}}"#;
    let input = cli::trial_input(event, given, &bench.path()).unwrap();
    let text = within(cli::test(
        &bench.registry,
        &input,
        &bench.context(),
        Format::Text,
    ))
    .await;
    assert!(
        text.starts_with("PreToolUse for Bash: 1 of 3 hooks ran"),
        "{text}"
    );
    assert!(
        text.contains("exit code 2") && text.contains("stderr: not here"),
        "{text}"
    );
    assert!(text.contains("decides deny: not here"), "{text}");
    let outcome: Value = serde_json::from_str(
        &within(cli::test(
            &bench.registry,
            &input,
            &bench.context(),
            Format::Json,
        ))
        .await,
    )
    .unwrap();
    assert_eq!(outcome["permission"]["decision"], "deny");

    let input = cli::trial_input(event, r#"{"tool_name": "Read"}"#, &bench.path()).unwrap();
    let text = within(cli::test(
        &bench.registry,
        &input,
        &bench.context(),
        Format::Text,
    ))
    .await;
    assert!(
        text.contains("0 of 3 hooks ran") && text.contains("nothing: the hooks have no objection"),
        "{text}"
    );
}

#[test]
fn bad_words_and_bad_input_are_named() {
    assert!(
        cli::event("preToolUse")
            .unwrap_err()
            .to_string()
            .contains("did you mean PreToolUse?")
    );
    let error = |text: &str| {
        cli::trial_input(HookEvent::Stop, text, "/w".as_ref())
            .unwrap_err()
            .to_string()
    };
    assert!(error("{").contains("is not JSON"));
    assert!(error("[1]").contains("is not an object"));
    assert!(error(r#"{"session_id": 5}"#).contains("doesn't fit"));
    assert!(cli::trial_input(HookEvent::Stop, "", "/w".as_ref()).is_ok());
    for event in HookEvent::ALL {
        assert!(cli::events().contains(event.name()));
    }
}
