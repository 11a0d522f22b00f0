//! The helpers themselves: a test that leans on them must be able to trust them.
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_testkit::disk::SmallDisk;
use lathe_testkit::transcript::Transcript;
use lathe_testkit::{Running, TestHome, processes, report_skipped};
use std::process::Command;
use std::time::Duration;

fn shell(home: &TestHome, script: &str) -> Running {
    let mut command = Command::new("sh");
    home.dress(&mut command);
    command.args(["-c", script]);
    Running::start(command)
}

#[test]
fn a_run_gives_output_and_exit_code_and_sees_a_clean_environment() {
    let home = TestHome::new().variable("EXTRA", "one");
    let mut running = shell(
        &home,
        "read line; echo \"$line $EXTRA $HOME\"; pwd; echo oops >&2; exit 3",
    );
    running.write(b"hello\n");
    let output = running.finish();
    assert_eq!(output.code(), Some(3));
    let expected = format!(
        "hello one {}\n{}\n",
        home.home().display(),
        home.project().display()
    );
    assert_eq!(
        (output.stdout, output.stderr),
        (expected, "oops\n".to_owned())
    );
    let output = shell(&home, "env | cut -d= -f1").finish();
    assert!(!output.stdout.contains("CARGO"), "{}", output.stdout);
}

#[test]
fn a_crash_is_told_from_an_exit() {
    let home = TestHome::new();
    let mut running = shell(&home, "echo ready; exec sleep 1000");
    running.wait_for_stdout("ready");
    assert!(!running.ended_within(Duration::ZERO));
    running.kill();
    assert_eq!(running.finish().signal(), Some(9));
    processes::assert_none_left(&home);
}

#[test]
fn processes_that_leave_their_group_and_their_parent_are_found() {
    let home = TestHome::new();
    let running = shell(
        &home,
        "cd /; (setsid sleep 1000 >/dev/null 2>&1 </dev/null &) ; echo gone",
    );
    assert_eq!(running.finish().stdout, "gone\n");
    let left = loop {
        // The sleeper may not have replaced its shell yet.
        let left = processes::of_home(&home);
        if !left.is_empty() && left.iter().all(|process| process.command == "sleep 1000") {
            break left;
        }
    };
    assert_eq!(left.len(), 1, "{left:?}");
    Command::new("kill")
        .arg(left[0].pid.to_string())
        .status()
        .unwrap();
    processes::assert_none_left(&home);
}

#[test]
fn processes_in_the_folder_are_found_without_their_environment() {
    let home = TestHome::new();
    let running = shell(&home, "env -i sleep 1000 & echo $!; wait");
    running.wait_for_stdout("\n");
    let pid: u32 = running.stdout_so_far().trim().parse().unwrap();
    assert!(
        processes::of_home(&home)
            .iter()
            .any(|process| process.pid == pid)
    );
    drop(running);
    processes::assert_none_left(&home);
}

#[test]
fn the_peak_of_memory_is_seen() {
    let home = TestHome::new();
    let running = shell(
        &home,
        "x=$(head -c 30000000 /dev/zero | tr '\\0' a); echo full; read wait",
    );
    running.wait_for_stdout("full");
    let peak = processes::peak_memory(running.pid()).unwrap();
    assert!(peak > 30_000_000, "{peak}");
}

#[test]
fn a_small_disk_is_full_when_it_is_filled() {
    let home = TestHome::new();
    let folder = home.root().join("disk");
    std::fs::create_dir(&folder).unwrap();
    let disk = match SmallDisk::mount(&folder, 64 * 1024) {
        Ok(disk) => disk,
        Err(why) => {
            return report_skipped("a_small_disk_is_full_when_it_is_filled", &why.to_string());
        }
    };
    std::fs::write(folder.join("before"), "fits").unwrap();
    let filler = disk.fill();
    let error = std::fs::write(folder.join("after"), vec![0; 8192]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    std::fs::remove_file(filler).unwrap();
    std::fs::write(folder.join("after"), "fits again").unwrap();
}

#[test]
fn a_transcript_is_read_with_its_damage() {
    let home = TestHome::new();
    let path = home.write(
        "t.jsonl",
        "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\nbroken\n{\"type\":\"us",
    );
    let transcript = Transcript::read(&path);
    assert_eq!(transcript.prompts(), ["hi"]);
    assert_eq!((transcript.damaged.len(), transcript.torn), (2, true));
}

#[test]
fn git_is_at_hand() {
    let home = TestHome::new();
    home.write("a/b.txt", "text");
    home.git_init();
    assert!(home.project().join(".git").is_dir());
    assert_eq!(home.read("a/b.txt"), "text");
}
