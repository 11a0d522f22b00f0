//! Attachments of a prompt: mentioned files, git, memory, reminders; and what is asked beside it.

use crate::support::{Place, Talk};
use lathe_protocol::event::TerminalReason;
use lathe_protocol::op::Prompt;
use lathe_scripted::{Reply, Scenario, When};
use serde_json::{Value, json};
use std::process::Command;
use tokio_util::sync::CancellationToken;

fn messages_of(place: &Place, index: usize) -> String {
    let requests = place.server.message_requests();
    Value::from(requests[index].messages().to_vec()).to_string()
}

async fn say_verbatim(talk: &mut Talk, text: &str) {
    let mut prompt = Prompt::new(text.to_owned());
    prompt.verbatim = true;
    talk.send(prompt);
    talk.result().await;
}

#[tokio::test]
async fn mentioned_files_folders_and_images_go_with_the_prompt() {
    let scenario = Scenario::new()
        .reply(Reply::text("a"))
        .reply(Reply::text("b"))
        .reply(Reply::text("c"));
    let place = Place::new(scenario, 200_000).await;
    let project = place.project();
    let text: String = (1..=30)
        .map(|line| format!("line number {line}\n"))
        .collect();
    std::fs::write(project.join("long.txt"), text).unwrap();
    std::fs::create_dir(project.join("inner")).unwrap();
    std::fs::write(project.join("inner/some.rs"), "fn main() {}\n").unwrap();
    std::fs::write(project.join("dot.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    std::fs::write(project.join(".env"), "TOKEN=very-secret\n").unwrap();
    let mut talk = place.open().await;
    talk.say("look at @long.txt#L3-5, @inner/ and @dot.png. Mail me@example.org")
        .await;
    talk.say("and @.env, @/etc/passwd, @nothing.txt").await;
    say_verbatim(&mut talk, "as it is: @inner/some.rs").await;
    let seen = talk.finish().await;
    let first = messages_of(&place, 0);
    for wanted in ["line number 3", "line number 5", "some.rs", "image/png"] {
        assert!(first.contains(wanted), "{wanted:?} is not in {first}");
    }
    assert!(!first.contains("line number 6") && !first.contains("fn main"));
    let last = messages_of(&place, 2);
    for unwanted in ["very-secret", "root:", "fn main"] {
        assert!(!last.contains(unwanted), "{unwanted:?} is in {last}");
    }
    let told = |word: &str| seen.notices.iter().any(|(_, text)| text.contains(word));
    assert!(
        told("passwords and keys") && told("--add-dir"),
        "{:?}",
        seen.notices
    );
    assert_eq!(place.server.problems(), Vec::<String>::new());

    // What was attached is there after a resume, byte for byte.
    place.server.push_reply(Reply::text("d"));
    let mut talk = place.resume().await;
    talk.say("again").await;
    talk.finish().await;
    assert!(messages_of(&place, 3).contains("line number 4"));
}

#[tokio::test]
async fn the_state_of_the_repository_comes_with_one_of_the_first_requests() {
    let scenario = Scenario::new().responder(|_| Reply::text("fine"));
    let place = Place::new(scenario, 200_000).await;
    let git = |arguments: &[&str]| {
        let status = Command::new("git")
            .args(["-c", "user.name=T", "-c", "user.email=t@example.invalid"])
            .args(arguments)
            .current_dir(place.project())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .status()
            .unwrap();
        assert!(status.success());
    };
    git(&["init", "-q", "-b", "trunk"]);
    git(&[
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "The very first commit",
    ]);
    std::fs::write(place.project().join("fresh.txt"), "x").unwrap();
    let mut talk = place.open_trusted().await;
    // It is never waited for, so it may come a request or two later; never twice.
    let mut asked = 0;
    loop {
        talk.say("hello").await;
        asked += 1;
        let text = messages_of(&place, asked - 1);
        if text.contains("The very first commit") {
            assert!(
                text.contains("fresh.txt") && text.contains("## trunk"),
                "{text}"
            );
            assert_eq!(text.matches("The very first commit").count(), 1);
            break;
        }
        assert!(asked < 500, "git never answered");
    }
    talk.finish().await;
}

#[tokio::test]
async fn git_is_asked_again_when_the_work_moves_to_another_worktree() {
    let scenario = Scenario::new().responder(|request| {
        if request.last_user_text().contains("go there") && request.last_results().is_empty() {
            Reply::tool_use("Bash", json!({"command": "cd inner"}))
        } else {
            Reply::text("fine")
        }
    });
    let place = Place::new(scenario, 200_000).await;
    let git = |folder: &str, arguments: &[&str]| {
        let status = Command::new("git")
            .args(["-c", "user.name=T", "-c", "user.email=t@example.invalid"])
            .args(arguments)
            .current_dir(place.project().join(folder))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .status();
        assert!(status.unwrap().success());
    };
    let commit = |folder: &str, words: &str| {
        git(folder, &["commit", "-q", "--allow-empty", "-m", words]);
    };
    git("", &["init", "-q"]);
    commit("", "The outer commit");
    // A worktree: trust in a repository covers no other one inside it.
    git("", &["worktree", "add", "-q", "-b", "side", "inner"]);
    commit("inner", "The inner commit");
    let mut talk = place.open_trusted().await;
    talk.say("go there").await;
    let last = |place: &Place| {
        let requests = place.server.message_requests();
        Value::from(requests.last().unwrap().messages().to_vec()).to_string()
    };
    // It is never waited for, so it may come a request or two later; never twice.
    let mut asked = 0;
    while !last(&place).contains("The inner commit") {
        talk.say("hello").await;
        asked += 1;
        assert!(asked < 500, "git never answered");
    }
    talk.say("and on").await;
    assert_eq!(last(&place).matches("The inner commit").count(), 1);
    talk.finish().await;
}

#[tokio::test]
async fn the_memory_index_is_in_the_system_prompt_unless_it_is_switched_off() {
    let scenario = Scenario::new()
        .reply(Reply::text("a"))
        .reply(Reply::text("b"));
    let mut place = Place::new(scenario, 200_000).await;
    let memory = lathe_memory::AutoMemory::of(&place.config(), &place.project());
    memory.add_note("the person likes tabs").unwrap();
    let mut talk = place.open().await;
    talk.say("one").await;
    let usage = talk.session.context().usage();
    assert!(usage.memory > 0);
    talk.finish().await;
    place.settings = json!({"autoMemory": false});
    let mut talk = place.open().await;
    talk.say("two").await;
    talk.finish().await;
    let requests = place.server.message_requests();
    assert!(requests[0].system_text().contains("the person likes tabs"));
    assert!(!requests[1].system_text().contains("tabs"));
}

#[tokio::test]
async fn a_stale_task_list_is_recalled_after_ten_calls() {
    let scenario = Scenario::new()
        .reply(Reply::tool_use(
            "TodoWrite",
            json!({"todos": [{"content": "Mend it", "status": "pending", "activeForm": "Mending"}]}),
        ))
        .reply(Reply::text("fine").forever().optional());
    let place = Place::new(scenario, 200_000).await;
    let mut talk = place.open().await;
    for _ in 0..14 {
        talk.say("go on").await;
    }
    talk.finish().await;
    let requests = place.server.message_requests();
    let reminded: Vec<usize> = (0..requests.len())
        .filter(|index| {
            requests[*index]
                .last_user_text()
                .contains("has not changed for a while")
        })
        .collect();
    assert_eq!(reminded.len(), 1, "{reminded:?}");
    assert!((10..=12).contains(&reminded[0]), "{reminded:?}");
}

#[tokio::test]
async fn budgets_warn_before_they_end_the_session() {
    let scenario = Scenario::new().responder(|_| Reply::text("word ".repeat(200)));
    let mut place = Place::new(scenario, 200_000).await;
    place
        .variables
        .push(("LATHE_MAX_SESSION_TOKENS".to_owned(), "250000".to_owned()));
    let mut talk = place.open().await;
    let mut ended = None;
    for _ in 0..40 {
        let result = talk.say("go on").await;
        if result.is_error {
            ended = Some(result);
            break;
        }
    }
    let ended = ended.expect("the tokens never ended");
    assert_eq!(ended.terminal_reason, TerminalReason::BudgetExhausted);
    assert!(ended.errors[0].contains("250000 tokens"), "{ended:?}");
    let seen = talk.finish().await;
    let warned = seen
        .notices
        .iter()
        .filter(|(_, text)| text.contains("of this session's budget"));
    assert_eq!(warned.count(), 2, "{:?}", seen.notices);
}

#[tokio::test]
async fn side_queries_use_the_small_model_and_count_to_the_session() {
    let scenario = Scenario::new()
        .reply(Reply::text("it is mended"))
        .reply(
            Reply::text("Mending the broken clock")
                .when(When::system_contains("name conversations")),
        )
        .reply(Reply::text("**no**").when(When::system_contains("sends next")))
        .reply(Reply::text("The clock was mended.").when(When::system_contains("was away")))
        .reply(Reply::error(500).when(When::system_contains("past-tense")));
    let mut place = Place::new(scenario, 200_000).await;
    place
        .variables
        .push(("ANTHROPIC_SMALL_FAST_MODEL".to_owned(), "tiny".to_owned()));
    let mut talk = place.open().await;
    talk.say("mend the clock").await;
    let cancel = CancellationToken::new();
    let title = talk.session.side_questions().title(&cancel).await;
    assert_eq!(title.as_deref(), Some("Mending the broken clock"));
    assert_eq!(
        talk.session.side_questions().next_prompt(&cancel).await,
        None
    );
    let away = talk.session.side_questions().away_summary(&cancel).await;
    assert_eq!(away.as_deref(), Some("The clock was mended."));
    let summary = talk
        .session
        .side_questions()
        .tool_use("Bash", "ls", "a b", &cancel);
    assert_eq!(summary.await, None);
    let transcript = talk.session.transcript().to_owned();
    talk.finish().await;
    let requests = place.server.message_requests();
    assert!(requests[1].body.to_string().contains("mend the clock"));
    assert!(
        requests[1..]
            .iter()
            .all(|request| request.model() == "tiny")
    );
    let facts = lathe_session::load(&transcript).unwrap().facts;
    assert_eq!(facts.title(), Some("Mending the broken clock"));
    let totals: lathe_engine::ledger::Totals = serde_json::from_value(facts.cost.unwrap()).unwrap();
    let side = totals.parts[&lathe_engine::ledger::Part::Side];
    assert_eq!(side.calls, 3);
    assert!(lathe_engine::cost::text(&totals).contains("side queries: 3 calls"));
}

/// A server with sixty tools that answers every call with its own name.
const SKY: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if id is None:
        continue
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "sky", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": f"moon_{n}", "inputSchema": {"type": "object", "properties": {}},
            "description": ("Reads the lunar calendar. " if n == 41 else "Something else. ") + "It has a long description. " * 20} for n in range(60)]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": message["params"]["name"] + " was called"}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"#;

#[tokio::test]
async fn many_mcp_tools_wait_until_they_are_searched_for() {
    let scenario = Scenario::new()
        .reply(Reply::tool_use(
            "ToolSearch",
            json!({"query": "lunar calendar"}),
        ))
        .reply(Reply::tool_use("mcp__sky__moon_41", json!({})))
        .reply(Reply::text("full moon"))
        .reply(Reply::text("still there"));
    let place = Place::new(scenario, 60_000).await;
    let program = place.config().join("sky.py");
    std::fs::write(&program, SKY).unwrap();
    let mut options = place.options();
    let servers = json!({"mcpServers": {"sky": {"command": "python3", "args": [program]}}});
    options.mcp.configs.push(servers.to_string());
    let mut talk = place.open_with(options.clone()).await;
    talk.session.mcp().settled().await;
    let result = talk.say("when is full moon?").await;
    assert_eq!(result.text, "full moon", "{result:?}");
    let seen = talk.finish().await;
    let requests = place.server.message_requests();
    let offered: Vec<Vec<String>> = requests
        .iter()
        .map(|request| {
            let names = request.tool_names().into_iter().map(str::to_owned);
            names.filter(|name| name.starts_with("mcp__")).collect()
        })
        .collect();
    assert!(offered[0].is_empty());
    assert!(requests[0].tool_names().contains(&"ToolSearch"));
    let first = messages_of(&place, 0);
    assert!(first.contains("mcp__sky__moon_0") && first.contains("mcp__sky__moon_59"));
    assert_eq!(offered[1], ["mcp__sky__moon_41"]);
    assert!(messages_of(&place, 2).contains("moon_41 was called"));
    assert!(requests[0].raw_body.len() < 40_000);
    let told = seen
        .notices
        .iter()
        .filter(|(_, text)| text.contains("cache"));
    assert_eq!(told.count(), 0, "{:?}", seen.notices);

    // A tool that was used stays loaded after a resume.
    options.history.session = lathe_engine::SessionChoice::Continue;
    let mut talk = place.open_with(options).await;
    talk.session.mcp().settled().await;
    talk.say("and now?").await;
    talk.finish().await;
    let last = place.server.message_requests().pop().unwrap();
    assert!(last.tool_names().contains(&"mcp__sky__moon_41"));
}
