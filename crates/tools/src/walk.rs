//! Walking a tree for Glob and Grep: in parallel, by the rules of `.gitignore` and `.ignore`, past
//! the folders in which version control keeps its own.

use crate::tool::ToolError;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::types::{Types, TypesBuilder};
use ignore::{DirEntry, WalkBuilder};
use lathe_settings::regular_file::has_endless_ignore_file;
use std::path::Path;

/// Folders that belong to version control systems.
pub(crate) const VERSION_CONTROL: [&str; 6] = [".git", ".hg", ".svn", ".jj", ".bzr", ".sl"];

/// Which files are left out by what they are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ignored {
    /// Files named in ignore files are left out.
    LeftOut,
    /// Everything is there.
    Included,
}

/// A walk from a folder or file. Hidden files are part of it.
pub(crate) fn walk(start: &Path, ignored: Ignored) -> WalkBuilder {
    let rules = ignored == Ignored::LeftOut && !start.ancestors().any(has_endless_ignore_file);
    let mut builder = WalkBuilder::new(start);
    builder
        .hidden(false)
        .ignore(rules)
        .git_ignore(rules)
        .git_exclude(rules)
        .git_global(rules)
        .parents(rules)
        // A `.gitignore` says what it says, whether or not the folder is a repository yet.
        .require_git(false)
        .threads(threads())
        .filter_entry(move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let is_endless = rules && is_folder && has_endless_ignore_file(entry.path());
            !is_version_control(entry) && !is_endless
        });
    builder
}

/// How many threads walk.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, |threads| threads.get().min(12))
}

fn is_version_control(entry: &DirEntry) -> bool {
    entry.depth() > 0
        && entry.file_type().is_some_and(|kind| kind.is_dir())
        && entry
            .file_name()
            .to_str()
            .is_some_and(|name| VERSION_CONTROL.contains(&name))
}

/// Globs that a path must match one of, and globs that it may not match.
pub(crate) struct GlobFilter {
    included: Option<GlobSet>,
    excluded: GlobSet,
}

impl GlobFilter {
    /// Reads globs divided by spaces or commas (outside braces); one with `!` in front excludes.
    pub(crate) fn parse(text: &str) -> Result<Self, ToolError> {
        let mut included = GlobSetBuilder::new();
        let mut excluded = GlobSetBuilder::new();
        let mut any_included = false;
        for pattern in split_globs(text) {
            match pattern.strip_prefix('!') {
                Some(pattern) => add(&mut excluded, pattern)?,
                None => {
                    any_included = true;
                    add(&mut included, pattern)?;
                }
            }
        }
        let included = build(&included)?;
        Ok(Self {
            included: any_included.then_some(included),
            excluded: build(&excluded)?,
        })
    }

    /// Whether a path, relative to where the walk started, passes.
    pub(crate) fn passes(&self, relative: &Path) -> bool {
        self.included
            .as_ref()
            .is_none_or(|included| included.is_match(relative))
            && !self.excluded.is_match(relative)
    }
}

fn split_globs(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(|character: char| {
        match character {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (character == ',' || character.is_whitespace())
    })
    .filter(|part| !part.is_empty())
    .collect()
}

/// Adds a glob. Without a slash it holds for names at any depth, as in a `.gitignore`.
pub(crate) fn add(set: &mut GlobSetBuilder, pattern: &str) -> Result<(), ToolError> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let anchored = match pattern.strip_prefix('/') {
        Some(rest) => rest.to_owned(),
        None if pattern.contains('/') => pattern.to_owned(),
        None => format!("**/{pattern}"),
    };
    let mut globs = vec![anchored.clone()];
    // A folder's name means what is in it.
    if let Some(folder) = anchored.strip_suffix('/') {
        globs = vec![format!("{folder}/**")];
    }
    for glob in globs {
        let glob = GlobBuilder::new(&glob)
            .literal_separator(true)
            .build()
            .map_err(|error| ToolError::invalid(format!("The glob is invalid: {error}.")))?;
        set.add(glob);
    }
    Ok(())
}

pub(crate) fn build(set: &GlobSetBuilder) -> Result<GlobSet, ToolError> {
    set.build()
        .map_err(|error| ToolError::invalid(format!("The glob is invalid: {error}.")))
}

/// The file types that `type` names: `rust`, or several divided by commas.
pub(crate) fn types(names: &str) -> Result<Types, ToolError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    for name in names.split([',', ' ']).filter(|name| !name.is_empty()) {
        builder.select(name);
    }
    builder.build().map_err(|_| {
        let mut known = TypesBuilder::new();
        known.add_defaults();
        let close: Vec<String> = known
            .definitions()
            .iter()
            .map(|definition| definition.name().to_owned())
            .filter(|known| {
                names
                    .chars()
                    .next()
                    .is_some_and(|first| known.starts_with(first))
            })
            .take(20)
            .collect();
        ToolError::invalid(format!(
            "There is no file type `{names}`. Similar types: {}. For anything else use glob, for example \"*.{names}\".",
            close.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_divided_outside_braces_and_may_exclude() {
        assert_eq!(
            split_globs("*.{ts,tsx}, *.js !*.min.js"),
            ["*.{ts,tsx}", "*.js", "!*.min.js"]
        );
        let filter = GlobFilter::parse("*.{ts,tsx} *.js !*.min.js").unwrap();
        for (path, passes) in [
            ("a.ts", true),
            ("deep/er/b.tsx", true),
            ("a.min.js", false),
            ("a.rs", false),
        ] {
            assert_eq!(filter.passes(Path::new(path)), passes, "{path}");
        }
        assert!(
            GlobFilter::parse("!*.md")
                .unwrap()
                .passes(Path::new("a.rs"))
        );
        assert!(GlobFilter::parse("a{b").is_err());
    }

    #[test]
    fn a_glob_with_a_slash_is_held_to_its_place() {
        let filter = GlobFilter::parse("src/*.rs").unwrap();
        assert!(filter.passes(Path::new("src/a.rs")));
        assert!(!filter.passes(Path::new("x/src/a.rs")));
        assert!(!filter.passes(Path::new("src/x/a.rs")));
        assert!(
            GlobFilter::parse("docs/")
                .unwrap()
                .passes(Path::new("docs/a/b.md"))
        );
    }

    #[test]
    fn an_unknown_type_is_answered_with_known_ones() {
        assert!(types("rust").is_ok());
        assert!(types("py,js").is_ok());
        let error = types("rusty").unwrap_err().to_string();
        assert!(
            error.contains("rust") && error.contains("*.rusty"),
            "{error}"
        );
    }
}
