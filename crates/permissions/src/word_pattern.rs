//! Command patterns that are compared word by word: `git -C :* status:*`, `RUST_LOG=* cargo test:*`,
//! `bash -l -c "go test*"`. A star stays within its word, so that what it stands for can't become an option or
//! another command.

use crate::pattern::{TextPattern, split_words};

/// A command by its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordPatterns {
    words: Vec<WordPattern>,
    /// Whether any words may follow.
    open: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum WordPattern {
    Fixed(String),
    /// One word that is no option.
    Any,
    Text(TextPattern),
    /// A text with blanks, which a program runs as a command.
    Command(TextPattern),
}

impl WordPatterns {
    /// Reads a content without its final `:*`, if it is one that is compared by words.
    pub(crate) fn read(content: &str, open: bool) -> Option<Self> {
        let words = split_words(content)?;
        let any = words.iter().any(|word| word == ":*");
        let runs_text = words.iter().any(|word| is_command_with_star(word));
        let assigns = words
            .iter()
            .any(|word| is_assignment(word) && has_star(word));
        if !any && !runs_text && !assigns {
            return None;
        }
        let words = words.into_iter().map(|word| match word.as_str() {
            ":*" | "*" => WordPattern::Any,
            text if is_command_with_star(text) => WordPattern::Command(TextPattern::new(text)),
            text if has_star(text) => WordPattern::Text(TextPattern::new(text)),
            _ => WordPattern::Fixed(word),
        });
        Some(Self {
            words: words.collect(),
            open,
        })
    }

    /// Whether words match.
    pub(crate) fn matches(&self, words: &[Option<&str>]) -> bool {
        let fits = if self.open {
            words.len() >= self.words.len()
        } else {
            words.len() == self.words.len()
        };
        fits && self.words.iter().zip(words).all(|(pattern, word)| {
            word.is_some_and(|word| match pattern {
                WordPattern::Fixed(wanted) => wanted == word,
                WordPattern::Any => !word.starts_with('-'),
                WordPattern::Text(text) | WordPattern::Command(text) => text.matches(word),
            })
        })
    }

    /// Whether words that match may be granted: what a star stands for in a text that a program runs is
    /// plain words, so that one command stays one command.
    pub(crate) fn grants(&self, words: &[Option<&str>]) -> bool {
        self.matches(words)
            && self.words.iter().zip(words).all(|(pattern, word)| {
                !matches!(pattern, WordPattern::Command(_)) || word.is_some_and(is_plain)
            })
    }

    /// The fixed words at its start.
    pub(crate) fn leading_words(&self) -> Vec<&str> {
        let fixed = self.words.iter().map_while(|word| match word {
            WordPattern::Fixed(text) => Some(text.as_str()),
            _ => None,
        });
        fixed.collect()
    }

    /// How many words it speaks of.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }
}

fn has_star(word: &str) -> bool {
    word.replace("\\*", "").contains('*')
}

fn is_command_with_star(word: &str) -> bool {
    has_star(word) && word.contains(char::is_whitespace) && !is_assignment(word)
}

/// Whether a word sets a variable: `NAME=value`.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// Whether a shell takes a text as it is: words of letters, digits and harmless signs.
fn is_plain(text: &str) -> bool {
    text.chars().all(|character| {
        character.is_alphanumeric()
            || matches!(
                character,
                ' ' | '-' | '_' | '.' | '/' | '=' | ':' | ',' | '@' | '+' | '%'
            )
    })
}

/// A content in which paths below the home folder are written with `~`.
pub(crate) fn with_tilde(content: &str, home: &str) -> String {
    let home = home.trim_end_matches('/');
    if home.is_empty() {
        return content.to_owned();
    }
    let mut text = String::with_capacity(content.len());
    let mut rest = content;
    while let Some(at) = rest.find(home) {
        let (before, after) = (&rest[..at], &rest[at + home.len()..]);
        let starts = before
            .chars()
            .next_back()
            .or_else(|| text.chars().next_back())
            .is_none_or(|last| last.is_whitespace() || matches!(last, '\'' | '"'));
        text.push_str(before);
        text.push_str(if starts && after.starts_with('/') {
            "~"
        } else {
            home
        });
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_is_a_tilde_at_the_start_of_a_word_only() {
        assert_eq!(with_tilde("/h/u/bin/x a", "/h/u"), "~/bin/x a");
        assert_eq!(with_tilde("a '/h/u/b' /h/u", "/h/u"), "a '~/b' /h/u");
        assert_eq!(with_tilde("x/h/u/b /h/user/b", "/h/u"), "x/h/u/b /h/user/b");
        assert_eq!(with_tilde("a /x", "/"), "a /x");
    }
}
