//! The live area below the scrollback: running work, queued prompts, and the prompt or the top layer.

use crate::app::{App, agents, keyboard, spending};
use crate::prompt::keymap::{Action, Context};
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{
    clean, counted, duration, one_line, tokens, truncate, truncate_line, width,
};
use crate::render::theme::Theme;
use crate::render::{ansi, cell, footer, prompt};
use crate::terminal::inline_screen::{Cursor, Frame};
use lathe_protocol::display::{TodoItem, TodoStatus};
use lathe_protocol::permission::PermissionMode;
use std::time::{Duration, Instant};

const SPINNER_FRAMES: [&str; 8] = ["✶", "✷", "✸", "✹", "✺", "✹", "✸", "✷"];

/// Hints while waiting, one per turn: some begin with the key of an action.
const TIPS: &[(Option<Action>, &str)] = &[
    (
        Some(Action::Transcript),
        "shows the whole conversation, with search",
    ),
    (
        None,
        "type while the model works: it reads your message with the next tool result",
    ),
    (None, "! runs a shell command and shares it with the model"),
    (None, "# remembers something for all later sessions"),
    (Some(Action::CycleMode), "changes the permission mode"),
    (
        Some(Action::ExternalEditor),
        "opens your editor for long prompts",
    ),
    (
        None,
        "/rewind goes back to an earlier prompt, with or without the files",
    ),
    (
        Some(Action::Background),
        "moves a long command to the background",
    ),
    (None, "@ completes file names"),
];

/// The tip of this turn; `None` where no key does what it tells of.
fn tip(app: &App) -> Option<String> {
    let (action, words) = TIPS[app.look.tip % TIPS.len()];
    match action {
        Some(action) => hint(app, action, words),
        None => Some(words.to_owned()),
    }
}

/// The key of an action in the prompt, with what it does.
pub(super) fn hint(app: &App, action: Action, what: &str) -> Option<String> {
    app.prompt.keymap.hint(Context::Prompt, action, what)
}

/// Hints between dots.
fn listed(hints: impl IntoIterator<Item = Option<String>>) -> String {
    let hints: Vec<String> = hints.into_iter().flatten().collect();
    hints.join(" · ")
}

/// The key that stops something. Ctrl+c always does.
fn stop_key(app: &App) -> String {
    let key = app.prompt.keymap.key(Context::Prompt, Action::Cancel);
    key.unwrap_or_else(|| "ctrl+c".to_owned())
}

/// The live area as it is now.
pub(crate) fn frame(app: &App) -> Frame {
    let theme = app.theme();
    let look = Look {
        theme: &theme,
        columns: app.screen.width(),
        keys: &app.prompt.keymap,
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
                .with(one_line(&clean(&run.command)), theme.modes.shell),
            app.screen.width(),
        ));
        let lines = ansi::lines(run.tail.trim_end(), theme.muted);
        for line in lines.into_iter().rev().take(6).rev() {
            top.push(line.behind("  ", Style::PLAIN));
        }
        top.push(Line::styled(
            format!(
                "  {} · {} stops it",
                duration(run.began.elapsed()),
                stop_key(app)
            ),
            theme.muted,
        ));
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
    let line = |(text, waits): &(String, bool)| {
        let mark = if *waits { "⧗ " } else { "❯ " };
        truncate_line(
            &Line::styled(mark, theme.muted).with(one_line(&clean(text)), theme.muted.italic()),
            app.screen.width(),
        )
    };
    let entries = app.queue.entries();
    let mut out: Vec<Line> = entries.iter().take(QUEUED_ROWS).map(line).collect();
    if entries.len() > 1 {
        let more = entries.len().saturating_sub(QUEUED_ROWS);
        let words = if more > 0 {
            let key = stop_key(app);
            format!("  … and {more} more queued · /queue edits them · {key} takes them back")
        } else {
            let up = app.prompt.keymap.key(Context::Prompt, Action::Up);
            let up = up.map_or_else(String::new, |up| format!("{up} or "));
            format!(
                "  /queue edits them · {up}{} takes them back",
                stop_key(app)
            )
        };
        out.push(truncate_line(
            &Line::styled(words, theme.muted),
            app.screen.width(),
        ));
    }
    out
}

/// Rows for queued prompts.
const QUEUED_ROWS: usize = 5;

/// The spinner line and what belongs to it.
pub(crate) fn status(app: &App, look: Look<'_>) -> Vec<Line> {
    let theme = look.theme;
    let mut out = Vec::new();
    if app.session.turn.began.is_none()
        && let Some(hook) = app.session.hooks.first()
    {
        // Before the turn: a hook looks at the prompt.
        out.push(Line::empty());
        out.push(spinner(app, hook.began, look));
    }
    if app.session.turn.began.is_none() && !app.session.agents.is_empty() {
        // They continue beside the conversation.
        out.push(Line::empty());
        let how = listed([
            hint(app, Action::NextAgent, "opens"),
            hint(app, Action::StopAgents, "stops"),
        ]);
        let running = counted(app.session.agents.len(), "agent");
        out.push(Line::styled(
            format!("{running} running · {how}")
                .trim_end_matches(" · ")
                .to_owned(),
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
                        one_line(&clean(&retry.error))
                    ),
                    theme.warning,
                ),
                app.screen.width(),
            ));
        } else if !app.conversation.todos.is_empty() && app.look.show_todos {
            out.extend(cell::todos(&app.conversation.todos, look));
        } else if began.elapsed() > Duration::from_secs(12) && app.look.tips {
            let tip = tip(app).map(|tip| Line::styled(format!("  tip: {tip}"), theme.muted));
            out.extend(tip);
        }
    } else if app.look.show_todos
        && app
            .conversation
            .todos
            .iter()
            .any(|item| !item.status.is_finished())
    {
        out.push(Line::empty());
        out.extend(cell::todos(&app.conversation.todos, look));
    }
    out
}

/// The agents at work, each below the one that started it, with what it did last.
pub(crate) fn agent_tree(app: &App, look: Look<'_>) -> Vec<Line> {
    let agents = &app.session.agents;
    let is_listed = |id: &str| agents.iter().any(|agent| agent.id == id);
    let tops: Vec<usize> = (0..agents.len())
        .filter(|at| !agents[*at].parent.as_deref().is_some_and(is_listed))
        .collect();
    let mut out = Vec::new();
    agent_rows(app, &tops, "  ", look, &mut out);
    out
}

fn agent_rows(app: &App, rows: &[usize], before: &str, look: Look<'_>, out: &mut Vec<Line>) {
    let agents = &app.session.agents;
    for (index, at) in rows.iter().enumerate() {
        let is_last = index + 1 == rows.len();
        let branch = if is_last { "└ " } else { "├ " };
        out.push(agent_row(app, *at, &format!("{before}{branch}"), look));
        let below: Vec<usize> = (0..agents.len())
            .filter(|other| agents[*other].parent.as_ref() == Some(&agents[*at].id))
            .collect();
        // Agents start agents three deep.
        if before.len() < 16 {
            let before = format!("{before}{}", if is_last { "  " } else { "│ " });
            agent_rows(app, &below, &before, look, out);
        }
    }
}

fn agent_row(app: &App, at: usize, before: &str, look: Look<'_>) -> Line {
    let theme = look.theme;
    let agent = &app.session.agents[at];
    let doing = agent.last_tool.as_deref().unwrap_or("starting");
    let mut facts = vec![
        doing.to_owned(),
        counted(usize::try_from(agent.calls).unwrap_or(usize::MAX), "call"),
        format!("{} tokens", tokens(agent.tokens)),
    ];
    if agent.cost > 0.0 {
        facts.push(spending::dollars(agent.cost));
    }
    facts.push(duration(agent.began.elapsed()));
    let style = agents::color(agent.color.as_deref(), at);
    let line = Line::styled(before.to_owned(), theme.muted)
        .with(one_line(&clean(&agent.description)), style)
        .with(format!(" · {}", facts.join(" · ")), theme.muted);
    truncate_line(&line, app.screen.width())
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
    } else if let Some(hook) = app.session.hooks.first() {
        let shown = one_line(&clean(&hook.display));
        if hook.display == hook.name {
            format!("Running hook {shown} ({})", hook.event)
        } else {
            shown
        }
    } else if app.session.turn.compacting {
        "Summarising the conversation".to_owned()
    } else {
        app.conversation
            .activity()
            .or_else(|| active_task(app))
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
        facts.push(format!("{} to interrupt", stop_key(app)));
        let long = app
            .conversation
            .running()
            .any(|call| call.tool == "Bash" && call.elapsed >= LONG_COMMAND);
        if long {
            facts.extend(hint(app, Action::Background, "background"));
        }
        if keyboard::newest(app).is_some() {
            facts.extend(hint(app, Action::Keyboard, "keyboard"));
        }
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

/// After this time it is said that a command can continue in the background.
const LONG_COMMAND: Duration = Duration::from_secs(5);

/// The task that is being worked on.
fn active_task(app: &App) -> Option<String> {
    let active = |item: &&TodoItem| item.status == TodoStatus::InProgress;
    let item = app.conversation.todos.iter().find(active)?;
    Some(one_line(&clean(&item.active_form)))
}

/// Rows below which nothing is spent on rules.
const ROWS_FOR_RULES: usize = 12;

/// The most columns of a rule. A rule as wide as the screen would wrap whenever a frame is still on its way
/// while the window becomes narrower, and then the rows of the live area can't be counted any more.
const RULE_COLUMNS: usize = 60;

/// The rule that sets the place to type apart from what was said; its colour tells the mode.
fn rule(app: &App, look: Look<'_>) -> Line {
    let theme = look.theme;
    let style = match (app.prompt.editor.typed_mark(), app.session.mode) {
        (Some('!'), _) => theme.modes.shell,
        (_, PermissionMode::Plan) => theme.modes.plan,
        (_, PermissionMode::AcceptEdits | PermissionMode::Auto) => theme.modes.accept,
        (_, PermissionMode::BypassPermissions) => theme.error,
        _ => theme.muted,
    };
    Line::styled("─".repeat(look.columns.min(RULE_COLUMNS)), style)
}

/// The dialog, or the prompt with what belongs to it, below a rule.
pub(crate) fn bottom(app: &App, look: Look<'_>, most: usize) -> (Vec<Line>, Cursor) {
    let ruled = most >= ROWS_FOR_RULES;
    let (mut lines, mut cursor) = bottom_lines(app, look, most - usize::from(ruled), ruled);
    if ruled {
        lines.insert(0, rule(app, look));
        cursor.row += 1;
    }
    (lines, cursor)
}

fn bottom_lines(app: &App, look: Look<'_>, most: usize, ruled: bool) -> (Vec<Line>, Cursor) {
    if let Some(dialog) = app.layers.dialog() {
        let later = app.layers.waiting();
        let (mut out, cursor) = dialog.view(look, most.saturating_sub(1 + usize::from(later > 0)));
        if later > 0 && dialog.request_id().is_some() {
            let plural = if later == 1 {
                "question waits"
            } else {
                "questions wait"
            };
            out.push(Line::styled(
                format!("{later} more {plural}"),
                look.theme.muted,
            ));
        }
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
    if ruled {
        out.push(rule(app, look));
    }
    if let Some(layer) = app.layers.below_prompt() {
        let room = most.saturating_sub(out.len() + 2);
        out.extend(layer.view(look, room).0);
    } else {
        out.extend(footer::lines(app, look));
    }
    (out, cursor)
}
