//! Which events a group of hooks is for.

use regex::Regex;

/// Names under which the ecosystem's hooks know tools that are called otherwise here, and the other
/// way round. A matcher for one matches the other.
const TOOL_NAMES: &[(&str, &str)] = &[
    ("Agent", "Task"),
    ("TaskOutput", "BashOutput"),
    ("TaskStop", "KillShell"),
];

/// A parsed matcher.
#[derive(Debug, Clone)]
pub enum Matcher {
    /// Everything.
    All,
    /// One of these words exactly.
    Words(Vec<String>),
    /// Values that a regular expression finds.
    Pattern(Regex),
    /// The same with look-around (`^(?!Read)`), which the ecosystem's expressions have.
    LookAround(Box<fancy_regex::Regex>),
    /// Nothing: the matcher is broken, and guessing could run a hook where it must not.
    Nothing,
}

/// A matcher that is no regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the matcher {matcher:?} is not a regular expression and matches nothing: {why}")]
pub struct BadMatcher {
    /// The matcher.
    pub matcher: String,
    /// Why it is invalid.
    pub why: String,
}

impl Matcher {
    /// Reads a matcher: nothing, empty or `*` is everything; a word, `A|B` or `A, B` is exactly those;
    /// anything else is a regular expression.
    ///
    /// # Errors
    /// When it is a regular expression that doesn't parse; use [`Matcher::Nothing`] then.
    pub fn parse(text: Option<&str>) -> Result<Self, BadMatcher> {
        let text = text.unwrap_or_default().trim();
        if text.is_empty() || text == "*" {
            return Ok(Self::All);
        }
        let is_plain = |character: char| {
            character.is_alphanumeric() || matches!(character, '_' | '-' | ':' | '|' | ',' | ' ')
        };
        if text.chars().all(is_plain) {
            let words = text
                .split(['|', ','])
                .map(str::trim)
                .filter(|word| !word.is_empty());
            return Ok(Self::Words(words.map(str::to_owned).collect()));
        }
        Regex::new(text).map(Self::Pattern).or_else(|error| {
            fancy_regex::Regex::new(text)
                .map(|pattern| Self::LookAround(Box::new(pattern)))
                .map_err(|_| BadMatcher {
                    matcher: text.to_owned(),
                    why: error
                        .to_string()
                        .lines()
                        .last()
                        .unwrap_or_default()
                        .trim()
                        .to_owned(),
                })
        })
    }

    /// Whether it matches a value. An event that has no value (`None`) matches every matcher, since
    /// there is nothing to compare with.
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        let Some(value) = value else {
            return !matches!(self, Self::Nothing);
        };
        let also = TOOL_NAMES.iter().find_map(|(ours, theirs)| match value {
            value if value == *ours => Some(*theirs),
            value if value == *theirs => Some(*ours),
            _ => None,
        });
        std::iter::once(value).chain(also).any(|value| match self {
            Self::All => true,
            Self::Words(words) => words.iter().any(|word| word == value),
            Self::Pattern(pattern) => pattern.is_match(value),
            // One that takes too long runs the hook: it may be there to refuse.
            Self::LookAround(pattern) => pattern.is_match(value).unwrap_or(true),
            Self::Nothing => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(matcher: &str, value: &str) -> bool {
        Matcher::parse(Some(matcher))
            .unwrap_or(Matcher::Nothing)
            .matches(Some(value))
    }

    #[test]
    fn words_match_exactly_and_patterns_match_inside() {
        for (matcher, value, expected) in [
            ("", "Bash", true),
            ("*", "Bash", true),
            ("Bash", "Bash", true),
            ("Bash", "BashOutput", false),
            ("bash", "Bash", false),
            ("Edit|Write", "Write", true),
            ("Edit | Write", "Write", true),
            ("Edit|Write", "MultiEdit", false),
            ("Edit, Write", "Write", true),
            ("Edit,Write", "MultiEdit", false),
            ("Edit.*", "MultiEdit", true),
            ("^Edit$", "MultiEdit", false),
            ("Notebook.*", "NotebookEdit", true),
            ("mcp__.*__write.*", "mcp__files__write_file", true),
            ("mcp__memory__.*", "mcp__files__read", false),
            ("mcp__my-server__do-it", "mcp__my-server__do-it", true),
            ("Task", "Agent", true),
            ("Agent", "Task", true),
            ("startup|resume", "resume", true),
            (".*", "anything", true),
            ("[", "Bash", false),
            ("^(?!Bash)", "Read", true),
            ("^(?!Bash)", "Bash", false),
            ("^(?!mcp__).*", "mcp__files__read", false),
            ("^mcp__(?!memory__).*", "mcp__files__read", true),
            ("^mcp__(?!memory__).*", "mcp__memory__read", false),
            ("^(?!Read$|Grep$).*", "ReadMore", true),
            (".*(?<!_file)$", "mcp__files__write_file", false),
            ("(?!Bash", "Read", false),
        ] {
            assert_eq!(matches(matcher, value), expected, "{matcher} on {value}");
        }
    }

    #[test]
    fn without_a_value_only_a_broken_matcher_fails() {
        assert!(Matcher::parse(Some("Bash")).unwrap().matches(None));
        assert!(Matcher::parse(None).unwrap().matches(None));
        let error = Matcher::parse(Some("Bash(")).unwrap_err();
        assert!(error.to_string().contains("Bash("), "{error}");
        assert!(!Matcher::Nothing.matches(None));
    }
}
