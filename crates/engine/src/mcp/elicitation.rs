//! Open questions of MCP servers to the user.

use crate::session::events::EventSink;
use lathe_protocol::elicitation::{ElicitationReply, ElicitationRequest};
use lathe_protocol::event::Event;
use lathe_protocol::ids::RequestId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The open questions.
#[derive(Default)]
pub(crate) struct Elicitations {
    open: Mutex<HashMap<RequestId, oneshot::Sender<ElicitationReply>>>,
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
        };
        events.send(Event::ElicitationRequested(Arc::new(request)));
        let reply = receiver.await.ok();
        closing.reply.clone_from(&reply);
        reply
    }

    /// A face's answer. One to a question that is closed changes nothing.
    pub(crate) fn answer(&self, id: &RequestId, reply: ElicitationReply) {
        if let Some(sender) = self.open.lock().remove(id) {
            let _ = sender.send(reply);
        }
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
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.elicitations.open.lock().remove(&self.id);
        self.events.send(Event::ElicitationResolved {
            request_id: self.id.clone(),
            reply: self.reply.take(),
        });
    }
}
