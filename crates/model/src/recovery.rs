//! Trying again, the same for every provider.
//!
//! [`run`] turns one request into one stream of [`Delivery`]s. Inside it are the attempts: each begins
//! with [`Delivery::Requesting`], and what it delivered is either complete or withdrawn by
//! [`Delivery::Retracted`] before the next begins. The stream ends after a complete response, or with
//! exactly one error, which is final: everything that could be tried has been.
//!
//! | trouble | reaction | limit |
//! |---|---|---|
//! | refused for now (408, 409, 429, 5xx, 529), connection lost | wait, same request | `max_retries` |
//! | overloaded three times in a row, a fallback model is set | that model's request | once |
//! | stream stalls, breaks or ends half-way | withdraw, wait, same request; not streamed from the second time on | `max_stream_retries` |
//! | 401 or 403, and the provider can fetch fresh credentials | fetch, same request | once |
//!
//! The decisions are in [`Attempts::react`], which is pure but for the jitter; the rest is plumbing.

use crate::error::ModelError;
use crate::provider::{Provider, ProviderEvent, ResponseStream, Transfer};
use crate::request::ModelRequest;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use lathe_protocol::stream::StreamEvent;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// What reaches the engine.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "nearly every delivery is an event")]
pub enum Delivery {
    /// An attempt begins.
    Requesting {
        /// Counts from 1 over the whole run.
        attempt: u32,
    },
    /// An event of the response.
    Event(ProviderEvent),
    /// Every event since the last `Requesting` is withdrawn.
    Retracted {
        /// Why.
        reason: String,
    },
    /// The next attempt begins after a wait.
    Retrying {
        /// Which retry of its kind this is, from 1.
        attempt: u32,
        /// How many retries of its kind there are at most.
        max_retries: u32,
        /// How long until it begins.
        delay: Duration,
        /// The HTTP status of the refusal, if there was one.
        status: Option<u16>,
        /// The word that SDK hosts know the trouble by.
        kind: &'static str,
        /// The trouble in one line.
        error: String,
    },
    /// The fallback model takes over.
    FellBack {
        /// The model that did not answer.
        from: String,
        /// The model that is asked from now on.
        to: String,
        /// Why.
        reason: String,
    },
}

/// The stream that [`run`] gives.
pub type Deliveries = BoxStream<'static, Result<Delivery, ModelError>>;

/// Makes the fallback model's request out of the one that failed.
pub type Rewrite = Arc<dyn Fn(&ModelRequest) -> ModelRequest + Send + Sync>;

/// The model that takes over when the wanted one is overloaded.
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
    /// Retries after broken streams.
    pub max_stream_retries: u32,
    /// Broken streams after which the response is asked for as a whole.
    pub streaming_failures_before_whole: u32,
    /// Overloads in a row after which the fallback model takes over.
    pub overloads_before_fallback: u32,
    /// The first wait; each further one is twice as long.
    pub base_delay: Duration,
    /// The longest wait of our own choice.
    pub max_delay: Duration,
    /// The longest wait that the API may ask for; when it asks for more, the error is final.
    pub max_retry_after: Duration,
    /// How long a stream may go without progress.
    pub idle_timeout: Duration,
    /// How long the API may take to accept a request, and for a whole response altogether.
    pub request_timeout: Duration,
    /// The model that takes over when the wanted one is overloaded.
    pub fallback: Option<FallbackModel>,
}

impl Default for RecoveryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 10,
            max_stream_retries: 3,
            streaming_failures_before_whole: 2,
            overloads_before_fallback: 3,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(32),
            max_retry_after: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(90),
            request_timeout: Duration::from_secs(600),
            fallback: None,
        }
    }
}

impl RecoveryPolicy {
    /// The defaults with what the environment says: `LATHE_MAX_RETRIES` (or
    /// `CLAUDE_CODE_MAX_RETRIES`), `LATHE_RETRY_BASE_MS`, `LATHE_STREAM_IDLE_TIMEOUT_MS`,
    /// `API_TIMEOUT_MS`.
    ///
    /// # Errors
    /// When a variable is not a number, or a limit is zero.
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ModelError> {
        let number = |name: &str| -> Result<Option<u64>, ModelError> {
            match lookup(name)
                .map(|text| text.trim().to_owned())
                .filter(|text| !text.is_empty())
            {
                None => Ok(None),
                Some(text) => text
                    .parse()
                    .map(Some)
                    .map_err(|_| ModelError::Configuration {
                        message: format!("{name} must be a whole number, not {text:?}"),
                    }),
            }
        };
        let duration = |name: &str| -> Result<Option<Duration>, ModelError> {
            match number(name)? {
                Some(0) => Err(ModelError::Configuration {
                    message: format!("{name} must be more than 0 (milliseconds)"),
                }),
                other => Ok(other.map(Duration::from_millis)),
            }
        };
        let mut policy = Self::default();
        let retries = number("LATHE_MAX_RETRIES")?;
        if let Some(retries) =
            retries.map_or_else(|| number("CLAUDE_CODE_MAX_RETRIES"), |n| Ok(Some(n)))?
        {
            policy.max_retries = u32::try_from(retries).unwrap_or(u32::MAX);
        }
        if let Some(base) = number("LATHE_RETRY_BASE_MS")? {
            policy.base_delay = Duration::from_millis(base);
        }
        if let Some(limit) = duration("LATHE_STREAM_IDLE_TIMEOUT_MS")? {
            policy.idle_timeout = limit;
        }
        if let Some(limit) = duration("API_TIMEOUT_MS")? {
            policy.request_timeout = limit;
        }
        Ok(policy)
    }

    /// The wait before the n-th retry (from 1): doubling, bounded, and up to a quarter shorter by
    /// chance, so that many clients don't come back at the same moment.
    fn backoff(&self, retry: u32) -> Duration {
        let doubled = self
            .base_delay
            .saturating_mul(1 << retry.saturating_sub(1).min(16));
        doubled
            .min(self.max_delay)
            .mul_f64(1.0 - 0.25 * fastrand::f64())
    }
}

/// Sends a request and tries again as the policy says. Cancelling ends the stream at once with
/// [`ModelError::Cancelled`] and closes the connection; what was delivered until then stands.
/// Dropping the stream does the same without a word.
#[must_use]
pub fn run(
    provider: Arc<dyn Provider>,
    request: ModelRequest,
    policy: RecoveryPolicy,
    cancel: CancellationToken,
) -> Deliveries {
    let attempts = Attempts::new(policy);
    let run = Run {
        provider,
        request: Arc::new(request),
        attempts,
        cancel,
        phase: Phase::Begin,
        queue: VecDeque::new(),
    };
    stream::unfold(run, |mut run| async move {
        run.next().await.map(|item| (item, run))
    })
    .boxed()
}

/// What happens after a failed attempt.
#[derive(Debug, PartialEq)]
enum Reaction {
    /// Wait, then the same request.
    Retry {
        attempt: u32,
        max_retries: u32,
        delay: Duration,
    },
    /// The fallback model's request, at once.
    FallBack,
    /// Fetch fresh credentials, then the same request.
    Refresh,
    /// Nothing more to try.
    GiveUp,
}

/// Counts what has been tried, and decides what is tried next.
#[derive(Debug)]
struct Attempts {
    policy: RecoveryPolicy,
    started: u32,
    retries: u32,
    stream_retries: u32,
    streaming_failures: u32,
    overloads_in_a_row: u32,
    fell_back: bool,
    refreshed: bool,
}

impl Attempts {
    fn new(policy: RecoveryPolicy) -> Self {
        Self {
            policy,
            started: 0,
            retries: 0,
            stream_retries: 0,
            streaming_failures: 0,
            overloads_in_a_row: 0,
            fell_back: false,
            refreshed: false,
        }
    }

    /// How the next attempt's response is transferred.
    fn transfer(&self) -> Transfer {
        if self.streaming_failures >= self.policy.streaming_failures_before_whole {
            Transfer::Whole
        } else {
            Transfer::Streaming
        }
    }

    /// Decides what follows a failed attempt. `accepted`: the response had begun.
    fn react(&mut self, error: &ModelError, accepted: bool) -> Reaction {
        if let ModelError::Authentication(_) = error
            && !self.refreshed
        {
            self.refreshed = true;
            return Reaction::Refresh;
        }
        let overloaded = matches!(error, ModelError::Overloaded(_));
        self.overloads_in_a_row = if overloaded {
            self.overloads_in_a_row + 1
        } else {
            0
        };
        let may_fall_back = overloaded && !self.fell_back && self.policy.fallback.is_some();
        if may_fall_back && self.overloads_in_a_row >= self.policy.overloads_before_fallback {
            return self.fall_back();
        }
        // A response that began and broke is another row of the table than one that never began.
        let broken = accepted && error.failure().is_none();
        if broken && self.transfer() == Transfer::Streaming {
            self.streaming_failures += 1;
        }
        // Garbage in a response that had begun is damage on the way, not another kind of server.
        let damaged = broken && matches!(error, ModelError::Protocol { .. });
        if !error.is_retryable() && !damaged {
            return Reaction::GiveUp;
        }
        let asked = error.retry_after();
        if asked.is_some_and(|wait| wait > self.policy.max_retry_after) {
            return Reaction::GiveUp;
        }
        let (count, limit) = if broken {
            (
                &mut self.stream_retries,
                self.policy.max_stream_retries.min(self.policy.max_retries),
            )
        } else {
            (&mut self.retries, self.policy.max_retries)
        };
        if *count >= limit {
            return if may_fall_back {
                self.fall_back()
            } else {
                Reaction::GiveUp
            };
        }
        *count += 1;
        let attempt = *count;
        let delay = asked.unwrap_or_else(|| self.policy.backoff(attempt));
        Reaction::Retry {
            attempt,
            max_retries: limit,
            delay,
        }
    }

    fn fall_back(&mut self) -> Reaction {
        self.fell_back = true;
        self.retries = 0;
        self.overloads_in_a_row = 0;
        Reaction::FallBack
    }
}

enum Phase {
    /// An attempt is about to begin.
    Begin,
    /// The request is on its way.
    Sending {
        response: BoxFuture<'static, Result<ResponseStream, ModelError>>,
        transfer: Transfer,
        deadline: Instant,
    },
    /// Events come in.
    Receiving {
        response: ResponseStream,
        transfer: Transfer,
        deadline: Instant,
        delivered: bool,
    },
    /// Between attempts.
    Waiting { until: Instant },
    /// Fresh credentials are being fetched; the error is the one that asked for them.
    Refreshing {
        refresh: BoxFuture<'static, Result<bool, ModelError>>,
        refused: ModelError,
    },
    /// Everything has been said.
    Done,
}

struct Run {
    provider: Arc<dyn Provider>,
    request: Arc<ModelRequest>,
    attempts: Attempts,
    cancel: CancellationToken,
    phase: Phase,
    /// Deliveries that come before the phase goes on.
    queue: VecDeque<Result<Delivery, ModelError>>,
}

impl Run {
    async fn next(&mut self) -> Option<Result<Delivery, ModelError>> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                return Some(item);
            }
            if matches!(self.phase, Phase::Done) {
                return None;
            }
            // The phase is taken out while it runs: a cancelled phase is dropped here, and with it
            // the connection.
            let phase = std::mem::replace(&mut self.phase, Phase::Done);
            let cancel = self.cancel.clone();
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Some(Err(ModelError::Cancelled)),
                () = self.step(phase) => {}
            }
        }
    }

    /// Runs one phase to its next, leaving deliveries in the queue.
    async fn step(&mut self, phase: Phase) {
        match phase {
            Phase::Begin => self.begin(),
            Phase::Sending {
                mut response,
                transfer,
                deadline,
            } => {
                let outcome = tokio::select! {
                    outcome = &mut response => outcome,
                    () = sleep_until(deadline) => Err(self.timed_out()),
                };
                match outcome {
                    Ok(response) => {
                        let deadline = match transfer {
                            Transfer::Streaming => {
                                Instant::now() + self.attempts.policy.idle_timeout
                            }
                            // The limit is for request and response together.
                            Transfer::Whole => deadline,
                        };
                        self.phase = Phase::Receiving {
                            response,
                            transfer,
                            deadline,
                            delivered: false,
                        };
                    }
                    Err(error) => self.failed(error, false, false),
                }
            }
            Phase::Receiving {
                response,
                transfer,
                deadline,
                delivered,
            } => {
                self.receive(response, transfer, deadline, delivered).await;
            }
            Phase::Waiting { until } => {
                sleep_until(until).await;
                self.phase = Phase::Begin;
            }
            Phase::Refreshing { refresh, refused } => match refresh.await {
                Ok(true) => self.phase = Phase::Begin,
                Ok(false) => self.give_up(refused),
                Err(error) => self.give_up(error),
            },
            Phase::Done => {}
        }
    }

    fn begin(&mut self) {
        self.attempts.started += 1;
        self.queue.push_back(Ok(Delivery::Requesting {
            attempt: self.attempts.started,
        }));
        let transfer = self.attempts.transfer();
        self.phase = Phase::Sending {
            response: self.provider.stream(&self.request, transfer),
            transfer,
            deadline: Instant::now() + self.attempts.policy.request_timeout,
        };
    }

    async fn receive(
        &mut self,
        mut response: ResponseStream,
        transfer: Transfer,
        mut deadline: Instant,
        mut delivered: bool,
    ) {
        let item = tokio::select! {
            item = response.next() => item,
            () = sleep_until(deadline) => {
                let error = match transfer {
                    Transfer::Streaming => {
                        ModelError::Stalled { after: self.attempts.policy.idle_timeout }
                    }
                    Transfer::Whole => self.timed_out(),
                };
                self.failed(error, true, delivered);
                return;
            }
        };
        match item {
            Some(Ok(event)) => {
                if event.is_progress() {
                    delivered = true;
                    if transfer == Transfer::Streaming {
                        deadline = Instant::now() + self.attempts.policy.idle_timeout;
                    }
                }
                let complete = matches!(event.event, StreamEvent::MessageStop);
                self.queue.push_back(Ok(Delivery::Event(event)));
                self.phase = if complete {
                    Phase::Done
                } else {
                    Phase::Receiving {
                        response,
                        transfer,
                        deadline,
                        delivered,
                    }
                };
            }
            Some(Err(error)) => self.failed(error, true, delivered),
            None => {
                let message = "the end of the message is missing".to_owned();
                self.failed(ModelError::Truncated { message }, true, delivered);
            }
        }
    }

    fn timed_out(&self) -> ModelError {
        ModelError::Timeout {
            after: self.attempts.policy.request_timeout,
        }
    }

    fn failed(&mut self, error: ModelError, accepted: bool, delivered: bool) {
        tracing::debug!(%error, accepted, attempt = self.attempts.started, "model call failed");
        if delivered {
            self.queue.push_back(Ok(Delivery::Retracted {
                reason: error.summary(),
            }));
        }
        match self.attempts.react(&error, accepted) {
            Reaction::Retry {
                attempt,
                max_retries,
                delay,
            } => {
                self.queue.push_back(Ok(Delivery::Retrying {
                    attempt,
                    max_retries,
                    delay,
                    status: error.status(),
                    kind: error.sdk_kind(),
                    error: error.summary(),
                }));
                self.phase = Phase::Waiting {
                    until: Instant::now() + delay,
                };
            }
            Reaction::FallBack => match self.attempts.policy.fallback.clone() {
                Some(fallback) => {
                    let mut request = (fallback.rewrite)(&self.request);
                    request.model.clone_from(&fallback.model);
                    self.queue.push_back(Ok(Delivery::FellBack {
                        from: self.request.model.clone(),
                        to: fallback.model,
                        reason: error.summary(),
                    }));
                    self.request = Arc::new(request);
                    self.phase = Phase::Begin;
                }
                None => self.give_up(error),
            },
            Reaction::Refresh => {
                let refresh = self.provider.refresh_credentials();
                self.phase = Phase::Refreshing {
                    refresh,
                    refused: error,
                };
            }
            Reaction::GiveUp => self.give_up(error),
        }
    }

    fn give_up(&mut self, error: ModelError) {
        self.queue.push_back(Err(error));
        self.phase = Phase::Done;
    }
}
