//! The whole conversation on the full screen, unfolded, with search.

use crate::app::App;
use crate::cell::{self, Fold};
use crate::key::{Code, Key};
use crate::keymap::{Action, Context, Found};
use crate::markdown::Look;
use crate::style::{Line, Style};
use crate::terminal;
use crate::text::{truncate, wrap};

/// The full-screen view.
pub(crate) struct TranscriptView {
    lines: Vec<Line>,
    texts: Vec<String>,
    top: usize,
    fold: Fold,
    search: String,
    typing: bool,
    at_match: Option<usize>,
    message: Option<String>,
    /// Whether the lines must be made anew.
    pub(crate) stale: bool,
    /// What is written when the view is left: it belongs to the screen below.
    pub(crate) after: String,
    drawn: Vec<String>,
}

impl App {
    pub(crate) fn open_transcript(&mut self) {
        terminal::alternate(true);
        self.transcript = Some(TranscriptView {
            lines: Vec::new(),
            texts: Vec::new(),
            top: usize::MAX,
            fold: Fold::Unfolded,
            search: String::new(),
            typing: false,
            at_match: None,
            message: None,
            stale: true,
            after: String::new(),
            drawn: Vec::new(),
        });
        self.changed_now();
    }

    pub(crate) fn close_transcript(&mut self) {
        terminal::alternate(false);
        if let Some(view) = self.transcript.take() {
            self.pending_output.push_str(&view.after);
        }
        self.changed_now();
    }

    pub(crate) fn transcript_key(&mut self, key: Key) {
        let page = self.rows.saturating_sub(2).max(1);
        let Some(view) = &mut self.transcript else {
            return;
        };
        view.message = None;
        if view.typing {
            match key.code {
                Code::Esc => {
                    view.typing = false;
                    view.search.clear();
                }
                Code::Enter => {
                    view.typing = false;
                    view.find(true, page);
                }
                Code::Backspace => {
                    view.search.pop();
                }
                Code::Char(c) if !key.ctrl && !key.alt => view.search.push(c),
                _ => {}
            }
            return;
        }
        let Found::Action(action) = self.keymap.find(Context::Transcript, &[key]) else {
            return;
        };
        let last = view.lines.len().saturating_sub(page);
        match action {
            Action::Close | Action::Cancel | Action::Transcript => self.close_transcript(),
            Action::Up => view.top = view.top.min(last).saturating_sub(1),
            Action::Down => view.top = (view.top.min(last) + 1).min(last),
            Action::PageUp => view.top = view.top.min(last).saturating_sub(page),
            Action::PageDown => view.top = (view.top.min(last) + page).min(last),
            Action::TextStart => view.top = 0,
            Action::TextEnd => view.top = last,
            Action::Search => {
                view.typing = true;
                view.search.clear();
                view.at_match = None;
            }
            Action::SearchNext => view.find(true, page),
            Action::SearchPrevious => view.find(false, page),
            Action::ExpandAll => {
                view.fold = if view.fold == Fold::Folded {
                    Fold::Unfolded
                } else {
                    Fold::Folded
                };
                view.stale = true;
            }
            Action::Copy => {
                let answer = self.conversation.last_answer().map(str::to_owned);
                if let Some(view) = &mut self.transcript {
                    view.message = Some(match &answer {
                        Some(text) => {
                            let _ = terminal::write(&crate::commands::clipboard_sequence(text));
                            "the last answer is copied".to_owned()
                        }
                        None => "there is no answer yet".to_owned(),
                    });
                }
            }
            Action::Suspend => self.suspend(),
            _ => {}
        }
    }

    pub(crate) fn draw_transcript(&mut self) {
        let theme = self.theme();
        let (columns, rows) = (self.columns, self.rows);
        let look = Look {
            theme: &theme,
            columns,
        };
        let count = self.conversation.cells.len();
        let encoder = self.screen.encoder();
        let cwd = self.conversation.cwd().to_owned();
        let Some(view) = &mut self.transcript else {
            return;
        };
        let page = rows.saturating_sub(2).max(1);
        if view.stale {
            view.stale = false;
            view.drawn.clear();
            view.lines.clear();
            for (index, cell) in self.conversation.cells.iter().enumerate() {
                if index > 0 {
                    view.lines.push(Line::empty());
                }
                for line in cell::lines(cell, look, view.fold, &cwd) {
                    view.lines.extend(wrap(&line, columns, 0));
                }
            }
            if let Some(lines) = self.dialog.as_ref().and_then(|dialog| dialog.in_full(look)) {
                view.lines.push(Line::empty());
                view.lines.extend(lines);
            }
            view.texts = view
                .lines
                .iter()
                .map(|line| line.text().to_lowercase())
                .collect();
        }
        let last = view.lines.len().saturating_sub(page);
        view.top = view.top.min(last);
        let mut screen: Vec<Line> = view
            .lines
            .iter()
            .skip(view.top)
            .take(page)
            .cloned()
            .collect();
        if !view.search.is_empty() {
            let needle = view.search.to_lowercase();
            for line in &mut screen {
                *line = marked(line, &needle);
            }
        }
        screen.resize(page, Line::empty());
        let position = if view.lines.len() <= page {
            "all".to_owned()
        } else {
            format!("{}%", view.top * 100 / last.max(1))
        };
        screen.push(Line::styled(
            "─".repeat(columns.saturating_sub(1)),
            theme.muted,
        ));
        let foot = if view.typing {
            Line::styled("/", theme.accent).with(view.search.clone(), Style::PLAIN)
        } else if let Some(message) = &view.message {
            Line::styled(message.clone(), theme.warning)
        } else {
            Line::styled(
                truncate(
                    &format!(
                        "{} · {position} · q back · ↑↓ space b g G · / n N · ctrl+e fold · c copy",
                        crate::text::counted(count, "message")
                    ),
                    columns.saturating_sub(1),
                ),
                theme.muted,
            )
        };
        screen.push(foot);
        let mut out = String::new();
        let mut drawn = Vec::with_capacity(screen.len());
        for (row, line) in screen.iter().enumerate() {
            let mut text = String::new();
            encoder.line(line, &mut text);
            if view.drawn.get(row) != Some(&text) {
                out.push_str(&format!("\x1b[{};1H\x1b[2K{text}", row + 1));
            }
            drawn.push(text);
        }
        view.drawn = drawn;
        if !out.is_empty() {
            let cursor = if view.typing {
                format!(
                    "\x1b[{};{}H\x1b[?25h",
                    rows,
                    crate::text::width(&view.search) + 2
                )
            } else {
                String::new()
            };
            let _ = terminal::write(&format!("\x1b[?2026h\x1b[?25l{out}{cursor}\x1b[?2026l"));
        }
    }
}

impl TranscriptView {
    /// Goes to the next line that has the searched words.
    fn find(&mut self, forward: bool, page: usize) {
        if self.search.is_empty() {
            return;
        }
        let needle = self.search.to_lowercase();
        let count = self.texts.len();
        let from = self.at_match.unwrap_or_else(|| {
            if forward {
                self.top.min(count).wrapping_sub(1)
            } else {
                self.top.min(count)
            }
        });
        let found = (1..=count)
            .map(|step| {
                if forward {
                    from.wrapping_add(step) % count.max(1)
                } else {
                    (from + count * 2 - step) % count.max(1)
                }
            })
            .find(|index| {
                self.texts
                    .get(*index)
                    .is_some_and(|text| text.contains(&needle))
            });
        match found {
            Some(index) => {
                self.at_match = Some(index);
                self.top = index.saturating_sub(page / 3);
            }
            None => self.message = Some(format!("'{}' is nowhere", self.search)),
        }
    }
}

/// The line with every occurrence of a text reversed.
fn marked(line: &Line, needle: &str) -> Line {
    let text = line.text();
    let lower = text.to_lowercase();
    if lower.len() != text.len() || !lower.contains(needle) {
        return line.clone();
    }
    let ranges: Vec<(usize, usize)> = lower
        .match_indices(needle)
        .map(|(at, found)| (at, at + found.len()))
        .collect();
    let mut out = Line::empty();
    let mut at = 0;
    for span in &line.spans {
        for (offset, c) in span.text.char_indices() {
            let position = at + offset;
            let hit = ranges
                .iter()
                .any(|(start, end)| (*start..*end).contains(&position));
            out.push(
                c.to_string(),
                if hit {
                    span.style.reverse()
                } else {
                    span.style
                },
            );
        }
        at += span.text.len();
    }
    out
}
