//! Faults of the machine around the program: disk, memory, descriptors, clock, proxy, and the process that started it.
//!
//! A test with a `Fault` line in its comment is a row of `docs/reliability.md` (`reliability.rs`).

use crate::Run;
use lathe_scripted::{Position, Reply, Scenario};
use lathe_testkit::disk::SmallDisk;
use lathe_testkit::transcript::{self, Transcript};
use lathe_testkit::{Output, Running, binary, processes};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const BYPASS: [&str; 2] = ["--permission-mode", "bypassPermissions"];

/// Runs the program under another one: a limit, or a slow disk.
fn under(run: &Run, outer: &[&str]) -> Output {
    let mut command = Command::new(outer[0]);
    run.home.dress(&mut command);
    command.args(&outer[1..]).arg(binary::lathe());
    finish(command.args(["-p", "first"]).args(BYPASS))
}

fn start(command: &mut Command) -> Running {
    let mut running = Running::start(std::mem::replace(command, Command::new("true")));
    running.close_stdin();
    running
}

fn finish(command: &mut Command) -> Output {
    start(command).finish()
}

/// Every prompt that is in a transcript of this home. All of them must be whole.
fn prompts(run: &Run) -> Vec<String> {
    let mut prompts = Vec::new();
    for file in transcript::of_home(&run.home) {
        let transcript = Transcript::read(&file);
        assert!(!transcript.torn, "{}", file.display());
        assert!(transcript.damaged.is_empty(), "{}", file.display());
        prompts.extend(transcript.prompts());
    }
    prompts
}

/// The config home on a disk of its own.
fn small_disk(run: &Run) -> SmallDisk {
    std::fs::create_dir_all(run.home.config()).unwrap();
    SmallDisk::mount(&run.home.config(), 512 * 1024).unwrap()
}

/// The content of the tool results in the last request.
fn last_results(run: &Run) -> Vec<Value> {
    let requests = run.requests();
    let messages = requests.last().unwrap().body["messages"].clone();
    let blocks = messages.as_array().unwrap().iter();
    let blocks = blocks.filter_map(|message| message["content"].as_array().cloned());
    blocks
        .flatten()
        .filter(|block| block["type"] == "tool_result")
        .collect()
}

/// Fault: The disk of the config home is full
/// Seen: `The prompt could not be written to the transcript, so it was not sent`, exit code 1
/// Kept: Nothing was sent; the same prompt works as soon as there is room
#[test]
fn a_prompt_that_finds_no_room_on_the_disk_is_not_sent() {
    let run = Run::new(Scenario::new().reply(Reply::text("fine")));
    let disk = small_disk(&run);
    let filler = disk.fill();
    let output = run.home.run(["-p", "first"], "");
    assert_eq!(output.code(), Some(1), "{output:#?}");
    assert!(output.stderr.contains("so it was not sent"), "{output:#?}");
    assert!(output.stderr.contains("hint: free some disk space"));
    assert_eq!(run.requests().len(), 0);
    std::fs::remove_file(filler).unwrap();
    let output = run.home.run(["-p", "first"], "");
    assert_eq!((output.code(), output.stdout.as_str()), (Some(0), "fine\n"));
    assert_eq!(prompts(&run), ["first"]);
}

/// Fault: The disk fills up during a turn
/// Seen: The turn ends: `The conversation could not be written to the transcript, so it was not sent`, exit code 1
/// Kept: Everything that the model was told; a call whose record finds no room is not run
#[test]
fn a_turn_ends_when_the_disk_fills_up_and_what_was_sent_is_kept() {
    // Larger than what is left of a block.
    let call = json!({"command": format!("touch ran # {}", "x".repeat(8192))});
    let run = Run::new(
        Scenario::new()
            .reply(Reply::tool_use("Bash", call).gate(Position::MidBlock(0), "middle"))
            .reply(Reply::text("again")),
    );
    let disk = small_disk(&run);
    let running = start(run.home.command(["-p", "first"]).args(BYPASS));
    assert!(run.server.wait_for_gate("middle", 1, LONG));
    let filler = disk.fill();
    run.server.gate("middle").release();
    let output = running.finish();
    assert_eq!(output.code(), Some(1), "{output:#?}");
    assert!(output.stderr.contains("so it was not sent"), "{output:#?}");
    assert_eq!(run.requests().len(), 1, "the result was not sent");
    assert!(!run.home.project().join("ran").exists());
    std::fs::remove_file(filler).unwrap();
    let output = run.home.run(["-p", "second", "--continue"], "");
    assert_eq!(output.stdout, "again\n", "{output:#?}");
    assert_eq!(prompts(&run), ["first", "second"]);
}

/// Fault: The config home is read-only
/// Seen: The folder and the reason, and `--no-session-persistence` as the way on; exit code 1
/// Kept: Nothing was sent
#[test]
fn a_config_home_that_is_read_only_is_named() {
    let run = Run::new(Scenario::new().reply(Reply::text("fine")));
    let _disk = small_disk(&run);
    let mut remount = Command::new("mount");
    let remounted = remount.args(["-o", "remount,ro"]).arg(run.home.config());
    assert!(remounted.status().unwrap().success());
    let output = run.home.run(["-p", "first"], "");
    assert_eq!(output.code(), Some(1), "{output:#?}");
    assert!(output.stderr.contains("Read-only file system"));
    assert!(output.stderr.contains("--no-session-persistence"));
    assert_eq!(run.requests().len(), 0);
    let output = run
        .home
        .run(["-p", "first", "--no-session-persistence"], "");
    assert_eq!(output.stdout, "fine\n", "{output:#?}");
}

/// Fault: A file may not be read or written
/// Seen: The model gets the path and `Permission denied`; the turn continues
/// Kept: The file as it was
#[test]
fn a_file_without_permission_is_an_error_of_its_call() {
    let run = Run::new(
        Scenario::new()
            .reply(
                Reply::tool_use("Read", json!({"file_path": "closed.txt"})).with_tool_use(
                    "Write",
                    json!({"file_path": "shut/new.txt", "content": "x"}),
                ),
            )
            .reply(Reply::text("fine")),
    );
    let closed = run.home.write("closed.txt", "old");
    let shut = run.home.write("shut/old.txt", "old");
    let shut = shut.parent().unwrap();
    let mut everything = Command::new("chown");
    let owned = everything.args(["-R", "65534"]).arg(run.home.root());
    assert!(owned.status().unwrap().success());
    for path in [&*closed, shut] {
        let root = Command::new("chown").arg("0").arg(path).status().unwrap();
        let mode = Command::new("chmod").arg("600").arg(path).status().unwrap();
        assert!(root.success() && mode.success());
    }
    let nobody = ["setpriv", "--reuid", "65534", "--clear-groups"];
    let output = under(&run, &nobody);
    assert_eq!(output.stdout, "fine\n", "{output:#?}");
    let results = last_results(&run);
    assert_eq!(results.len(), 2);
    for result in results {
        assert_eq!(result["is_error"], true, "{result}");
        let text = result["content"].to_string().to_lowercase();
        assert!(text.contains("permission denied"), "{text}");
    }
    assert_eq!(run.home.read("closed.txt"), "old");
}

/// Fault: Too few file descriptors
/// Seen: The answer, or `Too many open files` with `ulimit -n` as the fix; exit code 1
/// Kept: Whole transcripts; nothing was sent that is not in one
#[test]
fn a_session_with_few_descriptors_works_or_says_why_not() {
    for limit in [8, 10, 12, 14, 16, 18, 20, 32] {
        let call = Reply::tool_use("Bash", json!({"command": "echo hi"}));
        let answer = Reply::text("fine");
        let run = Run::new(
            Scenario::new()
                .reply(call.optional())
                .reply(answer.optional()),
        );
        let output = under(&run, &["prlimit", &format!("--nofile={limit}")]);
        match output.code() {
            Some(0) => assert_eq!(output.stdout, "fine\n"),
            Some(1) => assert!(output.stderr.contains("Too many open files"), "{output:#?}"),
            _ => panic!("{limit}: {output:#?}"),
        }
        assert!(run.requests().is_empty() || !prompts(&run).is_empty());
    }
}

/// Fault: Too little memory
/// Seen: The answer, or the error of the system
/// Kept: Whole transcripts, and the next run continues
#[test]
fn a_session_with_little_memory_leaves_whole_transcripts() {
    for megabytes in [100, 150, 400] {
        let much = json!({"command": "head -c 20000000 /dev/zero | tr '\\0' a"});
        let call = Reply::tool_use("Bash", much).optional();
        let run = Run::new(
            Scenario::new()
                .reply(call)
                .reply(Reply::text("fine").forever().optional()),
        );
        let output = under(
            &run,
            &["prlimit", &format!("--as={}", megabytes * 1_000_000)],
        );
        assert!(
            output.code() != Some(0) || output.stdout == "fine\n",
            "{output:#?}"
        );
        assert!(run.requests().is_empty() || !prompts(&run).is_empty());
        processes::assert_none_left(&run.home);
        let arguments = ["-p", "second", "--continue"];
        let arguments = &arguments[..if prompts(&run).is_empty() { 2 } else { 3 }];
        let mut next = run.home.command(arguments);
        let output = finish(next.args(BYPASS));
        assert_eq!(output.stdout, "fine\n", "{output:#?}");
    }
}

/// Fault: A slow disk (every sync takes 0.2 s)
/// Seen: The answer, later
/// Kept: Everything
#[test]
fn a_slow_disk_only_takes_longer() {
    let call = json!({"file_path": "a.txt", "content": "x"});
    let run = Run::new(
        Scenario::new()
            .reply(Reply::tool_use("Write", call))
            .reply(Reply::text("fine")),
    );
    let slow = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=fsync,fdatasync",
        "-e",
        "inject=fsync,fdatasync:delay_enter=200000",
    ];
    let output = under(&run, &slow);
    assert_eq!((output.code(), output.stdout.as_str()), (Some(0), "fine\n"));
    assert_eq!(prompts(&run), ["first"]);
    assert_eq!(run.home.read("a.txt"), "x");
}

/// Fault: The clock jumps (30 days back, during an answer)
/// Seen: Nothing
/// Kept: The order of the conversation
#[test]
fn a_clock_that_jumps_back_changes_no_order() {
    let answer = Reply::text("fine").gate(Position::MidBlock(0), "middle");
    let run = Run::new(Scenario::new().reply(answer).reply(Reply::text("again")));
    let clock = run.home.write("clock", "+2h\n");
    let mut command = Command::new("faketime");
    run.home.dress(&mut command);
    // The wrapper names its library; the file is read at every look at the clock.
    command
        .args(["-m", "--exclude-monotonic", "-f", "+0"])
        .args(["env", "-u", "FAKETIME"])
        .arg(format!("FAKETIME_TIMESTAMP_FILE={}", clock.display()))
        .arg("FAKETIME_NO_CACHE=1")
        .arg(binary::lathe())
        .args(["-p", "first"]);
    let running = start(&mut command);
    assert!(run.server.wait_for_gate("middle", 1, LONG));
    std::fs::write(&clock, "-30d\n").unwrap();
    run.server.gate("middle").release();
    let output = running.finish();
    assert_eq!(output.stdout, "fine\n", "{output:#?}");
    let output = run.home.run(["-p", "second", "--continue"], "");
    assert_eq!(output.stdout, "again\n", "{output:#?}");
    assert_eq!(prompts(&run), ["first", "second"]);
    let file = transcript::of_home(&run.home).remove(0);
    let text = std::fs::read_to_string(file).unwrap();
    let records = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let times: Vec<String> = records
        .filter_map(|record| record["timestamp"].as_str().map(str::to_owned))
        .collect();
    assert!(!times.is_sorted(), "the clock did not jump: {times:?}");
}

/// A proxy that gives every connection the same answer.
fn proxy(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The client may be gone.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// Fault: The proxy is not there, wants a password, fails, or is none
/// Seen: `the proxy did not let the request through`, the reason, and the variables to check; exit code 1
/// Kept: The prompt
#[test]
fn an_error_of_the_proxy_is_told_from_one_of_the_server() {
    for address in [
        "http://127.0.0.1:1".to_owned(),
        proxy("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"),
        proxy("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"),
        proxy("garbage\r\n\r\n"),
    ] {
        let run = Run::new(Scenario::new())
            .variable("HTTPS_PROXY", &address)
            .variable("ANTHROPIC_BASE_URL", "https://api.example.invalid")
            .variable("LATHE_MAX_RETRIES", "1");
        let output = run.home.run(["-p", "first"], "");
        assert_eq!(output.code(), Some(1), "{output:#?}");
        for words in [
            "the proxy did not let the request through",
            "hint: check HTTPS_PROXY",
        ] {
            assert!(output.stderr.contains(words), "{address}: {output:#?}");
        }
        assert_eq!(prompts(&run), ["first"]);
    }
}

/// Fault: The name of the server is not found
/// Seen: The host; exit code 1
/// Kept: The prompt
#[test]
fn a_name_that_is_not_found_is_named() {
    let run = Run::new(Scenario::new())
        .variable("ANTHROPIC_BASE_URL", "https://api.example.invalid")
        .variable("LATHE_MAX_RETRIES", "1");
    let output = run.home.run(["-p", "first"], "");
    assert_eq!(output.code(), Some(1), "{output:#?}");
    assert!(output.stderr.contains("api.example.invalid"), "{output:#?}");
    assert_eq!(prompts(&run), ["first"]);
}

/// Fault: The program that reads the output ends, or the host of the SDK is killed
/// Seen: (there is nobody)
/// Kept: The transcript; no process is left
#[test]
fn a_session_ends_with_its_host() {
    let call = json!({"command": "touch started; sleep 1000"});
    let run = Run::new(Scenario::new().reply(Reply::tool_use("Bash", call)));
    let mut host = Command::new("python3");
    run.home.dress(&mut host);
    // A host that is killed closes both pipes without a word.
    let script = r#"
import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
child.stdin.write(b'{"type":"user","message":{"role":"user","content":"first"}}\n')
child.stdin.flush()
for line in child.stdout: pass
"#;
    let formats = [
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
    ];
    host.args(["-c", script]).arg(binary::lathe());
    let running = start(host.arg("-p").args(formats).args(BYPASS));
    let until = std::time::Instant::now() + LONG;
    while !run.home.project().join("started").exists() {
        assert!(
            std::time::Instant::now() < until,
            "{}",
            running.stderr_so_far()
        );
        std::thread::yield_now();
    }
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(running.pid()).unwrap()),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    drop(running.finish());
    processes::assert_none_left(&run.home);
    assert_eq!(prompts(&run)[0], "first");
}
