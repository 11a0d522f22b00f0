//! Properties of reading commands: how much of files they show, which files below a folder they read, and whose
//! configuration they obey.

/// How much a command shows of the files that it names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shows {
    /// Names, sizes, dates and counts.
    Names,
    /// Their contents.
    #[default]
    Contents,
}

/// Which files below a folder a command reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderReading {
    /// Whether hidden files are among them.
    pub hidden: bool,
    /// Whether files that ignore files name are among them.
    pub ignored: bool,
    /// Only files whose names match one of these patterns; empty for all.
    pub names: Vec<String>,
    /// Only files of these types, as ripgrep knows them; empty for all.
    pub types: Vec<String>,
    /// Whether it reads what symbolic links lead to.
    pub follows_links: bool,
    /// Whether it enters folders that symbolic links lead to.
    pub enters_links: bool,
    /// Only files that git tracks, wherever in the repository they are.
    pub tracked: bool,
    /// The names that a command may get as words so that it reads these files only.
    pub names_as_words: NamesAsWords,
}

/// How names are read that a command gets as words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamesAsWords {
    /// Any name does: it isn't taken for anything else.
    #[default]
    Any,
    /// A name that starts with a dash would be taken for an option.
    NoDash,
    /// The names are split at blanks, and quotes and backslashes are taken away.
    Plain,
}

impl FolderReading {
    /// Every file, links followed.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            hidden: true,
            ignored: true,
            names: Vec::new(),
            types: Vec::new(),
            follows_links: true,
            enters_links: true,
            tracked: false,
            names_as_words: NamesAsWords::Any,
        }
    }
}

/// Whose configuration can make a reading command run a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obeys {
    /// Nobody's but the user's own.
    #[default]
    Nothing,
    /// The configuration of the git repository that the folder belongs to.
    Repository,
    /// The same, and without a repository the command reads any files.
    RepositoryOnly,
    /// Files of the folder.
    Folder,
}
