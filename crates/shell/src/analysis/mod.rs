//! Judging a shell command: its parts, what each would do, and why.
//!
//! [`analyse`] parses a command with [`crate::syntax`] and gives one [`Part`] for everything that would
//! run or touch a file on its own: each simple command (through lists, pipelines, subshells, loops,
//! functions and substitutions), each test and arithmetic command, each redirection of a group. A part
//! says what an allow rule may match, what a deny rule must match, which files it names, whether it only
//! reads, and what about it is suspicious.
//!
//! Three promises hold it together:
//!
//! - A command is *read-only* only if every word that matters is known and every option is in a table of
//!   harmless ones. Anything unknown is treated as harmful.
//! - The strictest part decides. Nothing around a command makes it milder.
//! - It is pure: no file is looked at. Whether a path lies inside the roots is the permission decision's
//!   to judge, from [`Part::read_paths`], [`Part::redirections`] and [`Part::folder`].
//!
//! Where to look: `walk` takes the tree apart, `simple` judges a simple command, `words` judges what a word could do, `programs` has the
//! grammars of commands that only read, `wrappers` sees through `sudo`, `xargs` and their kind, `removal` and `files`
//! recognise what they say, `suggestion` finds what 'always allow' should offer.

mod argument;
mod arrivals;
mod fed_text;
mod files;
mod names;
mod options;
mod programs;
mod reading;
mod removal;
mod simple;
mod suggestion;
mod variables;
mod walk;
mod words;
mod wrappers;

pub use argument::{Argument, PathKind, PathOperand, VariableArgument};
pub use files::{FileAction, FileCommand, is_file_program};
pub use reading::{FolderReading, NamesAsWords, Obeys, Shows};
pub use removal::{DangerousRemoval, Loss, Vital};
pub use suggestion::suggested_prefix;

use crate::syntax::{self, NotUnderstood, ShellKind, Span};

/// More parts than this are asked about, however harmless: nobody can oversee them.
pub const MOST_PARTS: usize = 50;

/// After this many parts the rest isn't listed, and the command is treated as not understood.
const MOST_LISTED: usize = 1000;

/// Everything that is known about a command.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// Whether the whole command was understood. If not, `parts` has what came before the problem.
    pub understood: Result<(), NotUnderstood>,
    /// The parts, inner commands before those that use their output.
    pub parts: Vec<Part>,
    /// Whether the command as a whole is understood and only reads.
    pub read_only: bool,
    /// Concerns about the command as a whole.
    pub concerns: Vec<Concern>,
}

/// One thing that would run or touch a file.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its source text.
    pub text: String,
    /// Where it stands in the command (for text in backticks: where those stand).
    pub span: Span,
    /// Its kind.
    pub kind: PartKind,
    /// Command word and arguments, decoded.
    pub argv: Vec<Argument>,
    /// Variables assigned in front of the command, or on their own.
    pub assignments: Vec<AssignedVariable>,
    /// Redirections.
    pub redirections: Vec<FileRedirection>,
    /// Harmless wrappers that were taken off, outermost first.
    pub wrappers: Vec<String>,
    /// The words after harmless wrappers and assignments: what an allow rule is matched against.
    pub effective_argv: Vec<Argument>,
    /// Whether an allow rule may match at all. It may not when an assignment in front of the command
    /// could change what the command does.
    pub can_be_allowed: bool,
    /// Every command that this one could run, itself first, through every wrapper: a deny rule matches
    /// if it matches any of them.
    pub all_effective: Vec<Vec<Argument>>,
    /// Whether it only reads.
    pub read_only: ReadOnly,
    /// Whether it would only read if it weren't for the folder that a `cd` leads to, whose
    /// configuration it obeys.
    pub read_only_in_trusted_folder: bool,
    /// Its concerns.
    pub concerns: Vec<Concern>,
    /// Whether it runs text that can't be known beforehand: what another program prints, what a variable holds.
    pub runs_unknown_text: bool,
    /// Text that it is fed and runs, where that is known.
    pub fed_texts: Vec<String>,
    /// Set when its words show that it removes something vital.
    pub removal: Option<DangerousRemoval>,
    /// Files and folders that it removes, empties or changes with everything in them.
    pub losses: Vec<Loss>,
    /// Set when it is a simple file command.
    pub file_command: Option<FileCommand>,
    /// Files and folders that it reads, by argument or redirection, where that is known.
    pub read_paths: Vec<PathOperand>,
    /// Words that become names of files: none of the names may look like an option.
    pub names_of_files: Vec<PathOperand>,
    /// How much it shows of the files that it reads.
    pub shows: Shows,
    /// Which files below the folders among `read_paths` it reads, when it reads such.
    pub below: Option<FolderReading>,
    /// Whose configuration it obeys, when it only reads apart from that.
    pub obeys: Obeys,
    /// Which folder it runs in.
    pub folder: WorkingFolder,
}

/// The kind of a [`Part`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// A simple command.
    Command,
    /// Assignments without a command.
    Assignment,
    /// Redirections without a command, or those of a compound command.
    Redirection,
    /// `[[ … ]]`
    Conditional,
    /// `(( … ))`, or the header of an arithmetic `for`.
    Arithmetic,
    /// The words of a `for` or `case`.
    Words,
    /// A function definition. Its body's commands are parts of their own.
    Function,
}

/// A variable that is assigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignedVariable {
    /// Its name.
    pub name: String,
    /// Its value; for an array, the source text.
    pub value: Argument,
    /// Whether it may be ignored when an allow rule is matched.
    pub harmless: bool,
}

/// A redirection, with what it does to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRedirection {
    /// Its source text.
    pub text: String,
    /// Where it stands.
    pub span: Span,
    /// Its effect.
    pub kind: RedirectionKind,
    /// File, descriptor or delimiter.
    pub target: Argument,
    /// Whether no file is touched that anyone could care about (`/dev/null`, `2>&1`, a here-document).
    pub free: bool,
}

impl FileRedirection {
    /// Whether it changes a file.
    #[must_use]
    pub fn writes(&self) -> bool {
        !self.free
            && matches!(
                self.kind,
                RedirectionKind::Write | RedirectionKind::Append | RedirectionKind::ReadWrite
            )
    }
}

/// The kind of a redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectionKind {
    /// Reads a file.
    Read,
    /// Replaces a file.
    Write,
    /// Adds to a file.
    Append,
    /// Opens a file for both.
    ReadWrite,
    /// Copies or closes a descriptor.
    Duplicate,
    /// Text that stands in the command.
    HereDocument,
}

/// Whether a part only reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadOnly {
    /// It does.
    Yes,
    /// It is not known to.
    No {
        /// Why not, in words for the user.
        reason: String,
    },
}

impl ReadOnly {
    /// Whether it only reads.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        matches!(self, ReadOnly::Yes)
    }
}

/// Which folder a part runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkingFolder {
    /// The one that the command starts in.
    Start,
    /// The result of these changes in order. As each of them could fail, every shorter sequence is
    /// possible too.
    After(Vec<PathOperand>),
    /// It can't be known.
    Unknown,
}

/// Something suspicious.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concern {
    /// The kind.
    pub kind: ConcernKind,
    /// The details, in words for the user.
    pub message: String,
}

/// Kinds of suspicious things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConcernKind {
    /// A character that looks like something else, or like nothing.
    OddCharacter,
    /// More parts than the user can oversee.
    TooManyParts,
    /// The command's name comes from a variable, a glob or output.
    VariableCommand,
    /// `eval`, `source`, `trap` and others that run text.
    RunsText,
    /// A variable that changes what programs do is assigned.
    DangerousAssignment,
    /// Escapes or braces hide an option, a path or a command's name.
    HiddenWord,
    /// Arithmetic or a subscript evaluates the value of a variable, which can run commands.
    Evaluation,
    /// `${!x}`: a value is expanded once more.
    SecondExpansion,
    /// `${x@P}`: the commands in a value are run.
    RunsValue,
    /// Reads another process's memory or environment.
    ProcessSecrets,
    /// Opens a network connection by a file name.
    NetworkDevice,
    /// Reads or rewrites the history of commands.
    History,
    /// A feature of zsh that can run commands.
    ZshFeature,
    /// A function of the command's own is used; what it does depends on the call.
    FunctionUse,
    /// After a change of folder, a command that obeys the configuration found there.
    ForeignFolder,
    /// It obeys configuration in the working folder that can name programs. Harmless where the folder
    /// is trusted; the only kind that doesn't keep a part from being read-only.
    NeedsTrustedFolder,
    /// It shows a variable that usually holds a key or a password.
    SecretVariable,
}

impl Concern {
    fn new(kind: ConcernKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// Whether the user should be asked even where an allow rule matches.
    #[must_use]
    pub fn asks_despite_rules(&self) -> bool {
        !matches!(
            self.kind,
            ConcernKind::NeedsTrustedFolder | ConcernKind::ForeignFolder
        )
    }
}

/// Analyses a command for a shell.
#[must_use]
pub fn analyse(command: &str, shell: ShellKind) -> Analysis {
    let parsed = syntax::parse(command, shell);
    let mut concerns: Vec<Concern> = parsed
        .oddities
        .iter()
        .map(|(at, character)| {
            let code = u32::from(*character);
            Concern::new(
                ConcernKind::OddCharacter,
                format!("the character U+{code:04X} at byte {at}"),
            )
        })
        .collect();
    let parts = walk::walk(&parsed, shell);
    if parts.len() > MOST_PARTS {
        let message = format!("{} parts, more than {MOST_PARTS}", parts.len());
        concerns.push(Concern::new(ConcernKind::TooManyParts, message));
    }
    let understood = match parsed.problem {
        Some(problem) => Err(problem),
        None => match parts.get(MOST_LISTED) {
            Some(part) => Err(NotUnderstood {
                reason: format!("more than {MOST_LISTED} commands"),
                at: part.span.start,
            }),
            None => Ok(()),
        },
    };
    let read_only = understood.is_ok()
        && concerns.is_empty()
        && parts.iter().all(|part| part.read_only.is_yes());
    Analysis {
        understood,
        parts,
        read_only,
        concerns,
    }
}

/// Splits the content of a rule into its words, if it is one simple command of fixed words.
#[must_use]
pub fn split_words(text: &str) -> Option<Vec<String>> {
    let parsed = syntax::parse(text, ShellKind::Bash);
    let [item] = parsed.list.items.as_slice() else {
        return None;
    };
    let [syntax::Command::Simple(simple)] = item.pipeline.commands.as_slice() else {
        return None;
    };
    let plain = parsed.problem.is_none()
        && simple.assignments.is_empty()
        && simple.redirections.is_empty()
        && simple.array_arguments.is_empty()
        && !item.pipeline.timed;
    if !plain {
        return None;
    }
    simple.words.iter().map(syntax::Word::fixed).collect()
}
