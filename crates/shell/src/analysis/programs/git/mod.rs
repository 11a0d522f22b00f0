//! git: the sub-commands and options that only look.
//!
//! Everything git does reads the repository's configuration, which can name programs (file system monitor,
//! pagers, text converters, filters). So every verdict here depends on the repository, and the options that name
//! programs, other repositories or files outside of it are in no table.

mod objects;
mod tables;

use super::super::argument::{Argument, PathKind, PathOperand};
use super::super::options::{Order, Sorted, sort};
use super::super::reading::{FolderReading, NamesAsWords, Shows};
use super::{Listing, Obeys, Reading, Refusal, Verdict, no_names, paths_of, refuse};
pub(super) use tables::options_of;
use tables::{DIFF, HISTORY};

pub(super) fn judge(words: &[Argument]) -> Verdict {
    let mut rest = words;
    loop {
        let Some((first, after)) = rest.split_first() else {
            return Ok(Reading::default());
        };
        let Some(text) = first.fixed() else {
            return refuse(format!("git's sub-command {} is not fixed", first.text()));
        };
        match text {
            "--no-pager"
            | "-P"
            | "--no-optional-locks"
            | "--literal-pathspecs"
            | "--glob-pathspecs"
            | "--no-replace-objects"
            | "--icase-pathspecs"
            | "--no-lazy-fetch"
            | "--no-advice" => rest = after,
            "--version" | "-v" | "--help" | "-h" if after.is_empty() => {
                return Ok(Reading::default());
            }
            _ if text.starts_with('-') => {
                return refuse(format!(
                    "git's option {text} can run other programs or use another repository"
                ));
            }
            command => return judge_command(command, after),
        }
    }
}

/// `git -C folder …` is git in another folder: that folder, and the command without it.
pub(in super::super) fn elsewhere(argv: &[Argument]) -> Option<(PathOperand, Vec<Argument>)> {
    if argv.first().and_then(Argument::fixed) != Some("git") {
        return None;
    }
    let is_other = |word: &&Argument| matches!(word.fixed(), Some("--no-pager" | "-P"));
    let at = 1 + argv.iter().skip(1).take_while(is_other).count();
    let (option, folder) = (argv.get(at)?, argv.get(at + 1)?.path());
    let known = matches!(folder.kind, PathKind::Literal | PathKind::Home);
    if option.fixed() != Some("-C") || !known || folder.text.is_empty() {
        return None;
    }
    let mut rest = argv.to_vec();
    rest.drain(at..at + 2);
    Some((folder, rest))
}

fn judge_command(command: &str, words: &[Argument]) -> Verdict {
    if let Some(reading) = judge_nested(command, words)? {
        return Ok(reading);
    }
    let Some(tables) = options_of(command) else {
        return refuse(format!("git {command} may change things"));
    };
    let sorted = match tables {
        [one] => sort(words, one, Order::Mixed)?,
        several => sort(words, &several.join(" "), Order::Mixed)?,
    };
    no_names(&sorted)?;
    check_operands(command, &sorted)?;
    check_formats(&sorted)?;
    let mut paths = named_files(command, &sorted);
    paths.extend(sorted.files.iter().cloned());
    let patches = shows_patches(command, &sorted);
    check_binary(command, &sorted, patches)?;
    Ok(Reading {
        paths,
        names: Vec::new(),
        shows: if patches {
            Shows::Contents
        } else {
            shows(command)
        },
        below: match command {
            "grep" => Some(FolderReading {
                tracked: false,
                ..tracked_files()
            }),
            _ => patches.then(tracked_files),
        },
        lists: lists(command, &sorted),
        obeys: match command {
            // Without a repository, or with a path outside of it, it compares any files.
            "diff" if !sorted.operands.is_empty() => Obeys::RepositoryOnly,
            // It connects to an address that the repository names.
            "ls-remote" => Obeys::Folder,
            _ => Obeys::Repository,
        },
    })
}

/// The files of the repository, one of which may be shown.
fn tracked_files() -> FolderReading {
    FolderReading {
        hidden: true,
        ignored: false,
        names: Vec::new(),
        types: Vec::new(),
        follows_links: false,
        enters_links: false,
        tracked: true,
        names_as_words: NamesAsWords::Any,
    }
}

fn shows(command: &str) -> Shows {
    match command {
        "status" | "ls-files" | "ls-tree" | "branch" | "tag" | "rev-parse" | "check-ignore"
        | "describe" | "rev-list" | "merge-base" => Shows::Names,
        _ => Shows::Contents,
    }
}

/// Whether the lines of any tracked file can be among what is shown.
fn shows_patches(command: &str, sorted: &Sorted<'_>) -> bool {
    let asked = sorted.has_any(&[
        "-p",
        "-u",
        "--patch",
        "-U",
        "--unified",
        "-c",
        "--cc",
        "-L",
        "-W",
        "--function-context",
        "--patch-with-stat",
        "--patch-with-raw",
        "--color-words",
        "--word-diff",
        "--binary",
    ]);
    let summarised = sorted.has_any(&[
        "-s",
        "--no-patch",
        "--stat",
        "--name-only",
        "--name-status",
        "--numstat",
        "--shortstat",
        "--summary",
        "--dirstat",
        "--quiet",
    ]);
    match command {
        "diff" | "show" => asked || !summarised,
        "range-diff" => true,
        "status" => sorted.has_any(&["-v", "--verbose"]),
        "log" | "whatchanged" | "reflog" | "stash" => asked,
        _ => command.starts_with("diff-") && asked,
    }
}

fn lists(command: &str, sorted: &Sorted<'_>) -> Option<Listing> {
    let plain = match command {
        "ls-files" => !sorted.has_any(&[
            "-s",
            "-u",
            "-t",
            "-v",
            "-f",
            "--stage",
            "--unmerged",
            "--debug",
            "--eol",
            "--format",
            "--full-name",
            "--resolve-undo",
            "-d",
            "--deleted",
        ]),
        "grep" => sorted.has_any(&["-l", "--files-with-matches", "--name-only"]),
        _ => false,
    };
    plain.then(|| Listing {
        rooted: false,
        names_only: command == "ls-files",
        with_nul: sorted.has("-z"),
    })
}

/// Operands that would make the sub-command change something.
fn check_operands(command: &str, sorted: &Sorted<'_>) -> Result<(), Refusal> {
    if sorted.operands.is_empty() {
        return Ok(());
    }
    match command {
        // What a pattern matches can be called `HEAD:name`, which shows that file as it was.
        "show" | "cat-file" if sorted.operands.iter().any(|word| word.fixed().is_none()) => {
            return refuse("a name of a file can be read as a revision with a file in it");
        }
        // An operand without one of the listing options creates.
        "branch" => {
            let lists = sorted.has_any(&[
                "--list",
                "--contains",
                "--no-contains",
                "--merged",
                "--no-merged",
                "--points-at",
            ]);
            if !lists {
                return refuse("git branch with a name creates a branch");
            }
        }
        "tag" => {
            let lists = sorted.has_any(&[
                "-l",
                "--list",
                "-n",
                "--contains",
                "--no-contains",
                "--merged",
                "--no-merged",
                "--points-at",
            ]);
            if !lists {
                return refuse("git tag creates a tag");
            }
        }
        "ls-remote" => {
            let named = sorted
                .operands
                .first()
                .is_none_or(|remote| remote.fixed().is_some_and(is_plain_name));
            if !named {
                return refuse("git ls-remote of an address can run a transport program");
            }
        }
        _ => {}
    }
    Ok(())
}

/// Secrets in the history are hidden as binary files, which these options show.
fn check_binary(command: &str, sorted: &Sorted<'_>, patches: bool) -> Result<(), Refusal> {
    let shows = (patches || command == "grep") && sorted.has_any(&["-a", "--text", "--binary"]);
    if shows {
        return refuse("git shows files in patches that are hidden as binary");
    }
    Ok(())
}

/// Signature placeholders, in formats and sort keys, run the configured signature program.
fn check_formats(sorted: &Sorted<'_>) -> Result<(), Refusal> {
    let verifies = || refuse("a format that could verify signatures runs the signature program");
    let formats = ["--format", "--pretty"]
        .iter()
        .flat_map(|name| sorted.values(name));
    for format in formats {
        let Some(text) = format else {
            return verifies();
        };
        let placeholder = text.match_indices('%').any(|(at, _)| {
            text.get(at + 1..)
                .unwrap_or_default()
                .trim_start_matches(['+', '-', ' '])
                .starts_with('G')
        });
        let lower = text.to_ascii_lowercase();
        if placeholder || lower.contains("signature") {
            return verifies();
        }
        // A reference can name a file as it was at some time.
        if lower.contains("(raw") || lower.contains("(*raw") {
            return refuse("the format %(raw) shows what a reference names, which can be any file");
        }
    }
    for key in sorted.values("--sort") {
        let plain = key.is_some_and(|key| {
            SORT_KEYS.contains(&key.trim_start_matches('-').trim_start_matches('*'))
        });
        if !plain {
            return verifies();
        }
    }
    Ok(())
}

/// Sort keys of references.
const SORT_KEYS: &[&str] = &[
    "refname",
    "version:refname",
    "v:refname",
    "committerdate",
    "authordate",
    "creatordate",
    "taggerdate",
    "objectsize",
    "objecttype",
    "objectname",
    "upstream",
    "authorname",
    "committername",
    "subject",
    "HEAD",
];

/// Operands that can be files. Revisions among them look like files that don't exist.
fn named_files(command: &str, sorted: &Sorted<'_>) -> Vec<PathOperand> {
    let mut paths = match command {
        // With a path outside the repository, and without a repository, these read any file.
        "diff" | "hash-object" | "check-attr" => paths_of(&sorted.operands),
        // What is looked for comes first; an operand after it may be a revision, and then it looks everywhere.
        "grep" => match pathspecs_of_grep(sorted) {
            Some(files) => paths_of(files),
            None => {
                let files = sorted.operands.get(pattern_words(sorted)..);
                let mut paths = paths_of(files.unwrap_or_default());
                paths.push(PathOperand::literal("."));
                paths
            }
        },
        "blame" | "annotate" | "log" | "show" | "ls-files" | "whatchanged" => sorted
            .operands
            .iter()
            .filter(|operand| operand.path().kind != PathKind::Unbounded)
            .map(|operand| operand.path())
            .collect(),
        _ => Vec::new(),
    };
    // `revision:path` shows that file as it was, and so does a range of its lines.
    let texts = sorted.operands.iter().filter_map(|operand| operand.fixed());
    let objects = texts.clone().skip(match command {
        "grep" => pattern_words(sorted),
        _ => 0,
    });
    paths.extend(
        objects
            .filter(|_| objects::shows_objects(command))
            .flat_map(objects::named)
            .map(|text| PathOperand {
                kind: PathKind::Object,
                text,
            }),
    );
    // A range has two ends, each of which can be such a file.
    let ends = texts.clone().flat_map(|text| text.split(".."));
    for text in ends.chain(texts).chain(sorted.values("-L").flatten()) {
        if let Some((_, path)) = text.rsplit_once(':').filter(|(_, path)| !path.is_empty()) {
            // `:(top)name` and `:/name` are names with a remark in front.
            let plain = match path.strip_prefix('(') {
                Some(remark) => remark.split_once(')').map_or(path, |(_, name)| name),
                None => path.trim_start_matches(['/', '!', '^']),
            };
            paths.push(PathOperand::literal(plain));
            if plain != path {
                paths.push(PathOperand::literal(path));
            }
        }
    }
    paths
}

/// The files and folders that `git grep` is limited to, where `--` says that they are some, and plain ones.
fn pathspecs_of_grep<'s, 'a>(sorted: &'s Sorted<'a>) -> Option<&'s [&'a Argument]> {
    // What is looked for stands before the dashes, or else what follows it may be a revision.
    let at = sorted
        .before_dashes
        .filter(|at| *at >= pattern_words(sorted))?;
    let paths = sorted
        .operands
        .get(at..)
        .filter(|paths| !paths.is_empty())?;
    let is_plain = |word: &&Argument| {
        word.fixed().is_some_and(|text| {
            !text.is_empty() && !text.starts_with(':') && !text.contains(['*', '?', '[', '\\'])
        })
    };
    paths.iter().all(is_plain).then_some(paths)
}

/// How many operands of `git grep` say what is looked for.
fn pattern_words(sorted: &Sorted<'_>) -> usize {
    usize::from(!sorted.has_any(&["-e", "-f"])).min(sorted.operands.len())
}

fn is_plain_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
        && !text.starts_with('-')
}

fn obeying(obeys: Obeys) -> Reading {
    Reading {
        obeys,
        ..Reading::default()
    }
}

/// Sub-commands of sub-commands; none for a sub-command that has none.
fn judge_nested(command: &str, words: &[Argument]) -> Result<Option<Reading>, Refusal> {
    if !matches!(
        command,
        "stash"
            | "remote"
            | "worktree"
            | "reflog"
            | "notes"
            | "bisect"
            | "config"
            | "symbolic-ref"
            | "submodule"
    ) {
        return Ok(None);
    }
    let first = match words.first() {
        None => None,
        Some(Argument::Fixed(text)) => Some(text.as_str()),
        Some(word) => return refuse(format!("git {command} {} is not fixed", word.text())),
    };
    let after = words.get(1..).unwrap_or_default();
    let table: Option<(&[Argument], &str)> = match (command, first) {
        ("stash", Some("list")) => Some((after, HISTORY)),
        ("stash", Some("show")) => Some((after, DIFF)),
        ("remote", None) => Some((words, "")),
        ("remote", Some("-v" | "--verbose")) if after.is_empty() => Some((after, "")),
        ("remote", Some("get-url")) => Some((after, "--push --all")),
        ("worktree", Some("list")) => Some((after, "-v -z --verbose --porcelain")),
        ("reflog", None) => Some((words, HISTORY)),
        ("reflog", Some("show")) => Some((after, HISTORY)),
        ("reflog", Some("exists")) => Some((after, "")),
        ("reflog", Some("expire" | "delete" | "drop" | "write")) => None,
        ("reflog", Some(_)) => Some((words, HISTORY)),
        ("notes", None | Some("list" | "show")) => Some((after, "")),
        ("bisect", Some("log")) => Some((after, "")),
        ("submodule", Some("status")) => Some((after, "--cached --recursive")),
        ("symbolic-ref", Some(_)) => {
            let sorted = sort(
                words,
                "-q --quiet --short --recurse --no-recurse",
                Order::Mixed,
            )?;
            if sorted.operands.len() > 1 || !sorted.operands.iter().all(|word| word.is_one_word()) {
                return refuse("git symbolic-ref with two names writes");
            }
            return Ok(Some(obeying(Obeys::Repository)));
        }
        ("config", Some(_)) => return judge_config(words).map(Some),
        _ => None,
    };
    let Some((words, table)) = table else {
        return refuse(format!("git {command} with these words may change things"));
    };
    let sorted = sort(words, table, Order::Mixed)?;
    no_names(&sorted)?;
    check_formats(&sorted)?;
    check_binary(command, &sorted, true)?;
    Ok(Some(Reading {
        below: shows_patches(command, &sorted).then(tracked_files),
        // Submodules are repositories of their own.
        ..obeying(if command == "submodule" {
            Obeys::Folder
        } else {
            Obeys::Repository
        })
    }))
}

/// `git config` writes when it gets a name and a value, so only the forms that say 'get' pass.
fn judge_config(words: &[Argument]) -> Verdict {
    const WHERE: &str = "--global --system --local --worktree --show-origin --show-scope --name-only --null -z \
        --includes --no-includes --type= --bool --int --bool-or-int --path --default= --fixed-value";
    let modern = matches!(
        words.first().and_then(Argument::fixed),
        Some("list" | "get")
    );
    let words = if modern {
        words.get(1..).unwrap_or_default()
    } else {
        words
    };
    let table = format!(
        "{WHERE} --get= --get-all= --get-regexp= --get-urlmatch= --list -l --all --regexp --value= --url= --get-color= --get-colorbool="
    );
    // Options end at the first name: `git config name --all` sets it to `--all`.
    let sorted = sort(words, &table, Order::OperandsLast)?;
    if sorted
        .operands
        .iter()
        .any(|word| word.text().starts_with('-'))
    {
        return refuse("git config with an option after a name");
    }
    let gets = sorted.has_any(&[
        "--get",
        "--get-all",
        "--get-regexp",
        "--get-urlmatch",
        "--list",
        "-l",
        "--get-color",
        "--get-colorbool",
    ]);
    // One plain name without a value is a question too. A name without a dot is a sub-command of newer versions.
    let asks = match sorted.operands.as_slice() {
        [name] => name.fixed().is_some_and(|name| name.contains('.')),
        _ => false,
    };
    if gets || modern || asks {
        return Ok(obeying(Obeys::Repository));
    }
    refuse("git config can change a setting")
}
