//! Removals that no rule allows by itself: the root, a top-level folder, home, the working folder. Changes that are as
//! bad as a removal are among them.

use super::argument::{Argument, PathKind, PathOperand};
use super::programs::PipedNames;

/// A removal that always needs confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DangerousRemoval {
    /// The target as written.
    pub target: String,
    /// Its kind.
    pub reason: String,
}

/// Looks at every command that could run for a removal of something vital.
pub(super) fn find_removal(commands: &[Vec<Argument>]) -> Option<DangerousRemoval> {
    commands
        .iter()
        .find_map(|argv| removal_of(argv))
        .or_else(|| removal_elsewhere(commands))
}

/// Commands that remove what their operands name.
const REMOVERS: &[&str] = &[
    "rm",
    "rmdir",
    "unlink",
    "shred",
    "srm",
    "trash",
    "trash-put",
    "rimraf",
    "del",
    "del-cli",
    "rd",
    "erase",
    "zf_rm",
    "Remove-Item",
];

/// Whether one of the commands removes what its operands name.
fn removes(argv: &[Argument]) -> bool {
    argv.first()
        .and_then(Argument::fixed)
        .is_some_and(|name| REMOVERS.contains(&name))
}

/// A removal behind another command that names nothing: what it removes comes from input. Names that are known to
/// come from a listing of something that isn't vital are an ordinary clean-up.
pub(super) fn removes_input(
    commands: &[Vec<Argument>],
    piped: Option<&PipedNames>,
) -> Option<DangerousRemoval> {
    let by_input = commands.first()?.first()?.fixed()?;
    let base = by_input.rsplit('/').next().unwrap_or(by_input);
    if !matches!(base, "xargs" | "parallel") || !commands.iter().skip(1).any(|argv| removes(argv)) {
        return None;
    }
    let Some(piped) = piped else {
        return Some(DangerousRemoval {
            target: "what it reads from its input".to_owned(),
            reason: "it can't be known".to_owned(),
        });
    };
    let whole = piped.reading.names.is_empty() && piped.reading.types.is_empty();
    piped
        .folders
        .iter()
        .filter(|_| whole)
        .find_map(|folder| named(folder.text.clone(), vital(folder)))
}

/// A removal in a folder that a wrapper changes to: which files its words name isn't known.
fn removal_elsewhere(commands: &[Vec<Argument>]) -> Option<DangerousRemoval> {
    let changes = commands.iter().any(|argv| {
        let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
        let options: &[&str] = match name {
            "env" => &["-C", "--chdir"],
            "sudo" => &["-D", "--chdir"],
            _ => &[],
        };
        argv.iter().skip(1).any(|word| {
            let word = word.text();
            options
                .iter()
                .any(|option| word == *option || word.starts_with(&format!("{option}=")))
        })
    });
    (changes && commands.iter().any(|argv| removes(argv))).then(|| DangerousRemoval {
        target: "files in another folder".to_owned(),
        reason: "it can't be known which".to_owned(),
    })
}

fn removal_of(argv: &[Argument]) -> Option<DangerousRemoval> {
    let (first, words) = argv.split_first()?;
    let name = first.fixed()?;
    match name {
        _ if removes(argv) => first_vital(&operands(words)),
        "find" => removal_by_find(words),
        "fd" | "fdfind" => removal_by_fd(words),
        "dd" => removal_by_dd(words),
        "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" => change_of_all(words),
        "rsync" => removal_by_rsync(words),
        "tar" | "bsdtar" if has_long(words, "--remove-files") => first_vital(&operands(words)),
        "tar" | "bsdtar" if unpacks_anywhere(words) => named(
            "files that the archive names".to_owned(),
            Some("they can lie anywhere"),
        ),
        "zip" if moves_into_archive(words) => first_vital(&operands(words)),
        "gio" | "cmake" if has_removing_word(words) => first_vital(&operands(words)),
        "git" => removal_by_git(words),
        "tar" | "bsdtar" | "unzip" | "7z" | "wget" | "curl" => unpacked(words),
        _ if name == "mkfs" || name.starts_with("mkfs.") || name == "wipefs" => {
            named(name.to_owned(), Some("a file system"))
        }
        _ => None,
    }
}

fn named(target: String, reason: Option<&'static str>) -> Option<DangerousRemoval> {
    reason.map(|reason| DangerousRemoval {
        target,
        reason: reason.to_owned(),
    })
}

/// The words that aren't options.
fn operands(words: &[Argument]) -> Vec<&Argument> {
    words
        .iter()
        .filter(|word| word.fixed().is_none_or(|text| !text.starts_with('-')))
        .collect()
}

fn first_vital(targets: &[&Argument]) -> Option<DangerousRemoval> {
    targets
        .iter()
        .find_map(|word| named(word.text().to_owned(), vital(&word.path())))
}

/// The first target that is vital beyond the project: the root, a top-level folder, a home folder.
fn first_system_or_home(targets: &[&Argument]) -> Option<DangerousRemoval> {
    targets.iter().find_map(|word| {
        let reason = vital(&word.path()).filter(|reason| {
            !matches!(
                *reason,
                "the working folder" | "the repository" | "a folder above the working folder"
            )
        });
        named(word.text().to_owned(), reason)
    })
}

fn removal_by_find(words: &[Argument]) -> Option<DangerousRemoval> {
    let removes = words.iter().any(|word| word.fixed() == Some("-delete"))
        || words.windows(2).any(|pair| {
            matches!(pair, [action, command]
                if action.fixed().is_some_and(|text| text.starts_with("-exec") || text.starts_with("-ok"))
                && command.fixed().is_some_and(|text| matches!(text.rsplit('/').next(), Some("rm" | "unlink" | "shred" | "rmdir"))))
        });
    if !removes {
        return None;
    }
    let filtered = is_filtered(words);
    let starts: Vec<&Argument> = words
        .iter()
        .take_while(|word| {
            word.fixed()
                .is_none_or(|text| !text.starts_with(['-', '(', '!']))
        })
        .collect();
    if filtered {
        return starts
            .into_iter()
            .filter(|word| is_system(&word.path()))
            .find_map(|word| named(word.text().to_owned(), vital(&word.path())));
    }
    if starts.is_empty() {
        return named(".".to_owned(), Some("the working folder"));
    }
    first_vital(&starts)
}

/// Whether tests before the removal leave only some files: an ordinary clean-up, which is asked about as any other
/// change. A test that is turned round, or one of several, leaves the rest.
fn is_filtered(words: &[Argument]) -> bool {
    let is_action = |word: &Argument| {
        word.fixed().is_some_and(|text| {
            text == "-delete" || text.starts_with("-exec") || text.starts_with("-ok")
        })
    };
    let end = words.iter().position(is_action).unwrap_or(words.len());
    let tests = words.get(..end).unwrap_or_default();
    let chooses = |word: &Argument| matches!(word.fixed(), Some("!" | "-not" | "-o" | "-or" | ","));
    if tests.iter().any(chooses) {
        return false;
    }
    let by_value = tests.windows(2).any(|pair| {
        let value = pair.get(1).and_then(Argument::fixed).unwrap_or("*");
        match pair.first().and_then(Argument::fixed) {
            Some("-name" | "-iname" | "-path" | "-wholename" | "-regex") => {
                !value.bytes().all(|byte| b"*?./".contains(&byte))
            }
            Some("-newer" | "-mtime" | "-mmin" | "-size") => true,
            _ => false,
        }
    });
    by_value || tests.iter().any(|word| word.fixed() == Some("-empty"))
}

fn has_long(words: &[Argument], option: &str) -> bool {
    words.iter().any(|word| word.fixed() == Some(option))
}

/// `tar xP`: members are put where their names say, outside of the folder too.
fn unpacks_anywhere(words: &[Argument]) -> bool {
    let mut letters = words.iter().enumerate().filter_map(|(at, word)| {
        let text = word.fixed()?;
        let bundle = text.strip_prefix('-').or((at == 0).then_some(text))?;
        (!bundle.starts_with('-')).then_some(bundle)
    });
    let extracts = has_long(words, "--extract")
        || has_long(words, "--get")
        || letters.clone().any(|bundle| bundle.contains('x'));
    extracts && (has_long(words, "--absolute-names") || letters.any(|bundle| bundle.contains('P')))
}

/// `zip -m`: what goes into the archive is removed.
fn moves_into_archive(words: &[Argument]) -> bool {
    words.iter().filter_map(Argument::fixed).any(|text| {
        text == "--move" || text.starts_with('-') && !text.starts_with("--") && text.contains('m')
    })
}

/// `gio trash`, `cmake -E rm`: programs with a sub-command that removes.
fn has_removing_word(words: &[Argument]) -> bool {
    words.iter().filter_map(Argument::fixed).any(|text| {
        matches!(
            text,
            "trash" | "remove" | "rm" | "remove_directory" | "rename"
        )
    })
}

/// `git clean` in, or of, a folder that is vital.
fn removal_by_git(words: &[Argument]) -> Option<DangerousRemoval> {
    if has_long(words, "--unsafe-paths") {
        return named(
            "files that the patch names".to_owned(),
            Some("they can lie anywhere"),
        );
    }
    let clean = words
        .iter()
        .position(|word| word.fixed() == Some("clean"))?;
    let (before, after) = words.split_at(clean);
    let is_chosen = |word: &Argument| {
        word.fixed()
            .is_some_and(|text| matches!(text, "-C" | "--work-tree" | "--git-dir"))
    };
    let folders = before
        .windows(2)
        .filter(|pair| pair.first().is_some_and(is_chosen))
        .filter_map(|pair| pair.get(1));
    let joined: Vec<Argument> = before
        .iter()
        .filter_map(|word| word.text().strip_prefix("--work-tree="))
        .map(|text| Argument::Fixed(text.to_owned()))
        .collect();
    let targets: Vec<&Argument> = folders
        .chain(joined.iter())
        .chain(operands(after.get(1..).unwrap_or_default()))
        .collect();
    first_system_or_home(&targets)
}

/// `fd … -x rm`: what it finds below its operands is removed.
fn removal_by_fd(words: &[Argument]) -> Option<DangerousRemoval> {
    let action = words.windows(2).position(|pair| {
        matches!(pair, [action, command]
            if action.fixed().is_some_and(|text| matches!(text, "-x" | "-X" | "--exec" | "--exec-batch"))
            && command.fixed().is_some_and(|text| REMOVERS.contains(&text.rsplit('/').next().unwrap_or(text))))
    })?;
    first_system_or_home(&operands(words.get(..action).unwrap_or_default()))
}

fn removal_by_dd(words: &[Argument]) -> Option<DangerousRemoval> {
    let device = words.iter().filter_map(Argument::fixed).find(|word| {
        word.starts_with("of=/dev/") && !matches!(*word, "of=/dev/null" | "of=/dev/stdout")
    })?;
    named(device.to_owned(), Some("a device"))
}

/// Modes or owners of everything below a folder.
fn change_of_all(words: &[Argument]) -> Option<DangerousRemoval> {
    let recursive = words.iter().filter_map(Argument::fixed).any(|word| {
        word == "--recursive"
            || (word.starts_with('-') && !word.starts_with("--") && word.contains('R'))
    });
    if recursive {
        first_system_or_home(&operands(words))
    } else {
        None
    }
}

/// `rsync --delete` removes what isn't in the source.
fn removal_by_rsync(words: &[Argument]) -> Option<DangerousRemoval> {
    let deletes = words.iter().any(|word| {
        word.text().starts_with("--del") || word.fixed() == Some("--remove-source-files")
    });
    let targets = operands(words);
    if has_long(words, "--remove-source-files") {
        return first_vital(&targets);
    }
    let target = targets.last().filter(|_| deletes)?;
    named(target.text().to_owned(), vital(&target.path()))
}

/// Files of unknown names that are put right into a home folder or a folder of the system: start-up files may be among
/// them.
fn unpacked(words: &[Argument]) -> Option<DangerousRemoval> {
    let targets: Vec<&Argument> = words
        .windows(2)
        .filter(|pair| {
            pair.first()
                .and_then(Argument::fixed)
                .is_some_and(|option| {
                    matches!(option, "-C" | "-d" | "-P" | "--directory" | "--output-dir")
                        || option == "--directory-prefix"
                })
        })
        .filter_map(|pair| pair.get(1))
        .collect();
    first_system_or_home(&targets)
}

fn is_system(path: &PathOperand) -> bool {
    matches!(
        vital(path),
        Some("the root" | "a top-level folder" | "a drive")
    )
}

/// Describes a path whose loss would be a disaster.
fn vital(path: &PathOperand) -> Option<&'static str> {
    let text = path.text.as_str();
    match path.kind {
        PathKind::Home | PathKind::HomePattern => {
            let first_level = text.trim_matches('/');
            let normal = normalise(first_level);
            // Home itself, everything in it, or a step out of it.
            let whole = normal.is_empty()
                || matches!(normal.as_str(), "*" | ".*" | "{")
                || normal.starts_with("..");
            whole.then_some("the home folder")
        }
        PathKind::Literal | PathKind::Pattern => {
            if is_drive(text) {
                return Some("a drive");
            }
            if text.starts_with('/') {
                let normal = normalise(text);
                let parts: Vec<&str> = normal.split('/').filter(|part| !part.is_empty()).collect();
                return match parts.as_slice() {
                    [] => Some("the root"),
                    [one] if one.starts_with(['*', '?', '[', '{', '.']) => Some("the root"),
                    [_] | [_, "*" | ".*" | "{"] => Some("a top-level folder"),
                    ["home" | "Users", _] | ["home" | "Users", _, "*" | ".*" | "{"] => {
                        Some("a home folder")
                    }
                    _ => None,
                };
            }
            let normal = normalise(text);
            match normal.as_str() {
                "" | "*" | ".*" | "**" | "{*" | "?*" | "*.*" => Some("the working folder"),
                ".git" => Some("the repository"),
                up if up == ".."
                    || up.starts_with("../")
                        && up.split('/').all(|part| matches!(part, ".." | "*" | ".*")) =>
                {
                    Some("a folder above the working folder")
                }
                _ => None,
            }
        }
        PathKind::Pipe | PathKind::Listed | PathKind::Object => None,
        PathKind::Unbounded => {
            // A pattern that can reach upwards is at least as bad as its text looks.
            if !text.contains(['$', '`', '"', '\'', '\\', '(']) {
                let (kind, text) = match text.strip_prefix("~/") {
                    Some(rest) => (PathKind::HomePattern, rest),
                    None => (PathKind::Pattern, text),
                };
                let reason = vital(&PathOperand {
                    kind,
                    text: text.to_owned(),
                });
                if reason.is_some() {
                    return reason;
                }
            }
            // `rm -rf "$x/"` is `rm -rf /` when the variable is empty.
            let tail = text.trim_matches(['"', '\'']);
            let variable_then_slash = tail.starts_with('$') && {
                let after = tail.trim_start_matches(['$', '{']);
                let rest = after.trim_start_matches(|character: char| {
                    character.is_ascii_alphanumeric() || character == '_'
                });
                matches!(
                    rest.trim_start_matches(['}', '"', '\'']),
                    "/" | "/*" | "/.*" | "/**"
                )
            };
            let user_home = tail.starts_with('~') && !tail.trim_end_matches('/').contains('/');
            if variable_then_slash {
                Some("the root when the variable is empty")
            } else if user_home {
                Some("a home folder")
            } else {
                None
            }
        }
    }
}

fn is_drive(text: &str) -> bool {
    let mut bytes = text.bytes();
    let letter = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic());
    letter
        && bytes.next() == Some(b':')
        && text
            .get(2..)
            .is_some_and(|rest| rest.trim_matches(['/', '\\', '*', '.']).is_empty())
}

/// Resolves `.` and `..` and repeated slashes by their text.
fn normalise(text: &str) -> String {
    let absolute = text.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&"..") | None if !absolute => parts.push(".."),
                _ => {
                    parts.pop();
                }
            },
            other => parts.push(other),
        }
    }
    let joined = parts.join("/");
    if absolute {
        format!("/{joined}")
    } else {
        joined
    }
}
