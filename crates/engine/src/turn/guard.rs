//! The repeated-call guard: a model that makes the same call with the same result over and over
//! gets a reminder, and then the turn ends.

use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};

/// How many equal calls in a row bring a reminder.
const REMIND_AT: u32 = 5;
/// How many end the turn.
const STOP_AT: u32 = 10;

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
    pub(crate) fn note(&mut self, tool: &str, input: &Value, result: &str) -> Verdict {
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
        match self.count {
            REMIND_AT => Verdict::Remind { count: self.count },
            STOP_AT.. => Verdict::Stop { count: self.count },
            _ => Verdict::Fine,
        }
    }

    /// Starts afresh: the person said something new.
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
            .map(|_| guard.note("Read", &json!({"a": 1}), "same"))
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
                guard.note("Read", &json!({"a": 1}), &format!("{i}")),
                Verdict::Fine
            );
        }
    }
}
