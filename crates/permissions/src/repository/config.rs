//! git's configuration, read as git reads it.

use std::path::Path;

/// One `key = value` with the section it stands in, names in lower case.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConfigEntry {
    pub(super) section: String,
    pub(super) subsection: Option<String>,
    pub(super) key: String,
    pub(super) value: String,
}

/// Keys that never name a program, another file or another repository, by section. A star stands for all keys.
const HARMLESS: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "bigfilethreshold",
            "compression",
            "eol",
            "filemode",
            "hidedotfiles",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "precomposeunicode",
            "preloadindex",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "symlinks",
            "trustctime",
            "untrackedcache",
            "whitespace",
        ],
    ),
    ("advice", &["*"]),
    ("apply", &["whitespace"]),
    (
        "branch",
        &[
            "remote",
            "merge",
            "rebase",
            "description",
            "pushremote",
            "autosetuprebase",
            "vscode-merge-base",
            "gk-last-accessed",
            "gk-last-modified",
        ],
    ),
    ("color", &["*"]),
    ("column", &["ui"]),
    ("commit", &["cleanup", "status", "verbose"]),
    (
        "diff",
        &[
            "algorithm",
            "colormoved",
            "mnemonicprefix",
            "noprefix",
            "renames",
            "renamelimit",
            "context",
        ],
    ),
    ("extensions", &["objectformat", "refstorage"]),
    ("fetch", &["prune", "prunetags", "parallel"]),
    (
        "gc",
        &["auto", "autodetach", "autopacklimit", "pruneexpire"],
    ),
    ("gui", &["encoding", "wmstate", "geometry"]),
    ("index", &["version", "threads"]),
    ("init", &["defaultbranch"]),
    ("lfs", &["repositoryformatversion"]),
    ("log", &["date", "decorate", "abbrevcommit", "follow"]),
    ("merge", &["conflictstyle", "ff", "renames", "stat"]),
    ("pack", &["threads", "window", "depth"]),
    ("pull", &["rebase", "ff"]),
    ("push", &["default", "autosetupremote", "followtags"]),
    ("rebase", &["autosquash", "autostash", "updaterefs"]),
    (
        "remote",
        &[
            "url",
            "fetch",
            "pushurl",
            "tagopt",
            "prune",
            "prunetags",
            "gh-resolved",
        ],
    ),
    ("rerere", &["enabled", "autoupdate"]),
    (
        "status",
        &[
            "short",
            "branch",
            "showstash",
            "showuntrackedfiles",
            "relativepaths",
        ],
    ),
    ("submodule", &["url", "active"]),
    ("tag", &["sort"]),
    ("user", &["name", "email", "signingkey", "useconfigonly"]),
];

/// The setting of a configuration file that can make git run a program or read other files, if there is one.
pub(super) fn problem(file: &Path, git_folder: &Path, worktree: Option<&Path>) -> Option<String> {
    let bytes = match lathe_settings::regular_file::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => return Some(format!("`{}`: {error}", file.display())),
    };
    let not_understood = || Some(format!("`{}` isn't understood", file.display()));
    let Ok(text) = String::from_utf8(bytes) else {
        return not_understood();
    };
    let Some(entries) = parse(&text) else {
        return not_understood();
    };
    entries
        .iter()
        .find(|entry| !is_harmless(entry, git_folder, worktree))
        .map(|entry| {
            format!(
                "`{}` sets {}.{}, which can make git run a program or read other files",
                file.display(),
                entry.section,
                entry.key
            )
        })
}

fn is_harmless(entry: &ConfigEntry, git_folder: &Path, worktree: Option<&Path>) -> bool {
    // A submodule's repository names the folder that it belongs to.
    if (entry.section.as_str(), entry.key.as_str()) == ("core", "worktree") {
        let named = crate::path::real_folder(&git_folder.join(&entry.value));
        return worktree.is_some_and(|worktree| named == worktree);
    }
    let known = HARMLESS
        .iter()
        .find(|(section, _)| *section == entry.section)
        .is_some_and(|(_, keys)| keys.contains(&"*") || keys.contains(&entry.key.as_str()));
    // `ext::command` and its like run a program; a sort key can verify signatures.
    let value_is_plain = match entry.key.as_str() {
        "url" | "pushurl" => !entry.value.contains("::") && !entry.value.starts_with('-'),
        "sort" => !entry.value.contains("signature"),
        _ => true,
    };
    let one_part = entry.subsection.is_none()
        || matches!(
            entry.section.as_str(),
            "branch" | "remote" | "submodule" | "color"
        );
    known && value_is_plain && one_part
}

/// Sections without keys that name programs, beside those of [`HARMLESS`].
const PLAIN_SECTIONS: &[&str] = &[
    "blame",
    "clean",
    "clone",
    "commit",
    "feature",
    "fetch",
    "format",
    "gc",
    "grep",
    "help",
    "index",
    "log",
    "maintenance",
    "notes",
    "pack",
    "pull",
    "push",
    "rebase",
    "receive",
    "rerere",
    "stash",
    "status",
    "tag",
    "transfer",
    "user",
];

/// The setting that the words of `git config` change, if it can name a program.
pub(crate) fn program_setting(words: &[&str]) -> Option<String> {
    let mut operands = Vec::new();
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        match word {
            "-f" | "--file" | "--blob" | "--type" | "--default" | "--comment" | "--value" => {
                rest.next();
            }
            "set" | "edit" | "unset" | "get" | "list" if operands.is_empty() => {}
            _ if word.starts_with('-') => {}
            _ => operands.push(word),
        }
    }
    let (key, value) = match operands.as_slice() {
        [key, value, ..] => (*key, *value),
        [key] if words.iter().any(|word| word.contains("unset")) => (*key, ""),
        _ => return None,
    };
    let lower = key.to_ascii_lowercase();
    let (section, _) = lower.split_once('.')?;
    let (front, name) = lower.rsplit_once('.')?;
    let entry = ConfigEntry {
        section: section.to_owned(),
        subsection: front.split_once('.').map(|(_, sub)| sub.to_owned()),
        key: name.to_owned(),
        value: value.to_owned(),
    };
    let plain_alias = section == "alias" && !value.starts_with('!');
    let harmless = is_harmless(&entry, Path::new("/"), None)
        || PLAIN_SECTIONS.contains(&section)
        || plain_alias;
    (!harmless).then(|| key.to_owned())
}

/// The entries of a configuration file; none where git itself might read something else.
pub(super) fn parse(text: &str) -> Option<Vec<ConfigEntry>> {
    let mut reader = Reader {
        characters: text.chars().peekable(),
    };
    let mut entries = Vec::new();
    let mut section: Option<(String, Option<String>)> = None;
    loop {
        match reader.characters.peek().copied() {
            None => return Some(entries),
            Some(' ' | '\t' | '\n') => {
                reader.characters.next();
            }
            Some('\r') => {
                reader.characters.next();
                if reader.characters.peek() != Some(&'\n') {
                    return None;
                }
            }
            Some('#' | ';') => reader.skip_line(),
            Some('[') => {
                reader.characters.next();
                section = Some(reader.header()?);
            }
            Some(first) if first.is_ascii_alphabetic() => {
                let (name, subsection) = section.clone()?;
                let key =
                    reader.word(|character| character.is_ascii_alphanumeric() || character == '-');
                let value = reader.value()?;
                entries.push(ConfigEntry {
                    section: name,
                    subsection,
                    key: key.to_ascii_lowercase(),
                    value,
                });
            }
            Some(_) => return None,
        }
    }
}

struct Reader<'a> {
    characters: std::iter::Peekable<std::str::Chars<'a>>,
}

impl Reader<'_> {
    fn skip_line(&mut self) {
        for character in self.characters.by_ref() {
            if character == '\n' {
                return;
            }
        }
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let mut word = String::new();
        while let Some(character) = self
            .characters
            .peek()
            .copied()
            .filter(|next| belongs(*next))
        {
            word.push(character);
            self.characters.next();
        }
        word
    }

    fn blanks(&mut self) {
        while matches!(self.characters.peek(), Some(' ' | '\t')) {
            self.characters.next();
        }
    }

    /// A header up to its first unquoted bracket.
    fn header(&mut self) -> Option<(String, Option<String>)> {
        let name = self.word(|character| {
            character.is_ascii_alphanumeric() || character == '-' || character == '.'
        });
        let name = name.to_ascii_lowercase();
        if self.characters.peek() == Some(&']') {
            self.characters.next();
            // `[section.sub]` is an old way to write a subsection.
            return Some(match name.split_once('.') {
                Some((section, sub)) => (section.to_owned(), Some(sub.to_owned())),
                None => (name, None),
            });
        }
        self.blanks();
        if name.contains('.') || self.characters.next() != Some('"') {
            return None;
        }
        let mut sub = String::new();
        loop {
            match self.characters.next()? {
                '"' => break,
                '\n' => return None,
                '\\' => match self.characters.next()? {
                    '\n' => return None,
                    escaped => sub.push(escaped),
                },
                other => sub.push(other),
            }
        }
        (self.characters.next() == Some(']')).then_some((name, Some(sub)))
    }

    /// The value after a key: none, or `=` and text with quotes, escapes and continued lines.
    fn value(&mut self) -> Option<String> {
        self.blanks();
        match self.characters.peek() {
            None => return Some("true".to_owned()),
            Some('\n' | '\r') => return Some("true".to_owned()),
            Some('#' | ';') => return Some("true".to_owned()),
            Some('=') => {
                self.characters.next();
            }
            Some(_) => return None,
        }
        self.blanks();
        let mut value = String::new();
        let mut quoted = false;
        loop {
            match self.characters.next() {
                None | Some('\n') => return (!quoted).then(|| value.trim_end().to_owned()),
                Some('\r') if self.characters.peek() == Some(&'\n') => {}
                Some('"') => quoted = !quoted,
                Some('#' | ';') if !quoted => {
                    self.skip_line();
                    return Some(value.trim_end().to_owned());
                }
                Some('\\') => match self.characters.next()? {
                    '\n' => {}
                    'n' => value.push('\n'),
                    't' => value.push('\t'),
                    'b' => {
                        value.pop();
                    }
                    escaped @ ('"' | '\\') => value.push(escaped),
                    _ => return None,
                },
                Some(other) => value.push(other),
            }
        }
    }
}
