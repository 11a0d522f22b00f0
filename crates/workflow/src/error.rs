//! Errors of scripts, with their places.

/// A place in a script, both counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The script does not begin with a usable `meta`.
    #[error("{name}:{}:{}: {message}", at.line, at.column)]
    Meta {
        name: String,
        at: Position,
        message: String,
    },
    /// It is not JavaScript.
    #[error("{name}:{}:{}: syntax error: {message}", at.line, at.column)]
    Syntax {
        name: String,
        at: Position,
        message: String,
    },
    /// It uses a name that nothing defines.
    #[error("{name}:{}:{}: {message}", at.line, at.column)]
    Unknown {
        name: String,
        at: Position,
        message: String,
    },
    /// It threw.
    #[error("{name}:{}:{}: {message}", at.line, at.column)]
    Thrown {
        name: String,
        at: Position,
        message: String,
    },
    /// It ran for too long without waiting for anything, or used too much memory.
    #[error("{name}:{}:{}: stopped: {message}", at.line, at.column)]
    Limit {
        name: String,
        at: Position,
        message: String,
    },
    #[error("{name}: the script waits for something that can't happen: every agent has answered")]
    Stuck { name: String },
    #[error("{name}: the result is not JSON: {message}")]
    Result { name: String, message: String },
    #[error("the run was stopped")]
    Stopped,
    #[error("the script engine can't be started: {0}")]
    Engine(String),
}

impl ScriptError {
    /// Where it is, if that is known.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Meta { at, .. }
            | Self::Syntax { at, .. }
            | Self::Unknown { at, .. }
            | Self::Thrown { at, .. }
            | Self::Limit { at, .. } => Some(*at),
            Self::Stuck { .. } | Self::Result { .. } | Self::Stopped | Self::Engine(_) => None,
        }
    }
}
