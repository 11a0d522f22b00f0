//! The prompt's rows.

use crate::app::App;
use crate::commands;
use crate::prompt::editor::{Row, rows};
use crate::prompt::suggestion;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, counted, truncate, width};
use crate::render::theme::Theme;
use crate::terminal::inline_screen::Cursor;

pub(crate) fn rows_of(app: &App, look: Look<'_>, most: usize, out: &mut Vec<Line>) -> Cursor {
    let theme = look.theme;
    let text = app.prompt.editor.text();
    let (mark, style) = match app.prompt.editor.typed_mark() {
        Some('!') => ("❯ ", theme.modes.shell.bold()),
        Some('#') => ("❯ ", theme.modes.plan.bold()),
        _ => ("❯ ", theme.prompt),
    };
    if text.is_empty() {
        let mut line = Line::styled(mark, style);
        if let Some(vim) = &app.prompt.vim
            && !vim.inserting()
        {
            line = Line::styled(mark, theme.muted);
        }
        if let Some(suggestion) = suggestion::shown(app) {
            let room = app.screen.prompt_columns().saturating_sub(1);
            line.push(truncate(&clean(suggestion), room), theme.muted);
        } else if app.conversation.is_new() && app.queue.prompts.is_empty() && !app.session.busy() {
            let hint = if app.screen.width() > 50 {
                "Say what to do, or / for commands, ? for keys"
            } else {
                "Say what to do"
            };
            line.push(hint, theme.muted);
        }
        out.push(line);
        return Cursor {
            row: 0,
            column: 2,
            visible: true,
        };
    }
    let columns = app.screen.prompt_columns();
    let all = rows(text, columns);
    let at = all
        .iter()
        .position(|row| {
            app.prompt.editor.cursor() >= row.start
                && (app.prompt.editor.cursor() < row.end
                    || app.prompt.editor.cursor() == row.end && !row.soft)
        })
        .unwrap_or(all.len().saturating_sub(1));
    let room = (most / 2).max(3);
    let first = at
        .saturating_sub(room - 1)
        .max(all.len().saturating_sub(room).min(at));
    let selection = app
        .prompt
        .vim
        .as_ref()
        .and_then(|vim| vim.selection(&app.prompt.editor));
    let mut cursor = Cursor {
        row: 0,
        column: 2,
        visible: true,
    };
    for (index, row) in all.iter().enumerate().skip(first).take(room) {
        let mut line = if index == 0 {
            Line::styled(mark, style)
        } else {
            Line::plain("  ")
        };
        line_of(app, text, row, selection.clone(), theme, &mut line);
        if index == at {
            cursor = Cursor {
                row: out.len(),
                column: 2 + width(&text[row.start..app.prompt.editor.cursor()]),
                visible: true,
            };
        }
        out.push(line);
    }
    if all.len() > room {
        out.push(Line::styled(
            format!("  {} of {}", at + 1, counted(all.len(), "row")),
            theme.muted,
        ));
    }
    cursor
}

fn line_of(
    app: &App,
    text: &str,
    row: &Row,
    selection: Option<std::ops::Range<usize>>,
    theme: &Theme,
    line: &mut Line,
) {
    let base = match app.prompt.editor.typed_mark() {
        Some('!') => theme.modes.shell,
        _ => Style::PLAIN,
    };
    let Some(selection) = selection else {
        let part = &text[row.start..row.end];
        let word_end = part.find(char::is_whitespace).unwrap_or(part.len());
        if row.start == 0 && part.starts_with('/') && commands::is_known(app, &part[1..word_end]) {
            line.push(&part[..word_end], theme.accent);
            line.push(&part[word_end..], base);
        } else {
            line.push(part, base);
        }
        return;
    };
    let start = selection.start.clamp(row.start, row.end);
    let end = selection.end.clamp(row.start, row.end);
    line.push(&text[row.start..start], base);
    line.push(&text[start..end], base.reverse());
    line.push(&text[end..row.end], base);
}
