//! `lathe browser`: connects a browser to sessions.

use super::{places, print_line};
use crate::error::{CliError, Kinded as _, Outcome, notice};
use clap::{Args, Subcommand};
use lathe_browser::install::Browser;
use lathe_headless::exit::Exit;
use lathe_mcp::config::Scope;
use lathe_settings::Environment;
use serde_json::json;
use std::path::PathBuf;

// `lathe browser`.
#[derive(Debug, Args)]
pub(crate) struct BrowserArguments {
    #[command(subcommand)]
    command: BrowserCommand,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum BrowserCommand {
    /// Register the host with a browser, and add the MCP server `browser` to your settings.
    Install {
        /// chrome, chromium, edge, brave or firefox.
        #[arg(long, default_value = "chrome")]
        browser: Browser,
        /// The id of the extension, as shown by the browser.
        #[arg(long, value_name = "ID", default_value = lathe_browser::EXTENSION_ID)]
        extension_id: String,
    },
    /// Run the native-messaging host; started by the browser.
    Host {
        /// Arguments of the browser: the manifest or the extension.
        #[arg(hide = true)]
        passed: Vec<String>,
    },
    /// Run the MCP server; started by a session.
    Mcp,
}

/// `lathe browser`.
pub(crate) async fn run(environment: Environment, arguments: BrowserArguments) -> Outcome {
    match arguments.command {
        BrowserCommand::Install {
            browser,
            extension_id,
        } => install(environment, browser, &extension_id),
        BrowserCommand::Host { .. } => {
            let home = places(environment).config_home;
            let log = |line: &str| notice(line);
            let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
            let ended = lathe_browser::host::run(&home, input, output, log).await;
            Ok(if ended.is_ok() {
                Exit::Success
            } else {
                Exit::Failure
            })
        }
        BrowserCommand::Mcp => {
            let home = places(environment).config_home;
            let input = tokio::io::BufReader::new(tokio::io::stdin());
            lathe_browser::server::run(&home, input, tokio::io::stdout())
                .await
                .or_failure()?;
            Ok(Exit::Success)
        }
    }
}

fn install(environment: Environment, browser: Browser, id: &str) -> Outcome {
    let Some(home) = environment.home.clone() else {
        return Err(CliError::usage("there is no home folder").hint("set HOME"));
    };
    let program = program(&home)?;
    let places = places(environment);
    let written =
        lathe_browser::install::install(browser, id, &home, &places.config_home, &program);
    let [wrapper, manifest] = written.or_usage()?;
    let entry = json!({"command": program, "args": ["browser", "mcp"]});
    let settings =
        lathe_mcp::config::edit::add(&places, Scope::User, "browser", &entry).or_failure()?;
    print_line(&format!(
        "wrote {}\nwrote {}\nadded the MCP server `browser` to {}\nnow load the extension in the browser, open a site and allow it there",
        wrapper.display(),
        manifest.display(),
        settings.display()
    ))
}

/// The program that the browser starts: the link of a native installation, which outlives an update.
fn program(home: &std::path::Path) -> Result<PathBuf, CliError> {
    let own = std::env::current_exe().or_failure()?;
    let link = home.join(".local/bin/lathe");
    let same = std::fs::canonicalize(&link).ok() == std::fs::canonicalize(&own).ok();
    Ok(if same && link.exists() { link } else { own })
}
