//! The effect of a call, as the question shows it: the command with its risky parts marked, the change
//! as a diff, or the input as it is.

use super::{PermissionDialog, is_dangerous};
use crate::app::agents::asked_by;
use crate::render::cell::{short_path, typed};
use crate::render::diff;
use crate::render::highlight::Highlighter;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, one_line, reveal, wrap};
use crate::render::theme::Theme;
use lathe_protocol::permission::NETWORK;
use serde_json::Value;
use std::path::PathBuf;

/// Lines of a change that are shown at most.
const MOST_LINES: usize = 5000;

impl PermissionDialog {
    pub(super) fn heading(&self, look: Look<'_>) -> Vec<Line> {
        let theme = look.theme;
        let question = match self.request.tool_name.as_str() {
            "Bash" => "Run this command?".to_owned(),
            "BashInput" => self.typing(),
            "Write" => format!("Write {}?", self.path("file_path")),
            "Edit" | "MultiEdit" => format!("Change {}?", self.path("file_path")),
            "LSPEdit" => format!("{}?", self.edited()),
            "NotebookEdit" => format!("Change {}?", self.path("notebook_path")),
            "Read" => format!("Read {}?", self.path("file_path")),
            name => match self.host() {
                Some(host) => format!("Let the command connect to {}?", one_line(&reveal(host))),
                None => format!("Use {}?", clean(name)),
            },
        };
        let heading = if is_dangerous(&self.request) {
            Line::styled("⚠ Dangerous. ", theme.error.bold()).with(question, theme.error.bold())
        } else {
            Line::styled(question, theme.heading)
        };
        let mut out = wrap(&heading, look.columns, 0);
        if let Some(description) = self
            .request
            .description
            .as_deref()
            .filter(|text| !text.trim().is_empty())
        {
            out.extend(wrap(
                &Line::styled(one_line(&clean(description)), theme.muted),
                look.columns,
                0,
            ));
        }
        if let Some(agent) = &self.request.agent {
            out.extend(wrap(&asked_by(agent, theme.muted), look.columns, 0));
        }
        out
    }

    /// The edit of a language server in a few words.
    fn edited(&self) -> String {
        let title = self.request.title.as_deref().unwrap_or("Change files");
        let files = self.request.input.get("files").and_then(Value::as_array);
        match files.map(Vec::as_slice) {
            Some([one]) => {
                let path = short_path(one.as_str().unwrap_or_default(), &self.cwd);
                one_line(&reveal(&format!("{title} in {path}")))
            }
            _ => one_line(&reveal(title)),
        }
    }

    /// The question about text for a program on a terminal.
    fn typing(&self) -> String {
        let field = |name: &str| self.request.input.get(name).and_then(Value::as_str);
        let program = field("program").filter(|name| !name.is_empty());
        let program = one_line(&reveal(program.unwrap_or("a program that is not known")));
        match field("command") {
            Some(_) => format!("Run this command in {program}?"),
            None => format!("Type this into {program}?"),
        }
    }

    /// The host that a sandboxed command connects to, if that is the question.
    fn host(&self) -> Option<&str> {
        let of_network = self.request.display_name.as_deref() == Some(NETWORK);
        let url = self.request.input.get("url").and_then(Value::as_str);
        let url = url.filter(|_| of_network)?;
        Some(url.trim_start_matches("https://").trim_end_matches('/'))
    }

    pub(super) fn path(&self, key: &str) -> String {
        let path = self
            .request
            .input
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or("a file");
        one_line(&reveal(&short_path(path, &self.cwd)))
    }

    /// The command, the change or the input; of a change at most `limit` lines.
    pub(super) fn what(&self, look: Look<'_>, limit: usize) -> Vec<Line> {
        let theme = look.theme;
        let input = &self.request.input;
        if let Some(command) = input.get("command").and_then(Value::as_str)
            && matches!(self.request.tool_name.as_str(), "Bash" | "BashInput")
        {
            let mut out = self.command(command, look);
            if let Some(edit) = self.shell_edit() {
                let room = limit.saturating_sub(out.len()).max(1);
                out.extend(diff::lines(
                    &edit.path,
                    &self.change,
                    look,
                    room.min(MOST_LINES),
                ));
            }
            return out;
        }
        if self.request.tool_name == "BashInput" {
            let typed = Line::plain(format!("  {}", reveal(&typed(input))));
            return wrap(&typed, look.columns, 2);
        }
        if !self.change.is_empty() {
            let path = input
                .get("file_path")
                .and_then(Value::as_str)
                .map_or_else(PathBuf::new, PathBuf::from);
            return diff::lines(&path, &self.change, look, limit.min(MOST_LINES));
        }
        if let Some(change) = input.get("diff").and_then(Value::as_str)
            && self.request.tool_name == "LSPEdit"
        {
            let mut highlighter = Highlighter::new("diff");
            let lines = change.lines().take(limit.min(MOST_LINES));
            return lines
                .flat_map(|line| wrap(&highlighter.line(&reveal(line), theme), look.columns, 2))
                .collect();
        }
        if self.host().is_some() {
            // The question names it.
            return Vec::new();
        }
        let mut input = input.clone();
        if self.request.tool_name == "Read"
            && let Some(fields) = input.as_object_mut()
        {
            // The question names it.
            fields.shift_remove("file_path");
        }
        let text = serde_json::to_string_pretty(&input).unwrap_or_default();
        if input.as_object().is_some_and(serde_json::Map::is_empty) || input.is_null() {
            return Vec::new();
        }
        let mut highlighter = Highlighter::new("json");
        text.lines()
            .flat_map(|line| {
                wrap(
                    &highlighter.line(&reveal(line), theme),
                    look.columns.saturating_sub(2),
                    2,
                )
            })
            .collect()
    }

    /// The command with the parts marked that do more than read.
    pub(super) fn command(&self, command: &str, look: Look<'_>) -> Vec<Line> {
        let theme = look.theme;
        let risky: Vec<(usize, usize)> = self
            .analysis
            .iter()
            .flat_map(|analysis| &analysis.parts)
            .filter(|part| !part.read_only.is_yes())
            .map(|part| (part.span.start, part.span.end))
            .collect();
        let all_risky = self
            .analysis
            .as_ref()
            .is_some_and(|analysis| analysis.understood.is_err());
        let mut line = Line::plain("  ");
        let mut lines = Vec::new();
        for (at, c) in command.char_indices() {
            if c == '\n' {
                lines.push(std::mem::replace(&mut line, Line::plain("  ")));
                continue;
            }
            let marked = all_risky
                || risky
                    .iter()
                    .any(|(start, end)| (*start..*end).contains(&at));
            let style = if marked {
                theme.warning.bold()
            } else {
                Style::PLAIN
            };
            line.push(reveal(&c.to_string()), style);
        }
        lines.push(line);
        lines
            .iter()
            .flat_map(|line| wrap(line, look.columns, 4))
            .collect()
    }
}

/// The lines that matter most where there is no room for all: marked ones first, then from the top, in their order. So
/// a long harmless beginning can't push off what a command does.
pub(super) fn most_telling(lines: Vec<Line>, room: usize, theme: &Theme) -> Vec<Line> {
    let marked = |line: &Line| {
        let style = theme.warning.bold();
        line.spans.iter().any(|span| span.style == style)
    };
    let of_marked = lines.iter().filter(|line| marked(line)).count().min(room);
    let (mut of_marked, mut of_others) = (of_marked, room - of_marked);
    lines
        .into_iter()
        .filter(|line| {
            let left = if marked(line) {
                &mut of_marked
            } else {
                &mut of_others
            };
            let kept = *left > 0;
            *left = left.saturating_sub(1);
            kept
        })
        .collect()
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// The change that a call would make in a file.
pub(crate) fn change_of(tool: &str, input: &Value) -> Vec<lathe_protocol::display::Hunk> {
    let Some((old, new)) = texts_of(tool, input) else {
        return Vec::new();
    };
    if tool == "Edit" && new == old {
        // The file isn't what the model thinks; the change itself is still worth seeing.
        let (from, to) = (
            text(input, "old_string").unwrap_or_default(),
            text(input, "new_string").unwrap_or_default(),
        );
        return diff::hunks(&from, &to);
    }
    diff::hunks(&old, &new)
}

/// The file before and after a call that changes one.
pub(super) fn texts_of(tool: &str, input: &Value) -> Option<(String, String)> {
    let path = text(input, "file_path")?;
    let old = std::fs::metadata(&path)
        .ok()
        .filter(|metadata| metadata.is_file() && metadata.len() < 2_000_000)
        .and_then(|_| std::fs::read_to_string(&path).ok())
        .unwrap_or_default();
    let replace = |old: &str, edit: &Value| {
        let (Some(from), Some(to)) = (text(edit, "old_string"), text(edit, "new_string")) else {
            return old.to_owned();
        };
        if from.is_empty() {
            return to;
        }
        if !old.contains(&from) {
            return old.to_owned();
        }
        if edit.get("replace_all").and_then(Value::as_bool) == Some(true) {
            old.replace(&from, &to)
        } else {
            old.replacen(&from, &to, 1)
        }
    };
    let new = match tool {
        "Write" => text(input, "content").unwrap_or_default(),
        "Edit" => replace(&old, input),
        "MultiEdit" => input
            .get("edits")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .fold(old.clone(), |old, edit| replace(&old, edit)),
        _ => return None,
    };
    Some((old, new))
}
