//! Finds the `lathe` that was built with the tests.

use crate::workspace_root;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The path of the `lathe` binary: the one that `CARGO_BIN_EXE_lathe` names, or the one in the
/// target folder that this test was built into. It is built first if it is missing or older than
/// the sources, so that a test never runs against yesterday's program.
///
/// # Panics
/// If it can't be built.
#[must_use]
pub fn lathe() -> &'static Path {
    // A failure is cached too: it would repeat for every test.
    static BINARY: OnceLock<io::Result<PathBuf>> = OnceLock::new();
    match BINARY.get_or_init(find) {
        Ok(path) => path,
        Err(why) => panic!("{why}"),
    }
}

/// A program where everybody can run it: where it is, or a copy if a folder above it is closed to others.
///
/// # Panics
/// If it can't be copied.
#[must_use]
pub fn open_to_everybody(program: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let is_open = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o001 != 0)
    };
    if program.ancestors().all(is_open) {
        return program.to_path_buf();
    }
    let folder = tempfile::Builder::new()
        .prefix("lathe-program-")
        .tempdir()
        .expect("a folder can be made")
        .keep();
    let open = std::fs::Permissions::from_mode(0o755);
    let copy = folder.join(program.file_name().expect("a program has a name"));
    std::fs::set_permissions(&folder, open.clone()).expect("the folder is ours");
    std::fs::copy(program, &copy).expect("the program can be copied");
    std::fs::set_permissions(&copy, open).expect("the copy is ours");
    copy
}

/// [`lathe`] where everybody can run it.
#[must_use]
pub fn for_everybody() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| open_to_everybody(lathe()))
}

fn find() -> io::Result<PathBuf> {
    // A binary that the caller built on purpose (a benchmark of the release build).
    for variable in ["LATHE_TEST_BINARY", "CARGO_BIN_EXE_lathe"] {
        if let Some(path) = std::env::var_os(variable) {
            return Ok(PathBuf::from(path));
        }
    }
    let test = std::env::current_exe().expect("the test has a path");
    // …/target/debug/deps/test-0123 → …/target/debug
    let profile = test
        .ancestors()
        .find(|folder| folder.join("deps").is_dir() && folder.join(".fingerprint").is_dir())
        .unwrap_or_else(|| panic!("{} lies in no target folder", test.display()));
    let binary = profile.join("lathe");
    let built = std::fs::metadata(&binary)
        .and_then(|metadata| metadata.modified())
        .ok();
    if built.is_none_or(|built| newest_source() > built) {
        build(profile)?;
    }
    if !binary.is_file() {
        let why = format!(
            "cargo build --workspace --bins made no {}",
            binary.display()
        );
        return Err(io::Error::other(why));
    }
    Ok(binary)
}

fn build(profile: &Path) -> io::Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--workspace", "--bins"])
        .current_dir(workspace_root());
    match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(name) => {
            cargo.args(["--profile", name]);
        }
    }
    cargo.env(
        "CARGO_TARGET_DIR",
        profile.parent().expect("a profile lies in a target folder"),
    );
    if !cargo.status()?.success() {
        let why = "cargo build --workspace --bins failed; its messages are above";
        return Err(io::Error::other(why));
    }
    Ok(())
}

fn newest_source() -> SystemTime {
    let root = workspace_root();
    let mut newest = modified(&root.join("Cargo.lock"));
    let mut folders = vec![root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            // Tests aren't part of the binary.
            if path.is_dir() && entry.file_name() != "tests" && entry.file_name() != "testkit" {
                folders.push(path);
            } else if path.is_file() {
                newest = newest.max(modified(&path));
            }
        }
    }
    newest
}

fn modified(path: &Path) -> SystemTime {
    std::fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
