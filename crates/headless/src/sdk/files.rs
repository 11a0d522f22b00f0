//! Files that complete what the user types after `@`, for hosts that ask: as the terminal finds them.

use super::control::RequestError;
use lathe_engine::SessionHandle;
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use serde_json::{Value, json};
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// Suggestions of one answer.
const MOST: usize = 15;

/// The files and folders below the working folder that fit a query, best first; found by the command
/// that settings name, if they name one.
pub(super) async fn suggestions(
    session: &SessionHandle,
    query: &str,
) -> Result<Vec<Value>, RequestError> {
    let query = query
        .trim()
        .trim_start_matches('@')
        .trim_start_matches("./")
        .to_owned();
    let folder = session.context().working_folder();
    let own = session
        .settings()
        .suggested_files(&query, CancellationToken::new());
    let asked = match own {
        Some(answer) => Some(
            answer
                .await
                .map_err(|error| RequestError::Session(format!("fileSuggestion: {error}")))?,
        ),
        None => None,
    };
    let respects = session.settings().json().get("respectGitignore") != Some(&Value::Bool(false));
    let found = lathe_spawn::blocking(move || {
        let found =
            asked.unwrap_or_else(|| ranked(&lathe_tools::project_files(&folder, respects), &query));
        described(&folder, found)
    });
    found
        .await
        .map_err(|error| RequestError::Session(error.to_string()))
}

fn described(folder: &Path, found: Vec<String>) -> Vec<Value> {
    found
        .into_iter()
        .map(|path| {
            let is_folder = path.ends_with('/') || folder.join(&path).is_dir();
            json!({"path": path, "displayText": path, "isDirectory": is_folder})
        })
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
    fn the_best_come_first_and_folders_are_told_apart() {
        let files: Vec<String> = [".gitignore", "docs/", "docs/main.md", "src/", "src/main.rs"]
            .map(str::to_owned)
            .into();
        assert_eq!(ranked(&files, "main.rs"), ["src/main.rs"]);
        assert_eq!(ranked(&files, "main").len(), 2);
        assert_eq!(ranked(&files, ""), [".gitignore", "docs/", "src/"]);
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        let told = described(folder.path(), vec!["docs".into(), "x.rs".into()]);
        assert_eq!(told[0]["isDirectory"], true);
        assert_eq!(told[1]["isDirectory"], false);
    }
}
