//! `lathe fleet`: agents as jobs, on this machine or on many.

pub(crate) mod agents;
mod answer;
mod attach;
mod board;
mod budget;
mod cancel;
mod doctor;
mod fetch;
mod init;
mod logs;
mod ls;
pub(crate) mod page;
mod retry;
mod show;
mod submit;
mod worker;

use super::places;
use crate::error::{CliError, Kinded as _, Outcome};
use clap::{Args, Subcommand};
use lathe_fleet::backend::WorkerInfo;
use lathe_fleet::job::JobKey;
use lathe_fleet::{Fleet, Folders};
use lathe_settings::schema::FleetSettings;
use lathe_settings::{Environment, Places};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

// `lathe fleet`.
#[derive(Debug, Args)]
pub(crate) struct FleetArguments {
    #[command(subcommand)]
    command: FleetCommand,
    /// The NATS servers of the fleet, separated by commas. Default: the setting `fleet.url`, else this machine.
    #[arg(long, value_name = "URL", global = true)]
    nats: Option<String>,
    /// Use the queue of this machine; overrides settings.
    #[arg(long, global = true, conflicts_with = "nats")]
    local: bool,
    /// A file with the credentials of a NATS user.
    #[arg(long, value_name = "FILE", global = true, requires = "nats")]
    nats_credentials: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum FleetCommand {
    /// Submit a job, or many from a file of JSON lines; prints their ids.
    Submit(Box<submit::SubmitArguments>),
    /// Take jobs and run them, until SIGTERM or Ctrl-C.
    Worker(worker::WorkerArguments),
    /// List jobs.
    Ls(ls::LsArguments),
    /// Show a job: its state, questions and result.
    Show(show::ShowArguments),
    /// Print the conversation of a job.
    Logs(logs::LogsArguments),
    /// Follow a running job, answer its questions and talk to it.
    Attach(attach::AttachArguments),
    /// Answer the open question of a job.
    Answer(answer::AnswerArguments),
    /// Cancel jobs.
    Cancel(cancel::CancelArguments),
    /// Queue failed or cancelled jobs again, from the start.
    Retry(retry::RetryArguments),
    /// Write the results of jobs to files: changes, answer, transcript.
    Fetch(fetch::FetchArguments),
    /// Show all jobs on one screen.
    Board,
    /// Check the queue, the workers and the jobs, and print fixes.
    Doctor(doctor::DoctorArguments),
    /// Print configuration for NATS servers, and files that start workers: systemd, Docker Compose, Kubernetes.
    Init(init::InitArguments),
    /// Show or set the budget and concurrency of a tenant.
    Budget(budget::BudgetArguments),
}

/// `lathe fleet`.
pub(crate) async fn run(environment: Environment, arguments: FleetArguments) -> Outcome {
    let places = places(environment);
    if let FleetCommand::Init(init) = &arguments.command {
        return init::run(&places, init);
    }
    let fleet = open(&places, &arguments).await?;
    match arguments.command {
        FleetCommand::Init(init) => init::run(&places, &init),
        FleetCommand::Submit(submit) => submit::run(&places, &fleet, *submit).await,
        FleetCommand::Worker(worker) => worker::run(&places, fleet, worker).await,
        FleetCommand::Ls(ls) => ls::run(&fleet, &ls).await,
        FleetCommand::Show(show) => show::run(&fleet, &show).await,
        FleetCommand::Logs(logs) => logs::run(&fleet, &logs).await,
        FleetCommand::Attach(attach) => attach::run(&places, &fleet, &attach).await,
        FleetCommand::Answer(answer) => answer::run(&places, &fleet, answer).await,
        FleetCommand::Cancel(cancel) => cancel::run(&fleet, &cancel).await,
        FleetCommand::Retry(retry) => retry::run(&places, &fleet, &retry).await,
        FleetCommand::Fetch(fetch) => fetch::run(&places, &fleet, &fetch).await,
        FleetCommand::Board => board::run(&fleet).await,
        FleetCommand::Doctor(doctor) => doctor::run(&fleet, &doctor).await,
        FleetCommand::Budget(budget) => budget::run(&places, &fleet, &budget).await,
    }
}

async fn open(places: &Places, arguments: &FleetArguments) -> Result<Fleet, CliError> {
    if let Some(url) = &arguments.nats {
        let credentials = arguments.nats_credentials.as_ref();
        let credentials = credentials.map(|file| places.environment.cwd.join(file));
        return servers(url, credentials.as_deref()).await;
    }
    if arguments.local {
        return of_this_machine(places);
    }
    open_configured(places).await
}

fn of_this_machine(places: &Places) -> Result<Fleet, CliError> {
    let folders = Folders::open(&places.config_home.join("fleet")).or_failure()?;
    Ok(Fleet::new(folders))
}

/// The fleet of the settings, else the one of this machine.
async fn open_configured(places: &Places) -> Result<Fleet, CliError> {
    if let Some(settings) = configured(places)
        && let Some(url) = &settings.url
    {
        let credentials = settings.credentials.as_deref();
        let credentials = credentials.map(|file| in_home(places, file));
        return servers(url, credentials.as_deref()).await.map_err(|error| {
            error.hint(
                "the address comes from the setting `fleet.url`; `--local` uses the queue of this machine",
            )
        });
    }
    of_this_machine(places)
}

/// The setting `fleet`, which the files of a folder can't choose.
fn configured(places: &Places) -> Option<FleetSettings> {
    let options = super::load_options(places, &[], None);
    lathe_settings::load(places, &options).settings.fleet
}

fn in_home(places: &Places, file: &str) -> PathBuf {
    let home = places.environment.home.clone().unwrap_or_default();
    home.join(file.strip_prefix("~/").unwrap_or(file))
}

#[cfg(feature = "fleet")]
async fn servers(url: &str, credentials: Option<&Path>) -> Result<Fleet, CliError> {
    let options = lathe_fleet::NatsOptions {
        url: url.to_owned(),
        credentials: credentials.map(Path::to_owned),
        replicas: None,
        prefix: "lathe".to_owned(),
    };
    let connected = Box::pin(lathe_fleet::Nats::connect(options)).await;
    Ok(Fleet::new(connected.or_failure()?))
}

#[cfg(not(feature = "fleet"))]
async fn servers(_: &str, _: Option<&Path>) -> Result<Fleet, CliError> {
    Err(CliError::usage("this build has no NATS support")
        .hint("use a released program, or build with `--features fleet`"))
}

/// The job that a text names: an id, or the beginning of one.
async fn find(fleet: &Fleet, wanted: &str) -> Result<JobKey, CliError> {
    let keys = fleet.backend().keys().await.or_failure()?;
    let mut found: Vec<JobKey> = keys
        .into_iter()
        .filter(|key| key.id.starts_with(wanted))
        .collect();
    if let Some(at) = found.iter().position(|key| key.id == wanted) {
        return Ok(found.swap_remove(at));
    }
    match found.as_slice() {
        [_] => Ok(found.swap_remove(0)),
        [] => Err(CliError::failure(format!("there is no job {wanted:?}"))
            .hint("`lathe fleet ls` lists the jobs")),
        several => Err(CliError::usage(format!(
            "{wanted:?} is a prefix of {} job ids",
            several.len()
        ))
        .hint("give a longer prefix")),
    }
}

/// Commands of a session must not submit or answer: the model would give itself permissions with it.
async fn refuse_sessions(places: &Places, fleet: &Fleet) -> Result<(), CliError> {
    let host = super::teleport::host();
    let workers = fleet.backend().workers().await.or_failure()?;
    let workers = workers.iter().filter(|worker| worker.host == host);
    let pid = |worker: &WorkerInfo| i32::try_from(worker.pid).ok();
    let mut pids: HashSet<i32> = workers.filter_map(pid).collect();
    let hosts = lathe_wire::Folder::of(&places.environment).all_hosts();
    pids.extend(hosts.unwrap_or_default().iter().map(|host| host.pid));
    let this = lathe_wire::peer::Peer {
        uid: lathe_wire::folder::own_uid(),
        pid: i32::try_from(std::process::id()).ok(),
    };
    lathe_wire::peer::judge(this, &pids)
        .map(|_| ())
        .map_err(|why| {
            CliError::failure(format!("a command of a session can't do this ({why})"))
                .hint("run it in a terminal of your own")
        })
}

/// The time since a moment, in words.
fn age(now: i64, at: i64) -> String {
    let seconds = (now - at).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Text for a terminal, on one line.
fn clean(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    lathe_protocol::printable::clean(line)
        .chars()
        .take(most)
        .collect()
}
