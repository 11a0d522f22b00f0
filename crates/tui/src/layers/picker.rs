//! A list to choose from, with a filter that is typed.

use super::{Layer, Outcome, Purpose};
use crate::prompt::dialog_keys::DialogContext;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, one_line, truncate, truncate_line, width, wrap};
use crate::terminal::inline_screen::Cursor;
use crate::terminal::key::{Code, Key};

/// Something to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) value: String,
    pub(crate) label: String,
    pub(crate) detail: String,
    /// Shown below the list while the item is selected.
    pub(crate) preview: Vec<String>,
}

impl Item {
    pub(crate) fn new(
        value: impl Into<String>,
        label: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            value: value.into(),
            label: label.into(),
            detail: detail.into(),
            preview: Vec::new(),
        }
    }
}

/// A further choice that ← and → change.
#[derive(Debug, Clone)]
struct Dial {
    name: &'static str,
    values: &'static [&'static str],
    at: usize,
    /// Where it was when the list was opened.
    first: usize,
}

/// A list to choose from.
#[derive(Debug, Clone)]
pub(crate) struct Picker {
    pub(crate) purpose: Purpose,
    pub(crate) title: String,
    pub(crate) explanation: Vec<Line>,
    items: Vec<Item>,
    filter: String,
    filterable: bool,
    selected: usize,
    marked: Option<String>,
    /// Further keys: what they are and what they do.
    extra: Vec<(char, &'static str)>,
    /// Whether it came up without a key: then words that are typed are not meant for it.
    unasked: bool,
    armed: bool,
    dial: Option<Dial>,
}

/// How many columns a detail needs at least: less than that says nothing.
const LEAST_DETAIL: usize = 4;

impl Picker {
    pub(crate) fn new(purpose: Purpose, title: impl Into<String>, items: Vec<Item>) -> Self {
        Self {
            purpose,
            title: title.into(),
            explanation: Vec::new(),
            items,
            filter: String::new(),
            filterable: false,
            selected: 0,
            marked: None,
            extra: Vec::new(),
            unasked: false,
            armed: true,
            dial: None,
        }
    }

    /// It comes up without a key; a user who is typing continues typing.
    pub(crate) fn unasked(mut self, typing: bool) -> Self {
        self.unasked = true;
        self.armed = !typing;
        self
    }

    pub(crate) fn explained(mut self, lines: Vec<Line>) -> Self {
        self.explanation = lines;
        self
    }

    pub(crate) fn filterable(mut self) -> Self {
        self.filterable = true;
        self
    }

    /// Marks the current item and selects it.
    pub(crate) fn marked(mut self, value: &str) -> Self {
        self.selected = self
            .items
            .iter()
            .position(|item| item.value == value)
            .unwrap_or(0);
        self.marked = Some(value.to_owned());
        self
    }

    /// Selects an item.
    pub(crate) fn at(mut self, value: &str) -> Self {
        self.selected = self
            .items
            .iter()
            .position(|item| item.value == value)
            .unwrap_or(0);
        self
    }

    /// A key that does something else with the selected item.
    pub(crate) fn with_key(mut self, key: char, what: &'static str) -> Self {
        self.extra.push((key, what));
        self
    }

    /// A further choice that ← and → change.
    pub(crate) fn with_dial(
        mut self,
        name: &'static str,
        values: &'static [&'static str],
        now: &str,
    ) -> Self {
        let at = values.iter().position(|value| *value == now).unwrap_or(0);
        self.dial = Some(Dial {
            name,
            values,
            at,
            first: at,
        });
        self
    }

    /// The further choice, if it was changed.
    pub(crate) fn dialled(&self) -> Option<&'static str> {
        let dial = self.dial.as_ref().filter(|dial| dial.at != dial.first)?;
        dial.values.get(dial.at).copied()
    }

    fn dial_line(&self, look: Look<'_>) -> Option<Line> {
        let dial = self.dial.as_ref()?;
        let mut line = Line::styled(format!("  {} ", dial.name), look.theme.muted);
        for (index, value) in dial.values.iter().enumerate() {
            if index == dial.at {
                line.push(format!("‹{value}›"), look.theme.selected);
            } else {
                line.push(format!(" {value} "), look.theme.muted);
            }
        }
        // Where not all of it fits, at least the value does.
        if line.width() > look.columns {
            let value = dial.values.get(dial.at).copied().unwrap_or_default();
            line = Line::styled(format!("  {} ", dial.name), look.theme.muted)
                .with(format!("‹{value}›"), look.theme.selected);
        }
        Some(line)
    }

    /// Whether a key does something of its own here.
    fn offers(&self, key: char) -> bool {
        self.extra.iter().any(|(extra, _)| *extra == key)
    }

    /// The items that fit the filter.
    fn visible(&self) -> Vec<&Item> {
        if self.filter.is_empty() {
            return self.items.iter().collect();
        }
        let texts: Vec<String> = self
            .items
            .iter()
            .map(|item| format!("{} {}", item.label, item.detail))
            .collect();
        crate::prompt::fuzzy::rank(&self.filter, texts.iter().map(String::as_str), 500)
            .into_iter()
            .filter_map(|index| self.items.get(index))
            .collect()
    }

    /// The text that filters the list.
    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    fn resumes(&self) -> bool {
        self.purpose == Purpose::Resume
    }

    /// The selected item's value, for a live preview.
    pub(crate) fn selected(&self) -> Option<String> {
        self.visible()
            .get(self.selected)
            .map(|item| item.value.clone())
    }

    /// The key hints, in as many rows as they take.
    fn hints(&self, look: Look<'_>, count: usize, rows: usize) -> Vec<Line> {
        let back = if matches!(self.purpose, Purpose::Trust | Purpose::NoKey) {
            "esc quit"
        } else {
            "esc back"
        };
        let enter = match self.purpose {
            Purpose::Contents => "enter show",
            _ => "enter choose",
        };
        let mut hints = vec![enter.to_owned(), back.to_owned()];
        if self.items.is_empty() {
            hints.remove(0);
        }
        hints.extend(self.dial.as_ref().map(|dial| format!("← → {}", dial.name)));
        for (key, what) in &self.extra {
            let key = if self.filterable {
                format!("ctrl+{key}")
            } else {
                key.to_string()
            };
            hints.push(format!("{key} {what}"));
        }
        // Where the list may not fit, how far one is in it.
        if count + 6 > rows {
            hints.push(format!("{}/{count}", (self.selected + 1).min(count)));
        }
        let mut out: Vec<String> = Vec::new();
        for hint in hints {
            let hint = look.keys.dialog_hint(self.contexts(), &hint);
            if hint.is_empty() {
                continue;
            }
            match out.last_mut() {
                Some(line) if width(line) + width(&hint) + 3 <= look.columns => {
                    line.push_str(" · ");
                    line.push_str(&hint);
                }
                _ => out.push(hint),
            }
        }
        out.into_iter()
            .map(|line| Line::styled(truncate(&line, look.columns), look.theme.muted))
            .collect()
    }
}

impl Layer for Picker {
    fn paste(&mut self, text: &str) {
        if self.filterable {
            self.filter
                .push_str(text.lines().next().unwrap_or_default());
            self.selected = 0;
        }
    }

    fn key(&mut self, key: Key) -> Outcome {
        let count = self.visible().len();
        match key.code {
            Code::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.selected = 0;
            }
            Code::Esc => return Outcome::Cancelled,
            Code::Enter => {
                return match self.visible().get(self.selected) {
                    Some(item) => Outcome::Chosen(item.value.clone()),
                    None => Outcome::Stay,
                };
            }
            Code::Up => {
                self.selected = if self.selected == 0 {
                    count.saturating_sub(1)
                } else {
                    self.selected - 1
                }
            }
            Code::Down => {
                self.selected = if self.selected + 1 >= count {
                    0
                } else {
                    self.selected + 1
                }
            }
            Code::Left | Code::Right if self.dial.is_some() => {
                if let Some(dial) = &mut self.dial {
                    dial.at = match key.code {
                        Code::Left => dial.at.saturating_sub(1),
                        _ => (dial.at + 1).min(dial.values.len().saturating_sub(1)),
                    };
                }
            }
            Code::PageUp => self.selected = self.selected.saturating_sub(10),
            Code::PageDown => self.selected = (self.selected + 10).min(count.saturating_sub(1)),
            Code::Home => self.selected = 0,
            Code::End => self.selected = count.saturating_sub(1),
            Code::Char('p') if key.ctrl => self.selected = self.selected.saturating_sub(1),
            Code::Char('n') if key.ctrl && !self.offers('n') => {
                self.selected = (self.selected + 1).min(count.saturating_sub(1));
            }
            Code::Char(c) if (key.ctrl || !self.filterable) && self.offers(c) => {
                let value = self.selected();
                // What nothing fits in a list may still be found elsewhere.
                if let Some(value) = value.or_else(|| self.resumes().then(String::new)) {
                    return Outcome::Other { value, key: c };
                }
            }
            Code::Backspace => {
                self.filter.pop();
                self.selected = 0;
            }
            Code::Char(c) if !key.ctrl && !key.alt && self.filterable => {
                self.filter.push(c);
                self.selected = 0;
            }
            Code::Char(c) if self.unasked && !key.ctrl && !key.alt && !c.is_ascii_digit() => {
                return Outcome::Ignored;
            }
            Code::Char(c) if !key.ctrl && !key.alt => match c {
                'k' => self.selected = self.selected.saturating_sub(1),
                'j' => self.selected = (self.selected + 1).min(count.saturating_sub(1)),
                c => {
                    if let Some(number) = c.to_digit(10).filter(|number| *number > 0)
                        && let Some(item) = self.items.get(number as usize - 1)
                    {
                        return Outcome::Chosen(item.value.clone());
                    }
                }
            },
            _ => {}
        }
        Outcome::Stay
    }

    fn view(&self, look: Look<'_>, rows: usize) -> (Vec<Line>, Cursor) {
        let theme = look.theme;
        let mut out = wrap(
            &Line::styled(self.title.clone(), theme.heading),
            look.columns,
            0,
        );
        let mut cursor = Cursor::default();
        for line in &self.explanation {
            out.extend(wrap(line, look.columns, 2));
        }
        if self.filterable && !self.items.is_empty() {
            out.push(Line::styled("search: ", theme.muted).with(self.filter.clone(), Style::PLAIN));
            cursor = Cursor {
                row: out.len() - 1,
                column: (8 + width(&self.filter)).min(look.columns.saturating_sub(1)),
                visible: true,
            };
        }
        let visible = self.visible();
        let mut hints = self.hints(look, visible.len(), rows);
        if let Some(dial) = self.dial_line(look) {
            hints.insert(0, dial);
        }
        let preview: &[String] = visible.get(self.selected).map_or(&[], |item| &item.preview);
        let preview_rows = preview.len().min(6);
        let room = rows
            .saturating_sub(
                out.len() + 1 + hints.len() + preview_rows + usize::from(preview_rows > 0),
            )
            .max(3);
        let first = self
            .selected
            .saturating_sub(room.saturating_sub(1) / 2)
            .min(visible.len().saturating_sub(room));
        let label_width = visible
            .iter()
            .map(|item| {
                let mark = self.marked.as_deref() == Some(&item.value);
                width(&item.label) + if mark { 2 } else { 0 }
            })
            .max()
            .unwrap_or(0)
            .min(look.columns * 3 / 5);
        for (index, item) in visible.iter().enumerate().skip(first).take(room) {
            let chosen = index == self.selected;
            let mut line = if chosen {
                Line::styled("❯ ", theme.selected)
            } else {
                Line::plain("  ")
            };
            if !self.filterable && index < 9 && self.extra.is_empty() {
                line.push(format!("{}. ", index + 1), theme.muted);
            }
            let label = truncate(
                &clean(&item.label),
                look.columns.saturating_sub(line.width()),
            );
            let mut padding = label_width.saturating_sub(width(&label));
            line.push(label, if chosen { theme.selected } else { Style::PLAIN });
            if self.marked.as_deref() == Some(&item.value) {
                line.push(" ✓", theme.success);
                padding = padding.saturating_sub(2);
            }
            let fits = line.width() + padding + 2 + LEAST_DETAIL <= look.columns;
            if !item.detail.is_empty() && fits {
                line.push(" ".repeat(padding + 2), Style::PLAIN);
                line.push(one_line(&clean(&item.detail)), theme.muted);
            }
            out.push(truncate_line(&line, look.columns));
        }
        if visible.is_empty() && !self.items.is_empty() {
            out.push(Line::styled("  No matches", theme.muted));
        }
        if preview_rows > 0 {
            out.push(Line::empty());
            for line in preview.iter().take(preview_rows) {
                out.push(Line::styled(
                    truncate(&format!("  {}", clean(line)), look.columns),
                    theme.muted,
                ));
            }
        }
        out.extend(hints);
        (out, cursor)
    }

    fn contexts(&self) -> &'static [DialogContext] {
        use DialogContext::{History, List, Model, Plugins, Question, Rewind, Settings, Theme};
        match self.purpose {
            Purpose::Config | Purpose::ConfigValue { .. } => &[Settings, List],
            Purpose::Theme => &[Theme, List],
            Purpose::Model | Purpose::Effort => &[Model, List],
            Purpose::History => &[History, List],
            Purpose::RewindTo | Purpose::RewindWhat { .. } => &[Rewind, List],
            Purpose::Plugins
            | Purpose::Plugin { .. }
            | Purpose::PluginInstall
            | Purpose::PluginConfirm
            | Purpose::Marketplaces
            | Purpose::Marketplace { .. } => &[Plugins, List],
            Purpose::Trust | Purpose::Leave | Purpose::ModelSwitch { .. } => &[Question, List],
            _ => &[List],
        }
    }

    fn takes_text(&self) -> bool {
        self.filterable
    }

    fn purpose(&self) -> Option<&Purpose> {
        Some(&self.purpose)
    }

    fn armed(&self) -> bool {
        self.armed
    }

    fn arm(&mut self, armed: bool) {
        self.armed = armed;
    }
}
