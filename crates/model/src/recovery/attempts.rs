//! Which attempts were made, and what is tried next. No I/O: an error goes in, a reaction comes out.

use super::policy::{FallbackModel, RecoveryPolicy};
use crate::error::{ModelError, NetworkTrouble};
use crate::provider::Transfer;
use std::time::Duration;

/// The reaction to a failed attempt.
#[derive(Debug)]
pub(super) enum Reaction {
    /// Wait, then the same request.
    Retry {
        attempt: u32,
        max_retries: u32,
        delay: Duration,
    },
    /// This model's request, at once.
    FallBack(FallbackModel),
    /// Fetch fresh credentials, then the same request.
    Refresh,
    /// The same request, asking to leave out reasoning that doesn't fit.
    DropStaleThinking,
    /// Nothing more to try.
    GiveUp,
}

/// Counts what has been tried, and decides what is tried next.
#[derive(Debug)]
pub(super) struct Attempts {
    pub(super) policy: RecoveryPolicy,
    pub(super) started: u32,
    retries: u32,
    stream_retries: u32,
    streaming_failures: u32,
    failures_in_a_row: u32,
    fallbacks_used: usize,
    refreshed: bool,
    dropped_thinking: bool,
}

impl Attempts {
    pub(super) fn new(policy: RecoveryPolicy) -> Self {
        Self {
            policy,
            started: 0,
            retries: 0,
            stream_retries: 0,
            streaming_failures: 0,
            failures_in_a_row: 0,
            fallbacks_used: 0,
            refreshed: false,
            dropped_thinking: false,
        }
    }

    /// How the next attempt's response is transferred.
    pub(super) fn transfer(&self) -> Transfer {
        if self.streaming_failures >= self.policy.streaming_failures_before_whole {
            Transfer::Whole
        } else {
            Transfer::Streaming
        }
    }

    /// Decides what follows a failed attempt. `accepted`: the response had begun.
    pub(super) fn react(&mut self, error: &ModelError, accepted: bool) -> Reaction {
        if let ModelError::Authentication(_) = error
            && !self.refreshed
        {
            self.refreshed = true;
            return Reaction::Refresh;
        }
        if let ModelError::ThinkingRejected(failure) = error
            && failure.message.contains("block_binding")
            && !self.dropped_thinking
        {
            self.dropped_thinking = true;
            return Reaction::DropStaleThinking;
        }
        let of_server = matches!(error, ModelError::Overloaded(_) | ModelError::Server(_));
        self.failures_in_a_row = if of_server {
            self.failures_in_a_row + 1
        } else {
            0
        };
        if of_server
            && self.failures_in_a_row >= self.policy.failures_before_fallback
            && let Some(next) = self.fall_back()
        {
            return next;
        }
        // A response that began and broke is another row of the table than one that never began.
        let broken = accepted && error.failure().is_none();
        if broken && self.transfer() == Transfer::Streaming {
            self.streaming_failures += 1;
        }
        // Garbage in a response that had begun is damage in transit, not another kind of server.
        let damaged = broken && matches!(error, ModelError::Protocol { .. });
        if !error.is_retryable() && !damaged {
            return Reaction::GiveUp;
        }
        let asked = error.retry_after();
        if asked.is_some_and(|wait| wait > self.policy.max_retry_after) {
            return self.fall_back().unwrap_or(Reaction::GiveUp);
        }
        let is_foreign = error
            .failure()
            .is_some_and(|failure| failure.origin.is_some());
        let asked = match asked {
            Some(wait) if is_foreign => Some(wait.min(self.policy.max_foreign_wait)),
            other => other,
        };
        let (count, limit) = if broken {
            (
                &mut self.stream_retries,
                self.policy.max_stream_retries.min(self.policy.max_retries),
            )
        } else if is_not_running(error) {
            let limit = self.policy.max_local_retries.min(self.policy.max_retries);
            (&mut self.retries, limit)
        } else {
            (&mut self.retries, self.policy.max_retries)
        };
        if *count >= limit {
            return self.fall_back().unwrap_or(Reaction::GiveUp);
        }
        *count += 1;
        let attempt = *count;
        // A server that says "at once" and refuses again doesn't know; asking it ten times in a moment
        // would use up every retry.
        let delay = asked
            .filter(|wait| attempt == 1 || !wait.is_zero())
            .unwrap_or_else(|| self.policy.backoff(attempt));
        Reaction::Retry {
            attempt,
            max_retries: limit,
            delay,
        }
    }

    /// Continues to the next fallback model, if there is one. It starts with all retries.
    fn fall_back(&mut self) -> Option<Reaction> {
        let next = self.policy.fallbacks.get(self.fallbacks_used)?.clone();
        self.fallbacks_used += 1;
        self.retries = 0;
        self.stream_retries = 0;
        self.streaming_failures = 0;
        self.failures_in_a_row = 0;
        Some(Reaction::FallBack(next))
    }
}

/// Whether nothing listens at an address on this machine.
fn is_not_running(error: &ModelError) -> bool {
    matches!(
        error,
        ModelError::Network {
            trouble: NetworkTrouble::NotRunning,
            ..
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ApiFailure;
    use crate::recovery::policy::Rewrite;
    use crate::request::ModelRequest;
    use std::sync::Arc;

    fn failure(status: u16) -> Box<ApiFailure> {
        Box::new(ApiFailure {
            status: Some(status),
            ..ApiFailure::default()
        })
    }

    fn overloaded() -> ModelError {
        ModelError::Overloaded(failure(529))
    }

    fn server() -> ModelError {
        ModelError::Server(failure(500))
    }

    fn truncated() -> ModelError {
        ModelError::Truncated {
            message: "cut".into(),
        }
    }

    fn with_fallback() -> RecoveryPolicy {
        with_fallbacks(&["other"])
    }

    fn with_fallbacks(models: &[&str]) -> RecoveryPolicy {
        let rewrite: Rewrite = Arc::new(ModelRequest::clone);
        let fallbacks = models.iter().map(|model| FallbackModel {
            model: (*model).to_owned(),
            rewrite: rewrite.clone(),
        });
        RecoveryPolicy {
            fallbacks: fallbacks.collect(),
            ..RecoveryPolicy::default()
        }
    }

    fn is_final(reaction: &Reaction) -> bool {
        matches!(reaction, Reaction::GiveUp)
    }

    /// The model that takes over.
    fn taken_over(reaction: &Reaction) -> Option<&str> {
        match reaction {
            Reaction::FallBack(next) => Some(&next.model),
            _ => None,
        }
    }

    fn is_retry(reaction: &Reaction) -> bool {
        matches!(reaction, Reaction::Retry { .. })
    }

    #[test]
    fn refusals_are_retried_ten_times_and_not_once_more() {
        let mut attempts = Attempts::new(RecoveryPolicy::default());
        for expected in 1..=10 {
            let reaction = attempts.react(&server(), false);
            assert!(
                matches!(reaction, Reaction::Retry { attempt, max_retries: 10, .. } if attempt == expected),
                "{reaction:?}"
            );
        }
        assert!(is_final(&attempts.react(&server(), false)));
    }

    #[test]
    fn the_apis_wait_takes_precedence_over_ours_unless_it_is_absurd() {
        let mut attempts = Attempts::new(RecoveryPolicy::default());
        let asking = |seconds| {
            let mut failure = failure(429);
            failure.retry_after = Some(Duration::from_secs(seconds));
            ModelError::RateLimited(failure)
        };
        let reaction = attempts.react(&asking(7), false);
        assert!(
            matches!(reaction, Reaction::Retry { delay, .. } if delay == Duration::from_secs(7))
        );
        assert!(is_final(&attempts.react(&asking(3600), false)));

        // "At once" is believed once.
        let mut attempts = Attempts::new(RecoveryPolicy::default());
        let mut waits = [
            attempts.react(&asking(0), false),
            attempts.react(&asking(0), false),
        ]
        .into_iter()
        .map(|reaction| match reaction {
            Reaction::Retry { delay, .. } => delay,
            other => panic!("{other:?}"),
        });
        assert_eq!(waits.next(), Some(Duration::ZERO));
        assert!(waits.next() >= Some(Duration::from_millis(500)));
    }

    #[test]
    fn another_provider_that_names_a_long_wait_is_asked_after_a_minute() {
        let asking = |seconds| {
            let mut failure = failure(429);
            failure.retry_after = Some(Duration::from_secs(seconds));
            failure.origin = Some(Box::default());
            ModelError::RateLimited(failure)
        };
        let mut attempts = Attempts::new(RecoveryPolicy::default());
        for (asked, waited) in [(7, 7), (60, 60), (61, 60), (600, 60)] {
            let reaction = attempts.react(&asking(asked), false);
            assert!(
                matches!(reaction, Reaction::Retry { delay, .. } if delay == Duration::from_secs(waited)),
                "{asked}: {reaction:?}"
            );
        }
        assert!(is_final(&attempts.react(&asking(601), false)));
    }

    #[test]
    fn a_server_that_does_not_run_on_this_machine_is_tried_three_times_more() {
        let refused = || ModelError::Network {
            trouble: NetworkTrouble::NotRunning,
            url: String::new(),
            message: String::new(),
        };
        let mut attempts = Attempts::new(RecoveryPolicy::default());
        for _ in 0..3 {
            assert!(is_retry(&attempts.react(&refused(), false)));
        }
        assert!(is_final(&attempts.react(&refused(), false)));
        let mut attempts = Attempts::new(with_fallback());
        for _ in 0..3 {
            attempts.react(&refused(), false);
        }
        assert_eq!(
            taken_over(&attempts.react(&refused(), false)),
            Some("other")
        );
    }

    #[test]
    fn broken_streams_have_a_smaller_limit_and_end_without_streaming() {
        let mut attempts = Attempts::new(RecoveryPolicy::default());
        let mut transfers = vec![attempts.transfer()];
        while is_retry(&attempts.react(&truncated(), true)) {
            transfers.push(attempts.transfer());
        }
        use Transfer::{Streaming, Whole};
        assert_eq!(transfers, [Streaming, Streaming, Whole, Whole]);
    }

    #[test]
    fn without_retries_a_broken_stream_is_final_too() {
        let policy = RecoveryPolicy {
            max_retries: 0,
            ..RecoveryPolicy::default()
        };
        assert!(is_final(&Attempts::new(policy).react(&truncated(), true)));
    }

    #[test]
    fn three_overloads_in_a_row_switch_the_model_once() {
        let mut attempts = Attempts::new(with_fallback());
        assert!(is_retry(&attempts.react(&overloaded(), false)));
        assert!(is_retry(&attempts.react(&overloaded(), false)));
        assert!(
            is_retry(&attempts.react(&truncated(), true)),
            "another error breaks the row"
        );
        assert!(is_retry(&attempts.react(&overloaded(), false)));
        assert!(is_retry(&attempts.react(&overloaded(), true)));
        assert_eq!(
            taken_over(&attempts.react(&overloaded(), false)),
            Some("other")
        );
        for _ in 0..10 {
            assert!(is_retry(&attempts.react(&overloaded(), false)));
        }
        assert!(is_final(&attempts.react(&overloaded(), false)));
    }

    #[test]
    fn with_few_retries_the_switch_comes_before_giving_up() {
        let policy = RecoveryPolicy {
            max_retries: 1,
            ..with_fallback()
        };
        let mut attempts = Attempts::new(policy);
        assert!(is_retry(&attempts.react(&overloaded(), false)));
        assert_eq!(
            taken_over(&attempts.react(&overloaded(), false)),
            Some("other")
        );
    }

    #[test]
    fn fallback_models_take_over_in_order_each_with_all_retries() {
        let mut attempts = Attempts::new(with_fallbacks(&["second", "third"]));
        for next in ["second", "third"] {
            assert!(is_retry(&attempts.react(&server(), false)));
            assert!(is_retry(&attempts.react(&overloaded(), false)));
            assert_eq!(taken_over(&attempts.react(&server(), false)), Some(next));
        }
        for _ in 0..10 {
            assert!(is_retry(&attempts.react(&server(), false)));
        }
        assert!(is_final(&attempts.react(&server(), false)));
    }

    #[test]
    fn streams_that_keep_breaking_and_waits_without_end_switch_the_model_too() {
        let mut attempts = Attempts::new(with_fallbacks(&["second", "third"]));
        for _ in 0..3 {
            assert!(is_retry(&attempts.react(&truncated(), true)));
        }
        assert_eq!(attempts.transfer(), Transfer::Whole);
        assert_eq!(
            taken_over(&attempts.react(&truncated(), true)),
            Some("second")
        );
        assert_eq!(attempts.transfer(), Transfer::Streaming);
        let mut later = failure(429);
        later.retry_after = Some(Duration::from_secs(3600));
        let reaction = attempts.react(&ModelError::RateLimited(later), false);
        assert_eq!(taken_over(&reaction), Some("third"));
    }

    #[test]
    fn credentials_are_refreshed_once() {
        let mut attempts = Attempts::new(RecoveryPolicy::default());
        let refused = ModelError::Authentication(failure(401));
        assert!(matches!(attempts.react(&refused, false), Reaction::Refresh));
        assert!(is_final(&attempts.react(&refused, false)));
    }

    #[test]
    fn what_waiting_cannot_mend_is_final() {
        let certificate = ModelError::Network {
            trouble: NetworkTrouble::Certificate,
            url: "https://x".into(),
            message: String::new(),
        };
        let protocol = ModelError::Protocol {
            url: "http://x".into(),
            message: "html".into(),
        };
        for error in [
            ModelError::InvalidRequest(failure(400)),
            ModelError::RequestTooLarge(failure(413)),
            ModelError::ModelNotFound(failure(404)),
            ModelError::Billing(failure(402)),
            ModelError::NoCredentials,
            certificate,
            protocol.clone(),
        ] {
            let reaction = Attempts::new(with_fallback()).react(&error, false);
            assert!(is_final(&reaction), "{error}");
        }
        // The same damage in the middle of a response is a broken stream.
        assert!(is_retry(
            &Attempts::new(with_fallback()).react(&protocol, true)
        ));
    }
}
