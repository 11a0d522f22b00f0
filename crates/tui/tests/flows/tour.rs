//! The tour of `docs/terminal.md`, replayed: every row is typed, and what it promises appears.

use super::Stage;
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
fn the_tour_of_the_documentation_shows_what_it_promises() {
    let says = |words: &str| When {
        last_user_text_contains: Some(words.to_owned()),
        ..When::default()
    };
    let stage = Stage::replies([
        Reply::text("It has three lines.").when(says("look at")),
        Reply::tool_use("Read", json!({"file_path": "a.txt"})).when(says("change it")),
        Reply::tool_use(
            "Edit",
            json!({"file_path": "a.txt", "old_string": "two", "new_string": "2"}),
        )
        .when(When {
            tool_result_for: Some("Read".to_owned()),
            ..When::default()
        }),
        Reply::text("It is changed.").when(When {
            tool_result_for: Some("Edit".to_owned()),
            ..When::default()
        }),
        Reply::text("A text file.").when(says("what kind of file")),
    ]);
    stage.home.write("a.txt", "one\ntwo\nthree\n");
    stage.home.git_init();
    assert_eq!(stage.home.run(["trust", "add"], "").code(), Some(0));
    let terminal = stage.open_sized(100, 40);
    terminal.wait_for("? for keys");
    let rows = rows();
    assert!(rows.len() > 30, "{rows:?}");
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
