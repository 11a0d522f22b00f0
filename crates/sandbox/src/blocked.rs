//! Telling a failure that the confinement caused from an ordinary one.
//!
//! The kernel doesn't say which of its rules refused a call: a program only sees `EACCES` or `EPERM`
//! and words it in its own way. So the output of a failed command is searched for those words. A path
//! that stands beside them decides: if this process could do what was refused, the confinement refused
//! it; if it couldn't either, the failure is the command's own.

use crate::ReadOnlyPolicy;
use std::path::{Path, PathBuf};

/// The refused access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Access to a path.
    Path(PathBuf),
    /// The network.
    Network,
    /// Something that the output doesn't name.
    Unknown,
}

/// Words that programs have for `EACCES`, `EPERM` and `EROFS`.
const REFUSALS: [&str; 6] = [
    "permission denied",
    "operation not permitted",
    "permissionerror",
    "eacces",
    "eperm",
    "not permitted",
];

/// Words about the network.
const NETWORK: [&str; 7] = [
    "socket",
    "connect",
    "could not resolve",
    "name resolution",
    "unable to access 'http",
    "network is unreachable",
    "getaddrinfo",
];

/// The access that the confinement refused to a command that failed with this output, if it did.
#[must_use]
pub fn blocked(output: &str, folder: &Path, policy: &ReadOnlyPolicy) -> Option<Block> {
    let mut unnamed = None;
    for line in output.lines() {
        let lower = line.to_lowercase();
        let about_network = NETWORK.iter().any(|word| lower.contains(word));
        if !REFUSALS.iter().any(|word| lower.contains(word)) {
            if about_network && !policy.network && lower.contains("could not resolve") {
                return Some(Block::Network);
            }
            continue;
        }
        if about_network && !policy.network {
            return Some(Block::Network);
        }
        let paths: Vec<PathBuf> = paths_in(line, folder).collect();
        if let Some(path) = paths.iter().find(|path| is_ours_to_use(path)) {
            return Some(Block::Path(path.clone()));
        }
        // A path that we can't use either explains the failure without us.
        if paths.iter().all(|path| !path.exists()) {
            unnamed = Some(Block::Unknown);
        }
    }
    unnamed
}

/// The words of a line that could be paths.
fn paths_in<'a>(line: &'a str, folder: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    line.split(|character: char| {
        character.is_whitespace() || matches!(character, '\'' | '"' | '`' | '‘' | '’' | '(' | ')')
    })
    .map(|word| {
        word.trim_end_matches([':', ',', ';', '.'])
            .trim_start_matches(':')
    })
    .filter(|word| word.contains('/') || folder.join(word).exists())
    .filter(|word| !word.is_empty())
    .map(|word| folder.join(word))
}

/// Whether this process may read or write a path.
fn is_ours_to_use(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: the string is terminated and outlives the calls, which only read it.
    unsafe {
        libc::access(path.as_ptr(), libc::R_OK) == 0 || libc::access(path.as_ptr(), libc::W_OK) == 0
    }
}
