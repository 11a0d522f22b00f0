//! `lathe fleet worker`.

use super::super::{print, stopped_by_signals, teleport};
use super::refuse_sessions;
use crate::error::{CliError, Kinded as _, Outcome};
use clap::Args;
use lathe_fleet::Fleet;
use lathe_fleet::backend::Wanted;
use lathe_fleet::job::is_word;
use lathe_fleet::worker::{self, Allowed, Times, WorkerOptions};
use lathe_headless::exit::Exit;
use lathe_settings::Places;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

// `lathe fleet worker`.
#[derive(Debug, Args)]
pub(crate) struct WorkerArguments {
    /// Number of jobs to run at a time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    slots: u16,
    /// The class of jobs to take. Repeatable.
    #[arg(long, value_name = "CLASS", default_value = "default")]
    class: Vec<String>,
    /// Its labels, separated by commas.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    labels: Vec<String>,
    /// Variables that jobs may request by name (`--secret`), separated by commas.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    secrets: Vec<String>,
    /// Its name. Default: from the names of machine and process.
    #[arg(long)]
    name: Option<String>,
    /// Exit when no job is queued or running.
    #[arg(long)]
    until_empty: bool,
    #[command(flatten)]
    times: TimesArguments,
    /// The folder for the files of jobs. Default: ~/.cache/lathe-fleet.
    #[arg(long, value_name = "FOLDER")]
    work: Option<PathBuf>,
    /// Let jobs switch the sandbox off.
    #[arg(long)]
    allow_no_sandbox: bool,
    /// Let jobs bypass permissions.
    #[arg(long)]
    allow_bypass: bool,
}

// The times of the protocol.
#[derive(Debug, Args)]
struct TimesArguments {
    /// Seconds after which an unresponsive worker loses its job. Must exceed a failover of the servers.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    lease: u64,
    /// Seconds after which a job with an open question gives up its slot.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    park_after: u64,
    /// Seconds between snapshots of a job's files.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    snapshot_every: u64,
    /// Seconds between SIGTERM and handing over running jobs.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: u64,
}

pub(super) async fn run(places: &Places, fleet: Fleet, arguments: WorkerArguments) -> Outcome {
    refuse_sessions(places, &fleet).await?;
    let options = options(places, arguments)?;
    let stop = stopped_by_signals()?;
    print(&format!(
        "{} is taking jobs from {}\n",
        options.name,
        fleet.backend().describe()
    ))?;
    let report = Arc::new(|line: &str| {
        // A reader that went away does not end the worker.
        let _ = print(&format!("{line}\n"));
    });
    let summary = worker::run(fleet, options, stop, report)
        .await
        .or_failure()?;
    let [done, other] = [&summary.done, &summary.other].map(|it| it.load(Ordering::Relaxed));
    print(&format!(
        "stopped: {done} jobs succeeded, {other} did not\n"
    ))?;
    Ok(Exit::Success)
}

fn options(places: &Places, arguments: WorkerArguments) -> Result<WorkerOptions, CliError> {
    for word in arguments
        .class
        .iter()
        .chain(&arguments.labels)
        .chain(&arguments.name)
    {
        if !is_word(word) {
            return Err(CliError::usage(format!(
                "{word:?} must be at most 64 letters, digits, _ and -"
            )));
        }
    }
    let host = teleport::host();
    let name = arguments.name.unwrap_or_else(|| {
        let host = host.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        let host: String = host.trim_start_matches('-').chars().take(40).collect();
        let suffix = &uuid::Uuid::new_v4().simple().to_string()[..6];
        format!("{host}-{}-{suffix}", std::process::id())
    });
    let home = places.environment.home.clone();
    let work = match (arguments.work, home) {
        (Some(work), _) => places.environment.cwd.join(work),
        (None, Some(home)) => home.join(".cache/lathe-fleet"),
        (None, None) => return Err(CliError::failure("there is no home folder").hint("set --work")),
    };
    let seconds = Duration::from_secs;
    Ok(WorkerOptions {
        name,
        host,
        slots: arguments.slots.into(),
        wanted: Wanted {
            classes: arguments.class,
            labels: arguments.labels,
            secrets: arguments.secrets,
            lease: seconds(arguments.times.lease),
        },
        times: Times {
            lease: seconds(arguments.times.lease),
            park_after: seconds(arguments.times.park_after),
            snapshot: seconds(arguments.times.snapshot_every),
            grace: seconds(arguments.times.grace),
        },
        allowed: Allowed {
            no_sandbox: arguments.allow_no_sandbox,
            bypass: arguments.allow_bypass,
        },
        work,
        program: std::env::current_exe().or_failure()?,
        config_home: places.config_home.clone(),
        until_empty: arguments.until_empty,
    })
}
