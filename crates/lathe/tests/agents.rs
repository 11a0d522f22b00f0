//! Agents, forked skills and plugins' servers on the real binary, with a scripted model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, RecordedRequest, Reply, Scenario};
use lathe_testkit::transcript::Transcript;
use lathe_testkit::{StreamJson, TestHome, processes, workspace_root};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const HANG_LIMIT: Duration = Duration::from_secs(120);
const TRUSTED: [&str; 2] = ["--setting-sources", "user,project,local"];

fn model(answer: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) -> BlockingServer {
    BlockingServer::start(Scenario::new().responder(answer)).unwrap()
}

/// Whether a conversation begins with some words.
fn begins(request: &RecordedRequest, words: &str) -> bool {
    let messages = request.messages();
    let first = messages
        .first()
        .map(|message| message["content"].to_string());
    first.is_some_and(|text| text.contains(words))
}

fn whole(request: &RecordedRequest) -> String {
    request.body["messages"].to_string()
}

/// A model that gives these replies, one after the other.
fn script(replies: impl IntoIterator<Item = Reply>) -> BlockingServer {
    let scenario = replies.into_iter().fold(Scenario::new(), Scenario::reply);
    BlockingServer::start(scenario).unwrap()
}

/// Runs print mode.
fn print(home: &TestHome, arguments: &[&str]) -> lathe_testkit::run::Output {
    let all = ["-p"].into_iter().chain(arguments.iter().copied());
    home.run(all.collect::<Vec<&str>>(), "")
}

/// Waits until something is so.
#[track_caller]
fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + HANG_LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "{what} never comes");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The state files of a home's agents: description and content.
fn states(home: &TestHome) -> BTreeMap<String, (PathBuf, Value)> {
    let mut found = BTreeMap::new();
    let projects = home.config().join("projects");
    let mut folders = vec![projects];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(".meta.json")
                // One that is being replaced just now is there again in a moment.
                && let Ok(text) = std::fs::read_to_string(&path)
                && let Ok(state) = serde_json::from_str::<Value>(&text)
            {
                let description = state["description"].as_str().unwrap().to_owned();
                found.insert(description, (path, state));
            }
        }
    }
    found
}

/// How an agent should stand when its session was killed.
fn expected(description: &str) -> &'static str {
    match description.split(' ').next().unwrap() {
        "fine" => "completed",
        "bad" => "failed",
        _ => "killed",
    }
}

#[test]
fn sixteen_agents_of_a_session_that_is_killed_are_all_known_when_it_is_taken_up_again() {
    let server = model(|request| {
        if begins(request, "fine") {
            Reply::text("It is fine.")
        } else if begins(request, "bad") {
            Reply::error_with(400, "invalid_request_error", "no")
        } else if begins(request, "stuck") {
            Reply::never_answer()
        } else if begins(request, "busy") {
            let number = (0..16).find(|number| begins(request, &format!("busy {number}\"")));
            let number = number.unwrap_or_default();
            let command = format!("touch running-{number}; sleep 6000 & sleep 6000");
            Reply::tool_use("Bash", json!({"command": command}))
        } else if request.last_user_text().contains("start them")
            && request.last_results().is_empty()
        {
            (0..16).fold(Reply::text("I start them."), |reply, number| {
                let kind = ["fine", "bad", "stuck", "busy"][number % 4];
                let name = format!("{kind} {number}");
                reply.with_tool_use("Agent", json!({"description": name, "prompt": name}))
            })
        } else {
            Reply::text("noted")
        }
    });
    let home = TestHome::with_server(&server).variable("LATHE_MAX_RETRIES", "0");
    let running = home.spawn([
        "-p",
        "start them",
        "--allowedTools",
        "Bash(touch:*),Bash(sleep:*),Bash",
    ]);
    let busy = || {
        std::fs::read_dir(home.project())
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("running-"))
            .count()
    };
    wait("the middle of it", || {
        let over = states(&home)
            .values()
            .filter(|(_, state)| state["status"] != "running")
            .count();
        over == 8 && busy() == 4
    });
    running.kill();
    drop(running);
    processes::assert_none_left(&home);
    for (description, (path, state)) in states(&home) {
        let status = match expected(&description) {
            // Nobody could write that any more.
            "killed" => "running",
            status => status,
        };
        assert_eq!(state["status"], status, "{description}");
        let transcript = path.to_string_lossy().replace(".meta.json", ".jsonl");
        let transcript = Transcript::read(&PathBuf::from(transcript));
        assert_eq!(transcript.damaged, Vec::new(), "{description}");
    }

    let output = home.run(["-p", "--continue", "what became of them?"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(
        output
            .stderr
            .contains("8 agent(s) of this session were interrupted"),
        "{}",
        output.stderr
    );
    let requests = server.requests();
    let told = whole(
        requests
            .iter()
            .rfind(|request| request.last_user_text().contains("what became"))
            .unwrap(),
    );
    let all = states(&home);
    assert_eq!(all.len(), 16);
    for (description, (path, state)) in &all {
        assert_eq!(state["status"], expected(description), "{description}");
        assert_eq!(state["known"], true, "{description}");
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let id = name
            .trim_start_matches("agent-")
            .trim_end_matches(".meta.json");
        let by_notice = told.matches(&format!("<task-id>{id}</task-id>")).count();
        let by_list = told
            .matches(&format!(
                "- {id} ({description}): {}.",
                expected(description)
            ))
            .count();
        assert_eq!(by_notice + by_list, 1, "{description}: {told}");
    }
    // Told once: the next words bring nothing new.
    let output = home.run(["-p", "--continue", "thanks"], "");
    assert_eq!((output.code(), output.stderr.as_str()), (Some(0), ""));
    let last = whole(server.requests().last().unwrap());
    assert_eq!(last.matches("that have not reported").count(), 1);
    processes::assert_none_left(&home);
    assert_eq!(server.problems(), Vec::<String>::new());
}

#[test]
fn a_runaway_agent_ends_with_the_budget_and_the_output_says_why() {
    // Every agent that is asked starts another agent, and another.
    let server = model(|_| {
        Reply::tool_use(
            "Agent",
            json!({"description": "more", "prompt": "start one more", "run_in_background": false}),
        )
        .usage("input_tokens", 2_000_000)
    });
    let home = TestHome::with_server(&server);
    let output = home.run(["-p", "go", "--max-budget-usd", "20"], "");
    assert_ne!(output.code(), Some(0));
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(said.contains("budget") || said.contains("$20"), "{said}");
    processes::assert_none_left(&home);
}

#[test]
fn a_forked_skill_runs_in_an_agent_and_only_its_result_comes_back() {
    let server = model(|request| {
        if begins(request, "Count the lines of a.txt") {
            Reply::text("There are two lines.")
        } else if request.last_results().is_empty()
            && ["how many lines", "asks for the skill count"]
                .iter()
                .any(|words| request.last_user_text().contains(words))
        {
            Reply::tool_use("Skill", json!({"skill": "count", "args": "a.txt"}))
        } else {
            Reply::text("Done.")
        }
    });
    let home = TestHome::with_server(&server);
    home.write(
        ".claude/skills/count/SKILL.md",
        "---\nname: count\ndescription: Counts lines\ncontext: fork\nagent: counter\n---\nCount the lines of $1 and say only the number.\n",
    );
    home.write(
        ".claude/agents/counter.md",
        "---\nname: counter\ndescription: Counts\ntools: Read\n---\nYou only count.\n",
    );
    for prompt in ["how many lines?", "/count a.txt"] {
        let before = server.requests().len();
        let output = home.run(["-p", prompt], "");
        assert_eq!(output.code(), Some(0), "{prompt}: {}", output.stderr);
        let requests = server.requests().split_off(before);
        let inner: Vec<&RecordedRequest> = requests
            .iter()
            .filter(|request| begins(request, "Count the lines of a.txt"))
            .collect();
        assert_eq!(inner.len(), 1, "{prompt}");
        assert!(
            inner[0].body["system"]
                .to_string()
                .contains("You only count.")
        );
        assert_eq!(inner[0].tool_names(), ["Read"], "{prompt}");
        let outer: Vec<&RecordedRequest> = requests
            .iter()
            .filter(|request| !begins(request, "Count the lines of a.txt"))
            .collect();
        let last = outer
            .last()
            .unwrap_or_else(|| panic!("{prompt}: nobody hears of it"));
        assert!(whole(last).contains("There are two lines."), "{prompt}");
        assert!(!whole(last).contains("say only the number"), "{prompt}");
    }
    assert_eq!(server.problems(), Vec::<String>::new());
}

#[test]
fn a_hook_hears_of_a_command_that_was_filled_in_and_may_add_or_refuse() {
    let server = model(|_| Reply::text("ok"));
    let home = TestHome::with_server(&server);
    home.write(
        ".claude/commands/ship.md",
        "---\ndescription: Ships\n---\nShip the version $ARGUMENTS.\n",
    );
    home.write(
        ".claude/settings.json",
        json!({"hooks": {"UserPromptExpansion": [{"hooks": [{
            "type": "command",
            "command": "cat > heard.json; if grep -qF 9.9 heard.json; then echo 'not on a Friday' >&2; exit 2; fi; echo 'tests first'",
        }]}]}})
        .to_string(),
    );
    let run = |prompt: &str| {
        let mut arguments = vec!["-p", prompt];
        arguments.extend(TRUSTED);
        home.run(arguments, "")
    };
    let output = run("/ship 1.2");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let heard: Value = serde_json::from_str(&home.read("heard.json")).unwrap();
    assert_eq!(heard["hook_event_name"], "UserPromptExpansion");
    assert_eq!(heard["command_name"], "ship", "{heard}");
    let request = whole(server.requests().last().unwrap());
    assert!(request.contains("Ship the version 1.2."), "{request}");
    assert!(request.contains("tests first"), "{request}");
    let before = server.requests().len();
    let output = run("/ship 9.9");
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(said.contains("not on a Friday"), "{said}");
    let sent: Vec<String> = server
        .requests()
        .split_off(before)
        .iter()
        .map(whole)
        .collect();
    assert!(
        !sent.concat().contains("Ship the version 9.9."),
        "what was refused doesn't reach the model: {sent:?}"
    );
    std::fs::remove_file(home.project().join("heard.json")).unwrap();
    run("no command");
    assert!(!home.project().join("heard.json").exists());
}

#[test]
fn a_plugins_server_works_in_a_session_and_ends_with_it() {
    let server = model(|request| {
        if request.last_results().is_empty() {
            Reply::tool_use(
                "mcp__plugin_helper_echo__echo",
                json!({"text": "through and back"}),
            )
        } else {
            Reply::text("Done.")
        }
    });
    let home = TestHome::with_server(&server);
    let fixture = workspace_root().join("crates/mcp/tests/fixtures/server.py");
    home.write(
        "helper/.claude-plugin/plugin.json",
        json!({"name": "helper"}).to_string(),
    );
    std::fs::copy(fixture, home.write("helper/server.py", "")).unwrap();
    home.write(
        "helper/.mcp.json",
        json!({"mcpServers": {"echo": {
            "command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/server.py"],
        }}})
        .to_string(),
    );
    let output = home.run(
        [
            "-p",
            "go",
            "--plugin-dir",
            "helper",
            "--allowedTools",
            "mcp__plugin_helper_echo",
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let last = server.requests().pop().unwrap();
    assert!(
        whole(&last).contains("through and back"),
        "{}",
        whole(&last)
    );
    assert_eq!(output.stderr, "");
    processes::assert_none_left(&home);
    assert_eq!(server.problems(), Vec::<String>::new());
}

#[test]
fn agents_that_a_command_line_defines_bring_their_servers() {
    let server = model(|request| {
        if begins(request, "ask your server") {
            if request.last_results().is_empty() {
                Reply::tool_use(
                    "mcp__mine__echo",
                    json!({"text": "from the agent's server"}),
                )
            } else {
                Reply::text(request.last_tool_result())
            }
        } else if request.last_results().is_empty() {
            Reply::tool_use(
                "Agent",
                json!({
                    "description": "ask", "prompt": "ask your server",
                    "subagent_type": "asker", "run_in_background": false,
                }),
            )
        } else {
            Reply::text("Done.")
        }
    });
    let home = TestHome::with_server(&server);
    let fixture = workspace_root().join("crates/mcp/tests/fixtures/server.py");
    let agents = json!({"asker": {
        "description": "Asks", "prompt": "You ask.",
        "mcpServers": [{"mine": {"command": "python3", "args": [fixture]}}],
    }});
    let output = home.run(
        [
            "-p",
            "go",
            "--agents",
            &agents.to_string(),
            "--allowedTools",
            "mcp__mine",
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let last = server.requests().pop().unwrap();
    assert!(
        whole(&last).contains("from the agent's server"),
        "{}",
        whole(&last)
    );
    processes::assert_none_left(&home);
}

#[test]
fn an_agent_of_an_untrusted_folder_has_a_prompt_and_no_server() {
    let server = model(|request| {
        if begins(request, "ask your server") {
            Reply::text("I have none.")
        } else if request.last_results().is_empty() {
            Reply::tool_use(
                "Agent",
                json!({
                    "description": "ask", "prompt": "ask your server",
                    "subagent_type": "asker", "run_in_background": false,
                }),
            )
        } else {
            Reply::text("Done.")
        }
    });
    let home = TestHome::with_server(&server);
    home.write(
        ".claude/agents/asker.md",
        "---\nname: asker\ndescription: Asks\nmcpServers: [{\"mine\": {\"command\": \"touch\", \"args\": [\"started\"]}}]\n---\nYou ask.\n",
    );
    let output = home.run(["-p", "go"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(!home.project().join("started").exists());
    let mut arguments = vec!["-p", "go"];
    arguments.extend(TRUSTED);
    assert_eq!(home.run(arguments, "").code(), Some(0));
    assert!(
        home.project().join("started").exists(),
        "trusted, it is tried"
    );
}

#[test]
fn an_output_style_that_a_plugin_forces_applies_while_the_plugin_is_enabled() {
    let server = script([Reply::text("ok"), Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    home.write(
        "loud/.claude-plugin/plugin.json",
        r#"{"name": "loud", "version": "1.0.0"}"#,
    );
    home.write(
        "loud/output-styles/shout.md",
        "---\nname: shout\nforce-for-plugin: true\nkeep-coding-instructions: true\n---\nShout as ${CLAUDE_PLUGIN_ROOT}/words.txt says.\n",
    );
    home.write(
        ".lathe/output-styles/own.md",
        "---\nname: own\nforce-for-plugin: true\n---\nAs always.\n",
    );
    let settings = r#"{"outputStyle": "own"}"#;
    assert_eq!(
        print(&home, &["hi", "--settings", settings]).code(),
        Some(0)
    );
    let words = ["hi", "--settings", settings, "--plugin-dir", "loud"];
    assert_eq!(print(&home, &words).code(), Some(0));
    let system = |index: usize| server.requests()[index].body["system"].to_string();
    assert!(system(0).contains("As always.") && !system(0).contains("Shout"));
    let root = home.project().join("loud").display().to_string();
    let said = format!("Shout as {root}/words.txt says.");
    assert!(system(1).contains(&said) && !system(1).contains("As always."));
    server.finish();
}

#[test]
fn how_hard_the_model_tries_is_a_setting_a_command_and_an_agents_word() {
    let server = script((0..5).map(|_| Reply::text("ok")));
    let home = TestHome::with_server(&server);
    let effort = |index: usize| server.requests()[index].body["output_config"]["effort"].clone();
    let settings = r#"{"effort": "low"}"#;
    assert_eq!(
        print(&home, &["hi", "--settings", settings]).code(),
        Some(0)
    );
    assert_eq!(effort(0), "low");
    let agents = r#"{"a": {"description": "d", "prompt": "p", "effort": "max"}}"#;
    let words = [
        "hi",
        "--settings",
        settings,
        "--agents",
        agents,
        "--agent",
        "a",
    ];
    assert_eq!(print(&home, &words).code(), Some(0));
    assert_eq!(effort(1), "max");
    let mut session = StreamJson::start(&home, ["--settings", settings]);
    for (command, expected) in [
        ("/effort xhigh", json!("xhigh")),
        ("/effort default", json!("low")),
    ] {
        for words in [command, "hi"] {
            session.prompt(words);
            session.wait_for_result();
        }
        assert_eq!(effort(server.requests().len() - 1), expected, "{command}");
    }
    assert_eq!(session.close().code(), Some(0));
    let off = r#"{"permissions": {"disableAutoMode": "disable"}}"#;
    let refused = print(
        &home,
        &["hi", "--permission-mode", "auto", "--settings", off],
    );
    assert_eq!(refused.code(), Some(2), "{refused:#?}");
    assert!(refused.stderr.contains("disableAutoMode"), "{refused:#?}");
    assert_eq!(print(&home, &["hi"]).code(), Some(0));
    assert_eq!(effort(4), Value::Null);
    server.finish();
}

#[test]
fn the_newer_task_list_is_the_usual_one_where_the_model_knows_it() {
    let server = script([
        Reply::tool_use(
            "TaskCreate",
            json!({"subject": "Paint the door", "description": "in blue"}),
        ),
        Reply::text("ok"),
        Reply::text("ok").forever().optional(),
    ]);
    let home = TestHome::with_server(&server);
    assert_eq!(print(&home, &["hi"]).code(), Some(0));
    let output = print(&home, &["/todos", "--continue"]);
    assert!(output.stdout.contains("[ ] Paint the door"), "{output:#?}");
    let offered = |home: &TestHome, arguments: &[&str]| {
        assert_eq!(print(home, arguments).code(), Some(0));
        let request = server.message_requests().pop().unwrap();
        let names = request.tool_names();
        let has = |name: &str| names.contains(&name);
        (has("TodoWrite"), has("TaskUpdate"))
    };
    assert_eq!(
        offered(&home, &["hi", "--model", "claude-opus-4-5"]),
        (false, true)
    );
    assert_eq!(
        offered(&home, &["hi", "--model", "claude-opus-4-1"]),
        (true, false)
    );
    assert_eq!(
        offered(&home, &["hi", "--model", "some-gateway-model"]),
        (true, false)
    );
    assert_eq!(
        offered(&home, &["hi", "--tools", "TodoWrite"]),
        (true, false)
    );
    let on = home.variable("CLAUDE_CODE_ENABLE_TASKS", "1");
    assert_eq!(
        offered(&on, &["hi", "--model", "some-gateway-model"]),
        (false, true)
    );
    let off = on.variable("CLAUDE_CODE_ENABLE_TASKS", "0");
    assert_eq!(offered(&off, &["hi"]), (true, false));
}

#[test]
fn the_task_list_that_is_not_offered_still_works_unless_tools_are_selected() {
    let todos = json!({"todos": [
        {"content": "Paint the door", "status": "pending", "activeForm": "Painting the door"},
    ]});
    let result = |arguments: &[&str]| {
        let server = script([
            Reply::tool_use("TodoWrite", todos.clone()),
            Reply::text("ok"),
        ]);
        let home = TestHome::with_server(&server);
        let all = [&["hi", "--model", "claude-opus-4-5"], arguments].concat();
        assert_eq!(print(&home, &all).code(), Some(0));
        let request = server.message_requests().pop().unwrap();
        request.body["messages"].to_string()
    };
    assert!(!result(&[]).contains("There is no tool"));
    assert!(result(&["--tools", "Read"]).contains("There is no tool TodoWrite"));
    assert!(result(&["--disallowedTools", "TodoWrite"]).contains("\"is_error\":true"));
}

#[test]
fn files_of_agents_and_skills_are_checked_wherever_they_lie() {
    let home = TestHome::new();
    home.write(
        "drafts/good.md",
        "---\nname: good\ndescription: d\ntools: Read\n---\nText\n",
    );
    home.write(
        "drafts/typo.md",
        "---\nname: typo\ndescription: d\ntools: Raed, Bash\n---\nText\n",
    );
    home.write("drafts/bad.md", "---\nname: bad\n---\nText\n");
    home.write("drafts/note.md", "Only words.\n");
    home.write(
        "know/skill/SKILL.md",
        "---\nname: skill\ndescription: d\neffort: huge\n---\nText\n",
    );
    for (arguments, code, expected) in [
        (["agents", "drafts/good.md"], 0, "1 agent, 0 problems"),
        (["agents", "drafts/typo.md"], 0, "did you mean `Read`?"),
        // A file by itself is read as a plugin's: it may do without, and is told what is missing.
        (["agents", "drafts/bad.md"], 0, "description: is missing"),
        (["agents", "drafts/note.md"], 0, "description: is missing"),
        (["agents", "drafts/none.md"], 1, "No such file"),
        (["agents", "drafts"], 0, "4 agents"),
        (["skills", "know/skill"], 0, "effort"),
        (["skills", "know/skill/SKILL.md"], 0, "1 skill, 1 problem"),
        (["skills", "drafts/note.md"], 0, "1 skill, 0 problems"),
        (["skills", "drafts/none"], 1, "No such file"),
    ] {
        let [what, path] = arguments;
        let output = home.run([what, "validate", path], "");
        let said = format!("{}{}", output.stdout, output.stderr);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(output.code(), Some(code), "{arguments:?}: {said}");
    }
    let output = home.run(["agents", "list", "--agents", "[1]"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
}
