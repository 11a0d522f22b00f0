//! Opens authorisation pages with `$BROWSER`, or else with the platform's opener.

use futures::future::BoxFuture;
use lathe_settings::Environment;
use std::process::Stdio;
use tokio::process::Command;

/// Opens pages for the person.
pub trait Browser: Send + Sync {
    /// Opens a page and returns once it is shown.
    fn open<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), BrowserError>>;
}

/// Why a page was not opened.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    #[error("BROWSER is blank")]
    Blank,
    #[error("{program} can't be started ({source}); set BROWSER to your browser")]
    Start {
        program: String,
        source: std::io::Error,
    },
}

/// The person's own browser.
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
            let mut child = Command::new(program)
                .args(arguments)
                .arg(url)
                .env_clear()
                .envs(&self.environment.variables)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|source| BrowserError::Start {
                    program: program.clone(),
                    source,
                })?;
            // A browser may run for hours; wait in the background to reap it.
            lathe_spawn::task(async move { child.wait().await });
            Ok(())
        })
    }
}
