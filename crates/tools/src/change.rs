//! The way of a change to a file, the same for Write, Edit, MultiEdit and NotebookEdit: load it,
//! make sure that the model knows this version, compute the new text, keep the old one for undo,
//! replace it atomically, and remember what is there now.

use crate::context::{CallContext, ToolContext};
use crate::editor::{self, EditorError};
use crate::file_cache::Need;
use crate::files::{self, FileError, Loaded, Stamp, hash_of};
use crate::text_file::{self, Encoding};
use crate::tool::{CallTraits, InterruptBehavior, ToolError};
use lathe_protocol::display::{Display, Hunk};
use lathe_protocol::permission::Subject;
use std::path::{Path, PathBuf};

/// Above this the old content is not part of the structured result: it would be written to the
/// transcript with every change.
const LARGEST_ORIGINAL: usize = 1024 * 1024;

/// The traits of a tool that changes one file. Nothing is destroyed: the session keeps the old
/// version.
pub(crate) const TRAITS: CallTraits = CallTraits {
    read_only: false,
    concurrency_safe: false,
    destructive: false,
    open_world: false,
    interrupt: InterruptBehavior::Block,
    failure_cancels_siblings: false,
};

/// The subject of a tool that changes one file.
pub(crate) fn subject(path: &str, context: &ToolContext) -> Subject {
    Subject::Write {
        paths: vec![context.resolve_path(path)],
    }
}

impl From<FileError> for ToolError {
    fn from(error: FileError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A file's present text, for a change to be computed from.
pub(crate) struct Present {
    /// The text; empty when there is no file.
    pub(crate) text: String,
    /// How it is stored.
    pub(crate) encoding: Encoding,
    /// Whether there is a file.
    pub(crate) exists: bool,
}

/// The change that a tool wants.
pub(crate) struct Wanted<T> {
    /// The whole new text.
    pub(crate) text: String,
    /// Whatever the tool wants to keep for its result.
    pub(crate) detail: T,
}

/// The result of a change.
pub(crate) struct Done<T> {
    /// The text before; `None` when the file was created or the text is too long to report.
    pub(crate) original: Option<String>,
    /// Whether the file was created.
    pub(crate) created: bool,
    /// The difference.
    pub(crate) hunks: Vec<Hunk>,
    /// Further information for the model, one sentence each.
    pub(crate) notes: Vec<String>,
    /// The tool's own part.
    pub(crate) detail: T,
}

impl<T> Done<T> {
    /// For display.
    pub(crate) fn display(&self, path: &Path) -> Display {
        Display::Diff {
            path: path.to_owned(),
            hunks: self.hunks.clone(),
        }
    }

    /// The notes, each with a space in front, to follow the sentence that tells of success.
    pub(crate) fn notes_text(&self) -> String {
        self.notes.iter().map(|note| format!(" {note}")).collect()
    }
}

/// Checks before permission is asked for: a change that would be refused anyway
/// needs no question.
pub(crate) fn precheck(path: &str, need: Need, context: &ToolContext) -> Result<(), ToolError> {
    let path = context.resolve_path(path);
    let Ok(metadata) = std::fs::metadata(&path) else {
        return Ok(());
    };
    // An empty file holds nothing that the model would have to know.
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(());
    }
    // Without the bytes a newer time alone proves nothing, so only what is certain is refused here.
    match context
        .file_cache
        .check(&path, Stamp::of(&metadata), None, need)
    {
        Err(crate::file_cache::NotFresh::Changed(_)) | Ok(()) => Ok(()),
        Err(error) => Err(ToolError::failed(error.to_string())),
    }
}

/// Changes a file. `compute` makes the new text from the present one; when it refuses, nothing has
/// been touched.
pub(crate) async fn change<T: Send + 'static>(
    path: PathBuf,
    need: Need,
    context: CallContext,
    compute: impl FnOnce(&Present) -> Result<Wanted<T>, ToolError> + Send + 'static,
) -> Result<Done<T>, ToolError> {
    blocking(move || change_blocking(&path, need, &context, compute)).await
}

/// Runs work that blocks (files, large computations) where it doesn't hold up other tasks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match lathe_spawn::blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            // The executor contains and reports panics of tools.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(ToolError::Cancelled(error.to_string())),
        },
    }
}

fn change_blocking<T>(
    path: &Path,
    need: Need,
    context: &CallContext,
    compute: impl FnOnce(&Present) -> Result<Wanted<T>, ToolError>,
) -> Result<Done<T>, ToolError> {
    let session = &context.session;
    let loaded = files::load_for_change(path)?;
    let on_disk = loaded.as_ref().map(|loaded| loaded.bytes.as_slice());
    let buffer = editor::unsaved(context, path, on_disk);
    let present = present(path, need, session, loaded.as_ref(), buffer.as_deref())?;
    let wanted = compute(&present)?;
    let bytes = text_file::encode(&wanted.text, present.encoding).map_err(|error| {
        ToolError::failed(format!("{} was not changed: {error}.", path.display()))
    })?;
    if bytes.len() as u64 > files::LARGEST_FILE {
        return Err(ToolError::failed(format!(
            "{} was not changed: the new content is larger than 1 GiB.",
            path.display()
        )));
    }
    if context.cancel.is_cancelled() {
        return Err(ToolError::Cancelled(format!(
            "Stopped; {} was not changed.",
            path.display()
        )));
    }

    let target = match &loaded {
        Some(loaded) => loaded.target.clone(),
        None => files::follow_links(path)?,
    };
    session
        .change_observer
        .before_change(&target, context.turn)
        .map_err(|error| {
            ToolError::failed(format!(
                "{} was not changed, because its current content could not be saved for undo: {error}",
                path.display()
            ))
        })?;
    let put = put(
        context,
        path,
        loaded.as_ref(),
        &wanted.text,
        &bytes,
        buffer.is_some(),
    )?;
    session.change_observer.after_change(&target, context.turn);
    session.file_cache.record_change(
        path,
        put.stamp,
        put.hash,
        Some(&wanted.text),
        need == Need::Whole || !present.exists || present.text.is_empty(),
    );

    let hunks = lathe_diff::hunks(
        &text_file::with_lf(&present.text),
        &text_file::with_lf(&wanted.text),
    );
    Ok(Done {
        notes: notes(loaded.as_ref()),
        created: !present.exists,
        original: (present.exists && present.text.len() <= LARGEST_ORIGINAL)
            .then_some(present.text),
        hunks,
        detail: wanted.detail,
    })
}

/// The text that a change begins with: the editor's, where it has one that was not saved, else the file's. The
/// model must know it.
fn present(
    path: &Path,
    need: Need,
    session: &ToolContext,
    loaded: Option<&Loaded>,
    buffer: Option<&str>,
) -> Result<Present, ToolError> {
    let known = |stamp, hash| {
        session
            .file_cache
            .check(path, stamp, Some(hash), need)
            .map_err(|error| ToolError::failed(error.to_string()))
    };
    let mut present = Present {
        text: String::new(),
        encoding: Encoding::Utf8,
        exists: loaded.is_some() || buffer.is_some(),
    };
    if let Some(loaded) = loaded {
        // An empty file holds nothing that the model would have to know.
        if !loaded.bytes.is_empty() && buffer.is_none() {
            known(loaded.stamp, loaded.hash)?;
        }
        let (text, encoding) = text_file::decode(&loaded.bytes).map_err(|error| {
            ToolError::failed(format!(
                "{} was not changed: {error}. It can't be changed as text without damage.",
                path.display()
            ))
        })?;
        present.text = text.into_owned();
        present.encoding = encoding;
    }
    if let Some(buffer) = buffer {
        known(Stamp::unsaved(buffer), hash_of(buffer.as_bytes()))?;
        buffer.clone_into(&mut present.text);
    }
    Ok(present)
}

/// The version of a file that a change made.
struct Put {
    stamp: Stamp,
    hash: files::ContentHash,
}

/// Puts the new text in place: through the editor that lends its buffers, else on disk. An editor that doesn't
/// take it leaves the file to us, unless it has text for it that was not saved.
fn put(
    context: &CallContext,
    path: &Path,
    loaded: Option<&Loaded>,
    text: &str,
    bytes: &[u8],
    is_unsaved: bool,
) -> Result<Put, ToolError> {
    match editor::write(context, path, text) {
        Some(Ok(())) => {
            // What the editor saved may have other line ends or another encoding; what it did not save is
            // known by its text.
            return Ok(match files::load_for_change(path) {
                Ok(Some(saved)) if saved.bytes == bytes => Put {
                    stamp: saved.stamp,
                    hash: saved.hash,
                },
                Ok(Some(saved)) if is_text(&saved.bytes, text) => Put {
                    stamp: saved.stamp,
                    hash: saved.hash,
                },
                _ => Put {
                    stamp: Stamp::unsaved(text),
                    hash: hash_of(text.as_bytes()),
                },
            });
        }
        Some(Err(error)) if is_unsaved || error == EditorError::Cancelled => {
            return Err(ToolError::failed(format!(
                "{} was not changed: it has unsaved changes in the editor, and {error}.",
                path.display()
            )));
        }
        Some(Err(_)) | None => {}
    }
    let stamp = files::replace(path, loaded, bytes, || Ok(()))?;
    Ok(Put {
        stamp,
        hash: hash_of(bytes),
    })
}

fn is_text(bytes: &[u8], text: &str) -> bool {
    text_file::decode(bytes)
        .is_ok_and(|(saved, _)| text_file::with_lf(&saved) == text_file::with_lf(text))
}

fn notes(loaded: Option<&Loaded>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(loaded) = loaded
        && loaded.other_names() > 0
    {
        notes.push(format!(
            "The file had {} more hard link(s), which keep the old content.",
            loaded.other_names()
        ));
    }
    notes
}
