//! The door: reads the command line and hands over. No logic of its own.
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod demo;
mod logging;
mod run;

use arguments::{Arguments, Command};
use clap::{CommandFactory as _, Parser as _};
use commands::context::LookCommand;
use lathe_headless::exit::Exit;
use lathe_settings::Environment;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Answered before anything else is set up: scripts ask often.
    let mut words = std::env::args_os().skip(1);
    if let (Some(first), None) = (words.next(), words.next())
        && (first == "--version" || first == "-V")
    {
        let _ = writeln!(std::io::stdout(), "lathe {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            let code = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Success
            };
            return ExitCode::from(code.code());
        }
    };
    let exit = enter(arguments);
    // Whatever a session left running ends with it.
    lathe_shell::run::kill_everything(std::time::Duration::from_millis(200));
    ExitCode::from(exit.code())
}

fn enter(arguments: Arguments) -> Exit {
    match arguments.command {
        Some(Command::Completions { shell }) => {
            clap_complete::generate(
                shell,
                &mut Arguments::command(),
                "lathe",
                &mut std::io::stdout(),
            );
            return Exit::Success;
        }
        Some(Command::Man) => {
            let page = clap_mangen::Man::new(Arguments::command());
            return match page.render(&mut std::io::stdout()) {
                Ok(()) => Exit::Success,
                Err(_) => Exit::Failure,
            };
        }
        _ => {}
    }
    let environment = match Environment::of_process() {
        Ok(environment) => environment,
        Err(error) => {
            complain(&format!(
                "the working folder can't be read: {error}. Change into one that exists."
            ));
            return Exit::Failure;
        }
    };
    match arguments.command {
        Some(Command::Demo(demo)) => in_runtime(demo::run(environment, demo)),
        Some(Command::Sessions(sessions)) => {
            commands::sessions::run(&environment, sessions.command)
        }
        Some(Command::Config(config)) => commands::config::run(environment, config),
        Some(Command::Trust(trust)) => commands::config::trust(environment, trust),
        Some(Command::Hooks(hooks)) => commands::hooks::run(environment, hooks),
        Some(Command::Permissions(permissions)) => {
            commands::permissions::run(environment, permissions.command)
        }
        Some(Command::Plugin(plugin)) => in_runtime(commands::plugin::run(environment, plugin)),
        Some(Command::Mcp(mcp)) => in_runtime(commands::mcp::run(environment, mcp)),
        Some(Command::Doctor(doctor)) => in_runtime(commands::doctor::run(environment, doctor)),
        Some(Command::Agents(agents)) => commands::agents::run(environment, agents),
        Some(Command::Skills(skills)) => commands::skills::run(environment, skills),
        Some(Command::Debug(debug)) => in_runtime(commands::debug::run(environment, debug.command)),
        Some(Command::Look(look)) => match look {
            LookCommand::Context(look) => in_runtime(commands::context::context(environment, look)),
            LookCommand::Cost(look) => commands::context::cost(&environment, &look),
            LookCommand::Memory(memory) => commands::memory::run(environment, memory),
            LookCommand::Suggest(suggest) => {
                in_runtime(commands::suggest::run(environment, suggest))
            }
        },
        Some(Command::Completions { .. } | Command::Man) => Exit::Success,
        None => {
            if let Err(error) = logging::start(&arguments.session, &environment) {
                complain(&error);
                return Exit::Usage;
            }
            if run::writes_beside(&arguments.session) {
                in_one_thread(run::run(environment, arguments.session))
            } else {
                in_runtime(run::run(environment, arguments.session))
            }
        }
    }
}

/// Runs a future on a small runtime: most work is waiting.
fn in_runtime(work: impl Future<Output = Exit>) -> Exit {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    in_this(runtime.worker_threads(2), work)
}

/// Runs a future on this thread alone. What waits for a disk or a process has threads of its own, and
/// handing the rest from thread to thread would take longer than doing it.
fn in_one_thread(work: impl Future<Output = Exit>) -> Exit {
    in_this(&mut tokio::runtime::Builder::new_current_thread(), work)
}

fn in_this(runtime: &mut tokio::runtime::Builder, work: impl Future<Output = Exit>) -> Exit {
    match runtime.enable_all().build() {
        Ok(runtime) => {
            let entered = runtime.enter();
            survive_limits();
            drop(entered);
            let exit = runtime.block_on(work);
            // Abandoned blocking work must not hold up the exit.
            runtime.shutdown_background();
            exit
        }
        Err(error) => {
            complain(&format!("the runtime can't be started: {error}"));
            Exit::Failure
        }
    }
}

/// Says on standard error what is wrong.
/// A file that may grow no more (`ulimit -f`) is an error of whoever writes it, not the end of the process.
/// With a handler the system says so; children begin without it.
fn survive_limits() {
    use nix::sys::signal::Signal;
    use tokio::signal::unix::{SignalKind, signal};
    // The handler stays when nobody listens. Without one, things are as they were.
    drop(signal(SignalKind::from_raw(Signal::SIGXFSZ as i32)));
}

fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "lathe: {message}");
}
