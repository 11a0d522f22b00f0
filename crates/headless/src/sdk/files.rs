//! Files that complete what a person types after `@`, for hosts that ask: as the terminal finds them.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Suggestions of one answer.
const MOST: usize = 15;
/// Files that are looked at.
const MOST_FILES: usize = 200_000;

/// The files and folders below a folder that fit a query, best first.
pub(super) fn suggestions(folder: &Path, query: &str, settings: &Value) -> Vec<Value> {
    let query = query
        .trim()
        .trim_start_matches('@')
        .trim_start_matches("./");
    let own = settings
        .pointer("/fileSuggestion/command")
        .and_then(Value::as_str);
    let found = match own {
        Some(command) => asked(folder, command, query),
        None => {
            let respects = settings.get("respectGitignore") != Some(&Value::Bool(false));
            ranked(&index(folder, respects), query)
        }
    };
    found
        .into_iter()
        .map(|path| {
            let is_folder = path.ends_with('/') || folder.join(&path).is_dir();
            json!({"path": path, "displayText": path, "isDirectory": is_folder})
        })
        .collect()
}

/// What the person's own command finds: it gets the query and prints a path a line.
fn asked(folder: &Path, command: &str, query: &str) -> Vec<String> {
    let started = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = started else {
        return Vec::new();
    };
    if let Some(mut input) = child.stdin.take() {
        // A command that doesn't read is fine.
        let _ = input.write_all(json!({"query": query}).to_string().as_bytes());
    }
    let output = child.wait_with_output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default()
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(MOST)
        .map(str::to_owned)
        .collect()
}

fn index(folder: &Path, respect_gitignore: bool) -> Vec<String> {
    ignore::WalkBuilder::new(folder)
        .hidden(false)
        .git_ignore(respect_gitignore)
        .git_exclude(respect_gitignore)
        .git_global(respect_gitignore)
        .require_git(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build()
        .flatten()
        .filter_map(|entry| {
            let text = entry.path().strip_prefix(folder).ok()?.to_str()?.to_owned();
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            (!text.is_empty()).then(|| if is_folder { format!("{text}/") } else { text })
        })
        .take(MOST_FILES)
        .collect()
}

fn ranked(files: &[String], query: &str) -> Vec<String> {
    if query.is_empty() {
        let mut shallow: Vec<&String> = files
            .iter()
            .filter(|path| !path.trim_end_matches('/').contains('/'))
            .collect();
        shallow.sort();
        return shallow.into_iter().take(MOST).cloned().collect();
    }
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let pattern = Pattern::parse(query, CaseMatching::Smart, Normalization::Smart);
    let mut buffer = Vec::new();
    let mut found: Vec<(u32, &String)> = files
        .iter()
        .filter_map(|path| {
            let score = pattern.score(Utf32Str::new(path, &mut buffer), &mut matcher)?;
            Some((score, path))
        })
        .collect();
    // Of two that fit as well, the shorter is more likely meant.
    found.sort_unstable_by(|one, other| {
        other
            .0
            .cmp(&one.0)
            .then(one.1.len().cmp(&other.1.len()))
            .then(one.1.cmp(other.1))
    });
    found
        .into_iter()
        .take(MOST)
        .map(|(_, path)| path.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_as_the_terminal_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["src/main.rs", "docs/main.md", "target/main.o", ".git/HEAD"] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::fs::write(folder.path().join(".gitignore"), "target\n").unwrap();
        let paths = |query: &str, settings: Value| -> Vec<String> {
            suggestions(folder.path(), query, &settings)
                .iter()
                .map(|found| found["path"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(paths("main.rs", json!({})), ["src/main.rs"]);
        assert_eq!(paths("@main", json!({})).len(), 2);
        assert_eq!(paths("", json!({})), [".gitignore", "docs/", "src/"]);
        assert_eq!(paths("main", json!({"respectGitignore": false})).len(), 3);
        let own = json!({"fileSuggestion": {"command": "grep -o query; echo docs"}});
        assert_eq!(paths("x", own.clone()), ["query", "docs"]);
        let folders = suggestions(folder.path(), "x", &own);
        assert_eq!(folders[1]["isDirectory"], true);
    }
}
