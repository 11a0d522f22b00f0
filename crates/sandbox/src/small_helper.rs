//! The small helper as seen from outside: the program, and the words that it takes.
//!
//! It is a program of a few kilobytes (`src/small`) that stands in the library as bytes. A session writes it to its
//! folder, and bubblewrap runs it in the sandbox. Our own binary can do the same and more, but the loader adjusts
//! the addresses in all of it first, which takes as long as bubblewrap itself.

use crate::mounts::PROXY_SOCKET;
use crate::sandbox_policy::FilterOptions;
use crate::{SandboxPolicy, rules, sandbox_filter};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The program; empty where it could not be built.
static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/small-helper"));

/// Writes the program to a file that doesn't exist yet.
pub(crate) fn write(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o500);
    options.open(path)?.write_all(PROGRAM)
}

/// The restrictions of a policy, compiled to the words of the small helper, which knows no policies. `None` where
/// there is no such helper.
pub(crate) fn words(
    policy: &SandboxPolicy,
    filter: FilterOptions,
    root: bool,
    bridge: Option<&str>,
) -> Option<Vec<OsString>> {
    if PROGRAM.is_empty() {
        return None;
    }
    let mut words: Vec<OsString> = Vec::new();
    if root {
        words.push("--root".into());
    }
    words.extend(crate::launch::limits(policy));
    for path in policy.writable.iter().chain(&policy.caches) {
        words.extend(["--write".into(), path.clone().into_os_string()]);
    }
    // A kernel without Landlock: the mounts are what holds then.
    if let Some(rights) = rules::of_this_kernel() {
        words.push("--landlock".into());
        words.extend(rights.map(|mask| OsString::from(mask.to_string())));
    }
    let program = sandbox_filter::sandboxed(filter)?;
    words.extend(["--filter".into(), OsString::from(program.digits())]);
    if let Some(name) = bridge {
        words.extend(["--bridge", PROXY_SOCKET, name].map(OsString::from));
    }
    Some(words)
}
