//! Nothing outlives the process that runs commands: not when it leaves in order, not when its
//! runtime is torn down, and not when it is killed outright. Each case needs a process of its own,
//! so this file runs itself again as that process.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(clippy::unwrap_used, reason = "helpers of tests assert too")]

mod run_support;

use lathe_shell::run::{RunOptions, ShellOptions, ShellSession, kill_everything};
use run_support::{environment, survivors};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "LATHE_TEST_ROLE";
const MARK: &str = "LATHE_TEST_MARK";

const COMMAND: &str = "sleep 1000 & setsid sleep 1000 & trap '' TERM; echo up; sleep 1000";

/// Does nothing unless this process was started as an actor by one of the tests below.
#[test]
fn actor() {
    let (Ok(role), Ok(mark)) = (std::env::var(ROLE), std::env::var(MARK)) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut options = ShellOptions::new(folder.path(), folder.path().join("output"));
    options.snapshot = false;
    options.environment = Some(environment(&mark, folder.path()));
    let session = ShellSession::new(options);
    runtime.block_on(async {
        let first = session
            .start_in_background(COMMAND, RunOptions::default())
            .await;
        let second = session
            .start_in_background(COMMAND, RunOptions::default())
            .await;
        for id in [first.unwrap(), second.unwrap()] {
            run_support::until("it is up", || {
                session.background().get(id.as_str()).unwrap().total_bytes > 0
            })
            .await;
        }
    });
    match role.as_str() {
        "leaves in order" => kill_everything(Duration::from_millis(200)),
        "drops its runtime" => drop(runtime),
        _ => {
            println!("READY");
            std::thread::sleep(Duration::from_secs(120));
        }
    }
    println!("READY");
}

fn start(role: &str, mark: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "actor", "--nocapture"])
        .env(ROLE, role)
        .env(MARK, mark)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Hands the output back: the actor still writes to it.
fn wait_until_ready(actor: &mut Child) -> BufReader<ChildStdout> {
    let mut output = BufReader::new(actor.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("READY") {
        line.clear();
        let count = output.read_line(&mut line).unwrap();
        assert!(count > 0, "the actor ended too early");
    }
    output
}

fn assert_gone(mark: &str, own: u32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let others = || {
        let own = format!("{own}:");
        survivors(mark)
            .into_iter()
            .filter(|line| !line.starts_with(&own))
            .collect::<Vec<_>>()
    };
    while !others().is_empty() {
        assert!(Instant::now() < deadline, "still alive: {:?}", others());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn mark(name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let unique = folder
        .path()
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    format!("{name}-{}-{unique}", std::process::id())
}

#[test]
fn leaving_in_order_ends_every_command_before_it_returns() {
    let mark = mark("order");
    let mut actor = start("leaves in order", &mark);
    let _output = wait_until_ready(&mut actor);
    let own = format!("{}:", actor.id());
    let left: Vec<String> = survivors(&mark)
        .into_iter()
        .filter(|line| !line.starts_with(&own))
        .collect();
    actor.wait().unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn tearing_the_runtime_down_ends_every_command() {
    let mark = mark("runtime");
    let mut actor = start("drops its runtime", &mark);
    let _output = wait_until_ready(&mut actor);
    assert_gone(&mark, actor.id());
    actor.wait().unwrap();
}

#[test]
fn being_killed_outright_ends_every_command() {
    if !Path::new("/proc/self/environ").exists() {
        println!("skipped: there is no /proc to find processes by");
        return;
    }
    let mark = mark("killed");
    let mut actor = start("waits to be killed", &mark);
    let _output = wait_until_ready(&mut actor);
    assert!(
        survivors(&mark).len() > 4,
        "the commands should run: {:?}",
        survivors(&mark)
    );
    actor.kill().unwrap();
    actor.wait().unwrap();
    assert_gone(&mark, actor.id());
}
