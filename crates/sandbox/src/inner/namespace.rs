//! Namespaces made by the helper itself, where bubblewrap isn't installed.
//!
//! First a namespace of users in which this user counts as root, so that mounting is allowed; then those of
//! mounts, processes, network and the rest; then the mounts. At last a second namespace of users gives the user its
//! own number back, and takes the rights over all of it away.

use super::{Doing, InnerError, Task, Users, c_path, code};
use crate::mounts::Mount;
use crate::overlay::{check, write_to};
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Devices that every program may expect.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Makes the namespaces and runs the rest in the first process of them. Gives that process's code.
pub(super) fn enter(
    task: &Task,
    users: Users,
    then: fn(&Task) -> Result<i32, InnerError>,
) -> Result<i32, InnerError> {
    // SAFETY: these calls only report numbers.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let mut kinds = libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    if users == Users::Own {
        kinds |= libc::CLONE_NEWUSER;
    }
    // SAFETY: takes a number.
    check(unsafe { libc::unshare(kinds) }).doing("making namespaces")?;
    if users == Users::Own {
        map_users(&format!("0 {user} 1\n"), &format!("0 {group} 1\n"))
            .doing("naming the user of the namespace")?;
    }
    // SAFETY: this process has one thread, so the child is a whole copy of it.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error()).doing("starting the first process");
    }
    if child > 0 {
        return Ok(wait_for(child, &task.keeps));
    }
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    mount_all(task).doing("mounting")?;
    loopback_up().doing("switching the loopback on")?;
    if users == Users::Own {
        // SAFETY: takes a number.
        check(unsafe { libc::unshare(libc::CLONE_NEWUSER) }).doing("giving up the namespaces")?;
        map_users(&format!("{user} 0 1\n"), &format!("{group} 0 1\n"))
            .doing("naming the user of the command")?;
    }
    if let Some(directory) = &task.directory {
        std::env::set_current_dir(directory).doing(directory.display().to_string())?;
    }
    then(task)
}

/// Waits for the first process; with it everything in the namespaces ends.
fn wait_for(child: libc::pid_t, keeps: &[i32]) -> i32 {
    for &descriptor in keeps {
        // SAFETY: the child has it; nothing here uses it.
        unsafe { libc::close(descriptor) };
    }
    let mut status = 0;
    // SAFETY: waits for our own child; `status` is valid for the call.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    code(status)
}

fn map_users(users: &str, groups: &str) -> io::Result<()> {
    // Refused where it was denied before, in the namespace above.
    let _ = write_to(c"/proc/self/setgroups", b"deny");
    write_to(c"/proc/self/uid_map", users.as_bytes())?;
    write_to(c"/proc/self/gid_map", groups.as_bytes())
}

fn mount(
    from: &CStr,
    at: &Path,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    data: Option<&CStr>,
) -> io::Result<()> {
    let at_text = c_path(at)?;
    // SAFETY: terminated texts that outlive the call, or null where the kernel takes that.
    let result = unsafe {
        libc::mount(
            from.as_ptr(),
            at_text.as_ptr(),
            kind.map_or(std::ptr::null(), CStr::as_ptr),
            flags,
            data.map_or(std::ptr::null(), |data| data.as_ptr().cast()),
        )
    };
    check(result)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", at.display())))
}

/// Makes what is mounted somewhere, and perhaps what is mounted in it, read-only.
fn make_read_only(at: &Path, recursive: bool) -> io::Result<()> {
    let flags = if recursive { libc::AT_RECURSIVE } else { 0 };
    set_attributes(libc::AT_FDCWD, &c_path(at)?, READ_ONLY, flags)
}

const READ_ONLY: u64 = 1;

/// Makes a mount read-only, or leaves it as it is outside. Never with set-user-id programs or devices, and apart from
/// what is mounted outside.
fn set_attributes(folder: i32, at: &CStr, set: u64, flags: i32) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        users: u64,
    }
    const NO_SET_ID: u64 = 2;
    const PRIVATE: u64 = 1 << 18;
    let attributes = Attributes {
        set: NO_SET_ID | set,
        clear: 0,
        propagation: PRIVATE,
        users: 0,
    };
    // SAFETY: a terminated text, and a structure with its size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            folder,
            at.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// A mount with a copy of what is to be bound, because later mounts may hide its path.
struct Held<'a> {
    mount: &'a Mount,
    from: Option<(OwnedFd, bool)>,
}

fn mount_all(task: &Task) -> io::Result<()> {
    mount(
        c"none",
        Path::new("/"),
        None,
        libc::MS_REC | libc::MS_PRIVATE,
        None,
    )?;
    let devices: Vec<(&str, OwnedFd)> = DEVICES
        .iter()
        .filter_map(|name| Some((*name, open_path(&Path::new("/dev").join(name)).ok()?)))
        .collect();
    let mut held = Vec::new();
    for mount in &task.mounts {
        let from = match mount {
            Mount::Bind { from, .. } => Some((open_tree(from, libc::AT_RECURSIVE)?, from.is_dir())),
            Mount::Link { at, .. } => Some((open_tree(at, libc::AT_SYMLINK_NOFOLLOW)?, false)),
            Mount::Memory(_) | Mount::Hidden(_) | Mount::Searchable(_) | Mount::Sealed(_) => None,
        };
        held.push(Held { mount, from });
    }
    make_read_only(Path::new("/"), true)?;
    make_devices(&devices)?;
    for held in &held {
        put(held)?;
    }
    own_processes()
}

fn open_path(path: &Path) -> io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    options
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC);
    options
        .open(path)
        .map(OwnedFd::from)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// A copy of what is at a path, perhaps with the mounts in it, that has no place yet.
fn open_tree(path: &Path, flags: i32) -> io::Result<OwnedFd> {
    let text = c_path(path)?;
    let flags = flags.cast_unsigned() | libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC;
    // SAFETY: a terminated text and numbers.
    let opened =
        unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, text.as_ptr(), flags) };
    match i32::try_from(opened) {
        // SAFETY: the call gave a new descriptor.
        Ok(opened) if opened >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(opened) }),
        _ => {
            let error = io::Error::last_os_error();
            let words = format!("{}: {error}", path.display());
            Err(io::Error::new(error.kind(), words))
        }
    }
}

/// Gives a copy its place.
fn move_to(copy: &OwnedFd, to: &Path) -> io::Result<()> {
    const FROM_EMPTY_PATH: u32 = 4;
    let text = c_path(to)?;
    // SAFETY: terminated texts and numbers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            copy.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            text.as_ptr(),
            FROM_EMPTY_PATH,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        let error = io::Error::last_os_error();
        Err(io::Error::new(
            error.kind(),
            format!("{}: {error}", to.display()),
        ))
    }
}

fn bind(from: &OwnedFd, to: &Path) -> io::Result<()> {
    let from = c_path(Path::new(&format!("/proc/self/fd/{}", from.as_raw_fd())))?;
    mount(&from, to, None, libc::MS_BIND, None)
}

/// Makes sure that there is something to mount on.
fn place(at: &Path, folder: bool) -> io::Result<()> {
    if at.symlink_metadata().is_ok() {
        return Ok(());
    }
    if folder {
        fs::create_dir_all(at)
    } else {
        if let Some(parent) = at.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::File::create(at).map(drop)
    }
}

fn put(held: &Held<'_>) -> io::Result<()> {
    match (held.mount, &held.from) {
        (Mount::Bind { to, writable, .. }, Some((from, folder))) => {
            let set = if *writable { 0 } else { READ_ONLY };
            let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
            set_attributes(from.as_raw_fd(), c"", set, flags)?;
            place(to, *folder)?;
            move_to(from, to)
        }
        (Mount::Link { at, .. }, Some((link, _))) => {
            set_attributes(link.as_raw_fd(), c"", READ_ONLY, libc::AT_EMPTY_PATH)?;
            move_to(link, at)
        }
        (Mount::Memory(at), _) => memory(at, c"mode=755"),
        (Mount::Hidden(at) | Mount::Searchable(at) | Mount::Sealed(at), _) if !at.exists() => {
            Ok(())
        }
        (Mount::Searchable(at), _) => memory(at, c"mode=711"),
        (Mount::Sealed(at), _) => make_read_only(at, false),
        (Mount::Hidden(at), _) => {
            memory(at, c"mode=000")?;
            make_read_only(at, false)
        }
        (Mount::Bind { .. } | Mount::Link { .. }, None) => Ok(()),
    }
}

fn memory(at: &Path, options: &CStr) -> io::Result<()> {
    mount(
        c"tmpfs",
        at,
        Some(c"tmpfs"),
        libc::MS_NOSUID | libc::MS_NODEV,
        Some(options),
    )
}

/// A `/dev` with the few devices that belong there, and terminals of its own.
fn make_devices(devices: &[(&str, OwnedFd)]) -> io::Result<()> {
    let dev = Path::new("/dev");
    mount(
        c"tmpfs",
        dev,
        Some(c"tmpfs"),
        libc::MS_NOSUID,
        Some(c"mode=755"),
    )?;
    for (name, device) in devices {
        let at = dev.join(name);
        fs::File::create(&at)?;
        bind(device, &at)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        std::os::unix::fs::symlink(target, dev.join(name))?;
    }
    for (name, mode) in [("pts", 0o755), ("shm", 0o1777)] {
        let folder = dev.join(name);
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    }
    mount(
        c"tmpfs",
        &dev.join("shm"),
        Some(c"tmpfs"),
        libc::MS_NOSUID | libc::MS_NODEV,
        Some(c"mode=1777"),
    )?;
    let options = c"newinstance,ptmxmode=0666,mode=620";
    mount(
        c"devpts",
        &dev.join("pts"),
        Some(c"devpts"),
        libc::MS_NOSUID | libc::MS_NOEXEC,
        Some(options),
    )?;
    make_read_only(dev, false)
}

/// A `/proc` that shows the processes of the namespace, and where nothing of the system can be set.
fn own_processes() -> io::Result<()> {
    let proc = Path::new("/proc");
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(c"proc", proc, Some(c"proc"), flags, None)?;
    for name in ["sys", "sysrq-trigger", "irq", "bus"] {
        let at = proc.join(name);
        if at.exists() {
            bind(&open_path(&at)?, &at)?;
            make_read_only(&at, false)?;
        }
    }
    Ok(())
}

/// The kernel's `SIOCSIFFLAGS`; C libraries have it with different types.
const SET_INTERFACE_FLAGS: libc::Ioctl = 0x8914;

/// Switches the loopback on: a new network has it, but off.
fn loopback_up() -> io::Result<()> {
    // SAFETY: a socket of ours that is closed again; the request is initialised, and valid for the calls.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l'.cast_signed();
        request.ifr_name[1] = b'o'.cast_signed();
        request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(1);
        let result = libc::ioctl(socket, SET_INTERFACE_FLAGS, &raw const request);
        let error = io::Error::last_os_error();
        libc::close(socket);
        if result == 0 { Ok(()) } else { Err(error) }
    }
}
