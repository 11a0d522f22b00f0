//! Keeping what a command prints: its head and its tail in memory, all of it in a file when it is
//! more than that. Memory stays the same whether it prints a kilobyte or a terabyte.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use tokio::io::AsyncWriteExt;

/// The part of the output that is kept in memory.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    head_limit: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    total: u64,
}

impl Capture {
    /// Keeps at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        let head_limit = limit / 2;
        Self {
            head: Vec::new(),
            head_limit,
            tail: VecDeque::new(),
            tail_limit: limit - head_limit,
            total: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_limit - self.head.len();
        let (to_head, to_tail) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(to_head);
        let to_tail = &to_tail[to_tail.len().saturating_sub(self.tail_limit)..];
        let excess = (self.tail.len() + to_tail.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..excess);
        self.tail.extend(to_tail);
    }

    /// How many bytes there were.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// How many bytes between head and tail are not in memory.
    pub(super) fn omitted(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// Whether this much more would still fit as a whole.
    pub(super) fn fits(&self, more: usize) -> bool {
        self.total + more as u64 <= (self.head_limit + self.tail_limit) as u64
    }

    /// Head and tail in one piece. Only what was printed as long as nothing is omitted.
    pub(super) fn kept(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        let (front, back) = self.tail.as_slices();
        bytes.extend_from_slice(front);
        bytes.extend_from_slice(back);
        bytes
    }

    /// The output as text. `gap` words the note that stands where bytes are left out.
    pub(super) fn text(&self, gap: impl FnOnce(u64) -> String) -> String {
        let omitted = self.omitted();
        if omitted == 0 {
            return into_text(self.kept());
        }
        let head = &self.head[..whole_characters(&self.head)];
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let tail = &tail[first_character(&tail)..];
        let cut = omitted + (self.head.len() - head.len() + self.tail.len() - tail.len()) as u64;
        let mut text = String::from_utf8_lossy(head).into_owned();
        text.push_str(&gap(cut));
        text.push_str(&String::from_utf8_lossy(tail));
        text
    }

    /// The last lines, for showing progress.
    pub(super) fn last_lines(&self, count: usize, most_bytes: usize) -> String {
        let source: Vec<u8> = if self.tail.is_empty() {
            let start = self.head.len().saturating_sub(most_bytes);
            self.head[start..].to_vec()
        } else {
            let start = self.tail.len().saturating_sub(most_bytes);
            self.tail.iter().skip(start).copied().collect()
        };
        let source = &source[first_character(&source)..];
        let text = String::from_utf8_lossy(source);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

/// Bytes as text: invalid ones become U+FFFD, valid text is not copied.
pub(super) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// How many bytes there are up to the last character that is whole.
pub(super) fn whole_characters(bytes: &[u8]) -> usize {
    // A character has at most four bytes, so only the last three can begin one that is cut off.
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let wanted = match bytes[at] {
            byte if byte & 0b1100_0000 == 0b1000_0000 => continue,
            byte if byte >= 0b1111_0000 => 4,
            byte if byte >= 0b1110_0000 => 3,
            byte if byte >= 0b1100_0000 => 2,
            _ => 1,
        };
        return if wanted > back { at } else { bytes.len() };
    }
    bytes.len()
}

/// Where the first character begins: continuation bytes of one that was cut off are skipped.
fn first_character(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(3)
        .take_while(|&&byte| byte & 0b1100_0000 == 0b1000_0000)
        .count()
}

/// The file that takes all of the output.
#[derive(Debug)]
pub(super) enum Spill {
    /// None is wanted.
    Off,
    /// Made when memory no longer holds all.
    Later(PathBuf),
    /// Being written.
    Open(OpenSpill),
    /// Could not be made or written; the reason.
    Failed(String),
}

#[derive(Debug)]
pub(super) struct OpenSpill {
    pub(super) path: PathBuf,
    file: tokio::fs::File,
    written: u64,
    limit: u64,
    pub(super) full: bool,
}

impl Spill {
    /// Makes the file, with what was printed so far in it.
    pub(super) async fn open(&mut self, path: PathBuf, so_far: &[u8], limit: u64) {
        *self = match create(&path).await {
            Ok(file) => Self::Open(OpenSpill {
                path,
                file,
                written: 0,
                limit,
                full: false,
            }),
            Err(error) => Self::Failed(format!("{}: {error}", path.display())),
        };
        self.write(so_far).await;
    }

    /// Adds to the file, if there is one.
    pub(super) async fn write(&mut self, bytes: &[u8]) {
        let Self::Open(open) = self else { return };
        let room = usize::try_from(open.limit - open.written).unwrap_or(usize::MAX);
        let part = &bytes[..bytes.len().min(room)];
        open.full |= part.len() < bytes.len();
        if part.is_empty() {
            return;
        }
        let result = match open.file.write_all(part).await {
            // Readers look at the file, not into our buffer.
            Ok(()) => open.file.flush().await,
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => open.written += part.len() as u64,
            Err(error) => *self = Self::Failed(format!("{}: {error}", open.path.display())),
        }
    }

    /// The file, if it holds anything.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Open(open) => Some(&open.path),
            Self::Off | Self::Later(_) | Self::Failed(_) => None,
        }
    }
}

async fn create(path: &Path) -> io::Result<tokio::fs::File> {
    if let Some(parent) = path.parent() {
        tokio::fs::create_dir_all(parent).await?;
    }
    tokio::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(cut: u64) -> String {
        format!("[{cut}]")
    }

    #[test]
    fn what_fits_is_kept_as_it_was() {
        let mut capture = Capture::new(10);
        capture.push(b"01234");
        capture.push(b"56789");
        assert_eq!(capture.text(gap), "0123456789");
        assert_eq!(capture.omitted(), 0);
    }

    #[test]
    fn head_and_tail_are_kept_of_more() {
        let mut capture = Capture::new(10);
        for chunk in [&b"abc"[..], b"defghijklmnop", b"q", b"rstuvwxyz"] {
            capture.push(chunk);
        }
        assert_eq!(capture.text(gap), "abcde[16]vwxyz");
        assert_eq!(capture.total(), 26);
    }

    #[test]
    fn a_character_is_never_cut_in_two() {
        let mut capture = Capture::new(10);
        for _ in 0..10 {
            for byte in "äöü€".bytes() {
                capture.push(&[byte]);
            }
        }
        let text = capture.text(gap);
        assert!(!text.contains('\u{FFFD}'), "{text}");
        assert!(text.starts_with("äö[") && text.ends_with("]ü€"), "{text}");
    }

    #[test]
    fn characters_cut_at_chunk_ends_are_joined_and_invalid_bytes_replaced() {
        let mut capture = Capture::new(100);
        capture.push(b"\xe2\x82");
        capture.push(b"\xac\xff\x00z");
        assert_eq!(capture.text(gap), "€\u{FFFD}\0z");
    }

    #[test]
    fn a_limit_of_nothing_keeps_nothing() {
        let mut capture = Capture::new(0);
        capture.push(b"abc");
        assert_eq!(capture.text(gap), "[3]");
    }

    #[test]
    fn the_last_lines_are_found() {
        let mut capture = Capture::new(1000);
        capture.push(b"one\ntwo\nthree\nfour\n");
        assert_eq!(capture.last_lines(2, 500), "three\nfour");
    }
}
