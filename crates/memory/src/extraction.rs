//! Finding what is worth remembering: after a turn, when enough was said since the last look, the model
//! is asked (with the same prefix) whether later sessions should know something of it.
//!
//! Its answers are proposals. They are stored beside the memory until the user accepts them, unless the
//! person chose to keep them at once. A conversation is written by many hands (files, pages,
//! servers), and what is remembered speaks in every later session: that is why the user decides.
//!
//! Background work like session notes: one at a time, bounded in time, inside the session's budgets,
//! cancelled at the end, counted as a side query. Off in print mode unless it was asked for.

use crate::store::{AutoMemory, MemoryError, Topic};
use lathe_session::paths::file_stem_of;
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Tokens of conversation that must have come since the last look.
const AFTER: u64 = 4_000;
/// Entries that one look may give.
const MOST_ENTRIES: usize = 3;
/// Characters of an entry.
const MOST_CHARACTERS: usize = 2_000;
/// Proposals that may wait.
const MOST_WAITING: usize = 20;
/// Tokens that the answer may have.
pub const MOST_TOKENS: u32 = 2_000;
/// How found memories are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extraction {
    /// Extraction is off.
    #[default]
    Off,
    /// They are proposed to the user.
    Propose,
    /// They are kept at once.
    Keep,
}

impl Extraction {
    /// By its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "off" | "0" => Some(Self::Off),
            "propose" | "1" => Some(Self::Propose),
            "keep" => Some(Self::Keep),
            _ => None,
        }
    }
}

/// When a session looks for something worth remembering.
#[derive(Debug, Default)]
pub struct Extractor {
    /// How found memories are used.
    pub mode: Extraction,
    /// Tokens of the conversation at the last look.
    seen: u64,
    /// Whether the model wrote to the memory itself since.
    wrote_itself: bool,
}

impl Extractor {
    /// Notes the files that a call of `tool` changed: what the model remembers by itself needs no second look.
    pub fn note_call(
        &mut self,
        tool: &str,
        paths: &[PathBuf],
        memory: impl FnOnce() -> AutoMemory,
    ) {
        if self.mode == Extraction::Off || tool == "Read" {
            return;
        }
        let memory = memory();
        self.wrote_itself |= paths.iter().any(|path| path.starts_with(memory.folder()));
    }

    /// Notes how many tokens the conversation has: after a compaction the count begins anew.
    pub fn note_size(&mut self, tokens: u64) {
        self.seen = self.seen.min(tokens);
    }

    /// Whether enough was said since the last look. If so, this is the next one.
    pub fn is_due(&mut self, tokens: u64) -> bool {
        if self.mode == Extraction::Off || tokens < self.seen + AFTER {
            return false;
        }
        self.seen = tokens;
        !std::mem::take(&mut self.wrote_itself)
    }
}

/// Something worth remembering.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct MemoryEntry {
    /// The topic's name.
    pub name: String,
    /// `user`, `feedback`, `project` or `reference`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// A line about it.
    #[serde(default)]
    pub description: String,
    /// The words.
    pub text: String,
}

/// The directive for the model. `None` while too many proposals wait.
#[must_use]
pub fn directive(memory: &AutoMemory) -> Option<String> {
    if memory.proposals().len() >= MOST_WAITING {
        return None;
    }
    Some(format!(
        "{}{}",
        include_str!("../prompts/extract.md"),
        known(memory)
    ))
}

/// Keeps or proposes what the model answered. Gives the notice for the user, if something is new.
#[must_use]
pub fn apply(memory: &AutoMemory, mode: Extraction, answer: &str) -> Option<String> {
    let mut names = Vec::new();
    for entry in entries(answer) {
        let kept = match mode {
            Extraction::Off => return None,
            Extraction::Propose => memory.propose(&entry),
            Extraction::Keep => memory.keep(&entry),
        };
        match kept {
            Ok(_) => names.push(entry.name),
            Err(MemoryError::Known) => {}
            Err(error) => tracing::warn!(%error, "proposals could not be saved"),
        }
    }
    if names.is_empty() {
        return None;
    }
    let list = names.join(", ");
    Some(if mode == Extraction::Keep {
        format!("Remembered for later sessions: {list} (`lathe memory list`).")
    } else {
        format!(
            "Proposed for memory: {list}. `lathe memory proposals` shows it, `lathe memory accept {}` keeps it.",
            names.join(" ")
        )
    })
}

/// The content of the memory, as text.
fn known(memory: &AutoMemory) -> String {
    let mut text = String::new();
    if let Some(index) = memory.index() {
        text.push_str(index.text.trim_end());
    }
    let list = |text: &mut String, topics: Vec<Topic>, note: &str| {
        for topic in topics {
            let _ = write!(text, "\n- {}{note}: {}", topic.name, topic.description);
        }
    };
    list(&mut text, memory.topics(), "");
    list(&mut text, memory.proposals(), " (proposed)");
    if text.is_empty() {
        text.push_str("(nothing)");
    }
    text
}

/// The entries of an answer; whatever isn't one, is too long or looks like a secret is left out.
fn entries(answer: &str) -> Vec<MemoryEntry> {
    let array = answer
        .find('[')
        .zip(answer.rfind(']'))
        .and_then(|(start, end)| answer.get(start..=end));
    let values: Vec<serde_json::Value> = array
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    values
        .into_iter()
        .filter_map(|value| MemoryEntry::deserialize(value).ok())
        .filter_map(|entry| tidy(&entry))
        .take(MOST_ENTRIES)
        .collect()
}

fn tidy(entry: &MemoryEntry) -> Option<MemoryEntry> {
    let name = file_stem_of(entry.name.trim(), 60);
    let name = name.trim_matches('-').to_lowercase();
    let text = entry.text.trim().to_owned();
    let kind = match entry.kind.as_str() {
        known @ ("user" | "feedback" | "project" | "reference") => known,
        _ => "project",
    };
    let description: String = entry
        .description
        .lines()
        .next()
        .unwrap_or_default()
        .trim()
        .chars()
        .take(150)
        .collect();
    let fits = !name.is_empty() && !text.is_empty() && text.chars().count() <= MOST_CHARACTERS;
    let secret = [&name, &text, &description]
        .into_iter()
        .any(|part| looks_secret(part));
    (fits && !secret).then(|| MemoryEntry {
        name,
        kind: kind.to_owned(),
        description,
        text,
    })
}

/// Whether a text holds something that looks like a key, a token or a password.
fn looks_secret(text: &str) -> bool {
    const BEGINNINGS: [&str; 13] = [
        "sk-",
        "ghp_",
        "gho_",
        "ghs_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "AKIA",
        "ASIA",
        "AIza",
        "eyJ",
        "npm_",
    ];
    const NAMES: [&str; 6] = [
        "password", "passwort", "secret", "token", "api_key", "apikey",
    ];
    if text.contains("-----BEGIN") {
        return true;
    }
    let words: Vec<&str> = text
        .split(|letter: char| letter.is_whitespace() || "\"'`,;()<>{}".contains(letter))
        .filter(|word| !word.is_empty())
        .collect();
    words.iter().any(|word| {
        let value = word.rsplit_once(['=', ':']);
        let named = value.is_some_and(|(name, value)| {
            let name = name.to_lowercase();
            value.chars().count() >= 6 && NAMES.iter().any(|known| name.ends_with(known))
        });
        let bare = value.map_or(*word, |(_, value)| value);
        let begins = BEGINNINGS
            .iter()
            .any(|beginning| bare.starts_with(beginning) && bare.len() >= beginning.len() + 12);
        named || begins || is_random(bare)
    })
}

/// Long, of letters in both cases and digits, and no path or name that the user would write.
fn is_random(word: &str) -> bool {
    let has = |kind: fn(&char) -> bool| word.chars().any(|letter| kind(&letter));
    word.len() >= 32
        && word
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "+/=_-".contains(letter))
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
        && word.chars().filter(char::is_ascii_digit).count() >= 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_from_whatever_stands_around_them() {
        let answer = "Here:\n```json\n[{\"name\": \"Code Style!\", \"type\": \"feedback\", \"description\": \"tabs\\nmore\", \"text\": \" They want tabs. \"}, {\"text\": 7}, 3]\n```";
        let found = entries(answer);
        assert_eq!(
            found,
            [MemoryEntry {
                name: "code-style".into(),
                kind: "feedback".into(),
                description: "tabs".into(),
                text: "They want tabs.".into(),
            }]
        );
        for nothing in ["[]", "nothing", "", "[", "][", "[{}]"] {
            assert_eq!(entries(nothing), [], "{nothing:?}");
        }
        let many = serde_json::json!([
            {"name": "a", "text": "1"}, {"name": "b", "text": "2"},
            {"name": "c", "text": "3"}, {"name": "d", "text": "4"},
        ]);
        assert_eq!(entries(&many.to_string()).len(), MOST_ENTRIES);
    }

    #[test]
    fn what_looks_like_a_secret_is_never_remembered() {
        for secret in [
            "the key is sk-ant-REDACTED",
            "use ghp_0123456789abcdefghij to push",
            "DB_PASSWORD=correct-horse",
            "api_key:abcdef123",
            "-----BEGIN OPENSSH PRIVATE KEY-----",
            "the value aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3x is needed",
        ] {
            assert!(looks_secret(secret), "{secret}");
        }
        for plain in [
            "They want tabs, not blanks.",
            "Releases are made from crates/engine/src/some_long_module_name.rs on Fridays",
            "The token count is shown; the password field stays empty.",
            "see https://example.org/wiki/How-we-work",
            "commit 0123456789abcdef0123456789abcdef01234567 broke it",
        ] {
            assert!(!looks_secret(plain), "{plain}");
        }
        assert_eq!(
            entries(r#"[{"name": "key", "text": "it is sk-ant-0123456789abcdefgh"}]"#),
            []
        );
    }
}
