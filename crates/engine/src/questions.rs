//! Open questions to a person: asked through whichever face is there, raced with the hooks that may
//! answer, answered once.

use crate::events::EventSink;
use crate::hook_points::HookPoints;
use lathe_permissions::Permissions;
use lathe_protocol::event::{Event, NoticeLevel, SessionState};
use lathe_protocol::ids::RequestId;
use lathe_protocol::permission::{PermissionReply, PermissionRequest, PermissionUpdate};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Who answers permission questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answerer {
    /// Nobody: what would ask is denied.
    Nobody,
    /// The face: it gets `PermissionRequested` and replies with an op.
    Face,
}

/// The open questions of a session.
pub struct Questions {
    answerer: Answerer,
    events: EventSink,
    open: Mutex<HashMap<RequestId, oneshot::Sender<PermissionReply>>>,
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Someone answered.
    Reply(PermissionReply),
    /// Nobody is there who could.
    NobodyToAsk,
    /// The question is moot: the turn was cancelled.
    Withdrawn,
}

impl Questions {
    /// No questions yet.
    #[must_use]
    pub fn new(answerer: Answerer, events: EventSink) -> Self {
        Self {
            answerer,
            events,
            open: Mutex::default(),
        }
    }

    /// Asks, and waits for the first answer. Hooks race the face; the loser is withdrawn.
    pub async fn ask(
        &self,
        request: PermissionRequest,
        hooks: &HookPoints,
        cancel: &CancellationToken,
    ) -> Answer {
        let request = Arc::new(request);
        let id = request.request_id.clone();
        let receiver = (self.answerer == Answerer::Face).then(|| {
            let (sender, receiver) = oneshot::channel();
            let first = {
                let mut open = self.open.lock();
                open.insert(id.clone(), sender);
                open.len() == 1
            };
            self.events
                .send(Event::PermissionRequested(request.clone()));
            if first {
                self.events
                    .send(Event::StateChanged(SessionState::RequiresAction));
            }
            receiver
        });
        // Whichever way the wait ends (an answer, a cancellation, a dropped future), the question is closed.
        let closing = Closing {
            questions: self,
            id: &id,
            answered: Mutex::new(None),
        };
        let from_face = async {
            match receiver {
                Some(receiver) => receiver.await.ok(),
                None => None,
            }
        };
        let from_hooks = hooks.permission_request(&request, cancel);
        let wanted = request
            .title
            .clone()
            .unwrap_or_else(|| request.tool_name.clone());
        let message = format!("Lathe needs your permission: {wanted}");
        let notified = hooks.notification("permission_prompt", &message);
        tokio::pin!(from_face, from_hooks, notified);
        let mut notifying = self.answerer == Answerer::Face;
        let mut face_open = self.answerer == Answerer::Face;
        let mut hooks_open = true;
        let answer = loop {
            if !face_open && !hooks_open {
                break Answer::NobodyToAsk;
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => break Answer::Withdrawn,
                () = &mut notified, if notifying => notifying = false,
                reply = &mut from_face, if face_open => match reply {
                    Some(reply) => break Answer::Reply(reply),
                    None => face_open = false,
                },
                reply = &mut from_hooks, if hooks_open => match reply {
                    Some(reply) => break Answer::Reply(reply),
                    None => hooks_open = false,
                },
            }
        };
        if let Answer::Reply(reply) = &answer {
            *closing.answered.lock() = Some(reply.clone());
        }
        drop(closing);
        answer
    }

    /// A face's answer. Returns whether the question was open.
    pub fn answer(&self, id: &RequestId, reply: PermissionReply) -> bool {
        let sender = self.open.lock().remove(id);
        sender.is_some_and(|sender| sender.send(reply).is_ok())
    }

    /// The face is gone: open questions fail.
    pub fn withdraw_all(&self) {
        self.open.lock().clear();
    }

    /// Carries out what a person chose beside the answer itself.
    pub(crate) fn apply(&self, updates: &[PermissionUpdate], permissions: &Permissions) {
        for update in updates {
            match permissions.apply(update) {
                Ok(()) => {
                    if let PermissionUpdate::SetMode { mode, .. } = update {
                        self.events.send(Event::ModeChanged(*mode));
                    }
                }
                Err(error) => self.events.notice(
                    NoticeLevel::Warning,
                    format!("The permission change could not be kept: {error}"),
                ),
            }
        }
    }
}

struct Closing<'a> {
    questions: &'a Questions,
    id: &'a RequestId,
    answered: Mutex<Option<PermissionReply>>,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if self.questions.answerer == Answerer::Nobody {
            return;
        }
        let last = {
            let mut open = self.questions.open.lock();
            open.remove(self.id);
            open.is_empty()
        };
        self.questions.events.send(Event::PermissionResolved {
            request_id: self.id.clone(),
            reply: self.answered.lock().take(),
        });
        if last {
            self.questions
                .events
                .send(Event::StateChanged(SessionState::Running));
        }
    }
}
