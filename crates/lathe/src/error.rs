//! The one error type of the binary, and the one place that prints it.
//!
//! Commands return [`Outcome`]. An error carries its kind, which decides the exit code, the error of the crate
//! that failed, and hints. `main` prints it:
//!
//! ```text
//! lathe: there is no agent reviewr
//! hint: did you mean reviewer?
//! ```

use lathe_engine::OpenError;
use lathe_headless::exit::Exit;
use lathe_model::ModelError;
use lathe_session::SessionError;
use std::error::Error;
use std::fmt::{self, Display};
use std::io::{IsTerminal as _, Write as _};

/// How a command ended: with an exit code, or with an error to print.
pub(crate) type Outcome = Result<Exit, CliError>;

type Source = Box<dyn Error + Send + Sync>;

/// The kind of a failure. It decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// The work failed.
    Failure,
    /// The command line, or a file that it names, is wrong.
    Usage,
    /// There is no key for the model API.
    NoCredentials,
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct CliError {
    kind: ErrorKind,
    source: Source,
    hints: Vec<String>,
}

impl CliError {
    fn new(kind: ErrorKind, source: impl Into<Source>) -> Self {
        Self {
            kind,
            source: source.into(),
            hints: Vec::new(),
        }
    }

    /// The command line, or a file that it names, is wrong.
    pub(crate) fn usage(source: impl Into<Source>) -> Self {
        Self::new(ErrorKind::Usage, source)
    }

    /// The work failed.
    pub(crate) fn failure(source: impl Into<Source>) -> Self {
        Self::new(ErrorKind::Failure, source)
    }

    /// There is no key for the model API.
    pub(crate) fn no_credentials(source: impl Into<Source>) -> Self {
        Self::new(ErrorKind::NoCredentials, source)
    }

    /// Adds a line that says what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The same error with another kind.
    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// Puts the flag or the file that the error is about in front of the message.
    pub(crate) fn about(mut self, what: impl Display) -> Self {
        self.source = format!("{what}: {}", self.message()).into();
        self
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self.kind {
            ErrorKind::Failure => Exit::Failure,
            ErrorKind::Usage => Exit::Usage,
            ErrorKind::NoCredentials => Exit::NoCredentials,
        }
    }

    /// The message with its causes. A cause whose text is part of the message already is left out.
    fn message(&self) -> String {
        let mut text = self.source.to_string();
        let mut cause = self.source.source();
        while let Some(error) = cause {
            let words = error.to_string();
            if !text.contains(&words) {
                text.push_str(": ");
                text.push_str(&words);
            }
            cause = error.source();
        }
        text
    }

    /// Prints the message and the hints to standard error.
    pub(crate) fn print(&self) {
        notice(&self.to_string());
    }
}

impl Display for CliError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message())?;
        for hint in &self.hints {
            write!(formatter, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl From<SessionError> for CliError {
    fn from(error: SessionError) -> Self {
        let hint = error.hint();
        let error = Self::failure(error);
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Usage(_) | OpenError::Mode(_) | OpenError::NoSandbox { .. } => {
                Self::usage(error)
            }
            OpenError::NoCredentials => Self::no_credentials(error),
            OpenError::Session(error) => error.into(),
            OpenError::Model(ModelError::MissingKey { .. }) => Self::no_credentials(error),
            OpenError::Model(_) => Self::failure(error),
        }
    }
}

/// Gives the error of a crate its kind.
pub(crate) trait Kinded<T> {
    /// The failure is one of the command line.
    fn or_usage(self) -> Result<T, CliError>;
    /// The failure is one of the work.
    fn or_failure(self) -> Result<T, CliError>;
}

impl<T, E: Into<Source>> Kinded<T> for Result<T, E> {
    fn or_usage(self) -> Result<T, CliError> {
        self.map_err(CliError::usage)
    }

    fn or_failure(self) -> Result<T, CliError> {
        self.map_err(CliError::failure)
    }
}

/// Prints help, or what is wrong with the arguments.
pub(crate) fn print_usage(error: &clap::Error) -> Outcome {
    let colours = |is_terminal: bool| {
        let environment = lathe_settings::Environment::of_process();
        let refused = environment
            .is_ok_and(|environment| environment.get(lathe_settings::Variable::NoColor).is_some());
        is_terminal && !refused
    };
    let text = error.render();
    let shown = |coloured: bool| {
        if coloured {
            text.ansi().to_string()
        } else {
            text.to_string()
        }
    };
    if error.use_stderr() {
        let shown = shown(colours(std::io::stderr().is_terminal()));
        let _ = lathe_headless::output::Terminal::stderr().write_all(shown.as_bytes());
        return Ok(Exit::Usage);
    }
    let shown = shown(colours(std::io::stdout().is_terminal()));
    crate::commands::print_bytes(shown.as_bytes())
}

/// Prints a line for the user to standard error.
pub(crate) fn notice(message: &str) {
    let _ = writeln!(
        lathe_headless::output::Terminal::stderr(),
        "lathe: {message}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(std::io::Error);

    impl Display for Outer {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a.json can't be read")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn the_message_names_causes_and_hints() {
        let error = CliError::usage(Outer(std::io::Error::other("no such disk")))
            .about("--settings")
            .hint("write it as JSON");
        assert_eq!(
            error.to_string(),
            "--settings: a.json can't be read: no such disk\nhint: write it as JSON"
        );
        assert_eq!(error.exit(), Exit::Usage);
    }

    #[test]
    fn the_kind_of_an_opening_error_decides_the_exit_code() {
        let exit = |error: OpenError| CliError::from(error).exit();
        assert_eq!(exit(OpenError::NoCredentials), Exit::NoCredentials);
        assert_eq!(exit(OpenError::Usage("x".to_owned())), Exit::Usage);
    }
}
