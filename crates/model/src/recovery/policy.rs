//! How hard to try.

use crate::error::ModelError;
use crate::request::ModelRequest;
use lathe_settings::{Environment, Variable};
use std::sync::Arc;
use std::time::Duration;

/// Makes the fallback model's request out of the one that failed.
pub type Rewrite = Arc<dyn Fn(&ModelRequest) -> ModelRequest + Send + Sync>;

/// A model that takes over when the one before it does not answer.
#[derive(Clone)]
pub struct FallbackModel {
    /// Its id.
    pub model: String,
    /// Makes its request: other limits, and reasoning of the first model taken out, since a
    /// signature is only good for the model that made it.
    pub rewrite: Rewrite,
}

impl std::fmt::Debug for FallbackModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FallbackModel")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// How hard to try.
#[derive(Debug, Clone)]
pub struct RecoveryPolicy {
    /// Retries after refusals and lost connections.
    pub max_retries: u32,
    /// Retries while nothing listens at an address on this machine.
    pub max_local_retries: u32,
    /// Retries after broken streams.
    pub max_stream_retries: u32,
    /// Broken streams after which the response is asked for as a whole.
    pub streaming_failures_before_whole: u32,
    /// Overloads and server errors in a row after which the next fallback model takes over.
    pub failures_before_fallback: u32,
    /// The first wait; each further one is twice as long.
    pub base_delay: Duration,
    /// The longest wait of our own choice.
    pub max_delay: Duration,
    /// The longest wait that the API may ask for; when it asks for more, the error is final.
    pub max_retry_after: Duration,
    /// The longest wait that a server of another provider gets: their limits are often of another request.
    pub max_foreign_wait: Duration,
    /// How long a stream may go without progress.
    pub idle_timeout: Duration,
    /// How long the API may take to accept a request, and for a whole response altogether.
    pub request_timeout: Duration,
    /// The models that take over, in this order, when the one before does not answer.
    pub fallbacks: Vec<FallbackModel>,
}

impl Default for RecoveryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 10,
            max_local_retries: 3,
            max_stream_retries: 3,
            streaming_failures_before_whole: 2,
            failures_before_fallback: 3,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(32),
            max_retry_after: Duration::from_secs(600),
            max_foreign_wait: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(90),
            request_timeout: Duration::from_secs(600),
            fallbacks: Vec::new(),
        }
    }
}

impl RecoveryPolicy {
    /// The defaults with what the environment sets: retries, the first pause between them, and time limits.
    ///
    /// # Errors
    /// When a variable is not a number, or a limit is zero.
    pub fn of(environment: &Environment) -> Result<Self, ModelError> {
        let number = |variable| -> Result<Option<(&'static str, u64)>, ModelError> {
            let Some((name, text)) = environment.get_named(variable) else {
                return Ok(None);
            };
            let number = text.parse().map_err(|_| ModelError::Configuration {
                message: format!("{name} must be a whole number, not {text:?}"),
            })?;
            Ok(Some((name, number)))
        };
        let duration = |variable| -> Result<Option<Duration>, ModelError> {
            match number(variable)? {
                Some((name, 0)) => Err(ModelError::Configuration {
                    message: format!("{name} must be more than 0 (milliseconds)"),
                }),
                other => Ok(other.map(|(_, limit)| Duration::from_millis(limit))),
            }
        };
        let mut policy = Self::default();
        if let Some((_, retries)) = number(Variable::MaxRetries)? {
            policy.max_retries = u32::try_from(retries).unwrap_or(u32::MAX);
            policy.max_local_retries = policy.max_retries;
        }
        if let Some((_, base)) = number(Variable::RetryBase)? {
            policy.base_delay = Duration::from_millis(base);
        }
        if let Some(limit) = duration(Variable::StreamIdleTimeout)? {
            policy.idle_timeout = limit;
        }
        if let Some(limit) = duration(Variable::ApiTimeout)? {
            policy.request_timeout = limit;
        }
        Ok(policy)
    }

    /// The wait before the n-th retry (from 1): doubling, bounded, and up to a quarter shorter by
    /// chance, so that many clients don't come back at the same moment.
    pub(super) fn backoff(&self, retry: u32) -> Duration {
        let doubled = self
            .base_delay
            .saturating_mul(1 << retry.saturating_sub(1).min(16));
        doubled
            .min(self.max_delay)
            .mul_f64(1.0 - 0.25 * fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_vary() {
        let policy = RecoveryPolicy::default();
        for (retry, full) in [
            (1, 0.5),
            (2, 1.0),
            (3, 2.0),
            (6, 16.0),
            (7, 32.0),
            (10, 32.0),
            (500, 32.0),
        ] {
            let wait = policy.backoff(retry).as_secs_f64();
            assert!(wait <= full && wait >= full * 0.75, "retry {retry}: {wait}");
        }
        let waits: std::collections::HashSet<Duration> =
            (0..20).map(|_| policy.backoff(3)).collect();
        assert!(waits.len() > 1);
    }

    #[test]
    fn the_environment_sets_limits_and_bad_values_are_named() {
        let from = |pairs: &[(&'static str, &'static str)]| {
            RecoveryPolicy::of(&Environment::of_variables(pairs.iter().copied()))
        };
        let policy = from(&[
            ("CLAUDE_CODE_MAX_RETRIES", "4"),
            ("LATHE_RETRY_BASE_MS", "1"),
            ("LATHE_STREAM_IDLE_TIMEOUT_MS", "1500"),
            ("API_TIMEOUT_MS", "2000"),
        ])
        .unwrap();
        assert_eq!(policy.max_retries, 4);
        assert_eq!(policy.base_delay, Duration::from_millis(1));
        assert_eq!(policy.idle_timeout, Duration::from_millis(1500));
        assert_eq!(policy.request_timeout, Duration::from_secs(2));
        let policy = from(&[("LATHE_MAX_RETRIES", "0"), ("CLAUDE_CODE_MAX_RETRIES", "4")]).unwrap();
        assert_eq!(policy.max_retries, 0);
        for name in [
            "LATHE_MAX_RETRIES",
            "LATHE_STREAM_IDLE_TIMEOUT_MS",
            "API_TIMEOUT_MS",
        ] {
            let error = from(&[(name, "soon")]);
            assert!(error.unwrap_err().to_string().contains(name));
        }
        assert!(from(&[("API_TIMEOUT_MS", "0")]).is_err());
    }
}
