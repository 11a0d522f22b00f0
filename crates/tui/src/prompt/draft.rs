//! The draft: what is typed and not sent yet, kept on disk so that it survives a crash.
//!
//! One small file per project and terminal, written a moment after the last key and removed when the
//! prompt is sent.

use super::editor::Attachment;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The file of this terminal's draft.
#[derive(Debug, Default)]
pub(crate) struct DraftFile {
    pub(crate) file: PathBuf,
    /// Keeps other terminals from taking the draft.
    pub(crate) lock: Option<File>,
    /// When the draft is written.
    pub(crate) due: Option<Instant>,
    pub(crate) saved: Draft,
}

/// A prompt that is not sent yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Draft {
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) attachments: Vec<Attachment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stash: Option<String>,
}

/// How many terminals in one folder have a draft of their own.
const MOST_DRAFTS: usize = 32;

/// Locks a file, unless somebody has.
fn lock(file: &Path) -> std::io::Result<Option<File>> {
    std::fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(file)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

impl Draft {
    /// The file of a draft that no other terminal writes to: the project's first that is free, so that
    /// the draft of a crashed terminal is found, and one that is being typed in another is not. It is
    /// taken for as long as the lock lives.
    pub(crate) fn claim(config_home: &Path, project: &Path) -> (PathBuf, Option<File>) {
        for number in 1..=MOST_DRAFTS {
            let file = Self::file(config_home, project, number);
            match lock(&file.with_extension("lock")) {
                Ok(Some(lock)) => return (file, Some(lock)),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "the draft can't be locked");
                    return (file, None);
                }
            }
        }
        (Self::file(config_home, project, MOST_DRAFTS + 1), None)
    }

    /// The files of a project's drafts that are there.
    pub(crate) fn files(config_home: &Path, project: &Path) -> Vec<PathBuf> {
        (1..=MOST_DRAFTS + 1)
            .map(|number| Self::file(config_home, project, number))
            .flat_map(|file| [file.with_extension("lock"), file])
            .filter(|file| file.is_file())
            .collect()
    }

    /// The file of one of a project's drafts.
    fn file(config_home: &Path, project: &Path, number: usize) -> PathBuf {
        let name: String = project
            .display()
            .to_string()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let start = name.len().saturating_sub(150);
        config_home.join("drafts").join(match number {
            1 => format!("{}.json", &name[start..]),
            number => format!("{}.{number}.json", &name[start..]),
        })
    }

    pub(crate) fn load(file: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(file).ok()?).ok()
    }

    /// Writes the draft, or removes its file when there is none.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(crate) fn save(&self, file: &Path) -> std::io::Result<()> {
        if self.text.is_empty() && self.stash.is_none() {
            return match std::fs::remove_file(file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let bytes = serde_json::to_vec(self)?;
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        temporary.write_all(&bytes)?;
        temporary.persist(file).map_err(|error| error.error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_is_kept_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, _lock) = Draft::claim(folder.path(), Path::new("/a/b"));
        let draft = Draft {
            text: "half a thou".into(),
            ..Draft::default()
        };
        draft.save(&file).unwrap();
        assert_eq!(Draft::load(&file), Some(draft));
        Draft::default().save(&file).unwrap();
        assert_eq!(Draft::load(&file), None);
        Draft::default().save(&file).unwrap();
    }

    #[test]
    fn each_terminal_has_its_own_draft_and_finds_that_of_a_crashed_one() {
        let folder = tempfile::tempdir().unwrap();
        let claim = || Draft::claim(folder.path(), Path::new("/a/b"));
        let (first, first_lock) = claim();
        let (second, second_lock) = claim();
        assert!(first_lock.is_some() && second_lock.is_some());
        assert_ne!(first, second);
        let draft = Draft {
            text: "typed in the second".into(),
            ..Draft::default()
        };
        draft.save(&second).unwrap();
        drop(second_lock);
        let (third, _lock) = claim();
        assert_eq!(Draft::load(&third), Some(draft));
        let (elsewhere, _lock) = Draft::claim(folder.path(), Path::new("/c"));
        assert_eq!(Draft::load(&elsewhere), None);
    }
}
