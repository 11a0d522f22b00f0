//! Licences, duplicate versions and sources of the dependencies, against the lists of `deny.toml`.
//!
//! `cargo deny check` does the same and also asks for advisories, which needs the network. This test needs only
//! `cargo metadata` and the lock file.

use lathe_testkit::workspace_root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The strings of a list in `deny.toml`.
fn list(name: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(workspace_root().join("deny.toml")).unwrap();
    let start = format!("\n{name} = [");
    let (_, rest) = text.split_once(&start).expect("the list is in deny.toml");
    let (inside, _) = rest.split_once(']').unwrap();
    let lines = inside.lines().map(|line| line.split('#').next().unwrap());
    lines
        .flat_map(|line| line.split('"').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

/// The packages from registries that are compiled on this machine: name, version, licence, source.
fn packages() -> Vec<(String, String, String, String)> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let platform = match std::env::consts::OS {
        "macos" => format!("{}-apple-darwin", std::env::consts::ARCH),
        _ => platform,
    };
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .args(["--filter-platform", &platform])
        .current_dir(workspace_root())
        .output()
        .expect("cargo can be started");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let used: BTreeSet<&str> = nodes
        .iter()
        .filter_map(|node| node["id"].as_str())
        .collect();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .filter(|package| used.contains(package["id"].as_str().unwrap()))
        .filter(|package| package["source"].is_string())
        .map(|package| {
            let field = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
            (
                field("name"),
                field("version"),
                field("license"),
                field("source"),
            )
        })
        .collect()
}

/// Whether a licence expression can be satisfied by the allowed licences: `OR` and `/` need one side, `AND` both.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let value = any_of(&words, &mut at, allowed);
    value && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut value = all_of(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        value |= all_of(words, at, allowed);
    }
    value
}

fn all_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut value = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        value &= one(words, at, allowed);
    }
    value
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let word = words.get(*at).copied().unwrap_or_default();
    *at += 1;
    if word == "(" {
        let value = any_of(words, at, allowed);
        *at += 1;
        return value;
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1).copied().unwrap_or_default();
        *at += 2;
        return allowed.contains(&format!("{word} WITH {exception}"));
    }
    allowed.contains(word)
}

/// Every crate is code that somebody else changes, and time of every build.
#[cfg(target_os = "linux")]
#[test]
fn there_are_no_more_crates_than_there_were() {
    let names: BTreeSet<String> = packages().into_iter().map(|package| package.0).collect();
    lathe_testkit::counts::assert_at_most("crates from registries", names.len() as u64);
}

#[test]
fn licence_expressions_are_understood() {
    let allowed: BTreeSet<String> = ["MIT".to_owned(), "ISC".to_owned()].into();
    assert!(satisfied("MIT OR Apache-2.0", &allowed));
    assert!(satisfied("Apache-2.0/MIT", &allowed));
    assert!(satisfied("(GPL-3.0 OR MIT) AND ISC", &allowed));
    assert!(!satisfied("MIT AND GPL-3.0", &allowed));
    assert!(!satisfied("Apache-2.0 WITH LLVM-exception", &allowed));
    assert!(!satisfied("", &allowed));
}

#[test]
fn dependencies_have_allowed_licences_and_sources() {
    let allowed = list("allow");
    let mut found = Vec::new();
    for (name, version, licence, source) in packages() {
        if !satisfied(&licence, &allowed) {
            found.push(format!("{name} {version}: licence {licence:?}"));
        }
        if source != "registry+https://github.com/rust-lang/crates.io-index" {
            found.push(format!("{name} {version}: source {source}"));
        }
    }
    assert!(found.is_empty(), "not in deny.toml:\n{}", found.join("\n"));
}

#[test]
fn there_is_one_version_of_a_dependency() {
    let skipped = list("skip");
    let mut versions: BTreeMap<String, Vec<(Vec<u64>, String)>> = BTreeMap::new();
    for (name, version, ..) in packages() {
        let numbers = version
            .split(['.', '-', '+'])
            .map_while(|part| part.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        versions.entry(name).or_default().push((numbers, version));
    }
    let mut older = BTreeSet::new();
    for (name, mut all) in versions {
        all.sort();
        all.pop();
        older.extend(
            all.into_iter()
                .map(|(_, version)| format!("{name}@{version}")),
        );
    }
    let new: Vec<&String> = older.difference(&skipped).collect();
    assert!(
        new.is_empty(),
        "a second version came in, avoid it or add it to `skip` in deny.toml: {new:?}"
    );
    // Other platforms have other duplicates.
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        let gone: Vec<&String> = skipped.difference(&older).collect();
        assert!(gone.is_empty(), "remove from `skip` in deny.toml: {gone:?}");
    }
}

/// The names of the dependencies in a manifest that are not ours.
fn named_in(manifest: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_list = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_list = line.trim_end_matches(']').ends_with("dependencies");
            continue;
        }
        let name: String = line
            .chars()
            .take_while(|letter| letter.is_ascii_alphanumeric() || "-_".contains(*letter))
            .collect();
        if is_list && !name.is_empty() && !name.starts_with("lathe") {
            found.insert(name);
        }
    }
    found
}

#[test]
fn the_page_names_every_dependency() {
    let root = workspace_root();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let mut named = named_in(&read(root.join("Cargo.toml")));
    assert!(named.contains("tokio"), "{named:?}");
    for folder in crate::sources::crates() {
        named.extend(named_in(&read(folder.join("Cargo.toml"))));
    }
    let page = read(root.join("ARCHITECTURE.md"));
    let (_, list) = page.split_once("\n## Dependencies\n").unwrap();
    let list = list.split("\n## ").next().unwrap();
    let words: BTreeSet<&str> = list
        .split(|letter: char| !letter.is_ascii_alphanumeric() && !"-_".contains(letter))
        .collect();
    let missing: Vec<&String> = named
        .iter()
        .filter(|name| !words.contains(name.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "not under 'Dependencies' in ARCHITECTURE.md: {missing:?}"
    );
}
