//! The whole conversation on the full screen, unfolded, with search.

use super::{Layer, Level, Outcome};
use crate::app::conversation::Conversation;
use crate::prompt::keymap::{Action, Context, KeyMatch, Keymap};
use crate::render::cell::{self, Call, Cell as ConversationCell, Fold};
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{counted, truncate, width, wrap};
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::{Code, Key};
use std::cell::Cell;

/// The full-screen view.
pub(crate) struct Transcript {
    keymap: Keymap,
    lines: Vec<Line>,
    /// The lines' text in lower case, for the search.
    texts: Vec<String>,
    messages: usize,
    /// How many of the lines are those of finished messages.
    finished: usize,
    top: usize,
    fold: Fold,
    search: String,
    typing: bool,
    at_match: Option<usize>,
    message: Option<String>,
    stale: bool,
    /// Texts to go to when the lines are there, the most exact first.
    wanted: Vec<String>,
    /// How many lines fit when it was last shown.
    page: Cell<usize>,
}

impl Transcript {
    pub(crate) fn new(keymap: Keymap) -> Self {
        Self {
            keymap,
            lines: Vec::new(),
            texts: Vec::new(),
            messages: 0,
            finished: 0,
            top: usize::MAX,
            fold: Fold::Unfolded,
            search: String::new(),
            typing: false,
            at_match: None,
            message: None,
            stale: true,
            wanted: Vec::new(),
            page: Cell::new(1),
        }
    }

    /// Makes the lines again before they are next shown.
    pub(crate) fn invalidate(&mut self) {
        self.stale = true;
    }

    /// Whether the lines must be made before the view is drawn.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale
    }

    /// Makes the lines from the conversation: adds what was finished since the last time, and makes what is
    /// going on anew, with the open question in full at the end.
    pub(crate) fn refresh(
        &mut self,
        conversation: &Conversation,
        question: Option<Vec<Line>>,
        look: Look<'_>,
    ) {
        if self.stale || conversation.cells.len() < self.messages {
            self.stale = false;
            self.messages = 0;
            self.finished = 0;
        }
        self.lines.truncate(self.finished);
        for cell in &conversation.cells[self.messages..] {
            if !self.lines.is_empty() {
                self.lines.push(Line::empty());
            }
            for line in cell::lines(cell, look, self.fold, conversation.cwd()) {
                self.lines.extend(wrap(&line, look.columns, 0));
            }
            let calls: &[Call] = match cell {
                ConversationCell::Call(call) => std::slice::from_ref(call),
                _ => &[],
            };
            for call in calls {
                self.lines
                    .extend(conversation.agent_lines(&call.id, look, self.fold));
            }
        }
        self.messages = conversation.cells.len();
        self.finished = self.lines.len();
        let mut live = conversation.whole_live(look);
        for call in conversation.running() {
            live.extend(conversation.agent_lines(&call.id, look, self.fold));
        }
        live.extend(question.unwrap_or_default());
        if !live.is_empty() {
            self.lines.push(Line::empty());
            for line in &live {
                self.lines.extend(wrap(line, look.columns, 0));
            }
        }
        self.texts.truncate(self.finished.min(self.texts.len()));
        for line in &self.lines[self.texts.len()..] {
            self.texts.push(line.text().to_lowercase());
        }
        self.find_wanted();
    }

    /// Goes to the first of these texts that there is, as soon as the lines are made.
    pub(crate) fn look_for(&mut self, texts: Vec<String>) {
        self.wanted = texts;
    }

    fn find_wanted(&mut self) {
        for text in std::mem::take(&mut self.wanted) {
            let needle = text.to_lowercase();
            if self.texts.iter().any(|line| line.contains(&needle)) {
                self.search = text;
                self.at_match = None;
                self.top = 0;
                self.find(true);
                return;
            }
        }
    }

    /// How many lines contain the search text.
    fn matches(&self) -> usize {
        let needle = self.search.to_lowercase();
        if needle.is_empty() {
            return 0;
        }
        let found = self.texts.iter().filter(|text| text.contains(&needle));
        found.count()
    }

    /// Shows a message in the last line until the next key.
    pub(crate) fn say(&mut self, message: &str) {
        self.message = Some(message.to_owned());
    }

    fn last_top(&self) -> usize {
        self.lines.len().saturating_sub(self.page.get())
    }

    fn search_key(&mut self, key: Key) {
        match key.code {
            Code::Esc => {
                self.typing = false;
                self.search.clear();
            }
            Code::Enter => {
                self.typing = false;
                self.find(true);
            }
            Code::Backspace => {
                self.search.pop();
            }
            Code::Char(c) if !key.ctrl && !key.alt => self.search.push(c),
            _ => {}
        }
    }

    /// Goes to the next line that contains the search text.
    fn find(&mut self, forward: bool) {
        if self.search.is_empty() {
            return;
        }
        let needle = self.search.to_lowercase();
        let count = self.texts.len();
        let top = self.top.min(self.last_top());
        let from = self.at_match.unwrap_or_else(|| {
            if forward {
                top.min(count).wrapping_sub(1)
            } else {
                top.min(count)
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
                self.top = index.saturating_sub(self.page.get() / 3);
                let before = self.texts[..=index]
                    .iter()
                    .filter(|text| text.contains(&needle))
                    .count();
                self.message = Some(format!(
                    "line {before} of {} with '{}' · n N next, previous",
                    self.matches(),
                    self.search
                ));
            }
            None => self.message = Some(format!("no match for '{}'", self.search)),
        }
    }

    fn foot(&self, look: Look<'_>, top: usize) -> Line {
        let theme = look.theme;
        if self.typing {
            let found = counted(self.matches(), "line");
            return Line::styled("/", theme.accent)
                .with(self.search.clone(), Style::PLAIN)
                .with(format!("   {found}"), theme.muted);
        }
        if let Some(message) = &self.message {
            return Line::styled(message.clone(), theme.warning);
        }
        let position = if self.lines.len() <= self.page.get() {
            "all".to_owned()
        } else {
            format!("{}%", top * 100 / self.last_top().max(1))
        };
        let key = |action| look.keys.key(Context::Transcript, action);
        let keys = |actions: &[Action], what: &str| {
            let keys: Vec<String> = actions.iter().filter_map(|action| key(*action)).collect();
            (!keys.is_empty()).then(|| format!("{} {what}", keys.join(" ")).trim_end().to_owned())
        };
        let text: Vec<String> = [
            Some(counted(self.messages, "message")),
            Some(position),
            keys(&[Action::Close], "back"),
            keys(
                &[Action::Up, Action::Down, Action::PageDown, Action::PageUp],
                "",
            ),
            keys(&[Action::TextStart, Action::TextEnd], ""),
            keys(&[Action::Search], "search"),
            keys(&[Action::SearchNext, Action::SearchPrevious], ""),
            keys(&[Action::ExpandAll], "fold"),
            keys(&[Action::Copy], "copy"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let text = text.join(" · ");
        Line::styled(truncate(&text, look.columns.saturating_sub(1)), theme.muted)
    }
}

impl Layer for Transcript {
    fn level(&self) -> Level {
        Level::FullScreen
    }

    fn key(&mut self, key: Key) -> Outcome {
        self.message = None;
        if self.typing {
            self.search_key(key);
            return Outcome::Stay;
        }
        let KeyMatch::Action(action) = self.keymap.find(Context::Transcript, &[key]) else {
            return Outcome::Stay;
        };
        let page = self.page.get();
        let last = self.last_top();
        let top = self.top.min(last);
        match action {
            Action::Close | Action::Cancel | Action::Transcript => return Outcome::Cancelled,
            Action::Up => self.top = top.saturating_sub(1),
            Action::Down => self.top = following(top + 1, last),
            Action::PageUp => self.top = top.saturating_sub(page),
            Action::PageDown => self.top = following(top + page, last),
            Action::TextStart => self.top = 0,
            Action::TextEnd => self.top = usize::MAX,
            Action::Search => {
                self.typing = true;
                self.search.clear();
                self.at_match = None;
            }
            Action::SearchNext => self.find(true),
            Action::SearchPrevious => self.find(false),
            Action::ExpandAll => {
                self.fold = if self.fold == Fold::Folded {
                    Fold::Unfolded
                } else {
                    Fold::Folded
                };
                self.stale = true;
            }
            Action::Copy | Action::Suspend => return Outcome::Do(action),
            _ => {}
        }
        Outcome::Stay
    }

    fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor) {
        let page = rows.saturating_sub(2).max(1);
        self.page.set(page);
        let top = self.top.min(self.last_top());
        let mut out: Vec<Line> = self.lines.iter().skip(top).take(page).cloned().collect();
        if !self.search.is_empty() {
            let needle = self.search.to_lowercase();
            for line in &mut out {
                *line = marked(line, &needle);
            }
        }
        out.resize(page, Line::empty());
        out.push(Line::styled(
            "─".repeat(look.columns.saturating_sub(1)),
            look.theme.muted,
        ));
        out.push(self.foot(look, top));
        let cursor = Cursor {
            row: out.len() - 1,
            column: width(&self.search) + 1,
            visible: self.typing,
        };
        (out, cursor)
    }
}

/// The first line to show. At the end, what comes is followed.
fn following(top: usize, last: usize) -> usize {
    if top >= last { usize::MAX } else { top }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::theme::Theme;
    use crate::terminal::key::keys;
    use std::path::Path;

    #[test]
    fn the_end_is_shown_first_and_a_search_goes_to_what_it_finds() {
        let theme = Theme::built_in("dark", false);
        let look = Look {
            theme: &theme,
            columns: 80,
            keys: Keymap::standard(),
        };
        let mut conversation = Conversation::new(Path::new("/p"));
        for number in 1..=20 {
            conversation.push(ConversationCell::Remark(format!("remark {number}")), look);
        }
        let mut transcript = Transcript::new(Keymap::default());
        transcript.refresh(&conversation, None, look);
        let shown = |transcript: &Transcript| -> Vec<String> {
            let (lines, _) = transcript.view(look, 7);
            lines.iter().map(Line::text).collect()
        };
        assert!(shown(&transcript).contains(&"remark 20".to_owned()));
        conversation.push(ConversationCell::Remark("remark 21".to_owned()), look);
        transcript.refresh(&conversation, None, look);
        assert!(shown(&transcript).contains(&"remark 21".to_owned()));
        for key in keys("/remark 3\n") {
            let _ = shown(&transcript);
            assert_eq!(transcript.key(key), Outcome::Stay);
        }
        assert!(shown(&transcript).contains(&"remark 3".to_owned()));
        assert!(
            shown(&transcript)[6].starts_with("line 1 of 1 with 'remark 3'"),
            "{:?}",
            shown(&transcript)
        );
        assert_eq!(transcript.key(keys("q")[0]), Outcome::Cancelled);
    }
}
