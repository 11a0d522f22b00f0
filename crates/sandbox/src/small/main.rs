//! The small helper: the part of the helper that every command in a bubblewrap sandbox needs, as a program of its own.
//!
//! Our own binary is large, and the loader adjusts the addresses in all of it before the first line runs: some
//! milliseconds for every command. This one has no loader, no libraries and no heap: it starts, makes the
//! system calls and becomes the command. It knows no policy. Mounts, masks and filter arrive compiled, as words.
//!
//! `build.rs` compiles it for the target; `small_helper.rs` writes it to the folder of a session.
#![no_std]
#![no_main]

mod mounts;
mod system;

use core::ptr::null;
use mounts::Identity;
use system::{Text, call, pointer, print, text};

/// The code with which the helper leaves if it could not set the sandbox up.
const HELPER_FAILED: usize = 125;
/// Where the bridge listens on the loopback of the sandbox: HTTP, and SOCKS.
const PROXY_PORTS: [u16; 2] = [3128, 1080];
const MOST_KEPT: usize = 64;
const LONGEST_FILTER: usize = 1024;

/// A step that failed, and the number of the error.
struct Failure(&'static str, isize);

type Outcome<T> = Result<T, Failure>;

/// The result of a call, as an error that says what was done.
fn check(what: &'static str, result: isize) -> Outcome<usize> {
    usize::try_from(result).map_err(|_| Failure(what, -result))
}

/// The words of the command line.
#[derive(Clone, Copy)]
struct Words(*const Text);

impl Iterator for Words {
    type Item = Text;
    fn next(&mut self) -> Option<Text> {
        // SAFETY: the kernel ends the list with a null pointer, behind which this doesn't go.
        unsafe {
            let word = *self.0;
            if word.is_null() {
                return None;
            }
            self.0 = self.0.add(1);
            Some(word)
        }
    }
}

/// The task, as far as it fits into numbers. Paths are taken from the words when they are needed.
struct Task {
    words: Words,
    root: bool,
    /// The folder of the command, if the mounts are made here, and not by bubblewrap.
    directory: Option<Text>,
    identity: Option<Identity>,
    bridge: Option<(Text, Text)>,
    keeps: [u32; MOST_KEPT],
    kept: usize,
    /// Rights that Landlock handles: of folders, of files, and its scopes. Nothing without Landlock.
    landlock: Option<[u64; 3]>,
    /// Limits: the resource and its value.
    limits: [(usize, u64); 4],
    filter: Option<Text>,
    command: *const Text,
}

const RLIMIT_FSIZE: usize = 1;
const RLIMIT_DATA: usize = 2;
const RLIMIT_CORE: usize = 4;
const RLIMIT_NPROC: usize = 6;

/// Runs the helper; called by the first instructions of the program, with the words that the kernel put on the stack.
pub(crate) fn start(words: *const Text, variables: *const Text) -> usize {
    let mut words = Words(words);
    let _ = words.next();
    let done = parse(words).and_then(|task| first_process(&task, variables));
    match done {
        Ok(code) => code,
        Err(Failure(what, number)) => {
            print(b"lathe sandbox: ");
            print(what.as_bytes());
            print(system::meaning(number));
            print(system::decimal(number, &mut [0; 20]));
            print(b")\n");
            HELPER_FAILED
        }
    }
}

fn usage(what: &'static str) -> Failure {
    Failure(what, 22)
}

fn parse(mut words: Words) -> Outcome<Task> {
    let mut task = Task {
        words,
        root: false,
        directory: None,
        identity: None,
        bridge: None,
        keeps: [0; MOST_KEPT],
        kept: 0,
        landlock: None,
        limits: [(RLIMIT_CORE, 0), (0, 0), (0, 0), (0, 0)],
        filter: None,
        command: null(),
    };
    let mut limited = 1;
    while let Some(word) = words.next() {
        let missing = || usage("an argument of the helper has no value");
        let mut value = || words.next().ok_or_else(missing);
        let mut limit = |task: &mut Task, resource, text| {
            if let (Some(place), Some(value)) = (task.limits.get_mut(limited), number(text)) {
                *place = (resource, value);
                limited += 1;
            }
        };
        match text(word) {
            b"--" => {
                task.command = words.0;
                break;
            }
            b"--root" => task.root = true,
            b"--identity" => {
                task.identity = Some(Identity {
                    user: value()?,
                    group: value()?,
                });
            }
            b"--directory" => task.directory = Some(value()?),
            b"--bind" | b"--ro-bind" => drop((value()?, value()?)),
            b"--tmpfs" | b"--hide" | b"--searchable" | b"--seal" | b"--link" => drop(value()?),
            b"--bridge" => task.bridge = Some((value()?, value()?)),
            b"--keep" => {
                let number = number(value()?).and_then(|number| u32::try_from(number).ok());
                let place = task.keeps.get_mut(task.kept);
                let (Some(number), Some(place)) = (number, place) else {
                    return Err(usage("descriptors to keep"));
                };
                *place = number;
                task.kept += 1;
            }
            b"--landlock" => {
                let mut mask = || value().map(|text| number(text).unwrap_or(u64::MAX));
                task.landlock = Some([mask()?, mask()?, mask()?]);
            }
            b"--processes" => limit(&mut task, RLIMIT_NPROC, value()?),
            b"--memory" => limit(&mut task, RLIMIT_DATA, value()?),
            b"--file-size" => limit(&mut task, RLIMIT_FSIZE, value()?),
            b"--write" => drop(value()?),
            b"--filter" => task.filter = Some(value()?),
            _ => return Err(usage("the helper got an unknown argument")),
        }
    }
    // SAFETY: as in `Words::next`; a null list means that there was no `--`.
    if task.command.is_null() || unsafe { *task.command }.is_null() {
        return Err(usage("there is no command"));
    }
    Ok(task)
}

fn number(word: Text) -> Option<u64> {
    let mut value: u64 = 0;
    for &digit in text(word) {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// The first process of the namespaces: starts the command, passes the bridge on, and ends when the command does.
fn first_process(task: &Task, variables: *const Text) -> Outcome<usize> {
    close_others(task)?;
    if let Some(directory) = task.directory {
        mounts::enter(task.words, directory, task.identity)?;
    }
    give_up_rights(task.root)?;
    // The command can't look into this process.
    check("hiding memory", call(system::PRCTL, [4, 0, 0, 0, 0, 0]))?;
    let bridge = match task.bridge {
        Some((socket, name)) => Some(offer_bridge(socket, name)?),
        None => None,
    };
    const SIGCHLD: usize = 17;
    let child = check(
        "starting the command",
        call(system::CLONE, [SIGCHLD, 0, 0, 0, 0, 0]),
    )?;
    if child == 0 {
        if let Some(bridge) = bridge {
            call(system::CLOSE, [bridge, 0, 0, 0, 0, 0]);
        }
        apply(task)?;
        return Err(system::become_command(task.command, variables))
            .map_err(|number| Failure("the command can't be run", number));
    }
    for &keep in task.keeps.iter().take(task.kept) {
        call(system::CLOSE, [keep as usize, 0, 0, 0, 0, 0]);
    }
    Ok(reap(child))
}

/// Closes everything but the standard descriptors and those that the command keeps: an open folder would be a way out.
fn close_others(task: &Task) -> Outcome<()> {
    let mut first: u32 = 3;
    loop {
        let kept = task.keeps.iter().take(task.kept);
        let next = kept.copied().filter(|&keep| keep >= first).min();
        let last = next.map_or(u32::MAX, |keep| keep - 1);
        if last >= first {
            let range = [first as usize, last as usize, 0, 0, 0, 0];
            check("closing descriptors", call(system::CLOSE_RANGE, range))?;
        }
        match next {
            Some(keep) => first = keep + 1,
            None => return Ok(()),
        }
    }
}

/// Listens on the loopback of the sandbox and passes the sockets to the proxy outside, which serves them for as long
/// as the connection to it stays open. Gives that connection.
fn offer_bridge(socket: Text, name: Text) -> Outcome<usize> {
    let mut listeners = [0u32; 2];
    for (listener, port) in listeners.iter_mut().zip(PROXY_PORTS) {
        *listener =
            system::listen(port).map_err(|number| Failure("listening for the proxy", number))?;
    }
    let bridge = system::connect(text(socket)).map_err(|number| Failure("the proxy", number))?;
    system::send_descriptors(bridge, text(name), listeners)
        .map_err(|number| Failure("the proxy", number))?;
    for listener in listeners {
        call(system::CLOSE, [listener as usize, 0, 0, 0, 0, 0]);
    }
    Ok(bridge)
}

/// Waits for everything that ends, until the command does. Gives its code.
fn reap(command: usize) -> usize {
    loop {
        let mut status: u32 = 0;
        let ended = call(
            system::WAIT4,
            [usize::MAX, pointer(&raw mut status), 0, 0, 0, 0],
        );
        if ended.cast_unsigned() == command {
            let signal = status & 0x7f;
            let code = if signal == 0 {
                (status >> 8) & 0xff
            } else {
                128 + signal
            };
            return code as usize;
        }
        const EINTR: isize = -4;
        if ended < 0 && ended != EINTR {
            return HELPER_FAILED;
        }
    }
}

/// Gives up what else the command doesn't have, in the order that the kernel needs.
fn apply(task: &Task) -> Outcome<()> {
    const PR_SET_PDEATHSIG: usize = 1;
    const SIGKILL: usize = 9;
    check(
        "the signal at the end",
        call(system::PRCTL, [PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0]),
    )?;
    for &(resource, value) in &task.limits {
        if resource != 0 {
            lower(resource, value)?;
        }
    }
    default_signals();
    if let Some(rights) = task.landlock {
        restrict(task.words, rights)?;
    }
    install(task.filter.ok_or_else(|| usage("seccomp"))?)
}

/// Lowers a limit; one that is lower already stays.
fn lower(resource: usize, value: u64) -> Outcome<()> {
    let mut now = [0u64; 2];
    check(
        "reading limits",
        call(
            system::PRLIMIT64,
            [0, resource, 0, pointer(&raw mut now), 0, 0],
        ),
    )?;
    for limit in &mut now {
        *limit = (*limit).min(value);
    }
    check(
        "setting limits",
        call(
            system::PRLIMIT64,
            [0, resource, pointer(&raw const now), 0, 0, 0],
        ),
    )
    .map(drop)
}

/// The rights of root that a sandbox with other people's files keeps: `CAP_CHOWN`, `CAP_DAC_OVERRIDE`, `CAP_FOWNER`.
const KEPT: u32 = 1 | 1 << 1 | 1 << 3;

/// Gives up all capabilities (but those three), for good.
fn give_up_rights(root: bool) -> Outcome<()> {
    const PR_CAPBSET_DROP: usize = 24;
    const PR_SET_NO_NEW_PRIVS: usize = 38;
    const PR_CAP_AMBIENT: usize = 47;
    const CLEAR_ALL: usize = 4;
    let mask = if root { KEPT } else { 0 };
    for right in 0..64 {
        if right >= 32 || mask & (1 << right) == 0 {
            // Fails for rights that the kernel doesn't know, and where there is nothing to give up.
            if call(system::PRCTL, [PR_CAPBSET_DROP, right, 0, 0, 0, 0]) == -22 {
                break;
            }
        }
    }
    call(system::PRCTL, [PR_CAP_AMBIENT, CLEAR_ALL, 0, 0, 0, 0]);
    let header: [u32; 2] = [0x2008_0522, 0];
    // Effective, permitted, inheritable; the lower half, then the upper one.
    let data: [u32; 6] = [mask, mask, 0, 0, 0, 0];
    check(
        "giving up rights",
        call(
            system::CAPSET,
            [
                pointer(&raw const header),
                pointer(&raw const data),
                0,
                0,
                0,
                0,
            ],
        ),
    )?;
    check(
        "giving up rights",
        call(system::PRCTL, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]),
    )
    .map(drop)
}

/// Programs count on signals doing what they usually do.
fn default_signals() {
    const HANGUP_INTERRUPT_QUIT_PIPE_TERMINATE: [usize; 5] = [1, 2, 3, 13, 15];
    let default = [0u64; 4];
    for signal in HANGUP_INTERRUPT_QUIT_PIPE_TERMINATE {
        call(
            system::RT_SIGACTION,
            [signal, pointer(&raw const default), 0, 8, 0, 0],
        );
    }
    const SIG_SETMASK: usize = 2;
    let none = 0u64;
    call(
        system::RT_SIGPROCMASK,
        [SIG_SETMASK, pointer(&raw const none), 0, 8, 0, 0],
    );
}

/// Places that are writable in every sandbox.
const ALWAYS: [&[u8]; 4] = [b"/tmp\0", b"/var/tmp\0", b"/dev\0", b"/run\0"];

/// Landlock: only the places that `--write` names can be changed.
fn restrict(words: Words, [of_folders, of_files, scopes]: [u64; 3]) -> Outcome<()> {
    let what = "Landlock";
    let attributes = [of_folders, 0, scopes];
    let size = size_of_val(&attributes);
    let made = call(
        system::LANDLOCK_CREATE_RULESET,
        [pointer(&raw const attributes), size, 0, 0, 0, 0],
    );
    let ruleset = check(what, made)?;
    let mut previous: &[u8] = b"";
    for word in words {
        if text(word) == b"--" {
            break;
        }
        if previous == b"--write" {
            allow(ruleset, word, of_folders, of_files)?;
            previous = b"";
        } else {
            previous = text(word);
        }
    }
    for place in ALWAYS {
        allow(ruleset, place.as_ptr(), of_folders, of_files)?;
    }
    check(
        what,
        call(system::LANDLOCK_RESTRICT_SELF, [ruleset, 0, 0, 0, 0, 0]),
    )?;
    call(system::CLOSE, [ruleset, 0, 0, 0, 0, 0]);
    Ok(())
}

/// Adds a rule for a path; one that isn't there, or can't be opened, needs none.
fn allow(ruleset: usize, path: Text, of_folders: u64, of_files: u64) -> Outcome<()> {
    let Some((opened, is_folder)) = system::open_path(path) else {
        return Ok(());
    };
    // Rights that only folders have are refused on files.
    let access = if is_folder {
        of_folders
    } else {
        of_folders & of_files
    };
    let rule = system::PathBeneath {
        access,
        opened: opened as i32,
    };
    const PATH_BENEATH: usize = 1;
    let added = call(
        system::LANDLOCK_ADD_RULE,
        [ruleset, PATH_BENEATH, pointer(&raw const rule), 0, 0, 0],
    );
    call(system::CLOSE, [opened, 0, 0, 0, 0, 0]);
    check("Landlock", added).map(drop)
}

/// seccomp: the filter, whose instructions are hexadecimal digits.
fn install(filter: Text) -> Outcome<()> {
    let what = "seccomp";
    let digits = text(filter);
    let mut code = [0u64; LONGEST_FILTER];
    let count = digits.len() / 16;
    if count == 0 || count > LONGEST_FILTER || digits.len() % 16 != 0 {
        return Err(usage(what));
    }
    for (place, digits) in code.iter_mut().zip(digits.chunks_exact(16)) {
        for &digit in digits {
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return Err(usage(what)),
            };
            *place = *place << 4 | u64::from(value);
        }
    }
    let program = system::FilterProgram {
        count: count as u16,
        code: code.as_ptr(),
    };
    const SET_MODE_FILTER: usize = 1;
    check(
        what,
        call(
            system::SECCOMP,
            [SET_MODE_FILTER, 0, pointer(&raw const program), 0, 0, 0],
        ),
    )
    .map(drop)
}
