//! System calls without a C library, for the two architectures that the sandbox knows.

use core::arch::{asm, global_asm};

/// A text that ends with a zero byte.
pub(crate) type Text = *const u8;

#[cfg(target_arch = "x86_64")]
mod numbers {
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const RT_SIGACTION: usize = 13;
    pub(crate) const RT_SIGPROCMASK: usize = 14;
    pub(crate) const SOCKET: usize = 41;
    pub(crate) const CONNECT: usize = 42;
    pub(crate) const SENDMSG: usize = 46;
    pub(crate) const BIND: usize = 49;
    pub(crate) const LISTEN: usize = 50;
    pub(crate) const SETSOCKOPT: usize = 54;
    pub(crate) const CLONE: usize = 56;
    pub(crate) const EXECVE: usize = 59;
    pub(crate) const WAIT4: usize = 61;
    pub(crate) const WRITE: usize = 1;
    pub(crate) const CAPSET: usize = 126;
    pub(crate) const PRCTL: usize = 157;
    pub(crate) const EXIT_GROUP: usize = 231;
    pub(crate) const OPENAT: usize = 257;
    pub(crate) const PRLIMIT64: usize = 302;
    pub(crate) const SECCOMP: usize = 317;
    pub(crate) const STATX: usize = 332;
    pub(crate) const FACCESSAT: usize = 269;
    pub(crate) const FCHMODAT: usize = 268;
    pub(crate) const READLINKAT: usize = 267;
    pub(crate) const MKDIRAT: usize = 258;
    pub(crate) const SYMLINKAT: usize = 266;
    pub(crate) const CHDIR: usize = 80;
    pub(crate) const MOUNT: usize = 165;
    pub(crate) const UNSHARE: usize = 272;
    pub(crate) const O_PATH: usize = 0o10_000_000;
}

#[cfg(target_arch = "aarch64")]
mod numbers {
    pub(crate) const CLOSE: usize = 57;
    pub(crate) const RT_SIGACTION: usize = 134;
    pub(crate) const RT_SIGPROCMASK: usize = 135;
    pub(crate) const SOCKET: usize = 198;
    pub(crate) const CONNECT: usize = 203;
    pub(crate) const SENDMSG: usize = 211;
    pub(crate) const BIND: usize = 200;
    pub(crate) const LISTEN: usize = 201;
    pub(crate) const SETSOCKOPT: usize = 208;
    pub(crate) const CLONE: usize = 220;
    pub(crate) const EXECVE: usize = 221;
    pub(crate) const WAIT4: usize = 260;
    pub(crate) const WRITE: usize = 64;
    pub(crate) const CAPSET: usize = 91;
    pub(crate) const PRCTL: usize = 167;
    pub(crate) const EXIT_GROUP: usize = 94;
    pub(crate) const OPENAT: usize = 56;
    pub(crate) const PRLIMIT64: usize = 261;
    pub(crate) const SECCOMP: usize = 277;
    pub(crate) const STATX: usize = 291;
    pub(crate) const FACCESSAT: usize = 48;
    pub(crate) const FCHMODAT: usize = 53;
    pub(crate) const READLINKAT: usize = 78;
    pub(crate) const MKDIRAT: usize = 34;
    pub(crate) const SYMLINKAT: usize = 36;
    pub(crate) const CHDIR: usize = 49;
    pub(crate) const MOUNT: usize = 40;
    pub(crate) const UNSHARE: usize = 97;
    pub(crate) const O_PATH: usize = 0o10_000_000;
}

pub(crate) use numbers::*;
// The same on every architecture.
pub(crate) const OPEN_TREE: usize = 428;
pub(crate) const MOVE_MOUNT: usize = 429;
pub(crate) const CLOSE_RANGE: usize = 436;
pub(crate) const MOUNT_SETATTR: usize = 442;
pub(crate) const LANDLOCK_CREATE_RULESET: usize = 444;
pub(crate) const LANDLOCK_ADD_RULE: usize = 445;
pub(crate) const LANDLOCK_RESTRICT_SELF: usize = 446;

/// Makes a system call. Gives its result, or the number of the error below zero.
#[cfg(target_arch = "x86_64")]
pub(crate) fn call(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result;
    // SAFETY: pointers among the arguments come from `pointer` or the command line, and outlive the call.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

#[cfg(target_arch = "aarch64")]
pub(crate) fn call(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result;
    // SAFETY: as above.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a => result, in("x1") b, in("x2") c, in("x3") d,
            in("x4") e, in("x5") f, options(nostack));
    }
    result
}

// The first instructions: the stack begins with the count of words, and the words follow.
#[cfg(target_arch = "x86_64")]
global_asm!(".globl _start", "_start:", "xor ebp, ebp", "mov rdi, rsp", "and rsp, -16", "call {}", "ud2", sym begin);
#[cfg(target_arch = "aarch64")]
global_asm!(".globl _start", "_start:", "mov x29, xzr", "mov x0, sp", "bl {}", "brk 1", sym begin);

extern "C" fn begin(stack: *const usize) -> ! {
    // SAFETY: the kernel puts the count there, then the words and a null pointer, then the variables.
    let code = unsafe {
        let words = stack.add(1).cast::<Text>();
        crate::start(words, words.add(*stack + 1))
    };
    loop {
        call(EXIT_GROUP, [code, 0, 0, 0, 0, 0]);
    }
}

/// The address of something, for a call.
pub(crate) fn pointer<T>(place: *const T) -> usize {
    place.expose_provenance()
}

/// The bytes of a text.
pub(crate) fn text(start: Text) -> &'static [u8] {
    let mut length = 0;
    // SAFETY: texts of the kernel end with a zero byte and live as long as the process.
    unsafe {
        // Volatile, so that the loop isn't a call of `strlen`, which isn't here.
        while start.add(length).read_volatile() != 0 {
            length += 1;
        }
        core::slice::from_raw_parts(start, length)
    }
}

/// Writes to the standard error.
pub(crate) fn print(words: &[u8]) {
    call(WRITE, [2, pointer(words.as_ptr()), words.len(), 0, 0, 0]);
}

/// The meaning of the numbers that happen.
pub(crate) fn meaning(number: isize) -> &'static [u8] {
    match number {
        1 => b": Operation not permitted (os error ",
        2 => b": No such file or directory (os error ",
        12 => b": Cannot allocate memory (os error ",
        13 => b": Permission denied (os error ",
        22 => b": Invalid argument (os error ",
        _ => b": it failed (os error ",
    }
}

/// A number in digits.
pub(crate) fn decimal(number: isize, digits: &mut [u8; 20]) -> &[u8] {
    let mut rest = number.unsigned_abs();
    let mut first = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        first -= 1;
        if rest == 0 {
            break;
        }
    }
    digits.get(first..).unwrap_or_default()
}

/// A rule of Landlock for a path.
#[repr(C, packed)]
pub(crate) struct PathBeneath {
    pub(crate) access: u64,
    pub(crate) opened: i32,
}

/// A filter of system calls.
#[repr(C)]
pub(crate) struct FilterProgram {
    pub(crate) count: u16,
    pub(crate) code: *const u64,
}

/// Opens a path for a rule. Gives the descriptor, and whether it is a folder.
pub(crate) fn open_path(path: Text) -> Option<(usize, bool)> {
    const AT_FDCWD: usize = -100isize as usize;
    const O_CLOEXEC: usize = 0o2_000_000;
    let opened = call(
        OPENAT,
        [AT_FDCWD, pointer(path), O_PATH | O_CLOEXEC, 0, 0, 0],
    );
    let opened = usize::try_from(opened).ok()?;
    Some((opened, is_folder(opened)))
}

/// Whether a descriptor is of a folder.
pub(crate) fn is_folder(opened: usize) -> bool {
    const AT_EMPTY_PATH: usize = 0x1000;
    const STATX_TYPE: usize = 1;
    // `stx_mode` lies 28 bytes into the 256 of the structure.
    let mut status = [0u16; 128];
    let empty = b"\0";
    let asked = call(
        STATX,
        [
            opened,
            pointer(empty.as_ptr()),
            AT_EMPTY_PATH,
            STATX_TYPE,
            pointer(&raw mut status),
            0,
        ],
    );
    let kind = status.get(14).copied().unwrap_or(0) & 0o170_000;
    asked == 0 && kind == 0o40_000
}

const AF_UNIX: usize = 1;
const AF_INET: usize = 2;
const STREAM: usize = 1 | 0o2_000_000;

pub(crate) fn descriptor(result: isize) -> Result<u32, isize> {
    u32::try_from(result).map_err(|_| -result)
}

/// Listens on a port of the loopback.
pub(crate) fn listen(port: u16) -> Result<u32, isize> {
    let socket = descriptor(call(SOCKET, [AF_INET, STREAM, 0, 0, 0, 0]))?;
    let number = socket as usize;
    let [high, low] = port.to_be_bytes();
    let address: [u8; 16] = [
        AF_INET as u8,
        0,
        high,
        low,
        127,
        0,
        0,
        1,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    const SOL_SOCKET: usize = 1;
    const SO_REUSEADDR: usize = 2;
    let yes = 1u32;
    call(
        SETSOCKOPT,
        [
            number,
            SOL_SOCKET,
            SO_REUSEADDR,
            pointer(&raw const yes),
            4,
            0,
        ],
    );
    descriptor(call(
        BIND,
        [number, pointer(&raw const address), 16, 0, 0, 0],
    ))?;
    descriptor(call(LISTEN, [number, 128, 0, 0, 0, 0]))?;
    Ok(socket)
}

/// Connects to a unix socket.
pub(crate) fn connect(path: &[u8]) -> Result<usize, isize> {
    let socket = descriptor(call(SOCKET, [AF_UNIX, STREAM, 0, 0, 0, 0]))? as usize;
    let mut address = [0u8; 110];
    let (family, place) = address.split_at_mut(2);
    family.copy_from_slice(&(AF_UNIX as u16).to_ne_bytes());
    if path.len() >= place.len() {
        return Err(36);
    }
    for (place, byte) in place.iter_mut().zip(path) {
        *place = *byte;
    }
    descriptor(call(
        CONNECT,
        [socket, pointer(address.as_ptr()), address.len(), 0, 0, 0],
    ))?;
    Ok(socket)
}

#[repr(C)]
struct Piece {
    start: *const u8,
    length: usize,
}

#[repr(C)]
struct Message {
    name: usize,
    name_length: usize,
    pieces: *const Piece,
    count: usize,
    control: *const Control,
    control_length: usize,
    flags: usize,
}

/// `SCM_RIGHTS`: descriptors that go with a message.
#[repr(C)]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    descriptors: [u32; 2],
}

/// Sends the greeting of the bridge with the sockets that it listens on.
pub(crate) fn send_descriptors(
    socket: usize,
    name: &[u8],
    descriptors: [u32; 2],
) -> Result<(), isize> {
    let pieces = [b"LATHE1 listen ".as_slice(), name, b"\n"].map(|bytes| Piece {
        start: bytes.as_ptr(),
        length: bytes.len(),
    });
    let control = Control {
        length: size_of::<Control>(),
        level: 1,
        kind: 1,
        descriptors,
    };
    let message = Message {
        name: 0,
        name_length: 0,
        pieces: pieces.as_ptr(),
        count: pieces.len(),
        control: &raw const control,
        control_length: size_of::<Control>(),
        flags: 0,
    };
    const MSG_NOSIGNAL: usize = 0x4000;
    descriptor(call(
        SENDMSG,
        [socket, pointer(&raw const message), MSG_NOSIGNAL, 0, 0, 0],
    ))
    .map(drop)
}

const ENOENT: isize = 2;
const ENOEXEC: isize = 8;
const EACCES: isize = 13;
const ENOTDIR: isize = 20;
/// The room for a path, with the byte that ends it.
pub(crate) const PATH_ROOM: usize = 4096;

fn execute(program: Text, words: *const Text, variables: *const Text) -> isize {
    -call(
        EXECVE,
        [
            pointer(program),
            pointer(words),
            pointer(variables),
            0,
            0,
            0,
        ],
    )
}

/// Becomes the command, which is looked for as shells do. Returns the number of the error if that fails.
pub(crate) fn become_command(words: *const Text, variables: *const Text) -> isize {
    // SAFETY: the caller checked that there is a first word.
    let name = unsafe { *words };
    if text(name).contains(&b'/') {
        return run(name, words, variables);
    }
    let mut error = ENOENT;
    for folder in search_path(variables).split(|&byte| byte == b':') {
        let folder = if folder.is_empty() { b"." } else { folder };
        let mut path = [0u8; PATH_ROOM];
        let parts = folder.iter().chain(b"/").chain(text(name));
        if folder.len() + text(name).len() + 2 > path.len() {
            continue;
        }
        for (place, byte) in path.iter_mut().zip(parts) {
            *place = *byte;
        }
        match run(path.as_ptr(), words, variables) {
            ENOENT | ENOTDIR => {}
            EACCES => error = EACCES,
            other => return other,
        }
    }
    error
}

/// Runs a program; one without a known format is a script for the shell.
fn run(program: Text, words: *const Text, variables: *const Text) -> isize {
    let error = execute(program, words, variables);
    if error != ENOEXEC {
        return error;
    }
    const MOST: usize = 1024;
    let mut all = [core::ptr::null(); MOST];
    all[0] = b"sh\0".as_ptr();
    all[1] = program;
    // SAFETY: the list ends with a null pointer, which is copied last.
    unsafe {
        let mut index = 1;
        while !(*words.add(index)).is_null() {
            match all.get_mut(index + 1) {
                Some(place) if index + 2 < MOST => *place = *words.add(index),
                _ => return error,
            }
            index += 1;
        }
    }
    execute(b"/bin/sh\0".as_ptr(), all.as_ptr(), variables)
}

fn search_path(mut variables: *const Text) -> &'static [u8] {
    // SAFETY: the list ends with a null pointer.
    unsafe {
        while !(*variables).is_null() {
            if let Some(path) = text(*variables).strip_prefix(b"PATH=") {
                return path;
            }
            variables = variables.add(1);
        }
    }
    b"/bin:/usr/bin"
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        call(EXIT_GROUP, [125, 0, 0, 0, 0, 0]);
    }
}

/// Named by the compiled core library; nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// The compiler copies, fills and compares with these.
mod memory {
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
        for index in 0..count {
            // SAFETY: as much as the caller says is valid. Volatile, so that the loop isn't a call of itself.
            unsafe { to.add(index).write_volatile(*from.add(index)) };
        }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
        for index in 0..count {
            // SAFETY: as above.
            unsafe { to.add(index).write_volatile(byte as u8) };
        }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, count: usize) -> i32 {
        for index in 0..count {
            // SAFETY: as above.
            let (a, b) = unsafe { (a.add(index).read_volatile(), b.add(index).read_volatile()) };
            if a != b {
                return i32::from(a) - i32::from(b);
            }
        }
        0
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, count: usize) -> i32 {
        // SAFETY: as the caller says.
        unsafe { memcmp(a, b, count) }
    }
}
