//! The messages of the queue: files that move between folders. A rename is a claim.
//!
//! `queue/CLASS/NAME` waits, `claimed/CLASS/LEASE~OWNER~NAME` is with a worker that touches it as long as it lives, and
//! `delayed/CLASS/DUE~NAME` comes back later. A name begins with the priority and the time, so that the order of names
//! is the order of jobs.

use super::files;
use crate::backend::Wanted;
use crate::entry::Entry;
use crate::error::QueueError;
use crate::job::{JobKey, Needs};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How long a list of names is used before it is read again.
const FRESH: Duration = Duration::from_millis(50);
/// How often messages that are due or whose worker is silent are looked for.
const REVIVE: Duration = Duration::from_millis(250);
/// Ends names of messages whose conditions are in the file.
const CONDITIONS: &str = "~needs";

/// A message that this process has.
#[derive(Debug)]
pub(super) struct Message {
    class: String,
    /// The file in `claimed`.
    path: PathBuf,
    name: String,
}

/// The messages below a folder.
#[derive(Debug)]
pub(super) struct Messages {
    root: PathBuf,
    /// Names by class, last ones first, with the time of reading.
    listed: Mutex<HashMap<String, (Instant, Vec<String>)>>,
    revived: Mutex<Option<Instant>>,
    number: AtomicU64,
}

fn milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

pub(super) fn now() -> i64 {
    milliseconds(SystemTime::now())
}

fn name_of(entry: &Entry) -> String {
    let needs = &entry.job.needs;
    let end = if needs.labels.is_empty() && needs.secrets.is_empty() {
        ""
    } else {
        CONDITIONS
    };
    format!(
        "{}-{:013}-{}{end}",
        entry.job.priority as u8,
        entry.created,
        entry.job.key()
    )
}

/// The job that a message is about.
fn key_of(name: &str) -> Option<JobKey> {
    let name = name.strip_suffix(CONDITIONS).unwrap_or(name);
    JobKey::parse(name.splitn(3, '-').nth(2)?)
}

impl Messages {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            listed: Mutex::default(),
            revived: Mutex::default(),
            number: AtomicU64::new(0),
        }
    }

    fn folder(&self, kind: &str, class: &str) -> PathBuf {
        self.root.join(kind).join(class)
    }

    /// Puts a job into the queue.
    pub(super) fn offer(&self, entry: &Entry) -> Result<(), QueueError> {
        let folder = self.folder("queue", &entry.job.class);
        files::create_folder(&folder)?;
        let path = folder.join(name_of(entry));
        let needs = Needs {
            after: Vec::new(),
            ..entry.job.needs.clone()
        };
        let bytes =
            serde_json::to_vec(&needs).map_err(|error| QueueError::damaged("a message", error))?;
        files::write_new(&path, &bytes)?;
        Ok(())
    }

    /// Takes the first message that fits.
    pub(super) fn take(&self, wanted: &Wanted) -> Result<Option<(JobKey, Message)>, QueueError> {
        self.revive(wanted.lease)?;
        for class in &wanted.classes {
            while let Some(name) = self.next(class)? {
                let Some(key) = key_of(&name) else {
                    continue;
                };
                let path = self.folder("queue", class).join(&name);
                if name.ends_with(CONDITIONS) && !fits(&path, wanted)? {
                    continue;
                }
                if let Some(message) = self.claim(class, &name, &path, wanted.lease)? {
                    return Ok(Some((key, message)));
                }
            }
        }
        Ok(None)
    }

    /// The next name of a class that may be there.
    fn next(&self, class: &str) -> Result<Option<String>, QueueError> {
        let mut listed = self.listed.lock();
        if let Some((at, names)) = listed.get_mut(class)
            && at.elapsed() < FRESH
        {
            return Ok(names.pop());
        }
        let mut names = files::names(&self.folder("queue", class))?;
        names.sort_unstable_by(|a, b| b.cmp(a));
        let next = names.pop();
        listed.insert(class.to_owned(), (Instant::now(), names));
        Ok(next)
    }

    fn claim(
        &self,
        class: &str,
        name: &str,
        path: &Path,
        lease: Duration,
    ) -> Result<Option<Message>, QueueError> {
        let folder = self.folder("claimed", class);
        files::create_folder(&folder)?;
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let owner = format!("{}.{number}", std::process::id());
        let claimed = folder.join(format!("{}~{owner}~{name}", lease.as_millis()));
        // Its time is the sign of life; a message that waited long must not look abandoned.
        if !touch(path)? || !files::rename(path, &claimed)? {
            return Ok(None);
        }
        Ok(Some(Message {
            class: class.to_owned(),
            path: claimed,
            name: name.to_owned(),
        }))
    }

    /// Says that the worker lives.
    pub(super) fn keep(&self, message: &Message) -> Result<(), QueueError> {
        touch(&message.path).map(|_| ())
    }

    pub(super) fn remove(&self, message: &Message) -> Result<(), QueueError> {
        files::remove(&message.path)
    }

    pub(super) fn put_back(&self, message: &Message, delay: Duration) -> Result<(), QueueError> {
        let to = if delay.is_zero() {
            self.folder("queue", &message.class).join(&message.name)
        } else {
            let folder = self.folder("delayed", &message.class);
            files::create_folder(&folder)?;
            let due = now() + i64::try_from(delay.as_millis()).unwrap_or(i64::MAX / 4);
            folder.join(format!("{due:013}~{}", message.name))
        };
        files::rename(&message.path, &to).map(|_| ())
    }

    /// Puts messages into the queue that are due, or whose worker said nothing for its lease.
    fn revive(&self, lease: Duration) -> Result<(), QueueError> {
        {
            let mut revived = self.revived.lock();
            let pause = REVIVE.min(lease / 8);
            if revived.is_some_and(|at| at.elapsed() < pause) {
                return Ok(());
            }
            *revived = Some(Instant::now());
        }
        let now = now();
        for class in files::names(&self.root.join("delayed"))? {
            let folder = self.folder("delayed", &class);
            for file in files::names(&folder)? {
                if let Some((due, name)) = file.split_once('~')
                    && due.parse::<i64>().is_ok_and(|due| due <= now)
                {
                    let to = self.folder("queue", &class).join(name);
                    files::rename(&folder.join(&file), &to)?;
                }
            }
        }
        for (class, file) in self.claimed()? {
            let path = self.folder("claimed", &class).join(&file);
            if self.is_abandoned(&path, &file, now)
                && let Some(name) = file.splitn(3, '~').nth(2)
            {
                let to = self.folder("queue", &class).join(name);
                files::rename(&path, &to)?;
            }
        }
        Ok(())
    }

    fn claimed(&self) -> Result<Vec<(String, String)>, QueueError> {
        let mut all = Vec::new();
        for class in files::names(&self.root.join("claimed"))? {
            for file in files::names(&self.folder("claimed", &class))? {
                all.push((class.clone(), file));
            }
        }
        Ok(all)
    }

    fn is_abandoned(&self, path: &Path, file: &str, now: i64) -> bool {
        let lease = file.split('~').next().and_then(|it| it.parse::<i64>().ok());
        let touched = fs::metadata(path).and_then(|found| found.modified());
        match (lease, touched) {
            (Some(lease), Ok(touched)) => now - milliseconds(touched) > lease,
            _ => false,
        }
    }

    /// How many messages are with workers, and how many of those are silent for longer than their lease.
    pub(super) fn silent(&self) -> Result<(usize, usize), QueueError> {
        let now = now();
        let all = self.claimed()?;
        let silent = all.iter().filter(|(class, file)| {
            let path = self.folder("claimed", class).join(file);
            self.is_abandoned(&path, file, now)
        });
        Ok((all.len(), silent.count()))
    }
}

/// Sets the time of a file to now. False if it is not there.
fn touch(path: &Path) -> Result<bool, QueueError> {
    let touched = File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.set_modified(SystemTime::now()));
    match touched {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(QueueError::io("touch", path)(error)),
    }
}

fn fits(path: &Path, wanted: &Wanted) -> Result<bool, QueueError> {
    let needs: Option<Needs> = files::read_json(path)?;
    Ok(needs.is_some_and(|needs| crate::fits(&needs, wanted)))
}
