//! `docs/performance.md` is what `scripts/performance` writes.
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_testkit::workspace_root;
use serde_json::{Value, json};
use std::process::{Command, Output};

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
