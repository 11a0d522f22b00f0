//! The permissions of a command in the sandbox: the one policy that the kernel, the proxy and the file tools apply.
//!
//! Of several entries that hold a path, the deepest one counts, so that a folder can be writable in a
//! protected one. Of two entries for the same path, the stricter one counts.

use crate::domains::{HostRule, NetworkPolicy};
use std::fmt;
use std::path::{Path, PathBuf};

/// The permissions of a command in the sandbox. Paths are absolute, with links followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// Folders (or files) that may be written.
    pub writable: Vec<PathBuf>,
    /// Protected paths in writable folders.
    pub protected: Vec<Protected>,
    /// Files and folders that may not be read.
    pub hidden: Vec<PathBuf>,
    /// Readable paths in hidden folders.
    pub shown: Vec<PathBuf>,
    /// Folders that stay readable although they lie in a place that every sandbox has to itself (`/tmp`).
    pub visible: Vec<PathBuf>,
    /// Folders whose content is there to read, and whose changes stay in the sandbox.
    pub caches: Vec<PathBuf>,
    /// Credentials that commands may use and not see.
    pub credentials: Vec<CredentialSource>,
    /// Files that something else stands for.
    pub masked: Vec<Masked>,
    /// The network.
    pub network: NetworkPolicy,
    /// The resource limits of the processes.
    pub limits: ResourceLimits,
}

/// A credential that commands may use and not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialSource {
    /// Where it is.
    pub place: CredentialPlace,
    /// The hosts that it is for.
    pub hosts: Vec<HostRule>,
}

/// Where a credential is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialPlace {
    /// In a variable of the environment.
    Variable(String),
    /// In a file.
    File {
        /// Which.
        path: PathBuf,
        /// A regular expression whose group is the credential; without one it is the whole file.
        pattern: Option<String>,
    },
}

/// A file that something else stands for in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Masked {
    /// Where it is.
    pub path: PathBuf,
    /// The replacement.
    pub stand_in: PathBuf,
}

/// A path that may not be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protected {
    /// The path.
    pub path: PathBuf,
    /// The action while it doesn't exist.
    pub absent: Absent,
}

/// The action for a protected path that doesn't exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absent {
    /// Nothing: it can be made.
    Ignored,
    /// An empty file stands there while the command runs.
    File,
    /// An empty folder stands there while the command runs.
    Folder,
    /// A file with this text stands there while the command runs.
    Text(String),
}

/// The resource limits of a command's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceLimits {
    /// How many processes there may be.
    pub processes: u64,
    /// How many bytes of memory one process may have for its data; 0 is no limit.
    pub memory: u64,
    /// How many bytes one file may have.
    pub file_size: u64,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            processes: 4096,
            memory: 0,
            file_size: 64 << 30,
        }
    }
}

/// Why a path may not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is in no folder that may be written.
    OutsideOfWritable,
    /// It is protected by this entry.
    Protected(PathBuf),
    /// It is hidden by this entry.
    Hidden(PathBuf),
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutsideOfWritable => {
                formatter.write_str("it is outside the folders that may be written")
            }
            Self::Protected(path) => write!(formatter, "{} is protected", path.display()),
            Self::Hidden(path) => write!(formatter, "{} is hidden", path.display()),
        }
    }
}

impl Refusal {
    /// How the user can allow the path.
    #[must_use]
    pub fn remedy(&self, path: &Path) -> String {
        match self {
            Self::OutsideOfWritable => format!(
                "to allow it, add \"{}\" to sandbox.filesystem.allowWrite",
                path.parent().unwrap_or(path).display()
            ),
            Self::Protected(_) => {
                "it is protected in the sandbox; the user can run the command outside of it"
                    .to_owned()
            }
            Self::Hidden(path) => format!(
                "to allow it, add \"{}\" to sandbox.filesystem.allowRead",
                path.display()
            ),
        }
    }
}

impl SandboxPolicy {
    /// The variables that hold credentials: commands get stand-ins for them, or nothing.
    pub fn credential_variables(&self) -> impl Iterator<Item = &str> {
        self.credentials.iter().filter_map(|it| match &it.place {
            CredentialPlace::Variable(name) => Some(name.as_str()),
            CredentialPlace::File { .. } => None,
        })
    }

    /// Hides the files with credentials, where nothing can stand for them.
    pub fn hide_credentials(&mut self) {
        for source in &self.credentials {
            if let CredentialPlace::File { path, .. } = &source.place {
                self.hidden.push(path.clone());
            }
        }
    }

    /// The policy without entries that add nothing, and that a command could lead elsewhere: what lies in a writable
    /// folder is writable anyway, and a link that a command puts there must not make something else writable or visible.
    /// The root of the file system is never writable as a whole: in it are the devices and switches of the machine.
    pub(crate) fn settled(&self) -> Self {
        let mut settled = self.clone();
        let is_held = |path: &Path| {
            let around = self.writable.iter();
            let around = around.filter(|folder| *folder != path && *folder != Path::new("/"));
            let protected = self.protected.iter().map(|entry| &entry.path);
            match (deepest(around, path), deepest(protected, path)) {
                (Some(writable), Some(protected)) => depth(protected) > depth(writable),
                (Some(_), None) => false,
                (None, _) => true,
            }
        };
        settled
            .writable
            .retain(|path| is_held(path) && path != Path::new("/"));
        settled
            .shown
            .retain(|path| deepest(self.hidden.iter(), path).is_some_and(|hidden| hidden != path));
        settled
    }

    /// Whether a path may be written.
    ///
    /// # Errors
    /// Why not.
    pub fn check_write(&self, path: &Path) -> Result<(), Refusal> {
        let writable = deepest(self.writable.iter().chain(&self.caches), path);
        let protected = deepest(self.protected.iter().map(|entry| &entry.path), path);
        match (writable, protected) {
            (Some(writable), Some(protected)) if depth(protected) >= depth(writable) => {
                Err(Refusal::Protected(protected.clone()))
            }
            (Some(_), _) => Ok(()),
            (None, _) if is_free(path) && deepest(self.visible.iter(), path).is_none() => Ok(()),
            (None, _) => Err(Refusal::OutsideOfWritable),
        }
    }

    /// Whether a path may be read.
    ///
    /// # Errors
    /// Why not.
    pub fn check_read(&self, path: &Path) -> Result<(), Refusal> {
        let Some(hidden) = deepest(self.hidden.iter(), path) else {
            return Ok(());
        };
        if self.masked.iter().any(|masked| masked.path == path) {
            return Ok(());
        }
        match deepest(self.shown.iter(), path) {
            Some(shown) if depth(shown) > depth(hidden) => Ok(()),
            _ => Err(Refusal::Hidden(hidden.clone())),
        }
    }
}

/// The deepest of the entries that hold a path.
fn deepest<'a>(entries: impl Iterator<Item = &'a PathBuf>, path: &Path) -> Option<&'a PathBuf> {
    entries
        .filter(|entry| path.starts_with(entry))
        .max_by_key(|entry| depth(entry))
}

pub(crate) fn depth(path: &Path) -> usize {
    path.components().count()
}

/// Whether a path is a place that every command has to itself: temporary files, and devices.
fn is_free(path: &Path) -> bool {
    ["/tmp", "/dev", "/run", "/proc"]
        .iter()
        .any(|free| path.starts_with(free))
}

/// The differences between the seccomp filters of sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FilterOptions {
    /// Sockets of the internet, in a network namespace of the sandbox's own.
    pub(crate) internet: bool,
    /// Unix sockets by path.
    pub(crate) unix: bool,
    /// Listening is refused.
    pub(crate) no_listening: bool,
    /// There are no namespaces: what is shared with everybody else is refused too.
    pub(crate) shared_system: bool,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A policy with something of each kind.
    pub(crate) fn policy() -> SandboxPolicy {
        let protected = |path: &str| Protected {
            path: path.into(),
            absent: Absent::Ignored,
        };
        SandboxPolicy {
            writable: vec!["/w".into(), "/w/.lathe/worktrees/a".into()],
            protected: vec![protected("/w/.lathe"), protected("/w/.git/hooks")],
            hidden: vec!["/home/u/.ssh".into()],
            shown: vec!["/home/u/.ssh/known_hosts".into()],
            ..SandboxPolicy::default()
        }
    }

    #[test]
    fn the_deepest_entry_decides_about_writes() {
        let policy = policy();
        let check = |path: &str| policy.check_write(Path::new(path));
        assert_eq!(check("/w/src/x"), Ok(()));
        assert_eq!(check("/w/.lathe/worktrees/a/x"), Ok(()));
        assert_eq!(
            check("/w/.lathe/settings.json"),
            Err(Refusal::Protected("/w/.lathe".into()))
        );
        assert_eq!(
            check("/w/.git/hooks/pre-commit"),
            Err(Refusal::Protected("/w/.git/hooks".into()))
        );
        assert_eq!(check("/w/.git/index"), Ok(()));
        assert_eq!(check("/wx"), Err(Refusal::OutsideOfWritable));
        assert_eq!(check("/etc/passwd"), Err(Refusal::OutsideOfWritable));
        assert_eq!(check("/tmp/x"), Ok(()));
    }

    #[test]
    fn what_a_command_could_lead_elsewhere_is_no_entry_of_its_own() {
        let mut policy = policy();
        let further = ["/w/out", "/other", "/"];
        policy.writable.extend(further.map(PathBuf::from));
        policy.shown.push("/w/shown".into());
        let settled = policy.settled();
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(
            settled.writable,
            paths(&["/w", "/w/.lathe/worktrees/a", "/other"])
        );
        assert_eq!(settled.shown, paths(&["/home/u/.ssh/known_hosts"]));
    }

    #[test]
    fn a_hidden_folder_can_have_readable_files() {
        let policy = policy();
        let check = |path: &str| policy.check_read(Path::new(path));
        assert_eq!(check("/home/u/.sshx"), Ok(()));
        assert_eq!(check("/home/u/.ssh/known_hosts"), Ok(()));
        assert_eq!(
            check("/home/u/.ssh/id_rsa"),
            Err(Refusal::Hidden("/home/u/.ssh".into()))
        );
    }

    #[test]
    fn a_refusal_says_how_to_allow_it() {
        let path = Path::new("/etc/app/x");
        let remedy = Refusal::OutsideOfWritable.remedy(path);
        assert!(
            remedy.contains("\"/etc/app\" to sandbox.filesystem.allowWrite"),
            "{remedy}"
        );
        let remedy = Refusal::Hidden("/home/u/.ssh".into()).remedy(path);
        assert!(remedy.contains("allowRead"), "{remedy}");
    }
}
