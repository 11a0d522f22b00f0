//! The possible values of a word after expansion.

use crate::syntax::{Parameter, Word, WordPart};

/// A word of a command, as far as it is known before the shell runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// It can only be this.
    Fixed(String),
    /// It depends on variables, files or output.
    Variable(VariableArgument),
}

/// A word whose value isn't known beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableArgument {
    /// The word as written.
    pub source: String,
    /// Text that the (first) result is sure to start with.
    pub prefix: String,
    /// Whether it can become several words of any content, or none.
    pub splits: bool,
    /// Whether it can become several words that all start with `prefix`.
    pub multiplies: bool,
    /// The file it names when it is used as one.
    pub path: PathOperand,
    /// The files that it can name, where it is a loop variable whose values are known.
    pub values: Vec<PathOperand>,
}

/// A file that a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathOperand {
    /// How `text` is to be read.
    pub kind: PathKind,
    /// The path, or as much of it as is known.
    pub text: String,
}

/// How the text of a [`PathOperand`] is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// A path, exactly; a tilde in it is a plain character.
    Literal,
    /// A path below the user's home folder.
    Home,
    /// A glob or brace pattern; every match lies below the folder before its first special character.
    /// A backslash takes the meaning of a special character away.
    Pattern,
    /// The same, below the user's home folder.
    HomePattern,
    /// An object of the repository, by its name or the start of it.
    Object,
    /// The names that a listing of this folder prints.
    Listed,
    /// It could be any file.
    Unbounded,
    /// A pipe to another part of the command; no file at all.
    Pipe,
}

impl PathOperand {
    /// A path that is exactly this.
    #[must_use]
    pub fn literal(text: impl Into<String>) -> Self {
        Self {
            kind: PathKind::Literal,
            text: text.into(),
        }
    }

    /// The path as a user would write it.
    #[must_use]
    pub fn shown(&self) -> String {
        match self.kind {
            PathKind::Home | PathKind::HomePattern if self.text.is_empty() => "~".to_owned(),
            PathKind::Home | PathKind::HomePattern => format!("~/{}", self.text),
            _ => self.text.clone(),
        }
    }

    /// Whether it stays one word even unquoted.
    pub(super) fn stays_whole(&self) -> bool {
        self.kind == PathKind::Literal
            && !self.text.is_empty()
            && !self.text.contains([' ', '\t', '\n', '*', '?', '[', '\\'])
    }

    /// A path that can't be known.
    #[must_use]
    pub fn unbounded(source: impl Into<String>) -> Self {
        Self {
            kind: PathKind::Unbounded,
            text: source.into(),
        }
    }
}

impl Argument {
    /// The value, if it is known.
    #[must_use]
    pub fn fixed(&self) -> Option<&str> {
        match self {
            Argument::Fixed(text) => Some(text),
            Argument::Variable(_) => None,
        }
    }

    /// The value if known, else the source.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Argument::Fixed(text) => text,
            Argument::Variable(variable) => &variable.source,
        }
    }

    /// Whether it is certain not to be taken for an option, and to be exactly one word or several alike.
    #[must_use]
    pub fn is_surely_operand(&self) -> bool {
        match self {
            Argument::Fixed(text) => !text.starts_with('-') || text == "-",
            Argument::Variable(variable) => {
                !variable.splits && !variable.prefix.is_empty() && !variable.prefix.starts_with('-')
            }
        }
    }

    /// Whether it becomes names of existing files that the text doesn't show the start of: one of them may
    /// look like an option. The names of such an operand must be checked.
    #[must_use]
    pub fn is_names_of_files(&self) -> bool {
        match self {
            Argument::Fixed(_) => false,
            Argument::Variable(variable) => {
                !variable.splits
                    && variable.prefix.is_empty()
                    && matches!(variable.path.kind, PathKind::Pattern | PathKind::Listed)
            }
        }
    }

    /// Whether it is exactly one word, whatever its value.
    #[must_use]
    pub fn is_one_word(&self) -> bool {
        match self {
            Argument::Fixed(_) => true,
            Argument::Variable(variable) => !variable.splits && !variable.multiplies,
        }
    }

    /// The file it names when it is used as one.
    #[must_use]
    pub fn path(&self) -> PathOperand {
        match self {
            Argument::Fixed(text) => PathOperand::literal(text.clone()),
            Argument::Variable(variable) => variable.path.clone(),
        }
    }

    /// The files that the word can name: several for a loop variable, else the one of [`Self::path`].
    #[must_use]
    pub fn paths(&self) -> Vec<PathOperand> {
        match self {
            Argument::Variable(variable) if !variable.values.is_empty() => variable.values.clone(),
            _ => vec![self.path()],
        }
    }

    /// A word that could be anything.
    #[must_use]
    pub fn anything(source: &str) -> Self {
        Argument::Variable(VariableArgument {
            source: source.to_owned(),
            prefix: String::new(),
            splits: true,
            multiplies: true,
            path: PathOperand::unbounded(source),
            values: Vec::new(),
        })
    }

    /// Says what the value of a loop variable can be, where the word is nothing but that variable.
    pub(super) fn bind(&mut self, values: &[PathOperand]) {
        let Argument::Variable(variable) = self else {
            return;
        };
        // Unquoted, a name with a blank in it falls apart.
        if variable.splits && !values.iter().all(PathOperand::stays_whole) {
            return;
        }
        variable.splits = false;
        let starts_safely = |value: &PathOperand| match value.kind {
            PathKind::Home | PathKind::HomePattern => true,
            _ => value
                .text
                .starts_with(|first: char| first.is_alphanumeric() || "/._".contains(first)),
        };
        if values.iter().all(starts_safely) {
            variable.prefix = "/".to_owned();
        }
        if let [only] = values {
            variable.path = only.clone();
        }
        variable.values = values.to_vec();
    }

    /// Reads a parsed word.
    #[must_use]
    pub fn from_word(word: &Word) -> Self {
        match word.fixed() {
            Some(text) => Argument::Fixed(text),
            None => Argument::Variable(VariableArgument::from_word(word)),
        }
    }
}

impl VariableArgument {
    fn from_word(word: &Word) -> Self {
        let mut found = Self {
            source: word.text.clone(),
            prefix: String::new(),
            splits: false,
            multiplies: false,
            path: PathOperand::unbounded(word.text.clone()),
            values: Vec::new(),
        };
        if let [WordPart::Process(_)] = word.parts.as_slice() {
            found.prefix.push_str("/dev/fd/");
            found.path = PathOperand {
                kind: PathKind::Pipe,
                text: word.text.clone(),
            };
            return found;
        }
        let mut known = KnownPath::default();
        for part in &word.parts {
            known.add(part, &mut found);
        }
        if let Some(path) = known.operand() {
            found.path = path;
        }
        found
    }
}

/// The path that a word names, as far as it is known: a base that is known by name, text, and pattern characters.
struct KnownPath {
    home: bool,
    pattern: bool,
    /// Nothing so far can lead anywhere else.
    bounded: bool,
    /// The same path twice: as it is, and with what is literal in it marked for a pattern.
    path: String,
    escaped: String,
    /// The word's beginning is still fixed.
    prefix_open: bool,
    /// Nothing but empty text so far.
    leading: bool,
}

impl Default for KnownPath {
    fn default() -> Self {
        Self {
            home: false,
            pattern: false,
            bounded: true,
            path: String::new(),
            escaped: String::new(),
            prefix_open: true,
            leading: true,
        }
    }
}

impl KnownPath {
    fn add(&mut self, part: &WordPart, found: &mut VariableArgument) {
        match part {
            WordPart::Literal(text) => return self.text(text, "*?[\\{", found),
            // Quotes also take the meaning of what is special in brackets away.
            WordPart::Quoted(text) => return self.text(text, "*?[]\\{}!^-:", found),
            WordPart::Tilde(user) if self.leading => {
                found.prefix.push('~');
                self.home = user.is_empty();
                self.bounded &= user.is_empty();
            }
            WordPart::Tilde(_) | WordPart::Process(_) | WordPart::Opaque(_) => self.bounded = false,
            WordPart::Glob(character) => {
                found.multiplies = true;
                // `.*` can match the folder above.
                self.bounded &= !(self.path == "." || self.path.ends_with("/."));
                self.special(*character);
            }
            WordPart::Brace => {
                found.multiplies = true;
                self.special('{');
            }
            // A number is no part of a name that leads elsewhere, but which one isn't known.
            WordPart::Parameter(parameter) if parameter.is_number() => self.special('*'),
            WordPart::Parameter(parameter) => self.parameter(parameter, found),
            WordPart::Command { quoted, .. } | WordPart::Arithmetic { quoted, .. } => {
                found.splits |= !quoted;
                self.bounded = false;
            }
        }
        self.prefix_open = false;
        self.leading = false;
    }

    fn text(&mut self, text: &str, special: &str, found: &mut VariableArgument) {
        if self.prefix_open {
            found.prefix.push_str(text);
        }
        // After a pattern, a step up could lead anywhere.
        self.bounded &= !(self.pattern && text.contains(".."));
        self.path.push_str(text);
        for character in text.chars() {
            if special.contains(character) {
                self.escaped.push('\\');
            }
            self.escaped.push(character);
        }
        self.leading &= text.is_empty();
    }

    fn special(&mut self, character: char) {
        self.pattern = true;
        self.path.push(character);
        self.escaped.push(character);
    }

    fn parameter(&mut self, parameter: &Parameter, found: &mut VariableArgument) {
        found.splits |= !parameter.quoted
            || matches!(parameter.name.as_str(), "@" | "*")
            || parameter.evaluated.iter().any(|subscript| subscript.whole);
        let known = parameter.plain && self.leading;
        match parameter.name.as_str() {
            "HOME" if known => {
                self.home = true;
                found.prefix.push('/');
                found.splits = false;
            }
            "PWD" if known => {
                self.path.push('.');
                self.escaped.push('.');
                found.prefix.push('/');
                found.splits = false;
            }
            _ => self.bounded = false,
        }
    }

    fn operand(self) -> Option<PathOperand> {
        let mut text = if self.pattern {
            self.escaped
        } else {
            self.path
        };
        let mut bounded = self.bounded;
        if self.home {
            // `~name` joined to more text isn't below the home folder.
            bounded &= text.is_empty() || text.starts_with('/');
            text = text.trim_start_matches('/').to_owned();
        }
        let kind = match (self.home, self.pattern) {
            (false, false) => PathKind::Literal,
            (true, false) => PathKind::Home,
            (false, true) => PathKind::Pattern,
            (true, true) => PathKind::HomePattern,
        };
        bounded.then_some(PathOperand { kind, text })
    }
}
