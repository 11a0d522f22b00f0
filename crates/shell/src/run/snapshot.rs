//! A snapshot of the shell as the user's start-up files set it up, taken once.
//!
//! The user's shell is started the way a terminal starts it (interactive, so that the usual "not
//! interactive? then return" line lets it through), asked for its functions, aliases and exported
//! variables, and ended. Commands then run in a plain shell that is given these, which costs far
//! less than reading the start-up files each time. It is taken in the background: until it is
//! there, and if it never is, commands run with the environment of this process alone.

use super::program::ShellProgram;
use crate::syntax::ShellKind;
use lathe_process::{Command, session};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// After this the start-up files are given up on.
const LIMIT: Duration = Duration::from_secs(5);
/// More than this is no one's functions.
const SIZE_LIMIT: usize = 8 * 1024 * 1024;

/// Variables that speak of the shell that was asked, not of the user's wishes. The agent's socket is
/// among them because an agent that a start-up file starts is ended with it.
const OWN_VARIABLES: &[&str] = &[
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "PS1",
    "PS2",
    "PS4",
    "PROMPT",
    "PROMPT_COMMAND",
    "TERM",
    "COLUMNS",
    "LINES",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    lathe_process::MARKER_VARIABLE,
];

/// Aliases that only make a program ask before it acts; without the user they make it do nothing.
const ASKING_ALIASES: &[&str] = &["rm", "cp", "mv", "ln"];

/// The snapshot.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Exported variables that differ from this process's.
    pub(super) environment: Vec<(OsString, OsString)>,
    /// Functions and aliases, to be loaded before a command; `None` when there are none.
    pub(super) file: Option<tempfile::TempPath>,
}

/// A snapshot that is there, on its way, or not wanted.
#[derive(Debug)]
pub(super) enum SnapshotState {
    Off,
    NotTaken,
    BeingTaken,
    Taken(Arc<Snapshot>),
    Failed,
}

/// Takes the snapshot in the background, once.
pub(super) fn ensure_taken(
    state: &Arc<Mutex<SnapshotState>>,
    shell: &ShellProgram,
    environment: &[(OsString, OsString)],
) {
    {
        let mut state = state.lock();
        if !matches!(*state, SnapshotState::NotTaken) {
            return;
        }
        *state = SnapshotState::BeingTaken;
    }
    let state = Arc::clone(state);
    let shell = shell.clone();
    let environment = environment.to_vec();
    lathe_spawn::task(async move {
        let taken = take(&shell, environment).await;
        *state.lock() = match taken {
            Some(snapshot) => SnapshotState::Taken(Arc::new(snapshot)),
            None => SnapshotState::Failed,
        };
    });
}

async fn take(shell: &ShellProgram, environment: Vec<(OsString, OsString)>) -> Option<Snapshot> {
    let home = environment
        .iter()
        .rev()
        .find(|(name, _)| name == "HOME")
        .map(|(_, value)| PathBuf::from(value))?;
    let (mut control, control_end) = session::control_socket(shell.fixed_descriptor()).ok()?;
    let arguments = arguments(shell, &home, control_end.descriptor())?;
    let command = Command::new(&shell.path)
        .arguments(arguments)
        .directory(home)
        .without_inherited_environment()
        .variables(environment.clone());
    let spawned = session::spawn(command, control_end, None)
        .await
        .map_err(|error| tracing::debug!(%error, "no snapshot of the user's shell"))
        .ok()?;
    let mut family = spawned.family;
    let registration = spawned.registration;
    let mut child = spawned.child;
    let mut noise = spawned.output;
    let mut answer = Vec::new();
    let reading = async {
        let mut chunk = vec![0; 16 * 1024];
        let mut ignored = vec![0; 16 * 1024];
        let mut noisy = true;
        loop {
            tokio::select! {
                read = control.read(&mut chunk) => match read {
                    Ok(count) if count > 0 && answer.len() < SIZE_LIMIT => {
                        answer.extend_from_slice(&chunk[..count]);
                        if answer.ends_with(END) {
                            return true;
                        }
                    }
                    _ => return false,
                },
                // What start-up files print is for the user at a terminal.
                read = noise.read(&mut ignored), if noisy => noisy = matches!(read, Ok(1..)),
            }
        }
    };
    let complete = tokio::time::timeout(LIMIT, reading).await.unwrap_or(false);
    drop(control);
    // An interactive shell ignores SIGTERM, and it has nothing left to do. Off the runtime's
    // threads, since killing waits for the dead.
    drop(lathe_spawn::blocking(move || family.kill_now()).await);
    drop(child.wait().await);
    registration.ended();
    if !complete {
        tracing::debug!("the user's shell gave no snapshot in time");
        return None;
    }
    build(shell, &answer, &environment)
}

const END: &[u8] = b"\0=end\0";

fn arguments(shell: &ShellProgram, home: &Path, descriptor: i32) -> Option<Vec<OsString>> {
    // Sections are told apart by a leading `=`, which no entry of an environment has.
    let (listing, flags): (&str, &[&str]) = match shell.kind {
        ShellKind::Bash => ("shopt -p extglob; declare -f", &["-i"]),
        ShellKind::Zsh => ("typeset -f", &["-i", "-l"]),
        // Its start-up file is only read on request; there is nothing to take.
        ShellKind::Posix => return None,
    };
    let aliases = match shell.kind {
        ShellKind::Zsh => "alias -L",
        ShellKind::Bash | ShellKind::Posix => "alias -p",
    };
    let mut flags: Vec<OsString> = flags.iter().map(OsString::from).collect();
    let mut first = "";
    if shell.kind == ShellKind::Bash {
        // As a login shell bash reads only the first of these, and the interactive file only if
        // that one says so.
        let profile = [".bash_profile", ".bash_login", ".profile"]
            .iter()
            .find_map(|name| std::fs::read(home.join(name)).ok());
        if let Some(profile) = profile {
            flags.push("-l".into());
            let mentions = profile.windows(6).any(|window| window == b"bashrc");
            if !mentions {
                first = "[ ! -r ~/.bashrc ] || . ~/.bashrc; ";
            }
        }
    }
    let script = format!(
        "{first}{{ command env -0; printf '\\0=functions\\0'; {listing}; \
         printf '\\0=aliases\\0'; {aliases}; printf '\\0=end\\0'; }} >&{descriptor} 2>/dev/null"
    );
    flags.push("-c".into());
    flags.push(script.into());
    Some(flags)
}

fn build(
    shell: &ShellProgram,
    answer: &[u8],
    environment: &[(OsString, OsString)],
) -> Option<Snapshot> {
    let before: HashMap<&OsStr, &OsStr> = environment
        .iter()
        .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
        .collect();
    let mut changed = Vec::new();
    let mut functions: &[u8] = &[];
    let mut aliases: &[u8] = &[];
    let mut parts = answer.split(|&byte| byte == 0);
    while let Some(part) = parts.next() {
        match part {
            b"=functions" => functions = parts.next().unwrap_or_default(),
            b"=aliases" => aliases = parts.next().unwrap_or_default(),
            entry => {
                let Some(at) = entry.iter().position(|&byte| byte == b'=') else {
                    continue;
                };
                let (name, value) = (&entry[..at], &entry[at + 1..]);
                let name = OsStr::from_bytes(name);
                let value = OsStr::from_bytes(value);
                let own = OWN_VARIABLES.iter().any(|own| name == *own);
                if !name.is_empty() && !own && before.get(name) != Some(&value) {
                    changed.push((name.to_owned(), value.to_owned()));
                }
            }
        }
    }
    let aliases = useful_aliases(aliases);
    // One line is the option listing that stands before the functions.
    let has_functions = functions.windows(2).any(|window| window == b"()");
    let file = if has_functions || !aliases.is_empty() {
        let mut text = Vec::new();
        text.extend_from_slice(match shell.kind {
            ShellKind::Bash => b"shopt -s expand_aliases\n",
            // It comes with aliases of its own, and no function can be defined under their names.
            ShellKind::Zsh => b"unalias -m '*'\n",
            ShellKind::Posix => b"",
        });
        text.extend_from_slice(functions);
        text.push(b'\n');
        text.extend_from_slice(&aliases);
        Some(write_file(&text)?)
    } else {
        None
    };
    Some(Snapshot {
        environment: changed,
        file,
    })
}

fn useful_aliases(listing: &[u8]) -> Vec<u8> {
    let asks = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        ASKING_ALIASES.iter().any(|name| {
            line.strip_prefix("alias ")
                .and_then(|rest| rest.trim_start_matches("-- ").strip_prefix(name))
                .and_then(|rest| rest.strip_prefix('='))
                .is_some_and(|value| value.contains(" -i"))
        })
    };
    let mut kept = Vec::new();
    for line in listing.split(|&byte| byte == b'\n') {
        if !line.is_empty() && !asks(line) {
            kept.extend_from_slice(line);
            kept.push(b'\n');
        }
    }
    kept
}

/// Readable by the user alone: functions may hold what others shouldn't see.
fn write_file(text: &[u8]) -> Option<tempfile::TempPath> {
    let mut file = tempfile::Builder::new()
        .prefix("lathe-shell-")
        .suffix(".sh")
        .tempfile()
        .ok()?;
    file.write_all(text).ok()?;
    Some(file.into_temp_path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_that_only_ask_are_left_out() {
        let listing = b"alias ll='ls -l'\nalias rm='rm -i'\nalias cp='cp -i'\nalias rmx='x -i'\n";
        assert_eq!(
            useful_aliases(listing),
            b"alias ll='ls -l'\nalias rmx='x -i'\n"
        );
    }

    #[test]
    fn only_changed_variables_are_taken() {
        let shell = ShellProgram::at("/bin/bash".into());
        let before = vec![(OsString::from("A"), OsString::from("1"))];
        let answer = b"A=1\0B=2\0PWD=/x\0\0=functions\0shopt -u extglob\n\0=aliases\0\0=end\0";
        let snapshot = build(&shell, answer, &before).unwrap();
        assert_eq!(
            snapshot.environment,
            [(OsString::from("B"), OsString::from("2"))]
        );
        assert!(snapshot.file.is_none(), "nothing to load");
    }

    #[test]
    fn functions_and_aliases_are_written_to_a_private_file() {
        use std::os::unix::fs::PermissionsExt;
        let shell = ShellProgram::at("/bin/bash".into());
        let answer = b"\0=functions\0shopt -s extglob\nf () \n{ \n    :\n}\n\0=aliases\0alias a='b'\n\0=end\0";
        let file = build(&shell, answer, &[]).unwrap().file.unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.contains("f ()") && text.contains("alias a='b'"),
            "{text}"
        );
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
