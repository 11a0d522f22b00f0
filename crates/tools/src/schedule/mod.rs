//! Prompts that come by themselves: at the times of a cron expression, or once after a while.
//!
//! [`Schedule`] keeps the jobs. Those of the session live in memory; durable ones live in
//! `.lathe/scheduled_tasks.json` of the project and are fired by the one session that holds the project's scheduler
//! lock; where none does, `lathe serve` starts one for a job that is due ([`is_waiting`]). Before a durable job fires, the file names the record that its prompt becomes; a session that finds such a
//! note looks for that record, so that a fire is neither lost nor doubled when a process is killed.

mod expression;
mod job;
mod jobs_file;
mod zone;

pub use expression::{CronError, CronExpression};
pub use job::{Firing, Job, When};
pub use jobs_file::JobsFile;
pub use zone::zone;

use futures::future::BoxFuture;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use lathe_protocol::ids::RecordId;
use lathe_protocol::permission::PermissionMode;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Notify;

/// Jobs of one session and project together.
pub const MOST_JOBS: usize = 50;
/// Recurring jobs end after this time.
pub const LIFE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Tells the time, and waits for one.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
    /// Waits until a moment has come.
    fn until(&self, moment: Timestamp) -> BoxFuture<'_, ()>;
}

/// The clock of the computer.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn until(&self, moment: Timestamp) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let left = moment.duration_since(Timestamp::now());
            tokio::time::sleep(left.try_into().unwrap_or_default()).await;
        })
    }
}

/// Why a job can't be kept.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The expression.
    #[error("The cron expression is wrong: {0}.")]
    Cron(#[from] CronError),
    /// Nothing would be asked.
    #[error("prompt is empty.")]
    NoPrompt,
    /// There are enough.
    #[error("There are already {MOST_JOBS} jobs, the maximum; delete some with CronDelete.")]
    Full,
    /// The session ends with its answer.
    #[error(
        "This session ends with its answer, so a job of its own would never fire. durable: true keeps it for the next session in this project."
    )]
    SessionEnds,
    /// Durable jobs can't be kept here.
    #[error(
        "Durable jobs need a project folder that the user trusts (`lathe trust add`). Without durable the job lives as long as the session."
    )]
    NoFile,
    /// No job has this id.
    #[error("There is no job {id}.{}", known(ids))]
    NoJob {
        /// The id.
        id: String,
        /// The ids that there are.
        ids: Vec<String>,
    },
    /// The file.
    #[error("The jobs in {} can't be used: {source}.", path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

fn known(ids: &[String]) -> String {
    if ids.is_empty() {
        " There are none.".to_owned()
    } else {
        format!(" There are: {}.", ids.join(", "))
    }
}

/// A job to be made.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// When it fires.
    pub when: When,
    /// The prompt.
    pub prompt: String,
    /// Whether it fires more than once.
    pub recurring: bool,
    /// Whether it outlives the session.
    pub durable: bool,
    /// The permission mode that it was made in.
    pub mode: PermissionMode,
}

/// The jobs of a session and its project.
pub struct Schedule {
    memory: Mutex<Vec<Job>>,
    file: Option<JobsFile>,
    clock: Arc<dyn Clock>,
    zone: TimeZone,
    fires: bool,
    changed: Notify,
}

impl Schedule {
    /// The jobs of a session. `fires` says whether the session waits for them.
    #[must_use]
    pub fn new(file: Option<JobsFile>, clock: Arc<dyn Clock>, zone: TimeZone, fires: bool) -> Self {
        Self {
            memory: Mutex::default(),
            file,
            clock,
            zone,
            fires,
            changed: Notify::new(),
        }
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Whether the session fires jobs.
    #[must_use]
    pub fn fires(&self) -> bool {
        self.fires
    }

    /// Waits until a job was made, changed or deleted in this session.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// All jobs, those of the session first.
    #[must_use]
    pub fn list(&self) -> Vec<Job> {
        let mut jobs = self.memory.lock().clone();
        if let Some(file) = &self.file {
            jobs.extend(file.read().unwrap_or_default());
        }
        jobs
    }

    /// When a job fires next; `None` when it is paused or never does.
    #[must_use]
    pub fn next_of(&self, job: &Job) -> Option<Timestamp> {
        job.next(&self.zone)
    }

    /// A moment as people of the session's zone write it.
    #[must_use]
    pub fn local_time(&self, moment: Timestamp) -> String {
        let local = moment.to_zoned(self.zone.clone());
        local.strftime("%a %Y-%m-%d %H:%M").to_string()
    }

    /// Makes a job.
    ///
    /// # Errors
    /// When it can't be kept.
    pub fn create(&self, new: NewJob) -> Result<Job, ScheduleError> {
        if let When::Cron(text) = &new.when {
            CronExpression::parse(text)?;
        }
        if new.prompt.trim().is_empty() {
            return Err(ScheduleError::NoPrompt);
        }
        if !new.durable && !self.fires {
            return Err(ScheduleError::SessionEnds);
        }
        if self.list().len() >= MOST_JOBS {
            return Err(ScheduleError::Full);
        }
        let durable = new.durable;
        let job = Job::new(new, self.clock.now());
        if durable {
            let file = self.file.as_ref().ok_or(ScheduleError::NoFile)?;
            file.change(|jobs| jobs.push(job.clone()))?;
        } else {
            self.memory.lock().push(job.clone());
        }
        self.changed.notify_one();
        Ok(job)
    }

    /// Deletes a job.
    ///
    /// # Errors
    /// When there is none of that id, or the file can't be used.
    pub fn delete(&self, id: &str) -> Result<Job, ScheduleError> {
        let mut deleted = None;
        self.change(id, |jobs, at| deleted = Some(jobs.remove(at)))?;
        self.changed.notify_one();
        deleted.ok_or_else(|| self.unknown(id))
    }

    /// Pauses a job, or lets it go on.
    ///
    /// # Errors
    /// When there is none of that id, or the file can't be used.
    pub fn pause(&self, id: &str, paused: bool) -> Result<(), ScheduleError> {
        let now = self.clock.now();
        self.change(id, |jobs, at| {
            if let Some(job) = jobs.get_mut(at) {
                job.pause(paused, now);
            }
        })?;
        self.changed.notify_one();
        Ok(())
    }

    /// Deletes the jobs of the session that wait for a moment of their own.
    pub fn clear_wakeups(&self) -> usize {
        let mut jobs = self.memory.lock();
        let before = jobs.len();
        jobs.retain(|job| matches!(job.when(), When::Cron(_)));
        before - jobs.len()
    }

    fn unknown(&self, id: &str) -> ScheduleError {
        ScheduleError::NoJob {
            id: id.to_owned(),
            ids: self.list().into_iter().map(|job| job.id).collect(),
        }
    }

    fn change(
        &self,
        id: &str,
        change: impl FnOnce(&mut Vec<Job>, usize),
    ) -> Result<(), ScheduleError> {
        {
            let mut jobs = self.memory.lock();
            if let Some(at) = jobs.iter().position(|job| job.id == id) {
                change(&mut jobs, at);
                return Ok(());
            }
        }
        let Some(file) = &self.file else {
            return Err(self.unknown(id));
        };
        let found = file.change(|jobs| {
            let at = jobs.iter().position(|job| job.id == id);
            at.map(|at| change(jobs, at))
        })?;
        found.ok_or_else(|| self.unknown(id))
    }

    /// The jobs that are due, and jobs that have come to their end and are gone now.
    ///
    /// # Errors
    /// When the file can't be used.
    pub fn take_due(&self) -> Result<Due, ScheduleError> {
        let now = self.clock.now();
        let mut due = Due::default();
        due.sort(&mut self.memory.lock(), now, &self.zone);
        if let Some(file) = self.file.as_ref().filter(|_| self.fires)
            && !file.read()?.is_empty()
            && self.leads(file)?
        {
            let present = file.read()?;
            let mut jobs = present.clone();
            due.sort(&mut jobs, now, &self.zone);
            if jobs.len() != present.len() {
                file.change(|jobs| due.sort(jobs, now, &self.zone))?;
            }
        }
        Ok(due)
    }

    /// Notes that the prompt of a job is on its way, under the id of its record.
    ///
    /// # Errors
    /// When the file can't be written; the job must not fire then.
    pub fn begin(
        &self,
        id: &str,
        record: RecordId,
        transcript: &Path,
    ) -> Result<(), ScheduleError> {
        self.change(id, |jobs, at| {
            if let Some(job) = jobs.get_mut(at) {
                job.firing = Some(Firing {
                    record,
                    transcript: transcript.to_owned(),
                });
            }
        })
    }

    /// The prompt of a job stands in the transcript: the job has fired.
    pub fn accepted(&self, record: RecordId) {
        let now = self.clock.now();
        fired(&mut self.memory.lock(), record, now);
        if let Some(file) = &self.file
            && file
                .read()
                .unwrap_or_default()
                .iter()
                .any(|job| job.fires_as(record))
            && let Err(error) = file.change(|jobs| fired(jobs, record, now))
        {
            tracing::warn!(%error, "the firing of a job could not be saved; the transcript has it");
        }
        self.changed.notify_one();
    }

    /// Whether this session fires the durable jobs: the first one that can take the project's scheduler lock.
    fn leads(&self, file: &JobsFile) -> Result<bool, ScheduleError> {
        if file.leads() {
            return Ok(true);
        }
        let leads = file.take_lead();
        if leads {
            self.recover(file)?;
        }
        Ok(leads)
    }

    /// Settles fires that another process began: those whose record is in its transcript are over, the others are
    /// due again.
    fn recover(&self, file: &JobsFile) -> Result<(), ScheduleError> {
        let now = self.clock.now();
        let began = file.read()?.into_iter().filter_map(|job| job.firing);
        for firing in began.collect::<Vec<_>>() {
            let done = firing.is_in_transcript();
            file.change(|jobs| {
                if done {
                    fired(jobs, firing.record, now);
                } else {
                    for job in jobs.iter_mut().filter(|job| job.fires_as(firing.record)) {
                        job.firing = None;
                    }
                }
            })?;
        }
        Ok(())
    }

    /// When the next job is due.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        let leads = self.file.as_ref().is_some_and(JobsFile::leads);
        let jobs = self.list().into_iter();
        let waiting = jobs.filter(|job| job.firing.is_none() && (leads || !job.durable));
        waiting.filter_map(|job| job.next(&self.zone)).min()
    }
}

/// Whether a session is needed for the durable jobs of a project: one is due, or began to fire in a process that is
/// gone, and no session has the scheduler lock. With it, when the next one is due.
///
/// # Errors
/// When the file can't be read.
pub fn is_waiting(
    file: &JobsFile,
    now: Timestamp,
    zone: &TimeZone,
) -> Result<(bool, Option<Timestamp>), ScheduleError> {
    let jobs = file.read()?;
    if jobs.is_empty() || file.is_led() {
        return Ok((false, None));
    }
    let next = jobs.iter().filter_map(|job| job.next(zone)).min();
    let began = jobs.iter().any(|job| job.firing.is_some());
    Ok((began || next.is_some_and(|next| next <= now), next))
}

/// Notes that a job has fired; one that fires once is gone.
fn fired(jobs: &mut Vec<Job>, record: RecordId, now: Timestamp) {
    let Some(at) = jobs.iter().position(|job| job.fires_as(record)) else {
        return;
    };
    let Some(job) = jobs.get_mut(at) else { return };
    job.fired(now);
    if !job.recurring {
        jobs.remove(at);
    }
}

/// The jobs that need something now.
#[derive(Debug, Default)]
pub struct Due {
    /// Jobs that fire.
    pub jobs: Vec<Job>,
    /// Jobs whose time is over.
    pub ended: Vec<Job>,
}

impl Due {
    fn sort(&mut self, jobs: &mut Vec<Job>, now: Timestamp, zone: &TimeZone) {
        jobs.retain(|job| {
            let next = job.next(zone);
            if job.firing.is_some() {
                return true;
            }
            if job.is_over(next) && !job.paused {
                if !self.ended.iter().any(|it| it.id == job.id) {
                    self.ended.push(job.clone());
                }
                return false;
            }
            if next.is_some_and(|next| next <= now) && !self.jobs.iter().any(|it| it.id == job.id) {
                self.jobs.push(job.clone());
            }
            true
        });
    }
}

#[cfg(test)]
mod tests;
