//! Open questions of MCP servers to the user.

use crate::conversation::questions::FACE;
use crate::session::events::EventSink;
use lathe_protocol::elicitation::{ElicitationReply, ElicitationRequest};
use lathe_protocol::event::Event;
use lathe_protocol::ids::RequestId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// An answer, and who gave it.
struct Answered {
    reply: ElicitationReply,
    by: String,
}

/// The open questions.
#[derive(Default)]
pub(crate) struct Elicitations {
    open: Mutex<HashMap<RequestId, oneshot::Sender<Answered>>>,
}

impl Elicitations {
    /// Asks the face and waits for its answer. `None` when nobody will answer any more. Dropping the
    /// future withdraws the question.
    pub(crate) async fn ask(
        &self,
        request: ElicitationRequest,
        events: &EventSink,
    ) -> Option<ElicitationReply> {
        let (sender, receiver) = oneshot::channel();
        let id = request.request_id.clone();
        self.open.lock().insert(id.clone(), sender);
        let mut closing = Closing {
            elicitations: self,
            events,
            id,
            reply: None,
            by: None,
        };
        events.send(Event::ElicitationRequested(Arc::new(request)));
        let answered = receiver.await.ok()?;
        closing.reply = Some(answered.reply.clone());
        closing.by = Some(answered.by);
        Some(answered.reply)
    }

    /// A face's answer. One to a question that is closed changes nothing.
    pub(crate) fn answer(&self, id: &RequestId, reply: ElicitationReply) {
        self.answer_as(id, reply, FACE);
    }

    /// The same by somebody who is named. Returns whether the question was open.
    pub(crate) fn answer_as(&self, id: &RequestId, reply: ElicitationReply, by: &str) -> bool {
        let sender = self.open.lock().remove(id);
        let by = by.to_owned();
        sender.is_some_and(|sender| sender.send(Answered { reply, by }).is_ok())
    }

    /// The face is gone: open questions get no answer.
    pub(crate) fn withdraw_all(&self) {
        self.open.lock().clear();
    }
}

struct Closing<'a> {
    elicitations: &'a Elicitations,
    events: &'a EventSink,
    id: RequestId,
    reply: Option<ElicitationReply>,
    by: Option<String>,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.elicitations.open.lock().remove(&self.id);
        self.events.send(Event::ElicitationResolved {
            request_id: self.id.clone(),
            reply: self.reply.take(),
            by: self.by.take(),
        });
    }
}
