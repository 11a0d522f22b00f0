//! Services of an editor that runs the session, for its tools: the text of its buffers, and its terminals.
//!
//! A buffer may hold what isn't on disk yet. Read, Edit, Write and the other tools for files see that text
//! where it differs from the file, and a change goes through the editor, so that nothing that the user typed
//! is lost. Permission is decided before any of this, and in the same way.

use crate::context::CallContext;
use crate::text_file;
use futures::future::BoxFuture;
use lathe_protocol::ids::ToolUseId;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// How long an editor may take for a file.
const FILE_LIMIT: Duration = Duration::from_secs(30);

/// An editor that runs the session.
pub trait Editor: Send + Sync {
    /// The services that it offers.
    fn lends(&self) -> Lends;

    /// The text of a file, with changes that were not saved.
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, EditorError>>;

    /// Gives a file a new text, in its buffer and on disk.
    fn write<'a>(&'a self, path: &'a Path, text: &'a str)
    -> BoxFuture<'a, Result<(), EditorError>>;

    /// Runs a command in a terminal of the editor, to its end.
    fn run<'a>(
        &'a self,
        command: TerminalCommand<'a>,
    ) -> BoxFuture<'a, Result<TerminalRun, EditorError>>;
}

/// The services of an editor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lends {
    /// The text of buffers.
    pub reads: bool,
    /// Changes to buffers.
    pub writes: bool,
    /// Terminals.
    pub terminals: bool,
}

/// Why an editor did not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditorError {
    /// It said no; its words.
    #[error("the editor says: {0}")]
    Refused(String),
    /// It did not answer in time.
    #[error("the editor did not answer within {} s", FILE_LIMIT.as_secs())]
    NoAnswer,
    /// The call was stopped.
    #[error("stopped")]
    Cancelled,
}

/// A command for a terminal of the editor.
pub struct TerminalCommand<'a> {
    /// The call that it belongs to.
    pub call: &'a ToolUseId,
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: &'a [String],
    /// Where it runs.
    pub folder: &'a Path,
    /// Variables beside those of the editor.
    pub variables: &'a [(String, String)],
    /// How many bytes of its output are kept.
    pub output_limit: usize,
    /// When it is ended.
    pub timeout: Duration,
    /// Ends it.
    pub cancel: &'a CancellationToken,
}

/// The result of a command in a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalRun {
    /// The editor's name of the terminal.
    pub terminal: String,
    /// Its output, as far as it was kept.
    pub output: String,
    /// Whether the start of the output is missing.
    pub truncated: bool,
    /// How it ended.
    pub end: TerminalEnd,
}

/// How a command in a terminal ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalEnd {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal, named by the editor.
    Signalled(String),
    /// Its time was up.
    TimedOut,
    /// It was cancelled.
    Cancelled,
}

/// The text of a buffer, where it is another than that on disk. An editor that lends none, or doesn't know the
/// file, has none. On a thread that may wait.
pub(crate) fn unsaved(
    context: &CallContext,
    path: &Path,
    on_disk: Option<&[u8]>,
) -> Option<String> {
    let editor = context.session.editor.as_ref()?;
    if !editor.lends().reads {
        return None;
    }
    let text = wait(context, editor.read(path)).ok()?;
    let same = match on_disk {
        None => text.is_empty(),
        Some(bytes) => text_file::decode(bytes)
            .is_ok_and(|(saved, _)| text_file::with_lf(&saved) == text_file::with_lf(&text)),
    };
    (!same).then_some(text)
}

/// Gives a file its new text through the editor; `None` if it lends no such thing. On a thread that may wait.
pub(crate) fn write(
    context: &CallContext,
    path: &Path,
    text: &str,
) -> Option<Result<(), EditorError>> {
    let editor = context.session.editor.as_ref()?;
    editor
        .lends()
        .writes
        .then(|| wait(context, editor.write(path, text)))
}

fn wait<T>(
    context: &CallContext,
    work: BoxFuture<'_, Result<T, EditorError>>,
) -> Result<T, EditorError> {
    Handle::current().block_on(async {
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => Err(EditorError::Cancelled),
            done = tokio::time::timeout(FILE_LIMIT, work) => {
                done.unwrap_or(Err(EditorError::NoAnswer))
            }
        }
    })
}
