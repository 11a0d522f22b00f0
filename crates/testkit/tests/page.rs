//! The page in a real browser, over a real server and real sessions.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, Position, RecordedRequest, Reply, Scenario};
use lathe_testkit::browser::Browser;
use lathe_testkit::{HANG_LIMIT, Running, TestHome, processes};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A home with a server and sessions that end with the test.
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

const FLOW: &str = "export const meta = { name: 'flow', description: 'two steps' }
phase('Look')
await agent('flow part one', { label: 'first look' })
phase('Judge')
return await agent('flow part two', { label: 'the judge' })
";

/// A model that does what the prompt says.
fn respond(request: &RecordedRequest) -> Reply {
    let said = request.last_user_text();
    let first = request.messages()[0].to_string();
    if first.contains("flow part one") {
        return Reply::text("looked");
    }
    if first.contains("flow part two") {
        return Reply::text("judged").gate(Position::Start, "judging");
    }
    if said.contains("run a flow") && request.last_results().is_empty() {
        return Reply::tool_use("Workflow", json!({"script": FLOW}));
    }
    if !request.last_results().is_empty() {
        return Reply::text(format!("The result was: {}", request.last_tool_result()));
    }
    let command = |text: &str| Reply::tool_use("Bash", json!({"command": text}));
    if said.contains("make a file") {
        command("touch made")
    } else if said.contains("remove it") {
        command("rm made")
    } else if said.contains("sleep long") {
        command("sleep 600")
    } else {
        let first = said.lines().next().unwrap_or_default();
        Reply::text(format!("**Heard**: {first}"))
    }
}

impl Stage {
    fn new() -> Self {
        let server = BlockingServer::start(Scenario::new().responder(respond)).unwrap();
        let home = TestHome::with_server(&server)
            .variable("TERM", "xterm-256color")
            .variable("ENABLE_TOOL_SEARCH", "0")
            .variable("LATHE_PROMPT_SUGGESTIONS", "0")
            .variable("LATHE_SESSION_TITLES", "0")
            .variable("LATHE_MEMORY_EXTRACTION", "off");
        let begun = home.run(["--bg", "begin", "--allowedTools", "Bash(sleep:*)"], "");
        assert_eq!(begun.code(), Some(0), "{begun:?}");
        Self { home, server }
    }

    fn serve(&self, port: u16) -> (Running, String) {
        let port = port.to_string();
        let serving = self.home.spawn(["serve", "--port", &port]);
        serving.wait_for_stdout("open the page");
        let said = serving.stdout_so_far();
        let (_, rest) = said.split_once("serving ").unwrap();
        (serving, rest.lines().next().unwrap().trim().to_owned())
    }

    /// The link of `lathe web`.
    fn link(&self) -> String {
        let printed = self.home.run(["web", "--print"], "").stdout;
        printed.lines().next().unwrap().to_owned()
    }

    fn has(&self, name: &str) -> bool {
        self.home.project().join(name).exists()
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

fn state(browser: &Browser, wanted: &str) {
    browser.wait(&format!(
        "document.getElementById('state').textContent === {}",
        json!(wanted)
    ));
}

fn click(browser: &Browser, selector: &str) {
    browser.run(&format!(
        "document.querySelector({}).click()",
        json!(selector)
    ));
}

#[test]
fn the_jobs_of_the_fleet_are_seen_and_answered_on_the_page() {
    let stage = Stage::new();
    let (_serving, _) = stage.serve(0);
    let home = &stage.home;
    let words = [
        "fleet",
        "submit",
        "--id",
        "ask-me",
        "--no-sandbox",
        "make a file",
    ];
    assert_eq!(home.run(words, "").code(), Some(0));
    let _worker = home.spawn(["fleet", "worker", "--allow-no-sandbox"]);
    let browser = Browser::start();
    browser.open(&stage.link());
    browser.wait("document.querySelector('#sessions button')");
    click(&browser, "#jobs");
    browser.wait_text("1 jobs · 1 workers");
    browser.wait("document.querySelector('#fleet-jobs [data-id=ask-me] .yes')");
    assert!(!stage.has("made"));
    click(&browser, "#fleet-jobs [data-id=ask-me] .yes");
    browser.wait("document.querySelector('#fleet-jobs [data-id=ask-me] .badge.done')");
    assert!(stage.has("made"));
    let shown = home.run(["fleet", "logs", "ask-me"], "").stdout;
    assert!(shown.contains("allowed by browser"), "{shown}");
}

#[test]
fn a_real_session_is_used_from_the_page() {
    let stage = Stage::new();
    let (serving, address) = stage.serve(0);
    let browser = Browser::start();
    browser.open(&stage.link());
    browser.wait("document.querySelector('#sessions button')");
    click(&browser, "#sessions button");
    // Open, stream.
    browser.wait_text("Heard: begin");
    browser.type_prompt("hello from the page");
    browser.wait_text("Heard: hello from the page");
    // Approve: the session's own question, and its effect.
    browser.type_prompt("make a file");
    browser.wait("document.querySelector('.question .yes')");
    assert!(!stage.has("made"));
    click(&browser, ".question .yes");
    wait("the file", || stage.has("made"));
    browser.wait_text("Allowed by");
    state(&browser, "idle");
    // Deny with words: they reach the model.
    browser.type_prompt("remove it");
    browser.wait("document.querySelector('.question input[type=text]')");
    browser.run("document.querySelector('.question input[type=text]').value = 'keep it, please'; [...document.querySelectorAll('.question button')].find(b => b.textContent === 'No').click()");
    browser.wait("[...document.querySelectorAll('#log .assistant')].some(it => it.textContent.includes('keep it, please'))");
    assert!(stage.has("made"));
    state(&browser, "idle");
    // Interrupt.
    browser.type_prompt("sleep long");
    browser.wait("!document.getElementById('interrupt').hidden");
    wait("the command", || {
        processes::of_home(&stage.home)
            .iter()
            .any(|process| process.command.contains("sleep 600"))
    });
    click(&browser, "#interrupt");
    state(&browser, "idle");
    wait("the end of the command", || {
        processes::of_home(&stage.home)
            .iter()
            .all(|process| !process.command.contains("sleep 600"))
    });
    // Upload.
    browser.run("const files = new DataTransfer(); files.items.add(new File(['uploaded words'], 'notes.txt')); const input = document.getElementById('attach'); input.files = files.files; input.dispatchEvent(new Event('change'));");
    browser.wait("document.querySelector('#files li')");
    browser.type_prompt("read what I attached");
    browser.wait_text("_notes.txt");
    state(&browser, "idle");
    workflow_is_a_tree(&stage, &browser);
    restarted(&stage, &browser, serving, &address);
}

/// A run of a workflow is shown by phase and agent while it works.
fn workflow_is_a_tree(stage: &Stage, browser: &Browser) {
    browser.type_prompt("run a flow");
    browser.wait("document.querySelector('.question .yes')");
    click(browser, ".question .yes");
    browser.wait("[...document.querySelectorAll('#agents .phase')].map(it => it.textContent).join() === 'Look,Judge'");
    browser.wait("[...document.querySelectorAll('#agents ul ul .task.completed')].some(it => it.textContent.includes('first look'))");
    browser.wait("[...document.querySelectorAll('#agents ul ul .task.running')].some(it => it.textContent.includes('the judge'))");
    stage.server.gate("judging").release();
    browser.wait("document.getElementById('agents').hidden");
    state(browser, "idle");
}

/// A server that was killed: the page comes back by itself, and nothing is lost or doubled.
fn restarted(stage: &Stage, browser: &Browser, serving: Running, address: &str) {
    serving.kill();
    drop(serving.finish());
    browser.wait("document.getElementById('state').textContent === 'reconnecting'");
    browser.type_prompt("sent while the server was away");
    let port = address.rsplit(':').next().unwrap().parse().unwrap();
    let (_serving, again) = stage.serve(port);
    assert_eq!(again, address);
    browser.wait_text("Heard: sent while the server was away");
    let shown = browser.run("return [...document.querySelectorAll('#log .user')].filter(it => it.textContent.includes('while the server was away')).length");
    assert_eq!(shown, json!(1));
}

#[test]
fn search_new_sessions_mode_model_and_dark_mode_work_on_the_page() {
    let stage = Stage::new();
    let (_serving, _) = stage.serve(0);
    let browser = Browser::start();
    browser.open(&stage.link());
    browser.wait("document.querySelector('#sessions button')");
    click(&browser, "#sessions button");
    browser.wait_text("Heard: begin");
    // Search.
    let search = |words: &str| {
        browser.run(&format!(
            "const box = document.getElementById('search'); box.value = {}; box.dispatchEvent(new Event('input'));",
            json!(words)
        ));
    };
    search("begin");
    browser.wait("document.querySelectorAll('#sessions button').length === 1");
    search("nowhereatall");
    browser.wait_text("Nothing found.");
    search("");
    browser.wait("document.querySelectorAll('#sessions button').length === 1");
    // Mode and model, as the session says them.
    let choose = |id: &str, value: &str| {
        browser.run(&format!(
            "const field = document.getElementById('{id}'); field.value = {}; field.dispatchEvent(new Event('change'));",
            json!(value)
        ));
    };
    choose("mode", "plan");
    browser.wait("document.getElementById('note').textContent === 'Mode: plan'");
    choose("mode", "bypassPermissions");
    browser.wait("document.getElementById('note').textContent.includes('scope')");
    choose("model", "claude-haiku-4-5");
    browser.wait("document.getElementById('note').textContent.startsWith('Model:')");
    // A new session in a known folder.
    click(&browser, "#new");
    browser.wait("document.getElementById('folder').options.length");
    browser.run("document.getElementById('first').value = 'a second one'; document.getElementById('start-form').requestSubmit();");
    browser.wait_text("Heard: a second one");
    let listed: Value = serde_json::from_str(&stage.home.run(["ps", "--json"], "").stdout).unwrap();
    let live = listed.as_array().unwrap().iter();
    assert_eq!(live.filter(|session| session["live"] == true).count(), 2);
    // Dark and light, and a phone.
    let colour = || browser.run("return getComputedStyle(document.body).backgroundColor");
    browser.prefer("light");
    let light = colour();
    browser.prefer("dark");
    assert_ne!(light, colour());
    browser.picture("page-dark.png");
    browser.resize(400, 800);
    browser.wait("getComputedStyle(document.getElementById('list')).display === 'none'");
    assert_eq!(
        browser.run("return document.documentElement.scrollWidth <= innerWidth"),
        json!(true)
    );
}
