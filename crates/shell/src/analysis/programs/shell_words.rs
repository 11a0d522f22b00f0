//! Builtins of the shell, and `test`.

use super::super::argument::Argument;
use super::super::options::{Order, sort};
use super::super::reading::Shows;
use super::super::variables::{Danger, danger_of};
use super::{Obeys, Reading, Refusal, Verdict, all_fixed, paths_of, refuse};
use crate::syntax::ShellKind;

/// Judges a builtin; none if it isn't one that is known here.
pub(super) fn judge_builtin(name: &str, words: &[Argument], shell: ShellKind) -> Option<Verdict> {
    let harmless = || Some(Ok(Reading::default()));
    match name {
        "cd" | "pushd" => Some(judge_cd(name, words)),
        "popd" | "dirs" | "wait" | "jobs" | "times" if words.is_empty() => harmless(),
        "exit" | "return" | "break" | "continue" | "shift" => {
            let plain = words.len() <= 1
                && all_fixed(words).is_some_and(|words| {
                    words
                        .iter()
                        .all(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
                });
            if plain {
                harmless()
            } else {
                Some(refuse(format!("{name} with something that isn't a number")))
            }
        }
        "printf" => Some(judge_printf(words, shell)),
        "alias" | "umask" | "ulimit" if words.is_empty() => harmless(),
        "env" | "export" | "set" | "declare" | "typeset" if words.is_empty() => Some(refuse(
            format!("{name} shows the environment, which can hold keys"),
        )),
        "set" => Some(judge_set(words)),
        "ulimit" if all_fixed(words).is_some_and(|words| words == ["-a"]) => harmless(),
        "command" => Some(judge_command(words)),
        "read" => Some(judge_read(words, shell)),
        "arch" | "hostnamectl" | "timedatectl" | "mount" if words.is_empty() => harmless(),
        "crontab" if all_fixed(words).is_some_and(|words| words == ["-l"]) => harmless(),
        "rustc"
            if all_fixed(words).is_some_and(|words| {
                matches!(
                    words.as_slice(),
                    ["-V" | "-vV" | "--version"]
                        | ["--version", "--verbose"]
                        | ["--print", "sysroot"]
                )
            }) =>
        {
            Some(Ok(Reading {
                obeys: Obeys::Folder,
                ..Reading::default()
            }))
        }
        _ => None,
    }
}

fn judge_cd(name: &str, words: &[Argument]) -> Verdict {
    let words = match words.split_first() {
        Some((first, rest)) if matches!(first.fixed(), Some("--" | "-P" | "-L")) => rest,
        _ => words,
    };
    match words {
        [] => Ok(Reading::default()),
        [only] if only.is_one_word() && only.is_surely_operand() && only.fixed() != Some("-") => {
            Ok(Reading {
                paths: paths_of([&only]),
                shows: Shows::Names,
                ..Reading::default()
            })
        }
        [Argument::Fixed(only)] if only == "-" => Ok(Reading::default()),
        _ => refuse(format!("{name} to a folder that isn't known")),
    }
}

/// `printf -v` assigns, and evaluates a subscript in the name.
fn judge_printf(words: &[Argument], shell: ShellKind) -> Verdict {
    let words = match words.split_first() {
        Some((first, rest)) if first.fixed() == Some("--") => rest,
        _ => words,
    };
    // zsh evaluates the arguments of numeric conversions as arithmetic.
    if shell == ShellKind::Zsh && !words.first().is_some_and(converts_only_text) {
        return refuse("printf evaluates numbers as arithmetic in zsh");
    }
    match words.first() {
        Some(format) if !format.is_surely_operand() && !harmless_format(format) => {
            refuse("printf with an option assigns a variable")
        }
        _ => Ok(Reading {
            paths: super::table::listed_by_patterns(words),
            shows: Shows::Names,
            ..Reading::default()
        }),
    }
}

/// Whether a format has no conversions but those of text.
fn converts_only_text(format: &Argument) -> bool {
    format.fixed().is_some_and(|text| {
        let plain = text.replace("%%", "");
        plain
            .split('%')
            .skip(1)
            .all(|rest| rest.starts_with(['s', 'b', 'q']))
    })
}

/// A quoted variable could be `-v`; a fixed format that starts with a dash but isn't `-v…` is an error.
fn harmless_format(format: &Argument) -> bool {
    format
        .fixed()
        .is_some_and(|text| !text.starts_with("-v") && !text.starts_with("--"))
}

/// The options that only make the shell stricter or more talkative.
fn judge_set(words: &[Argument]) -> Verdict {
    let refuse = || refuse("set can change how the shell reads what follows");
    let Some(fixed) = all_fixed(words) else {
        return refuse();
    };
    let mut rest = fixed.iter();
    while let Some(word) = rest.next() {
        let Some(letters) = word.strip_prefix(['-', '+']) else {
            return refuse();
        };
        if letters.is_empty() || !letters.bytes().all(|byte| b"eufxo".contains(&byte)) {
            return refuse();
        }
        if letters.ends_with('o') {
            let named = rest.next().is_some_and(|name| {
                matches!(
                    *name,
                    "pipefail" | "errexit" | "nounset" | "noglob" | "xtrace" | "noclobber"
                )
            });
            if !named {
                return refuse();
            }
        } else if letters.contains('o') {
            return refuse();
        }
    }
    Ok(Reading::default())
}

/// `command -v name` only looks a name up.
fn judge_command(words: &[Argument]) -> Verdict {
    match words.split_first() {
        Some((first, rest))
            if matches!(first.fixed(), Some("-v" | "-V"))
                && rest
                    .iter()
                    .all(|word| word.fixed().is_some_and(|text| !text.starts_with('-'))) =>
        {
            Ok(Reading::default())
        }
        _ => refuse("command runs another command"),
    }
}

/// `read` assigns; a subscript in a name would be evaluated, and some names matter.
fn judge_read(words: &[Argument], shell: ShellKind) -> Verdict {
    // The same letters take values in one shell and none in another.
    let table = match shell {
        ShellKind::Bash => "-r -s -e -n= -N= -p= -t= -d= -u=",
        ShellKind::Posix => "-r -p=",
        ShellKind::Zsh => "-r -s",
    };
    let sorted = sort(words, table, Order::OperandsLast)?;
    for name in &sorted.operands {
        let plain = name.fixed().filter(|text| is_identifier(text));
        match plain {
            Some(name) if danger_of(name, shell) == Danger::None => {}
            Some(name) => return refuse(format!("read assigns {name}")),
            None => {
                return refuse(format!(
                    "read into {}, which isn't a plain name",
                    name.text()
                ));
            }
        }
    }
    Ok(Reading::default())
}

pub(super) fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|character: char| character.is_ascii_digit())
        && text
            .bytes()
            .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

const UNARY: &[&str] = &[
    "-a", "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-n", "-p", "-r", "-s", "-t", "-u", "-w",
    "-x", "-z", "-G", "-L", "-N", "-O", "-S",
];
const BINARY: &[&str] = &["=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"];
const NUMERIC: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// `test`: each form by the number of its words, as the standard has it. `-v` and `-R` evaluate the
/// subscript of a name, so nothing may be able to become one of them.
pub(super) fn judge_test(name: &str, words: &[Argument], shell: ShellKind) -> Verdict {
    let words = if name == "[" {
        match words.split_last() {
            Some((last, rest)) if last.fixed() == Some("]") => rest,
            _ => return refuse("'[' without ']'"),
        }
    } else {
        words
    };
    if !words.iter().all(Argument::is_one_word) {
        return refuse("a word in a test could become several");
    }
    check_test(words, shell)?;
    Ok(Reading::default())
}

fn check_test(words: &[Argument], shell: ShellKind) -> Result<(), Refusal> {
    let refuse = || refuse("a test that could evaluate a variable's value");
    let is = |word: &Argument, set: &[&str]| word.fixed().is_some_and(|text| set.contains(&text));
    match words {
        [] | [_] => Ok(()),
        [bang, rest @ ..] if is(bang, &["!"]) && words.len() <= 4 => check_test(rest, shell),
        // zsh evaluates the descriptor as arithmetic.
        [operator, descriptor] if shell == ShellKind::Zsh && is(operator, &["-t"]) => {
            let number = descriptor
                .fixed()
                .is_some_and(|text| text.parse::<u16>().is_ok());
            if number { Ok(()) } else { refuse() }
        }
        [operator, _] if is(operator, UNARY) => Ok(()),
        [_, operator, _] if is(operator, BINARY) => Ok(()),
        [left, operator, right] if is(operator, NUMERIC) => {
            // zsh and ksh evaluate both sides as arithmetic; bash and dash want plain numbers.
            let numbers = [left, right]
                .iter()
                .all(|side| side.fixed().is_some_and(|text| text.parse::<i64>().is_ok()));
            if shell != ShellKind::Zsh || numbers {
                Ok(())
            } else {
                refuse()
            }
        }
        _ => {
            // Longer forms: split at the fixed connectives and judge each side.
            let connective = words.iter().position(|word| is(word, &["-a", "-o"]));
            match connective {
                Some(index) if all_fixed(words).is_some() && index > 0 => {
                    check_test(words.get(..index).unwrap_or_default(), shell)?;
                    check_test(words.get(index + 1..).unwrap_or_default(), shell)
                }
                _ => refuse(),
            }
        }
    }
}
