//! A program to run, with its arguments, folder and environment.
//!
//! Every child process of the product starts as a [`Command`], whichever way it is run. Code that confines
//! processes rewrites the command here, with [`Command::wrap`], and nowhere else.

use lathe_sandbox::{Confinement, SandboxError, Wrapping};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A program to run. Nothing happens until it is passed to one of the functions that start it:
/// [`run`](crate::run()), [`run_blocking`](crate::run_blocking), [`Command::spawn`],
/// [`session::spawn`](crate::session::spawn), [`Command::foreground`] or [`Command::launch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    directory: Option<PathBuf>,
    inherits: bool,
    /// Later entries replace earlier ones of the same name.
    variables: Vec<(OsString, OsString)>,
    removed: Vec<OsString>,
    /// The confinement that the process enters before it becomes the program.
    entered: Option<Entered>,
    /// Resources that live as long as the program runs.
    held: Option<Held>,
}

/// Puts a program into the sandbox of a session, where it is to be there.
pub type Confine = Arc<dyn Fn(Command) -> Result<Command, SandboxError> + Send + Sync>;

/// A sandbox that a program runs in. Two are the same if they are one.
#[derive(Debug, Clone)]
pub(crate) struct Held(Arc<Wrapping>);

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Held {}

/// Namespaces of a sandbox. Two are the same if they are one.
#[derive(Debug, Clone)]
struct Entered(Arc<Confinement>);

impl PartialEq for Entered {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Entered {}

impl Command {
    /// A program, given by its path or by its name on the search path.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            directory: None,
            inherits: true,
            variables: Vec::new(),
            removed: Vec::new(),
            entered: None,
            held: None,
        }
    }

    /// A line for a shell: the given one, else bash where it is installed, else sh.
    #[must_use]
    pub fn shell(line: impl Into<OsString>, shell: Option<&str>) -> Self {
        Self::new(shell.map_or_else(default_shell, OsString::from))
            .argument("-c")
            .argument(line)
    }

    /// git, in a folder: no program that the repository's configuration names is run (hooks, a file system
    /// monitor, a pager), nobody is asked for a password, and messages are in English.
    #[must_use]
    pub fn git(directory: impl Into<PathBuf>) -> Self {
        Self::new("git")
            .arguments(["-c", "core.hooksPath=/dev/null"])
            .arguments(["-c", "core.fsmonitor=false"])
            .argument("--no-pager")
            .variable("GIT_TERMINAL_PROMPT", "0")
            .variable("GIT_OPTIONAL_LOCKS", "0")
            .variable("LC_ALL", "C")
            .without_variable("GIT_DIR")
            .without_variable("GIT_WORK_TREE")
            .without_variable("GIT_INDEX_FILE")
            .directory(directory)
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets the folder to run in. Without it, the program runs in the folder of this process.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Starts from an empty environment instead of that of this process. Variables that were added
    /// before are kept.
    #[must_use]
    pub fn without_inherited_environment(mut self) -> Self {
        self.inherits = false;
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Sets variables.
    #[must_use]
    pub fn variables(
        mut self,
        variables: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> Self {
        let variables = variables.into_iter();
        self.variables
            .extend(variables.map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Removes a variable, whether it is inherited or was set.
    #[must_use]
    pub fn without_variable(mut self, name: impl Into<OsString>) -> Self {
        self.removed.push(name.into());
        self
    }

    /// Runs the program through another one: `words` are that program and its first arguments, and the
    /// program and arguments so far follow them. No words leave the command as it is.
    #[must_use]
    pub fn wrap(mut self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let mut words = words.into_iter().map(Into::into);
        if let Some(wrapper) = words.next() {
            let program = std::mem::replace(&mut self.program, wrapper);
            let arguments = std::mem::take(&mut self.arguments);
            self.arguments = words.chain([program]).chain(arguments).collect();
        }
        self
    }

    /// Leaves out variables, inherited or set so far, by their name.
    #[must_use]
    pub fn without_variables(mut self, leaves_out: impl Fn(&str) -> bool) -> Self {
        if std::mem::replace(&mut self.inherits, false) {
            self.variables.splice(0..0, inherited_environment());
        }
        let stays = |name: &OsString| name.to_str().is_none_or(|name| !leaves_out(name));
        self.variables.retain(|(name, _)| stays(name));
        self
    }

    /// Runs the program in a sandbox. [`Command::spawn`] and [`run`](crate::run()) keep what was wrapped for as long as
    /// the program runs; who starts it in another way must do so.
    #[must_use]
    pub fn sandboxed(self, wrapping: &Arc<Wrapping>) -> Self {
        let mut command = self
            .wrap(wrapping.words.iter().cloned())
            .variables(wrapping.variables.iter().cloned());
        command.entered = wrapping.entry.clone().map(Entered);
        command.held = Some(Held(Arc::clone(wrapping)));
        command
    }

    /// Resources that live as long as the program runs.
    pub(crate) fn held(&self) -> Option<Held> {
        self.held.clone()
    }

    /// The program as it was given.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// The folder that was set.
    #[must_use]
    pub fn working_directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The command for the standard library: leading a process group of its own, which the terminal's
    /// Ctrl-C doesn't reach and which can be signalled as a whole.
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    pub(crate) fn prepare(self) -> std::process::Command {
        let mut command = self.plain();
        command.process_group(0);
        command
    }

    /// The command for the standard library, in the process group of this process.
    pub(crate) fn plain(self) -> std::process::Command {
        let mut command = std::process::Command::new(self.program);
        command.args(self.arguments);
        if !self.inherits {
            command.env_clear();
        }
        command.envs(self.variables);
        for name in self.removed {
            command.env_remove(name);
        }
        if let Some(directory) = self.directory {
            command.current_dir(directory);
        }
        if let Some(Entered(confinement)) = self.entered {
            crate::system::enter_before(&mut command, confinement);
        }
        command
    }

    /// The parts of the command, with the whole environment.
    pub(crate) fn into_parts(self) -> Parts {
        let mut environment = self.variables;
        if self.inherits {
            environment.splice(0..0, inherited_environment());
        }
        if !self.removed.is_empty() {
            environment.retain(|(name, _)| !self.removed.contains(name));
        }
        Parts {
            program: self.program.into(),
            arguments: self.arguments,
            directory: self.directory.unwrap_or_else(|| ".".into()),
            environment,
        }
    }
}

/// A command taken apart for the system call that starts it.
pub(crate) struct Parts {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: PathBuf,
    /// The whole environment. Of a name that is there twice, the last value applies.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

/// The environment that a child inherits from this process, for code that must know all of it. Lathe's
/// own variables are in `lathe_settings::Environment`.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "a child inherits all variables, also those that are not text"
)]
pub fn inherited_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// bash where there is one: most commands that people write assume it.
fn default_shell() -> OsString {
    ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .unwrap_or("/bin/sh")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapper_comes_before_the_program_and_its_arguments() {
        let command = Command::new("ls").argument("-l").wrap(["box", "--strict"]);
        assert_eq!(command.program(), "box");
        assert_eq!(command.arguments, ["--strict", "ls", "-l"]);
        let plain = Command::new("ls").argument("-l");
        assert_eq!(plain.clone().wrap(Vec::<OsString>::new()), plain);
    }

    #[test]
    fn both_ways_to_start_a_program_see_the_same_environment() {
        let command = Command::new("env")
            .without_inherited_environment()
            .variables([("A", "1"), ("B", "2"), ("C", "3")])
            .variable("B", "later")
            .without_variable("C");
        let prepared = command.clone().prepare();
        let mut environment: Vec<_> = prepared
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        environment.sort();
        assert_eq!(
            environment,
            [("A".into(), "1".into()), ("B".into(), "later".into())]
        );
        let parts = command.into_parts();
        let value = |wanted: &str| {
            let mut found = parts.environment.iter().rev();
            found
                .find(|(name, _)| name == wanted)
                .map(|(_, value)| value)
        };
        assert_eq!(value("B"), Some(&"later".into()));
        assert_eq!(value("C"), None);
    }
}
