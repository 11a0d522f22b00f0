//! Completion: slash commands at the start of the prompt, files after `@`.

use crate::markdown::Look;
use crate::style::{Line, Style};
use crate::text::{truncate, truncate_line, width};
use std::sync::Arc;

/// What is being completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A command; the word after the slash.
    Command(String),
    /// A file; the word after the at-sign.
    File(String),
}

/// A place where something can be completed: what, and the bytes that it replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) wanted: Wanted,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Looks whether the cursor stands where something can be completed.
pub(crate) fn place(text: &str, cursor: usize) -> Option<Place> {
    let before = &text[..cursor];
    if let Some(word) = before.strip_prefix('/')
        && !word.contains(char::is_whitespace)
        && !word.contains('/')
    {
        return Some(Place {
            wanted: Wanted::Command(word.to_owned()),
            start: 0,
            end: cursor,
        });
    }
    let at = before.rfind('@')?;
    let word = &before[at + 1..];
    let fresh = before[..at]
        .chars()
        .next_back()
        .is_none_or(|c| c.is_whitespace() || c == '(');
    (fresh && !word.contains(char::is_whitespace)).then(|| Place {
        wanted: Wanted::File(word.to_owned()),
        start: at,
        end: cursor,
    })
}

/// One offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) insert: String,
    pub(crate) label: String,
    pub(crate) detail: String,
}

/// What is offered.
#[derive(Debug, Clone)]
pub(crate) struct Completion {
    pub(crate) place: Place,
    pub(crate) offers: Vec<Offer>,
    pub(crate) selected: usize,
}

/// Rows of offers that are shown.
const ROWS: usize = 8;

impl Completion {
    pub(crate) fn next(&mut self, back: bool) {
        let count = self.offers.len().max(1);
        self.selected = (self.selected + if back { count - 1 } else { 1 }) % count;
    }

    pub(crate) fn chosen(&self) -> Option<&Offer> {
        self.offers.get(self.selected)
    }

    pub(crate) fn view(&self, look: Look<'_>, rows: usize) -> Vec<Line> {
        let rows = rows.clamp(1, ROWS);
        let first = self
            .selected
            .saturating_sub(rows / 2)
            .min(self.offers.len().saturating_sub(rows));
        let shown = self.offers.iter().enumerate().skip(first).take(rows);
        let label_width = shown
            .clone()
            .map(|(_, offer)| width(&offer.label))
            .max()
            .unwrap_or(0);
        shown
            .map(|(index, offer)| {
                let chosen = index == self.selected;
                let style = if chosen {
                    look.theme.selected
                } else {
                    Style::PLAIN
                };
                let mut line = Line::styled(if chosen { "❯ " } else { "  " }, look.theme.selected);
                line.push(
                    truncate(&offer.label, look.columns.saturating_sub(4)),
                    style,
                );
                if !offer.detail.is_empty() {
                    line.push(
                        " ".repeat(label_width.saturating_sub(width(&offer.label)) + 2),
                        Style::PLAIN,
                    );
                    line.push(offer.detail.clone(), look.theme.muted);
                }
                truncate_line(&line, look.columns)
            })
            .collect()
    }
}

/// The files of a project.
pub(crate) type FileIndex = Arc<Vec<String>>;

/// The files that fit a query, best first.
pub(crate) fn find_files(index: &[String], query: &str, limit: usize) -> Vec<String> {
    if query.is_empty() {
        let mut shallow: Vec<&String> = index
            .iter()
            .filter(|path| path.trim_end_matches('/').matches('/').count() == 0)
            .collect();
        shallow.sort();
        return shallow.into_iter().take(limit).cloned().collect();
    }
    crate::fuzzy::rank(query, index.iter().map(String::as_str), limit)
        .into_iter()
        .filter_map(|at| index.get(at).cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_complete_at_the_start_and_files_after_an_at_sign() {
        let wanted = |text: &str| place(text, text.len()).map(|place| (place.wanted, place.start));
        assert_eq!(wanted("/he"), Some((Wanted::Command("he".into()), 0)));
        assert_eq!(wanted("/help x"), None);
        assert_eq!(wanted("/tmp/x"), None);
        assert_eq!(
            wanted("see @src/m"),
            Some((Wanted::File("src/m".into()), 4))
        );
        assert_eq!(wanted("@"), Some((Wanted::File(String::new()), 0)));
        assert_eq!(wanted("a@b"), None);
        assert_eq!(wanted("@a b"), None);
    }

    #[test]
    fn an_empty_word_offers_what_is_at_the_top() {
        let files: Vec<String> = ["src/", "src/main.rs", "README.md"]
            .map(str::to_owned)
            .into();
        assert_eq!(find_files(&files, "", 5), ["README.md", "src/"]);
        assert_eq!(find_files(&files, "mai", 5), ["src/main.rs"]);
    }
}
