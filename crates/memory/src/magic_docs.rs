//! Documents that are kept current by themselves.
//!
//! A file whose first line is `# MAGIC DOC: title` (a line in italics after it may say what to mind) and
//! that was read in a session is compared with what the session brought, after turns in which
//! something was done. The request to the model has the same prefix, and its answer can only be the new text of that
//! one file. It is written under the same rules as an edit: where an edit would not be allowed without
//! a question, nothing happens; it can be undone; and a file that changed meanwhile is left alone.
//!
//! Background work like session notes: bounded, cancelled at the end, counted as a side query, and
//! off unless it was asked for (`magicDocs` in settings, or `LATHE_MAGIC_DOCS=1`).

use lathe_permissions::{CallFacts, PermissionContext};
use lathe_protocol::ids::RecordId;
use lathe_protocol::permission::{Decision, Subject};
use lathe_session::SessionError;
use lathe_tools::ToolContext;
use lathe_tools::files::{self, FileError, Loaded, hash_of};
use serde_json::json;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Why a document was not written.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Its old content can't be kept for undo.
    #[error(transparent)]
    Undo(#[from] SessionError),
    /// It changed meanwhile, or can't be written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// How a document begins.
const HEADER: &str = "# MAGIC DOC:";
/// Documents that a session keeps current.
const MOST_DOCUMENTS: usize = 3;
/// Bytes that such a document may have.
const MOST_BYTES: usize = 64 * 1024;
/// The answer of the model when nothing changes.
const UNCHANGED: &str = "UNCHANGED";

/// The documents that a session keeps current.
#[derive(Debug, Default)]
pub struct MagicDocs {
    /// Whether documents are kept current at all.
    pub enabled: bool,
    known: Vec<PathBuf>,
    calls: u32,
}

impl MagicDocs {
    /// A call is done; if it showed such a document, that is known from now on.
    pub fn note_call(&mut self, tool: &str, paths: &[PathBuf]) {
        if !self.enabled {
            return;
        }
        self.calls += 1;
        if tool != "Read" {
            return;
        }
        for path in paths {
            if self.known.len() < MOST_DOCUMENTS && !self.known.contains(path) && is_document(path)
            {
                self.known.push(path.clone());
            }
        }
    }

    /// Whether there are documents and something was done since they were last looked at.
    #[must_use]
    pub fn is_due(&self) -> bool {
        !self.known.is_empty() && self.calls > 0
    }

    /// Begins an update: the documents that may be written, each with the directive for the model.
    pub fn begin(&mut self, permissions: &PermissionContext) -> Vec<Update> {
        self.calls = 0;
        let known = self.known.iter();
        known
            .filter(|path| may_write(permissions, path))
            .filter_map(|path| Update::new(path))
            .collect()
    }
}

/// A document that the model is asked about.
#[derive(Debug)]
pub struct Update {
    /// The file.
    pub path: PathBuf,
    /// The directive for the model.
    pub directive: String,
    loaded: Loaded,
}

impl Update {
    fn new(path: &Path) -> Option<Self> {
        let loaded = files::load_for_change(path).ok()??;
        let text = std::str::from_utf8(&loaded.bytes).ok()?;
        if !text.starts_with(HEADER) || text.len() > MOST_BYTES {
            return None;
        }
        let directive = format!(
            "{}The file is {}. Its text now:\n{text}",
            include_str!("../prompts/magic_doc.md"),
            path.display()
        );
        Some(Self {
            path: path.to_owned(),
            directive,
            loaded,
        })
    }

    /// The text that the model answered, if it is a new text of this document.
    #[must_use]
    pub fn new_text(&self, answer: &str) -> Option<String> {
        new_text(&String::from_utf8_lossy(&self.loaded.bytes), answer)
    }

    /// Writes the new text, so that it can be undone. Blocks.
    ///
    /// # Errors
    /// When the file changed meanwhile, can't be kept for undo or can't be written.
    pub fn write(
        &self,
        tools: &ToolContext,
        text: &str,
        turn: RecordId,
    ) -> Result<(), DocumentError> {
        let observer = &tools.change_observer;
        observer.before_change(&self.loaded.target, turn)?;
        let stamp = files::replace(&self.path, Some(&self.loaded), text.as_bytes(), || Ok(()))?;
        let hash = hash_of(text.as_bytes());
        let cache = &tools.file_cache;
        cache.record_change(&self.path, stamp, hash, Some(text), false);
        observer.after_change(&self.loaded.target, turn);
        Ok(())
    }
}

fn is_document(path: &Path) -> bool {
    let mut beginning = [0; HEADER.len()];
    std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut beginning))
        .is_ok()
        && beginning == HEADER.as_bytes()
}

/// Whether an edit of the file would be allowed without a question.
fn may_write(context: &PermissionContext, path: &Path) -> bool {
    let subject = Subject::Write {
        paths: vec![path.to_owned()],
    };
    let facts = CallFacts {
        tool_name: "Edit",
        aliases: &[],
        input: &json!({"file_path": path}),
        subject: &subject,
        read_only: false,
        resolved: lathe_permissions::resolve(&subject, context),
    };
    matches!(
        lathe_permissions::decide(&facts, context),
        Decision::Allow { .. }
    )
}

/// The new text of a document; `None` when it stays, or when the answer isn't one.
fn new_text(before: &str, answer: &str) -> Option<String> {
    let answer = answer.trim();
    let header = before.lines().next()?.trim_end();
    let same_header = answer.lines().next()?.trim_end() == header;
    if answer == UNCHANGED || !same_header || answer.len() > MOST_BYTES {
        return None;
    }
    let new = format!("{answer}\n");
    (new != before).then_some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_changed_text_with_the_same_header_counts() {
        let before = "# MAGIC DOC: clocks\n*short*\n\nTick.\n";
        assert_eq!(new_text(before, "UNCHANGED"), None);
        assert_eq!(new_text(before, before), None);
        assert_eq!(new_text(before, "Here you are: …"), None);
        assert_eq!(new_text(before, "# MAGIC DOC: watches\nTock."), None);
        assert_eq!(
            new_text(before, "# MAGIC DOC: clocks\nTock.").as_deref(),
            Some("# MAGIC DOC: clocks\nTock.\n")
        );
    }

    #[test]
    fn a_document_is_known_by_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.md");
        std::fs::write(&path, "# MAGIC DOC: clocks\n").unwrap();
        assert!(is_document(&path));
        std::fs::write(&path, "# MAGIC\n").unwrap();
        assert!(!is_document(&path));
        assert!(!is_document(folder.path()));
    }
}
