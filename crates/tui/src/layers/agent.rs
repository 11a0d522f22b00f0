//! An agent at work: its own conversation, following what it writes, and a line to write to it.

use super::form::{edit, field};
use super::{Layer, Outcome, Purpose};
use crate::prompt::editor::Editor;
use crate::prompt::keymap::Keymap;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, counted, duration, one_line, tokens, truncate, truncate_line};
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::{Code, Key};
use lathe_tools::host::{AgentStatus, AgentTask};
use std::cell::Cell;
use std::time::Duration;

/// The rows of an agent's conversation as they were last made.
#[derive(Default)]
pub(crate) struct Body {
    /// For which state of its work, width and theme.
    pub(crate) made_for: Option<(u64, usize, String)>,
    pub(crate) lines: Vec<Line>,
    /// The answer that it is writing.
    pub(crate) writing: Vec<Line>,
}

/// An agent at work.
pub(crate) struct AgentView {
    pub(crate) task: AgentTask,
    /// The place among the agents, from 1, and how many there are.
    pub(crate) place: (usize, usize),
    pub(crate) color: Style,
    pub(crate) body: Body,
    purpose: Purpose,
    editor: Editor,
    keymap: Keymap,
    /// The first row; the end is followed from `usize::MAX` on.
    top: usize,
    /// A word about what was typed last.
    said: Option<String>,
    /// How many rows there were and how many had room when it was last shown.
    seen: Cell<(usize, usize)>,
}

impl AgentView {
    pub(crate) fn new(task: AgentTask, place: (usize, usize), color: Style) -> Self {
        Self {
            purpose: Purpose::Agent {
                id: task.id.to_string(),
            },
            task,
            place,
            color,
            body: Body::default(),
            editor: Editor::default(),
            keymap: Keymap::default(),
            top: usize::MAX,
            said: None,
            seen: Cell::new((0, 1)),
        }
    }

    /// Says how the words that were sent fared.
    pub(crate) fn say(&mut self, words: String) {
        self.said = Some(words);
    }

    /// Puts words back that did not reach the agent.
    pub(crate) fn give_back(&mut self, words: &str) {
        if self.editor.is_empty() {
            self.editor.set_text(words);
        }
    }

    fn title(&self, look: Look<'_>) -> Vec<Line> {
        let theme = look.theme;
        let task = &self.task;
        let (mark, style) = match task.status {
            AgentStatus::Running => ("●", self.color),
            AgentStatus::Completed => ("✓", theme.success),
            AgentStatus::Failed => ("✗", theme.error),
            AgentStatus::Killed => ("■", theme.warning),
        };
        let name = task.name.as_deref().unwrap_or(&task.agent_type);
        let mut title = Line::styled(format!("{mark} "), style);
        title.push(one_line(&clean(name)), self.color.bold());
        title.push(
            format!(": {}", one_line(&clean(&task.description))),
            theme.heading,
        );
        let mut facts = vec![format!("agent {} of {}", self.place.0, self.place.1)];
        if task.name.is_some() {
            facts.push(one_line(&clean(&task.agent_type)));
        }
        facts.push(task.status.word().to_owned());
        facts.push(duration(Duration::from_millis(task.usage.duration_ms)));
        facts.push(format!("{} tokens", tokens(task.usage.total_tokens)));
        if task.cost_usd > 0.0 {
            facts.push(crate::app::spending::dollars(task.cost_usd));
        }
        let calls = usize::try_from(task.usage.tool_uses).unwrap_or(usize::MAX);
        facts.push(counted(calls, "call"));
        facts.extend(task.last_tool.clone());
        vec![
            truncate_line(&title, look.columns),
            Line::styled(truncate(&facts.join(" · "), look.columns), theme.muted),
        ]
    }

    fn hint(&self, count: usize, top: usize, room: usize) -> String {
        if let Some(said) = &self.said {
            return said.clone();
        }
        let mut hint = vec![if self.editor.is_empty() {
            "type to write to it"
        } else {
            "enter send"
        }];
        if self.place.1 > 1 {
            hint.push("ctrl+↑↓ other agents");
        }
        hint.push("esc back");
        if self.task.status == AgentStatus::Running {
            hint.push("ctrl+x stop");
        }
        let mut hint = hint.join(" · ");
        if count > room {
            let last = (top + room).min(count);
            hint.push_str(&format!(" · ↑↓ {}–{last} of {count}", top + 1));
        }
        hint
    }
}

impl Layer for AgentView {
    fn paste(&mut self, text: &str) {
        self.editor.insert(text);
    }

    fn key(&mut self, key: Key) -> Outcome {
        self.said = None;
        let (count, room) = self.seen.get();
        let last = count.saturating_sub(room);
        let top = self.top.min(last);
        let follow = |top: usize| if top >= last { usize::MAX } else { top };
        match key.code {
            Code::Esc => return Outcome::Cancelled,
            Code::Enter if key.alt || key.shift => self.editor.insert("\n"),
            Code::Enter => {
                let text = self.editor.text().trim().to_owned();
                if !text.is_empty() {
                    let _ = self.editor.take();
                    self.top = usize::MAX;
                    return Outcome::Chosen(text);
                }
            }
            Code::Up if key.ctrl => return other('k'),
            Code::Down if key.ctrl => return other('j'),
            Code::Char('x') if key.ctrl => return other('x'),
            Code::Up => self.top = top.saturating_sub(1),
            Code::Down => self.top = follow(top + 1),
            Code::PageUp => self.top = top.saturating_sub(room),
            Code::PageDown => self.top = follow(top + room),
            _ => edit(&mut self.editor, &self.keymap, key),
        }
        Outcome::Stay
    }

    fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor) {
        let theme = look.theme;
        let mut out = self.title(look);
        let room = rows.saturating_sub(out.len() + 3).max(1);
        let gap = usize::from(!self.body.lines.is_empty() && !self.body.writing.is_empty());
        let count = self.body.lines.len() + gap + self.body.writing.len();
        self.seen.set((count, room));
        let top = self.top.min(count.saturating_sub(room));
        if count == 0 {
            out.push(Line::styled("  nothing yet", theme.muted));
        }
        let blank = Line::empty();
        let lines = self.body.lines.iter();
        let lines = lines.chain(std::iter::repeat_n(&blank, gap));
        let lines = lines.chain(&self.body.writing).skip(top).take(room);
        out.extend(lines.map(|line| truncate_line(line, look.columns)));
        out.push(Line::styled("─".repeat(look.columns.min(60)), self.color));
        let (shown, column) = field(&self.editor, look.columns.saturating_sub(3));
        let cursor = Cursor {
            row: out.len(),
            column: column + 2,
            visible: true,
        };
        out.push(Line::styled("❯ ", self.color).with(shown, Style::PLAIN));
        out.push(Line::styled(
            truncate(&self.hint(count, top, room), look.columns),
            theme.muted,
        ));
        (out, cursor)
    }

    fn purpose(&self) -> Option<&Purpose> {
        Some(&self.purpose)
    }
}

fn other(key: char) -> Outcome {
    Outcome::Other {
        value: String::new(),
        key,
    }
}
