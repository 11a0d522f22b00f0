//! Opens authorisation pages with `$BROWSER`, or else with the platform's opener.

use futures::future::BoxFuture;
use lathe_process::{Command, StartError};
use lathe_settings::Environment;

/// Opens pages for the user.
pub trait Browser: Send + Sync {
    /// Opens a page and returns once it is shown.
    fn open<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), BrowserError>>;
}

/// Why a page was not opened.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    #[error("BROWSER is blank")]
    Blank,
    #[error("{0}; set BROWSER to your browser")]
    Start(#[from] StartError),
}

/// The user's own browser.
#[derive(Debug, Clone)]
pub struct SystemBrowser {
    environment: Environment,
}

impl SystemBrowser {
    /// The browser of this environment.
    #[must_use]
    pub fn new(environment: Environment) -> Self {
        Self { environment }
    }

    fn command(&self) -> Vec<String> {
        if let Some(browser) = self.environment.foreign("BROWSER") {
            // As other programs read it: the first of several, split at blanks.
            let first = browser.split(':').next().unwrap_or(browser);
            return first.split_whitespace().map(str::to_owned).collect();
        }
        let opener = if cfg!(target_os = "macos") {
            "open"
        } else {
            "xdg-open"
        };
        vec![opener.to_owned()]
    }
}

impl Browser for SystemBrowser {
    fn open<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), BrowserError>> {
        Box::pin(async move {
            let words = self.command();
            let Some((program, arguments)) = words.split_first() else {
                return Err(BrowserError::Blank);
            };
            Command::new(program)
                .arguments(arguments)
                .argument(url)
                .without_inherited_environment()
                .variables(&self.environment.variables)
                .launch()?;
            Ok(())
        })
    }
}
