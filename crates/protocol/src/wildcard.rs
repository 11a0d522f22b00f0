//! Patterns in which `*` stands for any text, the empty one included.

/// Whether a pattern matches all of a text. Linear in the text for each `*`.
///
/// ```
/// use lathe_protocol::wildcard::matches;
///
/// assert!(matches("https://*.example.com/*", "https://api.example.com/v1"));
/// assert!(!matches("https://*.example.com/*", "https://example.org/v1"));
/// ```
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("npx", "npx", true),
            ("npx", "npx x", false),
            ("", "", true),
            ("", "x", false),
            ("*", "", true),
            ("*_TOKEN", "GH_TOKEN", true),
            ("*_TOKEN", "GH_TOKENS", false),
            ("a*b*c", "a--b--c", true),
            ("a*b*c", "a--c--b", false),
            // The two ends may not overlap.
            ("aba*ba", "aba", false),
            ("ab*ba", "abba", true),
            ("**", "anything", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
