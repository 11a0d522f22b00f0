//! Fuzzy search over short texts.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// The indices of the texts that fit, best first.
pub(crate) fn rank<'a>(
    query: &str,
    texts: impl Iterator<Item = &'a str>,
    limit: usize,
) -> Vec<usize> {
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let pattern = Pattern::parse(query, CaseMatching::Smart, Normalization::Smart);
    let mut buffer = Vec::new();
    let mut found: Vec<(u32, usize, usize)> = texts
        .enumerate()
        .filter_map(|(index, text)| {
            let score = pattern.score(Utf32Str::new(text, &mut buffer), &mut matcher)?;
            Some((score, text.len(), index))
        })
        .collect();
    // Of two that fit as well, the shorter is more likely meant.
    found.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    found.truncate(limit);
    found.into_iter().map(|(_, _, index)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_comes_first() {
        let texts = [
            "crates/engine/src/turn.rs",
            "src/main.rs",
            "docs/main.md",
            "mainframe/readme",
        ];
        assert_eq!(rank("main.rs", texts.into_iter(), 9), [1]);
        assert_eq!(rank("turn", texts.into_iter(), 9), [0]);
        assert_eq!(rank("", texts.into_iter(), 2).len(), 2);
    }
}
