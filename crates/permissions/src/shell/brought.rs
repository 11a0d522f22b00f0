//! Links that a command brings before it goes through them.
//!
//! An archive, a checkout or a copied folder can hold links that nobody sees before they are there: `tar xf a.tar; rm -rf l/*`
//! removes whatever the archive's `l` leads to. So a later part of the same command that writes or removes through a name
//! below such a place is looked at: if the name is no real folder now, or could be replaced, the path leads anywhere.

use super::bringers::{brings, unpacks_in_code};
use super::code::code;
use super::nested;
use super::operand::{Meaning, folders_of, landing_places, meaning_of, targets_of};
use crate::broad::base_name;
use crate::context::PermissionContext;
use crate::path::real_folder;
use lathe_shell::analysis::{
    Analysis, Argument, FileAction, Part, PartKind, PathKind, PathOperand,
};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// How deep texts in texts are looked at.
const MOST_NESTED: usize = 2;

/// Commands that remove a link itself, not what it leads to.
const REMOVERS: &[&str] = &[
    "rm",
    "rmdir",
    "unlink",
    "srm",
    "trash",
    "trash-put",
    "rimraf",
    "find",
];

/// Programs that write to the files that they are given.
const EDITORS: &[&str] = &[
    "ed", "ex", "vi", "vim", "nvim", "nano", "emacs", "gzip", "gunzip", "bzip2", "xz", "zstd",
];

/// A place that a command fills with files of another's choice, links among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) place: PathBuf,
    /// The place may become a link itself.
    pub(super) itself: bool,
    /// Folders with files in them may be replaced by links, too.
    pub(super) replaces: bool,
    /// The program.
    pub(super) by: String,
}

/// A path that leads through a name which may be a link by then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Through {
    /// The path, as written.
    pub(crate) path: String,
    /// The program that may bring the link.
    pub(crate) by: String,
}

/// Something that a part writes or removes.
struct Touched {
    operand: PathOperand,
    /// A link by the last name is followed.
    follows: bool,
    removes: bool,
}

/// The first path of a command that leads through a link which the command may have brought.
pub(crate) fn through_brought(
    analysis: &Analysis,
    command: &str,
    cwd: &Path,
    context: &PermissionContext,
) -> Option<Through> {
    let mut look = Look {
        context,
        found: None,
    };
    let mut filled = Vec::new();
    let base = [cwd.to_path_buf()];
    // What runs more than once, or later than it is written, comes before everything else.
    if repeats(analysis, command) {
        look.parts(&analysis.parts, &base, &mut filled, MOST_NESTED);
        look.found = None;
    }
    look.parts(&analysis.parts, &base, &mut filled, MOST_NESTED);
    look.found
}

fn repeats(analysis: &Analysis, command: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    analysis
        .parts
        .iter()
        .any(|part| part.kind == PartKind::Function)
        || command
            .split(|character| !is_word(character))
            .any(|word| matches!(word, "for" | "while" | "until" | "select" | "trap"))
}

struct Look<'a> {
    context: &'a PermissionContext,
    found: Option<Through>,
}

impl Look<'_> {
    fn parts(&mut self, parts: &[Part], bases: &[PathBuf], filled: &mut Vec<Filled>, depth: usize) {
        for part in parts {
            if part.read_only.is_yes() {
                continue;
            }
            let folders = self.folders(part, bases);
            let folders = folders.as_deref();
            if self.found.is_none() && !filled.is_empty() {
                self.found = self.through(part, folders, filled);
            }
            let mut more: Vec<Filled> = part
                .all_effective
                .iter()
                .flat_map(|argv| brings(argv, folders, filled, self.context))
                .collect();
            more.extend(unpacks_in_code(part, folders));
            if depth > 0 {
                for text in &nested::texts(part, self.context.shell).commands {
                    let mut inner = filled.clone();
                    let bases = folders.unwrap_or_default();
                    self.parts(&text.parts, bases, &mut inner, depth - 1);
                    more.extend(inner);
                }
            }
            for place in more {
                if !filled.contains(&place) {
                    filled.push(place);
                }
            }
        }
    }

    fn folders(&self, part: &Part, bases: &[PathBuf]) -> Option<Vec<PathBuf>> {
        let mut all = Vec::new();
        for base in bases {
            for folder in folders_of(part, base, self.context)? {
                if !all.contains(&folder) {
                    all.push(folder);
                }
            }
        }
        Some(all)
    }

    fn through(
        &self,
        part: &Part,
        folders: Option<&[PathBuf]>,
        filled: &[Filled],
    ) -> Option<Through> {
        for touched in touched_by(part, folders, self.context) {
            let paths = match meaning_of(&touched.operand, folders, self.context) {
                Meaning::Paths(paths) => paths,
                Meaning::Pattern { patterns, .. } => patterns,
                // It asks by itself.
                Meaning::Unbounded => continue,
            };
            let by = paths
                .iter()
                .find_map(|path| self.leads_through(path, &touched, filled));
            if let Some(by) = by {
                return Some(Through {
                    path: touched.operand.text,
                    by: by.to_owned(),
                });
            }
        }
        None
    }

    /// The program that may have put a link into a path.
    fn leads_through<'f>(
        &self,
        path: &Path,
        touched: &Touched,
        filled: &'f [Filled],
    ) -> Option<&'f str> {
        let steps = steps(path);
        let mut here = PathBuf::from("/");
        for (at, step) in steps.iter().enumerate() {
            if step == ".." {
                here.pop();
                continue;
            }
            here.push(step);
            let rest = steps.get(at + 1..).unwrap_or_default();
            if !rest.is_empty() || touched.follows {
                for place in filled.iter().filter(|place| place.covers(&here)) {
                    let is_link = match nature(&here) {
                        Nature::Filled => {
                            place.replaces && (!touched.removes || self.could_be_vital(rest))
                        }
                        Nature::Empty | Nature::Other => true,
                    };
                    if is_link {
                        return Some(&place.by);
                    }
                }
            }
            if here.is_symlink() {
                here = real_folder(&here);
            }
        }
        None
    }

    /// Whether these steps could lead to something that nobody may lose, from wherever they begin.
    fn could_be_vital(&self, steps: &[OsString]) -> bool {
        let Some(last) = steps.last() else {
            return true;
        };
        let text = last.to_string_lossy();
        let top_level = Path::new("/").join(last).exists();
        let context = self.context;
        let holds = || {
            [&context.home, &context.machine.home, &context.config_home]
                .into_iter()
                .chain(&context.roots)
                .any(|vital| vital.iter().any(|name| name == last))
        };
        text.starts_with('.') || text.contains(['*', '?', '[', '{']) || top_level || holds()
    }
}

impl Filled {
    fn covers(&self, path: &Path) -> bool {
        path.starts_with(&self.place) && (self.itself || path != self.place)
    }
}

/// The kind of thing that has a name now.
enum Nature {
    /// A folder with something in it.
    Filled,
    /// An empty folder, which a link can replace.
    Empty,
    /// A file, a link, or nothing.
    Other,
}

fn nature(path: &Path) -> Nature {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            let first = std::fs::read_dir(path).map(|mut entries| entries.next());
            match first {
                Ok(None) => Nature::Empty,
                _ => Nature::Filled,
            }
        }
        _ => Nature::Other,
    }
}

fn steps(path: &Path) -> Vec<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// Everything that a part writes or removes, as far as its words say it.
fn touched_by(
    part: &Part,
    folders: Option<&[PathBuf]>,
    context: &PermissionContext,
) -> Vec<Touched> {
    let mut all = Vec::new();
    let mut add = |operand: PathOperand, follows: bool, removes: bool| {
        let ends_in_folder = ["/", "/."].iter().any(|end| operand.text.ends_with(end));
        all.push(Touched {
            operand,
            follows: follows || ends_in_folder,
            removes,
        });
    };
    for redirection in part.redirections.iter().filter(|one| one.writes()) {
        add(redirection.target.path(), true, false);
    }
    if let Some(command) = &part.file_command {
        let last = command.paths.len().saturating_sub(1);
        for (at, operand) in command.paths.iter().enumerate() {
            let operand = operand.clone();
            match command.action {
                FileAction::MakeFolder => {}
                FileAction::Touch => add(operand, true, false),
                FileAction::Copy | FileAction::Link if at < last => {}
                FileAction::Copy | FileAction::Link => add(operand, true, false),
                FileAction::Move => add(operand, at == last, at < last),
                FileAction::Remove | FileAction::RemoveFolder => add(operand, false, true),
                FileAction::EditInPlace => add(operand, false, false),
            }
        }
        if command.action == FileAction::Copy {
            for place in landing_places(&command.paths, folders, context) {
                if place.parent().is_some_and(Path::is_dir) {
                    add(PathOperand::literal(place.to_string_lossy()), true, false);
                }
            }
        }
    }
    for argv in &part.all_effective {
        let name = base_name(argv.first().and_then(Argument::fixed).unwrap_or_default());
        let removes = REMOVERS.contains(&name);
        let edits = matches!(name, "sed" | "perl" | "ruby");
        if EDITORS.contains(&name) {
            let files = argv.iter().skip(1).flat_map(Argument::paths);
            for file in files.filter(|file| !file.text.starts_with(['-', '+'])) {
                add(file, true, false);
            }
        }
        if part.file_command.is_none() {
            for operand in targets_of(argv) {
                add(operand, !removes && !edits, removes);
            }
        }
    }
    let last = part.all_effective.last().map_or(&[][..], Vec::as_slice);
    let name = base_name(last.first().and_then(Argument::fixed).unwrap_or_default());
    // `find` follows the links among its operands if it is told so.
    let told = last
        .iter()
        .any(|word| matches!(word.text(), "-L" | "-H" | "-follow"));
    let follows = !REMOVERS.contains(&name) && name != "mv" || name == "find" && told;
    for loss in &part.losses {
        add(loss.operand.clone(), follows, true);
    }
    for code in code(part)
        .iter()
        .filter(|code| code.changes || code.removes)
    {
        let paths = code.strings.iter().filter(|text| is_path(text));
        for text in paths {
            add(PathOperand::literal(text.clone()), true, code.removes);
        }
    }
    all.retain(|touched| touched.operand.kind != PathKind::Pipe);
    all
}

/// Whether a string of code reads like a path with folders in it.
fn is_path(text: &str) -> bool {
    text.contains('/')
        && text.len() <= 4096
        && !text.contains("://")
        && !text.contains(['\n', '\0', ' ', '<', '('])
}
