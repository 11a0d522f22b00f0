use crate::version::{BadVersion, Version};
use std::io;
use std::path::PathBuf;

/// Why an installation could not be changed. Nothing that worked before was changed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// There is no home folder to install into.
    #[error("there is no home folder: set HOME")]
    NoHome,
    /// This program was built without the key of the releases.
    #[error(
        "this program has no release key: it was not built by a release, so it can't check one"
    )]
    NoKey,
    /// The key in the program is none.
    #[error("the release key is not 32 bytes in base64")]
    BadKey,
    /// The address of the releases can't be used.
    #[error("the release address {url} can't be used: {why}")]
    BadAddress {
        /// The address.
        url: String,
        /// Why not.
        why: String,
    },
    /// The network refused.
    #[error("{url} can't be fetched: {why}")]
    Fetch {
        /// The address.
        url: String,
        /// Why not.
        why: String,
    },
    /// The signature does not belong to the manifest and the key.
    #[error(
        "the signature of {url} is wrong: the manifest is not from the makers of this program, or was changed"
    )]
    WrongSignature {
        /// The address of the manifest.
        url: String,
    },
    /// The manifest does not say what it must.
    #[error("the manifest can't be used: {0}")]
    BadManifest(String),
    /// An older manifest than the one that was seen before.
    #[error(
        "the manifest is older than one that was seen before (serial {serial}, seen {seen}): it is out of date, or replayed"
    )]
    OldManifest {
        /// Its serial number.
        serial: u64,
        /// The greatest one seen.
        seen: u64,
    },
    /// There is no such version.
    #[error("there is no version {wanted} for {target}; there are: {known}")]
    NoSuchVersion {
        /// The version or channel.
        wanted: String,
        /// The target of this program.
        target: &'static str,
        /// The versions that there are.
        known: String,
    },
    /// An update would go back.
    #[error(
        "the channel {channel} offers {offered}, which is older than {current}; `lathe install {offered}` goes back to it"
    )]
    Downgrade {
        /// The channel.
        channel: String,
        /// Its version.
        offered: Version,
        /// The version that is in use.
        current: Version,
    },
    /// A text is no version.
    #[error(transparent)]
    BadVersion(#[from] BadVersion),
    /// The archive has another size.
    #[error("{file} has {got} bytes instead of {wanted}")]
    WrongSize {
        /// The archive.
        file: String,
        /// The bytes that came.
        got: u64,
        /// The bytes of the manifest.
        wanted: u64,
    },
    /// The archive has another content.
    #[error(
        "{file} has another SHA-256 than the manifest says: it was changed, or damaged on the way"
    )]
    WrongHash {
        /// The archive.
        file: String,
    },
    /// The archive holds no program.
    #[error("{file} is not a release archive: {why}")]
    BadArchive {
        /// The archive.
        file: String,
        /// Why not.
        why: String,
    },
    /// The new program does not start here.
    #[error("lathe {version} does not start on this machine, so it is not used: {why}")]
    DoesNotStart {
        /// Its version.
        version: Version,
        /// Its answer.
        why: String,
    },
    /// Another process changes the installation.
    #[error("another process ({holder}) changes the installation; wait for it")]
    Busy {
        /// Its process id.
        holder: String,
    },
    /// The name of the link is taken.
    #[error("{} is not a link into {}; --force replaces it", .link.display(), .data.display())]
    ForeignLink {
        /// The name.
        link: PathBuf,
        /// The folder of the native layout.
        data: PathBuf,
    },
    /// The file system refused.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        error: io::Error,
    },
}

/// Adds the path to an error of the file system.
pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> UpdateError {
    let path = path.into();
    move |error| UpdateError::Io { path, error }
}
