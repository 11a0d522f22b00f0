//! The kind of an object of a repository: a file as it was at some time, or something else.
//!
//! `git show <name>` prints whatever the name stands for. A commit or a tag is an everyday thing to show; a file by the
//! name of its object, or by a reference to it, can be any file that was ever committed. The object's kind is read from
//! git's own files: loose objects start with it, and packs keep it outside of the compressed data.

use super::references::{is_object, targets};
use super::{Found, common_folder, find};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The kind of an object, as far as it matters for reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    /// The contents of a file.
    File,
    /// A commit, a list of names, a tag of one, or nothing at all.
    NoFile,
    /// It can't be said.
    Unknown,
}

/// Deltas on deltas; git makes at most 4095 of them.
const LONGEST_CHAIN: usize = 4_096;
/// Packs that are looked into.
const MOST_PACKS: usize = 256;

impl ObjectKind {
    /// The kind of the object that a name, the start of one or a reference stands for in the repository of a folder.
    pub(crate) fn of(folder: &Path, name: &str) -> Self {
        let Found::At { folder, .. } = find(folder) else {
            return Self::NoFile;
        };
        let Ok(common) = common_folder(&folder) else {
            return Self::Unknown;
        };
        let by_name = is_object(name).then(|| Self::in_store(&common, &name.to_ascii_lowercase()));
        let by_reference = match targets(&folder, &common, name) {
            Some(objects) => objects
                .iter()
                .map(|object| Self::in_store(&common, object))
                .collect(),
            // The name of an object is enough of an answer where references can't be read.
            None if by_name.is_some() => Vec::new(),
            None => vec![Self::Unknown],
        };
        let kinds: Vec<Self> = by_name.into_iter().chain(by_reference).collect();
        [Self::File, Self::Unknown]
            .into_iter()
            .find(|kind| kinds.contains(kind))
            .unwrap_or(Self::NoFile)
    }

    /// The kind of the objects whose names start so.
    fn in_store(common: &Path, name: &str) -> Self {
        let objects = common.join("objects");
        let config =
            lathe_settings::regular_file::read_text(&common.join("config")).unwrap_or_default();
        let store = Store {
            objects: &objects,
            name_length: if config.to_ascii_lowercase().contains("sha256") {
                32
            } else {
                20
            },
        };
        match store.kinds(name) {
            None => Self::Unknown,
            Some(kinds) if kinds.contains(&Self::File) => Self::File,
            Some(kinds) if kinds.contains(&Self::Unknown) => Self::Unknown,
            // What isn't here may be in a repository that this one borrows from.
            Some(kinds) if kinds.is_empty() && objects.join("info/alternates").exists() => {
                Self::Unknown
            }
            Some(_) => Self::NoFile,
        }
    }
}

struct Store<'a> {
    objects: &'a Path,
    /// Bytes of a whole name.
    name_length: usize,
}

impl Store<'_> {
    /// The kinds of all objects whose names start so; none when something isn't understood.
    fn kinds(&self, name: &str) -> Option<Vec<ObjectKind>> {
        let mut kinds = self.loose(name)?;
        let packs = match std::fs::read_dir(self.objects.join("pack")) {
            Ok(packs) => packs,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(kinds),
            Err(_) => return None,
        };
        let indexes = packs
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "idx"));
        for (count, index) in indexes.enumerate() {
            if count >= MOST_PACKS {
                return None;
            }
            let pack = Pack::open(&index, self.name_length)?;
            for offset in pack.offsets(name)? {
                kinds.push(pack.kind(offset, self)?);
            }
        }
        Some(kinds)
    }

    fn loose(&self, name: &str) -> Option<Vec<ObjectKind>> {
        let (folder, rest) = name.split_at_checked(2)?;
        let entries = match std::fs::read_dir(self.objects.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(Vec::new()),
            Err(_) => return None,
        };
        let mut kinds = Vec::new();
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(rest) {
                let file = File::open(entry.path()).ok()?;
                let head = inflated(file)?;
                kinds.push(match head.iter().position(|byte| *byte == 0) {
                    _ if head.starts_with(b"blob ") => ObjectKind::File,
                    Some(end) if head.starts_with(b"tag ") => tagged(head.get(end + 1..)?),
                    _ => ObjectKind::NoFile,
                });
            }
        }
        Some(kinds)
    }
}

/// How much of an object is looked at: enough for the first lines of a tag.
const LONGEST_HEAD: u64 = 256;

/// The start of compressed data.
fn inflated(compressed: impl Read) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    flate2::read::ZlibDecoder::new(compressed)
        .take(LONGEST_HEAD)
        .read_to_end(&mut head)
        .ok()?;
    (!head.is_empty()).then_some(head)
}

/// The start of compressed data of which the end may be missing.
fn start_of(compressed: &[u8]) -> Option<Vec<u8>> {
    let mut head = vec![0; 128];
    let mut inflate = flate2::Decompress::new(true);
    inflate
        .decompress(compressed, &mut head, flate2::FlushDecompress::None)
        .ok()?;
    head.truncate(usize::try_from(inflate.total_out()).ok()?);
    Some(head)
}

/// The kind of the object that a tag names: `object <name>`, `type <kind>`.
fn tagged(tag: &[u8]) -> ObjectKind {
    let text = String::from_utf8_lossy(tag);
    match text.lines().nth(1) {
        Some("type commit" | "type tree") => ObjectKind::NoFile,
        Some("type blob") => ObjectKind::File,
        _ => ObjectKind::Unknown,
    }
}

/// A pack with its index of version 2.
struct Pack {
    index: File,
    data: File,
    name_length: u64,
    /// How many objects have a first byte up to the position.
    totals: Vec<u64>,
}

/// Where the names begin: after a mark, a version and 256 totals.
const NAMES: u64 = 8 + 256 * 4;

impl Pack {
    fn open(index: &Path, name_length: usize) -> Option<Self> {
        let data = File::open(index.with_extension("pack")).ok()?;
        let index = File::open(index).ok()?;
        let mut head = [0; 8 + 256 * 4];
        index.read_exact_at(&mut head, 0).ok()?;
        if head.get(..8)? != b"\xfftOc\0\0\0\x02" {
            return None;
        }
        let totals = head
            .get(8..)?
            .chunks_exact(4)
            .filter_map(|four| Some(u64::from(u32::from_be_bytes(four.try_into().ok()?))))
            .collect();
        Some(Self {
            index,
            data,
            name_length: u64::try_from(name_length).ok()?,
            totals,
        })
    }

    fn name(&self, position: u64) -> Option<String> {
        let mut name = vec![0; usize::try_from(self.name_length).ok()?];
        self.index
            .read_exact_at(&mut name, NAMES + position * self.name_length)
            .ok()?;
        Some(name.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Where the objects whose names start so lie in the pack.
    fn offsets(&self, start: &str) -> Option<Vec<u64>> {
        let first = u8::from_str_radix(start.get(..2)?, 16).ok()?;
        let end = *self.totals.get(usize::from(first))?;
        let mut low = match first.checked_sub(1) {
            Some(before) => *self.totals.get(usize::from(before))?,
            None => 0,
        };
        let mut high = end;
        while low < high {
            let middle = u64::midpoint(low, high);
            if self.name(middle)?.as_str() < start {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let mut offsets = Vec::new();
        while low < end && self.name(low)?.starts_with(start) {
            offsets.push(self.offset(low)?);
            low += 1;
        }
        Some(offsets)
    }

    fn offset(&self, position: u64) -> Option<u64> {
        let total = *self.totals.last()?;
        let offsets = NAMES + total * (self.name_length + 4);
        let mut four = [0; 4];
        self.index
            .read_exact_at(&mut four, offsets + position * 4)
            .ok()?;
        let offset = u32::from_be_bytes(four);
        if offset & 0x8000_0000 == 0 {
            return Some(u64::from(offset));
        }
        // Large packs keep the offset in a second table.
        let mut eight = [0; 8];
        let at = u64::from(offset & 0x7fff_ffff) * 8;
        self.index
            .read_exact_at(&mut eight, offsets + total * 4 + at)
            .ok()?;
        Some(u64::from_be_bytes(eight))
    }

    /// The kind of the object at an offset, through the objects that it differs from.
    fn kind(&self, mut offset: u64, store: &Store<'_>) -> Option<ObjectKind> {
        for step in 0..LONGEST_CHAIN {
            let mut head = [0; 1024];
            let length = self.data.read_at(&mut head, offset).ok()?;
            let mut bytes = head.get(..length)?.iter().copied();
            let first = bytes.next()?;
            let mut byte = first;
            while byte & 0x80 != 0 {
                byte = bytes.next()?;
            }
            match (first >> 4) & 7 {
                1 | 2 => return Some(ObjectKind::NoFile),
                3 => return Some(ObjectKind::File),
                // Another tag is not this one.
                4 if step > 0 => return Some(ObjectKind::Unknown),
                4 => {
                    let compressed: Vec<u8> = bytes.collect();
                    return Some(tagged(&start_of(&compressed)?));
                }
                6 => {
                    let mut byte = bytes.next()?;
                    let mut distance = u64::from(byte & 0x7f);
                    while byte & 0x80 != 0 {
                        byte = bytes.next()?;
                        distance =
                            distance.checked_add(1)?.checked_mul(128)? | u64::from(byte & 0x7f);
                    }
                    offset = offset.checked_sub(distance).filter(|_| distance > 0)?;
                }
                7 => {
                    let name: String = bytes
                        .take(store.name_length)
                        .map(|byte| format!("{byte:02x}"))
                        .collect();
                    // The other object is in this pack, or a loose one.
                    match self.offsets(&name)?.first() {
                        Some(found) => offset = *found,
                        None => return store.loose(&name)?.first().copied(),
                    }
                }
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn git(folder: &Path, words: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(words)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {words:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Every object's kind is the one that git says, loose and packed, by whole and by short names.
    #[test]
    fn kinds_are_what_git_says() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        git(top, &["init", "-q", "-b", "main"]);
        let mut text = String::new();
        for round in 0..40 {
            text.push_str(&format!(
                "line {round} of a file that grows, so that packs have deltas\n"
            ));
            std::fs::write(top.join(".env"), &text).unwrap();
            std::fs::write(top.join(format!("file-{round}")), format!("{round}")).unwrap();
            git(top, &["add", "-A"]);
            git(top, &["commit", "-qm", "one"]);
        }
        git(top, &["tag", "-a", "-m", "x", "v1"]);
        let check = |folder: &Path| {
            let listed = git(
                folder,
                &[
                    "cat-file",
                    "--batch-all-objects",
                    "--batch-check=%(objectname) %(objecttype)",
                ],
            );
            assert!(listed.lines().count() > 100);
            for line in listed.lines() {
                let (name, kind) = line.split_once(' ').unwrap();
                let wanted = if kind == "blob" {
                    ObjectKind::File
                } else {
                    ObjectKind::NoFile
                };
                assert_eq!(ObjectKind::of(folder, name), wanted, "{line}");
                let short = &name[..12];
                assert_eq!(ObjectKind::of(folder, short), wanted, "{line}");
            }
        };
        check(top);
        git(top, &["gc", "-q"]);
        check(top);
        git(
            top,
            &["-c", "pack.indexVersion=2", "repack", "-adfq", "--depth=50"],
        );
        check(top);
        assert_eq!(ObjectKind::of(top, "0000000000000000"), ObjectKind::NoFile);
        for reference in ["v1", "tags/v1", "refs/tags/v1", "main", "missing", "../x"] {
            assert_eq!(
                ObjectKind::of(top, reference),
                ObjectKind::NoFile,
                "{reference}"
            );
        }
        std::fs::write(top.join(".git/objects/info/alternates"), "/elsewhere\n").unwrap();
        assert_eq!(ObjectKind::of(top, "0000000000000000"), ObjectKind::Unknown);
    }

    /// A reference to a file, by itself and by an annotated tag, loose and packed.
    #[test]
    fn references_to_files_are_files() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        git(top, &["init", "-q", "-b", "main"]);
        std::fs::write(top.join(".env"), "x").unwrap();
        git(top, &["add", "-A"]);
        git(top, &["commit", "-qm", "one"]);
        let file = git(top, &["rev-parse", "HEAD:.env"]);
        git(top, &["tag", "plain", &file]);
        git(top, &["tag", "-a", "-m", "x", "annotated", &file]);
        git(top, &["tag", "-a", "-m", "x", "of-commit"]);
        git(top, &["update-ref", "refs/other/name", &file]);
        git(
            top,
            &["symbolic-ref", "refs/tags/indirect", "refs/tags/plain"],
        );
        let annotated = git(top, &["rev-parse", "annotated"]);
        let of_commit = git(top, &["rev-parse", "of-commit"]);
        for packed in [false, true] {
            if packed {
                git(top, &["pack-refs", "--all"]);
                git(top, &["gc", "-q"]);
            }
            for name in [
                "plain",
                "annotated",
                "tags/plain",
                "refs/tags/annotated",
                "other/name",
                "indirect",
                &annotated,
            ] {
                assert_eq!(
                    ObjectKind::of(top, name),
                    ObjectKind::File,
                    "{name} {packed}"
                );
            }
            for name in ["main", "of-commit", "heads/main", "HEAD", "x", &of_commit] {
                assert_eq!(
                    ObjectKind::of(top, name),
                    ObjectKind::NoFile,
                    "{name} {packed}"
                );
            }
        }
        std::fs::create_dir(top.join(".git/reftable")).unwrap();
        assert_eq!(ObjectKind::of(top, "main"), ObjectKind::Unknown);
    }

    #[test]
    fn names_of_longer_objects_are_understood() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        git(top, &["init", "-q", "--object-format=sha256"]);
        std::fs::write(top.join(".env"), "x").unwrap();
        git(top, &["add", "-A"]);
        git(top, &["commit", "-qm", "one"]);
        git(top, &["gc", "-q"]);
        let file = git(top, &["rev-parse", "HEAD:.env"]);
        let commit = git(top, &["rev-parse", "HEAD"]);
        assert_eq!(ObjectKind::of(top, &file), ObjectKind::File);
        assert_eq!(ObjectKind::of(top, &commit), ObjectKind::NoFile);
    }
}
