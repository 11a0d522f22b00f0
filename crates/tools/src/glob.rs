//! Glob: files by name, newest first.

use crate::change::blocking;
use crate::context::{CallContext, ToolContext};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use crate::walk::{self, Ignored};
use globset::{GlobSet, GlobSetBuilder};
use ignore::WalkState;
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};
use tokio_util::sync::CancellationToken;

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
        let (found, total) = blocking(move || {
            let found = find(&base, &set, ignored, &cancel)?;
            Ok(if found.1 == 0 && literal.is_file() {
                (vec![literal], 1)
            } else {
                found
            })
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
            text.push_str(
                " Files that .gitignore names were left out; include_ignored finds them.",
            );
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

/// The newest files that match, newest first, and how many match in all.
fn find(
    base: &Path,
    set: &GlobSet,
    ignored: Ignored,
    cancel: &CancellationToken,
) -> Result<(Vec<PathBuf>, usize), ToolError> {
    let found: Mutex<Vec<(Reverse<SystemTime>, PathBuf)>> = Mutex::new(Vec::new());
    walk::walk(base, ignored).build_parallel().run(|| {
        Box::new(|entry| {
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            // What can't be looked into is left out, as in a shell.
            let Ok(entry) = entry else {
                return WalkState::Continue;
            };
            // Folders are not files, nor are links to folders.
            let is_file = match entry.file_type() {
                Some(kind) if kind.is_symlink() => entry.path().is_file(),
                Some(kind) => !kind.is_dir(),
                None => false,
            };
            if !is_file {
                return WalkState::Continue;
            }
            let relative = entry.path().strip_prefix(base).unwrap_or(entry.path());
            if set.is_match(relative) {
                let modified = entry
                    .metadata()
                    .ok()
                    .and_then(|metadata| metadata.modified().ok())
                    .unwrap_or(SystemTime::UNIX_EPOCH);
                found.lock().push((Reverse(modified), entry.into_path()));
            }
            WalkState::Continue
        })
    });
    if cancel.is_cancelled() {
        return Err(ToolError::Cancelled("The search was stopped.".to_owned()));
    }
    let mut found = found.into_inner();
    let total = found.len();
    if total > MOST_FILES {
        found.select_nth_unstable(MOST_FILES);
        found.truncate(MOST_FILES);
    }
    found.sort_unstable();
    Ok((found.into_iter().map(|(_, path)| path).collect(), total))
}
