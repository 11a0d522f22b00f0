//! Glob: files by name, newest first.

use crate::change::blocking;
use crate::context::{CallContext, ToolContext};
use crate::newest_files;
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use crate::walk::{self, Ignored};
use globset::GlobSetBuilder;
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// How many files are named.
const MOST_FILES: usize = 100;

/// Finds files by name.
pub struct Glob;

/// Which files.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// For example "**/*.rs" or "src/**/*.{ts,tsx}".
    pattern: String,
    /// The folder to look in. Default: the working folder.
    #[serde(default)]
    path: Option<String>,
    /// Also files that .gitignore leaves out.
    #[serde(default)]
    include_ignored: Option<bool>,
}

impl Input {
    /// The folder that the walk starts in and the pattern below it. The part of the pattern that
    /// has no wildcard is walked to directly.
    fn base(&self, context: &ToolContext) -> (PathBuf, String) {
        let start = match &self.path {
            Some(path) => context.resolve_path(path),
            None => context.working_folder.read().clone(),
        };
        let pattern = self.pattern.trim();
        let literal = pattern
            .find(['*', '?', '[', '{', '!', '\\'])
            .unwrap_or(pattern.len());
        let fixed = pattern.get(..literal).unwrap_or_default();
        match fixed.rfind('/') {
            Some(slash) => {
                let folder = pattern.get(..=slash).unwrap_or_default();
                let rest = pattern.get(slash + 1..).unwrap_or_default();
                let base = if folder.starts_with(['/', '~']) {
                    context.resolve_path(folder)
                } else {
                    context.resolve_path(&start.join(folder).to_string_lossy())
                };
                // What is left would otherwise lose its place: only a bare name holds anywhere.
                let rest = if rest.contains('/') {
                    rest.to_owned()
                } else {
                    format!("/{rest}")
                };
                (base, rest)
            }
            None => (start, pattern.to_owned()),
        }
    }
}

impl Tool for Glob {
    type Input = Input;

    fn name(&self) -> &'static str {
        "Glob"
    }

    fn description(&self) -> &'static str {
        include_str!("glob.md")
    }

    fn path_fields(&self) -> &'static [&'static str] {
        &["path"]
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits::READS
    }

    fn subject(&self, input: &Input, context: &ToolContext) -> Subject {
        Subject::Read {
            paths: vec![input.base(context).0],
        }
    }

    fn activity(&self, input: &Input) -> String {
        format!("Finding {}", input.pattern)
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let started = Instant::now();
        let (base, pattern) = input.base(&context.session);
        if !base.is_dir() {
            return Err(ToolError::failed(format!(
                "{} is not a directory.",
                base.display()
            )));
        }
        let mut set = GlobSetBuilder::new();
        walk::add(&mut set, &pattern)?;
        let set = walk::build(&set)?;
        let ignored = if input.include_ignored.unwrap_or(false) {
            Ignored::Included
        } else {
            Ignored::LeftOut
        };
        let cancel = context.cancel.clone();
        // A name may hold what looks like a wildcard: `app/[id]/page.tsx`.
        let literal = base.join(pattern.trim_start_matches('/'));
        let (found, total): (Vec<PathBuf>, usize) = blocking(move || {
            let newest = newest_files::find(&base, &set, ignored, MOST_FILES, &cancel);
            if cancel.is_cancelled() {
                return Err(ToolError::Cancelled("The search was stopped.".to_owned()));
            }
            if newest.total == 0 && literal.is_file() {
                return Ok((vec![literal], 1));
            }
            let total = newest.total;
            let found = newest.into_paths().map(|path| base.join(path)).collect();
            Ok((found, total))
        })
        .await?;

        let names: Vec<String> = found
            .iter()
            .map(|path| context.session.shown(path))
            .collect();
        let truncated = total > names.len();
        let mut text = if names.is_empty() {
            "No files found.".to_owned()
        } else {
            names.join("\n")
        };
        if truncated {
            text.push_str(&format!(
                "\n\n[The newest {} of {total} files; narrow the pattern to see others.]",
                names.len()
            ));
        }
        if names.is_empty() && ignored == Ignored::LeftOut {
            text.push_str(" Files in .gitignore were skipped; include_ignored finds them.");
        }
        Ok(ToolOutput::new(
            text,
            json!({
                "filenames": names,
                "numFiles": names.len(),
                "truncated": truncated,
                "durationMs": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            }),
            Display::FileList {
                paths: names,
                truncated,
            },
        ))
    }
}
