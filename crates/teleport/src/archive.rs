//! The archive: a compressed tar with a manifest first, and exactly the files that the manifest names.
//!
//! An archive may come from anywhere. Names are of a few fixed forms, sizes and hashes must be those of the manifest,
//! and there are limits for all of it.

use crate::error::TeleportError;
use crate::snapshot::GitState;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use lathe_protocol::ids::SessionId;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The version of the format.
const VERSION: u32 = 1;
/// The name of the manifest.
const MANIFEST: &str = "manifest.json";
/// The name of the git state.
pub(crate) const BUNDLE: &str = "repo.bundle";
/// The name of the transcript.
pub(crate) const TRANSCRIPT: &str = "transcript.jsonl";
const LARGEST_MANIFEST: u64 = 32 << 20;
const MOST_FILES: usize = 100_000;
const MOST_BYTES: u64 = 16 << 30;

/// The description of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The version of the format.
    pub version: u32,
    /// The session.
    pub session: SessionId,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it was packed.
    pub created: String,
    /// The machine that it comes from.
    pub host: String,
    /// The top folder of the repository there, or the working folder where there is none.
    pub root: PathBuf,
    /// The working folder below it.
    pub folder: PathBuf,
    /// True if the source continues as well.
    pub fork: bool,
    /// The programs that packed it, with their versions.
    pub tools: BTreeMap<String, String>,
    /// The git state; `None` outside of a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitState>,
    /// The files of the archive.
    pub files: Vec<Member>,
}

/// A file of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// The SHA-256 of its content.
    pub sha256: String,
}

impl Manifest {
    /// The version that this program writes and reads.
    pub(crate) const VERSION: u32 = VERSION;
}

/// Content for an archive.
pub(crate) enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
}

impl Content {
    fn open(&self) -> Result<Box<dyn Read + '_>, TeleportError> {
        match self {
            Self::Bytes(bytes) => Ok(Box::new(bytes.as_slice())),
            Self::File(path) => File::open(path)
                .map(|file| Box::new(file) as Box<dyn Read>)
                .map_err(TeleportError::io("read", path)),
        }
    }

    fn member(&self, name: &str) -> Result<Member, TeleportError> {
        let mut hash = Sha256::new();
        let size = io::copy(&mut self.open()?, &mut HashWriter(&mut hash, io::sink()))
            .map_err(TeleportError::io("read", Path::new(name)))?;
        Ok(Member {
            name: name.to_owned(),
            size,
            sha256: hex(&hash.finalize()),
        })
    }
}

struct HashWriter<'a, W>(&'a mut Sha256, W);

impl<W: Write> Write for HashWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.1.write(bytes)?;
        self.0.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes an archive. The manifest's list of files is filled in.
pub(crate) fn write(
    to: &mut File,
    manifest: &mut Manifest,
    contents: &[(String, Content)],
) -> Result<(), TeleportError> {
    for (name, content) in contents {
        manifest.files.push(content.member(name)?);
    }
    let failed = |error| TeleportError::io("write", Path::new("the archive"))(error);
    let mut archive = tar::Builder::new(GzEncoder::new(to, Compression::fast()));
    let mut add = |name: &str, size: u64, content: &mut dyn Read| {
        let mut header = tar::Header::new_ustar();
        header.set_size(size);
        header.set_mode(0o600);
        header.set_entry_type(tar::EntryType::Regular);
        archive.append_data(&mut header, name, content)
    };
    let text = serde_json::to_vec(&manifest).map_err(|error| failed(error.into()))?;
    add(MANIFEST, text.len() as u64, &mut text.as_slice()).map_err(failed)?;
    for ((name, content), member) in contents.iter().zip(&manifest.files) {
        add(name, member.size, &mut content.open()?).map_err(failed)?;
    }
    let file = archive
        .into_inner()
        .and_then(GzEncoder::finish)
        .map_err(failed)?;
    file.sync_all().map_err(failed)
}

/// Reads an archive into a folder, laid out as a session: `transcript.jsonl` with its folder `transcript`.
pub(crate) fn read(from: impl Read, folder: &Path) -> Result<Manifest, TeleportError> {
    let damaged = |error: io::Error| TeleportError::Archive(error.to_string());
    let mut archive = tar::Archive::new(GzDecoder::new(from).take(MOST_BYTES));
    let mut entries = archive.entries().map_err(damaged)?;
    let mut first = match entries.next() {
        Some(first) => first.map_err(damaged)?,
        None => return Err(TeleportError::Archive("it is empty".to_owned())),
    };
    if name_of(&first)? != MANIFEST {
        return Err(TeleportError::Archive(
            "the manifest is not its first file".to_owned(),
        ));
    }
    let mut text = Vec::new();
    first
        .by_ref()
        .take(LARGEST_MANIFEST)
        .read_to_end(&mut text)
        .map_err(damaged)?;
    let manifest = parse_manifest(&text)?;
    let mut wanted: BTreeMap<&str, &Member> = BTreeMap::new();
    for member in &manifest.files {
        if wanted.insert(&member.name, member).is_some() {
            return Err(TeleportError::Archive(format!(
                "{} is there twice",
                member.name
            )));
        }
    }
    for entry in entries {
        let mut entry = entry.map_err(damaged)?;
        let name = name_of(&entry)?;
        let member = wanted
            .remove(name.as_str())
            .ok_or_else(|| TeleportError::Archive(format!("{name} is not in the manifest")))?;
        unpack(&mut entry, member, &folder.join(place_of(&name)?))?;
    }
    if let Some(name) = wanted.keys().next() {
        return Err(TeleportError::Archive(format!("{name} is missing")));
    }
    // The end has a checksum of all of it.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(damaged)?;
    Ok(manifest)
}

fn unpack(entry: &mut impl Read, member: &Member, path: &Path) -> Result<(), TeleportError> {
    let failed = TeleportError::io("write", path);
    let mut hash = Sha256::new();
    let mut write = || -> io::Result<u64> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = File::create_new(path)?;
        let limit = member.size.saturating_add(1);
        io::copy(
            &mut entry.take(limit),
            &mut HashWriter(&mut hash, &mut file),
        )
    };
    let size = write().map_err(failed)?;
    if size != member.size || hex(&hash.finalize()) != member.sha256 {
        return Err(TeleportError::Archive(format!(
            "{} is not what the manifest says",
            member.name
        )));
    }
    Ok(())
}

/// Reads a manifest and checks every part of it.
pub(crate) fn parse_manifest(text: &[u8]) -> Result<Manifest, TeleportError> {
    let damaged = |error: serde_json::Error| TeleportError::Archive(error.to_string());
    let version: serde_json::Value = serde_json::from_slice(text).map_err(damaged)?;
    let version = version["version"].as_u64();
    if version.is_some_and(|version| version > u64::from(VERSION)) {
        return Err(TeleportError::Archive(format!(
            "its format {} is newer than this version of Lathe; update first",
            version.unwrap_or_default()
        )));
    }
    let manifest: Manifest = serde_json::from_slice(text).map_err(damaged)?;
    let bytes: u64 = manifest
        .files
        .iter()
        .fold(0, |sum, member| sum.saturating_add(member.size));
    if manifest.files.len() > MOST_FILES || bytes > MOST_BYTES {
        return Err(TeleportError::Archive("it is too large".to_owned()));
    }
    for member in &manifest.files {
        place_of(&member.name)?;
        let blob = member.name.strip_prefix("blobs/");
        if !is_hash(&member.sha256) || blob.is_some_and(|name| name != member.sha256) {
            return Err(TeleportError::Archive(format!(
                "{} has a wrong hash",
                member.name
            )));
        }
    }
    if !manifest
        .files
        .iter()
        .any(|member| member.name == TRANSCRIPT)
    {
        return Err(TeleportError::Archive("it has no transcript".to_owned()));
    }
    let inside = manifest
        .folder
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    if !inside || !manifest.root.is_absolute() {
        return Err(TeleportError::Archive("its folders are wrong".to_owned()));
    }
    if let Some(git) = &manifest.git {
        check_state(git)?;
    }
    Ok(manifest)
}

/// Everything that becomes an argument of git has the form that git itself writes.
fn check_state(git: &GitState) -> Result<(), TeleportError> {
    let hashes = git.roots.iter().chain(&git.head);
    let hashes = hashes.chain([&git.index_tree, &git.files_tree]);
    let hashes = hashes.into_iter().all(|hash| {
        matches!(hash.len(), 40 | 64) && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    let branch = git.branch.as_deref().is_none_or(|branch| {
        !branch.is_empty()
            && !branch.starts_with(['-', '/', '.'])
            && !branch.ends_with(['/', '.'])
            && !branch.ends_with(".lock")
            && !["..", "//", "@{", "/."]
                .iter()
                .any(|it| branch.contains(it))
            && !branch.contains(|it: char| it.is_control() || " ~^:?*[\\".contains(it))
    });
    let format = matches!(git.object_format.as_str(), "sha1" | "sha256");
    if hashes && branch && format {
        return Ok(());
    }
    Err(TeleportError::Archive("its git state is wrong".to_owned()))
}

fn is_hash(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn name_of<R: Read>(entry: &tar::Entry<'_, R>) -> Result<String, TeleportError> {
    if entry.header().entry_type() != tar::EntryType::Regular {
        return Err(TeleportError::Archive(
            "it holds more than files".to_owned(),
        ));
    }
    String::from_utf8(entry.path_bytes().into_owned())
        .map_err(|_| TeleportError::Archive("a name is not UTF-8".to_owned()))
}

/// The place of a file below the folder that an archive is read into.
fn place_of(name: &str) -> Result<PathBuf, TeleportError> {
    let plain = |name: &str| {
        !name.is_empty()
            && name.len() <= 200
            && !name.starts_with('.')
            && name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
    };
    let place = match name.split_once('/') {
        None if matches!(name, TRANSCRIPT | BUNDLE) => Some(PathBuf::from(name)),
        None if name == "notes.md" => Some(PathBuf::from("transcript/notes.md")),
        Some(("blobs", hash)) if is_hash(hash) => Some(Path::new("transcript/blobs").join(hash)),
        Some(("agents", file)) if plain(file) && file.starts_with("agent-") => {
            Some(Path::new("transcript/subagents").join(file))
        }
        Some(("tool-results", file)) if plain(file) => {
            Some(Path::new("transcript/tool-results").join(file))
        }
        _ => None,
    };
    place.ok_or_else(|| TeleportError::Archive(format!("the name {name:?} is not allowed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            version: VERSION,
            session: SessionId::random(),
            title: None,
            created: "2026-01-01T00:00:00Z".to_owned(),
            host: "here".to_owned(),
            root: "/home/ada/project".into(),
            folder: PathBuf::new(),
            fork: false,
            tools: BTreeMap::new(),
            git: None,
            files: Vec::new(),
        }
    }

    fn packed(contents: &[(String, Content)]) -> Vec<u8> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write(file.as_file_mut(), &mut manifest(), contents).unwrap();
        fs::read(file.path()).unwrap()
    }

    fn transcript() -> (String, Content) {
        (TRANSCRIPT.to_owned(), Content::Bytes(b"{}\n".to_vec()))
    }

    #[test]
    fn an_archive_is_read_back_as_a_session() {
        let blob = hex(&Sha256::digest(b"blob"));
        let bytes = packed(&[
            transcript(),
            (format!("blobs/{blob}"), Content::Bytes(b"blob".to_vec())),
            (
                "agents/agent-a1.jsonl".to_owned(),
                Content::Bytes(b"x".to_vec()),
            ),
        ]);
        let folder = tempfile::tempdir().unwrap();
        let read = read(bytes.as_slice(), folder.path()).unwrap();
        assert_eq!(read.files.len(), 3);
        let at = |name: &str| fs::read(folder.path().join(name)).unwrap();
        assert_eq!(at("transcript.jsonl"), b"{}\n");
        assert_eq!(at(&format!("transcript/blobs/{blob}")), b"blob");
        assert_eq!(at("transcript/subagents/agent-a1.jsonl"), b"x");
    }

    #[test]
    fn any_changed_byte_of_the_content_is_noticed() {
        // Stored without compression, so that a changed byte is a changed byte of the content.
        let mut plain = Vec::new();
        let bytes = packed(&[transcript()]);
        GzDecoder::new(bytes.as_slice())
            .read_to_end(&mut plain)
            .unwrap();
        let at = plain.windows(3).rposition(|part| part == b"{}\n").unwrap();
        plain[at] ^= 1;
        let mut again = GzEncoder::new(Vec::new(), Compression::none());
        again.write_all(&plain).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let error = read(again.finish().unwrap().as_slice(), folder.path()).unwrap_err();
        assert!(
            error.to_string().contains("transcript.jsonl is not what"),
            "{error}"
        );
    }

    #[test]
    fn a_cut_archive_is_refused_at_every_length() {
        let bytes = packed(&[transcript()]);
        for length in 0..bytes.len() {
            let folder = tempfile::tempdir().unwrap();
            assert!(read(&bytes[..length], folder.path()).is_err(), "{length}");
        }
    }

    #[test]
    fn names_lead_nowhere_else() {
        for name in [
            "../x",
            "/etc/passwd",
            "blobs/../../x",
            "agents/agent-../x",
            "agents/other.jsonl",
            "tool-results/.hidden",
            "tool-results/a/b",
            "settings.json",
            "blobs/short",
        ] {
            assert!(place_of(name).is_err(), "{name}");
        }
        for (change, value) in [
            ("/folder", serde_json::json!("../..")),
            ("/root", serde_json::json!("relative")),
            (
                "/git",
                serde_json::json!({"objectFormat": "sha1", "roots": [], "head": "--upload-pack=x",
                "branch": null, "indexTree": "a", "filesTree": "b", "intentToAdd": [], "whole": true}),
            ),
        ] {
            let mut value_of = serde_json::to_value(manifest()).unwrap();
            value_of["files"] =
                serde_json::json!([{"name": TRANSCRIPT, "size": 1, "sha256": "0".repeat(64)}]);
            assert!(parse_manifest(value_of.to_string().as_bytes()).is_ok());
            let name = change.trim_start_matches('/');
            value_of[name] = value;
            assert!(
                parse_manifest(value_of.to_string().as_bytes()).is_err(),
                "{change}"
            );
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let error = parse_manifest(br#"{"version": 99}"#).unwrap_err();
        assert!(error.to_string().contains("update first"), "{error}");
    }
}
