//! The hooks page: its table is the code's, and its examples do what it says.
//! `UPDATE_DOCS=1` writes the table anew.

use crate::{Bench, within};
use lathe_hooks::cli;
use lathe_protocol::hook::HookEvent;
use lathe_settings::Source;
use serde_json::Value;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hooks.md")
}

#[test]
fn the_table_of_events_is_that_of_the_code() {
    let text = std::fs::read_to_string(page()).unwrap();
    let (begin, end) = ("<!-- begin events -->\n", "<!-- end events -->");
    let mut table = String::from("| event | when | matched |\n|---|---|---|\n");
    for event in HookEvent::ALL {
        let matched = event
            .matched_field()
            .map_or_else(String::new, |field| format!("`{field}`"));
        writeln!(table, "| `{event}` | {} | {matched} |", event.description()).unwrap();
    }
    let (before, rest) = text.split_once(begin).expect("the page has the mark");
    let (found, after) = rest.split_once(end).expect("the page has the end mark");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(page(), format!("{before}{begin}{table}{end}{after}")).unwrap();
        return;
    }
    assert_eq!(
        found, table,
        "docs/hooks.md is out of date; run the tests of lathe-hooks with UPDATE_DOCS=1"
    );
}

struct Block<'a> {
    kind: &'a str,
    text: &'a str,
}

fn blocks(section: &str) -> Vec<Block<'_>> {
    section
        .split("\n```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.split_once('\n'))
        .map(|(kind, text)| Block { kind, text })
        .collect()
}

#[tokio::test]
async fn every_example_does_what_the_page_says() {
    let text = std::fs::read_to_string(page()).unwrap();
    let examples = text
        .split_once("## Examples")
        .expect("the page has examples")
        .1;
    let mut shown = 0;
    for section in examples.split("\n### ").skip(1) {
        let title = section.lines().next().unwrap();
        shown += try_example(title, &blocks(section)).await;
    }
    assert!(shown >= 8, "only {shown} effects were checked");
}

/// Runs one example; returns how many effects it checked.
async fn try_example(title: &str, blocks: &[Block<'_>]) -> usize {
    let settings = blocks
        .iter()
        .find(|block| block.kind == "json settings")
        .expect("an example has settings");
    let settings: Value = serde_json::from_str(settings.text).unwrap();
    let bench = Bench::new(&settings);
    let resolved = bench.resolve(&settings, Source::User);
    assert_eq!(resolved.problems, [], "{title}");
    assert_eq!(bench.registry.problems(), [], "{title}");
    let project = bench.path();
    let made = std::process::Command::new("git")
        .args(["init", "-q", "-b", "main"])
        .current_dir(&project)
        .status();
    assert!(made.expect("git is installed").success());
    for block in blocks {
        if let Some((_, name)) = block.kind.split_once(" file ") {
            let path = project.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, format!("{}\n", block.text)).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let mut effects = 0;
    let mut input = None;
    for block in blocks {
        if let Some(event) = block.kind.strip_prefix("json input ") {
            let event = cli::event(event).unwrap();
            input = Some(cli::trial_input(event, block.text, &project).unwrap());
        } else if block.kind == "text effect" {
            let input = input.as_ref().expect("an effect follows an input");
            let outcome = within(bench.registry.run(input, &bench.context())).await;
            let found = cli::effects(&outcome);
            assert!(
                found.starts_with(block.text.trim_end()),
                "{title}: {found} is not {}",
                block.text
            );
            assert_eq!(outcome.warnings, Vec::<String>::new(), "{title}");
            effects += 1;
        }
    }
    assert!(effects > 0, "{title} shows no effect");
    effects
}
