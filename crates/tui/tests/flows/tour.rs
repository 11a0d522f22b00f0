//! The tour of `docs/terminal.md`, replayed: every row is typed, and what it promises appears.

use super::Stage;
use lathe_protocol::command::BuiltinCommand;
use lathe_scripted::{Reply, When};
use lathe_testkit::{Terminal, workspace_root};
use serde_json::json;

/// The rows of the tour: the keys to press, and a text that appears.
fn rows() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(workspace_root().join("docs/terminal.md")).unwrap();
    let tour = page.split("\n## A tour\n").nth(1).unwrap();
    let tour = tour.split("\n## ").next().unwrap();
    let code = |cell: &str| cell.trim().trim_matches('`').replace("\\|", "|");
    tour.lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let mut cells = line.trim_matches('|').split(" | ");
            (code(cells.next().unwrap()), code(cells.next().unwrap()))
        })
        .collect()
}

/// Types a row: words as they are, keys by their names.
fn press(terminal: &Terminal, keys: &str) {
    let mut rest = keys;
    while !rest.is_empty() {
        if let Some((name, after)) = rest.strip_prefix('<').and_then(|it| it.split_once('>')) {
            terminal.send(match name {
                "enter" => "\r".to_owned(),
                "tab" => "\t".to_owned(),
                "shift+tab" => "\x1b[Z".to_owned(),
                "up" => "\x1b[A".to_owned(),
                "ctrl+down" => "\x1b[1;5B".to_owned(),
                "ctrl+_" => "\x1f".to_owned(),
                "alt+enter" => "\x1b\r".to_owned(),
                name if name.starts_with("alt+") => format!("\x1b{}", &name[4..]),
                // What follows at once would be one key with it.
                "esc" => "\x1b\x1b[I".to_owned(),
                name => {
                    let letter = name.strip_prefix("ctrl+").unwrap().as_bytes()[0];
                    char::from(letter - b'a' + 1).to_string()
                }
            });
            rest = after;
            continue;
        }
        let end = rest.find('<').unwrap_or(rest.len());
        terminal.send(&rest[..end]);
        // Enter takes a completion that has not been drawn yet for what was typed.
        terminal.wait_for(rest[..end].trim());
        rest = &rest[end..];
    }
}

#[test]
fn the_tour_has_every_command() {
    let page = std::fs::read_to_string(workspace_root().join("docs/terminal.md")).unwrap();
    let tour = page.split("\n## A tour\n").nth(1).unwrap();
    let tour = tour.split("\n## ").next().unwrap();
    for command in BuiltinCommand::ALL {
        let spec = command.declaration();
        let named = [" ", "`", "<"].map(|end| format!("/{}{end}", spec.name));
        let is_there = named.iter().any(|name| tour.contains(name.as_str()));
        assert!(spec.hidden || is_there, "/{} is not in the tour", spec.name);
    }
}

#[test]
fn the_tour_of_the_documentation_shows_what_it_promises() {
    let says = |words: &str| When {
        last_user_text_contains: Some(words.to_owned()),
        ..When::default()
    };
    let result_of = |tool: &str| When {
        tool_result_for: Some(tool.to_owned()),
        ..When::default()
    };
    let mut stage = Stage::replies([
        Reply::text("It has three lines.").when(says("look at")),
        Reply::tool_use("Read", json!({"file_path": "a.txt"})).when(says("change it")),
        Reply::tool_use(
            "Edit",
            json!({"file_path": "a.txt", "old_string": "two", "new_string": "2"}),
        )
        .when(result_of("Read")),
        Reply::text("It is changed.").when(result_of("Edit")),
        Reply::text("A text file.").when(says("what kind of file")),
        Reply::tool_use(
            "TodoWrite",
            json!({"todos": [
                {"content": "first step", "status": "in_progress", "activeForm": "Taking the first step"},
                {"content": "second step", "status": "pending", "activeForm": "Taking the second step"},
            ]}),
        )
        .when(says("list the work")),
        Reply::text("These are two steps.").when(result_of("TodoWrite")),
        Reply::tool_use("Bash", json!({"command": "seq 3 | tee n.txt; sleep 600"})).when(says("wait for it")),
        Reply::text("It continues without me.").when(result_of("Bash")),
        Reply::text("<summary>A file was changed.</summary>").optional(),
    ]);
    stage.home = stage.home.variable("EDITOR", "true");
    stage.home.write("a.txt", "one\ntwo\nthree\n");
    stage.home.git_init();
    assert_eq!(stage.home.run(["trust", "add"], "").code(), Some(0));
    let terminal = stage.open_sized(100, 40);
    terminal.wait_for("? for keys");
    let rows = rows();
    for (keys, shown) in rows {
        press(&terminal, &keys);
        terminal.wait_for(&shown);
        if keys.trim_start_matches("<esc>").starts_with('/') && keys.ends_with("<enter>") {
            // Esc closes each view.
            terminal.wait_gone("esc to interrupt");
            // The prompt itself is no view that could be closed.
            if shown != "? for keys" && terminal.screen().contains("esc ") {
                terminal.send("\x1b\x1b[I");
                terminal.wait_gone(&shown);
            }
        }
    }
}
