//! How a run ended, as an exit code.

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Success,
    /// The turn or the session failed.
    Failure,
    /// The command line, or a file that it names, is wrong.
    Usage,
    /// There is no key for the model API.
    NoCredentials,
    /// SIGINT.
    Interrupted,
    /// SIGTERM or SIGHUP.
    Terminated,
    /// As a program that was run for the user ended.
    Program(u8),
}

impl Exit {
    /// The exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::NoCredentials => 3,
            Self::Interrupted => 130,
            Self::Terminated => 143,
            Self::Program(code) => code,
        }
    }
}
