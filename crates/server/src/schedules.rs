//! Durable scheduled prompts. A session fires those of its project; where none is there for a prompt that is due, the
//! server starts one in the background, which takes the project's scheduler lock and fires. So the server never fires
//! anything itself, and what holds for sessions holds here: no fire is lost, and none comes twice.

use crate::serve::Options;
use jiff::Timestamp;
use lathe_session::{Scope, SessionStore};
use lathe_settings::Places;
use lathe_settings::trust_store::TrustStore;
use lathe_tools::schedule::{JobsFile, is_waiting, zone};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How often projects are looked at: jobs come and go meanwhile.
const LOOK: Duration = Duration::from_secs(30);
/// The least pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a session that was started has to take the lock.
const START: Duration = Duration::from_secs(60);
/// How many sessions are looked through for projects.
const SESSIONS: usize = 500;

/// Starts sessions for jobs until the server ends.
pub(crate) async fn watch(options: Options, stop: CancellationToken) {
    let mut started: HashMap<PathBuf, Instant> = HashMap::new();
    loop {
        let looking = {
            let options = options.clone();
            lathe_spawn::blocking(move || look(&options, Timestamp::now()))
        };
        let Ok(found) = looking.await else { return };
        started.retain(|_, at| at.elapsed() < START);
        for project in found.waiting {
            if started.contains_key(&project) {
                continue;
            }
            started.insert(project.clone(), Instant::now());
            if let Err(error) = crate::start::in_background(&options, &project, &[]).await {
                tracing::warn!(project = %project.display(), %error, "no session for a scheduled prompt");
            }
        }
        let pause = found.next.map_or(LOOK, |next| {
            let left = next.duration_since(Timestamp::now());
            Duration::try_from(left).unwrap_or(PAUSE)
        });
        tokio::select! {
            () = tokio::time::sleep(pause.clamp(PAUSE, LOOK)) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Projects that need a session now, and when the next job is due in one that has none.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    waiting: Vec<PathBuf>,
    next: Option<Timestamp>,
}

fn look(options: &Options, now: Timestamp) -> Found {
    let variables = &options.environment.variables;
    let variable = |name: &str| variables.get(name).map(String::as_str);
    let zone = zone(variable("TZ"), variable("TZDIR"));
    let mut found = Found::default();
    for project in projects(options) {
        let file = JobsFile::of_project(&project, &options.config_home);
        match is_waiting(&file, now, &zone) {
            Ok((true, _)) => found.waiting.push(project),
            Ok((false, next)) => found.next = found.next.into_iter().chain(next).min(),
            // The next session there says what is wrong with it.
            Err(error) => tracing::debug!(%error, "scheduled prompts can't be read"),
        }
    }
    found
}

/// The trusted projects with sessions that have durable jobs.
fn projects(options: &Options) -> BTreeSet<PathBuf> {
    let sessions = SessionStore::new(&options.config_home);
    let sessions = sessions.list(Scope::Everywhere, Some(SESSIONS));
    let trust = TrustStore::new(&Places::new(options.environment.clone()));
    let trusted = trust.list().unwrap_or_default();
    let folders: BTreeSet<PathBuf> = sessions
        .into_iter()
        .filter_map(|session| session.cwd)
        .chain(trusted.into_keys().map(PathBuf::from))
        .filter(|folder| folder.is_dir())
        .collect();
    folders
        .into_iter()
        .map(|folder| project_of(options, &folder))
        .filter(|project| has_jobs(project) && trust.is_trusted(project))
        .collect()
}

fn project_of(options: &Options, folder: &Path) -> PathBuf {
    let mut environment = options.environment.clone();
    folder.clone_into(&mut environment.cwd);
    Places::new(environment).project
}

fn has_jobs(project: &Path) -> bool {
    [".lathe", ".claude"]
        .iter()
        .any(|folder| project.join(folder).join("scheduled_tasks.json").is_file())
}
