//! Stand-ins for protected files that don't exist.
//!
//! A mount needs something to be mounted on. Where a protected path is absent, an empty file or folder
//! stands there while a command runs, and is removed afterwards. What was put where is written down first,
//! so that the next session removes what a killed one left.

use crate::sandbox_policy::Absent;
use crate::state::{self, STUBS};
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Stand-ins of this process: how many commands need each.
static HELD: OnceLock<Mutex<HashMap<PathBuf, Held>>> = OnceLock::new();

#[derive(Debug)]
struct Held {
    commands: usize,
    text: Option<String>,
}

fn held() -> std::sync::MutexGuard<'static, HashMap<PathBuf, Held>> {
    HELD.get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// The file type of a mount point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing.
    Nothing,
    /// Something that belongs there, or a stand-in that works as it is.
    Something,
    /// An empty file that stands for nothing.
    EmptyFile,
}

/// The stand-ins of one command. Dropped, they are removed unless another command needs them.
#[derive(Debug)]
pub(crate) struct Stubs {
    base: PathBuf,
    session: PathBuf,
    paths: Vec<PathBuf>,
}

impl Stubs {
    pub(crate) fn new(session: &Path) -> Self {
        Self {
            base: session.parent().unwrap_or(session).to_path_buf(),
            session: session.to_path_buf(),
            paths: Vec::new(),
        }
    }

    /// Puts a stand-in at a path where nothing is. Says what there is to mount on.
    pub(crate) fn put(&mut self, path: &Path, absent: &Absent) -> io::Result<Place> {
        let text = match absent {
            Absent::Ignored if path.symlink_metadata().is_ok() => return Ok(Place::Something),
            Absent::Ignored => return Ok(Place::Nothing),
            Absent::File => Some(String::new()),
            Absent::Folder => None,
            Absent::Text(text) => Some(text.clone()),
        };
        let stand_in = if *absent == Absent::File {
            Place::EmptyFile
        } else {
            Place::Something
        };
        let mut held = held();
        if let Some(entry) = held.get_mut(path) {
            if path.symlink_metadata().is_ok() {
                entry.commands += 1;
                self.paths.push(path.to_path_buf());
                return Ok(stand_in);
            }
            held.remove(path);
        }
        if path.symlink_metadata().is_ok() {
            if !self.is_of_another_session(path) {
                return Ok(Place::Something);
            }
        } else if !path.parent().is_some_and(Path::is_dir) {
            return Ok(Place::Nothing);
        }
        note(&self.session, path, text.is_some())?;
        let made = match &text {
            Some(text) => OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(path)
                .and_then(|mut file| file.write_all(text.as_bytes())),
            None => fs::create_dir(path),
        };
        match made {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // The command can't make it either.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                return Ok(Place::Nothing);
            }
            Err(error) => return Err(error),
        }
        held.insert(path.to_path_buf(), Held { commands: 1, text });
        self.paths.push(path.to_path_buf());
        Ok(stand_in)
    }

    /// Whether another living session put this there.
    fn is_of_another_session(&self, path: &Path) -> bool {
        others(&self.base, &self.session)
            .iter()
            .any(|other| listed(other).iter().any(|(known, _)| known == path))
    }
}

impl Drop for Stubs {
    fn drop(&mut self) {
        let mut held = held();
        for path in self.paths.drain(..) {
            let Some(entry) = held.get_mut(&path) else {
                continue;
            };
            entry.commands = entry.commands.saturating_sub(1);
            if entry.commands > 0 {
                continue;
            }
            let text = held.remove(&path).and_then(|entry| entry.text);
            let needed = others(&self.base, &self.session)
                .iter()
                .any(|other| listed(other).iter().any(|(known, _)| *known == path));
            if !needed {
                remove(&path, text.is_some(), text.as_deref());
            }
        }
    }
}

/// The other living sessions.
fn others(base: &Path, session: &Path) -> Vec<PathBuf> {
    let sessions = state::sessions(base).into_iter();
    sessions
        .filter(|(folder, used)| *used && folder != session)
        .map(|(folder, _)| folder)
        .collect()
}

/// Writes down that a stand-in is about to be put somewhere.
fn note(session: &Path, path: &Path, is_file: bool) -> io::Result<()> {
    if listed(session).iter().any(|(known, _)| known == path) {
        return Ok(());
    }
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(session.join(STUBS))?;
    let mut line = vec![if is_file { b'f' } else { b'd' }];
    line.extend_from_slice(path.as_os_str().as_bytes());
    line.push(0);
    file.write_all(&line)
}

/// The stand-ins that a session wrote down, with whether each is a file.
fn listed(session: &Path) -> Vec<(PathBuf, bool)> {
    let Ok(bytes) = fs::read(session.join(STUBS)) else {
        return Vec::new();
    };
    bytes
        .split(|&byte| byte == 0)
        .filter_map(|line| {
            let (kind, path) = line.split_first()?;
            let path = Path::new(std::ffi::OsStr::from_bytes(path));
            Some((path.to_path_buf(), *kind == b'f'))
        })
        .collect()
}

/// Removes what a session that is gone had put somewhere, unless a living one needs it.
pub(crate) fn remove_listed(base: &Path, session: &Path) {
    let needed: Vec<(PathBuf, bool)> = others(base, session)
        .iter()
        .flat_map(|other| listed(other))
        .collect();
    for (path, is_file) in listed(session) {
        if !needed.iter().any(|(other, _)| *other == path) {
            remove(&path, is_file, None);
        }
    }
}

/// Removes a stand-in, if it still is one: an empty folder, or a file that nobody wrote to.
fn remove(path: &Path, is_file: bool, text: Option<&str>) {
    if !is_file {
        // A folder that is not empty any more stays.
        let _ = fs::remove_dir(path);
        return;
    }
    let Ok(metadata) = path.symlink_metadata() else {
        return;
    };
    // After a crash the text isn't known; the only one that is ever put is the path of the folder itself.
    let own = path
        .parent()
        .map(|folder| format!("{}\n", folder.display()));
    let content = if metadata.is_file() && metadata.len() < 8192 {
        fs::read_to_string(path).ok()
    } else {
        None
    };
    let untouched = content.is_some_and(|content| {
        content.is_empty() || Some(content.as_str()) == text || Some(content) == own
    });
    if untouched {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;

    #[test]
    fn a_stand_in_is_there_for_as_long_as_a_command_needs_it() {
        let base = tempfile::tempdir().unwrap();
        let project = tempfile::tempdir().unwrap();
        let state = State::new(base.path()).unwrap();
        let (file, folder) = (project.path().join("f"), project.path().join("d"));
        let mut first = Stubs::new(state.folder());
        let mut second = Stubs::new(state.folder());
        for stubs in [&mut first, &mut second] {
            assert_eq!(stubs.put(&file, &Absent::File).unwrap(), Place::EmptyFile);
            assert_eq!(
                stubs.put(&folder, &Absent::Folder).unwrap(),
                Place::Something
            );
            assert_eq!(
                stubs
                    .put(&project.path().join("x"), &Absent::Ignored)
                    .unwrap(),
                Place::Nothing
            );
        }
        drop(first);
        assert!(file.is_file() && folder.is_dir());
        drop(second);
        assert!(!file.exists() && !folder.exists());
    }

    #[test]
    fn what_somebody_wrote_meanwhile_stays() {
        let base = tempfile::tempdir().unwrap();
        let project = tempfile::tempdir().unwrap();
        let state = State::new(base.path()).unwrap();
        let (file, folder) = (project.path().join("f"), project.path().join("d"));
        let mut stubs = Stubs::new(state.folder());
        stubs.put(&file, &Absent::File).unwrap();
        stubs.put(&folder, &Absent::Folder).unwrap();
        fs::write(&file, "real").unwrap();
        fs::write(folder.join("x"), "real").unwrap();
        drop(stubs);
        assert_eq!(fs::read_to_string(file).unwrap(), "real");
        assert!(folder.join("x").exists());
    }

    #[test]
    fn the_stand_ins_of_a_killed_session_are_removed_by_the_next() {
        let base = tempfile::tempdir().unwrap();
        let project = tempfile::tempdir().unwrap();
        let killed = base.path().join("run-1-0-1");
        fs::create_dir(&killed).unwrap();
        fs::write(killed.join("lock"), "").unwrap();
        let (file, pin) = (
            project.path().join(".mcp.json"),
            project.path().join("commondir"),
        );
        note(&killed, &file, true).unwrap();
        note(&killed, &pin, true).unwrap();
        fs::write(&file, "").unwrap();
        fs::write(&pin, format!("{}\n", project.path().display())).unwrap();
        drop(State::new(base.path()).unwrap());
        assert!(!file.exists() && !pin.exists() && !killed.exists());
    }

    #[test]
    fn a_stand_in_of_another_living_session_is_shared() {
        let base = tempfile::tempdir().unwrap();
        let project = tempfile::tempdir().unwrap();
        let file = project.path().join("f");
        let (one, other) = (
            State::new(base.path()).unwrap(),
            State::new(base.path()).unwrap(),
        );
        // As another process would have left it.
        note(other.folder(), &file, true).unwrap();
        fs::write(&file, "").unwrap();
        let mut stubs = Stubs::new(one.folder());
        assert_eq!(stubs.put(&file, &Absent::File).unwrap(), Place::EmptyFile);
        drop(stubs);
        assert!(file.exists(), "the other session needs it");
        drop(other);
        let mut stubs = Stubs::new(one.folder());
        stubs.put(&file, &Absent::File).unwrap();
        drop(stubs);
        drop(one);
    }
}
