//! Changed files: in the working folder since the last commit, and by the session itself.
//!
//! Git's own patch is taken apart here; what the session changed comes from its checkpoints, as what a
//! rewind would undo, turned around.

use crate::render::diff;
use lathe_engine::context::git::{Git, GitError};
use lathe_protocol::display::Hunk;
use lathe_session::checkpoint::FileAction;
use std::path::{Path, PathBuf};

/// Untracked files that are shown, and how long one may be.
const MOST_UNTRACKED: usize = 200;
const LONGEST_UNTRACKED: u64 = 256 * 1024;

/// A file that changed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChangedFile {
    pub(crate) path: String,
    /// Where it is.
    pub(crate) file: PathBuf,
    pub(crate) hunks: Vec<Hunk>,
    /// A note besides its lines: `new`, `deleted`, `was old.rs`, `not text`.
    pub(crate) note: Option<String>,
}

impl ChangedFile {
    /// Lines that came and went.
    pub(crate) fn counts(&self) -> (usize, usize) {
        lathe_diff::counts(&self.hunks)
    }
}

/// Files that changed, or why that can't be said.
pub(crate) type Changes = Result<Vec<ChangedFile>, ChangesError>;

/// Why changes can't be listed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangesError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("the session is being opened")]
    NoSession,
    /// Why the session can't list its changes.
    #[error("{0}")]
    Session(String),
    #[error("listing the changes failed: {0}")]
    Interrupted(#[source] tokio::task::JoinError),
}

/// The differences from the last commit, including untracked files.
pub(crate) async fn since_commit(git: &Git) -> Changes {
    let top = git.run(&["rev-parse", "--show-toplevel"]).await?;
    let top = Path::new(top.trim_end());
    let git = git.at(top).map_err(GitError::from)?;
    // Before the first commit everything is new: the empty tree is what it is compared with.
    let base = match git.run(&["rev-parse", "--verify", "--quiet", "HEAD"]).await {
        Ok(commit) => commit,
        Err(_) => git.run(&["hash-object", "-t", "tree", "/dev/null"]).await?,
    };
    let patch = git
        .run(&[
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--find-renames",
            base.trim_end(),
        ])
        .await?;
    let untracked = git
        .run(&["ls-files", "--others", "--exclude-standard", "-z"])
        .await?;
    let top = top.to_path_buf();
    lathe_spawn::blocking(move || listed(&top, &patch, &untracked))
        .await
        .map_err(ChangesError::Interrupted)
}

/// The files of a patch, and those that git doesn't know.
fn listed(top: &Path, patch: &str, untracked: &str) -> Vec<ChangedFile> {
    let mut files = parse(patch);
    for file in &mut files {
        file.file = top.join(&file.path);
    }
    for path in untracked.split('\0').filter(|path| !path.is_empty()) {
        if files.len() >= MOST_UNTRACKED {
            break;
        }
        files.push(untracked_file(top, path));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn untracked_file(top: &Path, path: &str) -> ChangedFile {
    let file = top.join(path);
    let short = std::fs::symlink_metadata(&file)
        .is_ok_and(|found| found.is_file() && found.len() <= LONGEST_UNTRACKED);
    let text = if short {
        std::fs::read_to_string(&file).ok()
    } else {
        None
    };
    ChangedFile {
        path: path.to_owned(),
        file,
        note: Some(if text.is_some() {
            "new".to_owned()
        } else {
            "new, not shown".to_owned()
        }),
        hunks: text.map_or_else(Vec::new, |text| diff::hunks("", &text)),
    }
}

/// The files that the session changed, derived from what undoing would change.
pub(crate) fn of_session(
    undo: &[lathe_session::checkpoint::FileChange],
    folder: &Path,
) -> Vec<ChangedFile> {
    let mut files: Vec<ChangedFile> = undo
        .iter()
        .map(|change| {
            let hunks: Vec<Hunk> = parse(&change.diff)
                .into_iter()
                .flat_map(|file| file.hunks)
                .map(reversed)
                .collect();
            let note = match change.action {
                FileAction::Deleted => Some("new"),
                FileAction::Recreated => Some("deleted"),
                FileAction::Restored if hunks.is_empty() => Some("not shown"),
                FileAction::Restored => None,
            };
            ChangedFile {
                path: crate::render::cell::short_path(&change.path.display().to_string(), folder),
                file: change.path.clone(),
                hunks,
                note: note.map(str::to_owned),
            }
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The text before a change, from the text after it; `None` if the text isn't what the change made.
pub(crate) fn before(now: &str, hunks: &[Hunk]) -> Option<String> {
    let lines: Vec<&str> = now.split_inclusive('\n').collect();
    let mut out = String::new();
    let mut at = 0;
    for hunk in hunks {
        // A hunk without new lines stands after the line that it names.
        let start = hunk
            .new_start
            .saturating_sub(usize::from(hunk.new_lines > 0));
        out.push_str(&lines.get(at..start)?.concat());
        at = start;
        for line in &hunk.lines {
            let (sign, text) = line.split_at_checked(1)?;
            if sign == "\\" {
                // The line before it has no end.
                if hunk.lines.last() == Some(line) && out.ends_with('\n') && at == lines.len() {
                    out.pop();
                }
                continue;
            }
            if sign != "-" {
                let found = lines.get(at)?;
                if found.trim_end_matches(['\r', '\n']) != text {
                    return None;
                }
                at += 1;
                if sign == " " {
                    out.push_str(found);
                }
                continue;
            }
            out.push_str(text);
            out.push('\n');
        }
    }
    out.push_str(&lines.get(at..)?.concat());
    Some(out)
}

/// A change the other way round: what came went.
fn reversed(hunk: Hunk) -> Hunk {
    let mut lines = Vec::with_capacity(hunk.lines.len());
    let (mut gone, mut come) = (Vec::new(), Vec::new());
    for line in hunk.lines {
        match line.chars().next() {
            Some('+') => gone.push(format!("-{}", &line[1..])),
            Some('-') => come.push(format!("+{}", &line[1..])),
            _ => {
                lines.append(&mut gone);
                lines.append(&mut come);
                lines.push(line);
            }
        }
    }
    lines.append(&mut gone);
    lines.append(&mut come);
    Hunk {
        old_start: hunk.new_start,
        old_lines: hunk.new_lines,
        new_start: hunk.old_start,
        new_lines: hunk.old_lines,
        lines,
    }
}

/// Takes a patch apart.
fn parse(patch: &str) -> Vec<ChangedFile> {
    let mut files: Vec<ChangedFile> = Vec::new();
    // How many lines of the present hunk are still to come, of the old text and of the new.
    let (mut old_left, mut new_left) = (0_usize, 0_usize);
    for line in patch.lines() {
        if (old_left > 0 || new_left > 0)
            && let Some(hunk) = files.last_mut().and_then(|file| file.hunks.last_mut())
        {
            match line.chars().next() {
                Some('+') => new_left = new_left.saturating_sub(1),
                Some('-') => old_left = old_left.saturating_sub(1),
                Some('\\') => continue,
                _ => {
                    old_left = old_left.saturating_sub(1);
                    new_left = new_left.saturating_sub(1);
                }
            }
            hunk.lines.push(line.trim_end_matches('\r').to_owned());
            continue;
        }
        if let Some(names) = line.strip_prefix("diff --git ") {
            let path = names
                .rsplit_once(" b/")
                .map_or(names, |(_, path)| path)
                .to_owned();
            files.push(ChangedFile {
                path,
                file: PathBuf::new(),
                hunks: Vec::new(),
                note: None,
            });
        } else if let Some(name) = line.strip_prefix("--- ") {
            // A patch that isn't git's has no line before this one.
            if files.last().is_none_or(|file| !file.hunks.is_empty()) {
                files.push(ChangedFile {
                    path: name.trim_start_matches("a/").to_owned(),
                    file: PathBuf::new(),
                    hunks: Vec::new(),
                    note: None,
                });
            }
        } else if let Some(name) = line.strip_prefix("+++ ") {
            if let Some(file) = files.last_mut()
                && name != "/dev/null"
            {
                name.trim_start_matches("b/")
                    .trim_end_matches('\t')
                    .clone_into(&mut file.path);
            }
        } else if let Some((old, new)) = ranges(line) {
            (old_left, new_left) = (old.1, new.1);
            if let Some(file) = files.last_mut() {
                file.hunks.push(Hunk {
                    old_start: old.0,
                    old_lines: old.1,
                    new_start: new.0,
                    new_lines: new.1,
                    lines: Vec::new(),
                });
            }
        } else if let Some(file) = files.last_mut() {
            let note = if line.starts_with("new file mode") {
                Some("new".to_owned())
            } else if line.starts_with("deleted file mode") {
                Some("deleted".to_owned())
            } else if let Some(from) = line.strip_prefix("rename from ") {
                Some(format!("was {from}"))
            } else if line.starts_with("Binary files") {
                Some("not text".to_owned())
            } else {
                None
            };
            if note.is_some() {
                file.note = note;
            }
        }
    }
    files
}

/// `@@ -1,2 +3,4 @@`: where the hunk stands in the old and the new text, and how long it is there.
fn ranges(line: &str) -> Option<((usize, usize), (usize, usize))> {
    let rest = line.strip_prefix("@@ -")?;
    let (ranges, _) = rest.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    Some((range(old)?, range(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/src/a b.rs b/src/a b.rs\nindex 1..2 100644\n--- a/src/a b.rs\n+++ b/src/a b.rs\n@@ -1,3 +1,3 @@ fn a\n one\n--- two\n+++ two\n three\n@@ -9 +9,2 @@\n-x\n+y\n+z\n\\ No newline at end of file\ndiff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-all\ndiff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\ndiff --git a/p.png b/p.png\nBinary files a/p.png and b/p.png differ\n";

    #[test]
    fn a_patch_is_taken_apart_even_where_its_lines_look_like_headers() {
        let files = parse(PATCH);
        let shown: Vec<(&str, (usize, usize), Option<&str>)> = files
            .iter()
            .map(|file| (file.path.as_str(), file.counts(), file.note.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("src/a b.rs", (3, 2), None),
                ("gone", (0, 1), Some("deleted")),
                ("new", (0, 0), Some("was old")),
                ("p.png", (0, 0), Some("not text")),
            ]
        );
        assert_eq!(
            files[0].hunks[0].lines,
            [" one", "--- two", "+++ two", " three"]
        );
        assert_eq!(files[0].hunks[1].new_start, 9);
    }

    #[test]
    fn undo_hunks_are_reversed() {
        let hunks = diff::hunks("a\nnew\nc\n", "a\nold\nolder\nc\n");
        let turned: Vec<Hunk> = hunks.into_iter().map(reversed).collect();
        assert_eq!(turned, diff::hunks("a\nold\nolder\nc\n", "a\nnew\nc\n"));
    }

    #[test]
    fn the_text_before_a_change_comes_from_the_text_after_it() {
        for (old, new) in [
            ("a\nb\nc\n", "a\nx\nc\n"),
            ("", "new\nfile\n"),
            (
                "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n",
                "b\nc\nd\ne\nf\ng\nh\ni\nj\nk\n",
            ),
            ("a\nb\nc\n", "a\nc\n"),
        ] {
            let hunks = diff::hunks(old, new);
            assert_eq!(before(new, &hunks).as_deref(), Some(old), "{new:?}");
        }
        let hunks = diff::hunks("a\nb\n", "a\nx\n");
        assert_eq!(before("a\nsomething else\n", &hunks), None);
        assert_eq!(before("", &hunks), None);
    }
}
