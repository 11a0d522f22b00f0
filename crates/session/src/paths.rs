//! Where a session's files are.
//!
//! ```text
//! <config home>/projects/<key>/<session>.jsonl                      the transcript
//!                              <session>/tool-results/              outputs too long for the model
//!                              <session>/subagents/agent-<id>.jsonl sub-agents' transcripts
//!                              <session>/subagents/agent-<id>.meta.json
//!                              <session>/blobs/<sha256>             large content, file checkpoints
//! ```
//! `<key>` is made from the working folder by a fixed rule ([`project_key`]) that other programs
//! which read these files follow too, so it may never change. Files are 0600, folders 0700: a
//! transcript holds whatever the user and their tools said.

use crate::error::SessionError;
use lathe_protocol::ids::{AgentId, SessionId};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use unicode_normalization::UnicodeNormalization;

/// The longest project key that carries no hash.
const KEY_LIMIT: usize = 200;

/// The folder name of a project: the real path of its folder with everything but ASCII letters and
/// digits replaced by `-`, cut and hashed when long.
#[must_use]
pub fn project_key(cwd: &Path) -> String {
    key_of_text(&real_path_text(cwd))
}

/// The real path in NFC. A folder that is gone keeps its written path: its sessions are still there.
fn real_path_text(cwd: &Path) -> String {
    let real = fs::canonicalize(cwd)
        .or_else(|_| std::path::absolute(cwd))
        .unwrap_or_else(|_| cwd.to_owned());
    real.to_string_lossy().nfc().collect()
}

fn key_of_text(path: &str) -> String {
    // Counted in UTF-16 units, as the rule was written for a language whose strings are made of them.
    let key: String = path
        .encode_utf16()
        .map(|unit| {
            u8::try_from(unit)
                .ok()
                .filter(u8::is_ascii_alphanumeric)
                .map_or('-', char::from)
        })
        .collect();
    if key.len() <= KEY_LIMIT {
        return key;
    }
    format!("{}-{}", &key[..KEY_LIMIT], path_hash(path))
}

/// The first part of a long key, which every folder of that path starts with whatever its hash.
pub(crate) fn key_prefix(key: &str) -> Option<&str> {
    (key.len() > KEY_LIMIT).then(|| &key[..KEY_LIMIT])
}

fn path_hash(path: &str) -> String {
    let hash = path.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    base_36(hash.unsigned_abs())
}

fn base_36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            break;
        }
    }
    digits.iter().rev().collect()
}

/// The paths of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPaths {
    project: PathBuf,
    session: String,
}

impl SessionPaths {
    /// The paths of a session of the project in `cwd`.
    #[must_use]
    pub fn new(config_home: &Path, cwd: &Path, session: SessionId) -> Self {
        Self {
            project: projects_folder(config_home).join(project_key(cwd)),
            session: session.to_string(),
        }
    }

    /// The paths around a transcript that is already there.
    #[must_use]
    pub fn of_transcript(transcript: &Path) -> Self {
        Self {
            project: transcript.parent().map(Path::to_owned).unwrap_or_default(),
            session: transcript
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
                .unwrap_or_default(),
        }
    }

    /// The paths of another session of the same project.
    #[must_use]
    pub fn sibling(&self, session: SessionId) -> Self {
        Self {
            project: self.project.clone(),
            session: session.to_string(),
        }
    }

    /// The project's folder, which holds its transcripts.
    #[must_use]
    pub fn project_folder(&self) -> &Path {
        &self.project
    }

    /// The transcript.
    #[must_use]
    pub fn transcript(&self) -> PathBuf {
        self.project.join(format!("{}.jsonl", self.session))
    }

    /// The folder of everything that belongs to the session but the transcript itself.
    #[must_use]
    pub fn session_folder(&self) -> PathBuf {
        self.project.join(&self.session)
    }

    /// Where outputs go that are too long for the model.
    #[must_use]
    pub fn tool_results(&self) -> PathBuf {
        self.session_folder().join("tool-results")
    }

    /// The notes that the session keeps about itself.
    #[must_use]
    pub fn notes(&self) -> PathBuf {
        self.session_folder().join("notes.md")
    }

    /// Where large content is stored by its hash.
    #[must_use]
    pub fn blobs(&self) -> PathBuf {
        self.session_folder().join("blobs")
    }

    /// Where the sub-agents' transcripts are.
    #[must_use]
    pub fn subagents(&self) -> PathBuf {
        self.session_folder().join("subagents")
    }

    /// A sub-agent's transcript.
    #[must_use]
    pub fn agent_transcript(&self, agent: &AgentId) -> PathBuf {
        self.subagents().join(format!("agent-{agent}.jsonl"))
    }

    /// The task of a sub-agent.
    #[must_use]
    pub fn agent_meta(&self, agent: &AgentId) -> PathBuf {
        self.subagents().join(format!("agent-{agent}.meta.json"))
    }
}

/// The folder of all projects.
#[must_use]
pub fn projects_folder(config_home: &Path) -> PathBuf {
    config_home.join("projects")
}

/// Creates a folder and its parents, 0700.
///
/// # Errors
/// When the system refuses.
pub fn create_private_folder(folder: &Path) -> Result<(), SessionError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(SessionError::io("create the folder", folder))
}

/// Writes a whole file, 0600, so that it is there completely or not at all, also after a loss of
/// power.
///
/// # Errors
/// When the system refuses, or the disk is full.
pub fn write_private_file(path: &Path, content: &[u8]) -> Result<(), SessionError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    create_private_folder(folder)?;
    let write = || -> io::Result<()> {
        // A temporary file is 0600 from birth.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        io::Write::write_all(&mut file, content)?;
        file.as_file().sync_data()?;
        file.persist(path).map_err(|error| error.error)?;
        fs::File::open(folder)?.sync_all()
    };
    write().map_err(SessionError::io("write", path))
}

/// Writes a file that must not exist yet (a tool's long output, named by its call), 0600.
///
/// # Errors
/// When the file exists, or the system refuses.
pub fn write_new_private_file(path: &Path, content: &[u8]) -> Result<(), SessionError> {
    if let Some(folder) = path.parent() {
        create_private_folder(folder)?;
    }
    let write = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        io::Write::write_all(&mut file, content)
    };
    write().map_err(SessionError::io("create", path))
}

/// A name that others chose (an agent, a task list, a topic) as a file name without its ending: letters and digits of any
/// script and `_` stay, everything else becomes `-`, at most `limit` characters.
#[must_use]
pub fn file_stem_of(name: &str, limit: usize) -> String {
    name.chars()
        .take(limit)
        .map(|letter| {
            if letter.is_alphanumeric() || letter == '_' {
                letter
            } else {
                '-'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_keeps_letters_and_digits_only() {
        assert_eq!(
            key_of_text("/home/ann/My Project_2.0"),
            "-home-ann-My-Project-2-0"
        );
        assert_eq!(key_of_text("/é"), "--");
        assert_eq!(key_of_text("/😀"), "---", "two UTF-16 units");
    }

    #[test]
    fn a_long_key_is_cut_and_hashed_over_the_whole_path() {
        let path = format!("/{}", "a".repeat(250));
        let key = key_of_text(&path);
        // Worked out by hand with the published rule: h = h*31 + code, 32 bits, absolute, base 36.
        let mut hash: i64 = 0;
        for code in path.encode_utf16() {
            hash = (hash * 31 + i64::from(code)) & 0xffff_ffff;
            if hash >= 0x8000_0000 {
                hash -= 0x1_0000_0000;
            }
        }
        let mut wanted = String::new();
        let mut rest = hash.abs();
        while rest > 0 {
            wanted.insert(
                0,
                char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[(rest % 36) as usize]),
            );
            rest /= 36;
        }
        assert_eq!(key, format!("-{}-{wanted}", "a".repeat(199)));
        assert_eq!(key_prefix(&key), Some(&key[..200]));
        assert_ne!(key, key_of_text(&format!("/{}b", "a".repeat(249))));
        assert_eq!(key_prefix("-short"), None);
    }

    #[test]
    fn the_known_hash_values_come_out() {
        assert_eq!(path_hash(""), "0");
        assert_eq!(path_hash("a"), "2p");
        assert_eq!(path_hash("/tmp"), base_36(1_515_144));
    }

    #[test]
    fn links_are_resolved_and_letters_composed() {
        let home = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(home.path()).unwrap();
        let real = root.join("real");
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, root.join("link")).unwrap();
        assert_eq!(project_key(&root.join("link")), project_key(&real));
        // `e` with a combining accent is one letter after composition.
        let composed = root.join("caf\u{e9}");
        let decomposed = root.join("cafe\u{301}");
        assert_eq!(project_key(&composed), project_key(&decomposed));
    }

    #[test]
    fn files_are_0600_and_folders_0700() {
        let home = tempfile::tempdir().unwrap();
        let paths = SessionPaths::new(home.path(), home.path(), SessionId::random());
        let file = paths.tool_results().join("a.txt");
        write_private_file(&file, b"x").unwrap();
        let other = paths.tool_results().join("b.txt");
        write_new_private_file(&other, b"x").unwrap();
        assert!(
            write_new_private_file(&other, b"y").is_err(),
            "created exclusively"
        );
        assert_eq!(fs::read(&other).unwrap(), b"x");
        for path in [&file, &other] {
            assert_eq!(
                fs::metadata(path).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
        for folder in [
            projects_folder(home.path()),
            paths.project_folder().to_owned(),
            paths.tool_results(),
        ] {
            assert_eq!(
                fs::metadata(folder).unwrap().permissions().mode() & 0o777,
                0o700
            );
        }
    }
}
