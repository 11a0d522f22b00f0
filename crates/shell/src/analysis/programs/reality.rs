//! The tables against the programs of this machine: whatever a table takes for the value of an option, no program may
//! read as a file. Each option that takes a value is tried with a file in every place where the value can stand, and what
//! would pass is run.

use super::super::argument::Argument;
use super::super::reading::Obeys;
use super::catalog::SHELVES;
use super::git::options_of;
use super::{Surroundings, judge};
use crate::syntax::ShellKind;
use std::path::Path;
use std::process::{Command, Stdio};

const SECRET: &str = "canary-0f41c9";
/// Files that hold the secret: beside the others, and outside.
const CLOSED: [&str; 2] = ["closed.txt", "../outside.txt"];

const SURROUNDINGS: Surroundings<'static> = Surroundings {
    shell: ShellKind::Bash,
    piped_names: None,
    depth: 0,
};

/// The ways to write an option with a value beside an ordinary file.
fn forms(option: &str, value: &str) -> Vec<Vec<String>> {
    let attached = if option.starts_with("--") {
        format!("{option}={value}")
    } else {
        format!("{option}{value}")
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    vec![
        words(&[option, value]),
        words(&[option, value, "open.txt"]),
        words(&["open.txt", option, value]),
        words(&[&attached, "open.txt"]),
        words(&["open.txt", &attached]),
    ]
}

/// The options of a table that take a value.
fn valued(table: &str) -> impl Iterator<Item = &str> {
    table
        .split_ascii_whitespace()
        .filter_map(|entry| entry.strip_suffix(['=', '?']))
}

/// Whether a command passes without the file being seen.
fn passes_unseen(argv: &[String], file: &str) -> bool {
    let argv: Vec<Argument> = argv.iter().cloned().map(Argument::Fixed).collect();
    judge(&argv, SURROUNDINGS).is_ok_and(|reading| {
        let seen = |text: &str| text.contains(file.trim_start_matches("../"));
        let named = reading.paths.iter().chain(&reading.names);
        // What git shows of tracked files is looked through by itself.
        let looked_through = reading.below.is_some()
            && reading.obeys == Obeys::Repository
            && !file.starts_with("..");
        !looked_through && !named.into_iter().any(|path| seen(&path.text))
    })
}

/// Runs a command as GNU's, POSIX's and busybox's programs read it. Gives those that show the secret.
fn wrong_runs(argv: &[String], folder: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    for (variable, applet) in [
        (None, false),
        (Some("POSIXLY_CORRECT"), false),
        (None, true),
    ] {
        let mut command = Command::new("timeout");
        command
            .arg("2")
            .args(applet.then_some("busybox"))
            .args(argv);
        command
            .current_dir(folder)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", folder)
            .envs(variable.map(|name| (name, "1")))
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let shown = [output.stdout, output.stderr].concat();
        if String::from_utf8_lossy(&shown).contains(SECRET) {
            wrong.push(format!("{variable:?} {applet} shows it: {argv:?}"));
        }
    }
    wrong
}

fn world() -> (tempfile::TempDir, std::path::PathBuf) {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("project");
    std::fs::create_dir(&folder).unwrap();
    for file in CLOSED {
        std::fs::write(folder.join(file), format!("{SECRET}\n")).unwrap();
    }
    std::fs::write(folder.join("open.txt"), "a b\nc d\n").unwrap();
    (outer, folder)
}

fn names_in(folder: &Path) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    names
}

#[test]
fn no_value_of_an_option_is_read_as_a_file() {
    let (_outer, folder) = world();
    let before = names_in(&folder);
    let mut wrong = Vec::new();
    let mut ran = 0;
    for program in SHELVES.iter().flat_map(|shelf| shelf.iter()) {
        // Other names are the same program.
        for name in program.names.iter().take(1) {
            for option in valued(program.options) {
                let file = CLOSED[0];
                for words in forms(option, file) {
                    let argv = [vec![(*name).to_owned()], words].concat();
                    if passes_unseen(&argv, file) {
                        ran += 1;
                        wrong.extend(wrong_runs(&argv, &folder));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(ran > 500, "only {ran} commands were run");
    assert_eq!(names_in(&folder), before);
}

#[test]
fn no_value_of_an_option_of_git_is_read_as_a_file_or_makes_one() {
    const COMMANDS: &[&str] = &[
        "status",
        "diff",
        "diff-tree",
        "diff-index",
        "diff-files",
        "log",
        "show",
        "rev-list",
        "shortlog",
        "branch",
        "tag",
        "blame",
        "annotate",
        "grep",
        "ls-files",
        "ls-tree",
        "cat-file",
        "rev-parse",
        "describe",
        "name-rev",
        "merge-base",
        "for-each-ref",
        "show-ref",
        "show-branch",
        "count-objects",
        "cherry",
        "check-ignore",
        "check-attr",
        "hash-object",
    ];
    let (_outer, folder) = world();
    let git = |words: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(words)
            .current_dir(&folder)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "open.txt", "closed.txt"]);
    git(&["commit", "-qm", "one"]);
    std::fs::write(folder.join("open.txt"), "changed\n").unwrap();
    git(&["commit", "-qam", "two"]);
    let references = git(&["show-ref"]);
    let mut wrong = Vec::new();
    let mut ran = 0;
    for command in COMMANDS {
        let tables = options_of(command).unwrap().join(" ");
        for option in valued(&tables) {
            for file in CLOSED {
                for words in forms(option, file) {
                    let start = ["git".to_owned(), (*command).to_owned()];
                    let argv = [start.to_vec(), words].concat();
                    if passes_unseen(&argv, file) {
                        ran += 1;
                        let mut plain = Command::new("timeout");
                        plain.arg("5").args(&argv).current_dir(&folder);
                        let output = plain.stdin(Stdio::null()).output().unwrap();
                        let shown = [output.stdout, output.stderr].concat();
                        if String::from_utf8_lossy(&shown).contains(SECRET) {
                            wrong.push(format!("shows it: {argv:?}"));
                        }
                    }
                }
            }
        }
        if git(&["show-ref"]) != references {
            wrong.push(format!("git {command} makes a reference"));
            break;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(ran > 500, "only {ran} commands were run");
}
