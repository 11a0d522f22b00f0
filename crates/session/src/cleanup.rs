//! Deletes sessions that nobody used for a while (`cleanupPeriodDays`).
//!
//! The age of a session is that of its transcript. One that a process writes to is left alone, whatever its
//! age. It is done at most once a day, beside the session that finds it due: a file in the configuration
//! folder says when it was done last.

use crate::store::SessionInfo;
use crate::{Scope, SessionStore};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How long sessions are kept if nobody says otherwise.
pub const DEFAULT_DAYS: u32 = 30;
/// The file whose age says when sessions were cleaned up last.
const MARK: &str = ".sessions-cleaned";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Deletes what is due, unless that was done in the last day. `own` is never deleted. Gives how many were.
///
/// # Errors
/// When the mark can't be written; then nothing is deleted.
pub fn clean_if_due(config_home: &Path, days: u32, own: &Path) -> io::Result<usize> {
    let mark = config_home.join(MARK);
    let done = fs::metadata(&mark).and_then(|found| found.modified());
    if days > 0 && done.is_ok_and(|done| done.elapsed().is_ok_and(|age| age < DAY)) {
        return Ok(0);
    }
    if !config_home.join("projects").is_dir() {
        return Ok(0);
    }
    File::create(&mark)?;
    Ok(clean(config_home, days, own))
}

/// Deletes sessions that were not used for so many days; 0 deletes all. Gives how many were.
fn clean(config_home: &Path, days: u32, own: &Path) -> usize {
    let store = SessionStore::new(config_home);
    let limit = SystemTime::now().checked_sub(DAY * days);
    let is_old = |session: &SessionInfo| {
        let modified = fs::metadata(&session.path).and_then(|found| found.modified());
        session.path != own
            && modified.is_ok_and(|modified| limit.is_some_and(|limit| modified <= limit))
    };
    let sessions = store.list(Scope::Everywhere, None);
    let old = sessions.iter().filter(|session| is_old(session));
    // One that can't be deleted now (it is in use) is tried again tomorrow.
    old.filter(|session| store.delete(session).is_ok()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SessionPaths, TranscriptWriter, WriterOptions};
    use lathe_protocol::ids::SessionId;

    fn session(home: &Path, age_in_days: u32) -> std::path::PathBuf {
        let paths = SessionPaths::new(home, Path::new("/work"), SessionId::random());
        let path = paths.transcript();
        fs::create_dir_all(paths.session_folder()).unwrap();
        let line = format!(
            "{{\"type\":\"user\",\"uuid\":\"{}\",\"parentUuid\":null,\"sessionId\":\"{}\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/work\",\"message\":{{\"role\":\"user\",\"content\":\"hi\"}}}}\n",
            SessionId::random(),
            SessionId::random()
        );
        fs::write(&path, line).unwrap();
        let then = SystemTime::now() - DAY * age_in_days - Duration::from_secs(60);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(then)
            .unwrap();
        path
    }

    #[test]
    fn old_sessions_are_deleted_with_their_folders_once_a_day_and_those_in_use_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let (old, young) = (session(home.path(), 31), session(home.path(), 29));
        let (used, own) = (session(home.path(), 40), session(home.path(), 50));
        let _writer = TranscriptWriter::open_append(&used, WriterOptions::default()).unwrap();
        assert_eq!(clean_if_due(home.path(), 30, &own).unwrap(), 1);
        assert!(!old.exists() && !old.with_extension("").exists());
        assert!(young.exists() && used.exists() && own.exists());
        let another = session(home.path(), 31);
        assert_eq!(clean_if_due(home.path(), 30, &own).unwrap(), 0);
        assert!(another.exists(), "not twice a day");
    }

    #[test]
    fn zero_days_keep_nothing() {
        let home = tempfile::tempdir().unwrap();
        let (one, own) = (session(home.path(), 0), session(home.path(), 0));
        clean_if_due(home.path(), 30, &own).unwrap();
        assert_eq!(clean_if_due(home.path(), 0, &own).unwrap(), 1);
        assert!(!one.exists() && own.exists());
    }
}
