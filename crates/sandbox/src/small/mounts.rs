//! The mounts of a sandbox, made in the namespaces that bubblewrap gave.
//!
//! bubblewrap can make them too, but it reads the list of all mounts after each one. Here everything that is to be
//! mounted is taken from the tree as it was, then the whole tree becomes read-only at once, and then each part gets its
//! place. At last a second namespace of users takes the rights over all of it away.

use crate::system::{self, PATH_ROOM, Text, call, pointer, text};
use crate::{Failure, Outcome, Words, check, usage};

/// More mounts than this are left to bubblewrap.
const MOST_MOUNTS: usize = 256;
/// Devices that every program may expect.
const DEVICES: [&[u8]; 6] = [
    b"/dev/null\0",
    b"/dev/zero\0",
    b"/dev/full\0",
    b"/dev/random\0",
    b"/dev/urandom\0",
    b"/dev/tty\0",
];
const LINKS: [(&[u8], &[u8]); 6] = [
    (b"/proc/self/fd\0", b"/dev/fd\0"),
    (b"/proc/self/fd/0\0", b"/dev/stdin\0"),
    (b"/proc/self/fd/1\0", b"/dev/stdout\0"),
    (b"/proc/self/fd/2\0", b"/dev/stderr\0"),
    (b"/proc/kcore\0", b"/dev/core\0"),
    (b"pts/ptmx\0", b"/dev/ptmx\0"),
];

const AT_FDCWD: usize = -100isize as usize;
const EMPTY: Text = c"".as_ptr().cast();
const AT_EMPTY_PATH: usize = 0x1000;
const AT_RECURSIVE: usize = 0x8000;
const AT_NO_FOLLOW: usize = 0x100;
const NO_SET_ID: usize = 2;
const NO_DEVICES: usize = 4;
const READ_ONLY: u64 = 1;

/// The user and group that the command runs as.
#[derive(Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) user: Text,
    pub(crate) group: Text,
}

/// One mount that the words ask for. `from` is null where nothing is bound, or a link on itself.
struct Mount {
    kind: u8,
    from: Text,
    at: Text,
}

/// The mounts among the words, in their order.
struct Mounts(Words);

impl Iterator for Mounts {
    type Item = Mount;
    fn next(&mut self) -> Option<Mount> {
        loop {
            let word = self.0.next()?;
            let kind = match text(word) {
                b"--" => return None,
                b"--bind" => b'w',
                b"--ro-bind" => b'r',
                b"--tmpfs" => b'm',
                b"--hide" => b'h',
                b"--searchable" => b's',
                b"--seal" => b'e',
                b"--link" => b'l',
                // Values are absolute paths and numbers: none of them is a word of these.
                _ => continue,
            };
            let from = match kind {
                b'w' | b'r' => self.0.next()?,
                _ => core::ptr::null(),
            };
            let at = self.0.next()?;
            return Some(Mount { kind, from, at });
        }
    }
}

/// Makes all mounts and gives the rights to change them up, in a namespace of users: without one the rights end with
/// the capabilities, which the caller gives up. Ends in the folder of the command.
pub(crate) fn enter(words: Words, directory: Text, identity: Option<Identity>) -> Outcome<()> {
    let mut parts = [0u32; MOST_MOUNTS];
    let mut devices = [None; DEVICES.len()];
    // This one stays writable, for the names of users below. Nothing is mounted from it.
    let processes = open_tree(c"/proc".as_ptr().cast(), 0)
        .map_err(|number| Failure("/proc", number))? as usize;
    for (device, path) in devices.iter_mut().zip(DEVICES) {
        *device = open_tree(path.as_ptr(), 0).ok();
    }
    let console = open_console();
    for (index, mount) in Mounts(words).enumerate() {
        let place = parts
            .get_mut(index)
            .ok_or_else(|| usage("too many mounts"))?;
        let opened = if mount.kind == b'l' {
            open_tree(mount.at, AT_NO_FOLLOW)
        } else if mount.from.is_null() {
            continue;
        } else {
            open_tree(mount.from, AT_RECURSIVE)
        };
        *place = opened.map_err(|number| failed(&mount, number))?;
    }
    set_attributes(AT_FDCWD, c"/".as_ptr().cast(), READ_ONLY, AT_RECURSIVE)
        .map_err(|number| Failure("making the file system read-only", number))?;
    make_devices(&devices, console).map_err(|number| Failure("/dev", number))?;
    let mut hidden = core::ptr::null();
    for (mount, part) in Mounts(words).zip(parts) {
        put(&mount, part, &mut hidden).map_err(|number| failed(&mount, number))?;
    }
    if let Some(identity) = identity {
        give_up_namespaces(processes, identity)?;
    }
    check(
        "the folder of the command",
        call(system::CHDIR, [pointer(directory), 0, 0, 0, 0, 0]),
    )?;
    call(system::CLOSE, [processes, 0, 0, 0, 0, 0]);
    Ok(())
}

/// Says which mount failed; the caller adds why.
fn failed(mount: &Mount, number: isize) -> Failure {
    system::print(b"lathe sandbox: ");
    for &byte in text(mount.at) {
        // A name can't control a terminal.
        system::print(&[if byte < b' ' || byte == 127 {
            b'?'
        } else {
            byte
        }]);
    }
    system::print(b"\n");
    Failure("mounting", number)
}

/// The terminal that the command writes to, if it does. It has no name among the terminals of the sandbox, and programs
/// that ask for the name of theirs find it as the console.
fn open_console() -> Option<u32> {
    let mut path = [0u8; 64];
    let length = call(
        system::READLINKAT,
        [
            AT_FDCWD,
            pointer(c"/proc/self/fd/1".as_ptr()),
            pointer(path.as_mut_ptr()),
            path.len() - 1,
            0,
            0,
        ],
    );
    let name = path.get(..usize::try_from(length).ok()?)?;
    if name.starts_with(b"/dev/pts/") || name.starts_with(b"/dev/tty") {
        open_tree(path.as_ptr(), 0).ok()
    } else {
        None
    }
}

/// A copy of what is at a path, perhaps with the mounts in it, that has no place yet.
fn open_tree(path: Text, flags: usize) -> Result<u32, isize> {
    const CLONE: usize = 1;
    const CLOSE_ON_EXEC: usize = 0o2_000_000;
    let flags = CLONE | CLOSE_ON_EXEC | flags;
    system::descriptor(call(
        system::OPEN_TREE,
        [AT_FDCWD, pointer(path), flags, 0, 0, 0],
    ))
}

fn move_mount(part: u32, at: Text) -> Result<(), isize> {
    const FROM_EMPTY_PATH: usize = 4;
    let moved = call(
        system::MOVE_MOUNT,
        [
            part as usize,
            pointer(EMPTY),
            AT_FDCWD,
            pointer(at),
            FROM_EMPTY_PATH,
            0,
        ],
    );
    call(system::CLOSE, [part as usize, 0, 0, 0, 0, 0]);
    result(moved)
}

fn result(value: isize) -> Result<(), isize> {
    if value < 0 { Err(-value) } else { Ok(()) }
}

/// Makes a mount, and perhaps those in it, read-only, or leaves it as it is outside. Never with set-user-id programs or
/// devices, and apart from what is mounted outside.
fn set_attributes(folder: usize, path: Text, set: u64, flags: usize) -> Result<(), isize> {
    const PRIVATE: u64 = 1 << 18;
    // What is set, what is cleared, propagation, users.
    let values = [set | (NO_SET_ID | NO_DEVICES) as u64, 0, PRIVATE, 0];
    result(call(
        system::MOUNT_SETATTR,
        [
            folder,
            pointer(path),
            flags,
            pointer(&raw const values),
            size_of_val(&values),
            0,
        ],
    ))
}

/// A file system in memory.
fn memory(at: Text, options: Text) -> Result<(), isize> {
    mount_new(
        c"tmpfs".as_ptr().cast(),
        at,
        NO_SET_ID | NO_DEVICES,
        options,
    )
}

fn mount_new(kind: Text, at: Text, flags: usize, options: Text) -> Result<(), isize> {
    result(call(
        system::MOUNT,
        [
            pointer(kind),
            pointer(at),
            pointer(kind),
            flags,
            pointer(options),
            0,
        ],
    ))
}

/// A `/dev` with the few devices that belong there, and terminals of its own.
fn make_devices(devices: &[Option<u32>], console: Option<u32>) -> Result<(), isize> {
    const NO_PROGRAMS: usize = 8;
    memory(c"/dev".as_ptr().cast(), c"mode=755".as_ptr().cast())?;
    for (device, path) in devices.iter().zip(DEVICES) {
        if let Some(device) = *device {
            make_file(path.as_ptr())?;
            move_mount(device, path.as_ptr())?;
        }
    }
    if let Some(console) = console {
        let at: Text = c"/dev/console".as_ptr().cast();
        make_file(at)?;
        move_mount(console, at)?;
    }
    for (target, path) in LINKS {
        result(call(
            system::SYMLINKAT,
            [
                pointer(target.as_ptr()),
                AT_FDCWD,
                pointer(path.as_ptr()),
                0,
                0,
                0,
            ],
        ))?;
    }
    let (pts, shm): (Text, Text) = (c"/dev/pts".as_ptr().cast(), c"/dev/shm".as_ptr().cast());
    make_folder(pts, 0o755)?;
    make_folder(shm, 0o1777)?;
    // The mask of the process took a part of that away.
    result(call(
        system::FCHMODAT,
        [AT_FDCWD, pointer(shm), 0o1777, 0, 0, 0],
    ))?;
    mount_new(
        c"devpts".as_ptr().cast(),
        pts,
        NO_SET_ID | NO_PROGRAMS,
        c"newinstance,ptmxmode=0666,mode=620".as_ptr().cast(),
    )
}

fn make_folder(path: Text, mode: usize) -> Result<(), isize> {
    const EEXIST: isize = 17;
    let made = call(system::MKDIRAT, [AT_FDCWD, pointer(path), mode, 0, 0, 0]);
    result(if made == -EEXIST { 0 } else { made })
}

fn make_file(path: Text) -> Result<(), isize> {
    const CREATE_CLOSE_ON_EXEC: usize = 0o100 | 0o2_000_000;
    let made = call(
        system::OPENAT,
        [AT_FDCWD, pointer(path), CREATE_CLOSE_ON_EXEC, 0o444, 0, 0],
    );
    result(made)?;
    call(system::CLOSE, [made.cast_unsigned(), 0, 0, 0, 0, 0]);
    Ok(())
}

/// Makes sure that there is something to mount on.
fn make_place(at: Text, is_folder: bool) -> Result<(), isize> {
    let bytes = text(at);
    let mut path = [0u8; PATH_ROOM];
    if bytes.len() >= path.len() {
        return Err(36);
    }
    for (index, &byte) in bytes.iter().enumerate() {
        if byte == b'/' && index > 0 {
            // Those that are there can be on something that can't be written: the call says which it is.
            let made = make_folder(path.as_ptr(), 0o755);
            if made.is_err() && !exists(path.as_ptr()) {
                return made;
            }
        }
        if let Some(place) = path.get_mut(index) {
            *place = byte;
        }
    }
    if is_folder {
        make_folder(at, 0o755)
    } else {
        make_file(at)
    }
}

fn exists(path: Text) -> bool {
    call(system::FACCESSAT, [AT_FDCWD, pointer(path), 0, 0, 0, 0]) == 0
}

fn put(mount: &Mount, part: u32, hidden: &mut Text) -> Result<(), isize> {
    let at = mount.at;
    match mount.kind {
        // It went with a folder above.
        b'h' | b's' | b'e' if !exists(at) => Ok(()),
        b'm' => memory(at, c"mode=755".as_ptr().cast()),
        b's' => memory(at, c"mode=711".as_ptr().cast()),
        b'e' => set_attributes(AT_FDCWD, at, READ_ONLY, 0),
        b'l' => {
            set_attributes(part as usize, EMPTY, READ_ONLY, AT_EMPTY_PATH)?;
            move_mount(part, at)
        }
        b'h' if hidden.is_null() => {
            memory(at, c"mode=000".as_ptr().cast())?;
            *hidden = at;
            set_attributes(AT_FDCWD, at, READ_ONLY, 0)
        }
        // One empty folder stands for all that are hidden.
        b'h' => move_mount(open_tree(*hidden, 0)?, at),
        kind => bind(part, at, if kind == b'w' { 0 } else { READ_ONLY }),
    }
}

fn bind(part: u32, at: Text, set: u64) -> Result<(), isize> {
    let number = part as usize;
    set_attributes(number, EMPTY, set, AT_EMPTY_PATH | AT_RECURSIVE)?;
    if !exists(at) {
        make_place(at, system::is_folder(number))?;
    }
    move_mount(part, at)
}

/// Lets nobody make further namespaces of users, and enters the last one, which has no rights over the mounts.
fn give_up_namespaces(processes: usize, identity: Identity) -> Outcome<()> {
    const NEW_USERS: usize = 0x1000_0000;
    let what = "giving up the namespaces";
    write(
        processes,
        c"sys/user/max_user_namespaces".as_ptr().cast(),
        &[b"1"],
    )
    .map_err(|number| Failure(what, number))?;
    check(what, call(system::UNSHARE, [NEW_USERS, 0, 0, 0, 0, 0]))?;
    // Refused where it was denied before, in the namespace above.
    let _ = write(processes, c"self/setgroups".as_ptr().cast(), &[b"deny"]);
    for (file, number) in [
        (c"self/uid_map", identity.user),
        (c"self/gid_map", identity.group),
    ] {
        write(processes, file.as_ptr().cast(), &[text(number), b" 0 1\n"])
            .map_err(|number| Failure("naming the user of the command", number))?;
    }
    Ok(())
}

/// Writes a short text to a file of the kernel, in one call.
fn write(folder: usize, path: Text, parts: &[&[u8]]) -> Result<(), isize> {
    const WRITE_ONLY_CLOSE_ON_EXEC: usize = 1 | 0o2_000_000;
    let opened = system::descriptor(call(
        system::OPENAT,
        [folder, pointer(path), WRITE_ONLY_CLOSE_ON_EXEC, 0, 0, 0],
    ))? as usize;
    let mut buffer = [0u8; 32];
    let mut length = 0;
    for (place, byte) in buffer.iter_mut().zip(parts.iter().copied().flatten()) {
        *place = *byte;
        length += 1;
    }
    let written = call(
        system::WRITE,
        [opened, pointer(buffer.as_ptr()), length, 0, 0, 0],
    );
    call(system::CLOSE, [opened, 0, 0, 0, 0, 0]);
    result(written)
}
