//! The repeated-call guard: a model that makes the same call with the same result over and over
//! gets a reminder, and then the turn ends.

use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};

/// How many equal calls in a row bring a reminder, and how many end the turn.
const USUAL: (u32, u32) = (5, 10);
/// The same for a small model, which gets caught in one call much sooner: the first repetition counts.
const SMALL_MODEL: (u32, u32) = (2, 4);

/// Counts equal calls in a row.
#[derive(Debug, Default)]
pub(crate) struct RepeatGuard {
    last: Option<u64>,
    count: u32,
}

/// The verdict on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Fine,
    /// The model should be reminded.
    Remind {
        /// How many in a row.
        count: u32,
    },
    /// The turn should end.
    Stop {
        /// How many in a row.
        count: u32,
    },
}

impl RepeatGuard {
    /// Notes a call and its result.
    pub(crate) fn note(
        &mut self,
        tool: &str,
        input: &Value,
        result: &str,
        is_small_model: bool,
    ) -> Verdict {
        let mut hasher = DefaultHasher::new();
        tool.hash(&mut hasher);
        input.to_string().hash(&mut hasher);
        result.hash(&mut hasher);
        let fingerprint = hasher.finish();
        if self.last == Some(fingerprint) {
            self.count += 1;
        } else {
            self.last = Some(fingerprint);
            self.count = 1;
        }
        let (remind_at, stop_at) = if is_small_model { SMALL_MODEL } else { USUAL };
        match self.count {
            count if count >= stop_at => Verdict::Stop { count },
            count if count == remind_at => Verdict::Remind { count },
            // A small model is told every time.
            count if is_small_model && count > remind_at => Verdict::Remind { count },
            _ => Verdict::Fine,
        }
    }

    /// Starts afresh: the user said something new.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn five_remind_and_ten_stop_and_any_difference_resets() {
        let mut guard = RepeatGuard::default();
        let verdicts: Vec<_> = (0..10)
            .map(|_| guard.note("Read", &json!({"a": 1}), "same", false))
            .collect();
        assert_eq!(verdicts[4], Verdict::Remind { count: 5 });
        assert_eq!(verdicts[9], Verdict::Stop { count: 10 });
        assert!(
            verdicts[..4]
                .iter()
                .chain(&verdicts[5..9])
                .all(|v| *v == Verdict::Fine)
        );
        for i in 0..20 {
            assert_eq!(
                guard.note("Read", &json!({"a": 1}), &format!("{i}"), false),
                Verdict::Fine
            );
        }
    }

    #[test]
    fn a_small_model_is_told_at_the_first_repetition_and_stopped_at_the_fourth_call() {
        let mut guard = RepeatGuard::default();
        let verdicts: Vec<_> = (0..4)
            .map(|_| guard.note("Bash", &json!({"command": "ls"}), "same", true))
            .collect();
        assert_eq!(
            verdicts,
            [
                Verdict::Fine,
                Verdict::Remind { count: 2 },
                Verdict::Remind { count: 3 },
                Verdict::Stop { count: 4 }
            ]
        );
    }
}
