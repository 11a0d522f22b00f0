//! Folders on a disk that is full.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder on a small file system of its own, which the test fills.
#[derive(Debug)]
pub struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system of this many bytes on an empty folder.
    ///
    /// # Errors
    /// If it can't be mounted here: only root can.
    pub fn mount(folder: &Path, bytes: u64) -> io::Result<Self> {
        let output = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={bytes},mode=777"),
                "tmpfs",
            ])
            .arg(folder)
            .output()?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(io::Error::other(format!(
                "can't mount a small file system (needs root): {why}"
            )));
        }
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Fills the disk to its last block; returns the file that does it.
    ///
    /// # Panics
    /// If it can't be filled.
    #[must_use]
    pub fn fill(&self) -> PathBuf {
        use std::io::Write;
        let path = self.folder.join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        let page = [0_u8; 4096];
        for _ in 0..1_000_000 {
            if file.write_all(&page).is_err() {
                return path;
            }
        }
        panic!("{} takes everything", self.folder.display());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that is just being killed may still have a file open there.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}
