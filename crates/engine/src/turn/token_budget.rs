//! Tokens that a turn is to use: `+500k` in a prompt, or `--token-budget`.
//!
//! Below nine tenths of them the model is told to continue when it says that it is done. A model that has nothing more to
//! say is left alone: after three continuations in a row that brought little, the turn ends.

use lathe_protocol::op::Prompt;

/// The share of the budget at which a turn may end, in percent.
const ENOUGH: u64 = 90;
/// Tokens of a continuation that count as little.
const LITTLE: u64 = 500;
/// Continuations with little in a row after which the turn ends.
const MOST_SMALL: u32 = 3;

/// How a turn uses its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenBudget {
    /// The tokens that the turn is to use; `None` for no budget.
    pub total: Option<u64>,
    /// The tokens that were used when the model was told to continue last.
    counted: Option<u64>,
    /// Continuations in a row that brought little.
    small: u32,
}

impl TokenBudget {
    /// A budget of which nothing is used.
    #[must_use]
    pub fn new(total: Option<u64>) -> Self {
        Self {
            total,
            ..Self::default()
        }
    }

    /// The model says that it is done after `used` tokens: the state after another continuation, or `None` if the turn may
    /// end.
    #[must_use]
    pub fn after(self, used: u64) -> Option<Self> {
        let total = self.total?;
        if used.saturating_mul(100) >= total.saturating_mul(ENOUGH) {
            return None;
        }
        let small = match self.counted {
            Some(before) if used.saturating_sub(before) < LITTLE => self.small + 1,
            _ => 0,
        };
        (small < MOST_SMALL).then_some(Self {
            counted: Some(used),
            small,
            ..self
        })
    }

    /// The words with which the model continues.
    #[must_use]
    pub fn words(self) -> String {
        let (used, total) = (self.counted.unwrap_or(0), self.total.unwrap_or(0));
        let percent = used.saturating_mul(100) / total.max(1);
        format!(
            "You have used {used} of the {total} output tokens that the user wants spent on this ({percent} %). Keep working: look deeper, verify, improve what is there. Don't summarise, and don't stop early."
        )
    }
}

/// Reads a number of tokens: `500000`, `500k`, `1.5m`.
#[must_use]
pub fn parse_tokens(text: &str) -> Option<u64> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let (number, factor) = match lower.strip_suffix('k') {
        Some(number) => (number, 1_000.0),
        None => match lower.strip_suffix('m') {
            Some(number) => (number, 1_000_000.0),
            None => (lower.as_str(), 1.0),
        },
    };
    let plain = |c: char| c.is_ascii_digit() || c == '.';
    if number.is_empty() || !number.chars().all(plain) {
        return None;
    }
    let tokens = number.parse::<f64>().ok()? * factor;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    (1.0..=1e12).contains(&tokens).then_some(tokens as u64)
}

/// The budget that a prompt of the user names: `+500k` as its first or its last word.
pub(crate) fn of_prompt(prompt: &Prompt) -> Option<u64> {
    if prompt.is_meta || prompt.origin.is_some() {
        return None;
    }
    named(&prompt.content.text())
}

fn named(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let ends = [words.next(), words.next_back()];
    ends.into_iter().flatten().find_map(|word| {
        let amount = word.strip_prefix('+')?;
        // `+5` is more often a number than a wish.
        amount
            .ends_with(['k', 'K', 'm', 'M'])
            .then(|| parse_tokens(amount))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_continues_until_nine_tenths_are_used() {
        let budget = TokenBudget::new(Some(10_000));
        let next = budget.after(1_000).unwrap();
        assert!(
            next.words().contains("1000 of the 10000"),
            "{}",
            next.words()
        );
        assert!(next.after(8_999).is_some());
        assert_eq!(next.after(9_000), None);
        assert_eq!(TokenBudget::default().after(0), None);
    }

    #[test]
    fn three_continuations_with_little_end_it_and_a_large_one_starts_the_count_anew() {
        let mut budget = TokenBudget::new(Some(1_000_000));
        for used in [2_000, 2_100, 2_200] {
            budget = budget.after(used).unwrap();
        }
        assert_eq!(budget.after(2_300), None);
        let again = budget.after(9_000).unwrap();
        assert!(
            again
                .after(9_100)
                .unwrap()
                .after(9_200)
                .unwrap()
                .after(9_300)
                .is_none()
        );
    }

    #[test]
    fn a_budget_stands_at_an_end_of_a_prompt() {
        for (text, expected) in [
            ("+500k fix everything", Some(500_000)),
            ("fix everything +1.5M", Some(1_500_000)),
            ("+2k", Some(2_000)),
            ("fix +500k everything", None),
            ("add +5", None),
            ("+k", None),
            ("+-5k", None),
            ("+1e3k", None),
            ("", None),
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
        assert_eq!(parse_tokens("250000"), Some(250_000));
        assert_eq!(parse_tokens("0"), None);
        assert_eq!(parse_tokens("99999999999999999999"), None);
    }
}
