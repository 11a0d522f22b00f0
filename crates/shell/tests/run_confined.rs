//! Commands that run confined to reading: the kernel stops what the analyser overlooked.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]

mod run_support;

use lathe_sandbox::{Block, ReadOnlyPolicy};
use lathe_shell::run::{Exit, Finished, RunOptions};
use run_support::Fixture;
use std::sync::Arc;

async fn confined(fixture: &Fixture, command: &str) -> Finished {
    let policy = ReadOnlyPolicy {
        readable: vec![fixture.work()],
        ..ReadOnlyPolicy::default()
    };
    let options = RunOptions {
        confinement: Some(Arc::new(policy)),
        ..RunOptions::default()
    };
    fixture.run_with(command, options).await
}

/// The tests of this file once more, as a user without special rights.
#[test]
fn a_user_without_rights_is_confined_as_well() {
    use std::os::unix::process::CommandExt as _;
    const OTHER_USER: u32 = 31_337;
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|found| {
        use std::os::unix::fs::MetadataExt as _;
        found.uid() == 0
    });
    if !is_root {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(OTHER_USER), Some(OTHER_USER)).unwrap();
    // A copy: folders above the program may be closed to others.
    let program = folder.path().join("confined");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let output = std::process::Command::new(program)
        .args(["confined_command", "the_command_itself"])
        .env("TMPDIR", folder.path())
        .env("HOME", folder.path())
        .current_dir(folder.path())
        .uid(OTHER_USER)
        .gid(OTHER_USER)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("3 passed"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_command_reads_and_reports_its_folder() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.work().join("inner")).unwrap();
    std::fs::write(fixture.work().join("inner/a.txt"), "one\n").unwrap();
    let finished = confined(&fixture, "cd inner && cat a.txt <<< here && pwd -P").await;
    assert_eq!(finished.exit, Exit::Exited(0));
    assert!(finished.output.text.starts_with("one\n"));
    assert_eq!(finished.blocked, None);
    assert_eq!(fixture.session.directory(), fixture.work().join("inner"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_command_writes_only_in_its_own_temporary_folder() {
    let fixture = Fixture::new();
    let finished = confined(&fixture, "f=$(mktemp) && echo x > \"$f\" && cat \"$f\"").await;
    assert_eq!(finished.output.text, "x\n");
    let finished = confined(&fixture, "echo x > new.txt").await;
    assert_eq!(finished.exit, Exit::Exited(1));
    assert!(finished.blocked.is_some(), "{}", finished.output.text);
    assert!(!fixture.work().join("new.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_the_command_itself_is_not_called_blocked() {
    let fixture = Fixture::new();
    let finished = confined(&fixture, "cat no-such-file").await;
    assert_eq!(finished.exit, Exit::Exited(1));
    assert_eq!(finished.blocked, None);
    let outside = fixture.folder.path().join("outside.txt");
    std::fs::write(&outside, "secret\n").unwrap();
    let finished = confined(&fixture, "cat ../outside.txt").await;
    assert!(matches!(finished.blocked, Some(Block::Path(_))));
    assert!(!finished.output.text.contains("secret\n"));
}
