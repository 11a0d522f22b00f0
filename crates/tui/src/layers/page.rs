//! A page to read: it scrolls, and Esc goes back one step.
//!
//! The lines are made for the width at hand, so that it can be read in a terminal of any size.

use super::{Layer, Outcome, Purpose};
use crate::prompt::dialog_keys::DialogContext;
use crate::render::markdown::{self, Look};
use crate::render::style::Line;
use crate::render::text::{truncate, wrap, wrap_below};
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::{Code, Key};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Makes the lines of a page.
type Render = Box<dyn Fn(Look<'_>) -> Vec<Line> + Send>;

/// A page to read.
pub(crate) struct Page {
    pub(crate) purpose: Purpose,
    title: String,
    render: Render,
    top: usize,
    /// Further keys: what they are and what they do.
    extra: Vec<(char, &'static str)>,
    /// How many lines there were and how many had room when it was last shown.
    seen: Cell<(usize, usize)>,
    /// When the lines were made.
    made: Instant,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page")
            .field("purpose", &self.purpose)
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

impl Page {
    /// A page whose lines depend on how things look.
    pub(crate) fn new(
        purpose: Purpose,
        title: impl Into<String>,
        render: impl Fn(Look<'_>) -> Vec<Line> + Send + 'static,
    ) -> Self {
        Self {
            purpose,
            title: title.into(),
            render: Box::new(render),
            top: 0,
            extra: Vec::new(),
            seen: Cell::new((0, 1)),
            made: Instant::now(),
        }
    }

    /// A page of lines that are wrapped to the width.
    pub(crate) fn of_lines(purpose: Purpose, title: impl Into<String>, lines: Vec<Line>) -> Self {
        Self::new(purpose, title, wrapped(lines))
    }

    /// Whether the lines were made longer ago than this.
    pub(crate) fn is_older_than(&self, now: Instant, age: Duration) -> bool {
        now.saturating_duration_since(self.made) >= age
    }

    /// Shows other lines. At the end, what comes is followed.
    pub(crate) fn replace(&mut self, lines: Vec<Line>, now: Instant) {
        let (count, room) = self.seen.get();
        if self.top >= count.saturating_sub(room) {
            self.top = usize::MAX;
        }
        self.render = Box::new(wrapped(lines));
        self.made = now;
    }

    /// A page of Markdown.
    pub(crate) fn of_markdown(
        purpose: Purpose,
        title: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        let text = text.into();
        Self::new(purpose, title, move |look| markdown::render(&text, look))
    }

    /// A key that does something else.
    pub(crate) fn with_key(mut self, key: char, what: &'static str) -> Self {
        self.extra.push((key, what));
        self
    }

    /// Shows the end first: what was written last.
    pub(crate) fn at_the_end(mut self) -> Self {
        self.top = usize::MAX;
        self
    }
}

/// The lines, wrapped to the width at hand.
fn wrapped(lines: Vec<Line>) -> impl Fn(Look<'_>) -> Vec<Line> + Send + 'static {
    move |look| {
        lines
            .iter()
            .flat_map(|line| wrap_below(line, look.columns))
            .collect()
    }
}

impl Layer for Page {
    fn key(&mut self, key: Key) -> Outcome {
        let (count, room) = self.seen.get();
        let last = count.saturating_sub(room);
        let top = self.top.min(last);
        self.top = match key.code {
            Code::Esc | Code::Enter | Code::Char('q') => return Outcome::Cancelled,
            Code::Char(c)
                if !key.ctrl && !key.alt && self.extra.iter().any(|(extra, _)| *extra == c) =>
            {
                return Outcome::Other {
                    value: String::new(),
                    key: c,
                };
            }
            Code::Up | Code::Char('k') => top.saturating_sub(1),
            Code::Down | Code::Char('j') => (top + 1).min(last),
            Code::PageUp | Code::Char('b') => top.saturating_sub(room),
            Code::PageDown | Code::Char(' ') => (top + room).min(last),
            Code::Home | Code::Char('g') => 0,
            Code::End | Code::Char('G') => last,
            _ => top,
        };
        Outcome::Stay
    }

    fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor) {
        let theme = look.theme;
        let mut out = wrap(
            &Line::styled(self.title.clone(), theme.heading),
            look.columns,
            0,
        );
        let lines = (self.render)(look);
        let room = rows.saturating_sub(out.len() + 1).max(1);
        self.seen.set((lines.len(), room));
        let top = self.top.min(lines.len().saturating_sub(room));
        let count = lines.len();
        out.extend(lines.into_iter().skip(top).take(room));
        let mut hint = vec!["esc back".to_owned()];
        for (key, what) in &self.extra {
            hint.push(format!("{key} {what}"));
        }
        if count > room {
            hint.push(format!(
                "↑↓ space b g G · {}–{} of {count}",
                top + 1,
                (top + room).min(count)
            ));
        }
        let hint = look.keys.dialog_hint(self.contexts(), &hint.join(" · "));
        out.push(Line::styled(truncate(&hint, look.columns), theme.muted));
        (out, Cursor::default())
    }

    fn contexts(&self) -> &'static [DialogContext] {
        &[DialogContext::Page]
    }

    fn purpose(&self) -> Option<&Purpose> {
        Some(&self.purpose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::tests::{drawn, walk};
    use crate::terminal::key::keys;

    fn shown(page: &Page) -> String {
        drawn(|look| page.view(look, 7))
    }

    #[test]
    fn a_page_scrolls_within_its_ends_and_closes() {
        let lines = (1..=20).map(|n| Line::plain(format!("line {n}"))).collect();
        let mut page = Page::of_lines(Purpose::Reading, "Twenty", lines).with_key('x', "stop");
        let table = [
            ("", "line 1\n", "1–5 of 20"),
            ("<up>", "line 1\n", "1–5 of 20"),
            ("jj", "line 3\n", "3–7 of 20"),
            (" ", "line 8\n", "8–12 of 20"),
            ("G", "line 20\n", "16–20 of 20"),
            ("<down>", "line 20\n", "16–20 of 20"),
            ("b", "line 11\n", "11–15 of 20"),
            ("g", "line 1\n", "1–5 of 20"),
        ];
        walk(&mut page, Page::key, shown, &table);
        let other = Outcome::Other {
            value: String::new(),
            key: 'x',
        };
        assert_eq!(page.key(keys("x")[0]), other);
        for pressed in ["<esc>", "q", "\n"] {
            assert_eq!(
                page.key(keys(pressed)[0]),
                Outcome::Cancelled,
                "{pressed:?}"
            );
        }
    }

    #[test]
    fn a_page_of_markdown_is_rendered() {
        let text = "# Lathe 1\n\n### Added\n- a `thing`\n  that continues";
        let page = Page::of_markdown(Purpose::Reading, "Release notes", text);
        let shown = shown(&page);
        assert!(shown.contains("• a thing that continues"), "{shown}");
        assert!(!shown.contains('#') && !shown.contains('`'), "{shown}");
    }
}
