//! One scheduled prompt.

use super::{CronExpression, LIFE, NewJob};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use lathe_protocol::ids::RecordId;
use lathe_protocol::permission::PermissionMode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The longest delay of a recurring job, so that not everything happens at the full hour.
const LARGEST_JITTER: SignedDuration = SignedDuration::from_mins(15);

/// When a job fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// At the times of a cron expression.
    Cron(String),
    /// Once, at a moment.
    At(Timestamp),
}

/// A scheduled prompt, as the file has it. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Names it.
    pub id: String,
    /// The cron expression; empty for a wake-up.
    #[serde(default)]
    pub cron: String,
    /// The moment of a wake-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<i64>,
    /// The prompt.
    pub prompt: String,
    /// Whether it fires more than once.
    #[serde(default)]
    pub recurring: bool,
    created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_fired_at: Option<i64>,
    /// The permission mode that it was made in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// Whether it waits to be continued.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The fire that is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firing: Option<Firing>,
    /// Whether it is in the file.
    #[serde(skip)]
    pub durable: bool,
}

/// A fire that is on its way: the record that its prompt becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firing {
    /// The record.
    pub record: RecordId,
    /// The transcript that it will stand in.
    pub transcript: PathBuf,
}

impl Firing {
    /// Whether the prompt has been accepted.
    #[must_use]
    pub fn is_in_transcript(&self) -> bool {
        let text = std::fs::read(&self.transcript).unwrap_or_default();
        memchr::memmem::find(&text, self.record.to_string().as_bytes()).is_some()
    }
}

impl Job {
    pub(super) fn new(new: NewJob, now: Timestamp) -> Self {
        let (cron, at) = match new.when {
            When::Cron(text) => (text, None),
            When::At(moment) => (String::new(), Some(moment.as_millisecond())),
        };
        let id = RecordId::random().to_string();
        Self {
            id: id.chars().take(8).collect(),
            cron,
            at,
            prompt: new.prompt,
            recurring: new.recurring,
            created_at: now.as_millisecond(),
            last_fired_at: None,
            permission_mode: Some(new.mode),
            paused: false,
            firing: None,
            durable: new.durable,
        }
    }

    /// When it fires.
    #[must_use]
    pub fn when(&self) -> When {
        match self.at.and_then(|at| Timestamp::from_millisecond(at).ok()) {
            Some(moment) => When::At(moment),
            None => When::Cron(self.cron.clone()),
        }
    }

    /// Its next time after the last one; in the past when it was missed. `None` when it is paused or never fires.
    pub(super) fn next(&self, zone: &TimeZone) -> Option<Timestamp> {
        if self.paused {
            return None;
        }
        let expression = match self.when() {
            When::At(moment) => return Some(moment),
            When::Cron(text) => CronExpression::parse(&text).ok()?,
        };
        let since =
            Timestamp::from_millisecond(self.last_fired_at.unwrap_or(self.created_at)).ok()?;
        let next = expression.next_after(since, zone)?;
        if !self.recurring {
            return Some(next);
        }
        let following = expression.next_after(next, zone).unwrap_or(next);
        next.checked_add(self.jitter(following.duration_since(next)))
            .ok()
    }

    /// A delay that is the same for every fire of a job: up to a tenth of its period.
    fn jitter(&self, period: SignedDuration) -> SignedDuration {
        let most = (period / 10).min(LARGEST_JITTER).as_secs().unsigned_abs();
        // Ids are random digits; those of another program may be anything.
        let number = u32::from_str_radix(&self.id, 16).unwrap_or_default();
        let delay = u64::from(number) * (most + 1) / (u64::from(u32::MAX) + 1);
        SignedDuration::from_secs(i64::try_from(delay).unwrap_or_default())
    }

    /// Whether its time is over, given when it would fire next.
    pub(super) fn is_over(&self, next: Option<Timestamp>) -> bool {
        let end = Timestamp::from_millisecond(self.created_at).ok();
        let end = end.and_then(|created| created.checked_add(LIFE).ok());
        match (next, end) {
            (None, _) => true,
            (Some(next), Some(end)) => self.recurring && next > end,
            (Some(_), None) => false,
        }
    }

    pub(super) fn fires_as(&self, record: RecordId) -> bool {
        self.firing
            .as_ref()
            .is_some_and(|firing| firing.record == record)
    }

    pub(super) fn fired(&mut self, now: Timestamp) {
        self.firing = None;
        self.last_fired_at = Some(now.as_millisecond());
    }

    /// Pauses it, or lets it go on: what it missed meanwhile is not caught up.
    pub(super) fn pause(&mut self, paused: bool, now: Timestamp) {
        if self.paused && !paused {
            self.last_fired_at = Some(now.as_millisecond());
        }
        self.paused = paused;
    }
}
