//! The binary: parses the command line, runs the command, prints its error and sets the exit code.
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod demo;
mod error;
mod logging;
mod offer;
mod options;
mod profile;
mod prompt;
mod run;
mod stray;
mod telemetry;

use arguments::{Arguments, Command, OutputFormat, SessionArguments};
use clap::{CommandFactory as _, Parser as _};
use commands::attach::AttachArguments;
use commands::context::SessionReport;
use commands::hosts::HostsCommand;
use error::{CliError, Kinded as _, Outcome};
use lathe_settings::Environment;
use lathe_tui::Announce;
use std::io::IsTerminal as _;
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
        lathe_sandbox::hide_process();
    }
    profile::start();
    // Answered before anything is set up: scripts ask for the version often.
    let mut words = std::env::args_os().skip(1);
    if let (Some(first), None) = (words.next(), words.next())
        && (first == "--version" || first == "-V" || first == "-v")
    {
        let version = concat!("lathe ", env!("CARGO_PKG_VERSION"), "\n");
        return finished(commands::print_bytes(version.as_bytes()));
    }
    let arguments = match arguments::read(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => return finished(error::print_usage(&error)),
    };
    let exit = finished(run_command(arguments));
    // Processes that a session started end with it.
    lathe_shell::run::kill_everything(std::time::Duration::from_millis(200));
    lathe_sandbox::remove_everything();
    exit
}

/// Prints the error, if there is one.
fn finished(outcome: Outcome) -> ExitCode {
    let exit = outcome.unwrap_or_else(|error| {
        error.print();
        error.exit()
    });
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
        Command::Eval(eval) => in_runtime(commands::eval::run(environment()?, eval)),
        Command::Replay(replay) => in_runtime(commands::replay::run(environment()?, replay)),
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
        Command::Acp { login: true } => commands::models::sign_in(environment()?),
        Command::Acp { login: false } => {
            let (environment, session) = (environment()?, arguments.session);
            logging::start(&session, &environment)?;
            in_runtime(run::acp(environment, session))
        }
        Command::Review(review) => {
            let (environment, session) = (environment()?, arguments.session);
            logging::start(&session, &environment)?;
            in_runtime(commands::review::run(environment, session, review))
        }
        Command::Workflow(workflow) => {
            let (environment, session) = (environment()?, arguments.session);
            logging::start(&session, &environment)?;
            in_runtime(commands::workflow::run(environment, session, workflow))
        }
        Command::Browser(browser) => in_runtime(commands::browser::run(environment()?, browser)),
        Command::Import(import) => commands::import::run(environment()?, &import),
        Command::Serve(serve) => in_runtime(commands::serve::serve(environment()?, serve)),
        Command::Relay(relay) => in_runtime(commands::relay::relay(environment()?, relay)),
        Command::Web(web) => commands::serve::web(environment()?, &web),
        Command::Devices(devices) => commands::serve::devices(environment()?, devices),
        Command::Teleport(teleport) => commands::teleport::run(environment()?, teleport.command),
        Command::Fleet(fleet) => in_runtime(commands::fleet::run(environment()?, fleet)),
        Command::Update(update) => in_runtime(commands::update::update(environment()?, update)),
        Command::Install(install) => in_runtime(commands::update::install(environment()?, install)),
        Command::Uninstall(uninstall) => commands::update::uninstall(&environment()?, &uninstall),
        Command::Purge(purge) => commands::purge::run(environment()?, &purge),
        Command::Debug(debug) => in_runtime(commands::debug::run(environment()?, debug.command)),
        Command::Hosts(hosts) => run_hosts(environment()?, hosts),
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

/// Runs a command about running sessions.
fn run_hosts(environment: Environment, command: HostsCommand) -> Outcome {
    match command {
        HostsCommand::Ps(ps) => commands::hosts::ps(&environment, &ps),
        HostsCommand::Attach(attach) => run_attach(environment, attach),
        HostsCommand::Board => in_runtime(commands::board::run(environment)),
        HostsCommand::Logs(logs) => in_runtime(commands::hosts::logs(environment, logs)),
        HostsCommand::Stop(stop) => in_runtime(commands::hosts::stop(environment, stop)),
        HostsCommand::Rm(rm) => commands::hosts::rm(&environment, &rm),
    }
}

/// Attaches to a session. One that does not run is resumed in the background; then this process attaches to it.
fn run_attach(environment: Environment, attach: AttachArguments) -> Outcome {
    let folder = lathe_wire::Folder::of(&environment);
    if attach.place()?.is_some() {
        return in_runtime(commands::attach::run(environment, attach));
    }
    let wanted = attach.wanted(&folder)?;
    if folder.find(&wanted)?.is_some() {
        return in_runtime(commands::attach::run(environment, attach));
    }
    let session = commands::hosts::resumable(&environment, &wanted)?;
    if attach.stdio {
        let id = Some(commands::attach::resumed(&session)?);
        let attach = AttachArguments { id, stdio: true };
        return in_runtime(commands::attach::run(environment, attach));
    }
    let words = ["lathe", "--bg", "--resume", &session];
    let arguments =
        Arguments::try_parse_from(words).map_err(|error| CliError::failure(error.to_string()))?;
    start_session(environment, arguments.session, Announce::Attach)
}

/// Starts a session: the terminal, print mode, or the SDK protocol.
fn run_session(environment: Environment, arguments: SessionArguments) -> Outcome {
    let announce = match arguments.output.output_format {
        OutputFormat::Json | OutputFormat::StreamJson => Announce::Json,
        OutputFormat::Text if std::io::stdout().is_terminal() => Announce::Words,
        OutputFormat::Text => Announce::Id,
    };
    start_session(environment, arguments, announce)
}

fn start_session(
    environment: Environment,
    arguments: SessionArguments,
    announce: Announce,
) -> Outcome {
    #[cfg(target_os = "linux")]
    if arguments.output.end_with_parent {
        use rustix::process::{Signal, set_parent_process_death_signal};
        set_parent_process_death_signal(Some(Signal::KILL)).or_failure()?;
    }
    // Before there are threads: only one survives in the new process.
    let place = run::Place::choose(&environment, &arguments, announce)?;
    profile::checkpoint(
        &environment,
        "the command line and the environment are read",
    );
    logging::start(&arguments, &environment)?;
    let _running = lathe_update::lock::running(&environment);
    if run::output_never_blocks(&arguments) && !arguments.session.bg {
        in_one_thread(run::run(environment, arguments, place))
    } else {
        in_runtime(run::run(environment, arguments, place))
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
