//! `lathe doctor`: problems of the installation and its configuration, with fixes.

use super::{exit_if, print, setting_sources};
use crate::error::Outcome;
use clap::Args;
use lathe_doctor::{DoctorOptions, TerminalFacts, diagnose};
use lathe_settings::Environment;
use std::io::IsTerminal as _;
use std::path::PathBuf;

// `lathe doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Do not start MCP servers.
    #[arg(long)]
    no_connect: bool,
    /// A settings file, or settings as JSON. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON")]
    settings: Vec<String>,
    /// Settings files to load: user, project, local, separated by commas.
    #[arg(long, value_name = "LIST")]
    setting_sources: Option<String>,
    /// A folder with a plugin. Repeatable.
    #[arg(long, value_name = "FOLDER")]
    plugin_dir: Vec<PathBuf>,
    /// MCP servers: JSON with "mcpServers", or a file with it. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON")]
    mcp_config: Vec<String>,
}

/// `lathe doctor`.
pub(crate) async fn run(environment: Environment, arguments: DoctorArguments) -> Outcome {
    let setting_sources = setting_sources(arguments.setting_sources.as_deref())?;
    let options = DoctorOptions {
        settings_flags: arguments.settings,
        setting_sources,
        plugin_folders: arguments.plugin_dir,
        mcp_configs: arguments.mcp_config,
        connect_servers: !arguments.no_connect,
        terminal: TerminalFacts {
            is_terminal: std::io::stdout().is_terminal(),
            size: size(),
        },
    };
    let diagnosis = diagnose(&environment, &options).await;
    print(&if arguments.json {
        format!("{:#}\n", diagnosis.to_json())
    } else {
        diagnosis.to_text()
    })?;
    Ok(exit_if(diagnosis.is_healthy()))
}

/// Columns and rows of the terminal.
fn size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(std::io::stdin()).ok()?;
    // A terminal of unknown size reports zeros.
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}
