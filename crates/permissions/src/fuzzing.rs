//! The fuzz target of this crate's parsers, for the tests and for `fuzz/`.

use crate::pattern::{Anchors, CommandPattern, PathPattern};
use crate::rule::{format_rule, parse_rule, parse_rule_list};
use std::path::{Path, PathBuf};

/// A rule is written so that it reads back the same, and its patterns match without panicking.
pub fn fuzz_rules(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines().take(10) {
        for rule in parse_rule_list(line).into_iter().flatten() {
            let written = format_rule(&rule);
            assert_eq!(parse_rule(&written).ok(), Some(rule), "{written}");
        }
        let Ok(rule) = parse_rule(line) else { continue };
        assert_eq!(parse_rule(&format_rule(&rule)).ok(), Some(rule.clone()));
        let Some(content) = &rule.rule_content else {
            continue;
        };
        let anchors = Anchors {
            home: PathBuf::from("/home/me"),
            cwd: PathBuf::from("/work"),
            settings_folder: PathBuf::from("/work/.lathe"),
            twins: None,
        };
        if let Ok(pattern) = PathPattern::new(content, &anchors) {
            for path in ["/work/src/main.rs", "/home/me/.ssh/id", "/"] {
                for case_insensitive in [true, false] {
                    let _ = pattern.matches(Path::new(path), case_insensitive);
                }
            }
        }
        if let Ok(pattern) = CommandPattern::new(content, &anchors.home) {
            let words = [Some("npm"), None, Some("test")];
            assert!(
                !pattern.matches(&words) || pattern.could_match(&words),
                "{content} matches and could not"
            );
            let _ = (pattern.is_exact(), pattern.leading_words());
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn rules_read_back_as_they_were_written() {
        let words = [
            "Bash(",
            "Read(",
            ")",
            "(",
            "\\(",
            "\\)",
            "\\\\",
            "*",
            "**",
            ":*",
            "~/",
            "//",
            "{a,b}",
            "[!a]",
            "mcp__",
            ",",
            " ",
            "\n",
            "Edit",
            "WebFetch(domain:",
        ];
        lathe_fuzzing::run("rules", 300, &words, super::fuzz_rules);
    }
}
