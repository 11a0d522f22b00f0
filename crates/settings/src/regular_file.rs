//! Reading files that a folder brings: a pipe or a device in the place of a file is an error, not a wait without end.

use std::io::{self, Read as _};
use std::path::Path;

/// The size of the largest file that is read: more than any file that people write.
pub const LARGEST: u64 = 64 * 1024 * 1024;

/// Reads a regular file.
///
/// # Errors
/// When it isn't there, can't be read, is too large or isn't a regular file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = std::fs::File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = nix::fcntl::OFlag::O_NONBLOCK | nix::fcntl::OFlag::O_NOCTTY;
        options.custom_flags(flags.bits());
    }
    // Opening some devices has effects of its own.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > LARGEST) {
        return Err(io::Error::other("it is too large"));
    }
    Ok(bytes)
}

/// Reads a regular file of text.
///
/// # Errors
/// As [`read`], and when it isn't UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Whether a folder has a device or a pipe in the place of a file that says what a search leaves out. A search
/// reads those files, and such a one has no end.
#[must_use]
pub fn has_endless_ignore_file(folder: &Path) -> bool {
    [".gitignore", ".ignore", ".rgignore", ".git/info/exclude"]
        .iter()
        .any(|name| {
            std::fs::metadata(folder.join(name))
                .is_ok_and(|found| !found.is_file() && !found.is_dir())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("plain"), "text").unwrap();
        assert_eq!(read_text(&at("plain")).unwrap(), "text");
        assert_eq!(
            read(&at("missing")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("endless")).unwrap();
        std::os::unix::fs::symlink("plain", at("link")).unwrap();
        assert!(read(&at("pipe")).is_err());
        assert!(read(&at("endless")).is_err());
        assert!(read(folder.path()).is_err());
        assert_eq!(read(&at("link")).unwrap(), b"text");
        assert!(!has_endless_ignore_file(folder.path()));
        std::os::unix::fs::symlink("/dev/zero", at(".gitignore")).unwrap();
        assert!(has_endless_ignore_file(folder.path()));
        std::fs::write(at("latin"), [0xe9]).unwrap();
        assert!(read_text(&at("latin")).is_err());
    }
}
