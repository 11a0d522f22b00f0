//! The connection to the engine: the open session, its events, and the options for opening the next one.

use crate::render::cell::Cell;
use lathe_engine::{
    EventStream, LoadedSettings, Restart, SessionChoice, SessionHandle, SessionOptions,
};
use lathe_protocol::display::TodoItem;
use lathe_protocol::ids::RecordId;
use lathe_protocol::op::Op;
use std::sync::Arc;

pub(crate) struct Engine {
    pub(crate) options: SessionOptions,
    pub(crate) handle: Option<SessionHandle>,
    pub(crate) events: Option<EventStream>,
    /// Whether a session is being opened.
    pub(crate) opening: bool,
    /// Choose a session before one is opened.
    pub(crate) pick_session: bool,
    /// The prompt of the command line, sent as soon as the session is open.
    pub(crate) first_prompt: Option<String>,
    /// The settings that were read at the start, for the session that is opened next.
    pub(crate) loaded_settings: Option<Arc<LoadedSettings>>,
    /// Where to return to if the session that is being opened can't be.
    pub(crate) fallback: Option<Fallback>,
    /// Whether the session that is being opened is the one that was there before: it stands on the screen.
    pub(crate) returned: bool,
    /// Local model servers that answered when there was no key.
    pub(crate) local_servers: Vec<(&'static str, u16)>,
    /// How the session is reached from elsewhere.
    pub(crate) hosting: Option<crate::app::hosting::Hosting>,
}

/// A session that was closed for another one.
pub(crate) struct Fallback {
    pub(crate) options: SessionOptions,
    pub(crate) cells: Vec<Cell>,
    pub(crate) todos: Vec<TodoItem>,
}

impl Engine {
    /// Takes a prompt back that the session has not accepted yet. Returns whether that worked.
    pub(crate) fn cancel_queued(&self, uuid: RecordId) -> bool {
        self.handle
            .as_ref()
            .is_some_and(|session| session.history().cancel_queued(uuid))
    }

    pub(crate) fn new(options: SessionOptions, first_prompt: Option<String>) -> Self {
        Self {
            options,
            handle: None,
            events: None,
            opening: false,
            pick_session: false,
            first_prompt,
            loaded_settings: None,
            fallback: None,
            returned: false,
            local_servers: Vec::new(),
            hosting: None,
        }
    }
}

impl Engine {
    /// Sets the options for the session that follows this one. Without one there is nothing to take over.
    pub(crate) fn restart(&mut self, how: &Restart) {
        if let Some(session) = &self.handle {
            self.options = session.restart(how, &self.options);
            return;
        }
        self.options.history.session = match how {
            Restart::Resume(wanted) => SessionChoice::Resume(wanted.clone()),
            Restart::Clear | Restart::Fork | Restart::Rewind => SessionChoice::New,
        };
        self.options.history.fork = false;
        self.options.history.session_id = None;
        self.options.history.resume_at = None;
    }

    /// Whether the session is being opened without a terminal, so that there is no user to ask.
    pub(crate) fn starts_in_background(&self) -> bool {
        let hosting = self.hosting.as_ref();
        hosting.is_some_and(|hosting| hosting.console.is_some())
    }

    pub(crate) fn send(&self, op: Op) {
        if let Some(session) = &self.handle {
            session.send(op);
        }
    }
}
