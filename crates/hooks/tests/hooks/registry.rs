//! Sources that come and go, switches, and what can't be widened.

use crate::{Bench, bash, command, input, within};
use futures::FutureExt as _;
use lathe_hooks::{HookDecision, HookSource};
use lathe_protocol::hook::HookEvent;
use lathe_settings::Source;
use lathe_settings::schema::HookGroup;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn groups(event: &str, hook: &Value) -> BTreeMap<String, Vec<HookGroup>> {
    serde_json::from_value(json!({event: [{"hooks": [hook]}]})).unwrap()
}

#[tokio::test]
async fn sources_add_up_and_can_be_taken_away() {
    let bench = Bench::with("PreToolUse", &json!([command("exit 0")]));
    let plugin = groups(
        "PreToolUse",
        &command("echo \"$CLAUDE_PLUGIN_ROOT\" >&2; exit 2"),
    );
    let source = HookSource::Plugin("guard".into());
    let (handle, problems) = bench
        .registry
        .add(&source, Some("/plugins/guard".as_ref()), &plugin);
    assert_eq!(problems, []);
    let outcome = bench.run("PreToolUse", bash("ls")).await;
    assert_eq!(outcome.runs.len(), 2);
    assert_eq!(
        outcome.permission.unwrap().reason.as_deref(),
        Some("/plugins/guard")
    );
    assert_eq!(outcome.runs[1].source, "plugin guard");
    bench.registry.remove(handle);
    assert_eq!(bench.run("PreToolUse", bash("ls")).await.runs.len(), 1);
    bench
        .registry
        .set_settings(&bench.resolve(&json!({}), Source::User));
    assert!(!bench.registry.matches(HookEvent::PreToolUse, Some("Bash")));
}

#[tokio::test]
async fn asking_whether_something_matches_runs_nothing() {
    let bench = Bench::new(
        &json!({"hooks": {"PreToolUse": [{"matcher": "Edit", "hooks": [command("touch ran")]}]}}),
    );
    assert!(bench.registry.matches(HookEvent::PreToolUse, Some("Edit")));
    assert!(!bench.registry.matches(HookEvent::PreToolUse, Some("Bash")));
    assert!(!bench.registry.matches(HookEvent::Stop, None));
    assert!(bench.run("PreToolUse", bash("ls")).await.runs.is_empty());
    assert!(!bench.path().join("ran").exists());
    // It doesn't even wait: the first look at the future has the answer.
    let (given, context) = (input("PreToolUse", bash("ls")), bench.context());
    assert!(
        bench
            .registry
            .run(&given, &context)
            .now_or_never()
            .is_some()
    );
}

#[tokio::test]
async fn policy_decides_whose_hooks_run() {
    let user = json!({"hooks": {"PreToolUse": [{"hooks": [command("echo user >&2; exit 2")]}]}});
    let managed_hook = json!({"PreToolUse": [{"hooks": [command("echo managed >&2; exit 2")]}]});
    let reasons = async |settings_user: Value, managed: Value| {
        let bench = Bench::new(&json!({}));
        let mut resolved = bench.resolve(&settings_user, Source::User);
        resolved
            .layers
            .extend(bench.resolve(&managed, Source::Managed).layers);
        bench.registry.set_settings(&resolved);
        let plugin = groups("PreToolUse", &command("echo plugin >&2; exit 2"));
        let _ = bench
            .registry
            .add(&HookSource::Plugin("p".into()), None, &plugin);
        bench
            .run("PreToolUse", bash("ls"))
            .await
            .permission
            .map(|voice| voice.reason.unwrap())
    };
    let all = reasons(user.clone(), json!({"hooks": managed_hook})).await;
    assert_eq!(all.as_deref(), Some("user\nmanaged\nplugin"));
    let only = reasons(
        user.clone(),
        json!({"hooks": managed_hook, "allowManagedHooksOnly": true}),
    )
    .await;
    assert_eq!(only.as_deref(), Some("managed"));
    let mut off = user.clone();
    off["disableAllHooks"] = json!(true);
    let person = reasons(off, json!({"hooks": managed_hook})).await;
    assert_eq!(
        person.as_deref(),
        Some("managed"),
        "a person can't switch policy off"
    );
    let none = reasons(
        user,
        json!({"hooks": managed_hook, "disableAllHooks": true}),
    )
    .await;
    assert_eq!(none, None);
}

#[tokio::test]
async fn hooks_of_an_untrusted_folder_never_run() {
    let bench = Bench::new(&json!({}));
    let folder = bench.path();
    std::fs::create_dir_all(folder.join("p/.claude")).unwrap();
    let settings = json!({"hooks": {"SessionStart": [{"hooks": [command("touch ../ran")]}]}});
    std::fs::write(folder.join("p/.claude/settings.json"), settings.to_string()).unwrap();
    let environment = lathe_settings::Environment {
        cwd: folder.join("p"),
        home: Some(folder.clone()),
        ..Default::default()
    };
    let places = lathe_settings::Places::with_managed(environment, folder.join("managed"));
    for (trust, runs) in [
        (lathe_settings::Trust::Untrusted, 0),
        (lathe_settings::Trust::Trusted, 1),
    ] {
        let options = lathe_settings::LoadOptions {
            trust,
            ..Default::default()
        };
        bench
            .registry
            .set_settings(&lathe_settings::load(&places, &options));
        let context = lathe_hooks::RunContext::new(folder.join("p"), folder.join("p"));
        let outcome = within(bench.registry.run(
            &input("SessionStart", json!({"source": "startup"})),
            &context,
        ))
        .await;
        assert_eq!(outcome.runs.len(), runs);
        assert_eq!(folder.join("ran").exists(), runs == 1);
    }
}

#[tokio::test]
async fn a_hook_that_runs_once_runs_once_a_session() {
    let bench = Bench::with(
        "Stop",
        &json!([{"type": "command", "command": "true", "once": true}]),
    );
    assert_eq!(bench.run("Stop", json!({})).await.runs.len(), 1);
    assert_eq!(bench.run("Stop", json!({})).await.runs.len(), 0);
}

#[tokio::test]
async fn conditions_are_judged_by_whoever_runs_the_hooks() {
    let bench = Bench::with(
        "PreToolUse",
        &json!([{"type": "command", "command": "exit 2", "if": "Bash(git push *)"}]),
    );
    use lathe_hooks::run::ConditionMatch;
    for (answer, runs) in [
        (ConditionMatch::Whole, 1),
        (ConditionMatch::Part, 1),
        (ConditionMatch::None, 0),
    ] {
        let mut context = bench.context();
        context.condition = Some(std::sync::Arc::new(move |rule| {
            assert_eq!(rule, "Bash(git push *)");
            answer
        }));
        let outcome = within(
            bench
                .registry
                .run(&input("PreToolUse", bash("anything")), &context),
        )
        .await;
        assert_eq!(outcome.runs.len(), runs);
    }
}

#[tokio::test]
async fn a_hook_whose_condition_describes_a_part_of_the_call_can_only_object() {
    use lathe_hooks::run::ConditionMatch;
    let allow = "echo '{\"hookSpecificOutput\": {\"hookEventName\": \"PreToolUse\", \"permissionDecision\": \"allow\"}}'";
    let bench = Bench::with(
        "PreToolUse",
        &json!([{"type": "command", "command": allow, "if": "Bash(npm test:*)"}]),
    );
    for (answer, approved) in [(ConditionMatch::Whole, true), (ConditionMatch::Part, false)] {
        let mut context = bench.context();
        context.condition = Some(std::sync::Arc::new(move |_| answer));
        let input = input("PreToolUse", bash("npm test; rm -rf x"));
        let outcome = within(bench.registry.run(&input, &context)).await;
        assert_eq!(outcome.runs.len(), 1);
        assert_eq!(outcome.permission.is_some(), approved, "{answer:?}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_hooks_is_said_with_its_place() {
    let bench = Bench::new(&json!({"hooks": {"PreToolUse": [
        {"matcher": "Bash(", "hooks": [command("x")]},
        {"hooks": [{"type": "http"}, {"type": "prompt", "prompt": " "}, {"type": "mcp_tool", "server": "s"}]}
    ]}}));
    let problems = bench.registry.problems();
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 4, "{problems:?}");
    assert!(
        problems[0].starts_with("settings.json: hooks.PreToolUse: the matcher \"Bash(\""),
        "{problems:?}"
    );
    assert!(
        problems[1].contains("a http hook needs \"url\""),
        "{problems:?}"
    );
    assert!(
        problems[3].contains("a mcp_tool hook needs \"tool\""),
        "{problems:?}"
    );
}

/// Whatever hooks of an event say, they can at most stay silent about a denial: no outcome turns a
/// refusal of one hook into a permission because another one allows.
#[tokio::test]
async fn at_every_event_an_objection_survives_any_number_of_approvals() {
    let approve = r#"printf '%s' '{"decision": "approve", "hookSpecificOutput": {"permissionDecision": "allow", "decision": {"behavior": "allow"}}}'"#;
    for event in HookEvent::ALL {
        let approvals = (0..3).map(|number| command(&format!("{approve} # {number}")));
        let objection = [command("echo no >&2; exit 2")];
        let hooks: Vec<Value> = approvals
            .clone()
            .take(2)
            .chain(objection)
            .chain(approvals.skip(2))
            .collect();
        let bench = Bench::with(event.name(), &Value::Array(hooks));
        let outcome = bench.run(event.name(), bash("ls")).await;
        assert_eq!(outcome.runs.len(), 4, "{event}");
        match event {
            HookEvent::PreToolUse => {
                assert_eq!(outcome.permission.unwrap().decision, HookDecision::Deny);
            }
            HookEvent::PermissionRequest => assert!(
                matches!(
                    outcome.permission_reply,
                    Some(lathe_protocol::permission::PermissionReply::Deny { .. })
                ),
                "{outcome:?}"
            ),
            event if lathe_hooks::answer::can_block(*event) => {
                assert_eq!(outcome.block.as_deref(), Some("no"), "{event}");
            }
            event => assert_eq!(outcome.system_messages, ["no"], "{event}"),
        }
        if !matches!(event, HookEvent::PreToolUse | HookEvent::PreModelSwitch) {
            let silent = bench.run(event.name(), bash("ls")).await;
            assert_eq!(silent.permission, None, "only these hooks decide ({event})");
        }
    }
}
