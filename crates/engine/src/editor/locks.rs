//! Editors that wait for a session: their extensions leave a file `<port>.lock` in `~/.claude/ide` or in the `ide`
//! folder of the config home.
//!
//! A file says who the editor is, which folders it has open, and the token that it wants to see. One whose editor
//! is gone, or whose process belongs to somebody else, leads nowhere and is removed.

use lathe_settings::{Environment, Resolved, Variable, paths};
use serde_json::Value;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The longest file that is read.
const LONGEST: u64 = 64 * 1024;

/// An editor that waits for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningEditor {
    /// The port that it listens on, on this machine.
    pub port: u16,
    /// Its name.
    pub name: String,
    /// The folders that it has open.
    pub folders: Vec<PathBuf>,
    /// Whether the connection is encrypted.
    pub secure: bool,
    /// The token that a client must present.
    pub token: String,
}

impl RunningEditor {
    /// Whether it has a folder open.
    #[must_use]
    pub fn has_open(&self, folder: &Path) -> bool {
        self.folders.iter().any(|open| {
            let real = std::fs::canonicalize(open);
            folder.starts_with(real.as_deref().unwrap_or(open))
        })
    }
}

/// Where files are looked for.
pub(super) fn folders(environment: &Environment, settings: &Resolved) -> Vec<PathBuf> {
    let mut folders = vec![paths::config_home(environment).join("ide")];
    let reads = environment
        .switch(Variable::ReadClaudeHome)
        .or(settings.settings.read_claude_home)
        .unwrap_or(true);
    if reads && let Some(home) = &environment.home {
        folders.push(home.join(".claude/ide"));
    }
    folders
}

/// The editors that left a file in one of these folders and still run.
pub(super) fn running(folders: &[PathBuf]) -> Vec<RunningEditor> {
    running_for(nix::unistd::geteuid().as_raw(), folders)
}

/// The editors of a user.
fn running_for(user: u32, folders: &[PathBuf]) -> Vec<RunningEditor> {
    let mut found: Vec<RunningEditor> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten())
        .filter_map(|entry| read(&entry.path(), user))
        .collect();
    found.sort_by(|a, b| (&a.name, a.port).cmp(&(&b.name, b.port)));
    found.dedup_by_key(|editor| editor.port);
    found
}

/// The editor that a session connects to by itself: the one that started its terminal, else the only one that has
/// its folder open.
pub(super) fn choose<'a>(
    editors: &'a [RunningEditor],
    folder: &Path,
    port: Option<u16>,
) -> Option<&'a RunningEditor> {
    if let Some(editor) = editors.iter().find(|editor| Some(editor.port) == port) {
        return Some(editor);
    }
    let mut here = editors.iter().filter(|editor| editor.has_open(folder));
    let first = here.next();
    first.filter(|_| here.next().is_none())
}

fn read(path: &Path, user: u32) -> Option<RunningEditor> {
    if path.extension()? != "lock" {
        return None;
    }
    let port = path.file_stem()?.to_str()?.parse().ok()?;
    let metadata = std::fs::symlink_metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return None;
    }
    if metadata.uid() != user {
        let _ = std::fs::remove_file(path);
        return None;
    }
    let value: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    if let Some(pid) = value.get("pid").and_then(Value::as_i64)
        && !belongs_to(user, pid)
    {
        let _ = std::fs::remove_file(path);
        return None;
    }
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let transport = text("transport").unwrap_or("ws");
    if !matches!(transport, "ws" | "wss") {
        return None;
    }
    let folders = value.get("workspaceFolders").and_then(Value::as_array);
    Some(RunningEditor {
        port,
        name: text("ideName").unwrap_or("an editor").to_owned(),
        folders: folders
            .into_iter()
            .flatten()
            .filter_map(|folder| folder.as_str().map(PathBuf::from))
            .collect(),
        secure: transport == "wss",
        token: text("authToken").unwrap_or_default().to_owned(),
    })
}

/// Whether a process runs and belongs to a user.
fn belongs_to(user: u32, pid: i64) -> bool {
    let Ok(pid) = i32::try_from(pid) else {
        return false;
    };
    if pid <= 0 || nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_err() {
        return false;
    }
    // For the superuser every process answers; where there is /proc, it says whose it is.
    std::fs::metadata(format!("/proc/{pid}")).map_or(true, |process| process.uid() == user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn folder_with(files: &[(&str, Value)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, value) in files {
            std::fs::write(folder.path().join(name), value.to_string()).unwrap();
        }
        folder
    }

    #[test]
    fn only_editors_that_run_are_found_and_what_the_others_left_is_removed() {
        let own = std::process::id();
        let folder = folder_with(&[
            (
                "41000.lock",
                json!({"pid": own, "ideName": "Editor", "workspaceFolders": ["/work"], "transport": "ws", "authToken": "t"}),
            ),
            // Nothing has a process id as large as this.
            ("41001.lock", json!({"pid": i32::MAX, "ideName": "Gone"})),
            ("notaport.lock", json!({"pid": own})),
            ("41002.json", json!({"pid": own})),
            ("41004.lock", json!({"pid": own, "transport": "sse"})),
        ]);
        std::fs::write(folder.path().join("41003.lock"), "{").unwrap();
        let found = running(&[folder.path().to_owned(), folder.path().join("missing")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].folders, [PathBuf::from("/work")]);
        assert_eq!(found[0].token, "t");
        assert!(!folder.path().join("41001.lock").exists());
        // What can't be told is left alone.
        assert!(folder.path().join("41003.lock").exists());
        assert!(folder.path().join("notaport.lock").exists());
    }

    #[test]
    fn files_of_another_user_are_ignored_and_removed() {
        let (own, me) = (std::process::id(), nix::unistd::geteuid().as_raw());
        let folder = folder_with(&[("41000.lock", json!({"pid": own, "ideName": "Editor"}))]);
        let folders = [folder.path().to_owned()];
        assert_eq!(running_for(me, &folders).len(), 1);
        // For every other user the file belongs to somebody else.
        assert!(running_for(me + 1, &folders).is_empty());
        assert!(!folder.path().join("41000.lock").exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_of_another_user_is_no_editor_of_ours() {
        let (own, me) = (
            i64::from(std::process::id()),
            nix::unistd::geteuid().as_raw(),
        );
        assert!(belongs_to(me, own));
        assert!(!belongs_to(me + 1, own));
        assert!(!belongs_to(me, 0) && !belongs_to(me, -1) && !belongs_to(me, i64::MAX));
    }

    #[test]
    fn the_editor_of_the_terminal_or_the_only_one_with_the_folder_is_chosen() {
        let editor = |port, folder: &str| RunningEditor {
            port,
            name: "E".to_owned(),
            folders: vec![folder.into()],
            secure: false,
            token: String::new(),
        };
        let (a, b, c) = (editor(1, "/w"), editor(2, "/w/in"), editor(3, "/other"));
        let all = [a, b, c];
        let port =
            |folder: &str, port| choose(&all, Path::new(folder), port).map(|editor| editor.port);
        assert_eq!(port("/w/src", None), Some(1));
        // Two have it open.
        assert_eq!(port("/w/in", None), None);
        assert_eq!(port("/w/in", Some(3)), Some(3));
        // The one that started the terminal is gone.
        assert_eq!(port("/other/x", Some(9)), Some(3));
        assert_eq!(port("/elsewhere", None), None);
    }
}
