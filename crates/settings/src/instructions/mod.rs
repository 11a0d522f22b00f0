//! Instruction files: `AGENTS.md`, `CLAUDE.md` and their kin.
//!
//! At the start everything from the file-system root down to the working folder is loaded, nearest
//! last, so that what is nearer speaks later. Files of sub-folders and rules for certain paths are
//! loaded when a file there is touched ([`Instructions::on_touch`]). What is loaded says why, how
//! much of it was cut, and what it imported ([`imports`]).

mod candidates;
mod comments;
pub mod imports;
mod rules;

use crate::paths::Places;
use crate::write::hash;
use candidates::{Candidate, candidates_of};
use globset::{Glob, GlobSet, GlobSetBuilder};
use rules::Rule;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// How many bytes of one file are used at least, however small the model's window is.
pub const LARGEST_FILE: usize = 40_000;
/// The share of the model's window that one file may take: one in this many tokens.
const SHARE_OF_WINDOW: u64 = 4;
/// The assumed length of a token.
const BYTES_PER_TOKEN: u64 = 4;

/// How many bytes of one file are used with a model's window.
#[must_use]
pub fn largest_file(window_tokens: u64) -> usize {
    let share = window_tokens * BYTES_PER_TOKEN / SHARE_OF_WINDOW;
    usize::try_from(share).map_or(LARGEST_FILE, |share| share.max(LARGEST_FILE))
}
/// How deep imports go.
pub const DEEPEST_IMPORT: usize = 5;

/// Whose words a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// The company's.
    Managed,
    /// The user's own, for every project.
    User,
    /// The project's.
    Project,
    /// The user's own, for this project.
    Local,
}

/// Why a file was loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "camelCase")]
pub enum Reason {
    /// It holds for every session here.
    Start,
    /// Another instruction file imports it.
    Import {
        /// That file.
        by: PathBuf,
    },
    /// It lies beside or above a file that was touched.
    Folder {
        /// The touched file.
        touched: PathBuf,
    },
    /// It is a rule for a file that was touched.
    Rule {
        /// The rule's patterns.
        patterns: Vec<String>,
        /// The touched file.
        touched: PathBuf,
    },
}

impl Reason {
    /// The reason in words.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Start => "applies to every session in this folder".to_owned(),
            Self::Import { by } => format!("imported by {}", by.display()),
            Self::Folder { touched } => format!(
                "applies to {}, which was read or changed",
                touched.display()
            ),
            Self::Rule { patterns, touched } => {
                format!(
                    "is a rule for {}; {} was touched",
                    patterns.join(", "),
                    touched.display()
                )
            }
        }
    }
}

/// A file that was loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstructionFile {
    /// The file.
    pub path: PathBuf,
    /// Whose words it is.
    pub scope: Scope,
    /// Why it was loaded.
    pub reason: Reason,
    /// The part that is used.
    #[serde(skip)]
    pub text: String,
    /// How many bytes the file has.
    pub bytes: u64,
    /// How many of them were cut off.
    pub cut: u64,
}

impl InstructionFile {
    /// The text, with a line at the end that says what was cut.
    #[must_use]
    pub fn text_with_notice(&self) -> String {
        if self.cut == 0 {
            return self.text.clone();
        }
        format!(
            "{}\n\n[Truncated: {} of {} bytes omitted. Read {} for the rest.]",
            self.text.trim_end(),
            self.cut,
            self.bytes,
            self.path.display()
        )
    }
}

/// Something that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub why: String,
    /// Whether the user's approval would change that (an import from outside the roots).
    pub needs_approval: bool,
}

/// Says why a file may not be shown to a model: it may hold secrets, or a rule forbids reading it.
#[derive(Clone, Default)]
pub struct ReadCheck(Option<Arc<ReadCheckFunction>>);

type ReadCheckFunction = dyn Fn(&Path) -> Option<String> + Send + Sync;

impl ReadCheck {
    /// A check by a function that gives the reason, or `None` if the file may be shown.
    pub fn new(check: impl Fn(&Path) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(check)))
    }

    fn refuses(&self, path: &Path) -> Option<String> {
        self.0.as_ref().and_then(|check| check(path))
    }
}

impl std::fmt::Debug for ReadCheck {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_some() {
            "ReadCheck"
        } else {
            "no check"
        })
    }
}

/// Options of the discovery.
#[derive(Debug, Clone, Default)]
pub struct InstructionOptions {
    /// The rules for reading. They hold for everything but the files of the config home and of the company.
    pub read_check: ReadCheck,
    /// Further folders that may be worked in.
    pub roots: Vec<PathBuf>,
    /// Whether the user has approved imports from outside the roots.
    pub outside_imports: bool,
    /// Patterns over absolute paths of files that are never loaded.
    pub excludes: Vec<String>,
    /// How many bytes of one file are used; 0 is [`LARGEST_FILE`].
    pub largest_file: usize,
    /// Not those of the project (`--setting-sources` without `project`).
    pub without_project: bool,
    /// Not those of the user for every project (`--setting-sources` without `user`).
    pub without_user: bool,
    /// Not those of the user for this project (`--setting-sources` without `local`).
    pub without_local: bool,
}

impl InstructionOptions {
    fn largest(&self) -> usize {
        self.largest_file.max(LARGEST_FILE)
    }
}

/// A file that changed since it was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedInstruction {
    /// The file.
    pub path: PathBuf,
    /// Its current content; `None` when it is gone.
    pub now: Option<InstructionFile>,
}

/// All instruction files of a session.
#[derive(Debug)]
pub struct Instructions {
    places: Places,
    options: InstructionOptions,
    excludes: GlobSet,
    loaded: Vec<InstructionFile>,
    skipped: BTreeSet<Skipped>,
    rules: Vec<Rule>,
    /// Real paths of what was looked at, so that nothing is loaded twice.
    known_files: HashSet<PathBuf>,
    known_contents: HashMap<[u8; 32], PathBuf>,
    known_folders: HashSet<PathBuf>,
    waiting: Vec<Waiting>,
    /// Texts that the model gets in the place of files, as the user decided for this session.
    replaced: HashMap<PathBuf, String>,
}

/// An import that waits for the user's approval.
#[derive(Debug)]
struct Waiting {
    by: PathBuf,
    scope: Scope,
    import: String,
    depth: usize,
}

impl Instructions {
    /// Loads what holds from the start.
    #[must_use]
    pub fn discover(places: &Places, options: InstructionOptions) -> Self {
        let mut builder = GlobSetBuilder::new();
        for pattern in &options.excludes {
            if let Ok(glob) = Glob::new(pattern) {
                builder.add(glob);
            }
        }
        let mut instructions = Self {
            places: places.clone(),
            excludes: builder.build().unwrap_or_default(),
            options,
            loaded: Vec::new(),
            skipped: BTreeSet::new(),
            rules: Vec::new(),
            known_files: HashSet::new(),
            known_contents: HashMap::new(),
            known_folders: HashSet::new(),
            waiting: Vec::new(),
            replaced: HashMap::new(),
        };
        instructions.load_own(&places.managed, Scope::Managed);
        if !instructions.options.without_user {
            for home in places.claude_home.iter().chain([&places.config_home]) {
                instructions.load_own(home, Scope::User);
            }
        }
        let mut folders: Vec<&Path> = places.environment.cwd.ancestors().collect();
        folders.reverse();
        for folder in folders {
            instructions.load_folder(folder, &Reason::Start);
        }
        instructions
    }

    /// The same for another conversation, which works in a folder: it has what holds there from the
    /// start, and nothing of what was touched here.
    #[must_use]
    pub fn for_folder(&self, folder: &Path) -> Self {
        let mut places = self.places.clone();
        folder.clone_into(&mut places.environment.cwd);
        let mut instructions = Self::discover(&places, self.options.clone());
        instructions.replaced.clone_from(&self.replaced);
        instructions
    }

    /// Puts another text in the place of a file, or with `None` the file back.
    pub fn replace(&mut self, path: &Path, text: Option<String>) {
        match text {
            Some(text) => self.replaced.insert(path.to_owned(), text),
            None => self.replaced.remove(path),
        };
    }

    /// The text that stands in the place of a file.
    #[must_use]
    pub fn replacement(&self, path: &Path) -> Option<&str> {
        self.replaced.get(path).map(String::as_str)
    }

    /// The loaded files, in the order in which the model gets them.
    #[must_use]
    pub fn files(&self) -> &[InstructionFile] {
        &self.loaded
    }

    /// The files that were left out, and why.
    pub fn skipped(&self) -> impl Iterator<Item = &Skipped> {
        self.skipped.iter()
    }

    /// Loads what belongs to a file that is read or changed: instruction files of the folders between
    /// a root and it, and rules for its path. Returns what is new.
    pub fn on_touch(&mut self, path: &Path) -> Vec<InstructionFile> {
        let path = folded(&self.places.environment.cwd.join(path));
        let before = self.loaded.len();
        let roots = self.roots();
        if let Some(root) = roots
            .iter()
            .filter(|root| path.starts_with(root))
            .max_by_key(|root| root.as_os_str().len())
        {
            let mut folders: Vec<PathBuf> = path
                .ancestors()
                .skip(1)
                .take_while(|folder| folder.starts_with(root))
                .filter(|folder| !self.known_folders.contains(*folder))
                .map(Path::to_path_buf)
                .collect();
            folders.reverse();
            for folder in folders {
                self.load_folder(
                    &folder,
                    &Reason::Folder {
                        touched: path.clone(),
                    },
                );
            }
        }
        for index in 0..self.rules.len() {
            if let Some(patterns) = self.rules[index].covers(&path) {
                let rule = self.rules[index].clone();
                self.load(
                    &rule.path,
                    rule.scope,
                    &Reason::Rule {
                        patterns,
                        touched: path.clone(),
                    },
                    0,
                );
            }
        }
        self.loaded[before..].to_vec()
    }

    /// Looks whether files changed since they were loaded, went away, or appeared in folders that
    /// were looked at; takes over what they say now, and returns those.
    pub fn changed(&mut self) -> Vec<ChangedInstruction> {
        let mut changed = Vec::new();
        let largest = self.options.largest();
        let closed: HashSet<PathBuf> = self
            .loaded
            .iter()
            .filter(|file| {
                let depth = usize::from(matches!(file.reason, Reason::Import { .. }));
                self.refusal(&file.path, file.scope, depth).is_some()
            })
            .map(|file| file.path.clone())
            .collect();
        self.loaded.retain_mut(|file| {
            let read = if closed.contains(&file.path) {
                Err(std::io::ErrorKind::PermissionDenied.into())
            } else {
                read_bounded(&file.path, largest)
            };
            let Ok((text, bytes)) = read else {
                changed.push(ChangedInstruction {
                    path: file.path.clone(),
                    now: None,
                });
                return false;
            };
            let (text, cut) = usable(&text, bytes, largest);
            if text == file.text && bytes == file.bytes {
                return true;
            }
            file.text = text;
            file.bytes = bytes;
            file.cut = cut;
            changed.push(ChangedInstruction {
                path: file.path.clone(),
                now: Some(file.clone()),
            });
            true
        });
        for change in &changed {
            self.known_contents.retain(|_, path| *path != change.path);
            match &change.now {
                Some(file) => {
                    self.known_contents
                        .insert(content_hash(&file.text), file.path.clone());
                }
                None => {
                    self.known_files.remove(&real(&change.path));
                }
            }
        }
        let before = self.loaded.len();
        let rewritten: Vec<InstructionFile> = changed
            .iter()
            .filter_map(|change| change.now.clone())
            .collect();
        for file in rewritten {
            for import in imports::imports_of(&file.text) {
                self.import(&file.path, file.scope, &import, 0);
            }
        }
        self.look_for_new_files();
        let new = self.loaded[before..].iter();
        changed.extend(new.map(|file| ChangedInstruction {
            path: file.path.clone(),
            now: Some(file.clone()),
        }));
        changed
    }

    fn look_for_new_files(&mut self) {
        let mut folders: Vec<PathBuf> = self.known_folders.iter().cloned().collect();
        folders.sort();
        for folder in folders {
            for candidate in self.wanted(&folder) {
                if let Candidate::File { path, scope } = candidate {
                    self.load(&path, scope, &Reason::Start, 0);
                }
            }
        }
    }

    /// The user approves imports from outside: loads those that waited for it, and returns them.
    pub fn approve_outside_imports(&mut self) -> Vec<InstructionFile> {
        self.options.outside_imports = true;
        self.skipped.retain(|skipped| !skipped.needs_approval);
        let before = self.loaded.len();
        for waiting in std::mem::take(&mut self.waiting) {
            self.import(&waiting.by, waiting.scope, &waiting.import, waiting.depth);
        }
        self.loaded[before..].to_vec()
    }

    /// A further folder may be worked in from now on.
    pub fn add_root(&mut self, root: PathBuf) {
        self.options.roots.push(root);
    }

    /// The folders that may be worked in.
    fn roots(&self) -> Vec<PathBuf> {
        let cwd = &self.places.environment.cwd;
        let mut roots = vec![cwd.clone(), self.places.project.clone()];
        roots.extend(self.options.roots.iter().map(|root| cwd.join(root)));
        roots
    }

    /// The files of the config home or the managed folder.
    fn load_own(&mut self, folder: &Path, scope: Scope) {
        for name in ["AGENTS.md", "CLAUDE.md"] {
            self.load(&folder.join(name), scope, &Reason::Start, 0);
        }
        self.take_rules(
            &folder.join("rules"),
            scope,
            &self.places.project.clone(),
            &Reason::Start,
        );
    }

    fn load_folder(&mut self, folder: &Path, reason: &Reason) {
        if !self.known_folders.insert(folder.to_path_buf()) {
            return;
        }
        for candidate in self.wanted(folder) {
            match candidate {
                Candidate::File { path, scope } => self.load(&path, scope, reason, 0),
                Candidate::Rules { path } => self.take_rules(&path, Scope::Project, folder, reason),
            }
        }
    }

    /// The candidates of a folder that belong to the sources that were selected.
    fn wanted(&self, folder: &Path) -> Vec<Candidate> {
        // In the home folder, `.claude` and `.lathe` are the user's own and not a project's.
        let home = self.places.environment.home.as_deref() == Some(folder);
        let mut candidates = candidates_of(folder);
        candidates.retain(|candidate| {
            let left_out = match candidate {
                Candidate::File {
                    scope: Scope::Local,
                    ..
                } => self.options.without_local,
                Candidate::File { .. } | Candidate::Rules { .. } => self.options.without_project,
            };
            !left_out && (!home || candidate.path().parent() == Some(folder))
        });
        candidates
    }

    fn take_rules(&mut self, folder: &Path, scope: Scope, base: &Path, reason: &Reason) {
        for rule in rules::rules_in(folder, scope, base) {
            match rule {
                Ok(rule) if rule.is_always() => self.load(&rule.path, scope, reason, 0),
                Ok(rule) => self.rules.push(rule),
                Err(skipped) => {
                    self.skipped.insert(skipped);
                }
            }
        }
    }

    fn load(&mut self, path: &Path, scope: Scope, reason: &Reason, depth: usize) {
        if !path.exists() {
            return;
        }
        let real_path = real(path);
        if self.known_files.contains(&real_path) || self.excludes.is_match(path) {
            return;
        }
        if let Some(refusal) = self.refusal(path, scope, depth) {
            let outside = refusal == Refusal::Outside;
            let why = match refusal {
                Refusal::Outside => format!(
                    "is a link to {}, which is outside the working folders",
                    real_path.display()
                ),
                Refusal::Reason(why) => why,
            };
            self.skip(path, &why, outside);
            if outside {
                self.waiting.push(Waiting {
                    by: path.to_path_buf(),
                    scope,
                    import: path.to_string_lossy().into_owned(),
                    depth,
                });
            }
            return;
        }
        let largest = self.options.largest();
        let Ok((text, bytes)) = read_bounded(path, largest) else {
            return;
        };
        if text.contains('\0') {
            self.known_files.insert(real_path);
            self.skip(path, "is not a text", false);
            return;
        }
        let (text, cut) = usable(&text, bytes, largest);
        if text.trim().is_empty() {
            return;
        }
        if let Some(same) = self.known_contents.get(&content_hash(&text)) {
            let why = format!("is a duplicate of {}", same.display());
            self.skip(path, &why, false);
            return;
        }
        self.known_files.insert(real_path);
        self.known_contents
            .insert(content_hash(&text), path.to_path_buf());
        let imported = imports::imports_of(&text);
        self.loaded.push(InstructionFile {
            path: path.to_path_buf(),
            scope,
            reason: reason.clone(),
            text,
            bytes,
            cut,
        });
        for import in imported {
            self.import(path, scope, &import, depth);
        }
    }

    fn import(&mut self, by: &Path, scope: Scope, import: &str, depth: usize) {
        let folder = by.parent().unwrap_or(Path::new("/"));
        let path = self.places.environment.resolve_from(import, folder);
        // Without a file of that name it was no import, but an address or a name of someone.
        if !path.is_file() {
            if import.contains('/') && imports::looks_like_text(&path) {
                let why = format!("is imported by {} but does not exist", by.display());
                self.skip(&path, &why, false);
            }
            return;
        }
        if depth >= DEEPEST_IMPORT {
            let why = format!("is imported more than {DEEPEST_IMPORT} levels deep");
            self.skip(&path, &why, false);
            return;
        }
        if !self.may_import(&path, folder, scope) {
            let why = format!(
                "is imported by {} and is outside the working folders",
                by.display()
            );
            self.skip(&path, &why, true);
            self.waiting.push(Waiting {
                by: by.to_path_buf(),
                scope,
                import: import.to_owned(),
                depth,
            });
            return;
        }
        self.load(
            &path,
            scope,
            &Reason::Import {
                by: by.to_path_buf(),
            },
            depth + 1,
        );
    }

    /// Why a file may not be loaded. The user's own files and the company's may be anything; what they import, and
    /// what comes with a folder, is held to the rules for reading, with links followed.
    fn refusal(&self, path: &Path, scope: Scope, depth: usize) -> Option<Refusal> {
        let own = matches!(scope, Scope::Managed | Scope::User);
        if own && depth == 0 {
            return None;
        }
        let real_path = real(path);
        for form in [path, &real_path] {
            if let Some(why) = self.options.read_check.refuses(form) {
                return Some(Refusal::Reason(format!("is not shown: {why}")));
            }
        }
        if own {
            return None;
        }
        if is_planted(&real_path) {
            let why = "belongs to another user, in a folder that everyone may write to".to_owned();
            return Some(Refusal::Reason(why));
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        let inside = real_path.starts_with(real(folder)) || self.may_import(path, folder, scope);
        (!inside).then_some(Refusal::Outside)
    }

    /// User and managed files may import anything; files of a folder only paths
    /// in the roots or beside the file itself, until the user approves.
    fn may_import(&self, path: &Path, folder: &Path, scope: Scope) -> bool {
        if self.options.outside_imports || matches!(scope, Scope::Managed | Scope::User) {
            return true;
        }
        let path = real(path);
        let mut allowed = self.roots();
        allowed.push(self.places.config_home.clone());
        // A file above the working folder may import from its own repository.
        let repository = folder
            .ancestors()
            .find(|folder| folder.join(".git").exists());
        allowed.extend(repository.map(Path::to_path_buf));
        allowed.iter().any(|root| path.starts_with(real(root)))
    }

    fn skip(&mut self, path: &Path, why: &str, needs_approval: bool) {
        self.skipped.insert(Skipped {
            path: path.to_path_buf(),
            why: why.to_owned(),
            needs_approval,
        });
    }
}

/// Why a file is not loaded.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It is a link that leads out of the working folders.
    Outside,
    /// In words.
    Reason(String),
}

/// Whether another user could have put a file there: it is theirs, and everyone may write to a folder above it.
fn is_planted(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let owner = fs::metadata(path).map(|metadata| metadata.uid());
    let me = nix::unistd::geteuid().as_raw();
    if owner.is_ok_and(|owner| owner == me || owner == 0) {
        return false;
    }
    path.ancestors()
        .skip(1)
        .any(|folder| fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o002 != 0))
}

/// Blanks around a text make no difference.
fn content_hash(text: &str) -> [u8; 32] {
    hash(text.trim().as_bytes())
}

/// The path with `.` and `..` resolved, without asking the file system.
fn folded(path: &Path) -> PathBuf {
    path.components()
        .fold(PathBuf::new(), |mut folded, component| {
            match component {
                Component::CurDir => {}
                Component::ParentDir => {
                    folded.pop();
                }
                other => folded.push(other),
            }
            folded
        })
}

fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Reads the part of a file that can be used, and its length. Anything but a regular file is refused: a
/// pipe would make the start wait.
fn read_bounded(path: &Path, largest: usize) -> std::io::Result<(String, u64)> {
    if !fs::metadata(path)?.is_file() {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let file = fs::File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut content = Vec::new();
    file.take(largest as u64 + 8 * 1024)
        .read_to_end(&mut content)?;
    Ok((String::from_utf8_lossy(&content).into_owned(), bytes))
}

/// The text of a file for the model, without front matter and comments, and how many bytes were cut off.
fn usable(text: &str, bytes: u64, largest: usize) -> (String, u64) {
    let (text, cut) = bounded(rules::without_front_matter(text), bytes, largest);
    (comments::without_comments(text), cut)
}

/// The text up to the last whole line within the bound, and how many bytes that leaves out.
fn bounded(text: &str, bytes: u64, largest: usize) -> (String, u64) {
    if text.len() <= largest && bytes <= largest as u64 + 4 * 1024 {
        return (text.to_owned(), 0);
    }
    let end = text.floor_char_boundary(largest.min(text.len()));
    let kept = text[..end]
        .rfind('\n')
        .map_or(&text[..end], |line| &text[..=line]);
    (kept.to_owned(), bytes.saturating_sub(kept.len() as u64))
}
