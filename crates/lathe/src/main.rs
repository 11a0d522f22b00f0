//! The binary: parses the command line, runs the command, prints its error and sets the exit code.
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod demo;
mod error;
mod logging;
mod offer;
mod options;
mod prompt;
mod run;
mod stray;

use arguments::{Arguments, Command, SessionArguments};
use clap::{CommandFactory as _, Parser as _};
use commands::context::SessionReport;
use error::{CliError, Kinded as _, Outcome};
use lathe_headless::exit::Exit;
use lathe_settings::Environment;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    // As the helper inside a sandbox, this is another program.
    #[cfg(target_os = "linux")]
    {
        let mut words = std::env::args_os().skip(1);
        if words
            .next()
            .is_some_and(|word| word == lathe_sandbox::HELPER_WORD)
        {
            return ExitCode::from(u8::try_from(lathe_sandbox::helper(words)).unwrap_or(1));
        }
        lathe_sandbox::offer_helper();
    }
    // Answered before anything is set up: scripts ask for the version often.
    let mut words = std::env::args_os().skip(1);
    if let (Some(first), None) = (words.next(), words.next())
        && (first == "--version" || first == "-V" || first == "-v")
    {
        let _ = writeln!(std::io::stdout(), "lathe {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::try_parse_from(arguments::with_overrides(std::env::args_os()))
    {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Success
            };
            return ExitCode::from(exit.code());
        }
    };
    let exit = run_command(arguments).unwrap_or_else(|error| {
        error.print();
        error.exit()
    });
    // Processes that a session started end with it.
    lathe_shell::run::kill_everything(std::time::Duration::from_millis(200));
    lathe_sandbox::remove_everything();
    ExitCode::from(exit.code())
}

fn run_command(arguments: Arguments) -> Outcome {
    let environment = || {
        Environment::of_process().map_err(|error| {
            CliError::failure(format!("the working folder can't be read: {error}"))
                .hint("change into a folder that exists")
        })
    };
    let Some(command) = arguments.command else {
        stray::check(&arguments.session)?;
        return run_session(environment()?, arguments.session);
    };
    match command {
        Command::Demo(demo) => in_runtime(demo::run(environment()?, demo)),
        Command::Sessions(sessions) => commands::sessions::run(&environment()?, sessions.command),
        Command::Config(config) => commands::config::run(environment()?, config),
        Command::Trust(trust) => commands::config::trust(environment()?, trust),
        Command::Hooks(hooks) => commands::hooks::run(environment()?, hooks),
        Command::Permissions(permissions) => {
            commands::permissions::run(environment()?, permissions.command)
        }
        Command::Sandbox(sandbox) => in_runtime(commands::sandbox::run(environment()?, sandbox)),
        Command::Plugin(plugin) => in_runtime(commands::plugin::run(environment()?, plugin)),
        Command::Mcp(mcp) => in_runtime(commands::mcp::run(environment()?, mcp)),
        Command::Doctor(doctor) => in_runtime(commands::doctor::run(environment()?, doctor)),
        Command::Models(models) => in_runtime(commands::models::run(environment()?, models)),
        Command::Login(login) => commands::models::login(environment()?, &login),
        Command::Logout(logout) => commands::models::logout(environment()?, &logout),
        Command::Status => commands::models::status(environment()?),
        Command::Agents(agents) => commands::agents::run(environment()?, agents),
        Command::Skills(skills) => commands::skills::run(environment()?, skills),
        Command::Acp => {
            let (environment, session) = (environment()?, arguments.session);
            logging::start(&session, &environment)?;
            in_runtime(run::acp(environment, session))
        }
        Command::Debug(debug) => in_runtime(commands::debug::run(environment()?, debug.command)),
        Command::Report(report) => match report {
            SessionReport::Context(session) => {
                in_runtime(commands::context::context(environment()?, session))
            }
            SessionReport::Cost(session) => commands::context::cost(&environment()?, &session),
            SessionReport::Memory(memory) => commands::memory::run(environment()?, memory),
            SessionReport::Suggest(suggest) => {
                in_runtime(commands::suggest::run(environment()?, suggest))
            }
        },
        Command::Completions { shell } => {
            let mut page = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "lathe", &mut page);
            commands::print_bytes(&page)
        }
        Command::Man => {
            let mut page = Vec::new();
            let man = clap_mangen::Man::new(Arguments::command());
            man.render(&mut page).or_failure()?;
            commands::print_bytes(&page)
        }
    }
}

/// Starts a session: the terminal, print mode, or the SDK protocol.
fn run_session(environment: Environment, arguments: SessionArguments) -> Outcome {
    logging::start(&arguments, &environment)?;
    if run::output_never_blocks(&arguments) {
        in_one_thread(run::run(environment, arguments))
    } else {
        in_runtime(run::run(environment, arguments))
    }
}

/// Runs a future on a small runtime: most of the work is waiting.
fn in_runtime(work: impl Future<Output = Outcome>) -> Outcome {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    block_on(runtime.worker_threads(2), work)
}

/// Runs a future on this thread alone. Disk and process waits have their own threads, and passing the rest
/// from thread to thread would take longer than doing it.
fn in_one_thread(work: impl Future<Output = Outcome>) -> Outcome {
    block_on(&mut tokio::runtime::Builder::new_current_thread(), work)
}

fn block_on(runtime: &mut tokio::runtime::Builder, work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = runtime
        .enable_all()
        .build()
        .map_err(|error| CliError::failure(format!("the runtime can't be started: {error}")))?;
    let entered = runtime.enter();
    survive_file_size_limit();
    drop(entered);
    let outcome = runtime.block_on(work);
    // Abandoned blocking work must not delay the exit.
    runtime.shutdown_background();
    outcome
}

/// Turns a write beyond `ulimit -f` into an error of that write; without a handler, SIGXFSZ ends the process.
/// Child processes start with the default action.
fn survive_file_size_limit() {
    use nix::sys::signal::Signal;
    use tokio::signal::unix::{SignalKind, signal};
    // The handler stays installed when the listener is dropped.
    drop(signal(SignalKind::from_raw(Signal::SIGXFSZ as i32)));
}
