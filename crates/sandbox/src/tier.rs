//! How strong a sandbox is available here: probed by trying, once.

use std::fmt;
use std::path::{Path, PathBuf};

/// How commands are kept in the sandbox, from the strongest to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// bubblewrap makes the namespaces; Landlock and seccomp inside.
    Bubblewrap,
    /// Our own helper makes the namespaces; Landlock and seccomp inside.
    Namespaces,
    /// Landlock and seccomp alone: no network at all, no protected paths in writable folders.
    Landlock,
    /// macOS: a Seatbelt profile.
    Seatbelt,
    /// Nothing that confines commands.
    None,
}

impl Tier {
    /// Its name, as shown and as chosen in tests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::Seatbelt => "seatbelt",
            Self::None => "none",
        }
    }

    /// The tier with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        [
            Self::Bubblewrap,
            Self::Namespaces,
            Self::Landlock,
            Self::Seatbelt,
            Self::None,
        ]
        .into_iter()
        .find(|tier| tier.name() == name)
    }

    /// Its meaning, in one line.
    #[must_use]
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Bubblewrap => {
                "bubblewrap: own view of the file system, processes and network; Landlock and seccomp inside"
            }
            Self::Namespaces => {
                "own namespaces (bubblewrap is not installed): own view of the file system, processes and network; Landlock and seccomp inside"
            }
            Self::Landlock => {
                "Landlock and seccomp alone (no namespaces here): no network, processes are visible, git hooks and settings in writable folders are not protected"
            }
            Self::Seatbelt => "Seatbelt profile of macOS",
            Self::None => {
                "no sandbox: commands run with all your rights; only confirmation protects you"
            }
        }
    }

    /// Whether commands are confined at all.
    #[must_use]
    pub fn confines(self) -> bool {
        self != Self::None
    }

    /// Whether it protects everything that a command must not change, so that it can be on unless somebody says no.
    /// (Seatbelt is not among them as long as it hasn't been tried.)
    #[must_use]
    pub fn is_strong(self) -> bool {
        matches!(self, Self::Bubblewrap | Self::Namespaces)
    }

    /// Whether the network can be reached through the proxy, and only so.
    #[must_use]
    pub fn has_proxy(self) -> bool {
        matches!(self, Self::Bubblewrap | Self::Namespaces | Self::Seatbelt)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The result of probing this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The strongest tier that works.
    pub tier: Tier,
    /// Why stronger ones don't, a line for each.
    pub missing: Vec<String>,
    /// Where bubblewrap is.
    pub bubblewrap: Option<PathBuf>,
    /// Whether caches in the home folder can be written without spoiling them.
    pub caches: bool,
}

/// Where bubblewrap is: in a folder of the system, or on the search path in a folder that only root or this
/// person can change.
#[must_use]
pub(crate) fn find_bubblewrap(search_path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    let fixed = ["/usr/bin", "/bin", "/usr/local/bin"].map(PathBuf::from);
    let searched = search_path.into_iter().flat_map(std::env::split_paths);
    fixed
        .into_iter()
        .chain(searched)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("bwrap"))
        .find(|path| is_trusted(path))
}

/// Whether a program belongs to root, and so does its folder.
fn is_trusted(path: &Path) -> bool {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let owned = |path: &Path| {
        path.metadata()
            .is_ok_and(|metadata| metadata.uid() == 0 && metadata.permissions().mode() & 0o022 == 0)
    };
    let runs = path
        .metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
    runs && owned(path) && path.parent().is_some_and(owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_somebody_else_could_change_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("bwrap");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        assert!(!is_trusted(&program), "it can't be run");
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!is_trusted(&program), "everybody can write it");
    }

    #[test]
    fn names_are_read_back() {
        for tier in [
            Tier::Bubblewrap,
            Tier::Namespaces,
            Tier::Landlock,
            Tier::Seatbelt,
            Tier::None,
        ] {
            assert_eq!(Tier::find(tier.name()), Some(tier));
        }
    }
}
