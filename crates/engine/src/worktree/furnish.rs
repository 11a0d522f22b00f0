//! The files of a new worktree beside those of its commit: the part of the tree that settings name, folders
//! shared with the original, and copies of ignored files that `.worktreeinclude` names.

use super::{Git, WorktreeError, git};
use lathe_settings::schema::WorktreeSettings;
use std::collections::HashSet;
use std::path::{Component, Path};

/// The file that names ignored files to copy, with patterns as in `.gitignore`.
const INCLUDE_FILE: &str = ".worktreeinclude";
/// Files that are copied at most.
const MOST_FILES: usize = 2_000;
/// The largest file that is copied.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Whether a path stays below the folder that it is relative to.
fn is_inside(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Checks out the part that settings name, links the folders that they name, and copies ignored files.
pub(super) async fn furnish(
    trusted: &Git,
    repository: &Path,
    path: &Path,
    settings: &WorktreeSettings,
    remarks: &mut Vec<String>,
) -> Result<(), WorktreeError> {
    if !settings.sparse_paths.is_empty() {
        let mut sparse = vec!["sparse-checkout", "set", "--cone", "--"];
        sparse.extend(settings.sparse_paths.iter().map(String::as_str));
        git(trusted, path, &sparse)
            .await
            .map_err(WorktreeError::Sparse)?;
        git(trusted, path, &["checkout", "--quiet"])
            .await
            .map_err(WorktreeError::Sparse)?;
        remarks.push(format!(
            "Only these folders are checked out: {}.",
            settings.sparse_paths.join(", ")
        ));
    }
    for name in &settings.symlink_directories {
        let (target, link) = (repository.join(name), path.join(name));
        if !is_inside(name) || !target.is_dir() || link.symlink_metadata().is_ok() {
            continue;
        }
        let made = link
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::os::unix::fs::symlink(&target, &link));
        remarks.push(match made {
            Ok(()) => format!(
                "{name} is shared with the original folder: changes there are seen by both."
            ),
            Err(error) => format!("{name} can't be linked: {error}."),
        });
    }
    copy_included(trusted, repository, path, remarks).await;
    Ok(())
}

/// Copies the ignored files that `.worktreeinclude` of the original names. What is tracked is there already.
async fn copy_included(trusted: &Git, repository: &Path, path: &Path, remarks: &mut Vec<String>) {
    let list = repository.join(INCLUDE_FILE);
    if !list.is_file() {
        return;
    }
    let from = format!("--exclude-from={}", list.display());
    let listed = ["ls-files", "-z", "--others", "--ignored"];
    let by_list = [&listed[..], &[from.as_str()]].concat();
    let by_git = [&listed[..], &["--exclude-standard"]].concat();
    let (named, ignored) = tokio::join!(
        git(trusted, repository, &by_list),
        git(trusted, repository, &by_git),
    );
    let (named, ignored) = match (named, ignored) {
        (Ok(named), Ok(ignored)) => (named, ignored),
        (Err(error), _) | (_, Err(error)) => {
            remarks.push(format!("{INCLUDE_FILE} can't be used: {error}."));
            return;
        }
    };
    let ignored: HashSet<&str> = ignored.split('\0').collect();
    // A name with a slash at its end is a repository of its own.
    let wanted = named
        .split('\0')
        .filter(|name| is_inside(name) && !name.ends_with('/') && ignored.contains(name));
    let (mut copied, mut left_out) = (0, Vec::new());
    for name in wanted {
        if copied == MOST_FILES {
            left_out.push(format!("more than {MOST_FILES} files"));
            break;
        }
        match copy(&repository.join(name), &path.join(name)) {
            Ok(true) => copied += 1,
            Ok(false) => {}
            Err(error) => left_out.push(format!("{name} ({error})")),
        }
    }
    if copied > 0 {
        let files = if copied == 1 {
            "1 file"
        } else {
            &format!("{copied} files")
        };
        remarks.push(format!("Copied {files} that git ignores ({INCLUDE_FILE})."));
    }
    if !left_out.is_empty() {
        remarks.push(format!("Not copied: {}.", left_out.join(", ")));
    }
}

/// Copies a plain file to where there is none. Returns whether it did.
fn copy(from: &Path, to: &Path) -> std::io::Result<bool> {
    let known = from.symlink_metadata()?;
    if !known.is_file() || to.symlink_metadata().is_ok() {
        return Ok(false);
    }
    if known.len() > LARGEST {
        return Err(std::io::Error::other("larger than 64 MB"));
    }
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::copy(from, to)?;
    Ok(true)
}

/// Whether a file or folder in a worktree is there only because it was put there when the worktree was made: a link to
/// the original, or copies that are still the same.
pub(super) fn is_furniture(repository: &Path, path: &Path, name: &str) -> bool {
    let name = name.trim_end_matches('/');
    same(
        &repository.join(name),
        &path.join(name),
        &mut (2 * MOST_FILES),
    )
}

fn same(original: &Path, file: &Path, left: &mut usize) -> bool {
    // A folder with more in it was filled by someone.
    let Some(fewer) = left.checked_sub(1) else {
        return false;
    };
    *left = fewer;
    let Ok(known) = file.symlink_metadata() else {
        return false;
    };
    if known.is_symlink() {
        return std::fs::read_link(file).is_ok_and(|target| target == original);
    }
    if known.is_dir() {
        let Ok(entries) = std::fs::read_dir(file) else {
            return false;
        };
        let mut names = entries.map(|entry| entry.map(|entry| entry.file_name()));
        return names.all(|name| {
            name.is_ok_and(|name| same(&original.join(&name), &file.join(&name), left))
        });
    }
    let same_size = original
        .symlink_metadata()
        .is_ok_and(|other| other.is_file() && other.len() == known.len());
    known.is_file()
        && known.len() <= LARGEST
        && same_size
        && matches!((std::fs::read(original), std::fs::read(file)), (Ok(one), Ok(two)) if one == two)
}

/// Removes the links that were put into a worktree: git takes them for work.
pub(super) fn remove_links(repository: &Path, path: &Path, names: &[String]) {
    for name in names {
        let link = path.join(name.trim_end_matches('/'));
        if link.is_symlink() && is_furniture(repository, path, name) {
            // What stays makes git refuse, and then the worktree stays.
            let _ = std::fs::remove_file(link);
        }
    }
}
