//! `docs/performance.md` is what `scripts/performance` writes.
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_testkit::workspace_root;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

fn performance(arguments: &[&str]) -> Output {
    Command::new("python3")
        .arg(workspace_root().join("scripts/performance"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn the_page_comes_from_the_script_with_date_machine_and_versions() {
    let output = performance(&["--check"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn results_become_a_table_a_plot_and_ratios() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let file = format!("{place}/results.json");
    let turns: Vec<Value> = (1..=100)
        .map(|step| json!({"turn": step * 50, "milliseconds": 0.5, "megabytes": 30.0}))
        .collect();
    let peer = |name: &str, ms: f64| json!({"name": name, "version": "1.2", "milliseconds": ms, "megabytes": 20.0});
    let results = json!({
        "rows": [{"what": "a | b", "measured": "1 ms", "wanted": ""}],
        "turns": turns,
        "peers": [peer("lathe", 10.0), peer("other", 125.0)],
    });
    std::fs::write(&file, results.to_string()).unwrap();
    let output = performance(&[&file, "--out", place]);
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(format!("{place}/performance.md")).unwrap();
    for part in [
        "- Date: 2",
        "- Machine: ",
        "rustc 1.",
        "| a \\| b | 1 ms |",
        "| other 1.2 | 12.5× | 1.0× |",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let plot = std::fs::read_to_string(format!("{place}/performance.svg")).unwrap();
    assert_eq!(plot.matches("<polyline").count(), 2, "{plot}");
    assert!(plot.contains(">5,000<"), "{plot}");
    // A page that somebody wrote by hand is noticed.
    std::fs::write(format!("{place}/performance.md"), "# Performance\nfast\n").unwrap();
    let output = performance(&["--check", "--out", place]);
    assert!(!output.status.success());
}

#[test]
fn lines_and_tables_of_other_programs_become_rows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    let add = |name: &str, text: &str| {
        let mut child = Command::new("python3")
            .arg(workspace_root().join("scripts/performance"))
            .arg(&file)
            .args(["--add", name])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        drop(input);
        child.wait_with_output().unwrap()
    };
    let lines =
        "tier: none\nstarting: 1.5 ms\na line          lathe   3.0ms  rg   9.0ms  ratio 0.33\n";
    assert!(add("x", lines).status.success());
    let table = "Timer precision: 20 ns\n\
        decision            fastest       │ slowest       │ median        │ mean          │ samples │ iters\n\
        ├─ simple_command   1.5 µs        │ 9 µs          │ 1.7 µs        │ 1.8 µs        │ 100     │ 100\n\
        ╰─ next_request                   │               │               │               │         │\n   \
           ╰─ 5000          2 µs          │ 9 µs          │ 2.5 µs        │ 3 µs          │ 100     │ 100\n";
    assert!(add("micro", table).status.success());
    let results: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let rows: Vec<(&str, &str, &str)> = results["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| ["what", "measured", "wanted"].map(|key| row[key].as_str().unwrap()))
        .map(|[what, measured, wanted]| (what, measured, wanted))
        .collect();
    assert_eq!(
        rows,
        [
            ("x: starting", "1.5 ms", ""),
            ("x: a line", "", "lathe  3.0ms  rg  9.0ms  ratio 0.33"),
            ("micro: simple command", "1.7 µs", ""),
            ("micro: next request 5000", "2.5 µs", ""),
        ]
    );
    let nothing = add("silent", "no numbers here\n");
    assert!(!nothing.status.success(), "{nothing:?}");
}
