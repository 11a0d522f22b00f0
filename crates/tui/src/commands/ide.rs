//! `/ide`: editors that run beside the terminal.
//!
//! Extensions of editors that speak the Model Context Protocol over a local socket leave a file for it in
//! `~/.claude/ide` or `<config home>/ide`, named by their port: who they are, which folders they have
//! open, and a token. Connecting to one makes it an MCP server of the session, named `ide`.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::text::clean;
use crate::render::theme::Theme;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The longest file that is read.
const LONGEST: u64 = 64 * 1024;

/// An editor that waits for someone to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) port: u16,
    pub(crate) name: String,
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) secure: bool,
    pub(crate) token: String,
}

/// The editors that left a file in one of these folders and still run.
fn running(folders: &[PathBuf]) -> Vec<Running> {
    let mut found: Vec<Running> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten())
        .filter_map(|entry| read(&entry.path()))
        .collect();
    found.sort_by(|a, b| (&a.name, a.port).cmp(&(&b.name, b.port)));
    found.dedup_by_key(|editor| editor.port);
    found
}

fn read(path: &Path) -> Option<Running> {
    if path.extension()? != "lock" {
        return None;
    }
    let port = path.file_stem()?.to_str()?.parse().ok()?;
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return None;
    }
    let value: Value = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    // A file that outlived its editor leads nowhere.
    if let Some(pid) = value.get("pid").and_then(Value::as_i64) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
        rustix::process::test_kill_process(pid).ok()?;
    }
    Some(Running {
        port,
        name: text("ideName").unwrap_or("an editor").to_owned(),
        folders: value
            .get("workspaceFolders")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|folder| folder.as_str().map(PathBuf::from))
            .collect(),
        secure: text("transport") == Some("wss"),
        token: text("authToken").unwrap_or_default().to_owned(),
    })
}

pub(crate) fn folders(app: &App) -> Vec<PathBuf> {
    let home = app.places.environment.home.as_ref();
    let mut folders = vec![app.places.config_home.join("ide")];
    folders.extend(home.map(|home| home.join(".claude/ide")));
    folders
}

/// The editors that can be connected to.
pub(crate) fn run(app: &mut App, wanted: &str) {
    if !wanted.is_empty() {
        connect(app, wanted);
        return;
    }
    let editors = running(&folders(app));
    if editors.is_empty() {
        app.remark(
            "no editor found: start one with an extension that offers an MCP connection (it writes a file to ~/.claude/ide), then run /ide again. ctrl+g opens the prompt in $EDITOR.",
        );
        return;
    }
    let picker = editors_picker(&editors, &app.places.environment.cwd, &app.look.theme);
    app.layers.open(picker);
}

/// Connects to the editor of a port or name.
pub(crate) fn connect(app: &mut App, wanted: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let editors = running(&folders(app));
    let Some(editor) = editors
        .into_iter()
        .find(|editor| editor.port.to_string() == wanted || editor.name == wanted)
    else {
        app.warn(format!("No editor '{wanted}' found; /ide lists them."));
        return;
    };
    let control = session.mcp();
    let entry = entry(&editor);
    let name = clean(&editor.name);
    app.remark(format!("connecting to {name} …"));
    app.jobs.task(async move {
        let done = control.add_server("ide", &entry).await;
        Some(JobResult::report(
            done.map(|()| format!("connected to {name}; /mcp ide shows its tools"))
                .map_err(|error| format!("can't connect to {name}: {error}")),
        ))
    });
}

/// The editors that wait.
pub(crate) fn editors_picker(editors: &[Running], cwd: &Path, theme: &Theme) -> Picker {
    let items = editors
        .iter()
        .map(|editor| {
            let here = editor.folders.iter().any(|folder| cwd.starts_with(folder));
            let mut folders: Vec<String> = editor
                .folders
                .iter()
                .map(|folder| folder.display().to_string())
                .collect();
            if here {
                folders.insert(0, "has this folder open".to_owned());
            }
            Item::new(
                editor.port.to_string(),
                clean(&editor.name),
                clean(&folders.join(" · ")),
            )
        })
        .collect();
    let words = "The editor becomes the MCP server 'ide' of this session; /mcp manages it.";
    Picker::new(Purpose::Editors, "Connect to which editor?", items)
        .explained(vec![Line::styled(words, theme.muted)])
}

/// The editor as an MCP server.
fn entry(editor: &Running) -> Value {
    let scheme = if editor.secure { "wss" } else { "ws" };
    let mut entry = json!({"type": "ws", "url": format!("{scheme}://127.0.0.1:{}", editor.port)});
    if !editor.token.is_empty() {
        entry["headers"] = json!({"X-Claude-Code-Ide-Authorization": editor.token});
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_editors_that_run_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, value: &Value| {
            std::fs::write(folder.path().join(name), value.to_string()).unwrap();
        };
        let own = std::process::id();
        write(
            "41000.lock",
            &json!({"pid": own, "ideName": "Editor", "workspaceFolders": ["/work"], "transport": "ws", "authToken": "t"}),
        );
        // Nothing has a process id as large as this.
        write("41001.lock", &json!({"pid": i32::MAX, "ideName": "Gone"}));
        write("notaport.lock", &json!({"pid": own}));
        write("41002.json", &json!({"pid": own}));
        std::fs::write(folder.path().join("41003.lock"), "{").unwrap();
        let found = running(&[folder.path().to_owned(), folder.path().join("missing")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].folders, [PathBuf::from("/work")]);
        assert_eq!(
            entry(&found[0]),
            json!({"type": "ws", "url": "ws://127.0.0.1:41000", "headers": {"X-Claude-Code-Ide-Authorization": "t"}})
        );
    }
}
