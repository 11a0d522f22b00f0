//! The durable jobs of a project: a file in the project, and two locks in the configuration folder. One is held for
//! each change, the other by the session that fires the jobs.

use super::{Job, ScheduleError};
use lathe_session::paths::file_stem_of;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Characters of a project's folder in the name of its locks.
const MOST_OF_NAME: usize = 200;

/// The file of the jobs.
#[derive(Debug)]
pub struct JobsFile {
    path: PathBuf,
    /// The file of another program with the same jobs; each of its jobs is taken over once.
    foreign: PathBuf,
    locks: PathBuf,
    lead: Mutex<Option<File>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    tasks: Vec<Job>,
    /// Ids of jobs that were taken over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taken: Vec<String>,
}

impl JobsFile {
    /// The jobs of a project. `locks` is the folder for its locks.
    #[must_use]
    pub fn new(project: &Path, locks: PathBuf) -> Self {
        Self {
            path: project.join(".lathe/scheduled_tasks.json"),
            foreign: project.join(".claude/scheduled_tasks.json"),
            locks,
            lead: Mutex::new(None),
        }
    }

    /// The jobs of a project, with its locks in the configuration folder.
    #[must_use]
    pub fn of_project(project: &Path, config_home: &Path) -> Self {
        let name = file_stem_of(&project.display().to_string(), MOST_OF_NAME);
        Self::new(project, config_home.join("schedules").join(name))
    }

    fn failed(&self, source: std::io::Error) -> ScheduleError {
        ScheduleError::File {
            path: self.path.clone(),
            source,
        }
    }

    /// The jobs.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn read(&self) -> Result<Vec<Job>, ScheduleError> {
        Ok(self.load()?.tasks)
    }

    fn load(&self) -> Result<Kept, ScheduleError> {
        let mut kept = load(&self.path).map_err(|error| self.failed(error))?;
        // A file of another program that can't be read is that program's problem.
        for job in load(&self.foreign).unwrap_or_default().tasks {
            if !kept.taken.contains(&job.id) {
                kept.taken.push(job.id.clone());
                kept.tasks.push(job);
            }
        }
        for job in &mut kept.tasks {
            job.durable = true;
        }
        Ok(kept)
    }

    /// Changes the jobs, as a whole or not at all.
    ///
    /// # Errors
    /// When the file can't be used; then nothing is changed.
    pub fn change<T>(&self, change: impl FnOnce(&mut Vec<Job>) -> T) -> Result<T, ScheduleError> {
        let failed = |source| self.failed(source);
        let lock = self.lock_file("jobs.lock").map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut kept = self.load()?;
        let value = change(&mut kept.tasks);
        let bytes = serde_json::to_vec_pretty(&kept)
            .map_err(|error| failed(std::io::Error::other(error)))?;
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        lathe_session::paths::write_private_file(&self.path, &bytes)
            .map_err(|error| failed(std::io::Error::other(error.to_string())))?;
        Ok(value)
    }

    fn lock_file(&self, name: &str) -> std::io::Result<File> {
        std::fs::create_dir_all(&self.locks)?;
        File::create(self.locks.join(name))
    }

    /// Takes the lock of the session that fires the jobs, if it is free. It is held until the session ends.
    pub(super) fn take_lead(&self) -> bool {
        let mut lead = self.lead.lock();
        if lead.is_none()
            && let Ok(file) = self.lock_file("lead.lock")
            && file.try_lock().is_ok()
        {
            *lead = Some(file);
        }
        lead.is_some()
    }

    /// Whether some session fires the jobs, this one or another.
    #[must_use]
    pub fn is_led(&self) -> bool {
        let lock = File::open(self.locks.join("lead.lock"));
        self.leads() || lock.is_ok_and(|lock| lock.try_lock_shared().is_err())
    }

    /// Whether this session fires the jobs.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.lead.lock().is_some()
    }
}

fn load(path: &Path) -> std::io::Result<Kept> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(std::io::Error::other),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Kept::default()),
        Err(error) => Err(error),
    }
}
