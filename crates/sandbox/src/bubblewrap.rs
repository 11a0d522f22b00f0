//! The words of bubblewrap, and with which rights it starts the helper.
//!
//! bubblewrap reads the list of all mounts after each one that it makes, which takes longer than everything else
//! together. So it makes the namespaces only, where the small helper can do the rest.

use crate::SandboxPolicy;
use crate::launch::Request;
use crate::mounts;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// All namespaces but the one of users.
const SHARED_USERS: [&str; 5] = [
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-uts",
    "--unshare-cgroup-try",
];

/// The words for bubblewrap where the small helper makes the mounts, up to the helper's words for them. The helper has
/// rights in the namespaces, and gives them up before the command starts.
pub(crate) fn without_mounts(
    program: &Path,
    helper: &Path,
    plan: &[mounts::Mount],
    privileges: Privileges,
    request: &Request<'_>,
) -> Vec<OsString> {
    let mut words = vec![program.as_os_str().to_owned()];
    let namespaces: &[&str] = match privileges {
        Privileges::OwnNamespace => &[
            "--unshare-all",
            "--unshare-user",
            "--uid",
            "0",
            "--gid",
            "0",
        ],
        Privileges::Root => &SHARED_USERS,
    };
    words.extend(namespaces.iter().map(OsString::from));
    words.extend(["--cap-add", "ALL", "--die-with-parent", "--as-pid-1"].map(OsString::from));
    if !request.terminal {
        words.push("--new-session".into());
    }
    words.extend(["--dev-bind", "/", "/", "--proc", "/proc", "--"].map(OsString::from));
    words.push(helper.into());
    words.extend(["--directory".into(), request.directory.into()]);
    if privileges == Privileges::OwnNamespace {
        // SAFETY: these calls only report numbers.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        words.extend(["--identity".into(), user.to_string().into()]);
        words.push(group.to_string().into());
    }
    words.extend(mounts::helper_arguments(plan));
    words
}

/// The words for bubblewrap where it makes the mounts: what is isolated, and what is mounted. The helper follows.
///
/// # Errors
/// A link that must be held, which bubblewrap can't.
pub(crate) fn with_mounts(
    program: &Path,
    plan: &[mounts::Mount],
    privileges: Privileges,
    request: &Request<'_>,
) -> Result<Vec<OsString>, PathBuf> {
    if let Some(link) = mounts::needed_link(plan) {
        return Err(link.to_path_buf());
    }
    let mut words = vec![program.as_os_str().to_owned()];
    words.extend(
        isolation(privileges, !request.terminal)
            .into_iter()
            .map(Into::into),
    );
    words.extend(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"].map(Into::into));
    for file in ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"] {
        words.extend(["--ro-bind-try", file, file].map(Into::into));
    }
    words.extend(mounts::bubblewrap_arguments(plan));
    words.push("--chdir".into());
    words.push(request.directory.into());
    words.push("--".into());
    Ok(words)
}

/// With which rights the processes of a sandbox run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privileges {
    /// A user namespace in which this user is the only one: no rights at all.
    OwnNamespace,
    /// Root, with the right to use other people's files in writable folders and nothing else.
    Root,
}

impl Privileges {
    pub(crate) fn of_process() -> Self {
        Self::OwnNamespace
    }

    /// Root needs rights over the files of others only if a writable folder belongs to somebody else.
    pub(crate) fn needed(policy: &SandboxPolicy) -> Self {
        // SAFETY: the call only reports a number.
        let is_root = unsafe { libc::geteuid() } == 0;
        let foreign = |path: &PathBuf| path.metadata().is_ok_and(|metadata| metadata.uid() != 0);
        if is_root && policy.writable.iter().any(foreign) {
            Self::Root
        } else {
            Self::OwnNamespace
        }
    }
}

/// The restrictions by bubblewrap, where it makes the mounts.
pub(crate) fn isolation(privileges: Privileges, new_session: bool) -> Vec<&'static str> {
    let mut words = match privileges {
        Privileges::OwnNamespace => vec![
            "--unshare-all",
            "--unshare-user",
            "--disable-userns",
            "--cap-drop",
            "ALL",
        ],
        Privileges::Root => {
            let mut words = SHARED_USERS.to_vec();
            words.extend([
                "--cap-drop",
                "ALL",
                "--cap-add",
                "CAP_DAC_OVERRIDE",
                "--cap-add",
                "CAP_FOWNER",
                "--cap-add",
                "CAP_CHOWN",
                // For the helper, which gives everything but the three above up for good.
                "--cap-add",
                "CAP_SETPCAP",
            ]);
            words
        }
    };
    words.extend(["--die-with-parent", "--as-pid-1"]);
    if new_session {
        words.push("--new-session");
    }
    words
}
