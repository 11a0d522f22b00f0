//! `lathe fleet` on the real binary: jobs, questions, kills, and results.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, Position, RecordedRequest, Reply, Scenario};
use lathe_testkit::{HANG_LIMIT, Running, TestHome, processes};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

fn shell(folder: &Path, script: &str) -> String {
    let output = Command::new("bash")
        .args(["-euc", script])
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn wait(what: &str, mut fine: impl FnMut() -> bool) {
    let until = Instant::now() + HANG_LIMIT;
    while !fine() {
        assert!(Instant::now() < until, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A home with a repository that jobs clone.
struct Stage {
    home: TestHome,
    server: BlockingServer,
    /// Flags that choose the queue.
    queue: Vec<String>,
}

impl Stage {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::of(lathe_testkit::server(replies))
    }

    fn of(server: BlockingServer) -> Self {
        let home = TestHome::with_server(&server).variable("LATHE_MEMORY_EXTRACTION", "off");
        home.write("a.txt", "one\n");
        home.git_init();
        Self {
            home,
            server,
            queue: Vec::new(),
        }
    }

    fn repo(&self) -> String {
        self.home.project().display().to_string()
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        let queue: Vec<&str> = self.queue.iter().map(String::as_str).collect();
        let output = self.home.run([&["fleet"], arguments, &queue].concat(), "");
        assert_eq!(output.code(), Some(0), "{arguments:?}: {output:?}");
        output.stdout
    }

    fn submit(&self, arguments: &[&str]) -> String {
        self.run(&[&["submit"], arguments].concat())
            .trim()
            .to_owned()
    }

    /// A worker that ends when nothing is left to do.
    #[track_caller]
    fn work(&self, arguments: &[&str]) -> String {
        self.run(&[&["worker", "--until-empty"], arguments].concat())
    }

    fn worker(&self, arguments: &[&str]) -> Running {
        let queue: Vec<&str> = self.queue.iter().map(String::as_str).collect();
        self.home
            .spawn([&["fleet", "worker"], arguments, &queue].concat())
    }

    fn show(&self, id: &str) -> Value {
        serde_json::from_str(&self.run(&["show", id, "--json"])).unwrap()
    }

    fn wait_state(&self, id: &str, state: &str) {
        wait(&format!("{id} is {state}"), || {
            self.show(id)["state"] == state
        });
    }

    fn fetched(&self, id: &str) -> PathBuf {
        self.run(&["fetch", id]);
        self.home.project().join("fleet-results").join(id)
    }

    fn last_request(&self) -> String {
        self.server.requests().last().unwrap().body["messages"].to_string()
    }

    /// Checks that the transcript of a finished job is one unbroken chain.
    fn verify(&self, id: &str) {
        let session = self.show(id)["session"].as_str().unwrap().to_owned();
        let file = self.home.root().join(format!("{session}.jsonl"));
        std::fs::copy(self.fetched(id).join("transcript.jsonl"), &file).unwrap();
        let output = self
            .home
            .run(["sessions", "verify", &file.display().to_string()], "");
        assert_eq!(output.code(), Some(0), "{output:?}");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for process in processes::of_home(&self.home) {
            let _ = kill(Pid::from_raw(process.pid.cast_signed()), Signal::SIGKILL);
        }
    }
}

fn write(name: &str, content: &str) -> Reply {
    Reply::tool_use("Write", json!({"file_path": name, "content": content}))
}

fn end(mut worker: Running, signal: Signal) -> lathe_testkit::Output {
    worker.close_stdin();
    // One that had nothing left to do may have ended.
    let _ = kill(Pid::from_raw(worker.pid().cast_signed()), signal);
    worker.finish()
}

#[test]
fn a_job_works_in_a_clone_and_its_result_is_fetched_and_applied() {
    let stage = Stage::new([
        write("new.txt", "fresh\n"),
        Reply::text("the file is written"),
    ]);
    let repo = stage.repo();
    let id = stage.submit(&[
        "write a file",
        "--repo",
        &repo,
        "--permission-mode",
        "acceptEdits",
        "--title",
        "first",
    ]);
    assert!(stage.run(&["ls"]).contains("queued"));
    let report = stage.work(&[]);
    assert!(report.contains(&format!("{id} done")), "{report}");
    assert!(
        !stage.home.project().join("new.txt").exists(),
        "the job has files of its own"
    );
    let shown = stage.show(&id);
    assert_eq!(shown["result"]["text"], "the file is written");
    assert!(shown["costUsd"].as_f64().unwrap() > 0.0);
    let logs = stage.run(&["logs", &id[..6]]);
    assert!(
        logs.contains("> write a file")
            && logs.contains("● Write")
            && logs.contains("the file is written"),
        "{logs}"
    );
    stage.run(&["fetch", &id, "--apply"]);
    assert_eq!(stage.home.read("new.txt"), "fresh\n");
    stage.verify(&id);
    // Nothing is left in the folder for files, and the queue knows the job still.
    let work = stage.home.home().join(".cache/lathe-fleet");
    assert_eq!(std::fs::read_dir(work).unwrap().count(), 0);
    let again = stage
        .home
        .run(["fleet", "submit", "--id", &id, "twice"], "");
    assert!(again.stderr.contains("already exists"), "{again:?}");
    processes::assert_none_left(&stage.home);
}

#[test]
fn jobs_come_from_a_file_with_schemas_orders_and_commits() {
    let commit = "git -c user.name=a -c user.email=a@b commit -qam two";
    let stage = Stage::new([
        Reply::tool_use(
            "Bash",
            json!({"command": format!("echo two >> a.txt && {commit}")}),
        ),
        Reply::text("committed"),
        Reply::tool_use("StructuredOutput", json!({"count": 3})),
        Reply::text("three").optional(),
    ]);
    let repo = stage.repo();
    let jobs = [
        json!({"id": "second", "prompt": "count", "after": ["first"], "schema": {"type": "object",
            "properties": {"count": {"type": "integer"}}, "required": ["count"]}}),
        json!({"id": "first", "prompt": "commit", "repo": repo, "ref": "main", "permissionMode": "acceptEdits",
            "allow": ["Bash"]}),
    ];
    let lines = format!("{}\n{}\n", jobs[0], jobs[1]);
    stage.home.write("jobs.jsonl", &lines);
    assert_eq!(stage.submit(&["-f", "jobs.jsonl"]), "second\nfirst");
    stage.work(&[]);
    assert_eq!(
        stage.show("second")["result"]["structured"],
        json!({"count": 3})
    );
    let folder = stage.fetched("first");
    let bundle = folder.join("changes.bundle").display().to_string();
    let log = shell(
        &stage.home.project(),
        &format!("git fetch -q {bundle} HEAD && git log --format=%s FETCH_HEAD"),
    );
    assert_eq!(log, "two\nstart\n");
    let wrong = stage.home.run(
        ["fleet", "submit", "-f", "-"],
        "{\"prompt\":\"p\",\"colour\":1}\n",
    );
    assert_eq!(wrong.code(), Some(2), "{wrong:?}");
    assert!(
        wrong.stderr.contains("line 1") && wrong.stderr.contains("colour"),
        "{wrong:?}"
    );
}

#[test]
fn a_question_is_answered_from_another_process() {
    let stage = Stage::new([write("b.txt", "x"), Reply::text("written")]);
    let repo = stage.repo();
    let id = stage.submit(&["write", "--repo", &repo]);
    let worker = stage.worker(&[]);
    stage.wait_state(&id, "asking");
    let shown = stage.run(&["show", &id]);
    assert!(
        shown.contains("question") && shown.contains("open"),
        "{shown}"
    );
    let answered = stage.run(&["answer", &id, "allow"]);
    assert!(answered.contains("answered"), "{answered}");
    stage.wait_state(&id, "done");
    assert!(stage.fetched(&id).join("changes.diff").exists());
    let output = end(worker, Signal::SIGTERM);
    assert_eq!(output.code(), Some(0), "{output:?}");
    assert!(output.stdout.contains("1 jobs succeeded"), "{output:?}");
}

#[test]
fn a_job_is_followed_answered_and_talked_to_line_by_line() {
    // It reads on until the words are there.
    let scenario = Scenario::new().responder(|request| {
        let said = Value::from(request.messages().to_vec()).to_string();
        if said.contains("look at c.txt") {
            return Reply::text("looked at it too");
        }
        match request.last_results().is_empty() {
            true => write("b.txt", "x"),
            // Never the same call twice.
            false => {
                let limit = request.messages().len();
                Reply::tool_use("Read", json!({"file_path": "a.txt", "limit": limit}))
            }
        }
    });
    let stage = Stage::of(BlockingServer::start(scenario).unwrap());
    let repo = stage.repo();
    let id = stage.submit(&["write", "--repo", &repo]);
    let worker = stage.worker(&[]);
    stage.wait_state(&id, "asking");
    let mut attached = stage.home.spawn(["fleet", "attach", &id]);
    attached.wait_for_stdout("? y: allow");
    attached.write(b"y\n");
    attached.wait_for_stdout("● Read");
    attached.write(b"and look at c.txt\n");
    attached.wait_for_stdout("(sent)");
    let followed = attached.finish();
    assert_eq!(followed.code(), Some(0), "{followed:?}");
    assert!(
        !followed.stdout.contains("<system-reminder>"),
        "{followed:?}"
    );
    for words in [
        "> write",
        "● Write",
        "and look at c.txt",
        "looked at it too",
    ] {
        assert!(followed.stdout.contains(words), "{words}: {followed:?}");
    }
    stage.wait_state(&id, "done");
    end(worker, Signal::SIGTERM);
}

#[test]
fn the_board_shows_first_what_needs_an_answer_and_gives_it() {
    let stage = Stage::new([write("b.txt", "x"), Reply::text("written")]);
    let repo = stage.repo();
    let id = stage.submit(&["write", "--repo", &repo, "--title", "the asking one"]);
    let worker = stage.worker(&[]);
    stage.wait_state(&id, "asking");
    let mut board = stage.home.terminal(["fleet", "board"], 100, 30);
    board.wait_for("Needs you");
    board.wait_for("the asking one");
    board.wait_for("y allow");
    board.send("y");
    stage.wait_state(&id, "done");
    board.wait_for("Done");
    board.send("q");
    assert_eq!(board.ended().code(), Some(0));
    end(worker, Signal::SIGTERM);
}

#[test]
fn a_parked_job_goes_on_elsewhere_with_its_conversation_and_files() {
    let stage = Stage::new([
        write("b.txt", "from the first worker\n"),
        write("c.txt", "asks\n"),
        write("c.txt", "asks\n"),
        Reply::text("all written"),
    ]);
    let repo = stage.repo();
    let id = stage.submit(&[
        "write two files",
        "--repo",
        &repo,
        "--allow",
        "Write(b.txt)",
    ]);
    stage.work(&["--park-after", "0", "--work", "first"]);
    assert_eq!(stage.show(&id)["state"], "parked");
    assert_eq!(stage.show(&id)["attempt"], 0, "parking is no attempt");
    processes::assert_none_left(&stage.home);
    stage.run(&["answer", &id, "allow"]);
    stage.work(&["--work", "second"]);
    assert_eq!(stage.show(&id)["state"], "done");
    let request = stage.last_request();
    for words in [
        "write two files",
        "continues on a worker",
        "was answered: allowed",
    ] {
        assert!(request.contains(words), "{words}: {request}");
    }
    let diff = std::fs::read_to_string(stage.fetched(&id).join("changes.diff")).unwrap();
    assert!(
        diff.contains("from the first worker") && diff.contains("+asks"),
        "{diff}"
    );
    stage.verify(&id);
}

#[test]
fn a_killed_workers_job_is_restarted_by_another_with_one_transcript() {
    let stage = Stage::new([
        write("b.txt", "kept\n"),
        Reply::text("never seen").gate(Position::Start, "held"),
        Reply::text("finished by the second"),
    ]);
    let repo = stage.repo();
    let id = stage.submit(&[
        "survive",
        "--repo",
        &repo,
        "--permission-mode",
        "acceptEdits",
    ]);
    let first = stage.worker(&["--lease", "2", "--snapshot-every", "0", "--name", "one"]);
    assert!(stage.server.wait_for_gate("held", 1, HANG_LIMIT));
    // The second snapshot from here on was begun after the file was written.
    for _ in 0..2 {
        let before = stage.show(&id)["snapshot"]["at"].clone();
        wait("a snapshot", || stage.show(&id)["snapshot"]["at"] != before);
    }
    end(first, Signal::SIGKILL);
    stage.work(&["--name", "two"]);
    let shown = stage.show(&id);
    assert_eq!(
        (&shown["state"], &shown["epoch"]),
        (&json!("done"), &json!(2)),
        "{shown}"
    );
    assert_eq!(shown["result"]["text"], "finished by the second");
    let request = stage.last_request();
    assert!(
        request.contains("survive") && request.contains("continues on a worker (two)"),
        "{request}"
    );
    let diff = std::fs::read_to_string(stage.fetched(&id).join("changes.diff")).unwrap();
    assert!(diff.contains("+kept"), "{diff}");
    stage.verify(&id);
    processes::assert_none_left(&stage.home);
}

#[test]
fn a_worker_that_is_asked_to_end_hands_its_job_over() {
    let stage = Stage::new([
        Reply::text("never seen").gate(Position::Start, "held"),
        Reply::text("handed over"),
    ]);
    let id = stage.submit(&["go on", "--no-files"]);
    let first = stage.worker(&["--grace", "0"]);
    assert!(stage.server.wait_for_gate("held", 1, HANG_LIMIT));
    let output = end(first, Signal::SIGTERM);
    assert_eq!(output.code(), Some(0), "{output:?}");
    let shown = stage.show(&id);
    assert_eq!(
        (&shown["state"], &shown["attempt"]),
        (&json!("queued"), &json!(0)),
        "{shown}"
    );
    stage.work(&[]);
    assert_eq!(stage.show(&id)["result"]["text"], "handed over");
}

#[test]
fn the_transcripts_of_sub_agents_go_along_to_the_next_worker() {
    let order = json!({"description": "look", "prompt": "look around", "run_in_background": false});
    let stage = Stage::new([
        Reply::tool_use("Agent", order),
        Reply::text("words of the agent"),
        Reply::text("never seen").gate(Position::Start, "held"),
        Reply::text("handed over"),
    ]);
    let id = stage.submit(&["ask an agent", "--no-files"]);
    let first = stage.worker(&["--grace", "0"]);
    assert!(stage.server.wait_for_gate("held", 1, HANG_LIMIT));
    end(first, Signal::SIGTERM);
    let sessions = stage.home.config().join("projects");
    let left = walk(&sessions);
    assert!(left.is_empty(), "the first worker left {left:?}");
    stage.work(&[]);
    assert_eq!(stage.show(&id)["result"]["text"], "handed over");
    let files = walk(&stage.fetched(&id).join("subagents"));
    let words = |end: &str| {
        let file = files
            .iter()
            .find(|file| file.to_string_lossy().ends_with(end));
        std::fs::read_to_string(file.unwrap()).unwrap()
    };
    assert!(words(".jsonl").contains("words of the agent"));
    assert!(words(".meta.json").contains("completed"));
}

/// The files in a folder and below it.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.flat_map(|entry| match entry.path() {
        path if path.is_dir() => walk(&path),
        path => vec![path],
    });
    below.collect()
}

#[test]
fn a_running_job_is_cancelled_and_a_failed_one_is_retried() {
    let stage = Stage::new([
        Reply::text("never seen").gate(Position::Start, "held"),
        Reply::error_with(400, "invalid_request_error", "no such thing"),
        Reply::text("better"),
    ]);
    let id = stage.submit(&["stop me", "--no-files"]);
    let worker = stage.worker(&[]);
    assert!(stage.server.wait_for_gate("held", 1, HANG_LIMIT));
    stage.run(&["cancel", &id]);
    stage.wait_state(&id, "cancelled");
    let id = stage.submit(&["fail", "--no-files", "--retries", "0"]);
    stage.wait_state(&id, "failed");
    let reason = stage.show(&id)["reason"].to_string();
    assert!(reason.contains("no such thing"), "{reason}");
    stage.run(&["retry", &id]);
    stage.wait_state(&id, "done");
    end(worker, Signal::SIGTERM);
    processes::assert_none_left(&stage.home);
}

#[test]
fn secrets_come_from_the_worker_by_name_and_commands_of_a_job_control_no_fleet() {
    let lathe = lathe_testkit::binary::lathe().display().to_string();
    let tries =
        format!("echo \"[$TOKEN] [$OTHER]\"; {lathe} fleet submit evil --no-files --allow Bash");
    let stage = Stage::new([
        Reply::tool_use("Bash", json!({"command": tries})),
        Reply::text("tried"),
    ]);
    let home = &stage.home;
    let id = stage.submit(&[
        "try",
        "--no-files",
        "--allow",
        "Bash",
        "--no-sandbox",
        "--secret",
        "TOKEN",
    ]);
    let refused = stage.submit(&[
        "sandboxed off",
        "--no-files",
        "--no-sandbox",
        "--retries",
        "0",
        "--id",
        "refused",
    ]);
    // A worker without the secret leaves the job alone, and none may switch the sandbox off unless it is allowed.
    let mut plain = home.command(["fleet", "worker", "--class", "default"]);
    plain.env("TOKEN", "t0").env("OTHER", "o0");
    let plain = Running::start(plain);
    stage.wait_state(&refused, "failed");
    assert_eq!(stage.show(&id)["state"], "queued");
    end(plain, Signal::SIGTERM);
    let mut command = home.command([
        "fleet",
        "worker",
        "--until-empty",
        "--secrets",
        "TOKEN,OTHER",
        "--allow-no-sandbox",
    ]);
    command.env("TOKEN", "t0").env("OTHER", "o0");
    let mut worker = Running::start(command);
    worker.close_stdin();
    let output = worker.finish();
    assert_eq!(output.code(), Some(0), "{output:?}");
    let request = stage.last_request();
    assert!(request.contains("[t0] []"), "{request}");
    assert!(
        request.contains("a command of a session can't do this"),
        "{request}"
    );
    assert!(!stage.run(&["ls"]).contains("evil"));
}

const FLOW: &str = "export const meta = { name: 'flow', description: 'x' }
const LIST = { type: 'object', required: ['count'], properties: { count: { type: 'integer' } } }
const [text, list] = await parallel([
  () => agent('write a file', { label: 'writer', isolation: 'worktree', effort: 'low' }),
  () => agent('count them', { schema: LIST }),
])
return { text, list }
";

/// A model for the agents of workflows.
fn flow_answer(request: &RecordedRequest) -> Reply {
    let said = request.messages()[0].to_string();
    let answered = request.messages().len() > 1;
    match (said.contains("write a file"), answered) {
        (true, false) => write("new.txt", "fresh\n"),
        (true, true) => Reply::text("written"),
        (false, false) => Reply::tool_use("StructuredOutput", json!({"count": 3})),
        (false, true) => Reply::text("three"),
    }
}

#[test]
fn agents_of_a_workflow_are_jobs_of_the_fleet_and_their_changes_come_back_as_branches() {
    let scenario = Scenario::new().responder(flow_answer);
    let stage = Stage::of(BlockingServer::start(scenario).unwrap());
    stage.home.write("flow.js", FLOW);
    let worker = stage.worker(&["--slots", "2"]);
    let flow = [
        "--permission-mode",
        "acceptEdits",
        "workflow",
        "run",
        "flow.js",
        "--fleet",
    ];
    let ran = stage.home.run(flow, "");
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(value["list"], json!({"count": 3}), "{ran:?}");
    let text = value["text"].as_str().unwrap();
    let (answer, branch) = text
        .split_once("\n\nIts changes are on the branch ")
        .unwrap();
    assert_eq!(answer, "written");
    let branch = branch.trim_end_matches('.');
    let show = format!("git show {branch}:new.txt; git log --format=%s {branch}");
    assert_eq!(
        shell(&stage.home.project(), &show),
        "fresh\nwriter\nstart\n"
    );
    assert!(!stage.home.project().join("new.txt").exists());
    let listed: Value = serde_json::from_str(&stage.run(&["ls", "--json"])).unwrap();
    let writer = listed.as_array().unwrap().iter();
    let writer = writer
        .clone()
        .find(|it| it["job"]["title"] == "writer")
        .unwrap();
    let job = &writer["job"];
    assert_eq!(
        (&job["effort"], &job["permissionMode"]),
        (&json!("low"), &json!("acceptEdits"))
    );
    end(worker, Signal::SIGTERM);
    processes::assert_none_left(&stage.home);
}

#[test]
fn a_killed_run_of_a_workflow_finds_its_jobs_again_and_the_budget_counts_them() {
    let scenario = Scenario::new().responder(|_| Reply::text("slow").gate(Position::Start, "held"));
    let stage = Stage::of(BlockingServer::start(scenario).unwrap());
    let script = "export const meta = { name: 'two', description: 'x' }\n\
        const first = await agent('first')\nreturn first + (await agent('second').catch((error) => ` (${error.message})`))\n";
    stage.home.write("two.js", script);
    let worker = stage.worker(&[]);
    let killed = stage.home.spawn(["workflow", "run", "two.js", "--fleet"]);
    assert!(stage.server.wait_for_gate("held", 1, HANG_LIMIT));
    let killed = end(killed, Signal::SIGKILL);
    let run = killed.stderr.split("run ").nth(1).unwrap();
    let run = run.lines().next().unwrap().to_owned();
    stage.server.gate("held").release();
    let again = [
        "--max-budget-usd",
        "0.000001",
        "workflow",
        "run",
        "two.js",
        "--fleet",
        "--resume-run",
        &run,
    ];
    let ran = stage.home.run(again, "");
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    assert!(
        ran.stdout
            .contains("slow (the session's budget is used up)"),
        "{ran:?}"
    );
    let listed: Value = serde_json::from_str(&stage.run(&["ls", "--json"])).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["epoch"], 1, "{listed}");
    end(worker, Signal::SIGTERM);
}

/// Many jobs, several workers, and kills: the small form of `scripts/fleet-test`.
#[test]
fn no_job_is_lost_or_done_twice_while_workers_are_killed() {
    let scenario = Scenario::new()
        .keep_requests(false)
        .responder(|_| Reply::text("done"));
    let stage = Stage::of(BlockingServer::start(scenario).unwrap());
    let size = Size {
        jobs: 24,
        workers: 3,
        lease: "2",
    };
    many_jobs(&stage, &size, |_| {});
}

/// How many jobs and workers there are, and how long a silent worker keeps its jobs.
struct Size {
    jobs: usize,
    workers: usize,
    lease: &'static str,
}

/// Runs jobs while workers are killed, with another disturbance at each kill, and checks that nothing is lost.
fn many_jobs(stage: &Stage, size: &Size, mut disturb: impl FnMut(usize)) {
    let names: Vec<String> = (0..size.jobs)
        .map(|number| format!("job-{number}"))
        .collect();
    let job = |name: &String| format!("{}\n", json!({"id": name, "prompt": name, "retries": 3}));
    stage
        .home
        .write("jobs.jsonl", names.iter().map(job).collect::<String>());
    stage.submit(&["-f", "jobs.jsonl"]);
    let start = || stage.worker(&["--lease", size.lease, "--until-empty"]);
    let mut workers: Vec<Running> = (0..size.workers).map(|_| start()).collect();
    // The words of workers that are gone, and of those that work.
    let mut said = String::new();
    let done = |said: &str, workers: &[Running]| {
        let now: String = workers.iter().map(Running::stdout_so_far).collect();
        said.matches(" done\n").count() + now.matches(" done\n").count()
    };
    for kills in 1..=4 {
        wait("progress", || {
            done(&said, &workers) >= kills * size.jobs / 6
        });
        said += &end(workers.remove(0), Signal::SIGKILL).stdout;
        disturb(kills);
        workers.push(start());
    }
    // They end when nothing is left.
    for mut worker in workers {
        worker.close_stdin();
        said += &worker.finish().stdout;
    }
    let listed: Value = serde_json::from_str(&stage.run(&["ls", "--json"])).unwrap();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), size.jobs);
    let mut again = Vec::new();
    for entry in listed {
        assert_eq!(entry["state"], "done", "{entry}");
        let name = entry["job"]["id"].as_str().unwrap();
        let finished = said.matches(&format!("{name} done\n")).count();
        assert!(finished <= 1, "{name} finished {finished} times");
        if entry["epoch"] != 1 {
            again.push(name);
        }
    }
    // Some that ran once, and all that a killed worker had.
    for name in ["job-0", "job-11", "job-23"]
        .into_iter()
        .chain(again.iter().copied())
    {
        let logs = stage.run(&["logs", name]);
        let claims = stage.show(name)["epoch"].as_u64();
        // A worker may be killed between its claim and its first record.
        let begun = logs.matches("(claim ").count() as u64;
        assert!(begun >= 1 && Some(begun) <= claims, "{logs}");
        // Killed between the answer and the end of the job, a worker leaves one that is answered again.
        let answers = logs.matches("\ndone\n").count();
        assert!(answers == 1 || answers > 1 && claims != Some(1), "{logs}");
        stage.verify(name);
    }
    processes::assert_none_left(&stage.home);
}

#[test]
fn the_servers_of_a_fleet_are_a_setting_of_the_user_and_of_no_folder() {
    let stage = Stage::new([]);
    let settings = r#"{"fleet": {"url": "nats://127.0.0.1:1", "credentials": "missing.creds"}}"#;
    stage.home.write(".claude/settings.json", settings);
    stage.run(&["ls"]);
    std::fs::write(stage.home.config().join("settings.json"), settings).unwrap();
    let refused = stage.home.run(["fleet", "ls"], "");
    let expected = if cfg!(feature = "fleet") { 1 } else { 2 };
    assert_eq!(refused.code(), Some(expected), "{refused:?}");
    assert!(refused.stderr.contains("`fleet.url`"), "{refused:?}");
    #[cfg(feature = "fleet")]
    assert!(refused.stderr.contains("missing.creds"), "{refused:?}");
    stage.run(&["ls", "--local"]);
}

/// Three NATS servers that form a cluster.
#[cfg(feature = "fleet")]
mod on_nats {
    use super::*;
    use std::net::TcpListener;
    use std::process::Child;

    fn server_program() -> PathBuf {
        let packages = std::env::var_os("LATHE_TEST_PACKAGES").map_or_else(
            || lathe_testkit::workspace_root().join("target/test-packages"),
            PathBuf::from,
        );
        packages.join("nats/bin/nats-server")
    }

    struct Cluster {
        folder: tempfile::TempDir,
        ports: Vec<u16>,
        nodes: Vec<Child>,
    }

    impl Cluster {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            // Bound together, so that all are different.
            let listeners: Vec<TcpListener> = (0..6)
                .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
                .collect();
            let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
            let ports: Vec<u16> = listeners.iter().map(port).collect();
            drop(listeners);
            let routes: Vec<String> = ports[3..]
                .iter()
                .map(|port| format!("nats://127.0.0.1:{port}"))
                .collect();
            for number in 0..3 {
                let text = format!(
                    "server_name: n{number}\nlisten: 127.0.0.1:{}\njetstream {{ store_dir: {}/n{number}, sync_interval: always }}\n\
                     cluster {{ name: test, listen: 127.0.0.1:{}, routes: [ {} ] }}\n",
                    ports[number],
                    folder.path().display(),
                    ports[number + 3],
                    routes.join(", ")
                );
                std::fs::write(folder.path().join(format!("n{number}.conf")), text).unwrap();
            }
            let mut cluster = Self {
                folder,
                ports,
                nodes: Vec::new(),
            };
            cluster.nodes = (0..3).map(|number| cluster.start(number)).collect();
            cluster
        }

        fn start(&self, number: usize) -> Child {
            let log =
                std::fs::File::create(self.folder.path().join(format!("n{number}.log"))).unwrap();
            Command::new(server_program())
                .arg("-c")
                .arg(self.folder.path().join(format!("n{number}.conf")))
                .stderr(log)
                .spawn()
                .expect("scripts/setup-tests installs nats-server")
        }

        fn kill(&mut self, number: usize) {
            self.nodes[number].kill().unwrap();
            self.nodes[number].wait().unwrap();
            self.nodes[number] = self.start(number);
        }

        fn flags(&self) -> Vec<String> {
            let urls: Vec<String> = self.ports[..3]
                .iter()
                .map(|port| format!("nats://127.0.0.1:{port}"))
                .collect();
            vec!["--nats".to_owned(), urls.join(",")]
        }
    }

    impl Drop for Cluster {
        fn drop(&mut self) {
            for node in &mut self.nodes {
                let _ = node.kill();
                let _ = node.wait();
            }
        }
    }

    #[test]
    fn the_printed_configuration_serves_accounts_that_see_nothing_of_each_other() {
        let stage = Stage::new([]);
        let words = [
            "init",
            "--to",
            "made",
            "--hosts",
            "127.0.0.1",
            "--account",
            "team",
            "--account",
            "other-team",
        ];
        stage.run(&words);
        let made = stage.home.project().join("made");
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = ports.map(|listener| listener.local_addr().unwrap().port());
        let text = std::fs::read_to_string(made.join("127.0.0.1.conf")).unwrap();
        // Only the places are changed, so that it runs beside others here.
        let text = text
            .replace("0.0.0.0:4222", &format!("127.0.0.1:{}", ports[0]))
            .replace("127.0.0.1:8222", &format!("127.0.0.1:{}", ports[1]))
            .replace("/var/lib/nats", &made.join("store").display().to_string());
        std::fs::write(made.join("here.conf"), text).unwrap();
        let mut server = Command::new(server_program())
            .arg("-c")
            .arg(made.join("here.conf"))
            .envs([
                ("NATS_PASSWORD", "first1"),
                ("NATS_PASSWORD_OTHER_TEAM", "second2"),
                ("NATS_ADMIN_PASSWORD", "third3"),
            ])
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let run = |user: &str, words: &[&str]| {
            let url = format!("nats://{user}@127.0.0.1:{}", ports[0]);
            stage
                .home
                .run([&["fleet"], words, &["--nats", &url]].concat(), "")
        };
        wait("the server", || {
            run("team:first1", &["ls"]).code() == Some(0)
        });
        let doctor = run("team:first1", &["doctor"]);
        assert!(!format!("{doctor:?}").contains("first1"), "{doctor:?}");
        // The first account sees how the servers write, another one doesn't.
        let synced = "every write is synced before it is acknowledged";
        assert!(doctor.stdout.contains(synced), "{doctor:?}");
        let other = run("other-team:second2", &["doctor"]);
        let unseen = "✓ fsync: not visible to this account";
        assert!(other.stdout.contains(unseen), "{other:?}");
        let submitted = run(
            "team:first1",
            &["submit", "--id", "ours", "--no-files", "a job"],
        );
        assert_eq!(submitted.code(), Some(0), "{submitted:?}");
        assert!(run("team:first1", &["ls"]).stdout.contains("ours"));
        let other = run("other-team:second2", &["ls"]);
        assert_eq!(
            (other.code(), other.stdout.contains("ours")),
            (Some(0), false),
            "{other:?}"
        );
        let wrong = run("other-team:first1", &["ls"]);
        assert_eq!(wrong.code(), Some(1), "{wrong:?}");
        assert!(wrong.stderr.contains("authorization"), "{wrong:?}");
        let _ = server.kill();
        let _ = server.wait();
    }

    #[test]
    fn no_job_is_lost_or_done_twice_while_workers_and_servers_are_killed() {
        let scenario = Scenario::new()
            .keep_requests(false)
            .responder(|_| Reply::text("done"));
        let mut stage = Stage::of(BlockingServer::start(scenario).unwrap());
        let mut cluster = Cluster::new();
        stage.queue = cluster.flags();
        wait("the cluster", || {
            let flags = stage.queue.iter().map(String::as_str);
            let words = ["fleet", "doctor"].into_iter().chain(flags);
            let output = stage.home.run(words, "");
            output.stdout.contains("3 servers keep each stream")
        });
        let size = Size {
            jobs: 500,
            workers: 10,
            // Longer than the servers need to choose a new leader.
            lease: "20",
        };
        many_jobs(&stage, &size, |kills| {
            if kills == 2 {
                cluster.kill(0);
            }
        });
    }
}
