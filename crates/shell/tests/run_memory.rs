//! Memory stays flat however much a command prints. In a file of its own, since it measures the
//! whole process.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(clippy::unwrap_used, reason = "helpers of tests assert too")]

mod run_support;

use lathe_shell::run::{Exit, RunOptions};
use run_support::Fixture;

fn kilobytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_of_output_leaves_memory_flat() {
    let fixture = Fixture::new();
    let options = || RunOptions {
        spill: Some(fixture.folder.path().join("spill")),
        spill_limit: 4 * 1024 * 1024,
        ..RunOptions::default()
    };
    fixture.run("seq 10000").await;
    let before = kilobytes("VmRSS:");
    let finished = fixture.run_with("head -c 1G /dev/zero", options()).await;
    let peak = kilobytes("VmHWM:");
    assert_eq!(finished.exit, Exit::Exited(0));
    assert_eq!(finished.output.total_bytes, 1 << 30);
    assert!(finished.output.text.len() < 40_000);
    assert!(finished.output.file_truncated);
    let spilled = finished.output.file.unwrap();
    assert_eq!(spilled.metadata().unwrap().len(), 4 * 1024 * 1024);
    assert!(peak - before < 12_000, "grew from {before} kB to {peak} kB");
}
