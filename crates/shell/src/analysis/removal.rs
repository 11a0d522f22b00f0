//! Removals that no rule allows by itself: the root, a top-level folder, home, the working folder. Changes that are as
//! bad as a removal are among them.

use super::argument::{Argument, PathKind, PathOperand};
use super::arrivals::{arrivals, here, takes_from_archive, unpacks_anywhere};
use super::programs::PipedNames;

/// A removal that always needs confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DangerousRemoval {
    /// The target as written.
    pub target: String,
    /// Its kind.
    pub reason: String,
}

/// A file or folder that is removed, emptied or changed with everything in it. Whether it is vital may depend on links,
/// which only the file system knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The file or folder.
    pub operand: PathOperand,
    /// The least that is too much to lose this way.
    pub vital: Vital,
}

/// The least that is too much to lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vital {
    /// The root and the folders in it.
    System,
    /// The same, and home folders.
    Home,
    /// The same, and the working folder, those above it and its repository.
    Project,
    /// The root, `/etc` and home folders: where files of any name may be start-up files.
    Start,
    /// No folder: only some files in it are changed.
    Nothing,
}

/// The losses that a command causes, or the danger that it is whatever its operands are.
type Losses = Result<Vec<Loss>, DangerousRemoval>;

/// Looks at every command that could run for a removal of something vital, as far as the words show it. Gives what
/// is lost otherwise, too.
pub(super) fn find_removal(
    commands: &[Vec<Argument>],
    piped: Option<&PipedNames>,
) -> (Option<DangerousRemoval>, Vec<Loss>) {
    let mut removal = None;
    let mut all = Vec::new();
    let by_input = removal_by_input(commands, piped);
    // What `find` runs may stand behind wrappers of its own.
    let inner_removes = commands.iter().skip(1).any(|argv| removes(argv));
    for losses in commands
        .iter()
        .map(|argv| removal_of(argv, inner_removes))
        .chain([by_input])
    {
        match losses {
            Ok(losses) => {
                removal = removal.or_else(|| losses.iter().find_map(by_its_words));
                all.extend(losses);
            }
            Err(danger) => removal = removal.or(Some(danger)),
        }
    }
    (removal.or_else(|| removal_elsewhere(commands)), all)
}

/// The danger of a loss that the words alone show.
fn by_its_words(loss: &Loss) -> Option<DangerousRemoval> {
    let reason = vital(&loss.operand)?;
    let of_project = matches!(
        reason,
        "the working folder" | "the repository" | "a folder above the working folder"
    );
    let of_system = matches!(reason, "the root" | "a top-level folder" | "a drive");
    let matters = match loss.vital {
        Vital::System => of_system,
        Vital::Home | Vital::Start => !of_project,
        Vital::Project => true,
        Vital::Nothing => false,
    };
    matters.then(|| DangerousRemoval {
        target: loss.operand.shown(),
        reason: reason.to_owned(),
    })
}

pub(super) fn lost<'a>(targets: impl IntoIterator<Item = &'a Argument>, vital: Vital) -> Vec<Loss> {
    targets
        .into_iter()
        .flat_map(Argument::paths)
        .map(|operand| Loss { operand, vital })
        .collect()
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
    "gvfs-trash",
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
fn removal_by_input(commands: &[Vec<Argument>], piped: Option<&PipedNames>) -> Losses {
    let by_input = commands.first().and_then(|argv| argv.first());
    let name = by_input.and_then(Argument::fixed).unwrap_or_default();
    let base = name.rsplit('/').next().unwrap_or(name);
    if !matches!(base, "xargs" | "parallel") || !commands.iter().skip(1).any(|argv| removes(argv)) {
        return Ok(Vec::new());
    }
    let Some(piped) = piped else {
        return danger("what it reads from its input", "it can't be known");
    };
    let whole = piped.reading.names.is_empty() && piped.reading.types.is_empty();
    let folders = piped.folders.iter().filter(|_| whole);
    Ok(folders
        .map(|operand| Loss {
            operand: operand.clone(),
            vital: Vital::Project,
        })
        .collect())
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

fn removal_of(argv: &[Argument], inner_removes: bool) -> Losses {
    let Some((first, words)) = argv.split_first() else {
        return Ok(Vec::new());
    };
    let Some(name) = first.fixed() else {
        return Ok(Vec::new());
    };
    match name {
        _ if removes(argv) => Ok(lost(operands(words), Vital::Project)),
        "find" => removal_by_find(words, inner_removes),
        "truncate" => Ok(lost(operands(words), Vital::Start)),
        "fd" | "fdfind" => Ok(removal_by_fd(words)),
        "dd" => removal_by_dd(words),
        "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" | "chcon" => Ok(change_of_all(words)),
        "rsync" => Ok([removal_by_rsync(words), arrivals(name, words)].concat()),
        "tar" | "bsdtar" if has_long(words, "--remove-files") => {
            Ok(lost(operands(words), Vital::Project))
        }
        "tar" | "bsdtar" if unpacks_anywhere(words) => {
            danger("files that the archive names", "they can lie anywhere")
        }
        "zip" if moves_into_archive(words) => Ok(lost(operands(words), Vital::Project)),
        "gio" | "cmake" if has_removing_word(words) => Ok(lost(operands(words), Vital::Project)),
        "git" => removal_by_git(words),
        "cpio" if takes_from_archive(words) && !has_long(words, "--no-absolute-filenames") => {
            danger("files that the archive names", "they can lie anywhere")
        }
        "pax" if says(words, &["-r"]) && !says(words, &["-w"]) => {
            danger("files that the archive names", "they can lie anywhere")
        }
        "cargo" if says(words, &["clean"]) => Ok(lost(
            values_of(words, &["--target-dir"]).iter(),
            Vital::Project,
        )),
        _ if clears_environment(name, words) => Ok(lost(operands(words), Vital::Project)),
        _ if name == "mkfs" || name.starts_with("mkfs.") || name == "wipefs" => {
            danger(name, "a file system")
        }
        _ => Ok(arrivals(name, words)),
    }
}

/// `python3 -m venv --clear x`: everything in the folder is removed first.
fn clears_environment(name: &str, words: &[Argument]) -> bool {
    let makes = matches!(name, "virtualenv" | "uv") || says(words, &["venv", "virtualenv"]);
    makes && says(words, &["--clear"])
}

fn danger(target: &str, reason: &str) -> Losses {
    Err(DangerousRemoval {
        target: target.to_owned(),
        reason: reason.to_owned(),
    })
}

/// The words that aren't options.
pub(super) fn operands(words: &[Argument]) -> Vec<&Argument> {
    words
        .iter()
        .filter(|word| word.fixed().is_none_or(|text| !text.starts_with('-')))
        .collect()
}

fn removal_by_find(words: &[Argument], inner_removes: bool) -> Losses {
    let runs = words.iter().any(is_action);
    let removes = runs && inner_removes
        || words.iter().any(|word| word.fixed() == Some("-delete"))
        || words.windows(2).any(|pair| {
            matches!(pair, [action, command]
                if action.fixed().is_some_and(|text| text.starts_with("-exec") || text.starts_with("-ok"))
                && command.fixed().is_some_and(|text| matches!(text.rsplit('/').next(), Some("rm" | "unlink" | "shred" | "rmdir"))))
        });
    let filtered = is_filtered(words);
    let starts: Vec<&Argument> = words
        .iter()
        .skip_while(|word| matches!(word.fixed(), Some("-H" | "-L" | "-P")))
        .take_while(|word| {
            word.fixed()
                .is_none_or(|text| !text.starts_with(['-', '(', '!']))
        })
        .collect();
    let vital = match (removes, filtered) {
        (true, true) => Vital::System,
        (true, false) if starts.is_empty() => return danger(".", "the working folder"),
        (true, false) => Vital::Project,
        (false, false) if changes_what_it_finds(words) => Vital::Home,
        (false, true) if changes_what_it_finds(words) => Vital::Nothing,
        (false, _) => return Ok(Vec::new()),
    };
    Ok(lost(starts, vital))
}

/// Programs that change every file that they are given.
const CHANGERS: &[&str] = &[
    "mv", "truncate", "tee", "dd", "chmod", "chown", "chgrp", "gzip", "bzip2", "xz", "zstd",
];

/// Starts of the names of interpreters, and words of code that changes files.
const INTERPRETERS: &[&str] = &["python", "perl", "ruby", "node", "php"];
const CHANGING: &[&str] = &[
    "remove", "unlink", "rmtree", "rmSync", "truncate", "write", "delete", "rename",
];

/// Whether a program that `find` runs changes what it finds.
fn changes_what_it_finds(words: &[Argument]) -> bool {
    let action = words.iter().position(is_action).unwrap_or(words.len());
    let mut texts = words
        .iter()
        .skip(action + 1)
        .map_while(Argument::fixed)
        .take_while(|text| !matches!(*text, ";" | "+"));
    let name = texts.next().unwrap_or_default();
    let is_short = |text: &str| text.starts_with('-') && !text.starts_with("--");
    let in_place =
        |text: &str| is_short(text) && text.contains('i') || text.starts_with("--in-place");
    let base = name.rsplit('/').next().unwrap_or(name);
    match base {
        "sed" => texts.any(in_place),
        "cp" | "install" | "ln" | "rsync" => texts.last() == Some("{}"),
        _ if CHANGERS.contains(&base) => true,
        _ => {
            INTERPRETERS.iter().any(|start| base.starts_with(start)) && {
                let mut texts = texts;
                texts.any(|text| in_place(text) || CHANGING.iter().any(|word| text.contains(word)))
            }
        }
    }
}

/// Whether a word of `find` starts what happens to the files that it finds.
fn is_action(word: &Argument) -> bool {
    word.fixed().is_some_and(|text| {
        text == "-delete" || text.starts_with("-exec") || text.starts_with("-ok")
    })
}

/// Whether tests before the removal leave only some files: an ordinary clean-up, which is asked about as any other
/// change. A test that is turned round, or one of several, leaves the rest.
fn is_filtered(words: &[Argument]) -> bool {
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

pub(super) fn has_long(words: &[Argument], option: &str) -> bool {
    words.iter().any(|word| word.fixed() == Some(option))
}

pub(super) fn says(words: &[Argument], wanted: &[&str]) -> bool {
    words
        .iter()
        .filter_map(Argument::fixed)
        .any(|text| wanted.contains(&text))
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

/// `git clean` in, or of, a folder that is vital, and whatever else git puts there.
fn removal_by_git(words: &[Argument]) -> Losses {
    if has_long(words, "--unsafe-paths") {
        return danger("files that the patch names", "they can lie anywhere");
    }
    const FILLING: &[&str] = &[
        "clean",
        "checkout",
        "restore",
        "reset",
        "switch",
        "checkout-index",
        "pull",
        "merge",
        "apply",
        "am",
    ];
    let at = words.iter().position(|word| {
        word.fixed()
            .is_some_and(|text| FILLING.contains(&text) || text == "worktree")
    });
    let Some(at) = at else {
        return Ok(Vec::new());
    };
    let (before, after) = words.split_at(at);
    if has_long(words, "worktree") {
        let targets = operands(after);
        let removes = has_long(words, "remove");
        return Ok(lost(
            targets.into_iter().filter(|_| removes),
            Vital::Project,
        ));
    }
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
        .filter(|word| word.text().starts_with("--work-tree="))
        .map(|word| value_of(word, "--work-tree="))
        .chain(
            after
                .iter()
                .filter(|word| word.text().starts_with("--prefix="))
                .map(|word| value_of(word, "--prefix=")),
        )
        .collect();
    let is_clean = has_long(after, "clean");
    let named_by_clean = operands(after.get(1..).unwrap_or_default());
    let targets = folders
        .chain(joined.iter())
        .chain(named_by_clean.into_iter().filter(|_| is_clean));
    Ok([lost(targets, Vital::Home), here()].concat())
}

/// `fd … -x rm`: what it finds below its operands is removed.
fn removal_by_fd(words: &[Argument]) -> Vec<Loss> {
    let action = words.windows(2).position(|pair| {
        matches!(pair, [action, command]
            if action.fixed().is_some_and(|text| matches!(text, "-x" | "-X" | "--exec" | "--exec-batch"))
            && command.fixed().is_some_and(|text| REMOVERS.contains(&text.rsplit('/').next().unwrap_or(text))))
    });
    let before = action.and_then(|at| words.get(..at)).unwrap_or_default();
    lost(operands(before), Vital::Home)
}

fn removal_by_dd(words: &[Argument]) -> Losses {
    let device = words.iter().filter_map(Argument::fixed).find(|word| {
        word.starts_with("of=/dev/") && !matches!(*word, "of=/dev/null" | "of=/dev/stdout")
    });
    match device {
        Some(device) => danger(device, "a device"),
        None => Ok(Vec::new()),
    }
}

/// Modes or owners of everything below a folder.
fn change_of_all(words: &[Argument]) -> Vec<Loss> {
    let recursive = words.iter().filter_map(Argument::fixed).any(|word| {
        word == "--recursive"
            || (word.starts_with('-') && !word.starts_with("--") && word.contains('R'))
    });
    lost(
        operands(words).into_iter().filter(|_| recursive),
        Vital::Home,
    )
}

/// `rsync --delete` removes what isn't in the source.
fn removal_by_rsync(words: &[Argument]) -> Vec<Loss> {
    let deletes = words.iter().any(|word| {
        word.text().starts_with("--del") || word.fixed() == Some("--remove-source-files")
    });
    let targets = operands(words);
    if has_long(words, "--remove-source-files") {
        return lost(targets, Vital::Project);
    }
    let target = targets.last().copied().filter(|_| deletes);
    lost(target, Vital::Project)
}

/// The values of options, attached or as the next word.
pub(super) fn values_of(words: &[Argument], options: &[&str]) -> Vec<Argument> {
    let next = words.windows(2).filter_map(|pair| match pair {
        [option, value] if options.contains(&option.fixed()?) => Some(value.clone()),
        _ => None,
    });
    let attached = words.iter().filter_map(|word| {
        let start = options.iter().find_map(|option| {
            let start = format!("{option}=");
            word.text().starts_with(&start).then_some(start)
        })?;
        Some(value_of(word, &start))
    });
    next.chain(attached).collect()
}

/// The value that is attached to an option. A home folder that a variable names there is a home folder.
pub(super) fn value_of(word: &Argument, option: &str) -> Argument {
    let text = word.text();
    let value = text.strip_prefix(option).unwrap_or(text);
    let plain = value.trim_matches(['"', '\'']);
    if matches!(plain.trim_end_matches('/'), "~" | "$HOME" | "${HOME}") {
        return Argument::Fixed("/home/user".to_owned());
    }
    Argument::Fixed(plain.to_owned())
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
                ".git" | ".git/objects" | ".git/refs" | ".git/*" => Some("the repository"),
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
