//! Text that a command gets to run: by a pipe, a here-document, an option or a file that is made on the way.

use super::FileRedirection;
use super::argument::{Argument, PathKind};
use super::programs::runs_its_input;
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

/// Programs that keep, show, change or send what they read, and run nothing of it. Any other program may run its input
/// in a language of its own.
const TAKING_DATA: &[&str] = &[
    "cat",
    "tee",
    "sponge",
    "dd",
    "cp",
    "install",
    "head",
    "tail",
    "tac",
    "nl",
    "wc",
    "cut",
    "paste",
    "fold",
    "fmt",
    "column",
    "pr",
    "tr",
    "rev",
    "sort",
    "uniq",
    "comm",
    "join",
    "diff",
    "cmp",
    "patch",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "sed",
    "jq",
    "yq",
    "base64",
    "base32",
    "xxd",
    "od",
    "hexdump",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "cksum",
    "gzip",
    "gunzip",
    "zcat",
    "bzip2",
    "xz",
    "zstd",
    "tar",
    "cpio",
    "iconv",
    "strings",
    "less",
    "more",
    "bat",
    "read",
    "mapfile",
    "readarray",
    "true",
    "false",
    ":",
    "echo",
    "printf",
    "test",
    "[",
    "git",
    "gh",
    "glab",
    "hub",
    "mail",
    "mailx",
    "sendmail",
    "logger",
    "wall",
    "curl",
    "wget",
    "docker",
    "podman",
    "kubectl",
    "helm",
    "xclip",
    "xsel",
    "pbcopy",
    "wl-copy",
    "clip.exe",
    "gpg",
    "openssl",
    "bc",
    "pandoc",
    "prettier",
    "rustfmt",
    "black",
    "gofmt",
    "clang-format",
    "shellcheck",
    "shfmt",
];

/// Whether a program may run what it reads.
fn may_run_input(base: &str, words: &[Argument]) -> bool {
    let passes_on = || words.iter().any(|word| word.path().kind == PathKind::Pipe);
    !TAKING_DATA.contains(&base) || passes_on()
}

/// The output of a command, where its words determine it.
pub(super) fn printed(argv: &[Argument], redirections: &[FileRedirection]) -> Input {
    let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
    let words: Option<Vec<&str>> = argv.iter().skip(1).map(Argument::fixed).collect();
    let text = match (name, words) {
        _ if !redirections.is_empty() => None,
        // Some shells decode what a backslash stands for without being told to.
        ("echo", Some(words)) => {
            let text = words.join(" ");
            Some(match decoded(&text) {
                Some(decoded) if decoded != text => format!("{text}\n{decoded}"),
                _ => text,
            })
        }
        ("printf", Some(words)) => formatted(&words),
        _ => None,
    };
    text.map_or(Input::Unknown, Input::Text)
}

/// The output of `printf`; none for formats other than plain words and numbers.
fn formatted(words: &[&str]) -> Option<String> {
    let (format, mut values) = words.strip_prefix(&["--"]).unwrap_or(words).split_first()?;
    if format.starts_with('-') {
        return None;
    }
    let mut printed = String::new();
    loop {
        let before = values.len();
        let mut rest = *format;
        while let Some((text, after)) = rest.split_once('%') {
            printed.push_str(&decoded(text)?);
            let mut characters = after.chars();
            let kind = characters.next()?;
            rest = characters.as_str();
            if kind == '%' {
                printed.push('%');
                continue;
            }
            let value = match values.split_first() {
                Some((value, others)) => {
                    values = others;
                    *value
                }
                None => "",
            };
            match kind {
                's' | 'd' | 'i' => printed.push_str(value),
                'b' => printed.push_str(&decoded(value)?),
                _ => return None,
            }
        }
        printed.push_str(&decoded(rest)?);
        if values.is_empty() || values.len() == before {
            return Some(printed);
        }
    }
}

/// A text with what its backslashes stand for; none where that isn't text.
fn decoded(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        let digits = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>, radix, most| {
            let mut code = 0;
            let mut count = 0;
            while let Some(digit) = rest.peek().and_then(|next| next.to_digit(radix)) {
                if count == most {
                    break;
                }
                code = code * radix + digit;
                count += 1;
                rest.next();
            }
            (count > 0).then_some(code).and_then(char::from_u32)
        };
        match rest.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('a' | 'b' | 'f' | 'v') => out.push(' '),
            Some('e' | 'E') => out.push('\u{1b}'),
            Some('c') => return Some(out),
            Some('x') => out.push(digits(&mut rest, 16, 2)?),
            Some('u') => out.push(digits(&mut rest, 16, 4)?),
            Some('U') => out.push(digits(&mut rest, 16, 8)?),
            Some('0') => out.push(digits(&mut rest, 8, 3).unwrap_or('\0')),
            Some(first @ '1'..='7') => {
                let mut code = first.to_digit(8)?;
                for _ in 0..2 {
                    let Some(digit) = rest.peek().and_then(|next| next.to_digit(8)) else {
                        break;
                    };
                    code = code * 8 + digit;
                    rest.next();
                }
                out.push(char::from_u32(code)?);
            }
            Some(other @ ('\\' | '\'' | '"')) => out.push(other),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
    Some(out)
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
            fed.unknown |= script_is_unknown(words) || script_is_input(words, commands);
        }
        fed.unknown |= base == "git" && takes_setting_of_variable(words);
        fed.unknown |= gives_shell_away(base, words) || runs_what_it_reads(base, words);
        fed.unknown |= base == "sed" && runs_its_input(words);
        // A name that stands for another program from here on.
        fed.unknown |= base == "hash" && words.iter().any(|word| word.text().starts_with("-p"));
        match code_of(base, words).or_else(|| script_of(base, words)) {
            Some(CodeOf::Unknown) => fed.unknown = true,
            Some(CodeOf::Input) => {
                let texts = texts_of(input, redirections, documents);
                fed.unknown |= texts.iter().any(Option::is_none);
            }
            None => {}
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
        if may_run_input(base, words) {
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

/// Whether the name of the program comes from what is read: `xargs -I{} {}`.
fn runs_what_it_reads(base: &str, words: &[Argument]) -> bool {
    const VALUED: &[&str] = &[
        "-a",
        "-d",
        "-E",
        "-I",
        "-j",
        "-L",
        "-n",
        "-P",
        "-s",
        "--arg-file",
        "--delimiter",
        "--max-args",
        "--max-lines",
        "--max-procs",
        "--max-chars",
        "--jobs",
    ];
    let mut mark = match base {
        "xargs" => None,
        "parallel" => Some("{}"),
        _ => return false,
    };
    let mut rest = words.iter().map(Argument::text);
    while let Some(word) = rest.next() {
        if !word.starts_with('-') {
            return mark.is_some_and(|mark| word.contains(mark));
        }
        let value = if VALUED.contains(&word) {
            rest.next()
        } else {
            None
        };
        let replaces = |short: &str| word.strip_prefix(short).filter(|_| !word.starts_with("--"));
        if word == "-I" {
            mark = value;
        } else if let Some(text) = replaces("-I")
            .or_else(|| replaces("-i"))
            .or_else(|| word.strip_prefix("--replace"))
        {
            let text = text.trim_start_matches('=');
            mark = Some(if text.is_empty() { "{}" } else { text });
        }
    }
    false
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

/// Whether the script of a shell behind `xargs` is what that reads: it is added at the end, or put in the script's place.
fn script_is_input(words: &[Argument], commands: &[Vec<Argument>]) -> bool {
    let is_code = |word: &Argument| {
        word.fixed().is_some_and(|text| {
            text.starts_with('-') && !text.starts_with("--") && text.ends_with('c')
        })
    };
    if words.last().is_some_and(is_code) {
        return true;
    }
    let Some(outer) = commands.first() else {
        return false;
    };
    let placeholder = outer
        .windows(2)
        .find_map(|pair| match (pair[0].fixed()?, &pair[1]) {
            ("-I" | "--replace", Argument::Fixed(text)) => Some(text.clone()),
            (text, _) => text
                .strip_prefix("-I")
                .filter(|text| !text.is_empty())
                .map(ToOwned::to_owned),
        })
        .unwrap_or_else(|| "{}".to_owned());
    words.windows(2).any(|pair| {
        is_code(&pair[0])
            && pair[1].fixed().is_some_and(|text| {
                text.trim_start_matches([' ', '"', '\''])
                    .starts_with(&placeholder)
            })
    })
}

/// Whether a setting of git comes from a variable, which nobody sees.
fn takes_setting_of_variable(words: &[Argument]) -> bool {
    words
        .iter()
        .take_while(|word| word.text().starts_with('-'))
        .any(|word| word.text().starts_with("--config-env"))
}

/// Whether a program for connections runs another one with what comes from the other end.
fn gives_shell_away(base: &str, words: &[Argument]) -> bool {
    let mut texts = words.iter().map(Argument::text);
    match base {
        "nc" | "ncat" | "netcat" => texts.any(|text| {
            text.starts_with("--exec")
                || text.starts_with("--sh-exec")
                || text.starts_with("--lua-exec")
                || !text.starts_with("--") && text.starts_with('-') && text.contains(['e', 'c'])
        }),
        "socat" => texts.any(|text| {
            let upper = text.to_ascii_uppercase();
            ["EXEC:", "SYSTEM:", "SHELL:"]
                .iter()
                .any(|kind| upper.contains(kind))
        }),
        _ => false,
    }
}

/// Where an interpreter has its program from, if it is neither in its words nor in a file.
enum CodeOf {
    Input,
    Unknown,
}

/// Interpreters by the letters of options that hold code, and of others with a value.
const CODE_OPTIONS: &[(&str, &str, &str)] = &[
    ("python", "c", "WX"),
    ("pypy", "c", "WX"),
    ("perl", "eE", "I"),
    ("ruby", "e", "rIC"),
    ("node", "ep", "rC"),
    ("nodejs", "ep", "rC"),
    ("bun", "ep", "r"),
    ("php", "r", "dc"),
    ("lua", "e", "l"),
    ("luajit", "e", "l"),
    ("tclsh", "", ""),
    ("julia", "eE", "LJ"),
    ("Rscript", "e", ""),
    ("guile", "c", "lL"),
    ("osascript", "e", "ls"),
];

/// Programs that run what a file says, by the options that name the file.
const SCRIPT_OPTIONS: &[(&str, &[&str])] = &[
    ("make", &["-f", "--file", "--makefile"]),
    ("gmake", &["-f", "--file", "--makefile"]),
    ("bmake", &["-f"]),
    ("ninja", &["-f"]),
    ("just", &["-f", "--justfile"]),
    ("rake", &["-f", "--rakefile"]),
    ("cmake", &["-P", "-C"]),
    ("awk", &["-f", "--file"]),
    ("gawk", &["-f", "--file", "-E", "--exec"]),
    ("mawk", &["-f"]),
    ("nawk", &["-f"]),
    ("gdb", &["-x", "--command"]),
    ("vi", &["-S", "-s", "-u"]),
    ("vim", &["-S", "-s", "-u"]),
    ("nvim", &["-S", "-s", "-u", "-l"]),
    ("ex", &["-S", "-s", "-u"]),
    ("expect", &["-f", "-b"]),
    ("psql", &["-f", "--file"]),
    ("sqlite3", &["-init"]),
];

/// Where the file comes from that such a program runs, if it isn't one.
fn script_of(base: &str, words: &[Argument]) -> Option<CodeOf> {
    let (_, options) = SCRIPT_OPTIONS.iter().find(|(name, _)| *name == base)?;
    let mut named = false;
    for word in words {
        let text = word.text();
        let attached = options.iter().find_map(|option| {
            let rest = text.strip_prefix(option)?;
            if option.starts_with("--") {
                rest.strip_prefix('=')
            } else {
                Some(rest).filter(|rest| !rest.is_empty())
            }
        });
        let is_script = named || attached.is_some();
        if is_script && word.path().kind == PathKind::Pipe {
            return Some(CodeOf::Unknown);
        }
        if is_script && matches!(attached.unwrap_or(text), "-" | "/dev/stdin" | "/dev/fd/0") {
            return Some(CodeOf::Input);
        }
        named = options.contains(&text);
    }
    None
}

/// Where the program of an interpreter comes from.
fn code_of(base: &str, words: &[Argument]) -> Option<CodeOf> {
    let base =
        base.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    let (_, code, valued) = CODE_OPTIONS.iter().find(|(name, ..)| *name == base)?;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = match word {
            Argument::Fixed(text) => text.as_str(),
            Argument::Variable(variable) if variable.path.kind == PathKind::Pipe => {
                return Some(CodeOf::Unknown);
            }
            Argument::Variable(variable) => {
                let mut letters = variable.prefix.strip_prefix('-')?.chars();
                return letters
                    .any(|letter| code.contains(letter))
                    .then_some(CodeOf::Unknown);
            }
        };
        if matches!(text, "-" | "/dev/stdin" | "/dev/fd/0") {
            return Some(CodeOf::Input);
        }
        let option = text.strip_prefix('-')?;
        if let Some(long) = option.strip_prefix('-') {
            if matches!(long, "version" | "help") {
                return None;
            }
            if matches!(long, "eval" | "print" | "expression") {
                return unless_fixed(words.next());
            }
            if matches!(long, "require" | "import" | "loader") {
                words.next();
            }
            continue;
        }
        for (at, letter) in option.char_indices() {
            let is_last = at + letter.len_utf8() == option.len();
            if code.contains(letter) {
                return if is_last {
                    unless_fixed(words.next())
                } else {
                    None
                };
            }
            if valued.contains(letter) {
                if is_last {
                    words.next();
                }
                break;
            }
            // A module, or a question about the program itself.
            if matches!(
                (base, letter),
                ("python" | "pypy", 'm' | 'V' | 'h') | ("node" | "php", 'v' | 'h')
            ) {
                return None;
            }
        }
    }
    Some(CodeOf::Input)
}

fn unless_fixed(code: Option<&Argument>) -> Option<CodeOf> {
    code.filter(|word| word.fixed().is_none())
        .map(|_| CodeOf::Unknown)
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
