//! Programs that bring files of another's choice: archives, checkouts, copies of folders.
//!
//! Programs that run code of another's choice (`make`, `npm install`) are not among them: they need no link to do harm.

use super::brought::Filled;
use super::code::code;
use super::links::sides;
use super::operand::{Meaning, meaning_of};
use crate::broad::base_name;
use crate::context::PermissionContext;
use crate::path::{fold, real_folder};
use lathe_shell::analysis::{Argument, Part, PathOperand};
use std::path::{Path, PathBuf};

/// How many files of a folder that is copied are looked at.
const MOST_COPIED: usize = 2_000;

/// Sub-commands of git that change no file of the working tree, or only by the user's own index.
const KEEPS_FILES: &[&str] = &[
    "add",
    "archive",
    "blame",
    "branch",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "clean",
    "commit",
    "config",
    "count-objects",
    "credential",
    "describe",
    "diff",
    "difftool",
    "fetch",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "help",
    "init",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "maintenance",
    "merge-base",
    "mv",
    "name-rev",
    "notes",
    "prune",
    "push",
    "range-diff",
    "reflog",
    "remote",
    "repack",
    "rev-list",
    "rev-parse",
    "rm",
    "shortlog",
    "show",
    "show-ref",
    "status",
    "symbolic-ref",
    "tag",
    "update-index",
    "update-ref",
    "var",
    "version",
    "write-tree",
];

/// Options of git whose value is the next word.
const WITH_VALUE: &[&str] = &[
    "-b",
    "-B",
    "-c",
    "-o",
    "-u",
    "-j",
    "--branch",
    "--bundle-uri",
    "--config",
    "--depth",
    "--filter",
    "--jobs",
    "--origin",
    "--reason",
    "--reference",
    "--separate-git-dir",
    "--server-option",
    "--shallow-since",
    "--template",
    "--upload-pack",
];

const NEW_BRANCH: &[&str] = &[
    "-b",
    "-B",
    "-c",
    "-C",
    "--create",
    "--force-create",
    "--orphan",
];

/// Programs that unpack what they are given where they run, or where an operand says.
const UNPACKERS: &[&str] = &[
    "cpio",
    "pax",
    "unsquashfs",
    "unrar",
    "rar",
    "unar",
    "unp",
    "dtrx",
    "atool",
    "aunpack",
    "lha",
    "arj",
    "dpkg-deb",
    "dpkg",
    "debootstrap",
    "patch",
    "quilt",
    "restic",
    "borg",
    "degit",
    "tiged",
    "giget",
    "cookiecutter",
    "copier",
];

/// Programs that put what they copy under a name that an operand says.
const COPIERS: &[&str] = &[
    "cp", "gcp", "mv", "gmv", "rsync", "docker", "podman", "kubectl", "oc",
];

/// Other version control systems, and programs that drive git.
const CHECKERS_OUT: &[&str] = &[
    "hg", "svn", "jj", "bzr", "brz", "fossil", "cvs", "darcs", "repo", "gh", "glab",
];

/// Sub-commands of other version control systems that change files of the working tree.
const CHECKS_OUT: &[&str] = &[
    "apply", "checkout", "clone", "co", "edit", "export", "fetch", "graft", "import", "merge",
    "new", "patch", "pull", "rebase", "restore", "revert", "share", "switch", "sw", "sync",
    "unshelve", "up", "update",
];

/// Programs that take an archive for something else than unpacking it.
const KEEPS_ARCHIVES: &[&str] = &[
    "aws",
    "az",
    "chmod",
    "chown",
    "cosign",
    "cp",
    "curl",
    "docker",
    "echo",
    "file",
    "gcloud",
    "gh",
    "git",
    "gpg",
    "gsutil",
    "gzip",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mv",
    "openssl",
    "podman",
    "printf",
    "rm",
    "rsync",
    "scp",
    "sftp",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "shasum",
    "ssh",
    "stat",
    "tee",
    "test",
    "touch",
    "wget",
    "xz",
    "zip",
    "zstd",
    "[",
];

const ARCHIVE_ENDINGS: &[&str] = &[
    ".tar",
    ".tgz",
    ".tbz",
    ".tbz2",
    ".txz",
    ".tzst",
    ".zip",
    ".7z",
    ".rar",
    ".cpio",
    ".deb",
    ".rpm",
    ".squashfs",
    ".xar",
    ".iso",
];

/// Where a command runs, for the places that its words name.
#[derive(Clone, Copy)]
struct Where<'a> {
    folders: Option<&'a [PathBuf]>,
    context: &'a PermissionContext,
}

impl Where<'_> {
    fn named(self, operand: &PathOperand) -> Vec<PathBuf> {
        let real =
            |paths: Vec<PathBuf>| paths.iter().map(|path| real_folder(&fold(path))).collect();
        match meaning_of(operand, self.folders, self.context) {
            Meaning::Paths(paths) => real(paths),
            Meaning::Pattern { folders, .. } => real(folders),
            Meaning::Unbounded => vec![PathBuf::from("/")],
        }
    }

    fn word(self, word: &Argument) -> Vec<PathBuf> {
        self.named(&word.path())
    }

    fn text(self, path: &str) -> Vec<PathBuf> {
        self.named(&PathOperand::literal(path))
    }

    fn here(self) -> Vec<PathBuf> {
        self.text(".")
    }

    /// The values of an option; the folder of the part if there is none.
    fn after(self, words: &[Argument], short: &str, long: &str) -> Vec<PathBuf> {
        let mut places = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let text = word.text();
            let attached = match text.strip_prefix(long) {
                Some(rest) => rest.strip_prefix('='),
                None if text.starts_with("--") => None,
                None => text.strip_prefix(short),
            };
            if text == short || text == long {
                places.extend(
                    words
                        .get(at + 1)
                        .into_iter()
                        .flat_map(|value| self.word(value)),
                );
            } else if let Some(value) = attached {
                places.extend(self.text(value));
            }
        }
        if places.is_empty() {
            self.here()
        } else {
            places
        }
    }

    /// The folder of the part, and every operand that names a place elsewhere.
    fn here_and_operands(self, words: &[Argument]) -> Vec<PathBuf> {
        let mut all = self.here();
        for word in words.iter().filter(|word| !word.text().starts_with('-')) {
            let places = self.word(word).into_iter();
            all.extend(places.filter(|place| place.parent().is_some()));
        }
        all
    }
}

/// The places that one command fills.
pub(super) fn brings(
    argv: &[Argument],
    folders: Option<&[PathBuf]>,
    filled: &[Filled],
    context: &PermissionContext,
) -> Vec<Filled> {
    let Some((first, words)) = argv.split_first() else {
        return Vec::new();
    };
    let at = Where { folders, context };
    let name = base_name(first.fixed().unwrap_or_default());
    let says = |wanted: &[&str]| words.iter().any(|word| wanted.contains(&word.text()));
    let places = match name {
        "tar" | "gtar" | "bsdtar" => unpacked_tar(words, at),
        "unzip" | "bsdunzip" => unpacked_zip(words, at),
        "7z" | "7za" | "7zr" | "7zz" if says(&["x", "e"]) => at.after(words, "-o", "-o"),
        "git" => checked_out(words, at),
        "cp" | "gcp" | "mv" | "gmv" | "rsync" => copied(name, words, filled, at),
        _ if UNPACKERS.contains(&name) => at.here_and_operands(words),
        _ if CHECKERS_OUT.contains(&name) && says(CHECKS_OUT) => {
            let places = at.here_and_operands(words);
            places.iter().map(|place| tree_of(place)).collect()
        }
        "docker" | "podman" | "kubectl" | "oc" if says(&["cp"]) => at.here_and_operands(words),
        "cmake" if says(&["tar"]) => at.here(),
        _ if name.starts_with("python") && says(&["tarfile"]) => at.here_and_operands(words),
        _ if !KEEPS_ARCHIVES.contains(&name) && words.iter().any(is_archive) => at.here(),
        _ => return Vec::new(),
    };
    let replaces = name == "git" || CHECKERS_OUT.contains(&name) || starts(words, "--recursive-u");
    let itself = COPIERS.contains(&name) || name == "git" && says(&["--"]);
    places
        .into_iter()
        .map(|place| Filled {
            place,
            itself,
            replaces,
            by: name.to_owned(),
        })
        .collect()
}

/// Inline code that unpacks an archive.
pub(super) fn unpacks_in_code(part: &Part, folders: Option<&[PathBuf]>) -> Vec<Filled> {
    if !code(part).iter().any(|code| code.unpacks) {
        return Vec::new();
    }
    let folders = folders.unwrap_or_default().iter();
    folders
        .map(|folder| Filled {
            place: real_folder(folder),
            itself: false,
            replaces: false,
            by: "code".to_owned(),
        })
        .collect()
}

fn starts(words: &[Argument], start: &str) -> bool {
    words.iter().any(|word| word.text().starts_with(start))
}

fn is_archive(word: &Argument) -> bool {
    let text = word.text().to_ascii_lowercase();
    text.contains(".tar.") || ARCHIVE_ENDINGS.iter().any(|ending| text.ends_with(ending))
}

/// The letters of a group of short options.
fn letters(text: &str) -> Option<&str> {
    text.strip_prefix('-')
        .filter(|letters| !letters.starts_with('-'))
}

fn unpacked_tar(words: &[Argument], at: Where<'_>) -> Vec<PathBuf> {
    // The first word needs no dash.
    let first = words
        .first()
        .map(Argument::text)
        .filter(|text| !text.starts_with('-'));
    let groups = || {
        words
            .iter()
            .filter_map(|word| letters(word.text()))
            .chain(first)
    };
    let mode = groups().find_map(|group| group.chars().find(|letter| "ctruAdx".contains(*letter)));
    let long = [
        "--create",
        "--list",
        "--append",
        "--update",
        "--diff",
        "--compare",
        "--concatenate",
        "--catenate",
        "--delete",
    ];
    let keeps = match mode {
        Some(letter) => letter != 'x',
        None => words.iter().any(|word| long.contains(&word.text())),
    };
    if keeps {
        return Vec::new();
    }
    if starts(words, "--abs") || groups().any(|group| group.contains('P')) {
        return vec![PathBuf::from("/")];
    }
    at.after(words, "-C", "--directory")
}

fn unpacked_zip(words: &[Argument], at: Where<'_>) -> Vec<PathBuf> {
    let shows = words
        .iter()
        .filter_map(|word| letters(word.text()))
        .any(|group| {
            !group.starts_with('d') && group.contains(['l', 't', 'p', 'c', 'Z', 'v', 'z'])
        });
    if shows {
        return Vec::new();
    }
    at.after(words, "-d", "-d")
}

/// The working tree that a folder belongs to.
fn tree_of(folder: &Path) -> PathBuf {
    folder
        .ancestors()
        .find(|ancestor| std::fs::symlink_metadata(ancestor.join(".git")).is_ok())
        .unwrap_or(folder)
        .to_path_buf()
}

fn checked_out(words: &[Argument], at: Where<'_>) -> Vec<PathBuf> {
    let mut words = words;
    let mut base: Option<Vec<PathBuf>> = None;
    let mut trees: Vec<PathBuf> = Vec::new();
    // Options of git itself.
    let rest = loop {
        let inner = Where {
            folders: base.as_deref().or(at.folders),
            ..at
        };
        match words {
            [option, value, rest @ ..] if option.text() == "-C" => {
                base = Some(inner.word(value));
                words = rest;
            }
            [option, value, rest @ ..]
                if matches!(option.text(), "--work-tree" | "--git-dir" | "-c") =>
            {
                if option.text() == "--work-tree" {
                    trees.extend(inner.word(value));
                }
                words = rest;
            }
            [option, rest @ ..] if option.text().starts_with('-') => {
                let tree = option.text().strip_prefix("--work-tree=");
                trees.extend(tree.into_iter().flat_map(|tree| inner.text(tree)));
                words = rest;
            }
            rest => break rest,
        }
    };
    let at = Where {
        folders: base.as_deref().or(at.folders),
        ..at
    };
    let Some((sub_command, words)) = rest.split_first() else {
        return Vec::new();
    };
    of_sub_command(sub_command.text(), words, at).unwrap_or_else(|| {
        trees.extend(at.here().iter().map(|place| tree_of(place)));
        trees
    })
}

/// The places that a sub-command of git fills; `None` for the whole working tree.
fn of_sub_command(sub_command: &str, words: &[Argument], at: Where<'_>) -> Option<Vec<PathBuf>> {
    let says = |wanted: &[&str]| words.iter().any(|word| wanted.contains(&word.text()));
    let operands = operands_of(words);
    let nothing = Some(Vec::new());
    match (sub_command, operands.as_slice()) {
        ("clone", [_, target, ..]) => Some(at.word(target)),
        ("clone", [url]) if url.fixed().is_some() => {
            let name = url.text().trim_end_matches('/').trim_end_matches("/.git");
            let name = name.rsplit(['/', ':']).next().unwrap_or(name);
            Some(at.text(name.strip_suffix(".git").unwrap_or(name)))
        }
        ("clone", _) => Some(at.here()),
        ("worktree", [add, target, ..]) if add.text() == "add" => Some(at.word(target)),
        ("worktree", _) => nothing,
        ("reset", _) if !says(&["--hard", "--merge", "--keep"]) => nothing,
        ("stash", _) if !says(&["pop", "apply", "branch"]) => nothing,
        // A new branch from where one is brings nothing.
        ("checkout" | "switch", []) if says(NEW_BRANCH) => nothing,
        ("checkout" | "restore", _) if says(&["--"]) => {
            let paths = words.iter().skip_while(|word| word.text() != "--").skip(1);
            Some(paths.flat_map(|path| at.word(path)).collect())
        }
        _ if KEEPS_FILES.contains(&sub_command) => nothing,
        _ => None,
    }
}

/// The words that are neither options nor their values.
fn operands_of(words: &[Argument]) -> Vec<&Argument> {
    let mut operands = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.text();
        if WITH_VALUE.contains(&text) || NEW_BRANCH.contains(&text) {
            rest.next();
        } else if word.fixed().is_none() || !text.starts_with('-') || text == "-" {
            operands.push(word);
        }
    }
    operands
}

/// Where a copy or a move puts links, if its sources hold some.
fn copied(name: &str, words: &[Argument], filled: &[Filled], at: Where<'_>) -> Vec<PathBuf> {
    let short = |wanted: &[char]| {
        let mut groups = words.iter().filter_map(|word| letters(word.text()));
        groups.any(|group| group.contains(wanted))
    };
    let long = |wanted: &[&str]| wanted.iter().any(|start| starts(words, start));
    let follows = long(&["--deref", "--copy-links"]) || short(&['L']);
    let keeps = match name {
        "mv" | "gmv" => true,
        "rsync" => !follows && (short(&['a', 'l']) || long(&["--arch", "--links"])),
        _ => {
            let all = short(&['a', 'd', 'P', 'r', 'R']);
            !follows && (all || long(&["--arch", "--rec", "--no-d", "--preserve"]))
        }
    };
    if !keeps {
        return Vec::new();
    }
    let (sources, targets) = sides(words);
    let is_remote = |word: &&Argument| name == "rsync" && word.text().contains(':');
    let brings = sources.iter().any(is_remote)
        || sources
            .iter()
            .flat_map(|source| at.named_sources(source))
            .any(|path| holds_links(&path, filled));
    if !brings {
        return Vec::new();
    }
    let own = Argument::Fixed(".".to_owned());
    targets
        .iter()
        .flat_map(|target| at.word(target.as_ref().unwrap_or(&own)))
        .collect()
}

impl Where<'_> {
    /// The paths of a source, its own links not followed.
    fn named_sources(self, word: &Argument) -> Vec<PathBuf> {
        match meaning_of(&word.path(), self.folders, self.context) {
            Meaning::Paths(paths) => paths,
            Meaning::Pattern { folders, .. } => folders,
            Meaning::Unbounded => vec![PathBuf::from("/")],
        }
    }
}

/// Whether a file or folder is a link, or holds one, now or once the command has run so far.
fn holds_links(path: &Path, filled: &[Filled]) -> bool {
    let path = fold(path);
    if filled
        .iter()
        .any(|place| path.starts_with(&place.place) || place.place.starts_with(&path))
    {
        return true;
    }
    let mut waiting = vec![path];
    let mut looked_at = 0;
    while let Some(path) = waiting.pop() {
        looked_at += 1;
        if looked_at > MOST_COPIED {
            return true;
        }
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => return true,
            Ok(found) if found.is_dir() => {
                let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
                waiting.extend(entries.map(|entry| entry.path()));
            }
            _ => {}
        }
    }
    false
}
