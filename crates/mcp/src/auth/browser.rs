//! Who opens an authorisation page: `$BROWSER`, else the platform's opener.

use futures::future::BoxFuture;
use lathe_settings::Environment;
use std::process::Stdio;
use tokio::process::Command;

/// Opens pages for the person.
pub trait Browser: Send + Sync {
    /// Opens a page. The page may take the person any time; this returns once it is shown.
    fn open<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), String>>;
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
        if let Some(browser) = self.environment.variable("BROWSER") {
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
    fn open<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let words = self.command();
            let Some((program, arguments)) = words.split_first() else {
                return Err("BROWSER is blank".to_owned());
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
                .map_err(|error| {
                    format!("{program} can't be started ({error}); set BROWSER to your browser")
                })?;
            // A browser may run for hours: nobody waits for it, but it is reaped.
            lathe_spawn::task(async move { child.wait().await });
            Ok(())
        })
    }
}
