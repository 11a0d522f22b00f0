//! How skills are told to the model: a line each, within a share of the window.

use super::Skill;
use crate::source::ExtensionSource;
use std::borrow::Cow;

/// The share of the window that the listing may take: one in this many.
pub const SHARE_OF_WINDOW: u64 = 100;
/// Characters of a description that are ever shown.
pub const LONGEST_DESCRIPTION: usize = 250;
/// How many characters a token has, for the purpose of the budget.
const CHARACTERS_PER_TOKEN: u64 = 4;
/// A description shorter than this says nothing; then only names are listed.
const SHORTEST_DESCRIPTION: usize = 20;

/// The characters that a listing may have for a window of so many tokens.
#[must_use]
pub fn budget(window_tokens: u64) -> usize {
    usize::try_from(window_tokens * CHARACTERS_PER_TOKEN / SHARE_OF_WINDOW).unwrap_or(usize::MAX)
}

/// One line per skill, within `budget` characters. When they don't fit, descriptions are shortened
/// evenly — those of bundled skills last — and where not even the names fit, the rest is counted.
#[must_use]
pub fn listing(skills: &[&Skill], budget: usize) -> String {
    let entries: Vec<Entry<'_>> = skills.iter().map(|skill| Entry::new(skill)).collect();
    let names: usize = entries.iter().map(Entry::name_length).sum();
    if names > budget {
        return names_only(&entries, budget);
    }
    let mut room = budget - names;
    let bundled: usize = needed(entries.iter().filter(|entry| entry.bundled), usize::MAX);
    let others: usize = needed(entries.iter().filter(|entry| !entry.bundled), usize::MAX);
    let (bundled_limit, others_limit) = if bundled + others <= room {
        (usize::MAX, usize::MAX)
    } else {
        let for_bundled = bundled.min(room);
        let others_limit = even(
            &entries
                .iter()
                .filter(|entry| !entry.bundled)
                .collect::<Vec<_>>(),
            room - for_bundled,
        );
        room -= needed(entries.iter().filter(|entry| !entry.bundled), others_limit);
        let bundled_limit = even(
            &entries
                .iter()
                .filter(|entry| entry.bundled)
                .collect::<Vec<_>>(),
            room,
        );
        (bundled_limit, others_limit)
    };
    let mut text = String::with_capacity(names + (bundled + others).min(budget - names));
    for entry in &entries {
        if !text.is_empty() {
            text.push('\n');
        }
        entry.write(
            if entry.bundled {
                bundled_limit
            } else {
                others_limit
            },
            &mut text,
        );
    }
    text
}

struct Entry<'a> {
    name: &'a str,
    description: Cow<'a, str>,
    /// How many characters the description has: asked again and again.
    characters: usize,
    bundled: bool,
}

impl<'a> Entry<'a> {
    fn new(skill: &'a Skill) -> Self {
        let description = shortened(skill.summary(), LONGEST_DESCRIPTION);
        Self {
            name: &skill.name,
            characters: characters(&description),
            description,
            bundled: skill.source == ExtensionSource::Builtin,
        }
    }

    /// `- name` and the end of the line.
    fn name_length(&self) -> usize {
        self.name.len() + 3
    }

    /// What a description of at most so many characters takes, with what stands before it.
    fn description_length(&self, limit: usize) -> usize {
        if limit < SHORTEST_DESCRIPTION {
            0
        } else {
            self.characters.min(limit) + 2
        }
    }

    /// Its line, with a description of at most so many characters.
    fn write(&self, limit: usize, text: &mut String) {
        text.push_str("- ");
        text.push_str(self.name);
        if limit >= SHORTEST_DESCRIPTION {
            text.push_str(": ");
            if self.characters <= limit {
                text.push_str(&self.description);
            } else {
                text.push_str(&shortened(Cow::Borrowed(&*self.description), limit));
            }
        }
    }
}

fn needed<'a>(entries: impl Iterator<Item = &'a Entry<'a>>, limit: usize) -> usize {
    entries.map(|entry| entry.description_length(limit)).sum()
}

/// The longest limit with which all descriptions fit: what short ones don't need is for the others.
fn even(entries: &[&Entry<'_>], room: usize) -> usize {
    let (mut low, mut high) = (0, LONGEST_DESCRIPTION);
    while low < high {
        let middle = (low + high).div_ceil(2);
        let total: usize = entries
            .iter()
            .map(|entry| entry.description_length(middle))
            .sum();
        if total <= room {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

fn names_only(entries: &[Entry<'_>], budget: usize) -> String {
    const MORE: usize = 40;
    let mut lines = Vec::new();
    let mut room = budget.saturating_sub(MORE);
    for entry in entries {
        if entry.name_length() > room {
            break;
        }
        room -= entry.name_length();
        lines.push(format!("- {}", entry.name));
    }
    let left = entries.len() - lines.len();
    if left > 0 {
        lines.push(format!("({left} more, not listed)"));
    }
    lines.join("\n")
}

/// How many characters a text has. Nearly all are one byte each.
fn characters(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

/// At most so many characters, with a sign where something was cut.
fn shortened(text: Cow<'_, str>, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit || characters(&text) <= limit {
        return text;
    }
    let mut cut: String = text.chars().take(limit.saturating_sub(1)).collect();
    cut.truncate(cut.trim_end().len());
    cut.push('…');
    Cow::Owned(cut)
}
