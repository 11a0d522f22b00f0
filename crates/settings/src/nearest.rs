//! 'Did you mean …?'

/// The candidate that a mistyped word most likely means, if one is close enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = folded(word);
    let limit = (typed.chars().count() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&typed, &folded(candidate)), candidate))
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
