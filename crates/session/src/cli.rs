//! The `lathe sessions` commands. Every function gives plain data or text; the binary
//! prints it.

use crate::chain::Interruption;
use crate::checkpoint::{FileAction, FileHistory, RewindMode, RewindReport, WriteGuard};
use crate::error::SessionError;
use crate::export::{ExportFormat, export as export_document};
use crate::link::{self, Verification};
use crate::load::{Loaded, load};
use crate::paths::SessionPaths;
use crate::store::{Scope, SessionInfo, SessionStore, append_fact, one_line};
use crate::writer::{TranscriptWriter, WriterOptions};
use lathe_protocol::ids::{RecordId, SessionId};
use lathe_protocol::record::{Fact, MessageRecord, Record, RecordMessage};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use unicode_width::UnicodeWidthStr as _;

/// Tells a session's whole story in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionDetail {
    /// The session.
    #[serde(flatten)]
    pub info: SessionInfo,
    /// The prompts, oldest first: the places to rewind to.
    pub prompts: Vec<PromptRow>,
    /// How the last turn ended, in words; `None` when it ended as it should.
    pub interrupted: Option<String>,
    /// Usage and cost totals.
    pub cost: Option<Value>,
    /// The task list.
    pub todos: Option<Value>,
    /// The permission mode.
    pub permission_mode: Option<String>,
    /// The notes that the session kept about itself.
    pub notes: Option<String>,
    /// Damaged lines that were passed over.
    pub damaged_lines: usize,
    /// Stored contents that are gone.
    pub missing_contents: usize,
}

/// One prompt of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptRow {
    /// The record, which `rewind` takes.
    pub id: RecordId,
    /// When it was given.
    pub timestamp: String,
    /// Its text on one line.
    pub text: String,
}

/// The target of a rewind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindWhat {
    /// The conversation and the files.
    Both,
    /// The conversation only.
    Conversation,
    /// The files only.
    Files,
}

/// The result of a rewind, made or planned.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RewindOutcome {
    /// The session.
    pub session: SessionId,
    /// The prompt that was rewound to.
    pub to: PromptRow,
    /// The files; `None` when only the conversation was to be rewound.
    pub files: Option<RewindReport>,
    /// Whether the conversation was rewound.
    pub conversation: bool,
    /// How many messages of the conversation are set aside.
    pub messages: usize,
}

/// The rows of `sessions list`: the sessions of a folder's project, or all of them.
#[must_use]
pub fn list(store: &SessionStore, scope: Scope<'_>, limit: Option<usize>) -> Vec<SessionInfo> {
    store.list(scope, limit)
}

/// A table for a terminal `width` columns wide.
#[must_use]
pub fn list_table(sessions: &[SessionInfo], width: usize, now: jiff::Timestamp) -> String {
    if sessions.is_empty() {
        return "No sessions here. `lathe sessions list --all` shows those of other folders.\n"
            .to_owned();
    }
    let rows: Vec<[String; 6]> = sessions.iter().map(|info| row(info, now)).collect();
    let heads = ["ID", "MODIFIED", "MESSAGES", "BRANCH", "TITLE", "FOLDER"];
    let mut widths = heads.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    const TITLE: usize = 4;
    widths[3] = widths[3].min(24);
    widths[5] = widths[5].min(40);
    // The title takes what the others leave.
    let others: usize = widths
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != TITLE)
        .map(|(_, it)| it + 2)
        .sum();
    widths[TITLE] = widths[TITLE].min(width.saturating_sub(others).max(20));
    let mut table = String::new();
    for cells in std::iter::once(&heads.map(str::to_owned)).chain(&rows) {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            let cell = cut(cell, width);
            line.push_str(&cell);
            line.extend(std::iter::repeat_n(' ', width - cell.width() + 2));
        }
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

/// As JSON, one array.
#[must_use]
pub fn list_json(sessions: &[SessionInfo]) -> String {
    json_text(&sessions)
}

fn row(info: &SessionInfo, now: jiff::Timestamp) -> [String; 6] {
    let title = match (&info.tag, info.title.as_deref().unwrap_or("(no title)")) {
        (Some(tag), title) => format!("[{tag}] {title}"),
        (None, title) => title.to_owned(),
    };
    [
        info.id.to_string(),
        age(info.modified, now),
        info.messages
            .map_or_else(|| size(info.size), |count| count.to_string()),
        info.branch.clone().unwrap_or_default(),
        one_line(&title, 200),
        info.cwd
            .as_ref()
            .map(|cwd| cwd.display().to_string())
            .unwrap_or_default(),
    ]
}

/// How long ago, in the largest unit that fits.
fn age(time: jiff::Timestamp, now: jiff::Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(time.as_second()).max(0);
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..2_592_000 => format!("{} d ago", seconds / 86_400),
        _ => time.strftime("%Y-%m-%d").to_string(),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KB", bytes / 1_024),
        1_048_576..1_073_741_824 => format!("{:.1} MB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GB", bytes as f64 / 1_073_741_824.0),
    }
}

/// Text cut to a number of columns.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut shown = String::new();
    for letter in text.chars() {
        shown.push(letter);
        if shown.width() >= width {
            shown.pop();
            break;
        }
    }
    shown.push('…');
    shown
}

fn json_text(value: &impl Serialize) -> String {
    // Plain data with text keys; writing it can't fail.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// `sessions show`.
///
/// # Errors
/// When the session isn't found or can't be read.
pub fn show(store: &SessionStore, wanted: &str, cwd: &Path) -> Result<SessionDetail, SessionError> {
    let info = store.resolve(wanted, cwd)?;
    let loaded = load(&info.path)?;
    Ok(SessionDetail {
        prompts: prompt_rows(&loaded),
        interrupted: interruption_text(&loaded.interruption()),
        cost: loaded.facts.cost.clone(),
        todos: loaded.facts.todos.clone(),
        permission_mode: loaded.facts.mode.clone(),
        damaged_lines: loaded.damaged.len() + usize::from(loaded.torn_tail),
        missing_contents: loaded.missing_blobs.len(),
        notes: info.notes(),
        info,
    })
}

/// `sessions verify`: the session's own transcript, then those of its agents.
///
/// # Errors
/// When the session isn't found or a transcript can't be read.
pub fn verify(
    store: &SessionStore,
    wanted: &str,
    cwd: &Path,
) -> Result<Vec<Verification>, SessionError> {
    let info = store.resolve(wanted, cwd)?;
    let mut found = vec![link::verify(&info.path)?];
    let folder = SessionPaths::of_transcript(&info.path).subagents();
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut agents: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
        .collect();
    agents.sort();
    for path in agents {
        found.push(link::verify(&path)?);
    }
    Ok(found)
}

/// As JSON, one array.
#[must_use]
pub fn verify_json(found: &[Verification]) -> String {
    json_text(&found)
}

fn prompt_rows(loaded: &Loaded) -> Vec<PromptRow> {
    loaded
        .history()
        .iter()
        .filter_map(|record| as_prompt(record))
        .map(prompt_row)
        .collect()
}

fn as_prompt(record: &Record) -> Option<&MessageRecord> {
    crate::chain::as_message(record).filter(|message| message.is_prompt())
}

fn prompt_row(record: &MessageRecord) -> PromptRow {
    PromptRow {
        id: record.uuid,
        timestamp: record.timestamp.clone(),
        text: one_line(
            &record
                .message
                .as_ref()
                .map(RecordMessage::text)
                .unwrap_or_default(),
            200,
        ),
    }
}

fn interruption_text(interruption: &Interruption) -> Option<String> {
    match interruption {
        Interruption::None => None,
        Interruption::DuringPrompt { .. } => Some("the last prompt was not answered".to_owned()),
        Interruption::DuringReply => Some("the last answer was cut off".to_owned()),
        Interruption::DuringTools { unanswered } => {
            Some(format!("{} tool calls were under way", unanswered.len()))
        }
        Interruption::AfterTools => Some("the model has not seen the last results".to_owned()),
    }
}

/// [`show`] as text.
#[must_use]
pub fn show_text(detail: &SessionDetail) -> String {
    let info = &detail.info;
    let mut text = String::new();
    let mut line = |label: &str, value: Option<String>| {
        if let Some(value) = value {
            // Writing to a string can't fail.
            let _ = writeln!(text, "{label:<12} {value}");
        }
    };
    line("session", Some(info.id.to_string()));
    line("title", info.title.clone());
    line("tag", info.tag.clone());
    line(
        "folder",
        info.cwd.as_ref().map(|cwd| cwd.display().to_string()),
    );
    line("branch", info.branch.clone());
    line("begun", info.created.clone());
    line(
        "modified",
        Some(crate::template::format_timestamp(info.modified)),
    );
    line("messages", info.messages.map(|count| count.to_string()));
    line("size", Some(size(info.size)));
    line("mode", detail.permission_mode.clone());
    line("interrupted", detail.interrupted.clone());
    line(
        "damaged",
        (detail.damaged_lines > 0).then(|| format!("{} lines", detail.damaged_lines)),
    );
    line(
        "missing",
        (detail.missing_contents > 0)
            .then(|| format!("{} stored contents", detail.missing_contents)),
    );
    line("transcript", Some(info.path.display().to_string()));
    if !detail.prompts.is_empty() {
        text.push_str("\nprompts\n");
        for prompt in &detail.prompts {
            let _ = writeln!(
                text,
                "  {}  {}  {}",
                prompt.id,
                prompt.timestamp,
                cut(&prompt.text, 80)
            );
        }
    }
    if let Some(notes) = &detail.notes {
        text.push_str("\nnotes\n");
        for line in notes.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// [`show`] as JSON.
#[must_use]
pub fn show_json(detail: &SessionDetail) -> String {
    json_text(detail)
}

/// How much of a session an export shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privacy<'a> {
    /// Everything as it is.
    Whole,
    /// Without secrets, mail addresses and the path of this home folder.
    Sanitized(Option<&'a Path>),
}

/// `sessions export`.
///
/// # Errors
/// When the session isn't found or can't be read.
pub fn export(
    store: &SessionStore,
    wanted: &str,
    cwd: &Path,
    format: ExportFormat,
    privacy: Privacy<'_>,
) -> Result<String, SessionError> {
    let info = store.resolve(wanted, cwd)?;
    let loaded = load(&info.path)?;
    Ok(match privacy {
        Privacy::Whole => export_document(&info, &loaded, format),
        Privacy::Sanitized(home) => {
            let (info, loaded) = crate::sanitize::sanitized(&info, &loaded, home);
            export_document(&info, &loaded, format)
        }
    })
}

/// `sessions delete`: gives what was deleted.
///
/// # Errors
/// When the session isn't found, is in use, or can't be deleted.
pub fn delete(store: &SessionStore, wanted: &str, cwd: &Path) -> Result<SessionInfo, SessionError> {
    let info = store.resolve(wanted, cwd)?;
    store.delete(&info)?;
    Ok(info)
}

/// `sessions rename`; an empty title takes the title away.
///
/// # Errors
/// When the session isn't found or can't be written.
pub fn rename(
    store: &SessionStore,
    wanted: &str,
    cwd: &Path,
    title: &str,
) -> Result<SessionInfo, SessionError> {
    let info = store.resolve(wanted, cwd)?;
    store.rename(&info, title)?;
    Ok(info)
}

/// `sessions tag`; an empty tag takes the tag away.
///
/// # Errors
/// When the session isn't found or can't be written.
pub fn tag(
    store: &SessionStore,
    wanted: &str,
    cwd: &Path,
    tag: &str,
) -> Result<SessionInfo, SessionError> {
    let info = store.resolve(wanted, cwd)?;
    store.tag(&info, tag)?;
    Ok(info)
}

/// `sessions rewind`: back to before a prompt (its id, or the beginning of it). Nothing is changed
/// when files were changed outside the session, unless overwriting is asked for.
///
/// # Errors
/// When the session or the prompt isn't found, the session is in use, or a file can't be restored.
pub async fn rewind(
    store: &SessionStore,
    wanted: &str,
    cwd: &Path,
    to: &str,
    what: RewindWhat,
    mode: RewindMode,
    guard: WriteGuard,
) -> Result<RewindOutcome, SessionError> {
    let info = store.resolve(wanted, cwd)?;
    let loaded = load(&info.path)?;
    let prompt = match to.parse() {
        // What a rewind said undoes it; it names files only.
        Ok(undo) if what == RewindWhat::Files && loaded.message(undo).is_none() => PromptRow {
            id: undo,
            timestamp: String::new(),
            text: "(undo of a rewind)".to_owned(),
        },
        _ => find_prompt(&loaded, to)?,
    };
    let messages = set_aside(&loaded, prompt.id);
    let files = if what == RewindWhat::Conversation {
        None
    } else {
        // The writer holds the session for the time of the rewind.
        let writer = TranscriptWriter::open_append(&info.path, WriterOptions::default())?;
        let history = Arc::new(FileHistory::new(writer.clone(), guard)?);
        let report = history.rewind_files(prompt.id, mode).await;
        writer.close().await?;
        Some(report?)
    };
    let refused = files
        .as_ref()
        .is_some_and(|files| mode == RewindMode::Apply && !files.conflicts.is_empty());
    let conversation = what != RewindWhat::Files && mode != RewindMode::Preview && !refused;
    if conversation {
        let fact = Fact::Rewound {
            to: loaded.before(prompt.id)?,
            session_id: info.id,
        };
        append_fact(&info.path, fact)?;
    }
    Ok(RewindOutcome {
        session: info.id,
        to: prompt,
        files,
        conversation,
        messages,
    })
}

fn find_prompt(loaded: &Loaded, wanted: &str) -> Result<PromptRow, SessionError> {
    let rows = prompt_rows(loaded);
    let mut fits: Vec<&PromptRow> = rows
        .iter()
        .filter(|row| row.id.to_string().starts_with(&wanted.to_lowercase()))
        .collect();
    match (fits.pop(), fits.is_empty()) {
        (Some(row), true) if !wanted.is_empty() => Ok(row.clone()),
        (Some(_), false) => Err(SessionError::Ambiguous {
            wanted: wanted.to_owned(),
            candidates: rows
                .iter()
                .map(|row| format!("  {}  {}", row.id, cut(&row.text, 60)))
                .collect(),
        }),
        _ => Err(SessionError::NoSuchPrompt {
            wanted: wanted.to_owned(),
            prompts: rows
                .iter()
                .map(|row| format!("  {}  {}", row.id, cut(&row.text, 60)))
                .collect(),
        }),
    }
}

/// How many messages come from this prompt on.
fn set_aside(loaded: &Loaded, prompt: RecordId) -> usize {
    let history = loaded.history();
    let from = history
        .iter()
        .position(|record| record.uuid() == Some(prompt));
    from.map_or(0, |from| history.len() - from)
}

/// [`rewind`] as text.
#[must_use]
pub fn rewind_text(outcome: &RewindOutcome, mode: RewindMode) -> String {
    let mut text = String::new();
    let preview = mode == RewindMode::Preview;
    // Writing to a string can't fail.
    let _ = writeln!(text, "to before: {}", outcome.to.text);
    if let Some(files) = &outcome.files {
        for file in &files.files {
            let action = match file.action {
                FileAction::Restored => "restore",
                FileAction::Deleted => "delete",
                FileAction::Recreated => "recreate",
            };
            let _ = writeln!(
                text,
                "  {action:<8} {} (+{} -{})",
                file.path.display(),
                file.insertions,
                file.deletions
            );
            if preview {
                text.push_str(&file.diff);
            }
        }
        for conflict in &files.conflicts {
            let _ = writeln!(
                text,
                "  conflict {}: {}",
                conflict.path.display(),
                conflict.reason
            );
        }
        for uncovered in &files.uncovered {
            let _ = writeln!(
                text,
                "  not covered {}: {}",
                uncovered.path.display(),
                uncovered.reason
            );
        }
        let summary = match (files.applied, files.files.is_empty()) {
            (true, _) => "files restored",
            (false, true) => "no file differs",
            (false, false) if preview => "nothing was changed (preview)",
            (false, false) => {
                "nothing was changed; use --force to overwrite the changes named above"
            }
        };
        let _ = writeln!(text, "{summary}");
        if let Some(undo) = files.undo {
            let _ = writeln!(
                text,
                "undo with: lathe sessions rewind {} --files --to {undo}",
                outcome.session
            );
        }
    }
    if outcome.conversation {
        let _ = writeln!(
            text,
            "conversation rewound: {} messages set aside",
            outcome.messages
        );
    }
    text
}

/// [`rewind`] as JSON.
#[must_use]
pub fn rewind_json(outcome: &RewindOutcome) -> String {
    json_text(outcome)
}
