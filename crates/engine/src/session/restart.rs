//! A session that follows another in the same process: `/clear`, `/resume`, `/fork`, `/rewind`.
//!
//! Model, permission mode, the money spent and the editor go over to the next session, and the reason to the
//! hooks of both: `SessionEnd` of the old one and `SessionStart` of the new one.

use super::{EndReason, SessionHandle};
use crate::open::options::{HistoryOptions, SessionChoice, SessionOptions};
use lathe_protocol::ids::SessionId;
use lathe_protocol::permission::PermissionMode;

/// How a session follows another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restart {
    /// A new conversation.
    Clear,
    /// Another session, by id, title or file.
    Resume(String),
    /// A copy of the same session under a new id.
    Fork,
    /// The same session again, after its transcript was rewound.
    Rewind,
}

impl Restart {
    fn end_reason(&self) -> EndReason {
        match self {
            Self::Clear => EndReason::Clear,
            Self::Resume(_) | Self::Fork | Self::Rewind => EndReason::Resume,
        }
    }
}

/// State that a session takes over from the one that it follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Carried {
    /// The model that was chosen last.
    pub model: String,
    /// The permission mode.
    pub mode: PermissionMode,
    /// Dollars that this run spent already.
    pub spent_usd: f64,
    /// The session that this one follows.
    pub previous: SessionId,
    /// Whether the conversation was cleared.
    pub cleared: bool,
    /// The port of the editor that was connected.
    pub editor: Option<u16>,
    /// Whether the conversation only directed workers.
    pub coordinator: bool,
    /// The worktree that the session was in.
    pub worktree: Option<std::path::PathBuf>,
}

impl SessionHandle {
    /// Prepares the end of this session: gives the options that open its successor, and this session's
    /// `SessionEnd` hooks the reason.
    #[must_use]
    pub fn restart(&self, how: &Restart, options: &SessionOptions) -> SessionOptions {
        self.ends_by(how.end_reason());
        let own = || self.session_id().to_string();
        let history = HistoryOptions {
            title: None,
            session: match how {
                Restart::Clear => SessionChoice::New,
                Restart::Resume(wanted) => SessionChoice::Resume(wanted.clone()),
                Restart::Fork | Restart::Rewind => SessionChoice::Resume(own()),
            },
            fork: *how == Restart::Fork,
            session_id: None,
            resume_at: None,
            resume_drops_turn: None,
            setup: None,
            carried: Some(Carried {
                model: self.model().current(),
                mode: self.permissions().mode(),
                spent_usd: self.history().spent_in_run_usd(),
                previous: self.session_id(),
                cleared: *how == Restart::Clear,
                editor: self.editor().connected().map(|editor| editor.port),
                coordinator: self.shared.coordinates(),
                worktree: crate::worktree::session::path_of(&self.shared),
            }),
            persist: options.history.persist,
            observer: options.history.observer.clone(),
        };
        SessionOptions {
            history,
            ..options.clone()
        }
    }
}
