//! Commands inside the words of a command.
//!
//! Any program may run what its words say: an interpreter its `-c` text, a wrapper the words after its own, a build tool
//! an inline rule. Which ones do can't be listed completely. So for deny rules and hard checks every word of a command
//! that isn't known to only read is looked at as if it were a command, and every text in it as if a shell ran it. What
//! is found there makes a question that no rule and no mode answers, never a verdict of its own.

use super::code::{is_interpreter, quoted_texts, unescaped};
use super::operand::folders_of;
use crate::broad::base_name;
use crate::context::PermissionContext;
use lathe_shell::analysis::{Analysis, Argument, ConcernKind, Part, PathKind, analyse};
use lathe_shell::syntax::ShellKind;
use std::path::PathBuf;

/// How many texts are looked at, and how long they may be.
const MOST_TEXTS: usize = 200;
const LONGEST_TEXT: usize = 8_192;

/// Programs whose first word names what they do, and may be called like another program.
const WITH_SUB_COMMANDS: &[&str] = &[
    "git",
    "docker",
    "podman",
    "kubectl",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "cargo",
    "gh",
    "pip",
    "pip3",
    "uv",
    "brew",
    "apt",
    "apt-get",
    "helm",
    "go",
    "rustup",
    "systemctl",
    "aws",
    "gcloud",
    "az",
    "terraform",
    "poetry",
    "conda",
];

/// Sub-commands whose words are messages and names, not commands.
pub(super) fn takes_messages(argv: &[Argument]) -> bool {
    let words: Vec<&str> = argv.iter().map(Argument::text).collect();
    matches!(
        words.as_slice(),
        [
            "echo" | "printf" | "say" | "notify-send" | "logger" | "wall" | "test" | "[" | "gh",
            ..
        ] | [
            "git",
            "commit"
                | "tag"
                | "notes"
                | "stash"
                | "merge"
                | "add"
                | "checkout"
                | "switch"
                | "branch"
                | "log",
            ..
        ]
    ) || words.starts_with(&["git", "rm"]) && words.contains(&"--cached")
}

/// Whether the shell itself takes a text of the part for code: a subscript, an arithmetic value, a prompt.
fn is_evaluated(part: &Part) -> bool {
    part.concerns.iter().any(|concern| {
        matches!(
            concern.kind,
            ConcernKind::Evaluation | ConcernKind::SecondExpansion | ConcernKind::RunsValue
        )
    })
}

/// The rests of a command's words, each of which another program may run.
pub(super) fn rests(part: &Part) -> Vec<&[Argument]> {
    if part.read_only.is_yes() {
        return Vec::new();
    }
    let mut rests = Vec::new();
    for argv in &part.all_effective {
        let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
        if takes_messages(argv) {
            continue;
        }
        let runs_first = argv
            .get(1)
            .is_some_and(|word| runs_by_name(name, word.text()));
        let first = if runs_first {
            1
        } else {
            words_of_its_own(argv)
        };
        for start in first..argv.len() {
            rests.extend(argv.get(start..));
        }
    }
    rests
}

/// How many words of a command are its own name and the name of what it does.
fn words_of_its_own(argv: &[Argument]) -> usize {
    let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
    let has_sub_command = argv
        .get(1)
        .and_then(Argument::fixed)
        .is_some_and(|word| !word.starts_with('-'));
    1 + usize::from(has_sub_command && WITH_SUB_COMMANDS.contains(&base_name(name)))
}

/// Commands of package managers; any other word is a program of a package.
const OF_PACKAGE_MANAGERS: &[&str] = &[
    "install",
    "i",
    "add",
    "remove",
    "rm",
    "un",
    "uninstall",
    "update",
    "up",
    "upgrade",
    "list",
    "ls",
    "link",
    "unlink",
    "publish",
    "pack",
    "init",
    "create",
    "audit",
    "why",
    "info",
    "config",
    "cache",
    "exec",
    "dlx",
    "run",
    "import",
    "prune",
    "rebuild",
    "outdated",
    "store",
    "root",
    "bin",
    "set",
    "version",
    "help",
    "pm",
    "x",
    "patch",
    "workspaces",
    "workspace",
    "test",
    "start",
    "build",
    "node",
];

/// Whether a package manager runs a program by this name.
fn runs_by_name(manager: &str, word: &str) -> bool {
    matches!(base_name(manager), "yarn" | "pnpm" | "bun")
        && !word.starts_with('-')
        && !OF_PACKAGE_MANAGERS.contains(&word)
}

/// Wherever a program is named in a command's words: the text from there on, as a command.
pub(super) fn from_names(part: &Part, names: &[&str], shell: ShellKind) -> Vec<Analysis> {
    if part.read_only.is_yes() || part.file_command.is_some() {
        return Vec::new();
    }
    let mut texts = Vec::new();
    for argv in part
        .all_effective
        .iter()
        .filter(|argv| !takes_messages(argv))
    {
        for word in argv.iter().skip(words_of_its_own(argv)) {
            tails(word.text(), names, ends_name, &mut texts);
            for meant in unescaped(word.text()) {
                tails(&meant, names, ends_name, &mut texts);
            }
        }
    }
    let given = variables(part).chain(part.fed_texts.iter().map(String::as_str));
    let own = Some(part.text.as_str()).filter(|_| is_evaluated(part));
    for text in given.chain(own) {
        tails(text, names, ends_name, &mut texts);
        for meant in unescaped(text) {
            tails(&meant, names, ends_name, &mut texts);
        }
    }
    texts.truncate(MOST_TEXTS);
    texts.iter().map(|text| analyse(text, shell)).collect()
}

/// The values of variables that a program may run.
fn variables(part: &Part) -> impl Iterator<Item = &str> {
    part.assignments
        .iter()
        .filter(|assignment| !assignment.harmless)
        .filter_map(|assignment| assignment.value.fixed())
}

/// Whether a variable holds a command that removes what a program puts into it: `LESSOPEN='|rm -rf %s'`.
pub(super) fn removes_placeholder(part: &Part) -> bool {
    variables(part).any(|text| {
        let mut words = text.split(|next: char| next.is_whitespace() || "|!-'\"".contains(next));
        text.contains('%') && words.any(|word| REMOVERS.contains(&base_name(word)))
    })
}

/// Whether a name ends before this character.
fn ends_name(next: Option<char>) -> bool {
    next.is_none_or(|next| !next.is_alphanumeric() && !"_-.".contains(next))
}

/// The commands that the words of a part could be, taken apart as a shell would.
pub(super) struct Nested {
    pub(super) commands: Vec<Analysis>,
    /// There were more texts than are looked at.
    pub(super) too_many: bool,
}

/// The texts in a command's words, taken apart as a shell would.
pub(super) fn texts(part: &Part, shell: ShellKind) -> Nested {
    let mut texts: Vec<String> = Vec::new();
    if !part.read_only.is_yes() {
        for text in &part.fed_texts {
            add_text(text, &mut texts);
            for meant in unescaped(text) {
                add_text(&meant, &mut texts);
            }
        }
        for argv in &part.all_effective {
            if !takes_messages(argv) {
                words_as_texts(argv, &mut texts);
            }
        }
    }
    // What such a variable holds is run later, or by another program.
    let dangerous = part
        .concerns
        .iter()
        .any(|concern| concern.kind == ConcernKind::DangerousAssignment);
    for text in variables(part).filter(|_| dangerous) {
        add_text(text, &mut texts);
    }
    // A fixed value with a substitution in it has no use but to be expanded once more.
    let own = Some(part.text.as_str()).filter(|_| is_evaluated(part));
    for text in variables(part).chain(own).flat_map(substitutions) {
        add_text(text, &mut texts);
    }
    texts.sort();
    texts.dedup();
    Nested {
        too_many: texts.len() > MOST_TEXTS,
        commands: texts
            .iter()
            .take(MOST_TEXTS)
            .map(|text| analyse(text, shell))
            .collect(),
    }
}

/// The commands of the substitutions in a text.
fn substitutions(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    for (at, start) in text.match_indices("$(") {
        let inside = text.get(at + start.len()..).unwrap_or_default();
        let mut open = 1;
        let end = inside.find(|character| {
            match character {
                '(' => open += 1,
                ')' => open -= 1,
                _ => {}
            }
            open == 0
        });
        found.extend(inside.get(..end.unwrap_or(inside.len())));
    }
    found
}

/// How deep texts in texts are looked at for the files that they name.
const MOST_INNER: usize = 2;

/// Calls a function with every part of the texts in a command's words, and the folders that it may run in.
pub(super) fn each_inner(
    part: &Part,
    folders: Option<&[PathBuf]>,
    context: &PermissionContext,
    call: &mut dyn FnMut(&Part, Option<&[PathBuf]>),
) {
    inner_parts(part, folders, context, call, MOST_INNER);
}

fn inner_parts(
    part: &Part,
    folders: Option<&[PathBuf]>,
    context: &PermissionContext,
    call: &mut dyn FnMut(&Part, Option<&[PathBuf]>),
    depth: usize,
) {
    if depth == 0 || part.read_only.is_yes() {
        return;
    }
    let nested = texts(part, context.shell);
    for inner in nested.commands.iter().flat_map(|text| &text.parts) {
        let folders = folders_of_inner(inner, folders, context);
        call(inner, folders.as_deref());
        inner_parts(inner, folders.as_deref(), context, call, depth - 1);
    }
}

/// The folders that a part of a text may run in; `None` when that can't be known.
pub(super) fn folders_of_inner(
    inner: &Part,
    outer: Option<&[PathBuf]>,
    context: &PermissionContext,
) -> Option<Vec<PathBuf>> {
    let mut all = Vec::new();
    for folder in outer? {
        for found in folders_of(inner, folder, context)? {
            if !all.contains(&found) {
                all.push(found);
            }
        }
    }
    Some(all)
}

/// The texts of a command that isn't understood: what could be a removal or a write in it.
pub(super) fn texts_of_command(command: &str, shell: ShellKind) -> Nested {
    let mut texts = Vec::new();
    verb_texts(command, &mut texts);
    Nested {
        too_many: texts.len() > MOST_TEXTS,
        commands: texts
            .iter()
            .take(MOST_TEXTS)
            .map(|text| analyse(text, shell))
            .collect(),
    }
}

fn words_as_texts(argv: &[Argument], texts: &mut Vec<String>) {
    // A variable whose value is known stands for the command.
    if let Some(Argument::Variable(variable)) = argv.first()
        && variable.path.kind == PathKind::Literal
    {
        let rest = argv.iter().skip(1).map(in_quotes);
        let words: Vec<String> = std::iter::once(variable.path.text.clone())
            .chain(rest)
            .collect();
        texts.push(words.join(" "));
    }
    for (index, word) in argv.iter().enumerate().skip(1) {
        let text = word.text();
        // The rest of the words, where it starts like a command that removes or writes.
        if VERBS.contains(&base_name(text)) {
            let rest: Vec<String> = argv.iter().skip(index).map(in_quotes).collect();
            texts.push(rest.join(" "));
        }
        if text.contains([' ', ';', '|', '&', '>', '(', '`', '\n']) {
            add_text(text, texts);
            for meant in unescaped(text) {
                add_text(&meant, texts);
            }
        }
        texts.extend(named_remover(argv, index));
    }
}

/// Programs that remove what their words name.
const REMOVERS: &[&str] = &[
    "rm", "rmdir", "unlink", "shred", "srm", "rimraf", "wipefs", "mkfs",
];

/// The command that a word makes which names a program that removes, and its words or where they are: `-wrapper rm,-rf,/`,
/// `--command=rm x -rf /`, `-Dexec.executable=rm -Dexec.args='-rf /'`.
fn named_remover(argv: &[Argument], index: usize) -> Option<String> {
    let pieces = |word: &Argument| -> Vec<String> {
        let pieces = word.text().split(|character: char| {
            character.is_whitespace() || ",=:%[]{}\"'".contains(character)
        });
        pieces.map(ToOwned::to_owned).collect()
    };
    let word = argv.get(index)?;
    let mut own = pieces(word);
    if own.len() < 2 || is_exclusion(word.text()) {
        return None;
    }
    let at = own
        .iter()
        .position(|piece| REMOVERS.contains(&base_name(piece)))?;
    let rest = argv.iter().enumerate().skip(1);
    let others = rest.filter(|(other, _)| *other != index);
    own.drain(..at);
    own.extend(others.flat_map(|(_, word)| pieces(word)));
    let words = own.iter().filter(|piece| !piece.is_empty());
    let quoted: Vec<String> = words
        .map(|piece| match piece.strip_prefix('~') {
            Some(rest) => format!("~'{}'", rest.replace('\'', r"'\''")),
            None => format!("'{}'", piece.replace('\'', r"'\''")),
        })
        .collect();
    Some(quoted.join(" "))
}

/// One command of a part by itself, without redirections and wrappers.
pub(super) fn as_command(argv: &[Argument], shell: ShellKind) -> Analysis {
    let words: Vec<String> = argv.iter().map(in_quotes).collect();
    analyse(&words.join(" "), shell)
}

/// A word as a shell reads it back.
fn in_quotes(word: &Argument) -> String {
    match word {
        Argument::Fixed(text) => format!("'{}'", text.replace('\'', r"'\''")),
        Argument::Variable(variable) => variable.source.clone(),
    }
}

/// Programs that run what their words say, which is judged by itself, or that use files without changing them.
const LEAVING_FILES: &[&str] = &[
    "find", "fd", "fdfind", "xargs", "parallel", "eval", "source", ".", "trap", "alias", "export",
    "declare", "typeset", "local", "readonly", "unset", "set", "read", "cd", "pushd", "popd",
    "ssh", "ssh-add", "kubectl", "helm", "aws", "gcloud", "az", "docker", "podman", "env",
];

/// Whether the files that a command's words name stay as they are, or are judged elsewhere.
pub(super) fn leaves_its_files_alone(argv: &[Argument]) -> bool {
    let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
    let base = base_name(name);
    takes_messages(argv) || LEAVING_FILES.contains(&base) || is_shell(base)
}

pub(super) fn is_shell(base: &str) -> bool {
    matches!(
        base,
        "sh" | "bash" | "dash" | "ash" | "zsh" | "ksh" | "mksh" | "rbash" | "fish"
    )
}

/// Whether an option says which files to leave out.
pub(super) fn is_exclusion(text: &str) -> bool {
    ["--exclude", "--ignore", "--skip"]
        .iter()
        .any(|option| text.starts_with(option))
}

/// The names of files that could be in a command's words: the words, values of options, and what stands in texts.
pub(super) fn names_in_words(argv: &[Argument]) -> Vec<String> {
    let interprets = argv.first().is_some_and(is_interpreter);
    let mut names = Vec::new();
    let mut left_out = false;
    let script = argv
        .iter()
        .skip(1)
        .position(|word| interprets && !word.text().starts_with('-'));
    for (at, word) in argv.iter().skip(1).enumerate() {
        let text = word.text();
        let excludes = is_exclusion(text);
        let skipped = left_out || excludes;
        left_out = excludes && !text.contains('=')
            || matches!(text, "-x" | "-path" | "--git-dir" | "--work-tree");
        // Code is judged by what it does with its strings; a script is run.
        let is_code = script == Some(at) || interprets && text.contains(['(', '\'', '"', ' ']);
        if skipped || is_code || text.len() > LONGEST_TEXT {
            continue;
        }
        let pieces = text.split(|character: char| {
            character.is_whitespace() || "'\"`()[];,<>|&=:@!*?\\".contains(character)
        });
        for piece in pieces.take(MOST_TEXTS) {
            let value = piece.strip_prefix('-').and_then(|option| {
                let mut letters = option.chars();
                letters.next();
                Some(letters.as_str()).filter(|value| !value.is_empty())
            });
            names.extend(
                [Some(piece), value]
                    .into_iter()
                    .flatten()
                    .filter(|name| is_name_of_file(name))
                    .map(ToOwned::to_owned),
            );
        }
    }
    names
}

/// Whether a piece of text is more than a word of a language. A repository's own folder is named by many who only use it.
fn is_name_of_file(text: &str) -> bool {
    let last = text.trim_end_matches('/').rsplit('/').next();
    (text.contains('/') || text.starts_with(['.', '~', '$'])) && last != Some(".git")
}

/// The texts that a part's shells run: after `-c`, and what they are fed.
pub(super) fn shell_texts(part: &Part) -> Vec<String> {
    let mut texts = Vec::new();
    for argv in &part.all_effective {
        let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
        if !is_shell(base_name(name)) {
            continue;
        }
        texts.extend(part.fed_texts.iter().cloned());
        let script = argv.windows(2).find_map(|pair| {
            let option = pair[0].fixed()?;
            let holds =
                option.starts_with('-') && !option.starts_with("--") && option.ends_with('c');
            pair[1].fixed().filter(|_| holds)
        });
        texts.extend(script.map(ToOwned::to_owned));
    }
    texts.retain(|text| text.len() <= LONGEST_TEXT);
    texts.truncate(MOST_TEXTS);
    texts
}

/// Whether a part shows values of git's configuration that can hold a password.
pub(crate) fn shows_configuration(part: &Part) -> bool {
    part.all_effective.iter().any(|argv| {
        let words: Vec<&str> = argv.iter().map(Argument::text).collect();
        words.split_first().is_some_and(|(name, rest)| {
            base_name(name) == "git"
                && crate::repository::shows_configuration(after_options_of_git(rest))
        })
    })
}

/// The words of a git command after the options that stand before its sub-command.
pub(super) fn after_options_of_git<'a, 'b>(words: &'a [&'b str]) -> &'a [&'b str] {
    let mut rest = words;
    loop {
        rest = match rest {
            [
                "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--config-env",
                _,
                after @ ..,
            ] => after,
            [option, after @ ..] if option.starts_with('-') => after,
            _ => return rest,
        };
    }
}

/// A text as a command, the strings in it as commands, and whatever in it starts like a removal or a write.
fn add_text(text: &str, texts: &mut Vec<String>) {
    verb_texts(text, texts);
    if text.len() > LONGEST_TEXT {
        return;
    }
    texts.push(text.to_owned());
    let quoted = quoted_texts(text);
    // `['rm', '-rf', 'x']` is a command by its words.
    if quoted.len() > 1 {
        texts.push(quoted.join(" "));
    }
    texts.extend(quoted);
}

/// Programs that remove what their words name, or write to it.
const VERBS: &[&str] = &[
    "rm",
    "rmdir",
    "unlink",
    "shred",
    "srm",
    "rimraf",
    "dd",
    "mkfs",
    "wipefs",
    "find",
    "fd",
    "tee",
    "cp",
    "mv",
    "ln",
    "install",
    "truncate",
    "chmod",
    "chown",
    "rsync",
    "sponge",
    "touch",
    "mkdir",
    "Remove-Item",
];

/// How much of a text after such a program is looked at.
const LONGEST_TAIL: usize = 512;

/// The parts of a text that start with such a program, as far as the command could go.
fn verb_texts(text: &str, texts: &mut Vec<String>) {
    let before_words = |next: Option<char>| next.is_some_and(|next| " \t'\"".contains(next));
    tails(text, VERBS, before_words, texts);
}

/// The parts of a text that start with one of some names, where the name ends.
fn tails(text: &str, names: &[&str], ends: impl Fn(Option<char>) -> bool, texts: &mut Vec<String>) {
    let part_of_name = |character: char| character.is_alphanumeric() || "_-.".contains(character);
    for name in names {
        for (at, _) in text.match_indices(name).take(MOST_TEXTS) {
            let before = text.get(..at).and_then(|front| front.chars().next_back());
            let after = text
                .get(at + name.len()..)
                .and_then(|back| back.chars().next());
            // `-Orm …` and `-aerm …` are options, the last with its value.
            let is_value = text
                .get(1..at)
                .is_some_and(|front| front.chars().all(char::is_alphanumeric))
                && text.starts_with('-');
            if before.is_some_and(part_of_name) && !is_value || !ends(after) {
                continue;
            }
            let tail: String = text
                .get(at..)
                .unwrap_or_default()
                .chars()
                .take(LONGEST_TAIL)
                .take_while(|character| !"\n;|&".contains(*character))
                .map(|character| match character {
                    '\'' | '"' | '`' | ',' | ']' | '@' => ' ',
                    other => other,
                })
                .collect();
            let closed = tail.matches(')').count() > tail.matches('(').count();
            let tail = if closed { tail.replace(')', " ") } else { tail };
            texts.push(tail);
        }
    }
}
