//! Random commands, read by the analyser and run by bash: bash runs nothing that the analyser didn't see.
//!
//! A few hundred in the ordinary run; for longer ones set `LATHE_FUZZ_COMMANDS` to the number of commands
//! and `LATHE_FUZZ_SEED` to another start.

#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use std::process::{Command, Stdio};

use lathe_shell::analysis::{Analysis, Argument, Concern, PartKind, analyse};
use lathe_shell::syntax::ShellKind;

/// Pieces of syntax, with traps: substitutions in every kind of quotes, where a second evaluation would
/// run them.
const PIECES: &[&str] = &[
    " ",
    " ",
    " ",
    " ",
    "\n",
    "\n",
    ";",
    "&",
    "|",
    "&&",
    "||",
    "(",
    ")",
    "{ ",
    "; }",
    "}",
    "<<A\n",
    "\nA\n",
    "A",
    "<<'A'\n",
    "<<-A\n",
    "<<\"A\"",
    "<<A ",
    "\tA\n",
    "$(",
    "$(",
    ")",
    ")",
    "`",
    "`",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "\\\n",
    "#",
    " #",
    "ca",
    "cb",
    "cc x",
    "ca",
    "cb",
    "if ",
    "; then ",
    "; fi",
    "for i in ",
    "; do ",
    "; done",
    "case x in ",
    " x) ",
    ";; ",
    "esac",
    "! ",
    "time ",
    "$'",
    "\\x41",
    "\\'",
    "<<<",
    "2>&1",
    ">f",
    "> f ",
    "<f",
    "&>f",
    ">&2",
    "2",
    "=",
    "a=",
    "a=b ",
    "{a,b}",
    "${a:-",
    "}",
    "${a#",
    "$a",
    "$((",
    "))",
    "1+1",
    "[[ ",
    " ]]",
    "-n ",
    " == ",
    "x",
    "x",
    "y z",
    "<(",
    ">(",
    "~",
    "*",
    "[",
    "]",
    "!",
    "\t",
    "é",
    "f() ",
    "function g ",
    "in ",
    "$\"",
    "${#a}",
    "${a/x/",
    "[0]=",
    "a=(",
    "$",
    "\\\\",
    "\"$(",
    ")\"",
    "\"`",
    "`\"",
    "'\\''",
    "elif ",
    "else ",
    "((",
    "=~ ",
    "|&",
    ">|f",
    "<>f",
    "-",
    "--",
    "@",
    ",",
    "$1",
    "$@",
    "\"$@\"",
    "'$(ca)'",
    "'`cb`'",
    "$'$(cc)'",
    "'a[$(ca)]'",
    "\\$(ca)",
    "\"\\$(cb)\"",
    ">&",
    "<&",
    "3>&1 ",
    "${a:-'$(ca)'}",
    "\"${a:-'$(ca)'}\"",
    "${a[",
    "${a:",
    "${a@",
    "Q}",
    "[[ -v ",
    " -eq ",
    "read ",
    "printf ",
    "test ",
    "[ ",
    " ]",
    "unset ",
    "{'$(ca)',b}",
    "case '$(ca)' in ",
    "a='$(ca)' ",
    "<<<'$(ca)'",
    "=~ '$(ca)'",
    "$(( ",
    "a['$(ca)']",
];

/// A small generator of random numbers, so that a failure can be repeated by its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).expect("a small limit"))
            .expect("a small number")
    }

    fn command(&mut self) -> String {
        let length = 2 + self.below(14);
        (0..length)
            .map(|_| PIECES[self.below(PIECES.len())])
            .collect()
    }
}

/// Whether the analyser claims to know all that would run.
fn is_comparable(command: &str, analysis: &Analysis) -> bool {
    analysis.understood.is_ok()
        && !analysis.parts.is_empty()
        && !analysis
            .parts
            .iter()
            .any(|part| part.concerns.iter().any(Concern::asks_despite_rules))
        && !command.contains('\0')
}

/// The names of commands that bash looked for and didn't find.
fn names_that_ran(command: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("names");
    let script = format!(
        "command_not_found_handle() {{ builtin printf '%s\\0' \"$1\" >> '{}'; }}\n{command}\nwait",
        log.display()
    );
    let program = |name: &str| which::which(name).expect("timeout and bash are installed");
    Command::new(program("timeout"))
        .args(["-s", "KILL", "5"])
        .arg(program("bash"))
        .args(["--noprofile", "--norc", "-c", &script])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", "/nonexistent")
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("bash starts");
    let log = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&log)
        .split_terminator('\0')
        .map(str::to_owned)
        .collect()
}

fn number_from_environment(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} isn't a number")),
        Err(_) => otherwise,
    }
}

#[test]
fn bash_runs_nothing_that_the_analyser_did_not_see() {
    let wanted = number_from_environment("LATHE_FUZZ_COMMANDS", 300);
    let seed = number_from_environment("LATHE_FUZZ_SEED", 1);
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut compared = 0;
    while compared < wanted {
        let command = random.command();
        let analysis = analyse(&command, ShellKind::Bash);
        if !is_comparable(&command, &analysis) {
            continue;
        }
        compared += 1;
        let seen: Vec<&str> = analysis
            .parts
            .iter()
            .filter(|part| part.kind == PartKind::Command)
            .filter_map(|part| part.argv.first().and_then(Argument::fixed))
            .collect();
        for name in names_that_ran(&command) {
            assert!(
                seen.contains(&name.as_str()),
                "{command:?} ran {name:?}, seen were {seen:?} (seed {seed})"
            );
        }
    }
}

/// Commands that can do more than read, given the right words.
const COMMANDS: &[&str] = &[
    "sort",
    "uniq",
    "sed",
    "sed -n",
    "awk",
    "find",
    "find .",
    "echo a | xargs",
    "ls | xargs",
    "git log",
    "git diff",
    "git show",
    "git branch",
    "git tag",
    "git config",
    "git stash",
    "git grep",
    "git remote",
    "git reflog",
    "git",
    "git symbolic-ref",
    "git hash-object",
    "git notes",
    "git worktree",
    "grep",
    "tar",
    "tar t",
    "date",
    "xxd",
    "file",
    "jq",
    "tree",
    "diff",
    "head",
    "cat",
    "base64",
    "printf",
    "test",
    "[",
    "read",
    "cd",
    "env",
    "command",
    "hostname",
    "ps",
    "gzip",
    "gunzip",
    "bzip2",
    "xz",
    "iconv",
    "shuf",
    "timeout 5",
    "nice",
    "time",
    "stdbuf -o0",
    "set",
    "tee",
];

/// Words that turn some of them into something else.
const WORDS: &[&str] = &[
    "-o",
    "-o new",
    "--output=new",
    "-i",
    "-i.bak",
    "-n",
    "-e",
    "-f",
    "-f a.tar",
    "-f s.sed",
    "-r",
    "-d",
    "-t",
    "-x",
    "-c",
    "-w",
    "-l",
    "-a",
    "-u",
    "-v",
    "-z",
    "-k",
    "-s",
    "-p",
    "-b",
    "-O",
    "-I{}",
    "-0",
    "-1",
    "--",
    "-",
    "a",
    "b",
    "new",
    "./evil.sh",
    "'w new'",
    "1p",
    "'s/a/b/'",
    "'s/a/b/w new'",
    "'s/a/touch new/e'",
    "'{print}'",
    "'{print > \"new\"}'",
    "'BEGIN{system(\"touch new\")}'",
    "-exec",
    "touch",
    "touch new",
    "cat",
    "{}",
    "\\;",
    "+",
    "-delete",
    "-fprint new",
    "-print",
    "-name",
    "'*'",
    "*",
    "$x",
    "\"$x\"",
    "--compress-program=./evil.sh",
    "--to-command=./evil.sh",
    "--checkpoint-action=exec=./evil.sh",
    "-I ./evil.sh",
    "--in-place",
    "--expression=p",
    "HEAD",
    "main",
    "topic",
    "--list",
    "--contains",
    "-m x",
    "--ext-diff",
    "--open-files-in-pager=./evil.sh",
    "-c core.pager=./evil.sh",
    "--get",
    "--unset",
    "x.y",
    "x.y z",
    "list",
    "show",
    "add",
    "--all",
    "--format=%h",
    "--decompress",
    "--stdout",
    "a.tar",
    "a.gz",
    ".",
    "sub",
    "--version",
    "--quiet",
    "-q",
    "-L1",
    "--replace=cat",
    "-v x",
    "'a[$(touch new)]'",
    "> /dev/null",
    "2>&1",
    "| cat",
    "; true",
    " ]",
    "-eq",
    "=",
    "--cached",
    "--stat",
    "--delete",
    "-D",
    "--no-pager",
    "status",
    "branch",
];

/// A folder with files to lose and a repository.
fn folder_with_files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = "printf 'b\\na\\nfoo:bar\\n' > a; cp a b; mkdir sub; cp a sub/c
        printf '#!/bin/sh\\ntouch new\\ncat\\n' > evil.sh; chmod +x evil.sh; printf 'w new\\n' > s.sed
        tar cf a.tar a b; gzip -k a; git init -q -b main .; git add .
        git -c user.name=n -c user.email=e@e commit -q -m one; printf more >> b";
    assert!(
        run_for_real(script, folder.path()),
        "the folder could not be prepared"
    );
    folder
}

fn run_for_real(command: &str, folder: &std::path::Path) -> bool {
    let program = |name: &str| which::which(name).expect("timeout and bash are installed");
    Command::new(program("timeout"))
        .args(["-s", "KILL", "5"])
        .arg(program("bash"))
        .args(["--noprofile", "--norc", "-c", command])
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var("PATH").expect("a PATH"))
        .env("HOME", folder)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("x", "-o new")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("bash starts")
        .success()
}

/// Every file below a folder with its content.
fn contents(folder: &std::path::Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(current) = folders.pop() {
        for entry in std::fs::read_dir(&current).expect("a readable folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path.clone());
                found.insert(path, Vec::new());
            } else {
                let content = std::fs::read(&path).unwrap_or_default();
                found.insert(path, content);
            }
        }
    }
    found
}

#[test]
fn random_words_after_read_only_commands_change_nothing() {
    let wanted = number_from_environment("LATHE_FUZZ_COMMANDS", 150);
    let seed = number_from_environment("LATHE_FUZZ_SEED", 1);
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let folder = folder_with_files();
    let before = contents(folder.path());
    let mut ran = 0;
    while ran < wanted {
        let mut command = COMMANDS[random.below(COMMANDS.len())].to_owned();
        for _ in 0..=random.below(5) {
            command.push(' ');
            command.push_str(WORDS[random.below(WORDS.len())]);
        }
        if !analyse(&command, ShellKind::Bash).read_only {
            continue;
        }
        ran += 1;
        run_for_real(&command, folder.path());
        assert!(
            contents(folder.path()) == before,
            "{command:?} changed something (seed {seed})"
        );
    }
}
