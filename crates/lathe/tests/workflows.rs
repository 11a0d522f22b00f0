//! Workflows by the command line and in a session.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests assert by panicking, and stand outside of the program"
)]

use lathe_scripted::{BlockingServer, RecordedRequest, Reply, Scenario, Validation};
use lathe_testkit::{TestHome, workspace_root};
use serde_json::{Value, json};
use std::collections::BTreeSet;

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
fn a_run_of_an_edited_script_asks_again_only_what_changed() {
    let script = |second: &str| {
        format!(
            "export const meta = {{ name: 'edited', description: 'x' }}\nreturn (await agent('part one')) + (await agent('{second}')) + (await agent('part three'))\n"
        )
    };
    let scenario = Scenario::new().responder(move |request| {
        let first = request.messages()[0].to_string();
        let told = request.last_user_text();
        if !first.contains("go on") {
            let part = first.split("part ").nth(1).unwrap();
            let part: String = part.chars().take_while(|it| it.is_alphanumeric()).collect();
            return Reply::text(format!("[{part}]"));
        }
        if told.contains("[one][two][three]") {
            let (_, id) = told.split_once("<task-id>").unwrap();
            let (id, _) = id.split_once('<').unwrap();
            let edited = json!({"script": script("part 2"), "resumeFromRunId": id});
            return Reply::tool_use("Workflow", edited);
        }
        if told.contains("<task-notification>") {
            return Reply::text(format!("end: {told}"));
        }
        if request.last_results().is_empty() {
            return Reply::tool_use("Workflow", json!({"script": script("part two")}));
        }
        Reply::text("it runs")
    });
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server).variable("ENABLE_TOOL_SEARCH", "0");
    let ran = home.run(["-p", "go on", "--allowedTools", "Workflow"], "");
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    assert!(ran.stdout.contains("[one][2][three]"), "{ran:?}");
    let requests = server.message_requests();
    let parts: Vec<String> = requests
        .iter()
        .filter_map(of_run)
        .map(|first| {
            let part = first.split("part ").nth(1).unwrap().chars();
            part.take_while(|it| it.is_alphanumeric()).collect()
        })
        .collect();
    assert_eq!(parts, ["one", "two", "three", "2"]);
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

/// The first words of an agent of the run; `None` for the conversation that started it.
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
                    // A process that was killed before the model had answered the result of its call sends both, the result
                    // and the new prompt, in one message.
                    (Some(run), _) => {
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

const AT_ONCE: &str = "export const meta = { name: 'at-once', description: 'x' }\nconst all = await parallel(Array.from({ length: 24 }, (_, i) => () => agent(`part ${i}.`)))\nreturn all.join(' ')\n";

#[test]
fn agents_at_once_that_are_killed_at_any_moment_run_again_only_if_they_had_not_finished() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let part = |request: &RecordedRequest| {
        let first = request.messages()[0].to_string();
        let part = first.split("part ").nth(1).unwrap();
        part.split('.').next().unwrap().to_owned()
    };
    let scenario = Scenario::new().responder(move |request| Reply::text(part(request)));
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    home.write("at-once.js", AT_ONCE);
    let mut line = vec![
        "workflow".to_owned(),
        "run".to_owned(),
        "at-once.js".to_owned(),
    ];
    let mut finished: Vec<String> = Vec::new();
    for _ in 0..4 {
        let asked = server.request_count();
        let mut running = home.spawn(&line);
        running.close_stdin();
        // At a moment of chance after the run has its id, counted in requests and microseconds.
        let until = asked + random.usize(0..8);
        let begun = |running: &lathe_testkit::Running| {
            running.stderr_so_far().contains("run w") && server.request_count() >= until
        };
        let limit = std::time::Instant::now() + lathe_testkit::HANG_LIMIT;
        while !begun(&running) && !running.ended_within(std::time::Duration::from_millis(1)) {
            assert!(std::time::Instant::now() < limit, "seed {seed}");
        }
        let moment =
            std::time::Instant::now() + std::time::Duration::from_micros(random.u64(0..60_000));
        while std::time::Instant::now() < moment {
            std::hint::spin_loop();
        }
        running.kill();
        let _ = running.finish();
        for request in &server.message_requests()[asked..] {
            let part = part(request);
            assert!(!finished.contains(&part), "seed {seed}: {part} ran again");
        }
        let run = newest_run(&home);
        let journal = files_of_runs(&home).remove(&format!("workflow-{run}.jsonl"));
        let journal = String::from_utf8_lossy(&journal.unwrap()).into_owned();
        let now: Vec<String> = journal
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter_map(|line| Some(line["value"].as_str()?.to_owned()))
            .collect();
        assert!(
            finished.iter().all(|part| now.contains(part)),
            "seed {seed}: {now:?}"
        );
        finished = now;
        line.truncate(3);
        line.extend(["--resume-run".to_owned(), run]);
    }
    let asked = server.request_count();
    let ran = home.run(&line, "");
    assert_eq!(ran.code(), Some(0), "seed {seed}: {ran:?}");
    let all: Vec<String> = (0..24).map(|part| part.to_string()).collect();
    assert_eq!(ran.stdout.trim(), all.join(" "), "seed {seed}");
    // The last request of a killed run may arrive after its end, so the rest is counted by its parts.
    let requests = server.message_requests();
    let again: BTreeSet<String> = requests[asked..].iter().map(part).collect();
    assert_eq!(
        again.len(),
        24 - finished.len(),
        "seed {seed}: {finished:?}"
    );
    assert!(
        finished.iter().all(|part| !again.contains(part)),
        "seed {seed}: {again:?}"
    );
}

/// The files beside the transcripts of a home's sessions.
fn beside_transcripts(home: &TestHome) -> Vec<std::fs::DirEntry> {
    let projects = std::fs::read_dir(home.config().join("projects")).unwrap();
    let sessions = projects.flatten().flat_map(|project| {
        let sessions = std::fs::read_dir(project.path()).unwrap();
        sessions.flatten()
    });
    let files = sessions.flat_map(|session| {
        let files = std::fs::read_dir(session.path().join("subagents"));
        files.into_iter().flatten().flatten()
    });
    files.collect()
}

/// The contents of the files of runs, by name.
fn files_of_runs(home: &TestHome) -> std::collections::BTreeMap<String, Vec<u8>> {
    let files = beside_transcripts(home).into_iter();
    let files = files.filter_map(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        let read = name
            .starts_with("workflow-")
            .then(|| std::fs::read(file.path()));
        Some((name, read?.unwrap()))
    });
    files.collect()
}

/// The run whose journal is the newest.
fn newest_run(home: &TestHome) -> String {
    let files = beside_transcripts(home).into_iter();
    let runs = files.filter_map(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        let id = name.strip_prefix("workflow-")?.strip_suffix(".js")?;
        Some((file.metadata().unwrap().modified().unwrap(), id.to_owned()))
    });
    runs.max().unwrap().1
}

/// An answer that fits a schema.
fn object(value: &Value) -> Reply {
    Reply::text(format!("```json\n{value}\n```"))
}

/// Runs a workflow whose agents may do everything.
fn run_with(home: &TestHome, name: &str, args: &str) -> Value {
    let line = [
        "--permission-mode",
        "bypassPermissions",
        "workflow",
        "run",
        name,
        args,
    ];
    let ran = home.run(line, "");
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    serde_json::from_str(ran.stdout.trim()).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn research_keeps_the_claims_that_their_sources_bear_out_and_cites_them() {
    let server = BlockingServer::start(Scenario::new().responder(|request| {
        let said = request.messages()[0].to_string();
        if said.contains("Name three to six different angles") {
            return object(&json!({"angles": ["papers", "users"]}));
        }
        if said.contains("Only from this angle: papers") {
            return object(&json!({"claims": [
                {"claim": "it is slow", "source": "https://a.example", "quote": "slow"},
                {"claim": "it is fast", "source": "https://b.example"},
            ]}));
        }
        if said.contains("Only from this angle: users") {
            // This agent fails; what the others found counts.
            return Reply::error(400);
        }
        if said.contains("Check a claim") {
            let holds = said.contains("Claim: it is slow");
            return object(&json!({"holds": holds, "reason": "I read it"}));
        }
        assert!(said.contains("Use only these claims"), "{said}");
        assert!(
            said.contains("it is slow") && !said.contains("it is fast"),
            "{said}"
        );
        Reply::text("It is slow [https://a.example].")
    }))
    .unwrap();
    let home = TestHome::with_server(&server).variable("IS_SANDBOX", "1");
    let line = ["workflow", "run", "research", "Why is it slow?"];
    let ran = home.run(line, "");
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let (result, dropped) = ran.stdout.split_once("\n\nDropped").unwrap();
    let result: Value = serde_json::from_str(result).unwrap();
    assert_eq!(
        result,
        json!({"report": "It is slow [https://a.example].", "sources": ["https://a.example"], "refuted": 1})
    );
    assert!(dropped.contains("pipeline"), "{dropped}");
}

#[test]
fn migrate_changes_each_place_in_a_worktree_and_has_each_verified() {
    let server = BlockingServer::start(Scenario::new().responder(|request| {
        let said = request.messages()[0].to_string();
        if said.contains("Find every file that this change concerns") {
            assert!(said.contains("Look only here: src"), "{said}");
            return object(&json!({"sites": [
                {"file": "src/a.txt", "what": "old is new"},
                {"file": "src/b.txt", "what": "old is new"},
            ]}));
        }
        if said.contains("Only in the file ") {
            let (_, file) = said.split_once("Only in the file ").unwrap();
            let (file, _) = file.split_once(':').unwrap();
            if request.last_results().is_empty() {
                let command = format!(
                    "sed -i s/old/new/ {file} && git -c user.name=t -c user.email=t@example.com commit -qam 'old is new in {file}' && git branch --show-current"
                );
                return Reply::tool_use("Bash", json!({"command": command}));
            }
            return Reply::text(format!("done on the branch {}", request.last_tool_result()));
        }
        assert!(said.contains("with this report:"), "{said}");
        let good = said.contains("In src/a.txt");
        object(&json!({"good": good, "reason": "I looked"}))
    }))
    .unwrap();
    let home = TestHome::with_server(&server).variable("IS_SANDBOX", "1");
    for file in ["src/a.txt", "src/b.txt"] {
        home.write(file, "old\n");
    }
    home.git_init();
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    let args = r#"{"change": "old becomes new", "where": "src"}"#;
    let result = run_with(&home, "migrate", args);
    assert_eq!(result["failed"], 0, "{result}");
    for (part, file) in [("good", "src/a.txt"), ("bad", "src/b.txt")] {
        let [site] = result[part].as_array().unwrap().as_slice() else {
            panic!("{result}")
        };
        assert_eq!(site["file"], file);
        // The change is on the branch of its worktree, and the project's own files are as they were.
        let report = site["report"].as_str().unwrap();
        let (_, branch) = report.split_once("the branch ").unwrap();
        let branch = branch.split_whitespace().next().unwrap();
        let shown = std::process::Command::new("git")
            .args(["show", &format!("{branch}:{file}")])
            .current_dir(home.project())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&shown.stdout), "new\n", "{report}");
        assert_eq!(home.read(file), "old\n");
    }
}

#[test]
fn review_has_every_finding_refuted_or_confirmed() {
    let server = BlockingServer::start(Scenario::new().responder(|request| {
        let said = request.messages()[0].to_string();
        let finding = |line: u32, summary: &str| {
            json!({"file": "a.rs", "line": line, "summary": summary, "failure_scenario": "x"})
        };
        if said.contains("Look only at correctness") {
            return object(&json!({"findings": [finding(1, "wrong"), finding(2, "odd")]}));
        }
        if said.contains("Look only at safety") {
            // The same place again.
            return object(&json!({"findings": [finding(1, "also wrong")]}));
        }
        if said.contains("Look only at") {
            return object(&json!({"findings": []}));
        }
        let verdict = if said.contains("\\\"line\\\": 1") { "CONFIRMED" } else { "REFUTED" };
        object(&json!({"verdict": verdict, "reason": "I read it"}))
    }))
    .unwrap();
    let home = TestHome::with_server(&server).variable("IS_SANDBOX", "1");
    let result = run_with(&home, "review", "git diff HEAD");
    assert_eq!(result["refuted"], 1, "{result}");
    let [kept] = result["findings"].as_array().unwrap().as_slice() else {
        panic!("{result}")
    };
    assert_eq!(kept["line"], 1);
    assert_eq!(kept["verdict"], "CONFIRMED");
}

/// Bytes that a run with this many agents may take at its peak.
const MOST_MEMORY: u64 = 150 * 1024 * 1024;

#[test]
fn a_run_of_many_agents_stays_within_its_memory() {
    // All that a run may have.
    let agents = 1_000;
    let scenario = Scenario::new()
        .keep_requests(false)
        .validation(Validation::Light)
        .responder(|_| Reply::text("answered"));
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    let script = "export const meta = { name: 'many', description: 'x' }\nconst all = await parallel(Array.from({ length: args }, (_, i) => () => agent(`part ${i}`)))\nreturn all.filter((one) => one === 'answered').length\n";
    home.write(".lathe/workflows/many.js", script);
    let mut running = home.spawn(["workflow", "run", "many", &agents.to_string()]);
    running.close_stdin();
    let ran = running.finish_within(lathe_testkit::HANG_LIMIT * 4);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    assert_eq!(ran.stdout.trim(), agents.to_string(), "{ran:?}");
    println!("{agents} agents: {} bytes at the peak", ran.peak_memory);
    assert!(ran.peak_memory <= MOST_MEMORY, "{} bytes", ran.peak_memory);
}

#[test]
fn a_run_is_shown_paused_saved_and_stopped_in_the_terminal() {
    let script = "export const meta = { name: 'held', description: 'x' }\nphase('Look')\nawait agent('part one', { label: 'a look' })\nphase('Judge')\nreturn await agent('part two', { label: 'the judge' })\n";
    let server = BlockingServer::start(Scenario::new().responder(move |request| {
        let first = request.messages()[0].to_string();
        if first.contains("part one") {
            return Reply::text("looked");
        }
        if first.contains("part two") {
            return Reply::text("never").gate(lathe_scripted::Position::Start, "judging");
        }
        if request.last_user_text().contains("begin it") && request.last_results().is_empty() {
            return Reply::tool_use("Workflow", json!({"script": script}));
        }
        Reply::text("it runs")
    }))
    .unwrap();
    let home = TestHome::with_server(&server).variable("ENABLE_TOOL_SEARCH", "0");
    let mut terminal = home.terminal(["--allowedTools", "Workflow"], 110, 40);
    terminal.wait_for("❯");
    terminal.say("begin it");
    assert!(server.wait_for_gate("judging", 1, lathe_testkit::HANG_LIMIT));
    let run = newest_run(&home);
    terminal.say("/workflows");
    terminal.wait_for("held (running)");
    terminal.wait_for("a look completed");
    terminal.wait_for("the judge running");
    terminal.say(&format!("/workflows pause {run}"));
    terminal.wait_for("starts no further agents");
    terminal.say(&format!("/workflows save {run} kept"));
    terminal.wait_for("Saved as");
    assert_eq!(home.read(".lathe/workflows/kept.js"), script);
    terminal.say(&format!("/workflows stop {run}"));
    terminal.wait_for("Workflow \"held\" was stopped");
    assert!(!terminal.everything().contains("did not answer"));
    terminal.say("/exit");
    assert_eq!(terminal.ended().code(), Some(0));
}
