//! Links that a command makes before it uses them.
//!
//! `ln -s ~ l; rm -rf l/*` removes what is in the home folder, though nothing of the name `l` leads there when the
//! command is judged. So every path of a command is also looked at as it would be once the links of the same command
//! exist: links by `ln` and `cp`, names that a link gets by being moved or copied, and folders that are mounted elsewhere.

use super::code::code;
use super::nested;
use super::operand::{Meaning, folders_of, meaning_of};
use crate::broad::base_name;
use crate::context::PermissionContext;
use crate::path::fold;
use lathe_shell::analysis::{Analysis, Argument, Part, PathOperand};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// How many links of a command are followed, and how many ways a path may lead then.
const MOST_LINKS: usize = 64;
const MOST_WAYS: usize = 64;
/// How deep texts in texts are looked at.
const MOST_NESTED: usize = 2;

/// A name that leads elsewhere once a command has run in part.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MadeLink {
    link: PathBuf,
    /// It is about every name in the folder `link` that doesn't exist yet.
    any_name: bool,
    /// `None` if that can't be known.
    target: Option<PathBuf>,
}

impl MadeLink {
    fn is_at(&self, path: &Path) -> bool {
        if self.any_name {
            return path.parent() == Some(&self.link) && std::fs::symlink_metadata(path).is_err();
        }
        self.link == path
    }
}

/// The links that a command makes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MadeLinks(Vec<MadeLink>);

/// Where a path may lead with the links that a command makes.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    pub(crate) paths: Vec<PathBuf>,
    /// It may also lead somewhere that can't be known.
    pub(crate) unknown: bool,
}

impl MadeLinks {
    pub(crate) fn of(analysis: &Analysis, cwd: &Path, context: &PermissionContext) -> Self {
        let mut made = Self::default();
        for part in &analysis.parts {
            let folders = folders_of(part, cwd, context);
            made.add(part, folders.as_deref(), context, MOST_NESTED);
        }
        made
    }

    fn add(
        &mut self,
        part: &Part,
        folders: Option<&[PathBuf]>,
        context: &PermissionContext,
        depth: usize,
    ) {
        if part.read_only.is_yes() {
            return;
        }
        for argv in &part.all_effective {
            self.add_command(argv, folders, context);
        }
        if code(part).iter().any(|code| code.links) {
            for folder in folders.unwrap_or_default() {
                self.push_any(folder);
            }
        }
        let may_link = ["ln ", "cp ", "mv ", "link ", "mount ", "ymlink"]
            .iter()
            .any(|word| part.text.contains(word));
        if depth == 0 || !may_link {
            return;
        }
        for inner in nested::texts(part, context.shell)
            .commands
            .iter()
            .flat_map(|analysis| &analysis.parts)
        {
            self.add(inner, folders, context, depth - 1);
        }
    }

    fn add_command(
        &mut self,
        argv: &[Argument],
        folders: Option<&[PathBuf]>,
        context: &PermissionContext,
    ) {
        let Some((first, words)) = argv.split_first() else {
            return;
        };
        let kind = match base_name(first.fixed().unwrap_or_default()) {
            "ln" | "gln" | "cp" | "gcp" if has(words, "--symbolic-link", 's') => Kind::Symbolic,
            "cp" | "gcp" if has(words, "--link", 'l') => Kind::Same,
            "ln" | "gln" | "link" => Kind::Same,
            "mount" if binds(words) => Kind::Mounted,
            "cp" | "gcp" | "mv" | "gmv" => Kind::Moved,
            "docker" | "podman" | "nerdctl" => {
                for (place, target) in shared_with_container(words, &context.home) {
                    self.push(Kind::Mounted, place, Some(target));
                }
                return;
            }
            _ => return,
        };
        let (targets, places) = sides(words);
        for target in targets {
            for place in &places {
                self.add_pair(kind, target, place.as_ref(), folders, context);
            }
        }
    }

    fn add_pair(
        &mut self,
        kind: Kind,
        target: &Argument,
        place: Option<&Argument>,
        folders: Option<&[PathBuf]>,
        context: &PermissionContext,
    ) {
        let named = place.map_or_else(|| PathOperand::literal("."), Argument::path);
        // A place that can't be known is a write that can't be known, which asks by itself.
        let Meaning::Paths(places) = meaning_of(&named, folders, context) else {
            return;
        };
        for place in places.iter().map(|place| fold(place)) {
            let is_folder = std::fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir());
            let mounts = kind == Kind::Mounted;
            // The place itself, unless it is a folder already; a name in it, if it is one by then.
            if let Some(parent) = place.parent().filter(|_| mounts || !is_folder) {
                for target in targets_of(target, parent, kind, folders, context) {
                    self.push(kind, place.clone(), target);
                }
            }
            for target in targets_of(target, &place, kind, folders, context) {
                if mounts {
                    continue;
                }
                let name = target.as_deref().map(fold);
                match name.as_ref().map(|target| target.file_name()) {
                    Some(Some(name)) => self.push(kind, place.join(name), target),
                    Some(None) => {}
                    None => self.push_any(&place),
                }
            }
        }
    }

    fn push(&mut self, kind: Kind, link: PathBuf, target: Option<PathBuf>) {
        // What is moved or copied leads elsewhere only if it is a link itself.
        if kind == Kind::Moved {
            let leads = target.as_ref().is_some_and(|target| {
                self.0.iter().any(|made| made.link == fold(target))
                    || std::fs::symlink_metadata(target).is_ok_and(|found| found.is_symlink())
            });
            if !leads {
                return;
            }
        }
        let made = MadeLink {
            link,
            any_name: false,
            target,
        };
        let leads_to_itself = made.target.as_deref().map(fold).as_ref() == Some(&made.link);
        if self.0.len() < MOST_LINKS && !leads_to_itself && !self.0.contains(&made) {
            self.0.push(made);
        }
    }

    /// A link of a name and a target that can't be known.
    fn push_any(&mut self, folder: &Path) {
        self.0.push(MadeLink {
            link: folder.to_path_buf(),
            any_name: true,
            target: None,
        });
    }

    /// Where a path may lead, beside where it leads without the links.
    pub(crate) fn behind(&self, path: &Path) -> Behind {
        let mut behind = Behind::default();
        if self.0.is_empty() {
            return behind;
        }
        let mut waiting = vec![Way {
            here: PathBuf::from("/"),
            rest: steps(path),
            followed: 0,
        }];
        let mut tried = 0;
        while let Some(mut way) = waiting.pop() {
            tried += 1;
            if tried > MOST_WAYS {
                behind.unknown = true;
                break;
            }
            while let Some(step) = way.rest.pop() {
                if step == ".." {
                    way.here.pop();
                    continue;
                }
                way.here.push(step);
                for made in self.0.iter().filter(|made| made.is_at(&way.here)) {
                    match &made.target {
                        None => behind.unknown = true,
                        Some(_) if way.followed >= MOST_LINKS => behind.unknown = true,
                        Some(target) => {
                            let mut rest = way.rest.clone();
                            rest.extend(steps(target));
                            waiting.push(Way {
                                here: PathBuf::from("/"),
                                rest,
                                followed: way.followed + 1,
                            });
                        }
                    }
                }
            }
            if way.followed > 0 && !behind.paths.contains(&way.here) {
                behind.paths.push(way.here);
            }
        }
        behind
    }
}

/// A path on its way: where it is, and the steps to go, the next one last.
struct Way {
    here: PathBuf,
    rest: Vec<OsString>,
    followed: usize,
}

fn steps(path: &Path) -> Vec<OsString> {
    path.components()
        .rev()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// How a name comes to lead elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A symbolic link, whose target is relative to where the link is.
    Symbolic,
    /// Another name for the same file or folder.
    Same,
    /// A folder that is another one from now on.
    Mounted,
    /// A name that a link gets.
    Moved,
}

/// The paths that a link with these words would lead to; `None` stands for one that can't be known.
fn targets_of(
    target: &Argument,
    folder: &Path,
    kind: Kind,
    folders: Option<&[PathBuf]>,
    context: &PermissionContext,
) -> Vec<Option<PathBuf>> {
    let own = [folder.to_path_buf()];
    let bases = if kind == Kind::Symbolic {
        Some(own.as_slice())
    } else {
        folders
    };
    match meaning_of(&target.path(), bases, context) {
        Meaning::Paths(targets) => targets.into_iter().map(Some).collect(),
        Meaning::Pattern { .. } | Meaning::Unbounded => vec![None],
    }
}

/// The folders that a container sees under another name: its name there, and the folder (`-v ~/x:/x`).
fn shared_with_container(words: &[Argument], home: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    let mut named = false;
    for word in words {
        let source = match word {
            Argument::Fixed(text) => text.as_str(),
            Argument::Variable(variable) => variable.source.as_str(),
        };
        let plain = source.replace(['"', '\''], "");
        let attached = ["--volume=", "--mount=", "-v"]
            .iter()
            .find_map(|option| plain.strip_prefix(option))
            .filter(|value| !value.is_empty());
        if let Some(shared) = attached.or(named.then_some(plain.as_str())) {
            found.extend(share(shared, home));
        }
        named = matches!(plain.as_str(), "-v" | "--volume" | "--mount");
    }
    found
}

/// `folder:name`, or `type=bind,source=folder,target=name`.
fn share(text: &str, home: &Path) -> Option<(PathBuf, PathBuf)> {
    let field = |names: &[&str]| {
        let mut fields = text.split(',').filter_map(|field| field.split_once('='));
        fields
            .find(|(name, _)| names.contains(name))
            .map(|(_, value)| value)
    };
    let (folder, name) = match (
        field(&["source", "src"]),
        field(&["target", "destination", "dst"]),
    ) {
        (Some(folder), Some(name)) => (folder, name),
        _ => {
            let mut parts = text.split(':');
            (parts.next()?, parts.next()?)
        }
    };
    let below_home = ["$HOME", "${HOME}", "~"]
        .iter()
        .find_map(|start| folder.strip_prefix(start))
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let folder = match below_home {
        Some(rest) => home.join(rest.trim_start_matches('/')),
        None => PathBuf::from(folder),
    };
    let both = folder.is_absolute() && name.starts_with('/');
    both.then(|| (fold(Path::new(name)), folder))
}

/// Whether a mount makes a folder appear a second time.
fn binds(words: &[Argument]) -> bool {
    words.iter().any(|word| {
        let text = word.text();
        text == "-B" || text == "-R" || text.contains("bind")
    })
}

/// Whether a command has an option, in one of its spellings.
fn has(words: &[Argument], long: &str, short: char) -> bool {
    words.iter().filter_map(Argument::fixed).any(|text| {
        let abbreviated = text.len() > 3 && long.starts_with(text);
        abbreviated || text.starts_with('-') && !text.starts_with("--") && text.contains(short)
    })
}

/// The words that a command links, moves or mounts, and their places; `None` for the folder that it runs in.
pub(super) fn sides(words: &[Argument]) -> (Vec<&Argument>, Vec<Option<Argument>>) {
    let mut operands: Vec<&Argument> = Vec::new();
    let mut place = None;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.text();
        let short = text.starts_with('-') && !text.starts_with("--");
        if let Some(folder) = text.strip_prefix("--target-directory=") {
            place = Some(Argument::Fixed(folder.to_owned()));
        } else if short && text.ends_with('t') || text == "--target-directory" {
            place = rest.next().cloned();
        } else if let Some((_, folder)) = text.split_once('t').filter(|_| short) {
            place = Some(Argument::Fixed(folder.to_owned()));
        } else if matches!(text, "-o" | "-S" | "--suffix" | "--types") {
            rest.next();
        } else if word.fixed().is_none() || !text.starts_with('-') {
            operands.push(word);
        }
    }
    if place.is_some() {
        return (operands, vec![place]);
    }
    match operands.as_slice() {
        [_] => (operands, vec![None]),
        [.., last] => {
            let place = vec![Some((*last).clone())];
            operands.pop();
            (operands, place)
        }
        [] => (operands, Vec::new()),
    }
}
