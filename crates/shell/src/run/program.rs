//! Which shell runs commands, and the few lines that it runs around each of them.
//!
//! The command itself is an argument, run by `eval`: nothing is pasted into a script, so no quote,
//! here-document or comment in it can reach what stands around it, and the shell's own words about a
//! syntax error are about the command alone.
//!
//! Around it stands one report. When the shell is about to leave, by whatever way it can still act
//! on, it writes its folder and its remaining children to the control socket. With no children left
//! it leaves at once, so a plain command costs no round trip. With some left it waits for a word:
//! while it lives, they are all below it in the process tree and can be ended for certain.

use crate::syntax::ShellKind;
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

/// A shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellProgram {
    /// Where it is.
    pub path: PathBuf,
    /// Its dialect.
    pub kind: ShellKind,
}

impl ShellProgram {
    /// The shell at a path; its kind is told by its name.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let kind = if name.contains("bash") {
            ShellKind::Bash
        } else if name.contains("zsh") {
            ShellKind::Zsh
        } else {
            ShellKind::Posix
        };
        Self { path, kind }
    }

    /// The user's own shell if it is bash or zsh, else bash, else `sh`.
    #[must_use]
    pub fn find(environment: &[(OsString, OsString)]) -> Option<Self> {
        let lookup = |name: &str| {
            environment
                .iter()
                .rev()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.clone())
        };
        if let Some(own) = lookup("SHELL") {
            let own = Self::at(PathBuf::from(own));
            if own.kind != ShellKind::Posix && is_program(&own.path) {
                return Some(own);
            }
        }
        let search = lookup("PATH").unwrap_or_default();
        let on_path = |name: &str| which::which_in(name, Some(&search), "/").ok();
        let fixed = |path: &str| Some(PathBuf::from(path)).filter(|path| is_program(path));
        on_path("bash")
            .or_else(|| fixed("/bin/bash"))
            .or_else(|| fixed("/usr/bin/bash"))
            .or_else(|| on_path("sh"))
            .or_else(|| fixed("/bin/sh"))
            .map(Self::at)
    }

    /// The name under which it speaks of itself.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.kind {
            ShellKind::Bash => "bash",
            ShellKind::Zsh => "zsh",
            ShellKind::Posix => "sh",
        }
    }

    /// The number of the control socket's descriptor, for shells that take one digit only.
    pub(super) fn fixed_descriptor(&self) -> Option<RawFd> {
        match self.kind {
            ShellKind::Bash | ShellKind::Zsh => None,
            ShellKind::Posix => Some(9),
        }
    }

    /// Arguments that keep start-up files out: their effect is in the snapshot, once.
    fn quick_start(&self) -> &'static [&'static str] {
        match self.kind {
            ShellKind::Bash => &["--norc", "--noprofile"],
            ShellKind::Zsh => &["-f"],
            ShellKind::Posix => &[],
        }
    }

    /// All arguments to run a command.
    pub(super) fn arguments(&self, command: &CommandText<'_>, descriptor: RawFd) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = self.quick_start().iter().map(OsString::from).collect();
        let (text, file) = match command.long_form {
            Some(file) => ("", file.as_os_str().to_owned()),
            None => (command.text, OsString::new()),
        };
        arguments.push("-c".into());
        arguments.push(self.wrapper(descriptor).into());
        arguments.push(self.name().into());
        arguments.push(text.into());
        arguments.push(
            command
                .snapshot
                .map(|path| path.as_os_str().to_owned())
                .unwrap_or_default(),
        );
        arguments.push(file);
        arguments
    }

    /// On one line, so that the shell counts the command's lines from 1.
    fn wrapper(&self, descriptor: RawFd) -> String {
        // How to reach a built-in that a function of the user may hide.
        let builtin = match self.kind {
            ShellKind::Bash | ShellKind::Zsh => "builtin",
            ShellKind::Posix => "command",
        };
        // Bash would print a word on each job that is ended; none of them is of interest any more.
        let forget = match self.kind {
            ShellKind::Bash => "builtin disown -a || :; ",
            ShellKind::Zsh | ShellKind::Posix => "",
        };
        let report = format!(
            "__lathe_report() {{ \
               local __code=$? __children='?'; \
               if [ -z \"${{__lathe_reported-}}\" ]; then \
                 __lathe_reported=1; \
                 {builtin} read -r __children < \"/proc/$$/task/$$/children\" || :; \
                 {{ {builtin} pwd -P || :; {builtin} printf '\\0%s\\0' \"$__children\"; }} >&{descriptor} || :; \
                 if [ -n \"$__children\" ]; then {forget}{builtin} read -r __children <&{descriptor} || :; fi; \
               fi; \
               return \"$__code\"; }}"
        );
        // The last `exit` hands on the code of the report, which is the command's; written this way
        // neither `set -e` nor a trap on ERR sees a second failure.
        format!(
            "{report}; \
             if [ -n \"$2\" ]; then . \"$2\" 2>/dev/null; fi; \
             trap '{{ __lathe_report; }} 2>/dev/null' EXIT; \
             if [ -n \"$3\" ]; then __lathe_command=$(cat -- \"$3\"); else __lathe_command=$1; fi; \
             shift 3; \
             eval \"$__lathe_command\"; \
             {{ __lathe_report; }} 2>/dev/null || exit"
        )
    }
}

/// A command and what goes with it.
pub(super) struct CommandText<'a> {
    /// As written.
    pub(super) text: &'a str,
    /// A file with functions and aliases to load first.
    pub(super) snapshot: Option<&'a Path>,
    /// A file that holds the text, when it is longer than an argument may be.
    pub(super) long_form: Option<&'a Path>,
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.is_absolute()
        && path
            .metadata()
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The report of the shell before it exits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    /// Its folder; `None` when that folder is gone.
    pub(super) directory: Option<PathBuf>,
    /// Whether it knows that it has no children left.
    pub(super) childless: bool,
}

impl Report {
    /// Reads a report once it is complete.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        use std::os::unix::ffi::OsStrExt;
        let mut parts = bytes.split(|&byte| byte == 0);
        let directory = parts.next()?;
        let children = parts.next()?;
        // What follows the second NUL: its presence says that the report is whole.
        parts.next()?;
        let directory = directory.strip_suffix(b"\n").unwrap_or(directory);
        let directory = Path::new(std::ffi::OsStr::from_bytes(directory));
        Some(Self {
            directory: (directory.is_absolute() && directory.is_dir())
                .then(|| directory.to_path_buf()),
            childless: children.iter().all(u8::is_ascii_whitespace),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_only_when_it_is_whole() {
        assert_eq!(Report::parse(b"/tm"), None);
        assert_eq!(Report::parse(b"/\n\x00"), None);
        assert_eq!(Report::parse(b"/\n\x0012 "), None);
        assert_eq!(
            Report::parse(b"/\n\x00\x00"),
            Some(Report {
                directory: Some("/".into()),
                childless: true
            })
        );
        assert_eq!(
            Report::parse(b"\x0012 13 \x00"),
            Some(Report {
                directory: None,
                childless: false
            })
        );
    }

    #[test]
    fn the_kind_is_told_by_the_name() {
        assert_eq!(ShellProgram::at("/bin/bash".into()).kind, ShellKind::Bash);
        assert_eq!(ShellProgram::at("/x/zsh-5.9".into()).kind, ShellKind::Zsh);
        assert_eq!(ShellProgram::at("/bin/dash".into()).kind, ShellKind::Posix);
    }

    #[test]
    fn an_unusual_login_shell_is_not_used() {
        let environment = vec![
            (OsString::from("SHELL"), OsString::from("/usr/bin/fish")),
            (OsString::from("PATH"), OsString::from("/usr/bin:/bin")),
        ];
        let found = ShellProgram::find(&environment).unwrap();
        assert_ne!(found.path, Path::new("/usr/bin/fish"));
    }
}
