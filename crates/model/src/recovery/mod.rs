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
//! | overloaded or a server error three times in a row, any of these without a retry left: the next fallback model | that model's request | once for each |
//! | stream stalls, breaks or ends half-way | withdraw, wait, same request; not streamed from the second time on | `max_stream_retries` |
//! | 401 or 403, and the provider can fetch fresh credentials | fetch, same request | once |
//! | reasoning doesn't fit the conversation any more | same request, asking to leave it out | once |
//!
//! How hard to try is a [`RecoveryPolicy`]; what is tried next is decided in `attempts`, which does no
//! I/O; the rest is plumbing.

mod attempts;
mod policy;

pub use policy::{FallbackModel, RecoveryPolicy, Rewrite};

use crate::error::ModelError;
use crate::provider::{Provider, ResponseStream, Transfer};
use crate::request::{ModelRequest, Thinking};
use attempts::{Attempts, Reaction};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use lathe_protocol::encoded::EncodedMessages;
use lathe_protocol::stream::{StreamEvent, StreamPiece};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// An item of the stream that the engine reads.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every delivery is an event"
)]
pub enum Delivery {
    /// An attempt begins.
    Requesting {
        /// Counts from 1 over the whole run.
        attempt: u32,
    },
    /// An event of the response. Keep-alives are left out.
    Event(StreamPiece),
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

/// Passes between an engine and a run, beside the stream. To the run: messages that take the place of the
/// request's from the next attempt on, for an engine that learns between two attempts what the model must know,
/// such as what a call of a withdrawn answer did. From the run: the API's id of the request that is answered.
#[derive(Debug, Clone, Default)]
pub struct Amendment(Arc<Mutex<Amended>>);

#[derive(Debug, Default)]
struct Amended {
    messages: Option<EncodedMessages>,
    request_id: Option<String>,
}

impl Amendment {
    /// The API's id of the request that is being answered, if it gave one.
    #[must_use]
    pub fn request_id(&self) -> Option<String> {
        self.lock().request_id.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Amended> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the messages. A caller that sets them on [`Delivery::Retracted`] or [`Delivery::FellBack`] is in
    /// time for the next attempt.
    pub fn set(&self, messages: EncodedMessages) {
        self.lock().messages = Some(messages);
    }

    fn take(&self) -> Option<EncodedMessages> {
        self.lock().messages.take()
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
    run_amendable(provider, request, policy, Amendment::default(), cancel)
}

/// As [`run`], with messages that may change between attempts.
#[must_use]
pub fn run_amendable(
    provider: Arc<dyn Provider>,
    request: ModelRequest,
    policy: RecoveryPolicy,
    amendment: Amendment,
    cancel: CancellationToken,
) -> Deliveries {
    let attempts = Attempts::new(policy);
    let run = Run {
        provider,
        request: Arc::new(request),
        attempts,
        amendment,
        cancel: Arc::new(cancel),
        phase: Phase::Begin,
        queue: VecDeque::new(),
    };
    stream::unfold(run, |mut run| async move {
        run.next().await.map(|item| (item, run))
    })
    .boxed()
}

/// How long a response is waited for.
#[derive(Debug, Clone, Copy)]
enum Patience {
    /// The whole response by then.
    Until(Instant),
    /// Progress within the idle limit of this moment. Without one the clock starts with the next
    /// wait: the time in which nobody asked for events is not the stream's.
    SinceProgress(Option<Instant>),
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
        /// Whether an event has been passed on.
        delivered: bool,
        patience: Patience,
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
    amendment: Amendment,
    /// Shared, since it is held on to for each event: copying the token itself takes a lock.
    cancel: Arc<CancellationToken>,
    phase: Phase,
    /// Deliveries that come before the phase continues.
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
            let cancel = Arc::clone(&self.cancel);
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
                    biased;
                    outcome = &mut response => outcome,
                    () = sleep_until(deadline) => Err(self.timed_out()),
                };
                match outcome {
                    Ok(response) => {
                        self.amendment
                            .lock()
                            .request_id
                            .clone_from(&response.request_id);
                        let patience = match transfer {
                            Transfer::Streaming => Patience::SinceProgress(None),
                            // The limit is for request and response together.
                            Transfer::Whole => Patience::Until(deadline),
                        };
                        self.phase = Phase::Receiving {
                            response,
                            delivered: false,
                            patience,
                        };
                    }
                    Err(error) => self.failed(error, false, false),
                }
            }
            Phase::Receiving {
                response,
                delivered,
                patience,
            } => {
                self.receive(response, delivered, patience).await;
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
        if let Some(messages) = self.amendment.take() {
            let mut request = ModelRequest::clone(&self.request);
            request.messages = messages;
            self.request = Arc::new(request);
        }
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

    async fn receive(&mut self, mut response: ResponseStream, delivered: bool, patience: Patience) {
        let (deadline, patience) = match patience {
            Patience::Until(deadline) => (deadline, patience),
            Patience::SinceProgress(since) => {
                let since = since.unwrap_or_else(Instant::now);
                let deadline = since + self.attempts.policy.idle_timeout;
                (deadline, Patience::SinceProgress(Some(since)))
            }
        };
        let item = tokio::select! {
            biased;
            item = response.next() => item,
            () = sleep_until(deadline) => {
                let error = match patience {
                    Patience::Until(_) => self.timed_out(),
                    Patience::SinceProgress(_) => {
                        ModelError::Stalled { after: self.attempts.policy.idle_timeout }
                    }
                };
                self.failed(error, true, delivered);
                return;
            }
        };
        match item {
            // A sign of life, and nothing else: it is not passed on, and the clock runs on.
            Some(Ok(event)) if !event.is_progress() => {
                self.phase = Phase::Receiving {
                    response,
                    delivered,
                    patience,
                };
            }
            Some(Ok(event)) => {
                let complete = matches!(event.event, StreamEvent::MessageStop);
                self.queue.push_back(Ok(Delivery::Event(event)));
                let patience = match patience {
                    Patience::SinceProgress(_) => Patience::SinceProgress(None),
                    Patience::Until(_) => patience,
                };
                self.phase = if complete {
                    Phase::Done
                } else {
                    Phase::Receiving {
                        response,
                        delivered: true,
                        patience,
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
            Reaction::FallBack(fallback) => {
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
            Reaction::DropStaleThinking => {
                let mut request = ModelRequest::clone(&self.request);
                let thinking = request.thinking.unwrap_or_else(Thinking::adaptive);
                request.thinking = Some(thinking.dropping_stale());
                self.request = Arc::new(request);
                self.phase = Phase::Begin;
            }
            Reaction::Refresh => {
                let refresh = self.provider.refresh_credentials(&self.request);
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
