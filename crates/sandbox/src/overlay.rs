//! Caches in the home folder that a sandbox can use and can't spoil.
//!
//! A mount namespace is made once for a session: over each cache lies a file system that shows what is there
//! and keeps changes in a folder of the session. Commands enter the namespace before they start
//! ([`Confinement::enter`](crate::Confinement::enter)); outside of it nothing is mounted, and the namespace ends with the
//! last descriptor that holds it.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Namespaces to enter: of users (not for root), and of mounts.
#[derive(Debug)]
pub(crate) struct Namespaces {
    pub(crate) users: Option<OwnedFd>,
    pub(crate) mounts: OwnedFd,
}

impl Namespaces {
    /// Enters them. Plain system calls only.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let users = self
            .users
            .as_ref()
            .map(|users| (users, libc::CLONE_NEWUSER));
        for (namespace, kind) in users.into_iter().chain([(&self.mounts, libc::CLONE_NEWNS)]) {
            // SAFETY: the descriptor is open for the length of the call.
            if unsafe { libc::setns(namespace.as_raw_fd(), kind) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

/// The calls of the process that makes the namespace, with all texts made beforehand.
struct Steps {
    root: bool,
    users: CString,
    groups: CString,
    overlays: Vec<(CString, CString)>,
}

/// Makes a namespace where the changes of these folders go elsewhere. `None` if there are no folders.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn make(caches: &[PathBuf], state: &Path) -> io::Result<Option<Namespaces>> {
    let mut overlays = Vec::new();
    for (index, cache) in caches.iter().filter(|cache| cache.is_dir()).enumerate() {
        let (upper, work) = (
            state.join(format!("cache-{index}")),
            state.join(format!("cache-{index}-work")),
        );
        for folder in [&upper, &work] {
            crate::state::private_folder(folder)?;
        }
        let mut data = b"userxattr,lowerdir=".to_vec();
        escaped(cache, &mut data);
        data.extend_from_slice(b",upperdir=");
        escaped(&upper, &mut data);
        data.extend_from_slice(b",workdir=");
        escaped(&work, &mut data);
        overlays.push((c_text(cache.as_os_str().as_bytes())?, c_text(&data)?));
    }
    if overlays.is_empty() {
        return Ok(None);
    }
    // SAFETY: these calls only report numbers.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let steps = Steps {
        root: user == 0,
        users: c_text(format!("{user} {user} 1\n").as_bytes())?,
        groups: c_text(format!("{group} {group} 1\n").as_bytes())?,
        overlays,
    };
    in_process(&steps).map(Some)
}

/// A path in the options of a mount, where commas, colons and backslashes mean something.
fn escaped(path: &Path, text: &mut Vec<u8>) {
    for &byte in path.as_os_str().as_bytes() {
        if matches!(byte, b',' | b':' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
}

fn c_text(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Carries the steps out in a process that lives until the namespaces are held from here.
fn in_process(steps: &Steps) -> io::Result<Namespaces> {
    let (mut ready, report) = io::pipe()?;
    let (wait, done) = io::pipe()?;
    // SAFETY: the child makes plain system calls on memory that it has a copy of, and leaves without running
    // anything of ours.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        child_part(steps, &report, &wait, &done);
    }
    drop(report);
    drop(wait);
    let mut answer = [0; 4];
    let outcome = ready
        .read_exact(&mut answer)
        .and_then(|()| match i32::from_ne_bytes(answer) {
            0 => hold(child, steps.root),
            error => Err(io::Error::from_raw_os_error(error)),
        });
    drop(done);
    let mut status = 0;
    // SAFETY: waits for our own child; `status` is valid for the call.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    outcome
}

fn hold(child: libc::pid_t, root: bool) -> io::Result<Namespaces> {
    let open = |name: &str| File::open(format!("/proc/{child}/ns/{name}")).map(OwnedFd::from);
    Ok(Namespaces {
        users: if root { None } else { Some(open("user")?) },
        mounts: open("mnt")?,
    })
}

/// The child process: it never returns.
fn child_part(steps: &Steps, report: &PipeWriter, wait: &PipeReader, done: &PipeWriter) -> ! {
    // SAFETY: plain system calls with valid arguments; closing our copy of the pipe's other end lets the read end.
    // The namespaces are opened through what the system shows of this process.
    unsafe {
        libc::close(done.as_raw_fd());
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
    }
    let answer =
        carry_out(steps).map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| 0);
    let mut report = report;
    let _ = report.write_all(&answer.to_ne_bytes());
    let mut byte = [0];
    let mut wait = wait;
    let _ = wait.read(&mut byte);
    // SAFETY: leaves without running anything of ours.
    unsafe { libc::_exit(0) }
}

fn carry_out(steps: &Steps) -> io::Result<()> {
    let kinds = if steps.root {
        libc::CLONE_NEWNS
    } else {
        libc::CLONE_NEWUSER | libc::CLONE_NEWNS
    };
    // SAFETY: the call takes a number.
    check(unsafe { libc::unshare(kinds) })?;
    if !steps.root {
        write_to(c"/proc/self/setgroups", b"deny")?;
        write_to(c"/proc/self/uid_map", steps.users.as_bytes())?;
        write_to(c"/proc/self/gid_map", steps.groups.as_bytes())?;
    }
    // SAFETY: terminated texts that outlive the calls.
    unsafe {
        check(libc::mount(
            c"none".as_ptr(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        ))?;
        for (at, data) in &steps.overlays {
            check(libc::mount(
                c"overlay".as_ptr(),
                at.as_ptr(),
                c"overlay".as_ptr(),
                libc::MS_NOSUID | libc::MS_NODEV,
                data.as_ptr().cast(),
            ))?;
        }
    }
    Ok(())
}

pub(crate) fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Writes a short text to a file of the kernel.
pub(crate) fn write_to(path: &std::ffi::CStr, text: &[u8]) -> io::Result<()> {
    // SAFETY: a terminated text, and a buffer with its length; the descriptor is ours and closed again.
    unsafe {
        let file: RawFd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        let written = libc::write(file, text.as_ptr().cast(), text.len());
        let error = io::Error::last_os_error();
        libc::close(file);
        if written < 0 { Err(error) } else { Ok(()) }
    }
}
