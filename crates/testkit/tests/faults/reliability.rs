//! `docs/reliability.md` lists the faults that tests cause, from the comments of those tests. `UPDATE_DOCS=1` writes
//! the table anew.

use lathe_testkit::workspace_root;
use std::fmt::Write as _;

const BEGIN: &str = "<!-- faults: begin -->\n";
const END: &str = "<!-- faults: end -->";

/// The files with such tests, in the order of the table.
const FILES: [&str; 8] = [
    "crates/testkit/tests/faults/machine.rs",
    "crates/tools/tests/file_tools/damage.rs",
    "crates/testkit/tests/faults/refusals.rs",
    "crates/testkit/tests/faults/streams.rs",
    "crates/testkit/tests/faults/limits.rs",
    "crates/testkit/tests/faults/answers.rs",
    "crates/tui/tests/flows/basics.rs",
    "crates/testkit/tests/crash.rs",
];

/// The three parts of a row, then the name of the test.
#[derive(Default)]
struct Row {
    parts: [String; 3],
    test: String,
}

/// The rows of a file: comments with a `Fault` line, and the function that follows.
fn rows(source: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = Row::default();
    for line in source.lines() {
        let comment = line.strip_prefix("/// ").unwrap_or_default();
        for (name, part) in ["Fault: ", "Seen: ", "Kept: "].iter().zip(&mut row.parts) {
            if let Some(text) = comment.strip_prefix(name) {
                text.clone_into(part);
            }
        }
        let function = line.trim_start_matches("async ").strip_prefix("fn ");
        if let Some(function) = function {
            let row = std::mem::take(&mut row);
            if row.parts.iter().any(|part| !part.is_empty()) {
                let test = function.split('(').next().unwrap_or_default().to_owned();
                rows.push(Row { test, ..row });
            }
        }
    }
    rows
}

fn table() -> String {
    let mut table = "| fault | what you see | what survives |\n|---|---|---|\n".to_owned();
    let mut count = 0;
    for file in FILES {
        let source = std::fs::read_to_string(workspace_root().join(file)).unwrap();
        let found = rows(&source);
        assert!(!found.is_empty(), "{file} has no row");
        for Row { parts, test } in found {
            assert!(
                parts.iter().all(|part| !part.is_empty()),
                "{file}: the row of {test} has three lines: Fault, Seen, Kept"
            );
            let [fault, seen, kept] = parts;
            writeln!(table, "| {fault} | {seen} | {kept} <!-- {test} --> |").unwrap();
            count += 1;
        }
    }
    assert!(count >= 20, "{count}");
    table
}

#[test]
fn the_page_about_reliability_lists_the_faults_of_the_tests() {
    let path = workspace_root().join("docs/reliability.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (now, after) = rest.split_once(END).unwrap();
    let table = table();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(
        now, table,
        "UPDATE_DOCS=1 cargo test -p lathe-testkit --test faults reliability"
    );
}
