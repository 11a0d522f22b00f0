//! Reads users' files within limits.
//!
//! A folder of extensions may contain anything: pipes, circular links, videos. Only regular files
//! up to [`MOST_BYTES`] are read, folders are walked to a limited depth, and only the first
//! [`MOST_FILES`] files of a folder are used, with a report.

use crate::problem::Problem;
use crate::source::ExtensionSource;
use nix::fcntl::OFlag;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The maximum size of a file.
pub(crate) const MOST_BYTES: u64 = 512 * 1024;
/// The maximum number of files in one folder.
pub(crate) const MOST_FILES: usize = 2_000;
/// The maximum depth of nested folders.
const DEEPEST: usize = 8;

/// Where the real path of a file may be.
#[derive(Debug, Clone)]
pub(crate) enum Reach {
    /// Anywhere: the user's own links may lead anywhere.
    Anywhere,
    /// Anywhere, but a link leads to Markdown only: the user's trust in a project is no word for keys and passwords.
    Markdown,
    /// Inside a folder (its real path): files of others must not refer to other files of this
    /// machine.
    Inside(PathBuf),
}

impl Reach {
    pub(crate) fn inside(folder: &Path) -> Self {
        Self::Inside(std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf()))
    }

    /// Anywhere for the user's own files, Markdown for those of a trusted project, else inside a folder.
    pub(crate) fn of(trusted: bool, source: &ExtensionSource, folder: &Path) -> Self {
        match (trusted, source) {
            (true, ExtensionSource::Project) => Self::Markdown,
            (true, _) => Self::Anywhere,
            (false, _) => Self::inside(folder),
        }
    }
}

pub(crate) struct Content {
    pub(crate) text: String,
    /// Device and inode, which identify a file regardless of its path.
    pub(crate) identity: (u64, u64),
}

/// Reads a file. Invalid UTF-8 is replaced and reported.
pub(crate) fn read(file: &Path, reach: &Reach, problems: &mut Vec<Problem>) -> Option<String> {
    match look(file, reach, problems) {
        Ok(content) => Some(content.text),
        Err(Missing::Reported) => None,
        Err(Missing::NotThere) => {
            problems.push(Problem::fatal(file, "can't be read: it doesn't exist"));
            None
        }
    }
}

pub(crate) enum Missing {
    NotThere,
    Reported,
}

/// Like [`read`], but a missing file is not a problem. Makes four system calls per file, which
/// matters with hundreds of files.
pub(crate) fn look(
    file: &Path,
    reach: &Reach,
    problems: &mut Vec<Problem>,
) -> Result<Content, Missing> {
    let refused = |problems: &mut Vec<Problem>, message: String| {
        problems.push(Problem::fatal(file, message));
        Err(Missing::Reported)
    };
    let unreadable = |error: &std::io::Error| format!("can't be read: {error}");
    let mut opened = match open(file, reach) {
        Ok(Some(opened)) => opened,
        Ok(None) => {
            return refused(
                problems,
                "is a link out of its folder, or to a file that isn't Markdown, so it is ignored"
                    .to_owned(),
            );
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Missing::NotThere);
        }
        Err(error) => return refused(problems, unreadable(&error)),
    };
    let metadata = match opened.metadata() {
        Ok(metadata) => metadata,
        Err(error) => return refused(problems, unreadable(&error)),
    };
    if !metadata.is_file() {
        return refused(problems, "is not a regular file".to_owned());
    }
    if metadata.len() > MOST_BYTES {
        return refused(
            problems,
            format!(
                "is not read: it has {} KB, the maximum is {} KB",
                metadata.len() / 1024,
                MOST_BYTES / 1024
            ),
        );
    }
    let length = usize::try_from(metadata.len()).unwrap_or(0);
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match opened.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return refused(problems, unreadable(&error)),
        }
    }
    bytes.truncate(filled);
    let text = String::from_utf8(bytes).unwrap_or_else(|error| {
        problems.push(
            Problem::field(file, "", "is not UTF-8; invalid characters were replaced")
                .fix("save it as UTF-8"),
        );
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    });
    Ok(Content {
        text,
        identity: (metadata.dev(), metadata.ino()),
    })
}

/// Opens a file; `None` if it is outside its reach. Does not block on a pipe.
fn open(file: &Path, reach: &Reach) -> std::io::Result<Option<File>> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let with = |flags: OFlag| {
        File::options()
            .read(true)
            .custom_flags(flags.bits())
            .open(file)
    };
    let base = match reach {
        Reach::Anywhere => return with(flags).map(Some),
        Reach::Markdown => Path::new("/"),
        Reach::Inside(base) => base,
    };
    // Most files are not links; /proc then gives the real path of the opened file.
    if let Ok(opened) = with(flags | OFlag::O_NOFOLLOW)
        && let Ok(real) = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()))
    {
        return Ok(real.starts_with(base).then_some(opened));
    }
    let real = std::fs::canonicalize(file)?;
    let is_markdown = real
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("md"));
    if !real.starts_with(base) || !is_markdown {
        return Ok(None);
    }
    with(flags).map(Some)
}

/// Maps items in parallel if there are enough of them.
pub(crate) fn for_each<T: Sync, R: Send>(things: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    /// The number of items that justifies another thread.
    const FEW: usize = 48;
    /// More threads would only contend for locks of the file system.
    const MOST_THREADS: usize = 4;
    let threads = std::thread::available_parallelism()
        .map_or(1, std::num::NonZero::get)
        .min(MOST_THREADS)
        .min(things.len().div_ceil(FEW));
    if threads < 2 {
        return things.iter().map(work).collect();
    }
    let work = &work;
    std::thread::scope(|scope| {
        let share = things.len().div_ceil(threads);
        let mut shares = things.chunks(share);
        let own = shares.next().unwrap_or_default();
        let others: Vec<_> = shares
            .map(|share| scope.spawn(move || share.iter().map(work).collect::<Vec<R>>()))
            .collect();
        let mut all: Vec<R> = own.iter().map(work).collect();
        for other in others {
            match other.join() {
                Ok(results) => all.extend(results),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    })
}

/// The Markdown files below a folder, sorted, as paths relative to it.
pub(crate) fn markdown_files(folder: &Path, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    walk(folder, Path::new(""), 0, &mut seen, &mut found);
    found.sort();
    if found.len() > MOST_FILES {
        problems.push(Problem::field(
            folder,
            "",
            format!(
                "has {} files; only the first {MOST_FILES} are used",
                found.len()
            ),
        ));
        found.truncate(MOST_FILES);
    }
    found
}

fn walk(
    folder: &Path,
    relative: &Path,
    depth: usize,
    seen: &mut HashSet<PathBuf>,
    found: &mut Vec<PathBuf>,
) {
    // A generous limit, for folders that contain something else than extensions.
    if depth > DEEPEST || found.len() > 4 * MOST_FILES {
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let path = entry.path();
        if kind.is_dir() || (kind.is_symlink() && path.is_dir()) {
            // Links may be circular.
            let real = if kind.is_symlink() || depth > 0 {
                std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone())
            } else {
                path.clone()
            };
            if seen.insert(real) {
                walk(&path, &relative.join(&name), depth + 1, seen, found);
            }
        } else if path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("md"))
        {
            found.push(relative.join(&name));
        }
    }
}

/// The folders in a folder, sorted by name.
pub(crate) fn folders_in(folder: &Path, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<OsString> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let kind = entry.file_type().ok()?;
            let counts = !name.as_encoded_bytes().starts_with(b".")
                && (kind.is_dir() || (kind.is_symlink() && entry.path().is_dir()));
            counts.then_some(name)
        })
        .collect();
    found.sort_unstable();
    if found.len() > MOST_FILES {
        problems.push(Problem::field(
            folder,
            "",
            format!(
                "has {} folders; only the first {MOST_FILES} are used",
                found.len()
            ),
        ));
        found.truncate(MOST_FILES);
    }
    found.iter().map(|name| folder.join(name)).collect()
}
