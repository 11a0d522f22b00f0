//! The order of jobs: those that wait for others, and messages that a crash lost.

use super::Fleet;
use crate::entry::{Entry, Ready, State, ready};
use crate::error::QueueError;
use crate::job::JobKey;
use std::collections::BTreeMap;

/// A queued job that is this old is offered again by a sweep: its message may be lost.
const FORGOTTEN: i64 = 30_000;

/// How often one of all workers sweeps, in milliseconds.
const TURN: i64 = 30_000;

impl Fleet {
    /// Sweeps, if no other worker did in this half minute: a sweep reads every job.
    ///
    /// # Errors
    /// If the storage fails.
    pub async fn sweep_in_turn(&self) -> Result<(), QueueError> {
        let turn = format!("sweep-{}", self.backend.now() / TURN);
        if self.backend.is_first(&turn).await? {
            self.sweep().await?;
        }
        Ok(())
    }

    /// Repairs what a crash between two steps left behind: jobs without a message, parked jobs with an answer.
    ///
    /// # Errors
    /// If the storage fails.
    pub async fn sweep(&self) -> Result<(), QueueError> {
        let now = self.backend.now();
        for entry in self.entries().await? {
            let key = entry.job.key();
            match entry.state {
                State::Queued if now - entry.changed > FORGOTTEN => {
                    self.wake(vec![key.clone()]).await?;
                }
                State::Parked => self.unpark(&key).await?,
                State::Running | State::Asking if now - entry.deadline > FORGOTTEN => {
                    self.backend.offer(&entry).await?;
                }
                _ => {}
            }
            if entry.state.is_final() || entry.state == State::Parked {
                self.forget_reservation(&key).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn ready(&self, entry: &Entry) -> Result<Ready, QueueError> {
        let mut states = BTreeMap::new();
        for id in &entry.job.needs.after {
            let key = JobKey {
                tenant: entry.job.tenant.clone(),
                id: id.clone(),
            };
            if let Some(found) = self.backend.entry(&key).await? {
                states.insert(id.clone(), found.value.state);
            }
        }
        Ok(ready(&entry.job.needs.after, &states))
    }

    pub(super) async fn wake_waiters(&self, key: &JobKey) -> Result<(), QueueError> {
        let waiters = self.backend.waiters(key).await?;
        self.wake(waiters).await
    }

    /// Offers queued jobs whose turn has come, and cancels those that will never begin, with all that wait for them.
    pub(super) async fn wake(&self, mut keys: Vec<JobKey>) -> Result<(), QueueError> {
        while let Some(key) = keys.pop() {
            let Some(found) = self.backend.entry(&key).await? else {
                continue;
            };
            let entry = &found.value;
            if entry.state != State::Queued {
                continue;
            }
            match self.ready(entry).await? {
                Ready::NotYet => {}
                Ready::Yes => self.backend.offer(entry).await?,
                Ready::Never(before) => {
                    let reason = format!("{before}, which comes before it, was not done");
                    let now = self.backend.now();
                    let next = entry.released(State::Cancelled, Some(reason), now);
                    match self.backend.put(&next, found.revision).await {
                        Ok(_) => keys.extend(self.backend.waiters(&key).await?),
                        Err(QueueError::Conflict) => keys.push(key),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }
}
