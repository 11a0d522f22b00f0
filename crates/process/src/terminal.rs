//! Terminals for programs that talk to their user, and which program in one waits for what.

use crate::family::{Process, all_processes};
use rustix::termios::{LocalModes, Winsize};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

impl From<TerminalSize> for Winsize {
    fn from(size: TerminalSize) -> Self {
        Self {
            ws_row: size.rows,
            ws_col: size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        }
    }
}

/// How a terminal treats what is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineMode {
    /// Typed characters are shown.
    pub echoes: bool,
    /// Programs get whole lines; otherwise each key.
    pub whole_lines: bool,
}

/// Our side of a terminal: what is typed into it, and how it is set. Its output is read elsewhere.
#[derive(Debug)]
pub struct Terminal {
    master: OwnedFd,
    writer: Mutex<pipe::Sender>,
}

/// A new terminal: our side, its output, and the side of the program.
pub(crate) struct Opened {
    pub(crate) terminal: Terminal,
    pub(crate) output: pipe::Receiver,
    pub(crate) program_side: OwnedFd,
}

impl Terminal {
    /// Makes a terminal.
    pub(crate) fn open(size: TerminalSize) -> io::Result<Opened> {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        #[cfg(target_os = "linux")]
        let flags = flags | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let program_side = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY)
            .open(PathBuf::from(name.to_string_lossy().into_owned()))?;
        rustix::termios::tcsetwinsize(&master, size.into())?;
        rustix::io::ioctl_fionbio(&master, true)?;
        // Not pipes, but read and written without waiting all the same.
        let output = pipe::Receiver::from_owned_fd_unchecked(master.try_clone()?)?;
        let writer = pipe::Sender::from_owned_fd_unchecked(master.try_clone()?)?;
        Ok(Opened {
            terminal: Self {
                master,
                writer: Mutex::new(writer),
            },
            output,
            program_side: program_side.into(),
        })
    }

    /// Types bytes. Waits while the program does not read.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.writer.lock().await.write_all(bytes).await
    }

    /// Changes the size. The program in the foreground is told.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn resize(&self, size: TerminalSize) -> io::Result<()> {
        Ok(rustix::termios::tcsetwinsize(&self.master, size.into())?)
    }

    /// Whether there is output that was not read yet.
    #[must_use]
    pub fn has_output(&self) -> bool {
        rustix::io::ioctl_fionread(&self.master).is_ok_and(|bytes| bytes > 0)
    }

    /// How it treats what is typed; `None` if it is gone.
    #[must_use]
    pub fn line_mode(&self) -> Option<LineMode> {
        let modes = rustix::termios::tcgetattr(&self.master).ok()?.local_modes;
        Some(LineMode {
            echoes: modes.contains(LocalModes::ECHO),
            whole_lines: modes.contains(LocalModes::ICANON),
        })
    }

    /// The program that what is typed now would reach; `None` where that can't be known.
    #[must_use]
    pub fn reader(&self) -> Option<Reader> {
        let group = rustix::termios::tcgetpgrp(&self.master).ok()?;
        let group = group.as_raw_nonzero().get();
        let (table, _) = all_processes();
        let members: Vec<Process> = table
            .into_iter()
            .filter(|process| process.group == group && !process.dead)
            .collect();
        // A shell that waits for its child is no reader; the child is.
        let leaves = members.iter().filter(|process| {
            !members
                .iter()
                .any(|other| other.parent == process.pid && other.pid != process.pid)
        });
        let found: Vec<Reader> = leaves.map(|process| Reader::of(process.pid)).collect();
        let reads = found.iter().find(|reader| reader.waits == Waits::ForInput);
        let works = found.iter().find(|reader| reader.waits == Waits::Not);
        reads.or(works).or_else(|| found.last()).cloned()
    }
}

/// The program in the foreground of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    /// Its process.
    pub pid: i32,
    /// The name of its program.
    pub name: String,
    /// Its arguments, the name first.
    pub arguments: Vec<String>,
    /// Where it works.
    pub directory: Option<PathBuf>,
    /// Whether it waits.
    pub waits: Waits,
    /// How often it waited so far; another number means that it ran.
    pub switches: u64,
}

/// Whether a program waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// It reads from the terminal.
    ForInput,
    /// For something else, which may include the terminal.
    ForSomething,
    /// For what, the system does not tell.
    Unknown,
    /// It works.
    Not,
}

impl Reader {
    fn of(pid: i32) -> Self {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments: Vec<String> = line
            .split(|&byte| byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let program = program
            .as_deref()
            .and_then(|path| path.file_name())
            .map(|name| name.to_string_lossy().into_owned());
        let written = arguments.first().map(|word| word.trim_start_matches('-'));
        let written = written.and_then(|word| word.rsplit('/').next());
        Self {
            pid,
            name: program
                .or_else(|| written.map(str::to_owned))
                .unwrap_or_default(),
            directory: fs::read_link(format!("/proc/{pid}/cwd")).ok(),
            arguments,
            waits: waits(pid),
            switches: switches(pid),
        }
    }
}

/// Elsewhere the system does not tell.
#[cfg(not(target_os = "linux"))]
fn waits(_pid: i32) -> Waits {
    Waits::Unknown
}

/// Of all threads: one that works counts first, then one that reads.
#[cfg(target_os = "linux")]
fn waits(pid: i32) -> Waits {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Waits::Unknown;
    };
    let found: Vec<Waits> = threads
        .flatten()
        .map(|thread| thread_waits(&thread.path()))
        .collect();
    [Waits::Not, Waits::ForInput, Waits::Unknown]
        .into_iter()
        .find(|wanted| found.contains(wanted))
        .unwrap_or(Waits::ForSomething)
}

#[cfg(target_os = "linux")]
fn thread_waits(thread: &std::path::Path) -> Waits {
    let stat = fs::read(thread.join("stat")).unwrap_or_default();
    let name_ends = stat.iter().rposition(|&byte| byte == b')');
    match name_ends.and_then(|at| stat.get(at + 2)) {
        Some(b'S' | b'I') => {}
        Some(_) => return Waits::Not,
        None => return Waits::Unknown,
    }
    let Ok(call) = fs::read_to_string(thread.join("syscall")) else {
        return Waits::Unknown;
    };
    let mut words = call.split_whitespace();
    match words.next().and_then(|word| word.parse().ok()) {
        // "running": it works.
        None => Waits::Not,
        Some(libc::SYS_read) => {
            let descriptor = words
                .next()
                .and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
            let source = descriptor
                .and_then(|descriptor| fs::read_link(thread.join(format!("fd/{descriptor}"))).ok());
            match source {
                Some(source) if is_terminal(&source) => Waits::ForInput,
                Some(_) => Waits::ForSomething,
                None => Waits::Unknown,
            }
        }
        Some(_) => Waits::ForSomething,
    }
}

/// Whether a name is that of a terminal. One of another file system, as a sandbox has it, is `/3`.
#[cfg(target_os = "linux")]
fn is_terminal(source: &std::path::Path) -> bool {
    let numbered = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    source.starts_with("/dev/pts")
        || ["/dev/tty", "/dev/console"]
            .iter()
            .any(|name| source == std::path::Path::new(name))
        || source
            .to_str()
            .and_then(|name| name.strip_prefix('/'))
            .is_some_and(|rest| !rest.is_empty() && numbered(rest))
}

/// How often a process gave the processor away to wait for something.
fn switches(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    lines
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or_default()
}
