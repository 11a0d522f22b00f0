//! Teams whose members are processes of their own, on the real binary: messages, tasks, questions, kills.
//!
//! `LATHE_CRASH_TEAMS` says how many teams are killed again and again; `scripts/crash` does it more often. The seed is
//! printed; `LATHE_CRASH_SEED` repeats a run.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, Position, RecordedRequest, Reply, Scenario};
use lathe_testkit::stream_json::StreamJson;
use lathe_testkit::{HANG_LIMIT, Running, TestHome, processes, transcript};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A home whose processes end with the test.
struct Stage {
    home: TestHome,
    server: BlockingServer,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for process in processes::of_home(&self.home) {
            let _ = kill(Pid::from_raw(process.pid.cast_signed()), Signal::SIGKILL);
        }
    }
}

#[track_caller]
fn wait(what: &str, mut fine: impl FnMut() -> bool) {
    let until = Instant::now() + HANG_LIMIT;
    while !fine() {
        assert!(Instant::now() < until, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Stage {
    fn new(
        mode: &str,
        responder: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let server = BlockingServer::start(Scenario::new().responder(responder)).unwrap();
        let home = TestHome::with_server(&server)
            .variable("TERM", "xterm-256color")
            .variable("IS_SANDBOX", "1")
            .variable("LATHE_PROMPT_SUGGESTIONS", "0")
            .variable("LATHE_MEMORY_EXTRACTION", "off");
        let settings = json!({"teammateMode": mode});
        home.write(home.config().join("settings.json"), settings.to_string());
        Self { home, server }
    }

    fn file(&self, path: &str) -> PathBuf {
        self.home.config().join(path)
    }

    fn json(&self, path: &str) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(self.file(path)).ok()?).ok()
    }

    fn member(&self, name: &str) -> Value {
        let config = self.json("teams/crew/config.json").unwrap_or_default();
        let members = config["members"].as_array().cloned().unwrap_or_default();
        let mut members = members.into_iter();
        members
            .find(|member| member["name"] == name)
            .unwrap_or_default()
    }

    fn pid(&self, name: &str) -> Option<Pid> {
        let pid = self.member(name)["process"]["pid"].as_i64()?;
        Some(Pid::from_raw(i32::try_from(pid).ok()?))
    }

    /// The messages of an inbox.
    fn inbox(&self, name: &str) -> Vec<Value> {
        let file = self.file(&format!("teams/crew/inboxes/{name}.jsonl"));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Those of them that were not delivered.
    fn unread(&self, name: &str) -> Vec<String> {
        let mark = self.json(&format!("teams/crew/inboxes/{name}.read"));
        let mark = mark.unwrap_or_default();
        let offset = usize::try_from(mark["offset"].as_u64().unwrap_or(0)).unwrap();
        let also = mark["also"].to_string();
        let file = self.file(&format!("teams/crew/inboxes/{name}.jsonl"));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let rest = text.get(offset..).unwrap_or_default().lines();
        let ids = rest.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        ids.map(|message| message["id"].as_str().unwrap().to_owned())
            .filter(|id| !also.contains(id.as_str()))
            .collect()
    }

    fn kinds(&self, name: &str) -> Vec<String> {
        let inbox = self.inbox(name);
        let kinds = inbox.iter().map(|it| it["kind"].as_str().unwrap());
        kinds.map(str::to_owned).collect()
    }
}

/// The member whose request it is; `None` for the leader.
fn member_of(request: &RecordedRequest) -> Option<&'static str> {
    let system = request.system_text();
    ["ana", "ben"]
        .into_iter()
        .find(|name| system.contains(&format!("You are {name}, a member of the team crew")))
}

fn agent(name: &str, more: &Value) -> Value {
    let mut input = json!({
        "description": format!("work of {name}"), "prompt": format!("begin, {name}"),
        "name": name, "team_name": "crew",
    });
    if let (Some(input), Some(more)) = (input.as_object_mut(), more.as_object()) {
        input.extend(more.clone());
    }
    input
}

fn send(to: &str, message: &Value) -> Value {
    json!({"to": to, "message": message, "summary": "a message"})
}

/// How many answers the model has given since the newest words.
fn step(request: &RecordedRequest) -> usize {
    let messages = request.messages();
    // After a kill, the results of open calls and new words come in one message.
    let says = |block: &Value| {
        let text = block["text"].as_str();
        text.is_some_and(|text| !text.trim_start().starts_with("<system-reminder>"))
    };
    let newest = messages.iter().rposition(|message| {
        let content = &message["content"];
        let has_words = content.is_string()
            || content
                .as_array()
                .is_some_and(|blocks| blocks.iter().any(says));
        message["role"] == "user" && has_words
    });
    let after = messages.iter().skip(newest.unwrap_or(0));
    after.filter(|it| it["role"] == "assistant").count()
}

fn text_of(request: &RecordedRequest) -> String {
    Value::from(request.messages().to_vec()).to_string()
}

/// Answers a question of the host's session.
fn reply(session: &mut StreamJson, question: &Value, response: &Value) {
    session.send(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": question["request_id"], "response": response}}));
}

#[test]
fn a_member_is_a_process_that_works_from_the_list_and_asks_its_leader_who_keeps_the_rule() {
    let stage = Stage::new("process", |request| {
        let touch = |file: &str| json!({"command": format!("touch {file}")});
        match (member_of(request), step(request)) {
            (Some(_), 0) if text_of(request).contains("once more") => {
                Reply::tool_use("Bash", touch("third"))
            }
            (Some(_), 0) => Reply::tool_use("Bash", touch("first"))
                .with_tool_use("TeamCreate", json!({"team_name": "mine"}))
                .with_tool_use("SendMessage", send("ana", &json!("myself")))
                .with_tool_use(
                    "SendMessage",
                    send("main", &json!({"type": "plan_approval_response", "request_id": "p1", "approve": true})),
                )
                .with_tool_use(
                    "SendMessage",
                    send("main", &json!({"type": "permission_response", "request_id": "p1", "approve": true})),
                )
                .with_tool_use("TaskUpdate", json!({"taskId": "1", "status": "in_progress"})),
            (Some(_), 1) if !text_of(request).contains("once more") => {
                // By the rule that the leader has now.
                Reply::tool_use("Bash", touch("first"))
                    .with_tool_use("TaskUpdate", json!({"taskId": "1", "status": "completed"}))
                    .with_tool_use("SendMessage", send("main", &json!("both are made")))
            }
            (Some(_), _) => Reply::text("ana is done"),
            (None, _) if request.last_user_text().contains("<team-message") => Reply::text("noted"),
            (None, 0) if request.last_user_text().contains("wake ana") => {
                Reply::tool_use("SendMessage", send("ana", &json!("once more")))
            }
            (None, 0) => Reply::tool_use("TeamCreate", json!({"team_name": "crew"})),
            (None, 1) if text_of(request).contains("make a team") && !text_of(request).contains("wake ana") => {
                Reply::tool_use("TaskCreate", json!({"subject": "one"}))
                    .with_tool_use("Agent", agent("ana", &json!({})))
            }
            (None, _) => Reply::text("said"),
        }
    });
    let mut leader = StreamJson::start(&stage.home, ["--permission-prompt-tool", "stdio"]);
    leader.prompt("make a team");
    let is_question = |frame: &Value| {
        frame["type"] == "control_request" && frame["request"]["subtype"] == "can_use_tool"
    };
    let question = leader.wait_for(is_question);
    let request = &question["request"];
    assert_eq!(request["tool_name"], "Bash", "{question}");
    assert_eq!(request["agent_name"], "ana", "{question}");
    assert_eq!(request["agent_color"], "blue", "{question}");
    let ana = stage.pid("ana").unwrap();
    assert_ne!(ana.as_raw().cast_unsigned(), leader.running().pid());
    assert!(!stage.home.project().join("first").exists());
    // A rule for this session of the leader: the member has none.
    let rule = json!([{"type": "addRules", "behavior": "allow", "destination": "session",
        "rules": [{"toolName": "Bash", "ruleContent": "touch first"}]}]);
    reply(
        &mut leader,
        &question,
        &json!({"behavior": "allow", "updatedInput": request["input"], "updatedPermissions": rule}),
    );
    wait("ana is idle", || stage.member("ana")["state"] == "idle");
    assert!(stage.home.project().join("first").exists());
    let kinds = stage.kinds("team-lead");
    let asked = kinds.iter().filter(|kind| *kind == "permission_request");
    assert_eq!(asked.count(), 2, "the member asks again: {kinds:?}");
    assert!(kinds.contains(&"message".to_owned()), "{kinds:?}");
    assert!(
        !kinds.contains(&"permission_response".to_owned()),
        "{kinds:?}"
    );
    let answers = stage.inbox("ana").into_iter();
    let mut answers = answers.filter(|it| it["kind"] == "permission_response");
    assert!(answers.all(|it| it["from"] == "team-lead"));
    assert_eq!(kinds.last().unwrap(), "idle_notification", "{kinds:?}");
    assert_eq!(stage.kinds("ana")[0], "message");
    let task = stage.json("tasks/crew/1.json").unwrap();
    assert_eq!(task["owner"], "ana");
    assert_eq!(task["status"], "completed");
    // A message wakes it in the process that it has; what it may not do, it may not do there either.
    leader.prompt("wake ana");
    let question = leader.wait_for(is_question);
    assert_eq!(question["request"]["input"]["command"], "touch third");
    reply(
        &mut leader,
        &question,
        &json!({"behavior": "deny", "message": "not that"}),
    );
    wait("ana is idle again", || {
        stage.member("ana")["state"] == "idle"
            && stage
                .kinds("team-lead")
                .iter()
                .filter(|it| *it == "idle_notification")
                .count()
                == 2
    });
    assert_eq!(stage.pid("ana"), Some(ana));
    assert!(!stage.home.project().join("third").exists());
    let requests = stage.server.message_requests();
    let of_ana = requests.iter().rfind(|it| member_of(it).is_some()).unwrap();
    let seen = text_of(of_ana);
    for refusal in [
        "Members of a team don't have TeamCreate",
        "That is you.",
        "Only the leader approves plans",
        "not that",
    ] {
        assert!(seen.contains(refusal), "{refusal}: {seen}");
    }
    wait("everything is read", || {
        stage.unread("team-lead").is_empty() && stage.unread("ana").is_empty()
    });
    assert_eq!(leader.close().code(), Some(0));
    processes::assert_none_left(&stage.home);
}

#[test]
fn members_end_with_a_leader_that_is_killed_and_continue_when_it_is_resumed() {
    let stage = Stage::new("process", |request| {
        match (member_of(request), step(request)) {
            (Some("ana"), _) if text_of(request).contains("are you there") => {
                Reply::text("I am back")
            }
            (Some("ana"), 0) => Reply::tool_use(
                "TaskUpdate",
                json!({"taskId": "1", "status": "in_progress"}),
            ),
            (Some("ana"), _) => Reply::text("never").gate(Position::Start, "stuck"),
            (None, _) if request.last_user_text().contains("<team-message") => Reply::text("noted"),
            (None, 0) if request.last_user_text().contains("wake ana") => {
                Reply::tool_use("SendMessage", send("ana", &json!("are you there?")))
            }
            (None, 0) => Reply::tool_use("TeamCreate", json!({"team_name": "crew"})),
            (None, 1) if !text_of(request).contains("wake ana") => {
                Reply::tool_use("TaskCreate", json!({"subject": "one"}))
                    .with_tool_use("Agent", agent("ana", &json!({})))
            }
            _ => Reply::text("said"),
        }
    });
    let id = uuid();
    let leader = begin(&stage, &id, "make a team", false);
    assert!(stage.server.wait_for_gate("stuck", 1, HANG_LIMIT));
    assert_eq!(stage.json("tasks/crew/1.json").unwrap()["owner"], "ana");
    // Nobody else leads it meanwhile, and nobody is the member a second time.
    let second = stage.home.run(["-p", "hello", "--resume", &id], "");
    assert!(
        second.stderr.contains("open in another process"),
        "{second:?}"
    );
    let twice = stage.home.run(["--bg", "--team-member", "crew/ana"], "");
    assert_eq!(twice.code(), Some(2), "{twice:?}");
    assert!(twice.stderr.contains("already runs"), "{twice:?}");
    leader.kill();
    drop(leader);
    processes::assert_none_left(&stage.home);
    let alone = stage.home.run(["--bg", "--team-member", "crew/ana"], "");
    assert!(alone.stderr.contains("has no running leader"), "{alone:?}");
    let session = stage.member("ana")["process"]["sessionId"].clone();
    let resumed = begin(&stage, &id, "wake ana", true).finish_within(HANG_LIMIT);
    assert_eq!(resumed.code(), Some(0), "{resumed:?}");
    assert!(
        resumed.stderr.contains("team crew is taken up"),
        "{resumed:?}"
    );
    assert_eq!(stage.member("ana")["process"]["sessionId"], session);
    let task = stage.json("tasks/crew/1.json").unwrap();
    assert_eq!(task["owner"], Value::Null, "{task}");
    let requests = stage.server.message_requests();
    let of_ana = requests.iter().rfind(|it| member_of(it).is_some()).unwrap();
    let seen = text_of(of_ana);
    assert_eq!(
        seen.matches("begin, ana").count(),
        1,
        "it knows its order: {seen}"
    );
    assert_eq!(seen.matches("are you there").count(), 1, "{seen}");
    processes::assert_none_left(&stage.home);
}

fn uuid() -> String {
    let random = fastrand::u128(..).to_be_bytes();
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{}-{}-4{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

/// Begins or resumes the leader's session.
fn begin(stage: &Stage, id: &str, words: &str, resume: bool) -> Running {
    let which = if resume { "--resume" } else { "--session-id" };
    let arguments = [
        "-p",
        words,
        which,
        id,
        "--permission-mode",
        "bypassPermissions",
    ];
    let mut running = stage.home.spawn(arguments);
    running.close_stdin();
    running
}

#[test]
fn the_pane_of_tmux_shows_a_member() {
    let stage = Stage::new("tmux", |request| {
        match (member_of(request), step(request)) {
            // It works until it was seen.
            (Some(_), 0) => Reply::text("shown in the pane").with_tool_use(
                "Bash",
                json!({"command": "while [ ! -e seen ]; do sleep 0.02; done"}),
            ),
            (Some(_), _) => Reply::text("done"),
            (None, _) if request.last_user_text().contains("<team-message") => Reply::text("noted"),
            (None, 0) => Reply::tool_use("TeamCreate", json!({"team_name": "crew"})),
            (None, 1) => Reply::tool_use("Agent", agent("ana", &json!({}))),
            _ => Reply::text("said"),
        }
    });
    let sockets = stage.home.root().join("tmux");
    std::fs::create_dir_all(&sockets).unwrap();
    let tmux = |words: &[&str]| {
        let mut command = std::process::Command::new("tmux");
        command.args(words);
        stage.home.dress(&mut command);
        command.env("TMUX_TMPDIR", &sockets);
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut command = stage.home.command([
        "-p",
        "make a team",
        "--permission-mode",
        "bypassPermissions",
        "--verbose",
    ]);
    command.env("TMUX_TMPDIR", &sockets);
    let mut leader = Running::start(command);
    leader.close_stdin();
    wait("the pane", || {
        tmux(&["capture-pane", "-p", "-t", "lathe-crew"]).contains("shown in the pane")
    });
    let started = tmux(&[
        "list-panes",
        "-t",
        "lathe-crew",
        "-F",
        "#{pane_start_command}",
    ]);
    assert!(started.contains("attach crew/ana"), "{started}");
    stage.home.write("seen", "");
    let output = leader.finish_within(HANG_LIMIT);
    assert_eq!(output.code(), Some(0), "{output:?}");
    wait("the pane is closed", || tmux(&["list-sessions"]).is_empty());
    assert_eq!(stage.member("ana")["backend"], "tmux");
    tmux(&["kill-server"]);
    processes::assert_none_left(&stage.home);
}

#[test]
fn what_a_member_spends_counts_to_the_budget_of_its_leader_which_stops_it() {
    let stage = Stage::new("process", |request| {
        match (member_of(request), step(request)) {
            (Some(_), 0) => {
                Reply::tool_use("Bash", json!({"command": "true"})).usage("input_tokens", 2_000_000)
            }
            (Some(_), _) => Reply::text("never").gate(Position::Start, "spent"),
            (None, 0) => Reply::tool_use("TeamCreate", json!({"team_name": "crew"})),
            (None, 1) => Reply::tool_use("Agent", agent("ana", &json!({}))),
            _ => Reply::text("said"),
        }
    });
    let arguments = [
        "-p",
        "make a team",
        "--max-session-tokens",
        "1000000",
        "--permission-mode",
        "bypassPermissions",
    ];
    let mut leader = stage.home.spawn(arguments);
    leader.close_stdin();
    let ended = leader.finish_within(HANG_LIMIT);
    let said = "budget is used up, so ana is stopped";
    assert!(ended.stderr.contains(said), "{ended:?}");
    assert_eq!(
        stage.server.gate("spent").reached(),
        0,
        "it asks nothing more"
    );
    processes::assert_none_left(&stage.home);
}

#[test]
fn a_member_asks_where_it_is_when_its_leader_can_not_be_reached() {
    let stage = Stage::new("process", |request| {
        match (member_of(request), step(request)) {
            (Some(_), 0) => Reply::tool_use("Bash", json!({"command": "touch made"}))
                .gate(Position::Start, "order"),
            (None, _) if request.last_user_text().contains("<team-message") => Reply::text("noted"),
            (None, 0) => Reply::tool_use("TeamCreate", json!({"team_name": "crew"})),
            (None, 1) => Reply::tool_use("Agent", agent("ana", &json!({}))),
            _ => Reply::text("said"),
        }
    });
    let mut leader = StreamJson::start(&stage.home, ["--permission-prompt-tool", "stdio"]);
    leader.prompt("make a team");
    assert!(stage.server.wait_for_gate("order", 1, HANG_LIMIT));
    let member = stage.home.terminal(["attach", "crew/ana"], 100, 30);
    member.wait_for("Waiting for the model");
    // Its inbox can't be written.
    let inbox = stage.file("teams/crew/inboxes/team-lead.jsonl");
    std::fs::create_dir_all(&inbox).unwrap();
    stage.server.gate("order").release();
    member.wait_for("touch made");
    member.wait_for("Yes");
    assert!(!stage.home.project().join("made").exists());
    member.send("1");
    wait("the file", || stage.home.project().join("made").exists());
    std::fs::remove_dir(&inbox).unwrap();
    drop(member);
    assert_eq!(leader.close().code(), Some(0));
    processes::assert_none_left(&stage.home);
}

/// Kills of one team; with it, its leader is started once more than that.
const KILLS: usize = 2;
/// Tasks of the list.
const TASKS: usize = 6;

/// A member takes a task, writes to the other and the leader, and finishes the task; it does so for every message.
fn crew(request: &RecordedRequest) -> Reply {
    let text = request.last_user_text();
    match (member_of(request), step(request)) {
        (Some(name), 0) => {
            let number = text_of(request).matches("<team-message").count() % TASKS + 1;
            let id = number.to_string();
            let other = if name == "ana" { "ben" } else { "ana" };
            let reply = Reply::text("So.")
                .with_tool_use("TaskUpdate", json!({"taskId": id, "status": "in_progress"}));
            // The words of the leader are passed on; those that were passed on are not.
            if text.contains("from=\"team-lead\"") {
                reply
                    .with_tool_use("SendMessage", send(other, &json!("passed on")))
                    .with_tool_use("SendMessage", send("main", &json!("I begin")))
            } else {
                reply
            }
        }
        (Some(_), 1) => {
            let number = text_of(request).matches("<team-message").count() % TASKS + 1;
            Reply::tool_use(
                "TaskUpdate",
                json!({"taskId": number.to_string(), "status": "completed"}),
            )
        }
        (Some(_), _) => Reply::text("done"),
        // What waited for the leader comes with the user's words.
        (None, 0) if text.contains("go on") => {
            Reply::tool_use("SendMessage", send("*", &json!("the next one")))
                .with_tool_use("SendMessage", send("ana", &json!("and this")))
        }
        (None, _) if text.contains("<team-message") => Reply::text("noted"),
        (None, 0) => Reply::tool_use("TeamCreate", json!({"team_name": "crew"})),
        (None, 1) if !text_of(request).contains("go on") => {
            let mut reply = Reply::text("So.");
            for number in 0..TASKS {
                reply =
                    reply.with_tool_use("TaskCreate", json!({"subject": format!("task {number}")}));
            }
            reply
                .with_tool_use("Agent", agent("ana", &json!({})))
                .with_tool_use("Agent", agent("ben", &json!({})))
        }
        _ => Reply::text("said"),
    }
}

/// Every message is in its recipient's transcript once, or waits in the inbox; every task is somebody's or free.
fn check(stage: &Stage, seed: u64) {
    let files = transcript::of_home(&stage.home);
    let whole = |id: &str| -> usize {
        let found = files.iter().map(|file| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            text.lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                .filter(|record| record["type"] == "user")
                .map(|record| record["message"]["content"].to_string())
                .map(|content| {
                    content
                        .matches(&format!("<team-message id=\\\"{id}"))
                        .count()
                })
                .sum::<usize>()
        });
        found.sum()
    };
    for name in ["team-lead", "ana", "ben"] {
        let unread = stage.unread(name);
        for message in stage.inbox(name) {
            let id = message["id"].as_str().unwrap();
            let is_for_program = message["kind"].as_str().unwrap().starts_with("permission");
            if is_for_program {
                continue;
            }
            let delivered = whole(id);
            let waits = unread.iter().any(|it| it == id);
            assert!(
                delivered == 1 || (delivered == 0 && waits),
                "seed {seed}: {message} was delivered {delivered} time(s), waits: {waits}"
            );
        }
    }
    for number in 1..=TASKS {
        let Some(task) = stage.json(&format!("tasks/crew/{number}.json")) else {
            panic!("seed {seed}: task {number} is lost");
        };
        if task["status"] == "in_progress" {
            let owner = task["owner"].as_str();
            assert!(owner.is_some(), "seed {seed}: nobody owns {task}");
        }
    }
}

/// The leader has made the team with its members.
fn is_made(stage: &Stage) -> bool {
    let made = stage.member("ben")["process"]["begun"].is_string();
    made && stage.file(&format!("tasks/crew/{TASKS}.json")).exists()
}

fn kill_again_and_again(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = Stage::new("process", crew);
    let id = uuid();
    let mut leader = begin(&stage, &id, "make a team", false);
    wait("the team", || is_made(&stage));
    let mut asked = stage.server.request_count();
    for _ in 0..KILLS {
        // At a moment of chance, counted in requests and microseconds.
        let until = asked + random.usize(0..8);
        let limit = Instant::now() + Duration::from_secs(20);
        while stage.server.request_count() < until
            && !leader.ended_within(Duration::from_millis(1))
            && Instant::now() < limit
        {}
        let moment = Instant::now() + Duration::from_micros(random.u64(0..20_000));
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        let target = match random.u8(0..3) {
            0 => None,
            1 => stage.pid("ana"),
            _ => stage.pid("ben"),
        };
        match target {
            // A member that runs: only then the number is its own.
            Some(pid) if !leader.ended_within(Duration::ZERO) => {
                let _ = kill(pid, Signal::SIGKILL);
                if random.bool() {
                    leader.kill();
                }
            }
            _ => leader.kill(),
        }
        let ended = leader.finish_within(HANG_LIMIT);
        assert_ne!(ended.code(), Some(1), "seed {seed}: {ended:?}");
        processes::assert_none_left(&stage.home);
        check(&stage, seed);
        asked = stage.server.request_count();
        leader = begin(&stage, &id, "go on", true);
    }
    let ended = leader.finish_within(HANG_LIMIT);
    assert_eq!(ended.code(), Some(0), "seed {seed}: {ended:?}");
    processes::assert_none_left(&stage.home);
    check(&stage, seed);
    // The last run reached everybody: nothing that was sent in it waits.
    for name in ["ana", "ben"] {
        let unread = stage.unread(name);
        assert!(
            unread.is_empty(),
            "seed {seed}: {name} did not get {unread:?}: {ended:?} {}",
            stage.member(name)
        );
    }
}

#[test]
fn teams_that_are_killed_at_any_moment_lose_no_message_and_no_task() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("LATHE_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    let teams = number("LATHE_CRASH_TEAMS").unwrap_or(1);
    println!("LATHE_CRASH_SEED={seed}");
    for team in 0..teams {
        kill_again_and_again(seed.wrapping_add(team));
    }
}
