//! How a call and its result are shown. A structured value that each face renders its own way; no
//! face parses text meant for the model.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How a face displays a call or its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Display {
    /// Nothing beyond the call's own line.
    None,
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// Markdown.
    Markdown {
        /// The source.
        text: String,
    },
    /// The output of a command.
    Terminal {
        /// The output, possibly with escape sequences.
        output: String,
        /// The exit code, when it ended by itself.
        exit_code: Option<i32>,
    },
    /// A change to a file.
    Diff {
        /// The file.
        path: PathBuf,
        /// The change.
        hunks: Vec<Hunk>,
    },
    /// Part of a file.
    File {
        /// The file.
        path: PathBuf,
        /// First line shown, from 1.
        start_line: usize,
        /// How many lines.
        line_count: usize,
        /// How many lines the file has.
        total_lines: usize,
    },
    /// A list of files.
    FileList {
        /// The files.
        paths: Vec<String>,
        /// Whether there are more.
        truncated: bool,
    },
    /// A table.
    Table {
        /// Column titles.
        columns: Vec<String>,
        /// Rows of cells.
        rows: Vec<Vec<String>>,
    },
    /// A task list.
    Todos {
        /// The items.
        items: Vec<TodoItem>,
    },
    /// An image was read.
    Image {
        /// The file.
        path: PathBuf,
        /// Bytes sent.
        bytes: usize,
    },
}

/// One run of changed lines, in the shape that hosts know as a structured patch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    /// First line in the old text, from 1.
    pub old_start: usize,
    /// Lines in the old text.
    pub old_lines: usize,
    /// First line in the new text, from 1.
    pub new_start: usize,
    /// Lines in the new text.
    pub new_lines: usize,
    /// Lines with ` `, `-` or `+` in front.
    pub lines: Vec<String>,
}

/// One item of a task list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TodoItem {
    /// The task.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// The same as something being done ("Running tests").
    pub active_form: String,
    /// The agent or person that works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The unfinished tasks that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
}

/// How far an item of a task list is.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Being worked on.
    InProgress,
    /// Done.
    Completed,
    /// Tried without success.
    Failed,
    /// No longer wanted.
    Cancelled,
}

impl TodoStatus {
    /// Whether no more work is expected.
    #[must_use]
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Its name, as tools and files spell it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}
