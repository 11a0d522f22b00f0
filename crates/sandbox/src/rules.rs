//! Landlock: which files a process can reach.

use crate::{ConfinementError, ReadOnlyPolicy};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    PathFdError, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use std::os::fd::OwnedFd;
use std::path::Path;

/// The newest version whose rights are handled. Older kernels handle what they know.
const NEWEST: ABI = ABI::V6;

/// Devices that may be read and written by everyone.
const DEVICES: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/console",
];

/// The kernel's version of Landlock, 0 without it.
pub(crate) fn landlock_version() -> u32 {
    /// `LANDLOCK_CREATE_RULESET_VERSION`.
    const VERSION: u32 = 1;
    // SAFETY: with a null attribute of size 0 and this flag the call only reports a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// The rules of a command that only reads.
pub(crate) fn read_only(policy: &ReadOnlyPolicy) -> Result<OwnedFd, ConfinementError> {
    let refused = |error: landlock::RulesetError| ConfinementError::Refused(error.to_string());
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .map_err(refused)?
        .scope(Scope::from_all(NEWEST))
        .map_err(refused)?;
    if !policy.network {
        ruleset = ruleset
            .handle_access(AccessNet::from_all(NEWEST))
            .map_err(refused)?;
    }
    let mut ruleset = ruleset.create().map_err(refused)?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let run = read | AccessFs::Execute;
    let write = AccessFs::from_all(NEWEST) & !AccessFs::Execute;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    for (paths, access) in [
        (&policy.readable, read),
        (&policy.executable, run),
        (&policy.writable, write),
    ] {
        for path in paths {
            ruleset = allow(ruleset, path, access)?;
        }
    }
    for path in DEVICES {
        ruleset = allow(ruleset, Path::new(path), device)?;
    }
    Option::<OwnedFd>::from(ruleset)
        .ok_or_else(|| ConfinementError::Refused("no ruleset was made".to_owned()))
}

/// Adds a rule for a path; one that isn't there, or can't be opened, needs none.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, ConfinementError> {
    let opened = match PathFd::new(path) {
        Ok(opened) => opened,
        Err(PathFdError::OpenCall { source, .. }) => {
            tracing::trace!(path = %path.display(), %source, "not opened for a rule");
            return Ok(ruleset);
        }
        Err(error) => return Err(ConfinementError::Refused(error.to_string())),
    };
    // Rights that only folders have are refused on files.
    let access = if path.is_dir() {
        access
    } else {
        access & AccessFs::from_file(NEWEST)
    };
    ruleset
        .add_rule(PathBeneath::new(opened, access))
        .map_err(|error| ConfinementError::Refused(error.to_string()))
}
