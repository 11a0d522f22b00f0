//! The file behind a writer: creation, lock, repair, appending all or nothing.

use crate::blob::{BlobStore, LINE_LIMIT, take_out};
use crate::error::SessionError;
use crate::facts::repeated_kind;
use crate::line::blob_store_of;
use crate::link::Chain;
use crate::paths::create_private_folder;
use crate::peek::Edges;
use lathe_protocol::record::Record;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Facts are repeated when they would otherwise lie further from the end than this. Less than the
/// 64 KB that readers look at, so that a long line after them doesn't hide them at once.
const REPEAT_AFTER: u64 = 48 * 1024;

/// A fact that must be found near the end of the file.
struct Repeated {
    line: Vec<u8>,
    /// Where it was written last.
    at: u64,
}

pub(super) struct TranscriptFile {
    path: PathBuf,
    store: BlobStore,
    /// `None` until the first record.
    file: Option<File>,
    /// Whether the file's entry in its folder has yet to be made durable.
    new_entry: bool,
    /// Where our last append ended; another end means that somebody else appended.
    expected_end: u64,
    repeated: BTreeMap<u8, Repeated>,
    /// Where the chain of lines stands.
    chain: Chain,
}

impl TranscriptFile {
    /// A file that is created with the first record.
    pub(super) fn new(path: &Path) -> Result<Self, SessionError> {
        // An empty file is what a crash right after creation leaves; it holds nobody's words.
        match fs::metadata(path) {
            Ok(found) if found.len() > 0 => Err(already_exists(path)),
            _ => Ok(Self {
                path: path.to_owned(),
                store: blob_store_of(path),
                file: None,
                new_entry: true,
                expected_end: 0,
                repeated: BTreeMap::new(),
                chain: Chain::default(),
            }),
        }
    }

    /// A file that is there.
    pub(super) fn open(path: &Path) -> Result<Self, SessionError> {
        let failed = |error: io::Error| SessionError::io("open", path)(error);
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(path)
            .map_err(failed)?;
        lock(&file, path)?;
        repair_tail(&file).map_err(SessionError::io("repair", path))?;
        let end = file.metadata().map_err(failed)?.len();
        let edges = Edges::read(&file).map_err(SessionError::io("read", path))?;
        let mut repeated = BTreeMap::new();
        for (record, in_tail) in edges
            .head
            .iter()
            .map(|it| (it, edges.whole))
            .chain(edges.tail.iter().map(|it| (it, true)))
        {
            if let (Some(kind), Ok(line)) = (repeated_kind(record), line_of(record)) {
                // Where exactly it stands isn't known; the near edge of what was read is the
                // cautious guess.
                let at = if in_tail {
                    end.saturating_sub(REPEAT_AFTER / 2)
                } else {
                    0
                };
                repeated.insert(kind, Repeated { line, at });
            }
        }
        let chain = Chain::of_file(&file).map_err(SessionError::io("read", path))?;
        Ok(Self {
            path: path.to_owned(),
            store: blob_store_of(path),
            file: Some(file),
            new_entry: false,
            expected_end: end,
            repeated,
            chain,
        })
    }

    fn create(&self) -> Result<File, SessionError> {
        if let Some(folder) = self.path.parent() {
            create_private_folder(folder)?;
        }
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.path)
            .map_err(SessionError::io("create", &self.path))?;
        lock(&file, &self.path)?;
        let found = file
            .metadata()
            .map_err(SessionError::io("create", &self.path))?;
        if found.len() > 0 {
            return Err(already_exists(&self.path));
        }
        Ok(file)
    }

    /// Appends lines with one write, or leaves the file as it was.
    pub(super) fn append<'a>(
        &mut self,
        lines: impl Iterator<Item = (&'a Record, &'a [u8])>,
    ) -> Result<(), SessionError> {
        if self.file.is_none() {
            self.file = Some(self.create()?);
        }
        let Some(file) = &self.file else {
            return Ok(());
        };
        let failed = |error: io::Error| SessionError::io("write", &self.path)(error);
        let start = file.metadata().map_err(failed)?.len();
        let mut batch = Vec::new();
        if start != self.expected_end
            && start > 0
            && !ends_with_newline(file, start).map_err(failed)?
        {
            batch.push(b'\n');
        }
        let mut facts = Vec::new();
        let mut chain = self.chain.clone();
        for (record, line) in lines {
            if let Some(kind) = repeated_kind(record) {
                facts.push((kind, line.to_vec(), start + batch.len() as u64));
            }
            chain.append(&shortened(line, &self.store)?, &mut batch);
        }
        // The newest of each kind, where it will stand.
        let mut repeated: BTreeMap<u8, (Cow<'_, [u8]>, u64)> = self
            .repeated
            .iter()
            .map(|(kind, fact)| (*kind, (Cow::Borrowed(fact.line.as_slice()), fact.at)))
            .collect();
        repeated.extend(
            facts
                .into_iter()
                .map(|(kind, line, at)| (kind, (Cow::Owned(line), at))),
        );
        for (line, at) in repeated.values_mut() {
            let end = start + batch.len() as u64;
            if end.saturating_sub(*at) > REPEAT_AFTER {
                *at = end;
                chain.append(line, &mut batch);
            }
        }
        let repeated = repeated
            .into_iter()
            .map(|(kind, (line, at))| {
                (
                    kind,
                    Repeated {
                        line: line.into_owned(),
                        at,
                    },
                )
            })
            .collect();
        append_whole(file, start, &batch).map_err(failed)?;
        self.repeated = repeated;
        self.chain = chain;
        self.expected_end = start + batch.len() as u64;
        Ok(())
    }

    /// Makes what was appended durable, with the file's entry in its folder when it is new.
    pub(super) fn sync(&mut self) -> Result<(), SessionError> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        file.sync_data()
            .map_err(SessionError::io("sync", &self.path))?;
        if self.new_entry {
            // The project's folder may be new as well, and so its entry.
            for folder in self.path.ancestors().skip(1).take(2) {
                File::open(folder)
                    .and_then(|folder| folder.sync_all())
                    .map_err(SessionError::io("sync", folder))?;
            }
            self.new_entry = false;
        }
        Ok(())
    }
}

fn already_exists(path: &Path) -> SessionError {
    let id = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    SessionError::AlreadyExists {
        id,
        path: path.to_owned(),
    }
}

fn line_of(record: &Record) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    Ok(line)
}

/// The line with large content moved to the store.
fn shortened<'a>(line: &'a [u8], store: &BlobStore) -> Result<Cow<'a, [u8]>, SessionError> {
    if line.len() <= LINE_LIMIT {
        return Ok(Cow::Borrowed(line));
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(line) else {
        return Ok(Cow::Borrowed(line));
    };
    if !take_out(&mut value, store)? {
        return Ok(Cow::Borrowed(line));
    }
    let mut shorter = value.to_string().into_bytes();
    shorter.push(b'\n');
    Ok(Cow::Owned(shorter))
}

/// Appends all bytes, or takes back what was written of them.
fn append_whole(mut file: &File, start: u64, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => {
                take_back(file, start, written);
                return Err(io::ErrorKind::WriteZero.into());
            }
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                take_back(file, start, written);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Cuts a half-written batch off. Left alone when somebody else appended meanwhile: readers get over
/// a torn line, but not over a lost one.
fn take_back(file: &File, start: u64, written: usize) {
    let ours = start + written as u64;
    if written > 0 && file.metadata().is_ok_and(|found| found.len() == ours) {
        // If this fails too, the next append finds no line end and starts a line of its own.
        let _ = file.set_len(start);
    }
}

fn ends_with_newline(file: &File, length: u64) -> io::Result<bool> {
    let mut last = [0];
    file.read_exact_at(&mut last, length - 1)?;
    Ok(last == *b"\n")
}

/// Completes a last line that holds a whole record, and cuts off one that doesn't.
fn repair_tail(file: &File) -> io::Result<()> {
    let length = file.metadata()?.len();
    if length == 0 || ends_with_newline(file, length)? {
        return Ok(());
    }
    let mut lines = crate::line::BackwardLines::new(file, length);
    let Some((start, line)) = lines.next_line()? else {
        return Ok(());
    };
    let whole = serde_json::from_slice::<Value>(&line).is_ok_and(|value| value.is_object());
    if whole {
        let mut file = file;
        file.write_all(b"\n")
    } else {
        file.set_len(start)
    }
}

/// How often a lock is tried while another process only looks whether the session is in use ([`holder`]).
const TRIES: u32 = 5;
/// How often it is tried after its owner was killed: a process that the owner was just starting has a copy of
/// the lock until its program runs.
const TRIES_AFTER_DEATH: u32 = 200;

fn lock(file: &File, path: &Path) -> Result<(), SessionError> {
    let mut tries = 0;
    let locked = loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock)
                if tries < TRIES || (tries < TRIES_AFTER_DEATH && is_owner_gone(file)) =>
            {
                tries += 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            other => break other,
        }
    };
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(SessionError::InUse {
            path: path.to_owned(),
            pid: lock_owner(file),
        }),
        Err(TryLockError::Error(error)) => {
            // Some network file systems have no locks; a session there is better than none.
            tracing::warn!(path = %path.display(), %error, "the transcript can't be locked");
            Ok(())
        }
    }
}

/// Whether the process that took the lock has ended, or is ending: one that was killed closes its files one by one, and
/// on a busy machine not at once. In a process namespace, as in a container, Linux no longer lists the lock of one that has
/// ended.
fn is_owner_gone(file: &File) -> bool {
    lock_owner(file).map_or(cfg!(target_os = "linux"), |pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| is_ending(&stat))
    })
}

/// Whether a line of `/proc/PID/stat` is that of a process that ends: `4711 (name) Z 1 …`, or with the flag for it.
fn is_ending(stat: &str) -> bool {
    /// `PF_EXITING` of Linux.
    const EXITING: u64 = 4;
    let Some((_, rest)) = stat.rsplit_once(") ") else {
        return false;
    };
    let mut fields = rest.split(' ');
    let state = fields.next();
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    matches!(state, Some("Z" | "X")) || flags.is_some_and(|flags| flags & EXITING != 0)
}

/// The process that took a lock on a file, as Linux lists it.
fn lock_owner(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    // The list is read in parts, and one that changes meanwhile may leave an entry out.
    (0..5).find_map(|_| {
        let locks = fs::read_to_string("/proc/locks").ok()?;
        locks.lines().find_map(|line| owner_in(line, &inode))
    })
}

/// `1: FLOCK  ADVISORY  WRITE 4711 08:01:262146 0 EOF` → 4711, if the inode fits.
fn owner_in(line: &str, inode: &str) -> Option<u32> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, _, pid, place, ..] = fields.as_slice() else {
        return None;
    };
    let found = place.rsplit(':').next() == Some(inode);
    found
        .then(|| pid.parse().ok())
        .flatten()
        .filter(|pid| *pid > 0)
}

pub(super) fn holder(path: &Path) -> io::Result<Option<Option<u32>>> {
    let file = File::open(path)?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Ok(Some(lock_owner(&file))),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ends_is_told_from_one_that_runs() {
        for (name, stat, ends) in [
            ("running", "7 (a) S 1 7 7 0 -1 4194304 103 0", false),
            ("exiting", "7 (a) R 1 7 7 0 -1 4194308 103 0", true),
            ("a zombie", "7 (a) Z 1 7 7 0 -1 4228100 103 0", true),
            ("an odd name", "7 (a) Z 1 (b) S 1 7 7 0 -1 64 1 0", false),
            ("cut off", "7 (a) S 1", false),
            ("nothing", "", false),
        ] {
            assert_eq!(is_ending(stat), ends, "{name}");
        }
        // A child that has ended and that nobody has waited for.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let stat = format!("/proc/{}/stat", child.id());
        while cfg!(target_os = "linux") && !is_ending(&fs::read_to_string(&stat).unwrap()) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_ending(
            &fs::read_to_string("/proc/self/stat").unwrap_or_default()
        ));
    }
}
