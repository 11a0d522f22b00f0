//! Rules: instruction files that may hold for certain paths only.
//!
//! Front matter says which: `paths: src/**/*.ts`, a list in brackets, or a list with dashes. A rule
//! without it always holds.

use super::{Scope, Skipped, read_bounded};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::path::{Path, PathBuf};

/// A rule file.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) path: PathBuf,
    pub(super) scope: Scope,
    patterns: Vec<String>,
    globs: GlobSet,
    /// The folder that patterns are relative to.
    base: PathBuf,
}

impl Rule {
    pub(super) fn is_always(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The patterns, if one of them covers a path.
    pub(super) fn covers(&self, path: &Path) -> Option<Vec<String>> {
        let relative = path.strip_prefix(&self.base).ok()?;
        self.globs.is_match(relative).then(|| self.patterns.clone())
    }
}

/// How deep folders of rules are searched.
const DEEPEST: usize = 5;

/// The rules in a folder and below, in the order of their paths.
pub(super) fn rules_in(folder: &Path, scope: Scope, base: &Path) -> Vec<Result<Rule, Skipped>> {
    let mut files = Vec::new();
    collect(folder, 0, &mut files);
    files.sort();
    files
        .into_iter()
        .map(|path| rule(path, scope, base))
        .collect()
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    if depth > DEEPEST {
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, depth + 1, files);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
}

fn rule(path: PathBuf, scope: Scope, base: &Path) -> Result<Rule, Skipped> {
    let skipped = |path: &Path, why: String| Skipped {
        path: path.to_path_buf(),
        why,
        needs_approval: false,
    };
    let (text, _) = read_bounded(&path, super::LARGEST_FILE)
        .map_err(|error| skipped(&path, format!("can't be read: {error}")))?;
    let mut patterns = patterns_of(&text);
    // What covers everything is no condition.
    if patterns
        .iter()
        .any(|one| matches!(one.as_str(), "**" | "**/*"))
    {
        patterns.clear();
    }
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns.iter().flat_map(|pattern| as_globs(pattern)) {
        let glob = GlobBuilder::new(&pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| skipped(&path, format!("has a bad path pattern: {error}")))?;
        builder.add(glob);
    }
    let globs = builder
        .build()
        .map_err(|error| skipped(&path, format!("has bad path patterns: {error}")))?;
    Ok(Rule {
        path,
        scope,
        patterns,
        globs,
        base: base.to_path_buf(),
    })
}

/// A pattern as globs. As in `.gitignore`, one without a slash matches in every folder, and a folder
/// covers everything in it.
fn as_globs(pattern: &str) -> Vec<String> {
    let pattern = pattern.trim_start_matches("./");
    let name = pattern.trim_matches('/');
    let anchored = pattern.trim_end_matches('/').contains('/');
    let glob = if anchored {
        name.to_owned()
    } else {
        format!("**/{name}")
    };
    let inside = format!("{glob}/**");
    vec![glob, inside]
}

/// Splits a text into front matter and body.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest = rest
        .strip_prefix("---\n")
        .or_else(|| rest.strip_prefix("---\r\n"))?;
    let mut offset = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..offset], &rest[offset + line.len()..]));
        }
        offset += line.len();
    }
    None
}

/// The text without front matter.
pub(super) fn without_front_matter(text: &str) -> &str {
    split(text).map_or(text, |(_, body)| body)
}

/// The patterns that front matter names.
fn patterns_of(text: &str) -> Vec<String> {
    let Some((front, _)) = split(text) else {
        return Vec::new();
    };
    let mut patterns = Vec::new();
    let mut in_list = false;
    for line in front.lines() {
        if let Some(item) = line.trim_start().strip_prefix('-').filter(|_| in_list) {
            patterns.extend(unquoted(item));
            continue;
        }
        in_list = false;
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        if key.trim() != "paths" || key.starts_with(char::is_whitespace) {
            continue;
        }
        let value = value.trim();
        if value.is_empty() {
            in_list = true;
            continue;
        }
        let list = value
            .strip_prefix('[')
            .and_then(|value| value.strip_suffix(']'))
            .unwrap_or(value);
        patterns.extend(split_outside_braces(list).into_iter().filter_map(unquoted));
    }
    patterns
}

fn unquoted(text: &str) -> Option<String> {
    let text = text.trim().trim_matches(['"', '\'']).trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Splits at commas, but not inside `{a,b}`.
fn split_outside_braces(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (index, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth <= 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_an_ignore_file() {
        let folder = tempfile::tempdir().unwrap();
        let covered = |pattern: &str, file: &str| {
            let path = folder.path().join("rule.md");
            std::fs::write(&path, format!("---\npaths: \"{pattern}\"\n---\nx\n")).unwrap();
            let rule = rule(path, Scope::Project, folder.path()).unwrap();
            rule.is_always() || rule.covers(&folder.path().join(file)).is_some()
        };
        for (pattern, file, expected) in [
            ("*.ts", "a.ts", true),
            ("*.ts", "src/deep/a.ts", true),
            ("src", "src/deep/a.ts", true),
            ("src/", "src/a.ts", true),
            ("src", "lib/src/a.ts", true),
            ("/src", "lib/src/a.ts", false),
            ("src/api", "src/api/x.ts", true),
            ("src/*.ts", "src/a.ts", true),
            ("src/*.ts", "src/deep/a.ts", false),
            ("src/**", "src/deep/a.ts", true),
            ("**", "anything", true),
            ("*.ts", "a.tsx", false),
        ] {
            assert_eq!(covered(pattern, file), expected, "{pattern} on {file}");
        }
    }

    #[test]
    fn patterns_are_read_in_every_form_that_people_write() {
        for (front, expected) in [
            ("paths: src/**/*.ts", vec!["src/**/*.ts"]),
            (
                "paths: \"src/**/*.{ts,tsx}\", lib/*.js",
                vec!["src/**/*.{ts,tsx}", "lib/*.js"],
            ),
            ("paths: [a/*.rs, 'b/*.rs']", vec!["a/*.rs", "b/*.rs"]),
            (
                "name: x\npaths:\n  - a/**\n  - \"b/**\"\nother: y",
                vec!["a/**", "b/**"],
            ),
            // A key of other tools, whose rules always hold here.
            ("globs: '*.md'", vec![]),
            ("description: nothing here", vec![]),
        ] {
            assert_eq!(
                patterns_of(&format!("---\n{front}\n---\nbody\n")),
                expected,
                "{front}"
            );
        }
        assert_eq!(
            patterns_of("no front matter\npaths: x\n"),
            Vec::<String>::new()
        );
        assert_eq!(without_front_matter("---\npaths: a\n---\nbody\n"), "body\n");
        assert_eq!(
            without_front_matter("--- not closed\nbody"),
            "--- not closed\nbody"
        );
    }
}
