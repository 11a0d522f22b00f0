//! Cells: the pieces of a conversation, and how each becomes lines.
//!
//! A cell is rendered from data alone, folded for the scrollback and unfolded for the transcript.

use crate::app::conversation::Picture;
use crate::prompt::keymap::{Action, Context};
use crate::render::markdown::{self, Look};
use crate::render::style::{Line, Style};
use crate::render::text::{
    clean, counted, duration, one_line, truncate, truncate_line, wrap, wrap_below, wrap_beside,
};
use crate::render::{ansi, diff};
use lathe_protocol::display::{Display, Hunk, TodoItem, TodoStatus};
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::ids::ToolUseId;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallState {
    Running,
    Done,
    Failed,
    Refused,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: ToolUseId,
    pub(crate) tool: String,
    pub(crate) input: Value,
    pub(crate) activity: String,
    pub(crate) state: CallState,
    pub(crate) display: Display,
    pub(crate) elapsed: Duration,
}

/// A piece of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    User(String),
    Assistant(String),
    Thinking {
        text: String,
        took: Duration,
    },
    Call(Call),
    /// A picture that a tool returned.
    Picture(Arc<Picture>),
    /// Reads and searches, one after another.
    Run(Vec<Call>),
    Shell {
        command: String,
        output: String,
        exit_code: Option<i32>,
    },
    Notice {
        level: NoticeLevel,
        text: String,
    },
    /// A plan that was not accepted.
    Plan(String),
    /// A line about what happened, muted.
    Remark(String),
    /// Text that a command of ours answered.
    Answer(Vec<Line>),
}

/// Whether what is long is shown whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fold {
    Folded,
    Unfolded,
}

/// Whether a call only looks.
pub(crate) fn only_reads(tool: &str) -> bool {
    matches!(tool, "Read" | "Grep" | "Glob" | "LS")
}

/// The lines of a cell.
pub(crate) fn lines(cell: &Cell, look: Look<'_>, fold: Fold, cwd: &Path) -> Vec<Line> {
    let theme = look.theme;
    match cell {
        Cell::User(text) => user(text, look, fold),
        Cell::Assistant(text) => {
            let inner = Look {
                columns: look.columns.saturating_sub(2),
                ..look
            };
            bulleted(markdown::render(text, inner), theme.accent)
        }
        Cell::Thinking { text, took } => {
            let words = if took.is_zero() {
                "Thought".to_owned()
            } else {
                format!("Thought for {}", duration(*took))
            };
            let mut out = vec![Line::styled(format!("✻ {words}"), theme.muted.italic())];
            if fold == Fold::Unfolded {
                for line in clean(text).lines() {
                    out.extend(
                        wrap(
                            &Line::styled(line, theme.muted.italic()),
                            look.columns.saturating_sub(2),
                            0,
                        )
                        .into_iter()
                        .map(indented),
                    );
                }
            }
            out
        }
        Cell::Call(call) => call_lines(call, look, fold, cwd),
        Cell::Picture(picture) if picture.named_above => Vec::new(),
        Cell::Picture(picture) => vec![picture_line(picture, None, look)],
        Cell::Run(calls) if fold == Fold::Unfolded => calls
            .iter()
            .flat_map(|call| call_lines(call, look, fold, cwd))
            .collect(),
        Cell::Run(calls) => vec![run_line(calls, look, cwd)],
        Cell::Shell {
            command,
            output,
            exit_code,
        } => {
            let line = Line::styled("! ", theme.modes.shell.bold())
                .with(clean(command), theme.modes.shell);
            let mut out = wrap(&line, look.columns, 2);
            out.extend(terminal(output, *exit_code, look, fold, 12));
            out
        }
        Cell::Notice { level, text } => {
            let (mark, style) = match level {
                NoticeLevel::Info | NoticeLevel::Notice => ("ℹ ", theme.muted),
                NoticeLevel::Warning => ("⚠ ", theme.warning),
                NoticeLevel::Error => ("✗ ", theme.error),
            };
            clean(text)
                .lines()
                .enumerate()
                .flat_map(|(index, line)| {
                    let mark = if index == 0 { mark } else { "  " };
                    wrap(
                        &Line::styled(format!("{mark}{line}"), style),
                        look.columns,
                        2,
                    )
                })
                .collect()
        }
        Cell::Plan(plan) => {
            let inner = Look {
                columns: look.columns.saturating_sub(2),
                ..look
            };
            let mut out = vec![Line::styled("A plan, not accepted:", theme.muted)];
            let lines = markdown::render(plan, inner).into_iter();
            out.extend(lines.map(|line| line.behind("│ ", theme.modes.plan)));
            out
        }
        Cell::Remark(text) => wrap(&Line::styled(clean(text), theme.muted), look.columns, 2),
        Cell::Answer(lines) => lines
            .iter()
            .flat_map(|line| wrap_below(line, look.columns))
            .collect(),
    }
}

/// The line that names a picture.
pub(crate) fn picture_line(picture: &Picture, pixels: Option<(u32, u32)>, look: Look<'_>) -> Line {
    let words = Line::styled(format!("  {}", picture.caption(pixels)), look.theme.muted);
    truncate_line(&words, look.columns)
}

/// Lines of a prompt that are shown folded: what was pasted into one can be very long.
const PROMPT_LINES: usize = 40;

fn user(text: &str, look: Look<'_>, fold: Fold) -> Vec<Line> {
    let theme = look.theme;
    let text = clean(text);
    let count = text.lines().count();
    let shown = if fold == Fold::Folded && count > PROMPT_LINES + 1 {
        PROMPT_LINES
    } else {
        count
    };
    let mut out: Vec<Line> = text
        .lines()
        .take(shown)
        .enumerate()
        .flat_map(|(index, line)| {
            let mark = if index == 0 { "❯ " } else { "  " };
            let line = Line::styled(mark, theme.prompt).with(line, Style::PLAIN);
            wrap(&line, look.columns, 2)
        })
        .collect();
    if shown < count {
        out.push(more_lines(count - shown, look));
    }
    out.into_iter()
        .map(|line| line.over(theme.modes.said).filled(theme.modes.said))
        .collect()
}

/// Says how many lines are folded away.
fn more_lines(count: usize, look: Look<'_>) -> Line {
    let key = look.keys.key(Context::Prompt, Action::Transcript);
    let key = key.map_or_else(String::new, |key| format!(" ({key})"));
    Line::styled(
        format!("  … +{}{key}", counted(count, "line")),
        look.theme.muted,
    )
}

fn indented(line: Line) -> Line {
    line.behind("  ", Style::PLAIN)
}

/// Puts a bullet before the first line and indents the others.
pub(crate) fn bulleted(lines: Vec<Line>, style: Style) -> Vec<Line> {
    lines
        .into_iter()
        .enumerate()
        .map(|(index, line)| bullet(line, style, index == 0))
        .collect()
}

/// A line of an answer: the first has a bullet.
pub(crate) fn bullet(line: Line, style: Style, first: bool) -> Line {
    if first {
        return line.behind("● ", style);
    }
    if line.spans.is_empty() {
        line
    } else {
        indented(line)
    }
}

/// A path as a user would write it.
pub(crate) fn short_path(path: &str, cwd: &Path) -> String {
    Path::new(path)
        .strip_prefix(cwd)
        .ok()
        .filter(|relative| !relative.as_os_str().is_empty())
        .map_or_else(
            || path.to_owned(),
            |relative| relative.display().to_string(),
        )
}

/// The text that a call types, and into which program.
pub(crate) fn typed(input: &Value) -> String {
    let text = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default();
    let keys = input.get("keys").and_then(Value::as_array);
    let keys = keys.into_iter().flatten().filter_map(Value::as_str);
    let mut words: Vec<String> = keys.map(|key| format!("<{key}>")).collect();
    let written = text("text").replace('\n', "⏎");
    if !written.is_empty() {
        words.insert(0, written);
    }
    if words.is_empty() {
        return text("id").to_owned();
    }
    match text("program") {
        "" => words.join(" "),
        program => format!("{program}: {}", words.join(" ")),
    }
}

/// The subject of a call, in a few words.
pub(crate) fn subject(tool: &str, input: &Value, cwd: &Path) -> String {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let subject = match tool {
        "Bash" => text("command").map(str::to_owned),
        "BashInput" => Some(typed(input)),
        "Read" | "Write" | "Edit" | "MultiEdit" => {
            text("file_path").map(|path| short_path(path, cwd))
        }
        "NotebookEdit" => text("notebook_path").map(|path| short_path(path, cwd)),
        "Grep" | "Glob" => text("pattern").map(|pattern| match text("path") {
            Some(path) => format!("{pattern} in {}", short_path(path, cwd)),
            None => pattern.to_owned(),
        }),
        "WebFetch" => text("url").map(str::to_owned),
        "WebSearch" => text("query").map(str::to_owned),
        "Agent" | "Task" => text("description").map(str::to_owned),
        "TodoWrite" | "TaskList" => Some(String::new()),
        "TaskCreate" => text("subject").map(str::to_owned),
        "TaskUpdate" => text("taskId").map(|id| match text("status") {
            Some(status) => format!("#{id} {}", status.replace('_', " ")),
            None => format!("#{id}"),
        }),
        "TaskGet" => text("taskId").map(|id| format!("#{id}")),
        "Skill" => text("skill").map(|name| match text("args") {
            Some(words) => format!("{name} {words}"),
            None => name.to_owned(),
        }),
        "AskUserQuestion" => input
            .get("questions")
            .and_then(Value::as_array)
            .map(|questions| {
                questions
                    .iter()
                    .filter_map(|question| question.get("question")?.as_str())
                    .collect::<Vec<_>>()
                    .join(" · ")
            }),
        // The plan itself stands below.
        "ExitPlanMode" => Some(String::new()),
        _ => None,
    };
    let subject = subject.unwrap_or_else(|| match input {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| !key.starts_with('_'))
            .map(|(key, value)| match value {
                Value::String(text) => format!("{key}: {text}"),
                value => format!("{key}: {value}"),
            })
            .collect::<Vec<_>>()
            .join(", "),
        _ => String::new(),
    });
    one_line(&clean(&subject))
}

/// The line of a call: its state, its tool and what it is about.
pub(crate) fn call_head(call: &Call, look: Look<'_>, cwd: &Path) -> Line {
    let theme = look.theme;
    let style = match call.state {
        CallState::Running => theme.accent,
        CallState::Done => theme.success,
        CallState::Failed => theme.error,
        CallState::Refused => theme.warning,
    };
    let mark = match call.state {
        CallState::Running => "◌ ",
        CallState::Done => "● ",
        CallState::Failed => "✗ ",
        CallState::Refused => "⊘ ",
    };
    let mut line = Line::styled(mark, style);
    line.push(clean(&call.tool), Style::PLAIN.bold());
    let used = line.width() + 1;
    let about = subject(&call.tool, &call.input, cwd);
    if !about.is_empty() {
        line.push(" ", Style::PLAIN);
        line.push(
            truncate(&about, look.columns.saturating_sub(used + 12).max(16)),
            Style::PLAIN,
        );
    }
    line
}

fn call_lines(call: &Call, look: Look<'_>, fold: Fold, cwd: &Path) -> Vec<Line> {
    let theme = look.theme;
    let mut head = call_head(call, look, cwd);
    let mut below = Vec::new();
    let failed = matches!(call.state, CallState::Failed | CallState::Refused);
    match &call.display {
        Display::None => {}
        Display::Text { text } if failed => {
            let refused = crate::layers::permission::refusal(text);
            below = text_lines(
                refused.as_deref().unwrap_or(text),
                look,
                fold,
                6,
                theme.error,
            );
        }
        Display::Text { text } => below = text_lines(text, look, fold, 3, theme.muted),
        Display::Markdown { text } => {
            let inner = Look {
                columns: look.columns.saturating_sub(4),
                ..look
            };
            below = folded(markdown::render(text, inner), 8, fold, look);
        }
        Display::Terminal { output, exit_code } => {
            if let Some(code) = exit_code.filter(|code| *code != 0) {
                head.push(format!(" · exit {code}"), theme.error);
            }
            if output.trim().is_empty() && call.state == CallState::Done {
                head.push(" · done", theme.muted);
            }
            below = terminal(output, None, look, fold, 5);
        }
        Display::Diff { path, hunks } => below = change(path, hunks, &mut head, look, fold),
        Display::File {
            start_line,
            line_count,
            total_lines,
            ..
        } => {
            let words = line_range(*start_line, *line_count, *total_lines);
            head.push(format!(" · {words}"), theme.muted);
        }
        Display::FileList { paths, truncated } => {
            let more = if *truncated { " and more" } else { "" };
            head.push(
                format!(" · {}{more}", counted(paths.len(), "file")),
                theme.muted,
            );
            if fold == Fold::Unfolded {
                below = paths
                    .iter()
                    .map(|path| Line::styled(format!("  {}", clean(path)), theme.muted))
                    .collect();
            }
        }
        Display::Table { columns, rows } => {
            head.push(format!(" · {}", counted(rows.len(), "row")), theme.muted);
            if fold == Fold::Unfolded {
                below = plain_table(columns, rows, look)
                    .into_iter()
                    .map(indented)
                    .collect();
            }
        }
        Display::Todos { items } => {
            let done = items
                .iter()
                .filter(|item| item.status == TodoStatus::Completed)
                .count();
            head.push(format!(" · {done}/{} done", items.len()), theme.muted);
            // A change of one task stays a line: the list is in the live area.
            if !matches!(call.tool.as_str(), "TaskCreate" | "TaskUpdate") {
                below = todos(items, look);
            }
        }
        Display::Image { bytes, .. } => {
            head.push(
                format!(" · image, {} KB", bytes.div_ceil(1024)),
                theme.muted,
            );
        }
    }
    if call.elapsed >= Duration::from_secs(2) {
        head.push(format!(" · {}", duration(call.elapsed)), theme.muted);
    }
    let mut out = vec![head];
    out.extend(below);
    out
}

/// A change, with its size in the call's line.
fn change(path: &Path, hunks: &[Hunk], head: &mut Line, look: Look<'_>, fold: Fold) -> Vec<Line> {
    let (added, removed) = lathe_diff::counts(hunks);
    head.push(format!(" +{added}"), look.theme.success);
    head.push(format!(" −{removed}"), look.theme.error);
    let limit = if fold == Fold::Folded { 24 } else { usize::MAX };
    let inner = Look {
        columns: look.columns.saturating_sub(2),
        ..look
    };
    let lines = diff::lines(path, hunks, inner, limit);
    lines.into_iter().map(indented).collect()
}

/// The lines of a file that were read.
fn line_range(start: usize, count: usize, total: usize) -> String {
    if count >= total {
        counted(total, "line")
    } else {
        let last = start + count.saturating_sub(1);
        format!("lines {start}–{last} of {total}")
    }
}

/// A task list.
pub(crate) fn todos(items: &[TodoItem], look: Look<'_>) -> Vec<Line> {
    let theme = look.theme;
    items
        .iter()
        .flat_map(|item| {
            let (mark, text, style) = match item.status {
                TodoStatus::Completed => ("  ☑ ", &item.content, theme.muted.strike()),
                TodoStatus::InProgress => ("  ▸ ", &item.active_form, theme.accent.bold()),
                TodoStatus::Pending => ("  ☐ ", &item.content, Style::PLAIN),
                TodoStatus::Failed => ("  ✗ ", &item.content, theme.error),
                TodoStatus::Cancelled => ("  ⊘ ", &item.content, theme.muted.strike()),
            };
            let line = Line::styled(
                mark,
                Style {
                    strike: false,
                    ..style
                },
            )
            .with(clean(text), style);
            let mut line = line;
            if let Some(owner) = &item.owner {
                line.push(format!(" · {}", clean(owner)), theme.muted);
            }
            if !item.waits_for.is_empty() {
                let first = clean(&item.waits_for.join(", "));
                line.push(format!(" · waits for {first}"), theme.muted);
            }
            wrap(&line, look.columns, 4)
        })
        .collect()
}

/// Columns and rows as plain text.
pub(crate) fn plain_table(columns: &[String], rows: &[Vec<String>], look: Look<'_>) -> Vec<Line> {
    let all: Vec<Vec<String>> = std::iter::once(columns.to_vec())
        .chain(rows.iter().cloned())
        .map(|row| {
            row.iter()
                .map(|cell| clean(cell).replace('\n', " "))
                .collect()
        })
        .collect();
    let widths = crate::render::table::fit(
        &all.iter()
            .map(|row| {
                row.iter()
                    .map(|cell| crate::render::text::width(cell))
                    .collect()
            })
            .collect::<Vec<_>>(),
        columns.len(),
        look.columns.saturating_sub(2),
    );
    let mut out = Vec::new();
    for (index, row) in all.iter().enumerate() {
        let style = if index == 0 {
            Style::PLAIN.bold()
        } else {
            Style::PLAIN
        };
        let cells: Vec<Line> = row
            .iter()
            .map(|cell| Line::styled(cell.clone(), style))
            .collect();
        out.extend(crate::render::table::row(
            &cells,
            &widths,
            &[],
            look.theme.muted,
        ));
        if index == 0 {
            out.push(crate::render::table::rule(&widths, look.theme.muted));
        }
    }
    out
}

fn folded(lines: Vec<Line>, limit: usize, fold: Fold, look: Look<'_>) -> Vec<Line> {
    let total = lines.len();
    let mut lines: Vec<Line> = lines.into_iter().map(indented).collect();
    if fold == Fold::Folded && total > limit + 1 {
        lines.truncate(limit);
        lines.push(more_lines(total - limit, look));
    }
    lines
}

fn text_lines(text: &str, look: Look<'_>, fold: Fold, limit: usize, style: Style) -> Vec<Line> {
    let lines = clean(text.trim_end())
        .lines()
        .flat_map(|line| {
            wrap(
                &Line::styled(line, style),
                look.columns.saturating_sub(2),
                0,
            )
        })
        .collect();
    folded(lines, limit, fold, look)
}

/// Output of a command: all of it, or its end.
pub(crate) fn terminal(
    output: &str,
    exit_code: Option<i32>,
    look: Look<'_>,
    fold: Fold,
    limit: usize,
) -> Vec<Line> {
    let theme = look.theme;
    let all = ansi::lines(output.trim_end(), theme.muted);
    let mut out = Vec::new();
    let skipped = if fold == Fold::Folded && all.len() > limit + 1 {
        all.len() - limit
    } else {
        0
    };
    if skipped > 0 {
        out.push(more_lines(skipped, look));
    }
    let gutter = Line::plain("  ");
    for line in &all[skipped..] {
        let line = if fold == Fold::Folded {
            &truncate_line(line, look.columns.saturating_sub(2).max(20) * 2)
        } else {
            line
        };
        out.extend(wrap_beside(&gutter, &gutter, line, look.columns));
    }
    if let Some(code) = exit_code.filter(|code| *code != 0) {
        out.push(Line::styled(format!("  exit {code}"), theme.error));
    }
    out
}

fn run_line(calls: &[Call], look: Look<'_>, cwd: &Path) -> Line {
    let theme = look.theme;
    if let [call] = calls {
        return call_lines(call, look, Fold::Folded, cwd)
            .into_iter()
            .next()
            .unwrap_or_default();
    }
    let reads = calls.iter().filter(|call| call.tool == "Read").count();
    let searches = calls.len() - reads;
    let mut words = Vec::new();
    if reads > 0 {
        words.push(format!("Read {}", counted(reads, "file")));
    }
    if searches > 0 {
        words.push(if reads > 0 {
            format!("searched {}", times(searches))
        } else {
            format!("Searched {}", times(searches))
        });
    }
    let mut line = Line::styled("● ", theme.success).with(words.join(", "), Style::PLAIN.bold());
    let names: Vec<String> = calls
        .iter()
        .map(|call| {
            let about = subject(&call.tool, &call.input, cwd);
            if call.tool == "Read" {
                about.rsplit('/').next().unwrap_or_default().to_owned()
            } else {
                about
            }
        })
        .collect();
    let left = look.columns.saturating_sub(line.width() + 3);
    if left > 12 {
        line.push(
            format!(" · {}", truncate(&names.join(", "), left)),
            theme.muted,
        );
    }
    line
}

fn times(count: usize) -> String {
    if count == 1 {
        "once".to_owned()
    } else {
        format!("{count} times")
    }
}
