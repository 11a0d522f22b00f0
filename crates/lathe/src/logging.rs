//! The debug log. Off unless asked for: a clean run leaves standard error empty.

use crate::arguments::SessionArguments;
use lathe_settings::Environment;
use lathe_settings::paths::config_home;
use std::io::IsTerminal as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Mutex;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Starts the log if it was asked for, by flag or by `LATHE_LOG`. Panics go to it as well: they are
/// contained where they happen and must not write into a face.
pub(crate) fn start(arguments: &SessionArguments, environment: &Environment) -> Result<(), String> {
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!("{panic}");
    }));
    let variable = environment.variable("LATHE_LOG").map(str::to_owned);
    let asked = arguments.debug.is_some()
        || arguments.debug_to_stderr
        || arguments.debug_file.is_some()
        || variable.is_some();
    if !asked {
        return Ok(());
    }
    let filter = arguments
        .debug
        .clone()
        .filter(|text| !text.is_empty())
        .or(variable)
        .unwrap_or_else(|| "lathe=debug,lathe_engine=debug,lathe_model=debug,lathe_session=debug,lathe_tools=debug,lathe_shell=debug,lathe_hooks=debug,lathe_permissions=debug,lathe_settings=debug".to_owned());
    let filter = EnvFilter::try_new(&filter)
        .map_err(|error| format!("--debug: '{filter}' is not a log filter: {error}"))?;
    let named = arguments.debug_file.clone().or_else(|| {
        let path = environment.variable("LATHE_LOG_FILE")?;
        Some(environment.resolve(path))
    });
    // Where the terminal is drawn, a log would be written into the picture.
    let drawn = !arguments.print && std::io::stderr().is_terminal();
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
                    format!("the log file {} can't be written: {error}", path.display())
                })?;
            BoxMakeWriter::new(Mutex::new(file))
        }
        None => BoxMakeWriter::new(std::io::stderr),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(false)
        .try_init()
        .map_err(|error| format!("the log can't be started: {error}"))
}
