//! Asking: several answerers race, the first answer wins, the others are withdrawn.
//!
//! The face of the session (a dialog in the terminal, a host on the other end of a pipe), a hook and the classifier of
//! auto mode may all be able to answer one question. Each enters the [`Race`] as a
//! future ([`Race::enter`]) or holds a [`Ticket`] that it answers later. An answerer that has nothing to
//! say gives `None` (or drops its ticket) and the race continues without it; when none is left the race is
//! over, so a background agent that has nobody to ask never waits.

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use lathe_protocol::permission::{PermissionReply, PermissionRequest};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Who may answer a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswererKind {
    /// The face of the session: a dialog in the terminal, the host of an SDK session, an editor.
    Host,
    /// The editor beside the session, where the change is open as a diff.
    Editor,
    /// The leader of the team that the session is a member of.
    Leader,
    /// A `PermissionRequest` hook.
    Hook,
    /// The classifier of auto mode.
    Classifier,
}

/// How a race ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Someone answered.
    Answered {
        /// Who.
        by: AnswererKind,
        /// The answer.
        reply: PermissionReply,
    },
    /// Everyone who could have answered had nothing to say, or there was nobody.
    NobodyAnswered,
    /// The question became moot.
    Withdrawn,
}

/// A question that the first answerer decides.
pub struct Race {
    request: Arc<PermissionRequest>,
    answerers: FuturesUnordered<BoxFuture<'static, (AnswererKind, Option<PermissionReply>)>>,
    over: CancellationToken,
    limit: Option<Duration>,
}

impl Race {
    /// A question that nobody knows of yet.
    #[must_use]
    pub fn new(request: PermissionRequest) -> Self {
        Self {
            request: Arc::new(request),
            answerers: FuturesUnordered::new(),
            over: CancellationToken::new(),
            limit: None,
        }
    }

    /// The question.
    #[must_use]
    pub fn request(&self) -> &Arc<PermissionRequest> {
        &self.request
    }

    /// Cancelled when the race is over, however it ended.
    #[must_use]
    pub fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    /// Ends the race after this time as if nobody had answered.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Lets an answerer in that works by itself. It is dropped when another one wins; one that has
    /// to clean up watches [`Race::over`].
    pub fn enter(
        &mut self,
        kind: AnswererKind,
        answer: impl Future<Output = Option<PermissionReply>> + Send + 'static,
    ) {
        self.answerers
            .push(Box::pin(async move { (kind, answer.await) }));
    }

    /// Lets an answerer in that will answer from elsewhere.
    pub fn ticket(&mut self, kind: AnswererKind) -> Ticket {
        let (sender, receiver) = oneshot::channel();
        self.enter(kind, async move { receiver.await.ok() });
        Ticket {
            sender,
            over: self.over.clone(),
        }
    }

    /// Waits for the first answer.
    pub async fn run(mut self, cancel: &CancellationToken) -> Outcome {
        // Also when this future is dropped, nobody is left waiting with an open dialog.
        let _over = self.over.clone().drop_guard();
        let limit = self.limit;
        let timer = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(timer);
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Outcome::Withdrawn,
                answer = self.answerers.next() => match answer {
                    Some((by, Some(reply))) => return Outcome::Answered { by, reply },
                    Some((_, None)) => {}
                    None => return Outcome::NobodyAnswered,
                },
                () = &mut timer => return Outcome::NobodyAnswered,
            }
        }
    }
}

/// The right to answer one question once.
pub struct Ticket {
    sender: oneshot::Sender<PermissionReply>,
    over: CancellationToken,
}

impl Ticket {
    /// Answers, and says whether the answer was taken: not when the race is over already.
    #[must_use]
    pub fn answer(self, reply: PermissionReply) -> bool {
        !self.over.is_cancelled() && self.sender.send(reply).is_ok()
    }

    /// Whether the question is settled or moot.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Waits until the question is settled or moot, so that a dialog can close itself.
    pub async fn withdrawn(&self) {
        self.over.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::ids::ToolUseId;

    fn request() -> PermissionRequest {
        let input = serde_json::json!({"command": "ls"});
        PermissionRequest::new("Bash", input, ToolUseId::from("t"))
    }

    #[tokio::test]
    async fn the_first_answer_wins_and_the_others_are_withdrawn() {
        let mut race = Race::new(request());
        let dialog = race.ticket(AnswererKind::Classifier);
        let host = race.ticket(AnswererKind::Host);
        race.enter(AnswererKind::Hook, std::future::pending());
        let over = race.over();
        assert!(host.answer(PermissionReply::deny("no")));
        let outcome = race.run(&CancellationToken::new()).await;
        let Outcome::Answered { by, reply } = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(by, AnswererKind::Host);
        assert!(matches!(reply, PermissionReply::Deny { .. }));
        assert!(over.is_cancelled());
        dialog.withdrawn().await;
        assert!(dialog.is_withdrawn());
        assert!(!dialog.answer(PermissionReply::allow()));
    }

    #[tokio::test]
    async fn who_has_nothing_to_say_leaves_the_race_to_the_others() {
        let mut race = Race::new(request());
        race.enter(AnswererKind::Hook, async { None });
        let dialog = race.ticket(AnswererKind::Host);
        let running = lathe_spawn::task(async move { race.run(&CancellationToken::new()).await });
        tokio::task::yield_now().await;
        assert!(dialog.answer(PermissionReply::allow()));
        assert!(matches!(
            running.await.unwrap(),
            Outcome::Answered {
                by: AnswererKind::Host,
                ..
            }
        ));
    }

    #[tokio::test]
    async fn with_nobody_to_ask_it_is_over_at_once() {
        assert_eq!(
            Race::new(request()).run(&CancellationToken::new()).await,
            Outcome::NobodyAnswered
        );
        let mut race = Race::new(request());
        drop(race.ticket(AnswererKind::Host));
        race.enter(AnswererKind::Hook, async { None });
        assert_eq!(
            race.run(&CancellationToken::new()).await,
            Outcome::NobodyAnswered
        );
    }

    #[tokio::test]
    async fn a_cancelled_turn_withdraws_the_question() {
        let mut race = Race::new(request());
        let dialog = race.ticket(AnswererKind::Host);
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert_eq!(race.run(&cancel).await, Outcome::Withdrawn);
        assert!(dialog.is_withdrawn());
    }

    #[tokio::test]
    async fn a_dropped_race_withdraws_the_question() {
        let mut race = Race::new(request());
        let dialog = race.ticket(AnswererKind::Host);
        let cancel = CancellationToken::new();
        let mut run = Box::pin(race.run(&cancel));
        assert!(futures::poll!(&mut run).is_pending());
        drop(run);
        assert!(dialog.is_withdrawn());
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_ends_a_race_that_nobody_answers() {
        let mut race = Race::new(request()).with_limit(Duration::from_secs(30));
        race.enter(AnswererKind::Hook, std::future::pending());
        assert_eq!(
            race.run(&CancellationToken::new()).await,
            Outcome::NobodyAnswered
        );
    }
}
