//! The live area: what stands below the scrollback.

use crate::app::App;
use crate::cell;
use crate::editor::{Row, rows};
use crate::markdown::Look;
use crate::screen::{Cursor, Frame};
use crate::style::{Line, Style};
use crate::terminal;
use crate::text::{clean, counted, duration, tokens, truncate, truncate_line, width};
use crate::theme::Theme;
use lathe_protocol::permission::PermissionMode;
use std::time::{Duration, Instant};

const SPINNER_FRAMES: [&str; 8] = ["✶", "✷", "✸", "✹", "✺", "✹", "✸", "✷"];

/// Hints while waiting, one per turn.
pub(crate) const TIPS: &[&str] = &[
    "ctrl+o shows the whole conversation, with search",
    "type while the model works: it hears you with the next tool result",
    "! runs a shell command and shares it with the model",
    "# remembers something for all later sessions",
    "shift+tab changes the permission mode",
    "ctrl+g opens your editor for long prompts",
    "/rewind goes back to an earlier prompt, with or without the files",
    "ctrl+b lets a long command go on in the background",
    "@ completes file names",
];

impl App {
    /// Draws what changed.
    pub(crate) fn draw(&mut self) {
        if self.transcript.is_some() {
            self.draw_transcript();
            return;
        }
        let before = std::mem::take(&mut self.pending_output);
        let finished = self.conversation.take_finished();
        let frame = self.frame();
        let out = self.screen.draw(&before, &finished, &frame);
        if !out.is_empty() && terminal::write(&out).is_err() {
            self.leaving = Some(crate::app::Leave::Terminated);
        }
    }

    /// The live area as it is now.
    pub(crate) fn frame(&self) -> Frame {
        let theme = self.theme();
        let look = Look {
            theme: &theme,
            columns: self.width(),
        };
        let most = self.rows.saturating_sub(1).max(1);
        let mut top = self.conversation.live(look);
        if !top.is_empty() && self.conversation.live_gap() {
            top.insert(0, Line::empty());
        }
        if let Some(run) = &self.shell_run {
            top.push(Line::empty());
            top.push(truncate_line(
                &Line::styled("! ", theme.shell.bold())
                    .with(clean(&run.command).replace('\n', " "), theme.shell),
                self.width(),
            ));
            let lines = crate::text::terminal_lines(run.tail.trim_end());
            for line in lines.iter().rev().take(6).rev() {
                top.push(Line::styled(
                    truncate(&format!("  {line}"), self.width()),
                    theme.muted,
                ));
            }
        }
        let mut middle = self.status(look);
        middle.extend(self.waiting_lines(&theme));
        middle.push(Line::empty());
        let (bottom, cursor) = self.bottom(look, most);
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
            .map(|line| truncate_line(line, self.width()))
            .collect();
        Frame {
            cursor: Cursor {
                row: (cursor.row + offset)
                    .saturating_sub(skip)
                    .min(live.len().saturating_sub(1)),
                column: cursor.column.min(self.width()),
                visible: cursor.visible,
            },
            live,
        }
    }

    /// What was said and typed and has not come to its turn yet, in its order.
    fn waiting_lines(&self, theme: &Theme) -> Vec<Line> {
        let line = |text: &str| {
            let text = clean(text).replace('\n', " ⏎ ");
            truncate_line(
                &Line::styled("❯ ", theme.muted).with(text, theme.muted.italic()),
                self.width(),
            )
        };
        let mut out = Vec::new();
        for index in 0..=self.waiting_commands.len() {
            let said = self.queued.iter().filter(|queued| queued.after == index);
            out.extend(said.map(|queued| line(&queued.text)));
            if let Some((name, arguments)) = self.waiting_commands.get(index) {
                out.push(line(&crate::commands::as_typed(name, arguments)));
            }
        }
        out
    }

    /// The spinner line and what belongs to it.
    fn status(&self, look: Look<'_>) -> Vec<Line> {
        let theme = look.theme;
        let mut out = Vec::new();
        if self.turn_began.is_none() && !self.agents.is_empty() {
            // They go on beside the conversation.
            out.push(Line::empty());
            out.push(Line::styled(
                format!(
                    "{} at work (ctrl+x ctrl+k stops, /tasks shows more)",
                    counted(self.agents.len(), "agent")
                ),
                theme.muted,
            ));
            out.extend(self.agent_tree(look));
        }
        if let Some(began) = self.turn_began {
            out.push(Line::empty());
            out.push(self.spinner(began, look));
            out.extend(self.agent_tree(look));
            if let Some(retry) = &self.retry {
                let left = retry
                    .until
                    .saturating_duration_since(Instant::now())
                    .as_secs_f64()
                    .ceil();
                out.push(truncate_line(
                    &Line::styled(
                        format!(
                            "  ↻ asking again in {left:.0}s ({}/{}) · {}",
                            retry.attempt,
                            retry.max,
                            clean(&retry.error).replace('\n', " ")
                        ),
                        theme.warning,
                    ),
                    self.width(),
                ));
            } else if !self.conversation.todos.is_empty() && self.show_todos {
                out.extend(cell::todos(&self.conversation.todos, look));
            } else if began.elapsed() > Duration::from_secs(12) && self.wishes.tips {
                let tip = TIPS[self.tip % TIPS.len()];
                out.push(Line::styled(format!("  tip: {tip}"), theme.muted));
            }
        } else if self.show_todos
            && self
                .conversation
                .todos
                .iter()
                .any(|item| item.status != lathe_protocol::display::TodoStatus::Completed)
        {
            out.push(Line::empty());
            out.extend(cell::todos(&self.conversation.todos, look));
        }
        out
    }

    /// The agents at work, with what each did last.
    fn agent_tree(&self, look: Look<'_>) -> Vec<Line> {
        let theme = look.theme;
        let mut out = Vec::new();
        for (index, agent) in self.agents.iter().enumerate() {
            let branch = if index + 1 == self.agents.len() {
                "└"
            } else {
                "├"
            };
            let doing = agent.last_tool.as_deref().unwrap_or("begins");
            let facts = format!(
                " · {doing} · {} · {} tokens",
                counted(usize::try_from(agent.calls).unwrap_or(usize::MAX), "call"),
                tokens(agent.tokens)
            );
            let line = Line::styled(format!("  {branch} "), theme.muted)
                .with(clean(&agent.description).replace('\n', " "), Style::PLAIN)
                .with(facts, theme.muted);
            out.push(truncate_line(&line, self.width()));
        }
        out
    }

    fn spinner(&self, began: Instant, look: Look<'_>) -> Line {
        let theme = look.theme;
        let elapsed = began.elapsed();
        let mark = if self.wishes.reduced_motion {
            "●"
        } else {
            SPINNER_FRAMES[(elapsed.as_millis() / 120) as usize % SPINNER_FRAMES.len()]
        };
        let what = if self.interrupting {
            "Stopping".to_owned()
        } else if self
            .dialog
            .as_ref()
            .is_some_and(|dialog| dialog.request_id().is_some())
        {
            "Waiting for your answer".to_owned()
        } else if self.compacting {
            "Summarising the conversation".to_owned()
        } else {
            self.conversation
                .activity()
                .unwrap_or_else(|| "Waiting for the model".to_owned())
        };
        let mut facts = vec![format!("{}s", elapsed.as_secs())];
        if elapsed.as_secs() >= 60 {
            facts[0] = duration(elapsed);
        }
        let written = self.conversation.counted_tokens + self.conversation.pending_bytes / 4;
        if written > 0 {
            facts.push(format!("↓ {} tokens", tokens(written)));
        }
        if self.dialog.is_none() {
            facts.push("esc to interrupt".to_owned());
        }
        if self.width() < 60 {
            facts.retain(|fact| !fact.ends_with("tokens"));
        }
        let facts = format!(" ({})", facts.join(" · "));
        let what = truncate(&what, self.width().saturating_sub(width(&facts) + 4).max(8));
        let mut line = Line::styled(format!("{mark} "), theme.accent);
        line.push(format!("{}…", what.trim_end_matches('…')), theme.accent);
        line.push(facts, theme.muted);
        truncate_line(&line, self.width())
    }

    /// The dialog, or the prompt with what belongs to it.
    fn bottom(&self, look: Look<'_>, most: usize) -> (Vec<Line>, Cursor) {
        if let Some(dialog) = &self.dialog {
            let (mut out, cursor) = dialog.view(look, most.saturating_sub(1));
            if !dialog.armed() {
                out.push(Line::styled(
                    "you are typing · ↓ or enter goes to the answers",
                    look.theme.warning,
                ));
                let offset = out.len();
                let mut rows = Vec::new();
                let cursor = self.prompt(look, most / 2, &mut rows);
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
        let cursor = self.prompt(look, most, &mut out);
        if let Some(completion) = &self.completion {
            let room = most.saturating_sub(out.len() + 2);
            out.extend(completion.view(look, room));
        } else if self.show_help {
            out.extend(self.short_help(look));
        } else {
            out.extend(self.footer(look));
        }
        (out, cursor)
    }

    fn prompt(&self, look: Look<'_>, most: usize, out: &mut Vec<Line>) -> Cursor {
        let theme = look.theme;
        let text = self.editor.text();
        let (mark, style) = match text.chars().next() {
            Some('!') => ("❯ ", theme.shell.bold()),
            Some('#') => ("❯ ", theme.plan.bold()),
            _ => ("❯ ", theme.prompt),
        };
        if text.is_empty() {
            let mut line = Line::styled(mark, style);
            if let Some(vim) = &self.vim
                && !vim.inserting()
            {
                line = Line::styled(mark, theme.muted);
            }
            if let Some(suggestion) = self.shown_suggestion() {
                let room = self.prompt_columns().saturating_sub(1);
                line.push(truncate(&clean(suggestion), room), theme.muted);
            } else if self.conversation.cells.is_empty() && self.queued.is_empty() && !self.busy() {
                let hint = if self.width() > 50 {
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
        let columns = self.prompt_columns();
        let all = rows(text, columns);
        let at = all
            .iter()
            .position(|row| {
                self.editor.cursor() >= row.start
                    && (self.editor.cursor() < row.end
                        || self.editor.cursor() == row.end && !row.soft)
            })
            .unwrap_or(all.len().saturating_sub(1));
        let room = (most / 2).max(3);
        let first = at
            .saturating_sub(room - 1)
            .max(all.len().saturating_sub(room).min(at));
        let selection = self
            .vim
            .as_ref()
            .and_then(|vim| vim.selection(&self.editor));
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
            self.prompt_row(text, row, selection.clone(), theme, &mut line);
            if index == at {
                cursor = Cursor {
                    row: out.len(),
                    column: 2 + width(&text[row.start..self.editor.cursor()]),
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

    fn prompt_row(
        &self,
        text: &str,
        row: &Row,
        selection: Option<std::ops::Range<usize>>,
        theme: &Theme,
        line: &mut Line,
    ) {
        let base = match text.chars().next() {
            Some('!') => theme.shell,
            _ => Style::PLAIN,
        };
        let Some(selection) = selection else {
            let part = &text[row.start..row.end];
            let word_end = part.find(char::is_whitespace).unwrap_or(part.len());
            if row.start == 0 && part.starts_with('/') && self.knows_command(&part[1..word_end]) {
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

    /// Columns for the prompt's text.
    pub(crate) fn prompt_columns(&self) -> usize {
        self.width().saturating_sub(1).max(8)
    }

    fn footer(&self, look: Look<'_>) -> Vec<Line> {
        let theme = look.theme;
        let mut hint = Line::empty();
        if let Some((text, _)) = self.leave_hint {
            hint.push(text, theme.warning);
        } else if let Some(key) = self.chord.first() {
            hint.push(format!("{key} …"), theme.muted);
        } else {
            if let Some(vim) = &self.vim {
                hint.push(format!("{} ", vim.label()), theme.accent.bold());
            }
            match self.mode {
                PermissionMode::Default => {}
                PermissionMode::AcceptEdits => hint.push("» accept edits on", theme.accept),
                PermissionMode::Plan => hint.push("▤ plan mode on", theme.plan),
                PermissionMode::DontAsk => {
                    hint.push("⊘ don't ask: what would ask is refused", theme.warning);
                }
                PermissionMode::BypassPermissions => {
                    hint.push("⚠ permissions are bypassed", theme.error);
                }
                PermissionMode::Auto => hint.push("◈ auto mode on", theme.accept),
            }
            match self.editor.text().chars().next() {
                Some('!') => {
                    hint = Line::styled("shell command, shared with the model", theme.shell);
                }
                Some('#') => hint = Line::styled("to remember: enter chooses where", theme.plan),
                _ => {}
            }
            let says_mode = self.mode != PermissionMode::Default;
            let words = if self.shown_suggestion().is_some() {
                if says_mode {
                    " · tab takes the suggestion"
                } else {
                    "tab takes the suggestion"
                }
            } else if !self.editor.is_empty() {
                "enter send · shift+enter or \\ new line"
            } else if says_mode {
                " (shift+tab changes it)"
            } else {
                "? for keys"
            };
            if hint.spans.is_empty() || self.editor.is_empty() {
                hint.push(words, theme.muted);
            }
            if self.stash.is_some() {
                hint.push(" · a prompt is stashed (ctrl+s)", theme.muted);
            }
        }
        let mut out = vec![truncate_line(&hint, self.width())];
        let status = match &self.status_line {
            Some(text) => {
                let blanks = self.status_padding.min(self.width() / 4);
                let room = self.width().saturating_sub(2 * blanks);
                let text = clean(text.lines().next().unwrap_or_default());
                Line::plain(" ".repeat(blanks)).with(truncate(&text, room), theme.muted)
            }
            None => self.facts(theme),
        };
        if status.width() > 0 {
            out.push(truncate_line(&status, self.width()));
        }
        out
    }

    /// The built-in status line.
    fn facts(&self, theme: &Theme) -> Line {
        let mut facts: Vec<(String, Style)> = Vec::new();
        if !self.model.is_empty() {
            facts.push((self.model.clone(), theme.muted));
        }
        let folder = self.session.as_ref().map_or_else(
            || self.places.environment.cwd.clone(),
            |session| session.context().working_folder(),
        );
        if let Some(folder) = folder.file_name() {
            facts.push((folder.to_string_lossy().into_owned(), theme.muted));
        }
        if let Some(branch) = &self.branch {
            facts.push((branch.clone(), theme.muted));
        }
        if let Some(left) = self.context_left {
            let style = if left.is_little {
                theme.warning
            } else {
                theme.muted
            };
            facts.push((format!("{}% context left", left.percent), style));
        }
        let cost = self
            .last_result
            .as_ref()
            .map_or(self.spending.before, |result| result.total_cost_usd);
        if cost > 0.0 {
            facts.push(self.spending_fact(cost, theme));
        }
        if !self.commands_behind.is_empty() {
            let words = counted(self.commands_behind.len(), "command");
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

    fn short_help(&self, look: Look<'_>) -> Vec<Line> {
        let theme = look.theme;
        let pairs = [
            ("/", "commands"),
            ("@", "files"),
            ("!", "shell command"),
            ("#", "remember"),
            ("esc esc", "rewind"),
            ("shift+tab", "permission mode"),
            ("ctrl+o", "whole conversation"),
            ("ctrl+t", "task list"),
            ("ctrl+r", "search history"),
            ("ctrl+s", "stash prompt"),
            ("ctrl+g", "external editor"),
            ("ctrl+b", "to background"),
            ("ctrl+_", "undo"),
            ("ctrl+z", "suspend"),
            ("ctrl+c ×2", "leave"),
            ("/keybindings", "all keys"),
        ];
        let per_row = (self.width() / 34).clamp(1, 4);
        pairs
            .chunks(per_row)
            .map(|chunk| {
                let mut line = Line::plain("  ");
                for (key, what) in chunk {
                    line.push(format!("{key:<13}"), theme.accent);
                    line.push(format!("{what:<19}"), theme.muted);
                }
                truncate_line(&line, self.width())
            })
            .collect()
    }
}
