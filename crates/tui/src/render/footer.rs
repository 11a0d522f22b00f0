//! The lines below the prompt: hints, permission mode, status line.

use crate::app::{App, spending};
use crate::prompt::suggestion;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, counted, truncate, truncate_line};
use crate::render::theme::Theme;
use lathe_protocol::permission::PermissionMode;

pub(crate) fn lines(app: &App, look: Look<'_>) -> Vec<Line> {
    let theme = look.theme;
    let mut hint = Line::empty();
    if let Some((text, _)) = app.alarms.hint {
        hint.push(text, theme.warning);
    } else if let Some(key) = app.prompt.chord.first() {
        hint.push(format!("{key} …"), theme.muted);
    } else {
        if let Some(vim) = &app.prompt.vim {
            hint.push(format!("{} ", vim.label()), theme.accent.bold());
        }
        match app.session.mode {
            PermissionMode::Default => {}
            PermissionMode::AcceptEdits => hint.push("» accept edits on", theme.modes.accept),
            PermissionMode::Plan => hint.push("▤ plan mode on", theme.modes.plan),
            PermissionMode::DontAsk => {
                hint.push("⊘ don't ask on: what would ask is denied", theme.warning);
            }
            PermissionMode::BypassPermissions => {
                hint.push("⚠ bypass permissions on", theme.error);
            }
            PermissionMode::Auto => hint.push("◈ auto mode on", theme.modes.accept),
        }
        match app.prompt.editor.text().chars().next() {
            Some('!') => {
                hint = Line::styled("shell command, shared with the model", theme.modes.shell);
            }
            Some('#') => {
                hint = Line::styled("remember this: enter chooses where", theme.modes.plan);
            }
            _ => {}
        }
        let says_mode = app.session.mode != PermissionMode::Default;
        let words = if suggestion::shown(app).is_some() {
            if says_mode {
                " · tab accepts the suggestion"
            } else {
                "tab accepts the suggestion"
            }
        } else if !app.prompt.editor.is_empty() {
            "enter send · shift+enter or \\ new line"
        } else if says_mode {
            " (shift+tab changes it)"
        } else {
            "? for keys"
        };
        if hint.spans.is_empty() || app.prompt.editor.is_empty() {
            hint.push(words, theme.muted);
        }
        if app.prompt.stash.is_some() {
            hint.push(" · a prompt is stashed (ctrl+s)", theme.muted);
        }
    }
    let mut out = vec![truncate_line(&hint, app.screen.width())];
    let status = match &app.status_line.text {
        Some(text) => {
            let blanks = app.status_line.padding.min(app.screen.width() / 4);
            let room = app.screen.width().saturating_sub(2 * blanks);
            let text = clean(text.lines().next().unwrap_or_default());
            Line::plain(" ".repeat(blanks)).with(truncate(&text, room), theme.muted)
        }
        None => facts(app, theme),
    };
    if status.width() > 0 {
        out.push(truncate_line(&status, app.screen.width()));
    }
    out
}

/// The built-in status line.
pub(crate) fn facts(app: &App, theme: &Theme) -> Line {
    let mut facts: Vec<(String, Style)> = Vec::new();
    if !app.session.model.is_empty() {
        facts.push((app.session.model.clone(), theme.muted));
    }
    let folder = app.engine.handle.as_ref().map_or_else(
        || app.places.environment.cwd.clone(),
        |session| session.context().working_folder(),
    );
    if let Some(folder) = folder.file_name() {
        facts.push((folder.to_string_lossy().into_owned(), theme.muted));
    }
    if let Some(branch) = &app.session.branch {
        facts.push((branch.clone(), theme.muted));
    }
    if let Some(left) = app.session.context_left {
        let style = if left.is_little {
            theme.warning
        } else {
            theme.muted
        };
        facts.push((format!("{}% context left", left.percent), style));
    }
    let cost = app
        .session
        .last_result
        .as_ref()
        .map_or(app.session.spending.before, |result| result.total_cost_usd);
    if cost > 0.0 {
        facts.push(spending::fact(app, cost, theme));
    }
    if !app.session.background_commands.is_empty() {
        let words = counted(app.session.background_commands.len(), "command");
        facts.push((format!("{words} in the background"), theme.accent));
    }
    let mut line = Line::empty();
    for (index, (text, style)) in facts.into_iter().enumerate() {
        if index > 0 {
            line.push(" · ", theme.muted);
        }
        line.push(text, style);
    }
    line
}
