//! The patterns of rules: paths, commands, domains and words.
//!
//! Path patterns are those of `.gitignore`: `*` and `?` stay within a name, `**` crosses folders, a
//! pattern without a slash in it matches at any depth, and a matched folder matches everything in it.
//! Their prefix selects the base folder: `//abs`, `~/home`, `/the settings file's folder`,
//! `./` or nothing for the session's folder.

use crate::path::{fold, real_folder};
use crate::word_pattern::{WordPatterns, with_tilde};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Why the content of a rule is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A path that begins with `!`.
    #[error(
        "a rule can't be negated with `!`; write a rule of another kind, or `\\!` for a name that starts so"
    )]
    Negated,
    /// A path with a NUL.
    #[error("a path has no NUL character")]
    Nul,
    /// A path that is no glob.
    #[error("not a path pattern: {0}")]
    NotAPath(globset::Error),
    /// `~name`.
    #[error("`~name` is not supported; write the folder in full, after `//`")]
    OtherHome,
    /// A command that is only `time`.
    #[error(
        "`time` only measures, and rules are compared with the command after it; write a rule for that command"
    )]
    OnlyTime,
    /// A quote without its end.
    #[error("its quotes are not balanced")]
    Quotes,
    /// `:*` alone.
    #[error("`:*` needs words before it; write Bash alone for every command")]
    NoWords,
    /// An address without `domain:`.
    #[error("rules for addresses name a host: WebFetch(domain:example.com)")]
    NoHost,
    /// `domain:` without a host.
    #[error("`{0}` is not a host; write domain:example.com or domain:*.example.com")]
    NotAHost(String),
}

/// The base folders of path patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchors {
    /// The user's home.
    pub home: PathBuf,
    /// The session's folder.
    pub cwd: PathBuf,
    /// The folder that a settings file's `/` means.
    pub settings_folder: PathBuf,
    /// A project and the worktree of it that is worked in: a pattern of the one holds in the other too.
    pub twins: Option<Twins>,
}

/// A project and a worktree that is worked in instead of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twins {
    /// The project's folder.
    pub project: PathBuf,
    /// The worktree.
    pub worktree: PathBuf,
}

impl Twins {
    /// The same place in the other of the two. A worktree may lie in its project.
    #[must_use]
    pub fn other(&self, path: &Path) -> Option<PathBuf> {
        let pairs = [
            (&self.worktree, &self.project),
            (&self.project, &self.worktree),
        ];
        let moved = |(from, to): (&PathBuf, &PathBuf)| Some(to.join(path.strip_prefix(from).ok()?));
        pairs.into_iter().find_map(moved)
    }
}

/// A path pattern, ready to compare.
#[derive(Debug, Clone)]
pub struct PathPattern {
    exact: GlobSet,
    sources: Vec<String>,
    folded: OnceLock<Option<GlobSet>>,
    named: PathBuf,
    /// The pattern as written, and the folders that it is relative to.
    origin: Arc<(String, Anchors)>,
}

impl PathPattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If the content is not such a pattern.
    pub fn new(content: &str, anchors: &Anchors) -> Result<Self, PatternError> {
        if content.starts_with('!') {
            return Err(PatternError::Negated);
        }
        if content.contains('\0') {
            return Err(PatternError::Nul);
        }
        let (base, rest) = anchored(content, anchors)?;
        let rest = rest.trim_start_matches('/');
        let body = rest.trim_end_matches('/');
        let anchored_by_slash = body.contains('/') || base.1;
        let mut named = base.0.clone();
        named.extend(
            body.split('/')
                .filter(|name| !name.is_empty() && *name != "**"),
        );
        while named.file_name().is_some_and(|name| name == "*") {
            named.pop();
        }
        // Home or the session's folder may be reached through a link; both ways are meant.
        let real = real_folder(&base.0);
        let twin = anchors.twins.as_ref();
        let twin = twin.and_then(|twins| twins.other(&base.0).or_else(|| twins.other(&real)));
        let bases = std::iter::once(&base.0)
            .chain(Some(&real).filter(|real| **real != base.0))
            .chain(&twin);
        let mut sources = Vec::new();
        for base in bases {
            let base = globset::escape(&base.to_string_lossy());
            let base = base.trim_end_matches('/');
            let core = match (body, anchored_by_slash) {
                ("" | "**", _) => base.to_owned(),
                (body, true) => format!("{base}/{body}"),
                (body, false) => format!("{base}/**/{body}"),
            };
            let core = core.strip_suffix("/**").unwrap_or(&core);
            if core.is_empty() {
                sources.push("/".to_owned());
            } else {
                sources.push(core.to_owned());
            }
            sources.push(format!("{core}/**"));
        }
        let exact = compile(&sources, false).map_err(PatternError::NotAPath)?;
        Ok(Self {
            exact,
            sources,
            folded: OnceLock::new(),
            named,
            origin: Arc::new((content.to_owned(), anchors.clone())),
        })
    }

    /// The same pattern where a worktree is worked in, or none.
    pub(crate) fn with_twins(&self, twins: Option<&Twins>) -> Self {
        let (content, anchors) = &*self.origin;
        let anchors = Anchors {
            twins: twins.cloned(),
            ..anchors.clone()
        };
        // It was understood once.
        Self::new(content, &anchors).unwrap_or_else(|_| self.clone())
    }

    /// The pattern as a path, without `**` and without trailing stars: what it is about. A rule
    /// reopens a secret only if this is the secret, not if the secret just lies somewhere below.
    #[must_use]
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// Whether an absolute path without `.` and `..` matches.
    #[must_use]
    pub fn matches(&self, path: &Path, case_insensitive: bool) -> bool {
        if !case_insensitive {
            return self.exact.is_match(path);
        }
        self.folded
            .get_or_init(|| compile(&self.sources, true).ok())
            .as_ref()
            .is_some_and(|set| set.is_match(path))
    }
}

fn compile(sources: &[String], case_insensitive: bool) -> Result<GlobSet, globset::Error> {
    let mut builder = GlobSetBuilder::new();
    for source in sources {
        builder.add(
            GlobBuilder::new(source)
                .literal_separator(true)
                .backslash_escape(true)
                .case_insensitive(case_insensitive)
                .build()?,
        );
    }
    builder.build()
}

type Base = (PathBuf, bool);

/// The base folder of a pattern (with whether it is anchored there even without a slash in
/// the rest), and the rest.
fn anchored<'a>(content: &'a str, anchors: &Anchors) -> Result<(Base, &'a str), PatternError> {
    if let Some(rest) = content.strip_prefix("//") {
        return Ok(((PathBuf::from("/"), true), rest));
    }
    if let Some(rest) = content.strip_prefix('~') {
        if rest.is_empty() || rest.starts_with('/') {
            return Ok(((anchors.home.clone(), true), rest));
        }
        return Err(PatternError::OtherHome);
    }
    if let Some(rest) = content.strip_prefix('/') {
        return Ok(((anchors.settings_folder.clone(), true), rest));
    }
    let mut rest = content;
    let mut base = anchors.cwd.clone();
    let mut anchored = false;
    loop {
        if let Some(inner) = rest.strip_prefix("./") {
            rest = inner;
        } else if let Some(inner) = rest.strip_prefix("../") {
            rest = inner;
            base = fold(&base.join(".."));
        } else {
            break;
        }
        anchored = true;
    }
    match rest {
        "." => Ok(((base, true), "")),
        ".." => Ok(((fold(&base.join("..")), true), "")),
        rest => Ok(((base, anchored), rest)),
    }
}

/// A pattern for commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandPattern {
    /// These words, then anything (`npm run test:*`).
    Prefix(Vec<String>),
    /// A text with `*` for anything (`npm run *`).
    Wildcard(TextPattern),
    /// Words, some of which may be anything (`git -C :* status:*`).
    Words(WordPatterns),
    /// This command and no other.
    Exact(ExactCommand),
}

/// One command, spelt out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactCommand {
    /// The text.
    pub text: String,
    /// Its words, where it is one simple command.
    pub words: Option<Vec<String>>,
}

impl CommandPattern {
    /// Reads the content of a rule for commands, which writes paths below `home` in full or with `~`.
    ///
    /// # Errors
    /// If the content is not such a pattern.
    pub fn new(content: &str, home: &Path) -> Result<Self, PatternError> {
        let written = content.trim();
        let content = with_tilde(written, &home.to_string_lossy());
        let content = without_time(&content).ok_or(PatternError::OnlyTime)?;
        if let Some(prefix) = content.strip_suffix(":*") {
            let words = split_words(prefix).ok_or(PatternError::Quotes)?;
            if words.is_empty() {
                return Err(PatternError::NoWords);
            }
            if !prefix.contains('*') {
                return Ok(Self::Prefix(words));
            }
            if let Some(words) = WordPatterns::read(prefix, true) {
                return Ok(Self::Words(words));
            }
            // After a star, `:*` adds nothing.
            let rest = if prefix.ends_with('*') { "" } else { " *" };
            return Ok(Self::Wildcard(TextPattern::new(&format!("{prefix}{rest}"))));
        }
        let wildcard = TextPattern::new(content);
        if wildcard.has_stars() {
            let (front, open) = content
                .strip_suffix(" *")
                .map_or((content, false), |front| (front, true));
            return Ok(match WordPatterns::read(front, open) {
                Some(words) => Self::Words(words),
                None => Self::Wildcard(wildcard),
            });
        }
        let words = split_words(&wildcard.literal());
        let text = TextPattern::new(written).literal();
        Ok(Self::Exact(ExactCommand { text, words }))
    }

    /// Whether a rule that allows covers a command's words. Narrower than [`Self::matches`] where a star stands
    /// in a text that the command runs.
    #[must_use]
    pub fn grants(&self, words: &[Option<&str>]) -> bool {
        match self {
            Self::Words(patterns) => patterns.grants(words),
            other => other.matches(words),
        }
    }

    /// How many words at its start it speaks of.
    #[must_use]
    pub fn spoken_words(&self) -> usize {
        match self {
            Self::Words(patterns) => patterns.len(),
            other => other.leading_words().len(),
        }
    }

    /// Whether a command's words match. `None` is a word whose text is not known before it runs.
    #[must_use]
    pub fn matches(&self, words: &[Option<&str>]) -> bool {
        match self {
            Self::Prefix(prefix) => {
                words.len() >= prefix.len()
                    && prefix
                        .iter()
                        .zip(words)
                        .all(|(wanted, word)| *word == Some(wanted.as_str()))
            }
            Self::Exact(exact) => exact.words.as_ref().is_some_and(|exact| {
                words.len() == exact.len()
                    && exact
                        .iter()
                        .zip(words)
                        .all(|(wanted, word)| *word == Some(wanted.as_str()))
            }),
            Self::Words(patterns) => patterns.matches(words),
            Self::Wildcard(pattern) => {
                let Some(Some(first)) = words.first() else {
                    return false;
                };
                // The command's name must be the pattern's first word by itself, not a part of a
                // quoted word that happens to read like several.
                if pattern.first_word().is_some_and(|wanted| wanted != *first) {
                    return false;
                }
                pattern.matches(&join_words(words))
            }
        }
    }

    /// Whether words of which some are not known before they run could turn into a match.
    #[must_use]
    pub fn could_match(&self, words: &[Option<&str>]) -> bool {
        let Some(unknown) = words.iter().position(Option::is_none) else {
            return self.matches(words);
        };
        // An unknown part can become any number of words; only the part before it is compared.
        let fixed: Vec<&str> = words.iter().take(unknown).copied().flatten().collect();
        let wanted = self.leading_words();
        let length = wanted.len().min(fixed.len());
        wanted[..length] == fixed[..length]
    }

    /// Whether it is exactly this whole command.
    #[must_use]
    pub fn is_command(&self, command: &str) -> bool {
        matches!(self, Self::Exact(exact) if exact.text == command.trim())
    }

    /// Whether it is one command, spelt out.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        matches!(self, Self::Exact(_))
    }

    /// The fixed words at its start.
    #[must_use]
    pub fn leading_words(&self) -> Vec<&str> {
        match self {
            Self::Prefix(words) => words.iter().map(String::as_str).collect(),
            Self::Exact(exact) => match &exact.words {
                Some(words) => words.iter().map(String::as_str).collect(),
                None => exact.text.split_whitespace().take(1).collect(),
            },
            Self::Words(patterns) => patterns.leading_words(),
            Self::Wildcard(pattern) => pattern.leading_words(),
        }
    }
}

/// A content without a leading `time`, which changes nothing about the command after it; `None` if there is none.
fn without_time(content: &str) -> Option<&str> {
    let Some(rest) = content.strip_prefix("time") else {
        return Some(content);
    };
    if matches!(rest.trim(), "" | ":*" | "*") {
        return None;
    }
    match rest.strip_prefix(' ').map(str::trim_start) {
        Some(command) if !command.starts_with('-') => Some(command),
        _ => Some(content),
    }
}

/// Words as one text, quoted where a blank or a quote would change how they read.
fn join_words(words: &[Option<&str>]) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() {
            text.push(' ');
        }
        match word {
            // Not known before it runs: no literal part of a pattern may stand for it.
            None => text.push('\u{0}'),
            Some("") => text.push_str("''"),
            Some(word) if word.contains(char::is_whitespace) => {
                text.push('\'');
                text.push_str(word);
                text.push('\'');
            }
            Some(word) => text.push_str(word),
        }
    }
    text
}

/// A command as the content of a rule that matches exactly it: its stars are no wildcards.
#[must_use]
pub fn exact_content(command: &str) -> String {
    command.trim().replace('*', "\\*")
}

/// A text in which `*` stands for anything and `\*` for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPattern {
    /// The fixed texts between the stars.
    pieces: Vec<String>,
}

impl TextPattern {
    /// Reads a pattern.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut pieces = vec![String::new()];
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let next = characters.peek().copied();
            match (character, next) {
                ('\\', Some('*')) => {
                    characters.next();
                    push(&mut pieces, '*');
                }
                ('*', _) => pieces.push(String::new()),
                (other, _) => push(&mut pieces, other),
            }
        }
        Self { pieces }
    }

    fn has_stars(&self) -> bool {
        self.pieces.len() > 1
    }

    fn literal(&self) -> String {
        self.pieces.concat()
    }

    /// Whether a text matches. ` *` at the end also matches nothing, so that `npm run *` covers
    /// `npm run` as the prefix form does.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let Some((last, front)) = self.pieces.split_last() else {
            return text.is_empty();
        };
        let Some((first, middle)) = front.split_first() else {
            return text == last;
        };
        if last.is_empty() && middle.is_empty() && first.strip_suffix(' ') == Some(text) {
            return true;
        }
        let Some(mut rest) = text.strip_prefix(first.as_str()) else {
            return false;
        };
        for piece in middle {
            let Some(found) = rest.find(piece.as_str()) else {
                return false;
            };
            rest = &rest[found + piece.len()..];
        }
        rest.len() >= last.len() && rest.ends_with(last.as_str())
    }

    fn first_word(&self) -> Option<&str> {
        let first = self.pieces.first()?;
        let end = first.find(char::is_whitespace)?;
        Some(&first[..end])
    }

    pub(crate) fn leading_words(&self) -> Vec<&str> {
        let Some(first) = self.pieces.first() else {
            return Vec::new();
        };
        let whole = if self.has_stars() && !first.ends_with(char::is_whitespace) {
            first
                .rfind(char::is_whitespace)
                .map_or("", |end| &first[..end])
        } else {
            first
        };
        whole.split_whitespace().collect()
    }
}

fn push(pieces: &mut [String], character: char) {
    if let Some(last) = pieces.last_mut() {
        last.push(character);
    }
}

/// The words of a rule's content: blanks separate, quotes and backslashes as in a shell, nothing
/// is expanded. `None` when the quotes don't balance.
#[must_use]
pub fn split_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        other => word.push(other),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '\\' => match characters.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            '\n' => {}
                            other => {
                                word.push('\\');
                                word.push(other);
                            }
                        },
                        other => word.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(characters.next()?),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

/// A pattern for web addresses: `domain:example.com`, `domain:*.example.com`, or `domain:*` for every host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainPattern {
    host: String,
    subdomains: bool,
    every: bool,
}

impl DomainPattern {
    /// Reads the content of a rule for addresses.
    ///
    /// # Errors
    /// If the content is not such a pattern.
    pub fn new(content: &str) -> Result<Self, PatternError> {
        let Some(host) = content.trim().strip_prefix("domain:") else {
            return Err(PatternError::NoHost);
        };
        if host == "*" {
            return Ok(Self {
                host: String::new(),
                subdomains: false,
                every: true,
            });
        }
        let (host, subdomains) = host
            .strip_prefix("*.")
            .map_or((host, false), |host| (host, true));
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let fine = |character: char| {
            character.is_alphanumeric() || matches!(character, '-' | '.' | ':' | '[' | ']' | '_')
        };
        if host.is_empty() || !host.chars().all(fine) {
            return Err(PatternError::NotAHost(host));
        }
        Ok(Self {
            host,
            subdomains,
            every: false,
        })
    }

    /// Whether it is this host by name, and not by a wildcard.
    #[must_use]
    pub fn names(&self, host: &str) -> bool {
        !self.every && !self.subdomains && self.matches(host, false)
    }

    /// Whether a host matches. `widely` also takes the hosts below a named one, which is what a
    /// refusal means and a grant doesn't.
    #[must_use]
    pub fn matches(&self, host: &str, widely: bool) -> bool {
        if self.every {
            return true;
        }
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let below = || {
            host.strip_suffix(&self.host)
                .is_some_and(|rest| rest.ends_with('.'))
        };
        if self.subdomains {
            below() || (widely && host == self.host)
        } else {
            host == self.host || (widely && below())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchors() -> Anchors {
        Anchors {
            home: "/home/u".into(),
            cwd: "/work/p".into(),
            settings_folder: "/work/s".into(),
            twins: None,
        }
    }

    fn path(pattern: &str, path: &str) -> bool {
        PathPattern::new(pattern, &anchors())
            .unwrap()
            .matches(Path::new(path), false)
    }

    #[test]
    fn the_start_of_a_pattern_says_where_it_counts_from() {
        assert!(path("//etc/hosts", "/etc/hosts"));
        assert!(path("~/.zshrc", "/home/u/.zshrc"));
        assert!(!path("~/.zshrc", "/home/v/.zshrc"));
        assert!(path("/src/**", "/work/s/src/a/b"));
        assert!(!path("/src/**", "/work/p/src/a/b"));
        assert!(path("./src/*.rs", "/work/p/src/a.rs"));
        assert!(!path("./src/*.rs", "/work/p/src/deep/a.rs"));
        assert!(path("src/*.rs", "/work/p/src/a.rs"));
        assert!(path("../q/x", "/work/q/x"));
        assert!(path("~", "/home/u/anything"));
        assert!(path("//**", "/anything/at/all"));
        assert!(path(".", "/work/p/x"));
    }

    #[test]
    fn names_match_at_any_depth_and_folders_match_what_is_in_them() {
        assert!(path("*.env", "/work/p/a/b/x.env"));
        assert!(!path("*.env", "/work/other/x.env"));
        assert!(path("secrets/", "/work/p/a/secrets/deep/x"));
        assert!(path("/src", "/work/s/src/x"));
        assert!(path("/src/**", "/work/s/src"));
        assert!(!path("/src", "/work/s/srcs"));
        assert!(path("./only-here", "/work/p/only-here"));
        assert!(!path("./only-here", "/work/p/a/only-here"));
        assert!(path("**/x/*.ts", "/work/p/a/b/x/y.ts"));
    }

    #[test]
    fn bases_with_special_characters_are_taken_literally() {
        let anchors = Anchors {
            cwd: "/w/[a]{b}*".into(),
            ..anchors()
        };
        let pattern = PathPattern::new("x/*", &anchors).unwrap();
        assert!(pattern.matches(Path::new("/w/[a]{b}*/x/y"), false));
        assert!(!pattern.matches(Path::new("/w/a/x/y"), false));
    }

    #[test]
    fn case_counts_only_where_the_file_system_says_so() {
        let pattern = PathPattern::new("./Src/*", &anchors()).unwrap();
        assert!(!pattern.matches(Path::new("/work/p/src/x"), false));
        assert!(pattern.matches(Path::new("/work/p/src/x"), true));
    }

    #[test]
    fn patterns_that_mean_nothing_are_errors() {
        for bad in ["!x", "~bob/x", "a\0b", "[z-a"] {
            assert!(PathPattern::new(bad, &anchors()).is_err(), "{bad}");
        }
    }

    fn command(pattern: &str, words: &[&str]) -> bool {
        let words: Vec<Option<&str>> = words.iter().map(|word| Some(*word)).collect();
        CommandPattern::new(pattern, Path::new("/home/u"))
            .unwrap()
            .matches(&words)
    }

    #[test]
    fn prefixes_end_at_a_word() {
        assert!(command("npm run test:*", &["npm", "run", "test"]));
        assert!(command("npm run test:*", &["npm", "run", "test", "--x"]));
        assert!(!command("npm run test:*", &["npm", "run", "test:unit"]));
        assert!(!command("npm run test:*", &["npm", "run", "tester"]));
        assert!(!command("npm run test:*", &["npm", "run"]));
        assert!(command(
            "git commit -m 'a b':*",
            &["git", "commit", "-m", "a b"]
        ));
    }

    #[test]
    fn wildcards_match_within_one_command() {
        assert!(command("npm run *", &["npm", "run", "x", "y"]));
        assert!(command("npm run *", &["npm", "run"]));
        assert!(!command("npm run *", &["npm", "runx"]));
        assert!(!command("npm *", &["npm run", "x"]));
        assert!(command("git * main", &["git", "checkout", "main"]));
        assert!(!command("git * main", &["git", "checkout", "maintenance"]));
        assert!(command("* --version", &["rustc", "--version"]));
        assert!(command(r"echo \*", &["echo", "*"]));
        assert!(!command(r"echo \*", &["echo", "x"]));
    }

    #[test]
    fn exact_commands_match_by_their_words() {
        assert!(command("git status", &["git", "status"]));
        assert!(!command("git status", &["git", "status", "-s"]));
        assert!(command("echo 'a b'", &["echo", "a b"]));
        assert!(!command("echo 'a b'", &["echo", "a", "b"]));
    }

    #[test]
    fn a_whole_command_is_matched_by_its_text() {
        for command in [
            "rm *.o",
            r"find . -name \*.rs",
            "eval \"$(x)\"",
            "echo 'unbalanced",
            "a:*",
        ] {
            let pattern = CommandPattern::new(&exact_content(command), Path::new("/h")).unwrap();
            assert!(pattern.is_command(command), "{command}: {pattern:?}");
            assert!(!pattern.is_command("other"), "{command}");
        }
    }

    #[test]
    fn what_is_not_known_could_become_anything() {
        let pattern = CommandPattern::new("git push origin:*", Path::new("/h")).unwrap();
        assert!(pattern.could_match(&[Some("git"), None]));
        assert!(pattern.could_match(&[None]));
        assert!(pattern.could_match(&[Some("git"), Some("push"), None]));
        assert!(!pattern.could_match(&[Some("git"), Some("pull"), None]));
        assert!(!pattern.could_match(&[Some("git"), Some("push"), Some("upstream")]));
    }

    #[test]
    fn a_word_that_is_not_known_matches_no_fixed_text() {
        let pattern = CommandPattern::new("git push origin:*", Path::new("/h")).unwrap();
        assert!(!pattern.matches(&[Some("git"), Some("push"), None]));
        let pattern = CommandPattern::new("git push *", Path::new("/h")).unwrap();
        assert!(pattern.matches(&[Some("git"), Some("push"), None]));
        assert!(!pattern.matches(&[None, Some("push"), None]));
    }

    #[test]
    fn a_grant_names_a_host_and_a_refusal_also_what_is_below_it() {
        let pattern = DomainPattern::new("domain:Example.com").unwrap();
        assert!(pattern.matches("example.com", false));
        assert!(!pattern.matches("a.example.com", false));
        assert!(pattern.matches("a.example.com", true));
        assert!(!pattern.matches("badexample.com", true));
        let pattern = DomainPattern::new("domain:*.example.com").unwrap();
        assert!(pattern.matches("a.example.com", false));
        assert!(!pattern.matches("example.com", false));
        assert!(!pattern.names("a.example.com"));
        assert!(
            DomainPattern::new("domain:a.example")
                .unwrap()
                .names("A.example.")
        );
        assert!(!DomainPattern::new("domain:*").unwrap().names("a.example"));
        assert!(DomainPattern::new("example.com").is_err());
        assert!(DomainPattern::new("domain:").is_err());
    }
}
