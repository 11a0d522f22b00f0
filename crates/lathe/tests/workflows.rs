//! Workflows by the command line and in a session.
#![expect(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_scripted::{BlockingServer, RecordedRequest, Reply, Scenario};
use lathe_testkit::{TestHome, workspace_root};
use serde_json::{Value, json};

/// A model whose agents answer what the examples of the documentation ask.
fn answer(request: &RecordedRequest) -> Reply {
    let said = request.messages()[0].to_string();
    let objects = [
        ("Is this a fair summary of a.rs", json!({"good": true})),
        ("Is this a fair summary of b.rs", json!({"good": false})),
        ("Round 1:", json!({"items": ["one", "two"]})),
        ("Round 2:", json!({"items": ["two", "three"]})),
        ("Round 3:", json!({"items": ["one"]})),
    ];
    if let Some((_, value)) = objects.iter().find(|(words, _)| said.contains(words)) {
        return Reply::text(format!("```json\n{value}\n```"));
    }
    for (words, reply) in [
        ("Greet Ada", "Hello, Ada"),
        ("Greet Grace", "Hello, Grace"),
        ("Greet the world", "Hello, world"),
        ("Summarise a.rs", "about a"),
        ("Summarise b.rs", "about b"),
        ("view of performance", "fast"),
        ("view of safety", "safe"),
        ("view of cost", "cheap"),
    ] {
        if said.contains(words) {
            return Reply::text(reply);
        }
    }
    assert!(said.contains("Judge these answers"), "{said}");
    assert!(said.contains("fast") && said.contains("safe") && said.contains("cheap"));
    Reply::text("safe")
}

/// The examples of the page, by name.
fn examples() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(workspace_root().join("docs/workflows.md")).unwrap();
    let blocks = page.split("```js workflow=").skip(1);
    let named = blocks.map(|block| {
        let (name, rest) = block.split_once('\n').unwrap();
        let (script, _) = rest.split_once("```").unwrap();
        (name.to_owned(), script.to_owned())
    });
    named.collect()
}

fn place(server: &BlockingServer) -> TestHome {
    let home = TestHome::with_server(server);
    for (name, script) in examples() {
        home.write(format!(".lathe/workflows/{name}.js"), script);
    }
    home
}

#[test]
fn the_examples_of_the_documentation_have_no_problems_and_work() {
    let server = BlockingServer::start(Scenario::new().responder(answer)).unwrap();
    let home = place(&server);
    let checked = home.run(["workflow", "validate"], "");
    assert_eq!(checked.code(), Some(0), "{checked:?}");
    let expected = [
        ("hello", "", json!("Hello, world")),
        (
            "stages",
            r#"{"files": ["a.rs", "b.rs"]}"#,
            json!([{"file": "a.rs", "summary": "about a", "good": true}]),
        ),
        ("panel", "which cache?", json!("safe")),
        ("until-dry", "", json!(["one", "two", "three"])),
        (
            "nested",
            "",
            json!({"greetings": ["Hello, Ada", null, "Hello, Grace"], "greeted": 2}),
        ),
    ];
    assert_eq!(examples().len(), expected.len());
    for (name, args, value) in expected {
        let mut line = vec!["workflow", "run", name];
        line.extend((!args.is_empty()).then_some(args));
        let ran = home.run(line, "");
        assert_eq!(ran.code(), Some(0), "{name}: {ran:?}");
        let (result, dropped) = match ran.stdout.split_once("\n\nDropped") {
            Some((result, dropped)) => (result, Some(dropped)),
            None => (ran.stdout.trim_end(), None),
        };
        let result: Value = serde_json::from_str(result).unwrap_or_else(|_| json!(result));
        assert_eq!(result, value, "{name}");
        let says = dropped.is_some_and(|text| text.contains("there is nobody to greet"));
        assert_eq!(says, name == "nested", "{name}: {}", ran.stdout);
    }
    server.finish();
}

#[test]
fn workflows_are_listed_shown_and_checked() {
    let server = BlockingServer::start(Scenario::new().responder(answer)).unwrap();
    let home = place(&server);
    let listed = home.run(["workflow", "list"], "").stdout;
    for name in ["hello", "panel", "migrate", "research", "review"] {
        assert!(listed.contains(&format!("{name}  ")), "{listed}");
    }
    let shown = home.run(["workflow", "show", "research"], "");
    assert!(shown.stdout.starts_with("export const meta"), "{shown:?}");
    home.write(
        "bad.js",
        "export const meta = { name: 'bad', description: 'x' }\nfetch('y')\n",
    );
    let bad = home.run(["workflow", "validate", "bad.js"], "");
    assert_eq!(bad.code(), Some(1), "{bad:?}");
    assert!(
        bad.stdout.contains("bad.js:2:1: fetch is not defined"),
        "{bad:?}"
    );
    let ran = home.run(["workflow", "run", "bad.js"], "");
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    assert!(ran.stderr.contains("bad.js:2:"), "{ran:?}");
    let unknown = home.run(["workflow", "run", "absent"], "");
    assert_eq!(unknown.code(), Some(2), "{unknown:?}");
    assert!(
        unknown.stderr.contains("there is no workflow absent"),
        "{unknown:?}"
    );
    server.finish();
}

const FLAKY: &str = "export const meta = { name: 'flaky', description: 'x' }\nconst a = await agent('part one')\nconst b = await agent('part two')\nreturn a + ' ' + b\n";

#[test]
fn a_run_of_the_tool_that_fails_is_resumed_and_finished_agents_are_not_run_again() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let tries = AtomicUsize::new(0);
    let scenario = Scenario::new().responder(move |request| {
        let first = request.messages()[0].to_string();
        if first.contains("part one") && !first.contains("go on") {
            return Reply::text("one");
        }
        if first.contains("part two") && !first.contains("go on") {
            // The first one can't, and is not asked again by itself.
            return match tries.fetch_add(1, Ordering::SeqCst) {
                0 => Reply::error_with(400, "invalid_request_error", "no"),
                _ => Reply::text("two"),
            };
        }
        let told = request.last_user_text();
        if told.contains("<task-notification>") && told.contains("failed") {
            let id = told.split("resumeFromRunId \"").nth(1).unwrap();
            let id = id.split('"').next().unwrap();
            return Reply::tool_use("Workflow", json!({"resumeFromRunId": id}));
        }
        if told.contains("<task-notification>") {
            return Reply::text(format!("end: {told}"));
        }
        if request.last_results().is_empty() {
            return Reply::tool_use("Workflow", json!({"script": FLAKY}));
        }
        Reply::text("it runs")
    });
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server).variable("ENABLE_TOOL_SEARCH", "0");
    let ran = home.run(["-p", "go on", "--allowedTools", "Workflow"], "");
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    assert!(ran.stdout.contains("one two"), "{ran:?}");
    let asked = |words: &str| {
        let requests = server.message_requests();
        let own = requests.iter().filter(|request| {
            let first = request.messages()[0].to_string();
            first.contains(words) && !first.contains("go on")
        });
        own.count()
    };
    assert_eq!((asked("part one"), asked("part two")), (1, 2));
    server.finish();
}

#[test]
fn a_workflow_is_asked_about() {
    let scenario = Scenario::new().responder(|request| {
        if request.last_results().is_empty() {
            return Reply::tool_use("Workflow", json!({"name": "research", "args": "x"}));
        }
        Reply::text(request.last_tool_result())
    });
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server).variable("ENABLE_TOOL_SEARCH", "0");
    let ran = home.run(["-p", "go"], "");
    assert!(
        ran.stdout.contains("--allowedTools \"Workflow(research)\""),
        "{ran:?}"
    );
    server.finish();
}

/// Whether a request is of an agent of the run, and not of the conversation that started it.
fn of_run(request: &RecordedRequest) -> Option<String> {
    let first = request.messages()[0].to_string();
    (!first.contains("go on")).then_some(first)
}

const LONG: &str = "export const meta = { name: 'long', description: 'x' }\nlet all = ''\nfor (let i = 0; i < 8; i++) all += await agent('part ' + i + '.')\nreturn all\n";

#[test]
fn a_run_that_is_killed_at_any_agent_is_resumed_and_nothing_that_finished_runs_again() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    // The part at which the process is killed; its answer never comes.
    let stuck = Arc::new(AtomicUsize::new(0));
    let asked: Arc<Mutex<Vec<usize>>> = Arc::default();
    let scenario = Scenario::new().responder({
        let (stuck, asked) = (stuck.clone(), asked.clone());
        move |request| {
            let Some(first) = of_run(request) else {
                let told = request.last_user_text();
                let run = told.split("run ").nth(1).filter(|_| told.contains("go on"));
                return match (run, request.last_results().is_empty()) {
                    _ if told.contains("<task-notification>") => {
                        Reply::text(format!("end: {told}"))
                    }
                    (Some(run), true) => {
                        let id = run.split_whitespace().next().unwrap();
                        Reply::tool_use("Workflow", json!({"resumeFromRunId": id}))
                    }
                    (None, true) => Reply::tool_use("Workflow", json!({"script": LONG})),
                    _ => Reply::text("it runs"),
                };
            };
            let part = first.split("part ").nth(1).unwrap();
            let part: usize = part.split('.').next().unwrap().parse().unwrap();
            asked.lock().unwrap().push(part);
            let reply = Reply::text(part.to_string());
            if part == stuck.load(Ordering::SeqCst) {
                return reply.gate(lathe_scripted::Position::Start, format!("stuck {part}"));
            }
            reply
        }
    });
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server).variable("ENABLE_TOOL_SEARCH", "0");
    let mut prompt = "go on".to_owned();
    let mut finished = 0;
    for part in [0, 1, 3, 6, 7] {
        stuck.store(part, Ordering::SeqCst);
        asked.lock().unwrap().clear();
        let arguments = ["-p", &prompt, "--allowedTools", "Workflow", "--continue"];
        let mut running = home.spawn(arguments);
        running.close_stdin();
        let gate = format!("stuck {part}");
        assert!(server.wait_for_gate(&gate, 1, lathe_testkit::HANG_LIMIT));
        running.kill();
        drop(running);
        let asked = asked.lock().unwrap().clone();
        assert_eq!(
            asked,
            (finished..=part).collect::<Vec<_>>(),
            "after {finished} were finished"
        );
        finished = part;
        let run = newest_run(&home);
        prompt = format!("go on with run {run}");
    }
    stuck.store(usize::MAX, Ordering::SeqCst);
    asked.lock().unwrap().clear();
    let arguments = ["-p", &prompt, "--allowedTools", "Workflow", "--continue"];
    let ran = home.run(arguments, "");
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    assert!(ran.stdout.contains("01234567"), "{ran:?}");
    assert_eq!(*asked.lock().unwrap(), [7]);
}

/// The run whose journal is the newest.
fn newest_run(home: &TestHome) -> String {
    let mut runs = Vec::new();
    let projects = home.config().join("projects");
    let sessions = std::fs::read_dir(projects).unwrap().flatten();
    for session in sessions.flat_map(|project| std::fs::read_dir(project.path()).unwrap().flatten())
    {
        let Ok(files) = std::fs::read_dir(session.path().join("subagents")) else {
            continue;
        };
        for file in files.flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let id = name
                .strip_prefix("workflow-")
                .and_then(|it| it.strip_suffix(".js"));
            if let Some(id) = id {
                runs.push((file.metadata().unwrap().modified().unwrap(), id.to_owned()));
            }
        }
    }
    runs.sort();
    runs.pop().unwrap().1
}
