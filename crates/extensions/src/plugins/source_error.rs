use std::path::PathBuf;

/// Why the source of a marketplace or a plugin can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("no source given")]
    Empty,
    #[error("{} can't be used: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{0}; give a folder (./market), owner/repository, a git address or the address of a marketplace.json"
    )]
    Unrecognized(Box<SourceError>),
    #[error("the source has no \"source\": github, git, url, directory or file")]
    NoKind,
    #[error(
        "a source {0:?} with these fields is unknown; use github (repo), git (url), url (url), directory (path) or file (path)"
    )]
    UnknownMarketplaceKind(String),
    #[error("there is no \"source\"")]
    Missing,
    #[error("\"source\" is neither a path nor an object")]
    NotPathOrObject,
    #[error("\"source\" has no \"{0}\"")]
    MissingField(&'static str),
    #[error("{0} is on this machine, but the marketplace is not")]
    LocalPluginOfRemoteMarketplace(String),
    #[error("unknown plugin source {0:?}; supported: a path, github, url, git-subdir, npm")]
    UnknownPluginKind(String),
    #[error("the path {0:?} has characters that can't be in one")]
    PathCharacters(String),
    #[error("the path {0:?} leads out of its folder")]
    PathLeavesFolder(String),
    #[error("the path {0:?} is absolute; it must be relative (./…)")]
    AbsolutePath(String),
    #[error(
        "{0:?} is an archive, and archives are not unpacked; use a folder, a git address or a package of an npm registry"
    )]
    Archive(String),
    #[error("{0:?} is not owner/repository")]
    Repository(String),
    #[error("{0:?} is not a branch or tag")]
    Reference(String),
    #[error("{0:?} is not a whole commit id (40 hexadecimal digits)")]
    Commit(String),
    #[error("{0:?} is not the name of an npm package")]
    Package(String),
    #[error("{0:?} is not a git address; use https, ssh or file")]
    GitAddress(String),
    #[error("{0:?} contains characters that are not allowed in an address")]
    AddressCharacters(String),
    #[error("{0:?} names a git remote helper, which could run any program; use https, ssh or file")]
    GitHelper(String),
    #[error("{0:?} is not encrypted, so its content could be changed in transit; use https")]
    Unencrypted(String),
    #[error("{0:?} is not a web address; use https")]
    WebAddress(String),
}
