//! Documents that are kept current by themselves.
//!
//! A file whose first line is `# MAGIC DOC: title` (a line in italics after it may say what to mind) and
//! that was read in a session is compared with what the session brought, after turns in which
//! something was done. The model is asked with the same prefix and can only answer with the new text of that
//! one file. It is written under the same rules as an edit: where an edit would not be allowed without
//! a question, nothing happens; it can be undone; and a file that changed meanwhile is left alone.
//!
//! Background work like session notes: bounded, cancelled at the end, counted as a side query, and
//! off unless it was asked for (`magicDocs` in settings, or `LATHE_MAGIC_DOCS=1`).

use crate::background::note_side_usage;
use crate::context::summary::with_directive;
use crate::core::{Core, Shared};
use crate::decide::OutputCap;
use crate::notes::ask;
use lathe_permissions::CallFacts;
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::ids::RecordId;
use lathe_protocol::permission::{Decision, Subject};
use lathe_tools::files::{self, hash_of};
use serde_json::json;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a document begins.
const HEADER: &str = "# MAGIC DOC:";
/// Documents that a session keeps current.
const MOST_DOCUMENTS: usize = 3;
/// Bytes that such a document may have.
const MOST_BYTES: usize = 64 * 1024;
/// How long an update may take.
const LIMIT: Duration = Duration::from_secs(180);
/// What the model says when there is nothing to do.
const UNCHANGED: &str = "UNCHANGED";

/// The documents that a session keeps current.
#[derive(Debug, Default)]
pub(crate) struct MagicDocs {
    pub(crate) enabled: bool,
    known: Vec<PathBuf>,
    calls: u32,
    running: Option<tokio::task::AbortHandle>,
}

impl Core {
    /// A call is done; if it showed such a document, that is known from now on.
    pub(crate) fn note_documents(&mut self, tool: &str, paths: &[PathBuf]) {
        let documents = &mut self.context.magic_docs;
        if !documents.enabled {
            return;
        }
        documents.calls += 1;
        if tool != "Read" {
            return;
        }
        for path in paths {
            if documents.known.len() < MOST_DOCUMENTS
                && !documents.known.contains(path)
                && is_document(path)
            {
                documents.known.push(path.clone());
            }
        }
    }

    /// Starts an update of the known documents, if something was done since the last one.
    pub(crate) fn update_documents(&mut self, turn: RecordId) {
        let may_spend = self.may_spend();
        let documents = &mut self.context.magic_docs;
        let busy = documents
            .running
            .as_ref()
            .is_some_and(|running| !running.is_finished());
        if documents.known.is_empty() || documents.calls == 0 || busy || !may_spend {
            return;
        }
        documents.calls = 0;
        let known = documents.known.clone();
        let shared = self.shared.clone();
        let mut updates = Vec::new();
        for path in known {
            if !may_write(&shared, &path) {
                continue;
            }
            let Ok(Some(loaded)) = files::load_for_change(&path) else {
                continue;
            };
            let Ok(text) = std::str::from_utf8(&loaded.bytes) else {
                continue;
            };
            if !text.starts_with(HEADER) || text.len() > MOST_BYTES {
                continue;
            }
            let directive = format!(
                "{}The file is {}. Its text now:\n{text}",
                include_str!("../prompts/magic_doc.md"),
                path.display()
            );
            let mut request = self.request(OutputCap::Large);
            request.messages = with_directive(&request.messages.to_vec(), 0, &directive);
            updates.push((path, loaded, request));
        }
        let policy = self.recovery_policy();
        let cancel = shared.notes.cancel.clone();
        let background = shared.background.clone();
        let task = background.spawn(async move {
            for (path, loaded, request) in updates {
                let asked = ask(&shared, request, policy.clone(), &cancel);
                let Some((text, header)) = tokio::time::timeout(LIMIT, asked).await.ok().flatten()
                else {
                    continue;
                };
                note_side_usage(&shared, &header);
                let new = new_text(&String::from_utf8_lossy(&loaded.bytes), &text);
                let Some(new) = new else { continue };
                // Keeping the old content for undo blocks.
                let (to, file) = (shared.clone(), path.clone());
                let written = lathe_spawn::blocking(move || write(&to, &file, &loaded, &new, turn));
                match written.await.unwrap_or_else(|error| Err(error.to_string())) {
                    Ok(()) => shared.events.notice(
                        NoticeLevel::Info,
                        format!("{} was brought up to date.", shared.tools.shown(&path)),
                    ),
                    Err(error) => tracing::info!(%error, "a document was not brought up to date"),
                }
            }
        });
        self.context.magic_docs.running = Some(task);
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
fn may_write(shared: &Shared, path: &Path) -> bool {
    let context = shared.permissions.snapshot();
    let subject = Subject::Write {
        paths: vec![path.to_owned()],
    };
    let facts = CallFacts {
        tool_name: "Edit",
        aliases: &[],
        input: &json!({"file_path": path}),
        subject: &subject,
        read_only: false,
        resolved: lathe_permissions::resolve(&subject, &context),
    };
    matches!(
        lathe_permissions::decide(&facts, &context),
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

fn write(
    shared: &Shared,
    path: &Path,
    loaded: &files::Loaded,
    text: &str,
    turn: RecordId,
) -> Result<(), String> {
    let observer = &shared.tools.change_observer;
    observer.before_change(&loaded.target, turn)?;
    let stamp = files::replace(path, Some(loaded), text.as_bytes(), || Ok(()))
        .map_err(|error| error.to_string())?;
    let cache = &shared.tools.file_cache;
    cache.record_change(path, stamp, hash_of(text.as_bytes()), Some(text), false);
    observer.after_change(&loaded.target, turn);
    Ok(())
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
