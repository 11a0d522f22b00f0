//! The helper: what our own binary does between the start of a sandbox and the command in it. Behind bubblewrap the
//! small helper (`src/small`) takes its place where it works.
//!
//! Outside in: namespaces (unless bubblewrap made them), then the bridge to the proxy, then limits, Landlock and
//! seccomp, then the command. The order matters: a process under Landlock can't make namespaces, and the bridge
//! needs sockets that the command doesn't get. The helper is the first process of its namespace, so everything
//! that a command left behind ends with it.

mod bounds;
mod bridge;
mod namespace;

use crate::launch::HELPER_FAILED;
use crate::mounts::{self, Mount};
use crate::sandbox_policy::FilterOptions;
use std::ffi::{CString, OsString};
use std::io::{self, Write as _};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The task of the helper.
#[derive(Debug, Default)]
pub(crate) struct Task {
    namespaces: Option<Users>,
    mounts: Vec<Mount>,
    directory: Option<PathBuf>,
    /// It is in the namespaces already.
    inside: bool,
    /// Root keeps the right to use other people's files.
    root: bool,
    bridge: Option<PathBuf>,
    name: String,
    keeps: Vec<RawFd>,
    filter: FilterOptions,
    processes: Option<u64>,
    memory: Option<u64>,
    file_size: Option<u64>,
    files: Files,
    connect: Option<(String, u16)>,
    command: Vec<OsString>,
}

/// The rules for Landlock.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) shown: Vec<PathBuf>,
}

/// Which namespace of users is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    Own,
    Shared,
}

/// Why the sandbox could not be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InnerError {
    #[error("the helper got an unknown argument: {0}")]
    Usage(String),
    #[error("{what}: {source}")]
    System { what: String, source: io::Error },
}

/// Adds to an error what was being done.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, InnerError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, InnerError> {
        self.map_err(|source| InnerError::System {
            what: what.into(),
            source,
        })
    }
}

/// The helper's whole life. `words` is what follows [`HELPER_WORD`](crate::HELPER_WORD). Gives the code to leave with.
pub fn helper(words: impl Iterator<Item = OsString>) -> i32 {
    let outcome = parse(words).and_then(|task| match &task.connect {
        Some((host, port)) => bridge::connect(host, *port).doing("connecting through the proxy"),
        None => carry_out(&task),
    });
    outcome.unwrap_or_else(|error| {
        let text = printable(&error.to_string());
        let _ = writeln!(io::stderr(), "lathe sandbox: {text}");
        HELPER_FAILED
    })
}

/// A text whose names can't control a terminal.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\'' | '"' | '\\' => shown.push(character),
            other => shown.extend(other.escape_debug()),
        }
    }
    shown
}

fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Task, InnerError> {
    let mut task = Task::default();
    while let Some(word) = words.next() {
        let mut value = || {
            let missing = || InnerError::Usage(format!("{} needs a value", word.to_string_lossy()));
            words.next().ok_or_else(missing)
        };
        match word.to_str() {
            Some("--") => {
                task.command = words.collect();
                break;
            }
            Some("--namespaces") => {
                let own = value()? == "user";
                task.namespaces = Some(if own { Users::Own } else { Users::Shared });
            }
            Some("--mounts") => task.mounts = mounts::decode(&value()?),
            Some("--directory") => task.directory = Some(value()?.into()),
            Some("--inside") => task.inside = true,
            Some("--root") => task.root = true,
            Some("--bridge") => task.bridge = Some(value()?.into()),
            Some("--name") => task.name = value()?.to_string_lossy().into_owned(),
            Some("--keep") => task.keeps.push(number(&value()?)?),
            Some("--internet") => task.filter.internet = true,
            Some("--unix-sockets") => task.filter.unix = true,
            Some("--no-listening") => task.filter.no_listening = true,
            Some("--shared-system") => task.filter.shared_system = true,
            Some("--processes") => task.processes = Some(number(&value()?)?),
            Some("--memory") => task.memory = Some(number(&value()?)?),
            Some("--file-size") => task.file_size = Some(number(&value()?)?),
            Some("--write") => task.files.writable.push(value()?.into()),
            Some("--hide") => task.files.hidden.push(value()?.into()),
            Some("--show") => task.files.shown.push(value()?.into()),
            Some("--connect") => {
                let host = value()?.to_string_lossy().into_owned();
                task.connect = Some((host, number(&value()?)?));
            }
            _ => return Err(InnerError::Usage(word.to_string_lossy().into_owned())),
        }
    }
    if task.command.is_empty() && task.connect.is_none() {
        return Err(InnerError::Usage("there is no command".to_owned()));
    }
    Ok(task)
}

fn number<T: std::str::FromStr>(text: &OsString) -> Result<T, InnerError> {
    let wrong = || InnerError::Usage(format!("{} is no number", text.to_string_lossy()));
    text.to_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(wrong)
}

fn carry_out(task: &Task) -> Result<i32, InnerError> {
    bounds::close_others(&task.keeps);
    if task.namespaces.is_some() {
        // SAFETY: takes numbers. The process that started this is gone, and so is the sandbox, with everything in it.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    }
    match task.namespaces {
        Some(users) => namespace::enter(task, users, first_process),
        None if task.inside => first_process(task),
        None => {
            bounds::apply(task)?;
            Err(exec(&task.command))
        }
    }
}

/// The first process of the namespaces: starts the command, serves the bridge, and ends when the command does.
fn first_process(task: &Task) -> Result<i32, InnerError> {
    bounds::hide_memory();
    let listeners = match &task.bridge {
        Some(_) => Some(bridge::listen().doing("listening for connections to the proxy")?),
        None => None,
    };
    // SAFETY: this process has one thread, so the child is a whole copy of it.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error()).doing("starting the command");
    }
    if child == 0 {
        drop(listeners);
        bounds::apply(task)?;
        return Err(exec(&task.command));
    }
    for &descriptor in &task.keeps {
        // SAFETY: the number was given to us to keep for the command, which has it now.
        unsafe { libc::close(descriptor) };
    }
    if let (Some(listeners), Some(socket)) = (listeners, &task.bridge) {
        bridge::serve(listeners, socket, &task.name);
    }
    Ok(reap(child))
}

/// Waits for everything that ends, until the command does. Gives its code.
fn reap(command: libc::pid_t) -> i32 {
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for the call.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if ended == command {
            return code(status);
        }
        if ended < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return HELPER_FAILED;
        }
    }
}

fn code(status: libc::c_int) -> i32 {
    if libc::WIFSIGNALED(status) {
        128 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    }
}

/// Becomes the command. Returns only if that fails.
fn exec(command: &[OsString]) -> InnerError {
    let name = command
        .first()
        .map(|word| word.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let texts: Result<Vec<CString>, _> = command
        .iter()
        .map(|word| CString::new(word.clone().into_vec()))
        .collect();
    let Ok(texts) = texts else {
        return InnerError::Usage("a NUL character in the command".to_owned());
    };
    let mut pointers: Vec<*const libc::c_char> = texts.iter().map(|text| text.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let Some(program) = texts.first() else {
        return InnerError::Usage("there is no command".to_owned());
    };
    // SAFETY: terminated texts and a null-terminated list that outlive the call.
    unsafe { libc::execvp(program.as_ptr(), pointers.as_ptr()) };
    let source = io::Error::last_os_error();
    InnerError::System {
        what: format!("{name} can't be run"),
        source,
    }
}

/// A path for a system call.
pub(crate) fn c_path(path: &std::path::Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_refused() {
        for words in [
            vec!["--what"],
            vec!["--keep"],
            vec!["--keep", "x", "--", "true"],
            vec![],
            vec!["--inside"],
        ] {
            let words = words.into_iter().map(OsString::from);
            assert!(parse(words).is_err());
        }
        let words = [
            "--inside", "--keep", "9", "--write", "/w", "--", "sh", "--inside",
        ];
        let task = parse(words.into_iter().map(OsString::from)).unwrap();
        assert_eq!(task.keeps, [9]);
        assert_eq!(task.command, ["sh", "--inside"]);
    }
}
