//! The lines below the prompt: hints, permission mode, status line.

use crate::app::notices::Priority;
use crate::app::{App, spending, status_line};
use crate::prompt::keymap::{Action, Context};
use crate::prompt::suggestion;
use crate::render::ansi;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, counted, one_line, truncate_line, wrap};
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
            hint.push(vim.label(), theme.accent.bold());
        }
        if !hint.spans.is_empty() && app.session.mode != PermissionMode::Default {
            hint.push(" · ", theme.muted);
        }
        match app.session.mode {
            PermissionMode::Default => {}
            PermissionMode::AcceptEdits => hint.push("» accept edits on", theme.modes.accept),
            PermissionMode::Plan => hint.push("▤ plan mode on", theme.modes.plan),
            PermissionMode::DontAsk => {
                hint.push(
                    "⊘ don't ask on: calls that need confirmation are denied",
                    theme.warning,
                );
            }
            PermissionMode::BypassPermissions => {
                hint.push("⚠ bypass permissions on", theme.error);
            }
            PermissionMode::Auto => hint.push("◈ auto mode on", theme.modes.accept),
        }
        match app.prompt.editor.typed_mark() {
            Some('!') => {
                hint = Line::styled("shell command, shared with the model", theme.modes.shell);
            }
            Some('#') => {
                hint = Line::styled("remember this: enter chooses where", theme.modes.plan);
            }
            _ => {}
        }
        let says_mode = app.session.mode != PermissionMode::Default;
        let words = keys_words(app);
        let says_keys = if app.prompt.editor.is_empty() {
            true
        } else {
            let is_marked = matches!(app.prompt.editor.typed_mark(), Some('!' | '#'));
            !says_mode && !is_marked
        };
        if says_keys && !words.is_empty() {
            let dot = if hint.spans.is_empty() { "" } else { " · " };
            hint.push(format!("{dot}{words}"), theme.muted);
        }
        if let Some(words) = in_editor(app) {
            hint.push(format!(" · {words}"), theme.accent);
        }
        if app.prompt.stash.is_some() {
            let key = app.prompt.keymap.key(Context::Prompt, Action::Stash);
            let key = key.map_or_else(String::new, |key| format!(" ({key})"));
            hint.push(format!(" · a prompt is stashed{key}"), theme.muted);
        }
    }
    let mut out = Vec::new();
    if let Some(notice) = app.alarms.notices.shown() {
        let style = match notice.priority {
            Priority::High => theme.warning,
            Priority::Immediate => theme.accent,
            Priority::Medium | Priority::Low => theme.muted,
        };
        let words = Line::styled(one_line(&clean(&notice.text)), style);
        let mut rows = wrap(&words, app.screen.width(), 2);
        if rows.len() > NOTICE_ROWS {
            rows.truncate(NOTICE_ROWS - 1);
            let hidden = "… /status shows all of it";
            let hidden = Line::styled(hidden, theme.muted);
            rows.push(truncate_line(&hidden, app.screen.width()));
        }
        out.extend(rows);
    }
    out.push(truncate_line(&hint, app.screen.width()));
    out.extend(status_lines(app, theme));
    out
}

/// The keys that matter now, and what they do.
fn keys_words(app: &App) -> String {
    let keys = &app.prompt.keymap;
    let hint = |action, what| keys.hint(Context::Prompt, action, what);
    let words = if suggestion::shown(app).is_some() {
        vec![hint(Action::Complete, "accepts the suggestion")]
    } else if app.prompt.editor.is_empty() {
        vec![if app.session.mode == PermissionMode::Default {
            Some("? for keys".to_owned())
        } else {
            hint(Action::CycleMode, "changes it")
        }]
    } else if app.session.busy() {
        vec![
            hint(Action::Submit, "send now"),
            hint(Action::Queue, "after this turn"),
        ]
    } else {
        let newline = keys.key(Context::Prompt, Action::Newline);
        let newline = newline.map_or_else(String::new, |key| format!("{key} or "));
        vec![
            hint(Action::Submit, "send"),
            Some(format!("{newline}\\ new line")),
        ]
    };
    let words: Vec<String> = words.into_iter().flatten().collect();
    words.join(" · ")
}

/// Rows that a notice may take.
const NOTICE_ROWS: usize = 3;

/// Context from the editor that goes with the next prompt.
fn in_editor(app: &App) -> Option<String> {
    let view = app.session.editor.as_ref()?;
    let file = one_line(&clean(view.file.as_deref()?));
    Some(match view.selected_lines {
        0 => format!("{file} is open"),
        lines => format!("{} selected in {file}", counted(lines, "line")),
    })
}

/// Rows that the user's own status line may take.
const STATUS_ROWS: usize = 4;

/// The built-in status line, or what the user's own command printed.
fn status_lines(app: &App, theme: &Theme) -> Vec<Line> {
    let Some(text) = &app.status_line.text else {
        let facts = facts(app, theme);
        return if facts.width() > 0 {
            vec![truncate_line(&facts, app.screen.width())]
        } else {
            Vec::new()
        };
    };
    let blanks = app.status_line.padding.min(app.screen.width() / 4);
    let room = app.screen.width().saturating_sub(2 * blanks);
    ansi::lines(text.trim_end(), theme.muted)
        .into_iter()
        .take(STATUS_ROWS)
        .map(|line| truncate_line(&line, room).behind(" ".repeat(blanks), Style::PLAIN))
        .collect()
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
    if let Some(tier) = status_line::sandbox_tier(app) {
        facts.push((format!("sandbox: {tier}"), theme.muted));
    }
    if let Some(editor) = &app.session.editor {
        facts.push((one_line(&clean(&editor.name)), theme.muted));
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
