//! From what a command names to paths.
//!
//! A word such as `src/*.rs` or `~/x` is not a path yet: it depends on the folder that the part runs in
//! (which a `cd` may have changed, or failed to) and, for patterns, on which files are there. What can't
//! be bounded is said to be so, and asks.

use super::code::{names_in_code, quoted_texts};
use super::links::MadeLinks;
use super::nested;
use super::services;
use crate::context::PermissionContext;
use crate::glob::{could_match, first_special, is_pattern, unescape};
use crate::path::fold;
use lathe_shell::analysis::{
    Analysis, Argument, Part, PathKind, PathOperand, RedirectionKind, WorkingFolder,
};
use std::path::{Path, PathBuf};

/// Folders and files that a pattern may look at before it is treated as unbounded.
const MOST_LOOKED_AT: usize = 5_000;

/// The meaning of an operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Each of these could be meant; all must pass.
    Paths(Vec<PathBuf>),
    /// A pattern: its matches all lie below these folders, and are looked up beforehand.
    Pattern {
        /// The folders before the first special character.
        folders: Vec<PathBuf>,
        /// The patterns, absolute.
        patterns: Vec<PathBuf>,
    },
    /// Nobody can say.
    Unbounded,
}

/// The folders that a part may run in; `None` when that can't be known.
pub(crate) fn folders_of(
    part: &Part,
    cwd: &Path,
    context: &PermissionContext,
) -> Option<Vec<PathBuf>> {
    match &part.folder {
        WorkingFolder::Start => Some(vec![cwd.to_path_buf()]),
        WorkingFolder::After(steps) => {
            // Each change may have failed, so every shorter sequence is possible too.
            let mut folders = vec![cwd.to_path_buf()];
            for step in steps {
                let next: Vec<PathBuf> = match step.kind {
                    PathKind::Literal => folders
                        .iter()
                        .map(|folder| folder.join(&step.text))
                        .collect(),
                    PathKind::Home => vec![context.home.join(&step.text)],
                    PathKind::Pattern
                    | PathKind::HomePattern
                    | PathKind::Listed
                    | PathKind::Object
                    | PathKind::Pipe
                    | PathKind::Unbounded => return None,
                };
                for folder in next {
                    if !folders.contains(&folder) {
                        folders.push(folder);
                    }
                }
                if folders.len() > 64 {
                    return None;
                }
            }
            Some(folders)
        }
        WorkingFolder::Unknown => None,
    }
}

/// The meaning of an operand of a part.
pub(crate) fn meaning_of(
    operand: &PathOperand,
    folders: Option<&[PathBuf]>,
    context: &PermissionContext,
) -> Meaning {
    let text = operand.text.as_str();
    let home = [context.home.clone()];
    let bases: &[PathBuf] = match operand.kind {
        PathKind::Home | PathKind::HomePattern => &home,
        PathKind::Literal | PathKind::Pattern if text.starts_with('/') => &[],
        PathKind::Literal | PathKind::Pattern => match folders {
            Some(folders) => folders,
            None => return Meaning::Unbounded,
        },
        // A pipe to another part, which is judged by itself.
        PathKind::Pipe | PathKind::Object => return Meaning::Paths(Vec::new()),
        PathKind::Listed | PathKind::Unbounded => return Meaning::Unbounded,
    };
    let joined = |text: &str| -> Vec<PathBuf> {
        if bases.is_empty() {
            vec![PathBuf::from(text)]
        } else {
            bases.iter().map(|base| base.join(text)).collect()
        }
    };
    match operand.kind {
        PathKind::Literal | PathKind::Home => Meaning::Paths(joined(text)),
        PathKind::Pattern | PathKind::HomePattern => {
            let special = first_special(text).unwrap_or(text.len());
            // What braces turn into is not in the text.
            if text[special..].contains('{') {
                return Meaning::Unbounded;
            }
            let front = text[..special]
                .rfind('/')
                .map_or("", |slash| &text[..=slash]);
            Meaning::Pattern {
                folders: joined(&unescape(front)),
                patterns: joined(text),
            }
        }
        PathKind::Pipe | PathKind::Object | PathKind::Listed | PathKind::Unbounded => {
            Meaning::Unbounded
        }
    }
}

/// Every path that the decision about a command will want to know about.
pub(crate) fn paths_of(
    analysis: &Analysis,
    cwd: &Path,
    made: &MadeLinks,
    context: &PermissionContext,
) -> (Vec<PathBuf>, Vec<Expansion>) {
    let mut paths = Vec::new();
    let mut expansions: Vec<Expansion> = Vec::new();
    let mut look = |part: &Part, folders: Option<&[PathBuf]>| {
        if part.folder != WorkingFolder::Start {
            paths.extend(folders.iter().copied().flatten().cloned());
        }
        for operand in operands_of(part)
            .into_iter()
            .chain(part.names_of_files.clone())
        {
            match meaning_of(&operand, folders, context) {
                Meaning::Paths(found) => paths.extend(found),
                Meaning::Pattern { folders, patterns } => {
                    paths.extend(folders);
                    for pattern in patterns {
                        if !expansions.iter().any(|known| known.pattern == pattern) {
                            expansions.push(Expansion::of(pattern, made));
                        }
                    }
                }
                Meaning::Unbounded => {}
            }
        }
        for name in names_in_code(part) {
            paths.extend(
                folders
                    .unwrap_or_default()
                    .iter()
                    .map(|folder| fold(&folder.join(&name))),
            );
        }
    };
    for part in &analysis.parts {
        let folders = folders_of(part, cwd, context);
        look(part, folders.as_deref());
        nested::each_inner(part, folders.as_deref(), context, &mut look);
    }
    for expansion in &expansions {
        paths.extend(expansion.matches.iter().flatten().cloned());
    }
    // A file that is copied or moved into a folder is written under its own name there.
    let mut inside = Vec::new();
    for part in &analysis.parts {
        let Some(command) = &part.file_command else {
            continue;
        };
        let folders = folders_of(part, cwd, context);
        inside.extend(landing_places(&command.paths, folders.as_deref(), context));
        inside.extend(implied_places(&command.paths, folders.as_deref(), context));
    }
    paths.extend(inside);
    (paths, expansions)
}

/// Where files would land if the last operand is a folder.
pub(crate) fn landing_places(
    operands: &[PathOperand],
    folders: Option<&[PathBuf]>,
    context: &PermissionContext,
) -> Vec<PathBuf> {
    let Some((last, sources)) = operands.split_last() else {
        return Vec::new();
    };
    let Meaning::Paths(targets) = meaning_of(last, folders, context) else {
        return Vec::new();
    };
    let names = sources
        .iter()
        .filter_map(|source| Path::new(&source.text).file_name());
    names
        .flat_map(|name| targets.iter().map(move |target| target.join(name)))
        .collect()
}

/// Everything that a part names as a file.
fn operands_of(part: &Part) -> Vec<PathOperand> {
    let mut operands = part.read_paths.clone();
    operands.extend(
        part.file_command
            .iter()
            .flat_map(|command| command.paths.clone()),
    );
    for redirection in &part.redirections {
        let touches = !redirection.free
            && !matches!(
                redirection.kind,
                RedirectionKind::Duplicate | RedirectionKind::HereDocument
            );
        if touches {
            operands.push(redirection.target.path());
        }
    }
    operands.extend(removed_operands(part));
    operands.extend(part.losses.iter().map(|loss| loss.operand.clone()));
    operands.extend(written_operands(part));
    operands.extend(write_targets(part));
    operands.extend(mentioned(part).into_iter().map(PathOperand::literal));
    operands.extend(mentioned_patterns(part));
    operands
}

/// Patterns among the words of a program of which it isn't known what it does with the files.
pub(crate) fn mentioned_patterns(part: &Part) -> Vec<PathOperand> {
    if part.read_only.is_yes() || part.file_command.is_some() {
        return Vec::new();
    }
    part.all_effective
        .iter()
        .filter(|argv| !nested::leaves_its_files_alone(argv))
        .flat_map(|argv| argv.iter().skip(1))
        .flat_map(Argument::paths)
        .filter(|path| matches!(path.kind, PathKind::Pattern | PathKind::HomePattern))
        .collect()
}

/// The operands of removals, also behind wrappers.
pub(crate) fn removed_operands(part: &Part) -> Vec<PathOperand> {
    part.all_effective
        .iter()
        .filter(|argv| {
            argv.first()
                .and_then(|word| word.fixed())
                .is_some_and(|name| {
                    matches!(
                        crate::broad::base_name(name),
                        "rm" | "rmdir" | "unlink" | "shred" | "mv"
                    )
                })
        })
        .flat_map(|argv| argv.iter().skip(1))
        .filter(|word| word.fixed().is_none_or(|text| !text.starts_with('-')))
        .flat_map(Argument::paths)
        .collect()
}

/// The same without moves, whose last operand is where something goes.
pub(crate) fn deleted_operands(part: &Part) -> Vec<PathOperand> {
    part.all_effective
        .iter()
        .filter(|argv| {
            let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
            matches!(crate::broad::base_name(name), "rm" | "rmdir" | "shred")
        })
        .flat_map(|argv| argv.iter().skip(1))
        .filter(|word| word.fixed().is_none_or(|text| !text.starts_with('-')))
        .flat_map(Argument::paths)
        .collect()
}

/// Where a `find` starts that removes what it finds.
pub(crate) fn starts_of_removal(part: &Part) -> Vec<PathOperand> {
    let removes = |argv: &&Vec<Argument>| {
        argv.first().and_then(Argument::fixed) == Some("find")
            && argv.iter().any(|word| word.fixed() == Some("-delete"))
    };
    part.all_effective
        .iter()
        .filter(removes)
        .flat_map(|argv| {
            argv.iter().skip(1).take_while(|word| {
                word.fixed()
                    .is_none_or(|text| !text.starts_with(['-', '(', '!']))
            })
        })
        .filter(|word| word.fixed().is_none())
        .flat_map(Argument::paths)
        .collect()
}

/// Programs that write to files that their words name, beside the simple file commands.
const WRITERS: &[&str] = &[
    "tee", "sponge", "dd", "install", "rsync", "scp", "truncate", "patch", "ed", "ex", "curl",
    "wget", "perl", "sed", "cp", "mv", "rm", "ln", "touch", "unlink", "shred", "chmod", "chown",
    "chgrp", "setfacl", "chattr", "tar", "unzip", "xxd", "gzip", "gunzip", "vi", "vim", "nvim",
    "emacs", "nano",
];

/// The possible targets of a program that writes, also behind wrappers. Of any other program: what it is
/// told to write its output to.
pub(crate) fn written_operands(part: &Part) -> Vec<PathOperand> {
    if part.read_only.is_yes() || part.file_command.is_some() {
        return Vec::new();
    }
    let mut operands = Vec::new();
    for argv in &part.all_effective {
        let writes = argv
            .first()
            .and_then(|word| word.fixed())
            .is_some_and(|name| WRITERS.contains(&crate::broad::base_name(name)));
        let mut told = false;
        for word in argv.iter().skip(1) {
            let text = word.fixed().unwrap_or_default();
            if nested::is_exclusion(text) {
                continue;
            }
            if writes || told {
                operands.extend(word.paths());
            }
            let output = text.starts_with("--out");
            if let Some((_, value)) = text.split_once('=')
                && (writes || output)
            {
                operands.push(match value.strip_prefix("~/") {
                    Some(rest) => PathOperand {
                        kind: PathKind::Home,
                        text: rest.to_owned(),
                    },
                    None => PathOperand::literal(value),
                });
            }
            told = text == "-o" || (output && !text.contains('='));
        }
    }
    operands.retain(|operand| {
        let text = operand.text.as_str();
        !text.is_empty()
            && text.len() <= 4096
            && !text.starts_with('-')
            && !text.contains(['\n', '\0', ' '])
    });
    operands
}

/// Where a program writes, as far as its words say where: the operands of some, one option of others.
pub(crate) fn write_targets(part: &Part) -> Vec<PathOperand> {
    if part.read_only.is_yes() || part.file_command.is_some() {
        return Vec::new();
    }
    part.all_effective
        .iter()
        .flat_map(|argv| targets_of(argv))
        .collect()
}

/// The same of one command.
pub(super) fn targets_of(argv: &[Argument]) -> Vec<PathOperand> {
    let Some((first, words)) = argv.split_first() else {
        return Vec::new();
    };
    let operands = || {
        words
            .iter()
            .filter(|word| word.fixed().is_none_or(|text| !text.starts_with('-')))
    };
    let after = |options: &[&str]| -> Vec<PathOperand> {
        words
            .windows(2)
            .filter(|pair| pair[0].fixed().is_some_and(|text| options.contains(&text)))
            .map(|pair| pair[1].path())
            .collect()
    };
    match crate::broad::base_name(first.fixed().unwrap_or_default()) {
        "tee" | "sponge" | "truncate" | "touch" | "shred" | "unlink" | "rm" | "rmdir" => {
            operands().map(Argument::path).collect()
        }
        "cp" | "mv" | "install" | "ln" | "rsync" | "scp" => {
            let mut targets = after(&["-t", "--target-directory"]);
            targets.extend(operands().next_back().map(Argument::path));
            targets.extend(saved_copy(words, targets.last()));
            let parents = words.iter().any(|word| word.fixed() == Some("--parents"));
            let landed: Vec<PathOperand> = targets
                .iter()
                .flat_map(|target| operands().filter_map(|source| landed(source, target, parents)))
                .collect();
            targets.extend(landed);
            targets
        }
        "split" => made_by_split(words),
        "csplit" => made_by_csplit(words),
        "dd" => words
            .iter()
            .filter_map(|word| match word {
                Argument::Fixed(text) => text.strip_prefix("of=").map(PathOperand::literal),
                Argument::Variable(variable) => variable
                    .prefix
                    .starts_with("of=")
                    .then(|| PathOperand::unbounded(variable.source.clone())),
            })
            .collect(),
        "curl" => output_of(words, 'o', "--output"),
        "wget" => output_of(words, 'O', "--output-document"),
        "sed" | "perl" | "ruby" => edited_in_place(words),
        "find" => after(&["-fprint", "-fprint0", "-fprintf", "-fls"]),
        name if services::is_client(name) => services::outputs(name, words),
        name if UNPACKS_ONE.contains(&name) => operands()
            .filter_map(|word| shortened(&word.path()))
            .collect(),
        _ => words
            .iter()
            .filter_map(|word| match word {
                Argument::Variable(variable) if variable.prefix.starts_with("--output=") => {
                    Some(PathOperand::unbounded(variable.source.clone()))
                }
                _ => None,
            })
            .chain(after(&["--output"]))
            .collect(),
    }
}

/// Programs that replace a file by what it holds, under a shorter name.
const UNPACKS_ONE: &[&str] = &[
    "gunzip",
    "gzip",
    "bunzip2",
    "bzip2",
    "unxz",
    "unlzma",
    "xz",
    "lzma",
    "unzstd",
    "zstd",
    "unlz4",
    "lz4",
    "uncompress",
    "brotli",
];

/// The file that comes out of a packed one.
fn shortened(packed: &PathOperand) -> Option<PathOperand> {
    let name = packed.text.rsplit('/').next().unwrap_or_default();
    let (front, _) = packed.text.rsplit_once(['.', '-'])?;
    // The dot of a hidden file is no ending.
    name.trim_start_matches('.')
        .contains(['.', '-'])
        .then(|| PathOperand {
            kind: packed.kind,
            text: front.to_owned(),
        })
}

/// The file that an option names, alone or at the end of several letters: `-o x`, `-fsSLo x`, `-ox`, `--output=x`.
fn output_of(words: &[Argument], letter: char, long: &str) -> Vec<PathOperand> {
    let mut files = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let text = word.text();
        let short = text.strip_prefix('-').filter(|text| !text.starts_with('-'));
        if text == long || short.is_some_and(|text| text.ends_with(letter)) {
            files.extend(words.get(at + 1).map(Argument::path));
        } else if let Some(file) = text
            .strip_prefix(long)
            .and_then(|text| text.strip_prefix('='))
        {
            files.push(PathOperand::literal(file));
        } else if let Some((_, file)) = short.and_then(|text| text.split_once(letter)) {
            files.push(PathOperand::literal(file));
        }
    }
    // A dash is standard output.
    files.retain(|file| file.text != "-");
    files
}

/// Where a file comes to be if the target is a folder: `scp host:.bashrc ~`.
fn landed(source: &Argument, target: &PathOperand, keeps_parents: bool) -> Option<PathOperand> {
    let source = source.fixed()?;
    // With `--parents` the whole name comes to be there.
    let name = if keeps_parents {
        source.trim_start_matches('/')
    } else {
        source.rsplit(['/', ':']).next()?
    };
    let known = matches!(target.kind, PathKind::Literal | PathKind::Home);
    (known && !name.is_empty()).then(|| PathOperand {
        kind: target.kind,
        text: match target.text.as_str() {
            "" => name.to_owned(),
            folder => format!("{}/{name}", folder.trim_end_matches('/')),
        },
    })
}

/// A file whose name starts so and ends in a way that can't be known. Protected files among others are hidden ones, so
/// that a name which may start with a dot may be any of them.
fn made_from(prefix: &PathOperand, may_start_anyhow: bool) -> PathOperand {
    let last = prefix.text.rsplit('/').next().unwrap_or_default();
    let known = matches!(prefix.kind, PathKind::Literal | PathKind::Home)
        && !last.starts_with('.')
        && !(last.is_empty() && may_start_anyhow);
    if known {
        return PathOperand {
            kind: prefix.kind,
            text: format!("{}aa", prefix.text),
        };
    }
    PathOperand::unbounded(prefix.shown())
}

/// `split file prefix`: pieces with letters or digits after the prefix.
fn made_by_split(words: &[Argument]) -> Vec<PathOperand> {
    const VALUED: &[&str] = &[
        "--suffix-length",
        "--additional-suffix",
        "--bytes",
        "--line-bytes",
        "--lines",
        "--number",
        "--filter",
        "--separator",
    ];
    let mut operands = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.fixed().unwrap_or("-");
        let short = text.starts_with('-') && !text.starts_with("--");
        if VALUED.contains(&text) || short && text.ends_with(['a', 'b', 'C', 'l', 'n', 't']) {
            rest.next();
        } else if !text.starts_with('-') || text == "-" {
            operands.push(word);
        }
    }
    let prefixes = operands.into_iter().skip(1);
    prefixes
        .map(|prefix| made_from(&prefix.path(), false))
        .collect()
}

/// `csplit -f prefix -b suffix file pattern`: pieces whose end is a format.
fn made_by_csplit(words: &[Argument]) -> Vec<PathOperand> {
    let formats = output_of(words, 'b', "--suffix-format");
    let may_lie_elsewhere = formats.iter().any(|format| format.text.contains('/'));
    let named = output_of(words, 'f', "--prefix");
    let mut made: Vec<PathOperand> = named
        .iter()
        .map(|prefix| made_from(prefix, !formats.is_empty()))
        .collect();
    if may_lie_elsewhere {
        made.push(PathOperand::unbounded("the pieces"));
    }
    made
}

/// The old target is kept under a name with a suffix that the command may choose.
fn saved_copy(words: &[Argument], target: Option<&PathOperand>) -> Option<PathOperand> {
    let suffix = words.iter().enumerate().find_map(|(at, word)| {
        let text = word.text();
        let joined = text
            .strip_prefix("--suffix=")
            .or_else(|| text.strip_prefix("-S").filter(|suffix| !suffix.is_empty()));
        let next = || words.get(at + 1).map(Argument::text);
        match joined {
            Some(suffix) => Some(suffix),
            None if text.ends_with('S') && text.starts_with('-') || text == "--suffix" => next(),
            None => None,
        }
    })?;
    let target = target?;
    Some(PathOperand {
        kind: target.kind,
        text: format!("{}{suffix}", target.text),
    })
}

/// The files that a program with `-i` changes: its operands without the script.
fn edited_in_place(words: &[Argument]) -> Vec<PathOperand> {
    let is_short = |text: &str| text.starts_with('-') && !text.starts_with("--");
    let in_place = |word: &Argument| {
        word.fixed().is_some_and(|text| {
            text.starts_with("--in-place") || is_short(text) && text.contains('i')
        })
    };
    if !words.iter().any(in_place) {
        return Vec::new();
    }
    let mut files = Vec::new();
    let mut has_script = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.fixed().unwrap_or_default();
        if is_short(text) && text.ends_with(['e', 'f']) || matches!(text, "--expression" | "--file")
        {
            has_script = true;
            words.next();
        } else if text.starts_with("--expression=") || text.starts_with("--file=") {
            has_script = true;
        } else if !text.starts_with('-') || text.is_empty() {
            files.push(word.path());
        }
    }
    let script = usize::from(!has_script).min(files.len());
    files.split_off(script)
}

/// Where files that tools take programs from would come to be if the target of a copy, a move or a link is, or
/// becomes, a folder with files of any names: `mv made .cargo` makes `.cargo/config.toml`.
pub(crate) fn implied_places(
    operands: &[PathOperand],
    folders: Option<&[PathBuf]>,
    context: &PermissionContext,
) -> Vec<PathBuf> {
    let Some((last, _)) = operands.split_last() else {
        return Vec::new();
    };
    let Meaning::Paths(mut targets) = meaning_of(last, folders, context) else {
        return Vec::new();
    };
    targets.extend(landing_places(operands, folders, context));
    targets
        .iter()
        .filter_map(|target| crate::protected::program_file_below(&fold(target)))
        .collect()
}

/// Words of a command that read like files, for programs of which it isn't known what they read:
/// `@file`, `--option=file`, `file:where`, plain words, and strings in code.
pub(crate) fn mentioned(part: &Part) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |candidate: &str| {
        let plain = !candidate.is_empty()
            && candidate.len() <= 4096
            && !candidate.starts_with('-')
            && !candidate.contains(['\n', '\0', ' '])
            && !candidate.contains("://");
        if plain && found.len() < 64 && !found.iter().any(|known| known == candidate) {
            found.push(candidate.to_owned());
        }
    };
    for argv in &part.all_effective {
        let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
        let prints = matches!(name, "echo" | "printf");
        let words = argv
            .iter()
            .skip(1)
            .filter(|_| !prints && !part.read_only.is_yes());
        for word in words.filter_map(|word| word.fixed()) {
            add(word);
            add(word.rsplit(['=', '@']).next().unwrap_or(word));
            if !word.contains("://") {
                word.split(['=', '@', ':', ',']).for_each(&mut add);
            }
            match crate::broad::base_name(name) {
                "awk" | "gawk" | "mawk" | "nawk" => {
                    quoted_texts(word).iter().for_each(|text| add(text));
                }
                // The name of a file may stand right after the letter of its command.
                "sed" => word
                    .split(|next: char| next.is_whitespace() || ";{}/".contains(next))
                    .flat_map(|piece| [piece, piece.trim_start_matches(['r', 'R', 'w', 'W'])])
                    .for_each(&mut add),
                _ => {}
            }
        }
        if matches!(crate::broad::base_name(name), "xargs" | "parallel") {
            let given = part
                .fed_texts
                .iter()
                .flat_map(|text| text.split_whitespace());
            given.for_each(&mut add);
        }
    }
    names_in_code(part).iter().for_each(|name| add(name));
    found
}

/// A pattern and the files that match it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expansion {
    pub(crate) pattern: PathBuf,
    /// `None` when there were too many files to look at.
    pub(crate) matches: Option<Vec<PathBuf>>,
}

impl Expansion {
    fn of(pattern: PathBuf, made: &MadeLinks) -> Self {
        let behind = made.behind(&pattern);
        let mut matches = expand(&pattern).filter(|_| !behind.unknown);
        for other in &behind.paths {
            if let (Some(all), more) = (&mut matches, expand(other)) {
                match more {
                    Some(more) => all.extend(more),
                    None => matches = None,
                }
            }
        }
        Self { pattern, matches }
    }
}

/// The files that a pattern matches, name by name as a shell does it: a hidden name only by a pattern
/// that starts with the dot or with brackets. `**` stands for any folders, as where a shell has been told so.
fn expand(pattern: &Path) -> Option<Vec<PathBuf>> {
    let pattern = fold(pattern);
    let mut found = vec![PathBuf::from("/")];
    let mut looked_at = 0;
    for component in pattern.components().skip(1) {
        let name = component.as_os_str().to_string_lossy();
        if !is_pattern(&name) {
            let name = unescape(&name);
            for path in &mut found {
                path.push(&name);
            }
            continue;
        }
        let mut next = Vec::new();
        let mut folders = found;
        let mut deeper = Vec::new();
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            if name == "**" {
                next.push(folder.clone());
            }
            for entry in entries.flatten() {
                looked_at += 1;
                if looked_at > MOST_LOOKED_AT {
                    return None;
                }
                let file_name = entry.file_name();
                let hidden = file_name.as_encoded_bytes().starts_with(b".");
                if hidden && !name.starts_with(['.', '[', '\\']) {
                    continue;
                }
                if could_match(&name, &file_name.to_string_lossy()) {
                    next.push(entry.path());
                    if name == "**" && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        deeper.push(entry.path());
                    }
                }
            }
            folders.append(&mut deeper);
        }
        next.sort();
        next.dedup();
        found = next;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_expanded_name_by_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.rs", "b.rs", ".env", "sub/c.rs", "sub/d.txt"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let names = |pattern: &str| {
            let mut names: Vec<String> = expand(&folder.path().join(pattern))
                .unwrap()
                .into_iter()
                .map(|path| {
                    path.strip_prefix(folder.path())
                        .unwrap()
                        .display()
                        .to_string()
                })
                .collect();
            names.sort();
            names
        };
        assert_eq!(names("*.rs"), ["a.rs", "b.rs"]);
        assert_eq!(names("*/*.rs"), ["sub/c.rs"]);
        assert_eq!(names(".e*"), [".env"]);
        assert!(names(".en[[:lower:]]").contains(&".env".to_owned()));
        assert_eq!(names("**/*.rs"), ["a.rs", "b.rs", "sub/c.rs"]);
        assert_eq!(names("s*/d.txt"), ["sub/d.txt"]);
        assert!(names("nothing*").is_empty());
    }
}
