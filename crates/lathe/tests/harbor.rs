//! The Harbor adapter (`evals/harbor`), held against the package from PyPI: Harbor itself runs tasks with the real program.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests assert by panicking, and stand outside of the program"
)]

use lathe_testkit::{TestHome, binary, report_skipped, workspace_root};
use std::process::Command;

#[test]
fn tasks_run_from_their_definition_to_their_reward() {
    let packages = std::env::var_os("LATHE_TEST_PACKAGES")
        .map_or_else(|| workspace_root().join("target/test-packages"), Into::into);
    let python = packages.join("harbor/bin/python");
    if !python.exists() {
        report_skipped(
            "tasks_run_from_their_definition_to_their_reward",
            "scripts/setup-tests has not installed harbor, which needs Python 3.12",
        );
        return;
    }
    let scripted = binary::lathe().with_file_name("lathe-scripted");
    if !scripted.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--quiet", "--locked", "-p", "lathe-scripted"])
            .current_dir(workspace_root())
            .status()
            .unwrap();
        assert!(status.success() && scripted.exists(), "{status}");
    }
    let home = TestHome::new();
    let mut command = Command::new(&python);
    home.dress(&mut command);
    let output = command
        .args(["-W", "ignore", "-m", "unittest", "discover", "-s"])
        .arg(workspace_root().join("evals/harbor/tests"))
        .env("LATHE_PROGRAM", binary::lathe())
        .env("LATHE_SCRIPTED", scripted)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("\nOK\n"), "none is left out: {told}");
}
