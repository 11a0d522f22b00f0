//! Rights that the process of a command gives up before it becomes the command.

use super::{Doing, InnerError, Task};
use crate::{rules, sandbox_filter};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// Closes everything but the standard descriptors and those that the command keeps: an open folder would be a way out.
pub(super) fn close_others(keeps: &[RawFd]) {
    let mut keeps: Vec<u32> = keeps
        .iter()
        .filter_map(|&keep| u32::try_from(keep).ok())
        .collect();
    keeps.sort_unstable();
    let mut first = 3;
    for keep in keeps.into_iter().chain([u32::MAX]) {
        if keep > first {
            let last = if keep == u32::MAX { keep } else { keep - 1 };
            // SAFETY: closes descriptors that nothing in this process uses.
            let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0u32) };
            if done != 0 {
                close_one_by_one(first, last.min(65_536));
            }
        }
        first = keep.saturating_add(1);
    }
}

/// For kernels without that call.
fn close_one_by_one(first: u32, last: u32) {
    for descriptor in first..=last {
        if let Ok(descriptor) = RawFd::try_from(descriptor) {
            // SAFETY: as above; a number that isn't open does nothing.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// Keeps the command from looking into the helper.
pub(super) fn hide_memory() {
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
}

/// Applies everything, in the order that the kernel needs.
pub(super) fn apply(task: &Task) -> Result<(), InnerError> {
    // SAFETY: the calls take numbers.
    unsafe {
        if task.inside || task.namespaces.is_some() {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        }
    }
    limit_all(task).doing("setting limits")?;
    give_up_rights(task.root).doing("giving up rights")?;
    default_signals();
    let ruleset = if task.filter.shared_system {
        rules::sandboxed_alone(&task.files)
    } else {
        rules::sandboxed(&task.files)
    };
    // A kernel without Landlock: the mounts are what holds then.
    let ruleset = match ruleset {
        Ok(ruleset) => Some(ruleset),
        Err(_) if !task.filter.shared_system && rules::landlock_version() == 0 => None,
        Err(error) => return Err(io::Error::other(error.to_string())).doing("Landlock"),
    };
    if let Some(ruleset) = ruleset {
        // SAFETY: a descriptor of ours and a number.
        let done =
            unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) };
        if done != 0 {
            return Err(io::Error::last_os_error()).doing("Landlock");
        }
    }
    let program = sandbox_filter::sandboxed(task.filter)
        .ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
        .doing("seccomp")?;
    program.install().doing("seccomp")
}

fn limit_all(task: &Task) -> io::Result<()> {
    limit(libc::RLIMIT_CORE, 0)?;
    let limits = [
        (libc::RLIMIT_NPROC, task.processes),
        (libc::RLIMIT_DATA, task.memory),
        (libc::RLIMIT_FSIZE, task.file_size),
    ];
    for (resource, value) in limits {
        if let Some(value) = value {
            limit(resource, value)?;
        }
    }
    Ok(())
}

/// The number of a limit, which every C library types in its own way.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Lowers a limit; one that is lower already stays.
fn limit(resource: Resource, value: u64) -> io::Result<()> {
    let mut now = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `now` is valid for both calls.
    unsafe {
        if libc::getrlimit(resource, &raw mut now) != 0 {
            return Err(io::Error::last_os_error());
        }
        now.rlim_max = now.rlim_max.min(value);
        now.rlim_cur = now.rlim_cur.min(value);
        if libc::setrlimit(resource, &raw const now) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The rights of root that a sandbox with other people's files keeps.
const KEPT: [u32; 3] = [
    0, // CAP_CHOWN
    1, // CAP_DAC_OVERRIDE
    3, // CAP_FOWNER
];

/// Gives up all capabilities (but those three), for good.
fn give_up_rights(root: bool) -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let kept = |right: u32| root && KEPT.contains(&right);
    let mask: u32 = (0..32)
        .filter(|&right| kept(right))
        .map(|right| 1 << right)
        .sum();
    let header = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    // Effective, permitted, inheritable; the lower half, then the upper one.
    let data: [u32; 6] = [mask, mask, 0, 0, 0, 0];
    // SAFETY: numbers, and structures of the layout that this version of the call has.
    unsafe {
        for right in (0..64).filter(|&right| !kept(right)) {
            // Fails for rights that the kernel doesn't know, and where there is nothing to give up.
            libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(right), 0, 0, 0);
        }
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_CLEAR_ALL,
            0,
            0,
            0,
        );
        if libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) != 0
            && libc::geteuid() == 0
        {
            return Err(io::Error::last_os_error());
        }
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Programs count on signals doing what they usually do.
fn default_signals() {
    // SAFETY: the set is initialised before it is used; the calls take numbers and valid pointers.
    unsafe {
        for signal in [
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGPIPE,
            libc::SIGTERM,
            libc::SIGHUP,
        ] {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}
