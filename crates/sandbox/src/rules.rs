//! Landlock: which files a process can reach.

use crate::{ConfinementError, ReadOnlyPolicy};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    PathFdError, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

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
            ruleset = allow_around(ruleset, path, access, &policy.hidden)?;
        }
    }
    for path in DEVICES {
        ruleset = allow(ruleset, Path::new(path), device)?;
    }
    Option::<OwnedFd>::from(ruleset)
        .ok_or_else(|| ConfinementError::Refused("no ruleset was made".to_owned()))
}

/// The most entries of a folder that get rules of their own.
const MOST_ENTRIES: usize = 512;

/// Adds rules for a path without what is hidden below it. The kernel only knows what is allowed: in a folder with a
/// hidden file, every other entry is allowed by itself. Links are left out, because a rule would be for their targets.
fn allow_around(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    hidden: &[PathBuf],
) -> Result<RulesetCreated, ConfinementError> {
    if hidden.iter().any(|file| file == path) {
        return Ok(ruleset);
    }
    let holds_hidden = hidden.iter().any(|file| file.starts_with(path));
    let entries: Vec<_> = match std::fs::read_dir(path) {
        Ok(entries) if holds_hidden => entries.flatten().take(MOST_ENTRIES + 1).collect(),
        _ => return allow(ruleset, path, access),
    };
    if entries.len() > MOST_ENTRIES {
        return allow(ruleset, path, access);
    }
    let mut ruleset = allow(ruleset, path, AccessFs::ReadDir.into())?;
    for entry in entries {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if !is_link {
            ruleset = allow_around(ruleset, &entry.path(), access, hidden)?;
        }
    }
    Ok(ruleset)
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

/// The second line behind the mounts of a sandbox: only these places can be changed, whatever else is writable.
pub(crate) fn sandboxed(files: &crate::inner::Files) -> Result<OwnedFd, ConfinementError> {
    let ruleset = handle(AccessFs::from_write(NEWEST))?;
    let mut ruleset = writable(ruleset, &files.writable, AccessFs::from_write(NEWEST))?;
    for path in ["/tmp", "/var/tmp", "/dev", "/run"] {
        ruleset = allow(ruleset, Path::new(path), AccessFs::from_write(NEWEST))?;
    }
    finish(ruleset)
}

/// The rights that the rules of [`sandboxed`] are made of, as far as this kernel knows them: those of folders, those of
/// files, and the scopes. `None` without Landlock.
pub(crate) fn of_this_kernel() -> Option<[u64; 3]> {
    let known = match landlock_version() {
        0 => return None,
        1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        _ => NEWEST,
    };
    let of_folders = AccessFs::from_write(NEWEST) & AccessFs::from_all(known);
    let of_files = of_folders & AccessFs::from_file(NEWEST);
    let scopes = Scope::from_all(known);
    Some([of_folders.bits(), of_files.bits(), scopes.bits()])
}

/// The rules of a sandbox without mounts: what is hidden is left out of what can be read.
pub(crate) fn sandboxed_alone(files: &crate::inner::Files) -> Result<OwnedFd, ConfinementError> {
    let ruleset = handle(AccessFs::from_all(NEWEST))?;
    let mut ruleset = writable(ruleset, &files.writable, AccessFs::from_all(NEWEST))?;
    let read = AccessFs::from_read(NEWEST);
    let mut readable = Vec::new();
    around(Path::new("/"), &files.hidden, &mut readable);
    for path in readable.iter().chain(&files.shown) {
        ruleset = allow(ruleset, path, read)?;
    }
    // Names can be listed everywhere; contents can't be read.
    ruleset = allow(ruleset, Path::new("/"), AccessFs::ReadDir.into())?;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    for path in DEVICES.iter().filter(|path| !path.starts_with("/dev/pt")) {
        ruleset = allow(ruleset, Path::new(path), device)?;
    }
    let shared_memory = AccessFs::from_all(NEWEST) & !AccessFs::Execute;
    ruleset = allow(ruleset, Path::new("/dev/shm"), shared_memory)?;
    finish(ruleset)
}

fn handle(access: BitFlags<AccessFs>) -> Result<RulesetCreated, ConfinementError> {
    let refused = |error: landlock::RulesetError| ConfinementError::Refused(error.to_string());
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(access)
        .map_err(refused)?
        .scope(Scope::from_all(NEWEST))
        .map_err(refused)?
        .create()
        .map_err(refused)
}

fn writable(
    mut ruleset: RulesetCreated,
    paths: &[PathBuf],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, ConfinementError> {
    for path in paths {
        ruleset = allow(ruleset, path, access)?;
    }
    Ok(ruleset)
}

fn finish(ruleset: RulesetCreated) -> Result<OwnedFd, ConfinementError> {
    Option::<OwnedFd>::from(ruleset)
        .ok_or_else(|| ConfinementError::Refused("no ruleset was made".to_owned()))
}

/// Everything in a folder but the hidden paths, as few paths as possible.
fn around(folder: &Path, hidden: &[PathBuf], found: &mut Vec<PathBuf>) {
    /// More are not worth the time; what is left out then can't be read.
    const MOST: usize = 20_000;
    if hidden.iter().any(|path| folder.starts_with(path)) {
        return;
    }
    if !hidden.iter().any(|path| path.starts_with(folder)) {
        found.push(folder.to_path_buf());
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        // A rule for a link would be for its target, which is found by its own path.
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if found.len() < MOST && !is_link {
            around(&entry.path(), hidden, found);
        }
    }
}
