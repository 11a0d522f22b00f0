//! Essays, unsafe code, module length, the configuration of a step, unfinished work, environment variables.

use crate::sources::{crates, rust_files, shown};
use lathe_testkit::workspace_root;
use std::path::{Path, PathBuf};

/// Process code needs unsafe calls between fork and exec; everything else forbids them.
const MAY_BE_UNSAFE: &[&str] = &["shell", "sandbox", "process"];

/// A module that is longer tells more than one story.
const LONGEST_MODULE: usize = 800;

/// `lib.rs` and `main.rs` of every crate.
fn roots() -> Vec<PathBuf> {
    crates()
        .iter()
        .flat_map(|folder| [folder.join("src/lib.rs"), folder.join("src/main.rs")])
        .filter(|path| path.is_file())
        .collect()
}

fn assert_none(found: &[String], promise: &str) {
    assert!(found.is_empty(), "{promise}:\n{}", found.join("\n"));
}

#[test]
fn every_crate_opens_with_its_essay() {
    let found: Vec<String> = roots()
        .iter()
        .filter(|path| !std::fs::read_to_string(path).unwrap().starts_with("//! "))
        .map(|path| shown(path))
        .collect();
    assert_none(&found, "these don't open with `//!`");
}

#[test]
fn unsafe_code_is_forbidden_where_it_is_not_needed() {
    let found: Vec<String> = roots()
        .iter()
        .filter(|path| {
            let name = path.ancestors().nth(2).and_then(Path::file_name).unwrap();
            !MAY_BE_UNSAFE.iter().any(|allowed| *allowed == name)
        })
        .filter(|path| {
            !std::fs::read_to_string(path)
                .unwrap()
                .contains("\n#![forbid(unsafe_code)]\n")
        })
        .map(|path| shown(path))
        .collect();
    assert_none(&found, "these lack #![forbid(unsafe_code)]");
}

#[test]
fn no_module_tells_two_stories() {
    let found: Vec<String> = crates()
        .iter()
        .flat_map(|folder| rust_files(&folder.join("src")))
        .map(|path| {
            (
                std::fs::read_to_string(&path).unwrap().lines().count(),
                path,
            )
        })
        .filter(|(lines, _)| *lines > LONGEST_MODULE)
        .map(|(lines, path)| format!("{} ({lines} lines)", shown(&path)))
        .collect();
    assert_none(
        &found,
        &format!("these have more than {LONGEST_MODULE} lines"),
    );
}

/// The middle of a step: the request is made, and its answer and calls are under way.
const MIDDLE_OF_A_STEP: &[&str] = &[
    "turn/step.rs",
    "call/mod.rs",
    "call/executor.rs",
    "call/pipeline.rs",
    "call/permit.rs",
    "agents/fork.rs",
];
/// Reads of configuration that may change while a step runs.
const LIVE_CONFIGURATION: &[&str] = &[
    ".choices.read(",
    "choices_now",
    ".offered_tools(",
    ".all_tools(",
    ".toolbox.registry",
    ".recovery_policy(",
];

#[test]
fn a_step_reads_its_configuration_once() {
    let engine = workspace_root().join("crates/engine/src");
    let mut found = Vec::new();
    for file in MIDDLE_OF_A_STEP {
        let text = std::fs::read_to_string(engine.join(file)).unwrap();
        for (index, line) in text.lines().enumerate() {
            if LIVE_CONFIGURATION.iter().any(|mark| line.contains(mark)) {
                found.push(format!("{file}:{} {}", index + 1, line.trim()));
            }
        }
    }
    assert_none(&found, "these read live configuration; use `Step`");
}

#[test]
fn nothing_is_left_to_do() {
    let found: Vec<String> = crates()
        .iter()
        .flat_map(|folder| rust_files(folder))
        .flat_map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text
                .lines()
                .enumerate()
                .filter(|(_, line)| is_unfinished(line));
            lines
                .map(|(index, line)| format!("{}:{}: {}", shown(&path), index + 1, line.trim()))
                .collect::<Vec<String>>()
        })
        .collect();
    assert_none(&found, "unfinished work");
}

/// Whether a line is a comment with a mark for later, or a macro that stands for missing code. The
/// same words in a string are somebody's test data.
fn is_unfinished(line: &str) -> bool {
    // Put together here, so that this file doesn't find itself.
    let marks = [["TO", "DO"], ["FIX", "ME"]].map(|mark| mark.concat());
    let macros = [["todo", "!("], ["unimplemented", "!("]].map(|name| name.concat());
    let line = line.trim_start();
    if line.starts_with("//") {
        return marks.iter().any(|mark| has_word(line, mark));
    }
    let code = line.split('"').step_by(2);
    code.into_iter()
        .any(|part| macros.iter().any(|name| has_word(part, name)))
}

/// Whether the mark stands in the line as a word of its own, not as a part of a longer one.
fn has_word(line: &str, mark: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(mark).any(|(at, _)| {
        let before = line.get(..at).unwrap_or_default().chars().next_back();
        let after = line
            .get(at + mark.len()..)
            .unwrap_or_default()
            .chars()
            .next();
        let open_ended = mark.ends_with('(');
        !before.is_some_and(part_of_word) && (open_ended || !after.is_some_and(part_of_word))
    })
}

#[test]
fn unfinished_lines_are_told_from_finished_ones() {
    let mark = ["TO", "DO"].concat();
    let missing = ["todo", "!()"].concat();
    assert!(is_unfinished(&format!("    // {mark}: later")));
    assert!(is_unfinished(&format!("None => {missing},")));
    assert!(!is_unfinished(&format!("// the {mark}S of others")));
    assert!(!is_unfinished(&format!(
        "json!({{\"pattern\": \"{mark}\"}})"
    )));
    assert!(!is_unfinished(&format!("check(\"{missing}\");")));
}

/// Names that begin like variables of ours and are none that a user sets: what tests use, and what
/// files of skills name.
const NO_VARIABLES: &[&str] = &[
    "LATHE_TEST_",
    "LATHE_FUZZ_",
    "LATHE_TESTS_MUST_RUN",
    "LATHE_UPDATE_VIEWS",
    "LATHE_SESSION_ID",
    "LATHE_SKILL_DIR",
];

#[test]
fn every_variable_of_ours_is_declared() {
    let table = workspace_root().join("crates/settings/src/environment.rs");
    let declared = std::fs::read_to_string(table).unwrap();
    let mut found = Vec::new();
    for folder in crates() {
        for file in rust_files(&folder.join("src")) {
            let text = std::fs::read_to_string(&file).unwrap();
            for (at, _) in text.match_indices("\"LATHE_") {
                let name: String = text[at + 1..]
                    .chars()
                    .take_while(|letter| {
                        letter.is_ascii_uppercase() || matches!(letter, '_' | '0'..='9')
                    })
                    .collect();
                let is_whole = text[at + 1 + name.len()..].starts_with('"');
                if is_whole
                    && name != "LATHE_"
                    && !declared.contains(&format!("\"{name}\""))
                    && !NO_VARIABLES.iter().any(|start| name.starts_with(start))
                {
                    found.push(format!("{}: {name}", shown(&file)));
                }
            }
        }
    }
    assert_none(
        &found,
        "a variable that isn't in the table of crates/settings/src/environment.rs, which makes the docs",
    );
}
