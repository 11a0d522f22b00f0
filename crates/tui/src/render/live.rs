//! The live area below the scrollback: running work, queued prompts, and the prompt or the top layer.

use crate::app::App;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, counted, duration, tokens, truncate, truncate_line, width};
use crate::render::theme::Theme;
use crate::render::{cell, footer, prompt};
use crate::terminal::inline_screen::{Cursor, Frame};
use std::time::{Duration, Instant};

const SPINNER_FRAMES: [&str; 8] = ["✶", "✷", "✸", "✹", "✺", "✹", "✸", "✷"];

/// Hints while waiting, one per turn.
pub(crate) const TIPS: &[&str] = &[
    "ctrl+o shows the whole conversation, with search",
    "type while the model works: it reads your message with the next tool result",
    "! runs a shell command and shares it with the model",
    "# remembers something for all later sessions",
    "shift+tab changes the permission mode",
    "ctrl+g opens your editor for long prompts",
    "/rewind goes back to an earlier prompt, with or without the files",
    "ctrl+b moves a long command to the background",
    "@ completes file names",
];

/// The live area as it is now.
pub(crate) fn frame(app: &App) -> Frame {
    let theme = app.theme();
    let look = Look {
        theme: &theme,
        columns: app.screen.width(),
    };
    let most = app.screen.rows.saturating_sub(1).max(1);
    let mut top = app.conversation.live(look);
    if !top.is_empty() && app.conversation.live_gap() {
        top.insert(0, Line::empty());
    }
    if let Some(run) = &app.session.shell_run {
        top.push(Line::empty());
        top.push(truncate_line(
            &Line::styled("! ", theme.modes.shell.bold())
                .with(clean(&run.command).replace('\n', " "), theme.modes.shell),
            app.screen.width(),
        ));
        let lines = crate::render::text::terminal_lines(run.tail.trim_end());
        for line in lines.iter().rev().take(6).rev() {
            top.push(Line::styled(
                truncate(&format!("  {line}"), app.screen.width()),
                theme.muted,
            ));
        }
    }
    let mut middle = status(app, look);
    middle.extend(queued_lines(app, &theme));
    middle.push(Line::empty());
    let (bottom, cursor) = bottom(app, look, most);
    let mut live = Vec::new();
    let room = most.saturating_sub(bottom.len());
    let keep = room.saturating_sub(middle.len());
    let skip = top.len().saturating_sub(keep);
    live.extend(top.into_iter().skip(skip));
    let skip = middle.len().saturating_sub(room);
    live.extend(middle.into_iter().skip(skip));
    let offset = live.len();
    live.extend(bottom);
    // Where not even the prompt has room, the row with the cursor is what matters.
    let skip = live.len().saturating_sub(most).min(cursor.row + offset);
    live.drain(..skip);
    live.truncate(most);
    let live: Vec<Line> = live
        .iter()
        .map(|line| truncate_line(line, app.screen.width()))
        .collect();
    Frame {
        cursor: Cursor {
            row: (cursor.row + offset)
                .saturating_sub(skip)
                .min(live.len().saturating_sub(1)),
            column: cursor.column.min(app.screen.width()),
            visible: cursor.visible,
        },
        live,
    }
}

/// Queued prompts and commands, in the order in which they were entered.
pub(crate) fn queued_lines(app: &App, theme: &Theme) -> Vec<Line> {
    let line = |text: &str| {
        let text = clean(text).replace('\n', " ⏎ ");
        truncate_line(
            &Line::styled("❯ ", theme.muted).with(text, theme.muted.italic()),
            app.screen.width(),
        )
    };
    app.queue
        .entries()
        .iter()
        .map(|entry| line(entry))
        .collect()
}

/// The spinner line and what belongs to it.
pub(crate) fn status(app: &App, look: Look<'_>) -> Vec<Line> {
    let theme = look.theme;
    let mut out = Vec::new();
    if app.session.turn.began.is_none() && !app.session.agents.is_empty() {
        // They go on beside the conversation.
        out.push(Line::empty());
        out.push(Line::styled(
            format!(
                "{} running (ctrl+x ctrl+k stops, /tasks shows more)",
                counted(app.session.agents.len(), "agent")
            ),
            theme.muted,
        ));
        out.extend(agent_tree(app, look));
    }
    if let Some(began) = app.session.turn.began {
        out.push(Line::empty());
        out.push(spinner(app, began, look));
        out.extend(agent_tree(app, look));
        if let Some(retry) = &app.session.turn.retry {
            let left = retry
                .until
                .saturating_duration_since(Instant::now())
                .as_secs_f64()
                .ceil();
            out.push(truncate_line(
                &Line::styled(
                    format!(
                        "  ↻ Retrying in {left:.0} s ({}/{}) · {}",
                        retry.attempt,
                        retry.max,
                        clean(&retry.error).replace('\n', " ")
                    ),
                    theme.warning,
                ),
                app.screen.width(),
            ));
        } else if !app.conversation.todos.is_empty() && app.look.show_todos {
            out.extend(cell::todos(&app.conversation.todos, look));
        } else if began.elapsed() > Duration::from_secs(12) && app.look.tips {
            let tip = TIPS[app.look.tip % TIPS.len()];
            out.push(Line::styled(format!("  tip: {tip}"), theme.muted));
        }
    } else if app.look.show_todos
        && app
            .conversation
            .todos
            .iter()
            .any(|item| item.status != lathe_protocol::display::TodoStatus::Completed)
    {
        out.push(Line::empty());
        out.extend(cell::todos(&app.conversation.todos, look));
    }
    out
}

/// The agents at work, with what each did last.
pub(crate) fn agent_tree(app: &App, look: Look<'_>) -> Vec<Line> {
    let theme = look.theme;
    let mut out = Vec::new();
    for (index, agent) in app.session.agents.iter().enumerate() {
        let branch = if index + 1 == app.session.agents.len() {
            "└"
        } else {
            "├"
        };
        let doing = agent.last_tool.as_deref().unwrap_or("starting");
        let facts = format!(
            " · {doing} · {} · {} tokens",
            counted(usize::try_from(agent.calls).unwrap_or(usize::MAX), "call"),
            tokens(agent.tokens)
        );
        let line = Line::styled(format!("  {branch} "), theme.muted)
            .with(clean(&agent.description).replace('\n', " "), Style::PLAIN)
            .with(facts, theme.muted);
        out.push(truncate_line(&line, app.screen.width()));
    }
    out
}

pub(crate) fn spinner(app: &App, began: Instant, look: Look<'_>) -> Line {
    let theme = look.theme;
    let elapsed = began.elapsed();
    let mark = if app.look.reduced_motion {
        "●"
    } else {
        SPINNER_FRAMES[(elapsed.as_millis() / 120) as usize % SPINNER_FRAMES.len()]
    };
    let what = if app.session.turn.interrupting {
        "Stopping".to_owned()
    } else if app.layers.asks() {
        "Waiting for your answer".to_owned()
    } else if app.session.turn.compacting {
        "Summarising the conversation".to_owned()
    } else {
        app.conversation
            .activity()
            .unwrap_or_else(|| "Waiting for the model".to_owned())
    };
    let mut facts = vec![format!("{}s", elapsed.as_secs())];
    if elapsed.as_secs() >= 60 {
        facts[0] = duration(elapsed);
    }
    let written = app.conversation.counted_tokens + app.conversation.pending_bytes / 4;
    if written > 0 {
        facts.push(format!("↓ {} tokens", tokens(written)));
    }
    if app.layers.dialog().is_none() {
        facts.push("esc to interrupt".to_owned());
    }
    if app.screen.width() < 60 {
        facts.retain(|fact| !fact.ends_with("tokens"));
    }
    let facts = format!(" ({})", facts.join(" · "));
    let what = truncate(
        &what,
        app.screen.width().saturating_sub(width(&facts) + 4).max(8),
    );
    let mut line = Line::styled(format!("{mark} "), theme.accent);
    line.push(format!("{}…", what.trim_end_matches('…')), theme.accent);
    line.push(facts, theme.muted);
    truncate_line(&line, app.screen.width())
}

/// The dialog, or the prompt with what belongs to it.
pub(crate) fn bottom(app: &App, look: Look<'_>, most: usize) -> (Vec<Line>, Cursor) {
    if let Some(dialog) = app.layers.dialog() {
        let (mut out, cursor) = dialog.view(look, most.saturating_sub(1));
        if !dialog.armed() {
            out.push(Line::styled(
                "you are typing · ↓ or enter goes to the answers",
                look.theme.warning,
            ));
            let offset = out.len();
            let mut rows = Vec::new();
            let cursor = prompt::rows_of(app, look, most / 2, &mut rows);
            out.extend(rows);
            return (
                out,
                Cursor {
                    row: cursor.row + offset,
                    ..cursor
                },
            );
        }
        return (out, cursor);
    }
    let mut out = Vec::new();
    let cursor = prompt::rows_of(app, look, most, &mut out);
    if let Some(layer) = app.layers.below_prompt() {
        let room = most.saturating_sub(out.len() + 2);
        out.extend(layer.view(look, room).0);
    } else {
        out.extend(footer::lines(app, look));
    }
    (out, cursor)
}
