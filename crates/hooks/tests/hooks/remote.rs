//! Hooks that are not commands: addresses, models, MCP tools, functions of the SDK host.

use crate::{Bench, bash, input, within};
use futures::future::BoxFuture;
use lathe_hooks::{
    CallbackHost, HookDecision, HookModel, HookQuestion, HookTools, HookVerdict, RunOutcome,
    ServiceError,
};
use lathe_protocol::frame::HostError;
use lathe_protocol::hook::OnFailure;
use lathe_protocol::hook::{HookEvent, HookInput, HookOutput};
use lathe_settings::Source;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Serves one answer and gives back what was asked.
async fn serve(
    status: &'static str,
    body: &'static str,
) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/hook", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let count = stream.read(&mut buffer).await.unwrap();
            request.extend_from_slice(&buffer[..count]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, received)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length: usize = head
                .lines()
                .find_map(|line| {
                    line.to_lowercase()
                        .strip_prefix("content-length: ")
                        .map(|n| n.parse().unwrap())
                })
                .unwrap();
            if received.len() >= length || count == 0 {
                break;
            }
        }
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\nlocation: http://127.0.0.1:1/\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    });
    (address, served)
}

#[tokio::test]
async fn an_address_gets_the_input_and_its_answer_counts() {
    let (url, served) = serve(
        "200 OK",
        r#"{"decision": "block", "reason": "policy server says no"}"#,
    )
    .await;
    let bench = Bench::new(&json!({
        "env": {"TOKEN": "abc", "SECRET": "xyz"},
        "hooks": {"PreToolUse": [{"hooks": [{"type": "http", "url": url, "headers": {"authorization": "Bearer $TOKEN", "x-other": "<${SECRET}>"}, "allowedEnvVars": ["TOKEN"]}]}]}
    }));
    let outcome = bench.run("PreToolUse", bash("ls")).await;
    assert_eq!(
        outcome.permission.unwrap().reason.as_deref(),
        Some("policy server says no")
    );
    let request = within(served).await.unwrap();
    assert!(request.starts_with("POST /hook HTTP/1.1"), "{request}");
    assert!(
        request.contains("authorization: Bearer abc") && request.contains("x-other: <>"),
        "{request}"
    );
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["tool_input"]["command"], "ls");
    assert_eq!(body["hook_event_name"], "PreToolUse");
}

#[tokio::test]
async fn an_address_that_fails_redirects_or_is_not_there_only_warns() {
    for (status, says) in [
        ("500 Internal Server Error", "answers 500"),
        ("302 Found", "answers 302"),
    ] {
        let (url, served) = serve(status, "").await;
        let bench = Bench::with("PreToolUse", &json!([{"type": "http", "url": url}]));
        let outcome = bench.run("PreToolUse", bash("ls")).await;
        assert!(
            outcome.permission.is_none() && outcome.warnings[0].contains(says),
            "{outcome:?}"
        );
        within(served).await.unwrap();
    }
    let bench = Bench::with(
        "PreToolUse",
        &json!([{"type": "http", "url": "http://127.0.0.1:9/"}, {"type": "http", "url": "not an address"}]),
    );
    let outcome = bench.run("PreToolUse", bash("ls")).await;
    assert!(
        outcome.permission.is_none() && outcome.warnings.len() == 2,
        "{outcome:?}"
    );
}

#[tokio::test]
async fn an_address_that_never_answers_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let bench = Bench::with(
        "PreToolUse",
        &json!([{"type": "http", "url": url, "timeout": 0.3, "onFailure": "block"}]),
    );
    let outcome = bench.run("PreToolUse", bash("ls")).await;
    assert_eq!(
        outcome.permission.unwrap().decision,
        HookDecision::Deny,
        "onFailure says so"
    );
}

#[tokio::test]
async fn policy_limits_the_addresses() {
    let settings = json!({
        "allowedHttpHookUrls": ["https://hooks.example.com/*"],
        "hooks": {"PreToolUse": [{"hooks": [{"type": "http", "url": "http://127.0.0.1:9/"}]}]}
    });
    let outcome = Bench::new(&settings).run("PreToolUse", bash("ls")).await;
    assert!(
        outcome.warnings[0].contains("is not among allowedHttpHookUrls"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn settings_limit_the_variables_that_hooks_put_into_headers() {
    for (allowed, sent) in [
        (json!(["TOKEN"]), "x-both: abc+"),
        (json!([]), "x-both: +"),
        (json!(["SECRET", "OTHER"]), "x-both: +xyz"),
    ] {
        let (url, served) = serve("200 OK", "{}").await;
        let settings = json!({
            "httpHookAllowedEnvVars": allowed,
            "env": {"TOKEN": "abc", "SECRET": "xyz", "OTHER": "not listed by the hook"},
            "hooks": {"PreToolUse": [{"hooks": [{"type": "http", "url": url,
                "headers": {"x-both": "$TOKEN+$SECRET$OTHER"}, "allowedEnvVars": ["TOKEN", "SECRET"]}]}]}
        });
        Bench::new(&settings).run("PreToolUse", bash("ls")).await;
        let request = within(served).await.unwrap();
        assert!(request.lines().any(|line| line == sent), "{request}");
    }
}

/// A model that says what it is told to.
struct Says(&'static str);

impl HookModel for Says {
    fn ask(&self, question: HookQuestion) -> BoxFuture<'_, Result<String, ServiceError>> {
        assert!(
            question.prompt.contains("\"command\":\"ls\""),
            "{}",
            question.prompt
        );
        Box::pin(async { Ok(self.0.to_owned()) })
    }

    fn run_agent(
        &self,
        question: HookQuestion,
    ) -> BoxFuture<'_, Result<HookVerdict, ServiceError>> {
        assert_eq!(question.model.as_deref(), Some("haiku"));
        Box::pin(async {
            Ok(HookVerdict {
                ok: false,
                reason: Some(self.0.to_owned()),
            })
        })
    }
}

#[tokio::test]
async fn a_model_can_object_and_nonsense_is_no_answer() {
    for (says, denied, warned) in [
        (r#"{"ok": true}"#, None, false),
        (
            r#"{"ok": false, "reason": "it deletes"}"#,
            Some("it deletes"),
            false,
        ),
        (
            "Sure!\n```json\n{\"ok\": false, \"reason\": \"fenced\"}\n```",
            Some("fenced"),
            false,
        ),
        ("I think { this } is fine", None, true),
        ("", None, true),
    ] {
        let bench = Bench::with(
            "PreToolUse",
            &json!([{"type": "prompt", "prompt": "Is it safe? $ARGUMENTS"}]),
        );
        bench.registry.set_model(Arc::new(Says(says)));
        let outcome = bench.run("PreToolUse", bash("ls")).await;
        assert_eq!(
            outcome.permission.and_then(|voice| voice.reason).as_deref(),
            denied,
            "{says}"
        );
        assert_eq!(!outcome.warnings.is_empty(), warned, "{says}");
    }
    let bench = Bench::with(
        "Stop",
        &json!([{"type": "agent", "prompt": "Look", "model": "haiku"}]),
    );
    bench
        .registry
        .set_model(Arc::new(Says("tests are missing")));
    assert_eq!(
        bench.run("Stop", json!({})).await.block.as_deref(),
        Some("tests are missing")
    );
}

#[tokio::test]
async fn without_a_model_a_prompt_hook_is_a_warning() {
    let bench = Bench::with("Stop", &json!([{"type": "prompt", "prompt": "done?"}]));
    let outcome = bench.run("Stop", json!({})).await;
    assert!(
        outcome.warnings[0].contains("no model is available"),
        "{outcome:?}"
    );
    assert_eq!(outcome.block, None);
}

struct Tools;

impl HookTools for Tools {
    fn call<'a>(
        &'a self,
        server: &'a str,
        tool: &'a str,
        arguments: Value,
    ) -> BoxFuture<'a, Result<String, ServiceError>> {
        Box::pin(async move {
            match (server, tool) {
                ("policy", "check") => {
                    Ok(json!({"decision": "block", "reason": arguments["tool_name"]}).to_string())
                }
                _ => Err(ServiceError::Tool(format!("no tool {tool}"))),
            }
        })
    }
}

#[tokio::test]
async fn a_tool_of_a_server_can_be_a_hook() {
    let hooks = json!([{"type": "mcp_tool", "server": "policy", "tool": "check"}, {"type": "mcp_tool", "server": "policy", "tool": "other"}]);
    let bench = Bench::with("PreToolUse", &hooks);
    bench.registry.set_tools(Arc::new(Tools));
    let outcome = bench.run("PreToolUse", bash("ls")).await;
    assert_eq!(outcome.permission.unwrap().reason.as_deref(), Some("Bash"));
    assert!(
        outcome.warnings[0].contains("no tool other"),
        "{:?}",
        outcome.warnings
    );
}

/// A host with functions; `never` never answers.
struct Host;

impl CallbackHost for Host {
    fn call<'a>(
        &'a self,
        callback_id: &'a str,
        input: &'a HookInput,
        tool_use_id: Option<&'a str>,
    ) -> BoxFuture<'a, Result<HookOutput, HostError>> {
        Box::pin(async move {
            assert_eq!(tool_use_id, Some("t1"));
            assert_eq!(input.fields["tool_name"], "Bash");
            match callback_id {
                "deny" => Ok(serde_json::from_value(json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "host"}})).unwrap()),
                "never" => std::future::pending().await,
                other => Err(HostError::Reported(format!("unknown {other}"))),
            }
        })
    }
}

#[tokio::test]
async fn functions_of_the_host_answer_and_can_be_told_what_their_failure_means() {
    let bench = Bench::new(&json!({"disableAllHooks": true}));
    bench.registry.set_callbacks(Arc::new(Host));
    let event = HookEvent::PreToolUse;
    let (handle, _) =
        bench
            .registry
            .add_callbacks(event, Some("Bash"), &["deny".into()], None, None);
    let outcome = bench.run("PreToolUse", bash("ls")).await;
    assert_eq!(
        outcome.permission.unwrap().reason.as_deref(),
        Some("host"),
        "settings can't switch the host's checks off"
    );
    bench.registry.remove(handle);

    let (handle, _) = bench.registry.add_callbacks(
        event,
        None,
        &["never".into(), "odd".into()],
        Some(0.2),
        None,
    );
    let outcome = bench.run("PreToolUse", bash("ls")).await;
    assert_eq!(outcome.permission, None);
    assert_eq!(
        outcome
            .runs
            .iter()
            .map(|run| run.outcome)
            .collect::<Vec<_>>(),
        [RunOutcome::TimedOut, RunOutcome::Error]
    );
    bench.registry.remove(handle);

    let _ = bench.registry.add_callbacks(
        event,
        None,
        &["never".into()],
        Some(0.2),
        Some(OnFailure::Block),
    );
    let outcome = bench.run("PreToolUse", bash("ls")).await;
    assert_eq!(outcome.permission.unwrap().decision, HookDecision::Deny);
}

#[tokio::test]
async fn cancelling_the_turn_withdraws_what_was_asked() {
    let bench = Bench::new(&json!({}));
    bench.registry.set_callbacks(Arc::new(Host));
    let _ = bench.registry.add_callbacks(
        HookEvent::PreToolUse,
        None,
        &["never".into()],
        None,
        Some(OnFailure::Block),
    );
    let context = bench.context();
    context.cancel.cancel();
    let outcome = within(
        bench
            .registry
            .run(&input("PreToolUse", bash("ls")), &context),
    )
    .await;
    assert_eq!(outcome.runs[0].outcome, RunOutcome::Cancelled);
    assert!(outcome.is_silent());
    // The registry keeps working after its settings are replaced.
    bench
        .registry
        .set_settings(&bench.resolve(&json!({}), Source::User));
    assert_eq!(bench.registry.list().len(), 1);
}
