use super::copy::LimitError;
use super::source::SourceError;
use std::path::{Path, PathBuf};

/// Why an archive is refused. Names of files are safe for a terminal.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("not a valid tar archive ({0})")]
    Tar(#[source] std::io::Error),
    #[error("not a valid zip archive ({0})")]
    Zip(#[from] ::zip::result::ZipError),
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error(transparent)]
    Path(#[from] SourceError),
    #[error("it has too many headers")]
    TooManyHeaders,
    #[error("a header in it is too large")]
    LargeHeader,
    #[error("a header in it sets another size for a file")]
    OverriddenSize,
    #[error("a name in it is not UTF-8")]
    NotUtf8,
    #[error("it ends in the middle of a file")]
    Truncated,
    #[error("{0} is a link")]
    Link(String),
    #[error("{0} is neither a file nor a folder")]
    Special(String),
    #[error("{0} is encrypted")]
    Encrypted(String),
    #[error("{0} is compressed in a way that is not supported")]
    Compression(String),
    #[error("{0} is in it twice")]
    Duplicate(String),
    #[error("{0} in it is broken")]
    BrokenFile(String),
    #[error("{0:?} is not in a folder")]
    NotInFolder(String),
    #[error("it has no {0}")]
    Missing(String),
    #[error("{}: {source}", path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
}

impl ArchiveError {
    pub(super) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Write { path, source }
    }
}
