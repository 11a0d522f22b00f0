//! Migrations: what a new version does once to the files of an older one.
//!
//! `migrationVersion` in `state.json` of the config home says which were done. Those that are missing run in order,
//! then the stamp is written; each can be repeated. The stamp of a newer version is left alone: an older program never
//! undoes it. A migration that rewrites a file puts a copy beside it first. Fields that this version does not know
//! stay.

use lathe_settings::write::{lock_folder, replace};
use serde_json::{Map, Value};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

const STATE: &str = "state.json";
const KEY: &str = "migrationVersion";
/// Unfinished files that are older were left by a process that was killed.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// A migration.
struct Migration {
    number: u64,
    /// Done before a session starts; otherwise beside it.
    first: bool,
    run: fn(&Path) -> io::Result<()>,
}

const MIGRATIONS: [Migration; 2] = [
    Migration {
        number: 1,
        first: true,
        run: make_private,
    },
    Migration {
        number: 2,
        first: false,
        run: remove_unfinished,
    },
];

/// The version of the files that this program writes.
pub const CURRENT: u64 = MIGRATIONS[MIGRATIONS.len() - 1].number;

fn state(config_home: &Path) -> io::Result<Map<String, Value>> {
    let bytes = match fs::read(config_home.join(STATE)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(error) => return Err(error),
    };
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}

fn version(state: &Map<String, Value>) -> u64 {
    state.get(KEY).and_then(Value::as_u64).unwrap_or(0)
}

/// Runs the migrations that are missing and must come first, and gives those that may run beside the session. A config
/// home that isn't there needs none.
///
/// # Errors
/// When the state is broken, or a file can't be changed. The stamp is not written then, so it is tried again.
pub fn run(config_home: &Path) -> io::Result<Option<impl FnOnce() + Send + use<>>> {
    if !config_home.is_dir() {
        return Ok(None);
    }
    let before = version(&state(config_home)?);
    if before >= CURRENT {
        return Ok(None);
    }
    let _lock = lock_folder(config_home)?;
    // Another process may have been faster.
    let mut state = state(config_home)?;
    let before = version(&state);
    if before >= CURRENT {
        return Ok(None);
    }
    let missing = || {
        MIGRATIONS
            .iter()
            .filter(move |migration| migration.number > before)
    };
    for migration in missing().filter(|migration| migration.first) {
        (migration.run)(config_home)?;
    }
    state.insert(KEY.to_owned(), Value::from(CURRENT));
    let text = format!("{:#}\n", Value::Object(state));
    replace(&config_home.join(STATE), text.as_bytes(), 0o600)?;
    let home = config_home.to_path_buf();
    Ok(Some(move || {
        for migration in MIGRATIONS
            .iter()
            .filter(|one| one.number > before && !one.first)
        {
            // It is only tidying.
            let _ = (migration.run)(&home);
        }
    }))
}

/// Conversations, prompts and choices are for their user only, also where a home was copied with other modes.
fn make_private(config_home: &Path) -> io::Result<()> {
    for name in [
        "projects",
        "drafts",
        "history.jsonl",
        "trust.json",
        "mcp-choices.json",
    ] {
        let path = config_home.join(name);
        let Ok(found) = fs::symlink_metadata(&path) else {
            continue;
        };
        let mode = found.permissions().mode();
        // A link may lead to files of somebody else's choice.
        if !found.is_symlink() && mode & 0o077 != 0 {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o700))?;
        }
    }
    Ok(())
}

/// Removes files that a killed process did not finish.
fn remove_unfinished(config_home: &Path) -> io::Result<()> {
    for entry in fs::read_dir(config_home)?.flatten() {
        let name = entry.file_name();
        let is_unfinished = name
            .to_str()
            .is_some_and(|name| name.starts_with(".settings-"));
        let written = entry.metadata().and_then(|found| found.modified());
        let age = written.map(|time| SystemTime::now().duration_since(time).unwrap_or_default());
        if is_unfinished && age.is_ok_and(|age| age > ABANDONED) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn missing_migrations_run_once_and_the_stamp_keeps_other_fields() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        fs::create_dir(home.join("projects")).unwrap();
        fs::set_permissions(home.join("projects"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(home.join("state.json"), r#"{"later": {"a": 1}}"#).unwrap();
        fs::write(home.join(".settings-old"), "").unwrap();
        let old = SystemTime::now() - 2 * ABANDONED;
        let file = fs::File::options()
            .write(true)
            .open(home.join(".settings-old"))
            .unwrap();
        file.set_modified(old).unwrap();
        let rest = run(home).unwrap().unwrap();
        assert_eq!(mode(&home.join("projects")), 0o700);
        assert!(
            home.join(".settings-old").exists(),
            "that is done beside the session"
        );
        rest();
        assert!(!home.join(".settings-old").exists());
        let state: Value =
            serde_json::from_slice(&fs::read(home.join("state.json")).unwrap()).unwrap();
        assert_eq!(state["later"]["a"], 1);
        assert_eq!(state["migrationVersion"], CURRENT);
        assert!(run(home).unwrap().is_none());
    }

    #[test]
    fn the_stamp_of_a_newer_version_stays() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"migrationVersion": 99}"#;
        fs::write(folder.path().join("state.json"), text).unwrap();
        assert!(run(folder.path()).unwrap().is_none());
        assert_eq!(
            fs::read_to_string(folder.path().join("state.json")).unwrap(),
            text
        );
        assert!(run(&folder.path().join("absent")).unwrap().is_none());
    }

    #[test]
    fn a_broken_state_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("state.json"), "{").unwrap();
        assert!(run(folder.path()).is_err());
        assert_eq!(
            fs::read_to_string(folder.path().join("state.json")).unwrap(),
            "{"
        );
    }
}
