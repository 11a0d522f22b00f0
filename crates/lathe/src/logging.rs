//! The debug log. Off unless asked for: a clean run leaves standard error empty.

use crate::arguments::SessionArguments;
use crate::error::{CliError, Kinded as _};
use lathe_settings::paths::config_home;
use lathe_settings::{Environment, Variable};
use std::io::IsTerminal as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Mutex;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Starts the log if a flag or `LATHE_LOG` enables it. Panics are logged too: they are contained where they
/// happen and must not write over the output of a face.
pub(crate) fn start(
    arguments: &SessionArguments,
    environment: &Environment,
) -> Result<(), CliError> {
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!("{panic}");
    }));
    let variable = environment.get(Variable::Log).map(str::to_owned);
    let flags = &arguments.log;
    let enabled = flags.debug.is_some()
        || flags.debug_to_stderr
        || flags.debug_file.is_some()
        || variable.is_some();
    if !enabled {
        return Ok(());
    }
    let filter = flags
        .debug
        .clone()
        .filter(|text| !text.is_empty())
        .or(variable)
        .unwrap_or_else(|| "lathe=debug,lathe_engine=debug,lathe_model=debug,lathe_session=debug,lathe_tools=debug,lathe_shell=debug,lathe_hooks=debug,lathe_permissions=debug,lathe_settings=debug".to_owned());
    let filter = EnvFilter::try_new(&filter).map_err(|error| {
        CliError::usage(format!("--debug: '{filter}' is not a log filter: {error}"))
            .hint("a filter looks like lathe_model=debug,lathe_tools=trace")
    })?;
    let named = flags.debug_file.clone().or_else(|| {
        let path = environment.get(Variable::LogFile)?;
        Some(environment.resolve(path))
    });
    // In the interactive terminal, a log on standard error would be drawn over the screen.
    let drawn = !arguments.output.print && std::io::stderr().is_terminal();
    let file = named.or_else(|| drawn.then(|| config_home(environment).join("debug.log")));
    let writer = match &file {
        Some(path) => {
            let file = path
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| {
                    std::fs::File::options()
                        .create(true)
                        .append(true)
                        .mode(0o600)
                        .open(path)
                })
                .map_err(|error| {
                    let path = path.display();
                    CliError::usage(format!("the log file {path} can't be written: {error}"))
                })?;
            BoxMakeWriter::new(Mutex::new(file))
        }
        None => BoxMakeWriter::new(lathe_headless::output::Terminal::stderr),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(false)
        .try_init()
        .or_usage()
        .map_err(|error| error.about("the log can't be started"))
}
