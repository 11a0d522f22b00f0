//! The listing of skills for the model: one line each, within a share of the context window.

use super::Skill;
use crate::source::ExtensionSource;
use std::borrow::Cow;

/// The listing may take one in this many tokens of the context window.
pub const SHARE_OF_WINDOW: u64 = 100;
/// The maximum length of a description in the listing, however much room there is.
pub const LONGEST_DESCRIPTION: usize = 1_536;
/// The assumed length of a token.
const CHARACTERS_PER_TOKEN: u64 = 4;
/// Descriptions are not cut below this length; only names are listed instead.
const SHORTEST_DESCRIPTION: usize = 20;

/// The maximum length of a listing in characters.
#[must_use]
pub fn budget(window_tokens: u64) -> usize {
    usize::try_from(window_tokens * CHARACTERS_PER_TOKEN / SHARE_OF_WINDOW).unwrap_or(usize::MAX)
}

/// One line per skill, within `budget` characters. If they don't fit, descriptions are shortened
/// evenly, those of built-in skills last; if not even the names fit, the number of the others is
/// given.
#[must_use]
pub fn listing(skills: &[&Skill], budget: usize) -> String {
    let entries: Vec<ListedSkill<'_>> =
        skills.iter().map(|skill| ListedSkill::new(skill)).collect();
    let names: usize = entries.iter().map(ListedSkill::name_length).sum();
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

struct ListedSkill<'a> {
    name: &'a str,
    description: Cow<'a, str>,
    /// The length of the description in characters.
    characters: usize,
    bundled: bool,
}

impl<'a> ListedSkill<'a> {
    fn new(skill: &'a Skill) -> Self {
        let description = shortened(skill.summary(), LONGEST_DESCRIPTION);
        Self {
            name: &skill.name,
            characters: characters(&description),
            description,
            bundled: skill.source == ExtensionSource::Builtin,
        }
    }

    /// The length of `- name` and a line break.
    fn name_length(&self) -> usize {
        self.name.len() + 3
    }

    /// The length of the description, limited, with its separator.
    fn description_length(&self, limit: usize) -> usize {
        if limit < SHORTEST_DESCRIPTION || self.description.is_empty() {
            0
        } else {
            self.characters.min(limit) + 2
        }
    }

    /// Writes the line with a limited description.
    fn write(&self, limit: usize, text: &mut String) {
        text.push_str("- ");
        text.push_str(self.name);
        if limit >= SHORTEST_DESCRIPTION && !self.description.is_empty() {
            text.push_str(": ");
            if self.characters <= limit {
                text.push_str(&self.description);
            } else {
                text.push_str(&shortened(Cow::Borrowed(&*self.description), limit));
            }
        }
    }
}

fn needed<'a>(entries: impl Iterator<Item = &'a ListedSkill<'a>>, limit: usize) -> usize {
    entries.map(|entry| entry.description_length(limit)).sum()
}

/// The highest limit at which all descriptions fit: short ones leave their room to others.
fn even(entries: &[&ListedSkill<'_>], room: usize) -> usize {
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

fn names_only(entries: &[ListedSkill<'_>], budget: usize) -> String {
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

/// The number of characters. Nearly all texts are ASCII.
fn characters(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

/// Cuts a text to a number of characters, with an ellipsis.
fn shortened(text: Cow<'_, str>, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit || characters(&text) <= limit {
        return text;
    }
    let mut cut: String = text.chars().take(limit.saturating_sub(1)).collect();
    cut.truncate(cut.trim_end().len());
    cut.push('…');
    Cow::Owned(cut)
}
