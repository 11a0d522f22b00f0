//! Everything that is declared has a test that shows its effect.
//!
//! Settings, environment variables, flags, hook events, fields of hooks, keys of front matter and options of SDK
//! hosts are listed from the declarations that the documentation is made from. `effects.txt` names a test for
//! each; an item without one, a name without a test and a line without an item fail.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

mod declared;
mod tool_page;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn read(path: &str) -> String {
    let path = lathe_testkit::workspace_root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of `effects.txt`: item → test.
fn listed() -> BTreeMap<String, String> {
    let text = read("crates/testkit/tests/effects/effects.txt");
    let mut listed = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (item, test) = line
            .split_once(" = ")
            .unwrap_or_else(|| panic!("not `item = test`: {line}"));
        let before = listed.insert(item.to_owned(), test.to_owned());
        assert_eq!(before, None, "listed twice: {item}");
    }
    listed
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The names of all tests of the workspace.
fn tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(&lathe_testkit::workspace_root().join("crates"), &mut files);
    let mut names = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut marked = false;
        for line in text.lines().map(str::trim) {
            if line == "#[test]" || line.starts_with("#[tokio::test") {
                marked = true;
            } else if marked && let Some(rest) = line.split_once("fn ") {
                let name = rest.1.split(['(', '<']).next().unwrap_or_default();
                names.insert(name.to_owned());
                marked = false;
            }
        }
    }
    names.extend(behaviours());
    names
}

/// The names of the behaviours that the official packages are driven through, each a test of its own in
/// `tests/sdk`.
fn behaviours() -> BTreeSet<String> {
    let folder = lathe_testkit::workspace_root().join("tests/sdk");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        // Python leaves a folder of compiled files.
        if entry.path().is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap();
        for line in text.lines() {
            let name = line
                .strip_prefix("  async ")
                .and_then(|rest| rest.split_once("(test)"))
                .or_else(|| line.strip_prefix("async def ")?.split_once("(case"));
            names.extend(name.map(|(name, _)| name.to_owned()));
        }
    }
    names
}

#[test]
fn everything_declared_has_a_test_that_shows_its_effect() {
    let declared = declared::all();
    let listed = listed();
    let missing: Vec<&String> = declared
        .iter()
        .filter(|item| !listed.contains_key(*item))
        .collect();
    assert!(
        missing.is_empty(),
        "no test in effects.txt shows the effect of: {missing:#?}"
    );
    let surplus: Vec<&String> = listed
        .keys()
        .filter(|item| !declared.contains(*item))
        .collect();
    assert!(surplus.is_empty(), "not declared any more: {surplus:#?}");
}

#[test]
fn every_named_test_exists() {
    let tests = tests();
    let unknown: Vec<String> = listed()
        .into_iter()
        .filter(|(_, test)| !tests.contains(test))
        .map(|(item, test)| format!("{item} = {test}"))
        .collect();
    assert!(unknown.is_empty(), "there is no such test: {unknown:#?}");
}

#[test]
fn every_kind_of_declaration_is_found() {
    let declared = declared::all();
    for (kind, least) in [
        ("setting", 80),
        ("variable", 80),
        ("flag", 50),
        ("hook event", 25),
        ("hook field", 15),
        ("agent key", 15),
        ("skill key", 10),
        ("sdk option", 15),
    ] {
        let prefix = format!("{kind} ");
        let count = declared
            .iter()
            .filter(|item| item.starts_with(&prefix))
            .count();
        assert!(count >= least, "{kind}: only {count} were found");
    }
}
