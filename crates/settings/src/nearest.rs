//! 'Did you mean …?'

/// The candidate that a mistyped word most likely means, if one is close enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = folded(word);
    let limit = (typed.chars().count() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| (distance(&typed, &folded(candidate)), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Case and separators are what people get wrong first: `default_mode`, `Default-Mode`.
fn folded(word: &str) -> String {
    word.chars()
        .filter(|character| !matches!(character, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

/// How many insertions, deletions, replacements and swaps of neighbours lie between two words.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, left) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, right) in to.iter().enumerate() {
            let replaced = last[column] + usize::from(left != right);
            let mut best = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped =
                row > 0 && column > 0 && *left == to[column - 1] && from[row - 1] == *right;
            if swapped {
                best = best.min(before[column - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut last, current);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let keys = [
            "permissions",
            "defaultMode",
            "model",
            "hooks",
            "includeCoAuthoredBy",
        ];
        assert_eq!(nearest("permisions", keys), Some("permissions"));
        assert_eq!(nearest("default_mode", keys), Some("defaultMode"));
        assert_eq!(nearest("modle", keys), Some("model"));
        assert_eq!(nearest("Hooks", keys), Some("hooks"));
        assert_eq!(
            nearest("includeCoauthorBy", keys),
            Some("includeCoAuthoredBy")
        );
        assert_eq!(nearest("awsAuthRefresh", keys), None);
        assert_eq!(nearest("x", keys), None);
    }
}
