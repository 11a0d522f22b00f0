//! Changes settings files without disturbing them.
//!
//! A file is the user's: comments, order, indentation and every byte that isn't part of the change
//! stay as they are ([`crate::patch`]). Writing is atomic (a temporary file
//! beside it, synced, renamed over), keeps the mode, goes through symlinks and holds a lock, so that
//! two sessions that save at the same time both get their change in.

use crate::document::Position;
use crate::key::KeyPath;
pub use crate::patch::{Edit, patch};
use crate::paths::Places;
use crate::regular_file;
use crate::source::Source;
use crate::validate::{FindingKind, validate_key};
use lathe_protocol::permission::{Behavior, PermissionUpdate, RuleSource, RuleValue};
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why settings were not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The source has no file of ours.
    #[error("{source_name} settings are never written by Lathe; choose user, project or local")]
    NotWritten {
        /// The source.
        source_name: &'static str,
    },
    /// The file is broken; writing would lose what the user has there.
    #[error("{}:{}:{}: {message}; fix the file first, nothing was written", file.display(), position.line, position.column)]
    Broken {
        /// The file.
        file: PathBuf,
        /// Where.
        position: Position,
        /// The mistake.
        message: String,
    },
    /// Something else stands where an object or a list is needed.
    #[error("{key} is not {wanted} in this file; fix it manually; nothing was written")]
    InTheWay {
        /// The key.
        key: String,
        /// The expected value.
        wanted: &'static str,
    },
    /// The value doesn't fit the key.
    #[error("{key}: {message}")]
    Invalid {
        /// The key.
        key: String,
        /// The mistake.
        message: String,
    },
    /// A folder's file is a link into the user's own configuration.
    #[error("{} is a link into {}; what is saved for a folder must not apply everywhere; nothing was written", file.display(), target.display())]
    Astray {
        /// The file.
        file: PathBuf,
        /// Where the link leads.
        target: PathBuf,
    },
    /// The file system refuses.
    #[error("{} can't be written: {error}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Files that this process wrote itself, so that its watcher doesn't report them.
#[derive(Debug, Clone, Default)]
pub struct OwnWrites(Arc<Mutex<HashMap<PathBuf, [u8; 32]>>>);

impl OwnWrites {
    fn remember(&self, file: &Path, text: &str) {
        self.0
            .lock()
            .insert(file.to_path_buf(), hash(text.as_bytes()));
    }

    /// Whether a file's content is what this process wrote last.
    #[must_use]
    pub fn wrote(&self, file: &Path, text: &str) -> bool {
        self.0.lock().get(file) == Some(&hash(text.as_bytes()))
    }
}

/// The fingerprint of a content.
pub(crate) fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Checks that a value fits its key, before it is written.
///
/// # Errors
/// When it doesn't, or the key is unknown.
pub fn check(key: &KeyPath, value: &Value) -> Result<(), WriteError> {
    let invalid = |message| WriteError::Invalid {
        key: key.to_string(),
        message,
    };
    for finding in validate_key(&key.0, value) {
        let place = crate::document::pointer_to_key(&finding.pointer);
        match finding.kind {
            FindingKind::Wrong {
                expected,
                found,
                fix,
            } => {
                let fix = fix.map_or_else(String::new, |fix| format!(" ({fix})"));
                return Err(invalid(format!("expected {expected}, found {found}{fix}")));
            }
            FindingKind::Missing { key } => return Err(invalid(format!("\"{key}\" is missing"))),
            FindingKind::Unknown {
                nearest: Some(near),
            } => {
                return Err(invalid(format!(
                    "unknown key {place}; did you mean {near}?"
                )));
            }
            FindingKind::Unknown { nearest: None } if key.to_string().starts_with(&place) => {
                return Err(invalid(
                    "unknown key; `lathe config schema` lists all".to_owned(),
                ));
            }
            FindingKind::Unknown { .. } => {}
        }
    }
    Ok(())
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub file: PathBuf,
    /// Whether it changed.
    pub changed: bool,
}

/// Changes a source's file. The project's file of this person is kept out of git.
///
/// # Errors
/// When the source is never written, the file is broken, or the file system refuses.
pub fn write(
    places: &Places,
    source: Source,
    edits: &[Edit],
    own: Option<&OwnWrites>,
) -> Result<Written, WriteError> {
    let file = places.written_file(source).ok_or(WriteError::NotWritten {
        source_name: source.name(),
    })?;
    if source.comes_with_the_folder() {
        let target = through_links(&file).map_err(|error| WriteError::Io {
            file: file.clone(),
            error,
        })?;
        let real = fs::canonicalize(&target).unwrap_or_else(|_| target.clone());
        let home = fs::canonicalize(&places.config_home).unwrap_or(places.config_home.clone());
        if real.starts_with(&home) && file != target {
            return Err(WriteError::Astray { file, target });
        }
    }
    let written = write_file(
        &file,
        edits,
        if source == Source::User { 0o600 } else { 0o644 },
        own,
    )?;
    if source == Source::Local {
        keep_out_of_git(&places.project, &file);
    }
    Ok(written)
}

/// Changes one file; a new one gets `mode`.
///
/// # Errors
/// When the file is broken or the file system refuses.
pub fn write_file(
    file: &Path,
    edits: &[Edit],
    mode: u32,
    own: Option<&OwnWrites>,
) -> Result<Written, WriteError> {
    let io = |error| WriteError::Io {
        file: file.to_path_buf(),
        error,
    };
    let target = through_links(file).map_err(io)?;
    let folder = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(io)?;
    let _lock = lock_folder(folder).map_err(io)?;
    // Reading a pipe would wait for ever.
    if fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io(io::Error::other("is not a file")));
    }
    let text = match fs::read_to_string(&target) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(io(error)),
    };
    let patched = patch(&text, edits).map_err(|error| match error {
        WriteError::Broken {
            position, message, ..
        } => WriteError::Broken {
            file: file.to_path_buf(),
            position,
            message,
        },
        other => other,
    })?;
    if patched == text {
        return Ok(Written {
            file: file.to_path_buf(),
            changed: false,
        });
    }
    if let Some(own) = own {
        own.remember(file, &patched);
    }
    replace(&target, patched.as_bytes(), mode).map_err(io)?;
    Ok(Written {
        file: file.to_path_buf(),
        changed: true,
    })
}

/// Puts a content in place of a file's, at once or not at all. An existing file's mode is kept.
///
/// # Errors
/// When the file system refuses.
pub fn replace(target: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = target.parent().unwrap_or(Path::new("/"));
    let mode = fs::metadata(target).map_or(mode, |metadata| metadata.permissions().mode() & 0o7777);
    let mut temporary = tempfile::Builder::new()
        .prefix(".settings-")
        .tempfile_in(folder)?;
    temporary.write_all(bytes)?;
    temporary
        .as_file()
        .set_permissions(fs::Permissions::from_mode(mode))?;
    temporary.as_file().sync_all()?;
    temporary.persist(target)?;
    // The rename itself is durable only with its folder; some file systems can't sync one.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

/// Locks a folder against other writers of ours, until the returned file is dropped. The folder
/// itself is locked, so no lock file is left lying about.
///
/// # Errors
/// When the folder can't be opened.
pub fn lock_folder(folder: &Path) -> io::Result<File> {
    let handle = File::open(folder)?;
    match handle.lock() {
        Ok(()) => Ok(handle),
        // Some network file systems have no locks; renaming is still atomic there.
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(handle),
        Err(error) => Err(error),
    }
}

/// The file that a path means in the end. A link to a file that isn't there yet is followed too.
fn through_links(file: &Path) -> io::Result<PathBuf> {
    let mut path = file.to_path_buf();
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(target) => {
                path = path.parent().unwrap_or(Path::new("/")).join(target);
            }
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                return Ok(path);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Tells git to leave the file alone, in a place that is not itself part of the repository. Where
/// that can't be written, a `.gitignore` beside the file does. Failing is no reason not to save.
fn keep_out_of_git(project: &Path, file: &Path) {
    let Some(name) = file
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
    else {
        return;
    };
    let Some(folder) = file.parent() else { return };
    let Some(git) = git_folder(project) else {
        return;
    };
    let folder_name = folder
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let pattern = format!("**/{}/{name}", folder_name.unwrap_or_default());
    if add_line(&git.join("info").join("exclude"), &pattern).is_err() {
        let _ = add_line(&folder.join(".gitignore"), &name);
    }
}

/// The folder in which git keeps `info/exclude` for a working tree.
fn git_folder(project: &Path) -> Option<PathBuf> {
    let dot_git = project
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find(|path| path.exists())?;
    if dot_git.is_dir() {
        return Some(dot_git);
    }
    // A worktree or submodule: a file that says where its folder is, which may say where the
    // folder is that it shares with others.
    let text = regular_file::read_text(&dot_git).ok()?;
    let named = text.strip_prefix("gitdir:")?.trim();
    let git = dot_git.parent()?.join(named);
    match regular_file::read_text(&git.join("commondir")) {
        Ok(common) => Some(git.join(common.trim())),
        Err(_) => Some(git),
    }
}

fn add_line(file: &Path, line: &str) -> io::Result<()> {
    let text = match regular_file::read_text(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    if text.lines().any(|known| known.trim() == line) {
        return Ok(());
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let gap = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let mut handle = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)?;
    handle.write_all(format!("{gap}{line}\n").as_bytes())
}

/// A rule as it is written: `Tool` or `Tool(content)`, with parentheses inside escaped.
#[must_use]
pub fn rule_text(rule: &RuleValue) -> String {
    match rule.rule_content.as_deref() {
        None | Some("") => rule.tool_name.clone(),
        Some(content) => {
            let escaped = content
                .replace('\\', "\\\\")
                .replace('(', "\\(")
                .replace(')', "\\)");
            format!("{}({escaped})", rule.tool_name)
        }
    }
}

/// The source into whose file a destination goes; `None` where nothing is written.
#[must_use]
pub fn written_source(destination: RuleSource) -> Option<Source> {
    match destination {
        RuleSource::UserSettings => Some(Source::User),
        RuleSource::ProjectSettings => Some(Source::Project),
        RuleSource::LocalSettings => Some(Source::Local),
        RuleSource::PolicySettings
        | RuleSource::FlagSettings
        | RuleSource::CliArg
        | RuleSource::Command
        | RuleSource::Session => None,
    }
}

/// Saves a change of permissions where it says. `None` when its destination is not a file.
///
/// # Errors
/// When the file is broken or the file system refuses.
pub fn save_update(
    places: &Places,
    update: &PermissionUpdate,
    own: Option<&OwnWrites>,
) -> Result<Option<Written>, WriteError> {
    let (destination, edit) = edit_of(update);
    let Some(source) = written_source(destination) else {
        return Ok(None);
    };
    write(places, source, &[edit], own).map(Some)
}

fn edit_of(update: &PermissionUpdate) -> (RuleSource, Edit) {
    let key = |name: &str| KeyPath(vec!["permissions".to_owned(), name.to_owned()]);
    let list = |behavior: &Behavior| {
        key(match behavior {
            Behavior::Allow => "allow",
            Behavior::Ask => "ask",
            Behavior::Deny => "deny",
        })
    };
    let texts = |rules: &[RuleValue]| rules.iter().map(|rule| rule_text(rule).into()).collect();
    let paths = |folders: &[PathBuf]| {
        folders
            .iter()
            .map(|folder| folder.to_string_lossy().into_owned().into())
            .collect()
    };
    let directories = || key("additionalDirectories");
    match update {
        PermissionUpdate::AddRules {
            rules,
            behavior,
            destination,
        } => (
            *destination,
            Edit::Add {
                key: list(behavior),
                items: texts(rules),
            },
        ),
        PermissionUpdate::RemoveRules {
            rules,
            behavior,
            destination,
        } => (
            *destination,
            Edit::Remove {
                key: list(behavior),
                items: texts(rules),
            },
        ),
        PermissionUpdate::ReplaceRules {
            rules,
            behavior,
            destination,
        } => (
            *destination,
            Edit::Set {
                key: list(behavior),
                value: Value::Array(texts(rules)),
            },
        ),
        PermissionUpdate::SetMode { mode, destination } => (
            *destination,
            Edit::Set {
                key: key("defaultMode"),
                value: mode.name().into(),
            },
        ),
        PermissionUpdate::AddDirectories {
            directories: folders,
            destination,
        } => (
            *destination,
            Edit::Add {
                key: directories(),
                items: paths(folders),
            },
        ),
        PermissionUpdate::RemoveDirectories {
            directories: folders,
            destination,
        } => (
            *destination,
            Edit::Remove {
                key: directories(),
                items: paths(folders),
            },
        ),
    }
}
