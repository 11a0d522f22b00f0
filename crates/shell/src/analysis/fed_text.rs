//! Text that a command gets to run: by a pipe, a here-document, an option or a file that is made on the way.

use super::FileRedirection;
use super::argument::{Argument, PathKind};
use super::simple::RUNS_TEXT;
use super::wrappers::{SHELLS, commands_in_text};
use crate::syntax::{HereDocument, Redirection, RedirectionOperator, ShellKind, Word};

/// A command's standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// The input of the whole command.
    Inherited,
    /// The output of a command that prints fixed words.
    Text(String),
    /// The output of any other command.
    Unknown,
}

/// Programs besides shells that run what they read, line by line.
const READERS: &[&str] = &["at", "batch", "parallel"];

/// Programs that run what they read in a language of their own, which can run commands.
const INTERPRETERS: &[&str] = &[
    "python",
    "python2",
    "python3",
    "pypy",
    "pypy3",
    "perl",
    "ruby",
    "irb",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "wish",
    "expect",
    "osascript",
    "Rscript",
    "R",
    "julia",
    "guile",
    "racket",
    "sbcl",
    "ghci",
    "erl",
    "iex",
    "elixir",
    "swift",
    "groovy",
    "jshell",
    "ed",
    "ex",
    "vi",
    "vim",
    "nvim",
    "emacs",
    "make",
    "gmake",
    "sqlite3",
    "psql",
    "mysql",
    "gdb",
    "lldb",
    "crontab",
    "awk",
    "gawk",
    "ssh",
    "xargs",
    "tee",
    "ftp",
    "lftp",
    "socat",
];

/// The output of a command, where its words determine it.
pub(super) fn printed(argv: &[Argument], redirections: &[FileRedirection]) -> Input {
    let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
    let words: Option<Vec<&str>> = argv.iter().skip(1).map(Argument::fixed).collect();
    match words {
        Some(words) if matches!(name, "echo" | "printf") && redirections.is_empty() => {
            let mut text = words.join(" ");
            for word in &words {
                text.push('\n');
                text.push_str(&word.replace("\\n", "\n"));
            }
            Input::Text(text)
        }
        _ => Input::Unknown,
    }
}

/// The commands in text that is fed to one of these commands, and whether text is fed that can't be known.
pub(super) struct Fed {
    pub(super) commands: Vec<Vec<Argument>>,
    pub(super) texts: Vec<String>,
    pub(super) unknown: bool,
}

/// Looks for text that one of the commands runs.
pub(super) fn fed_to(
    commands: &[Vec<Argument>],
    input: &Input,
    redirections: &[Redirection],
    documents: &[HereDocument],
    shell: ShellKind,
) -> Fed {
    let mut fed = Fed {
        commands: Vec::new(),
        texts: Vec::new(),
        unknown: false,
    };
    for argv in commands {
        let Some((first, words)) = argv.split_first() else {
            continue;
        };
        let Some(name) = first.fixed() else { continue };
        let base = name.rsplit('/').next().unwrap_or(name);
        let is_shell = SHELLS.contains(&base);
        if is_shell {
            fed.unknown |= script_is_unknown(words);
        }
        let mut sources_input = false;
        if RUNS_TEXT.contains(&base) && matches!(base, "eval" | "source" | ".") {
            fed.unknown |= words.iter().any(|word| word.fixed().is_none());
            sources_input = base != "eval"
                && words.iter().any(|word| {
                    matches!(
                        word.fixed(),
                        Some("/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
                    )
                });
        }
        if INTERPRETERS.contains(&base) {
            let texts = texts_of(input, redirections, documents);
            fed.texts.extend(texts.into_iter().flatten());
        }
        if (is_shell && reads_input(words)) || sources_input || READERS.contains(&base) {
            for text in texts_of(input, redirections, documents) {
                match text {
                    Some(text) => {
                        fed.commands.extend(commands_in_text(&text, shell));
                        fed.texts.push(text);
                    }
                    None => fed.unknown = true,
                }
            }
        }
    }
    fed
}

/// Whether a shell is told to run a script that isn't fixed, or that another command makes.
fn script_is_unknown(words: &[Argument]) -> bool {
    let mut follows = false;
    for word in words {
        if word.path().kind == PathKind::Pipe {
            return true;
        }
        match word.fixed() {
            None => return follows,
            Some(text) if text.starts_with('-') || text.starts_with('+') => {
                follows |= !text.starts_with("--") && text.contains('c');
            }
            Some(_) => return false,
        }
    }
    false
}

/// Whether a shell runs what it reads: it has neither a script nor the name of one.
fn reads_input(words: &[Argument]) -> bool {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.fixed() {
            Some("-s" | "-" | "/dev/stdin" | "/dev/fd/0") => return true,
            Some("-o" | "+o" | "--rcfile" | "--init-file") => {
                words.next();
            }
            Some(text) if text.starts_with(['-', '+']) => {
                if !text.starts_with("--") && text.contains('c') {
                    return false;
                }
            }
            _ => return false,
        }
    }
    true
}

/// The texts on standard input; none for one that isn't known.
fn texts_of(
    input: &Input,
    redirections: &[Redirection],
    documents: &[HereDocument],
) -> Vec<Option<String>> {
    let mut texts = Vec::new();
    for redirection in redirections {
        match redirection.operator {
            RedirectionOperator::HereString => texts.push(redirection.target.fixed()),
            RedirectionOperator::HereDocument => {
                let document = redirection.document.and_then(|index| documents.get(index));
                texts.push(document.and_then(|document| {
                    let fixed = document.quoted || is_fixed(&document.body);
                    fixed.then(|| document.text.clone())
                }));
            }
            RedirectionOperator::Input if redirection.target.fixed().is_none() => texts.push(None),
            _ => {}
        }
    }
    if texts.is_empty() {
        match input {
            Input::Inherited => {}
            Input::Text(text) => texts.push(Some(text.clone())),
            Input::Unknown => texts.push(None),
        }
    }
    texts
}

fn is_fixed(word: &Word) -> bool {
    word.parts.is_empty() || word.fixed().is_some()
}
