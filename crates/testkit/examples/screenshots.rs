//! Makes the pictures of the terminal in `docs/`: the real program, a scripted model, and the
//! emulator's screen written as SVG. Run by `scripts/screenshots`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a tool for developers: a picture that can't be made is an error to see"
)]

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{Terminal, TestHome, workspace_root};
use serde_json::json;
use std::fmt::Write as _;

const CELL: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 16.0;

struct Paper {
    background: &'static str,
    foreground: &'static str,
    light: bool,
}

const DARK: Paper = Paper {
    background: "#1a1b20",
    foreground: "#d8d8d8",
    light: false,
};
const LIGHT: Paper = Paper {
    background: "#fdfdfb",
    foreground: "#24262b",
    light: true,
};

fn main() {
    let docs = workspace_root().join("docs");
    for (name, paper) in [("dark", &DARK), ("light", &LIGHT)] {
        let keep = |view: &str, scene: &Scene| {
            let file = docs.join(format!("terminal{view}-{name}.svg"));
            std::fs::write(file, svg(scene, paper)).unwrap();
        };
        let scene = conversation(paper);
        scene.send("Yes, and run the whole suite ");
        scene.wait_for("whole suite");
        keep("", &scene);
        // The same session, as its views show it.
        scene.send("\x15/diff ");
        scene.wait_for("❯ /diff");
        scene.send("\r");
        scene.wait_for("Changes since the last commit");
        scene.send("\r");
        scene.wait_for("esc list");
        keep("-changes", &scene);
        scene.send("\x1b");
        scene.wait_for("enter open");
        scene.send("\x1b");
        scene.wait_gone("enter open");
        scene.say("/context ");
        scene.wait_for("Free space");
        keep("-context", &scene);
        keep("-question", &question(paper));
    }
    println!("written to {}", docs.display());
}

fn open(paper: &Paper, scenario: Scenario) -> (BlockingServer, TestHome, Terminal) {
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server).variable("COLORTERM", "truecolor");
    // The folder is then called the same in every picture.
    let user = home.root().display().to_string();
    let home = home.variable("HOME", user);
    home.write(
        "src/greeting.rs",
        "//! Says hello.\n\n/// A greeting for somebody.\npub fn greeting(name: &str) -> String {\n    format!(\"Hello {name}\")\n}\n",
    );
    home.write("src/lib.rs", "mod greeting;\n");
    home.git_init();
    // Changes are listed by git, which runs only in a folder that somebody trusts.
    let trusted = home.run(["trust", "add"], "");
    assert_eq!(trusted.code(), Some(0), "{trusted:?}");
    let terminal = home.terminal::<&str>([], 96, 36);
    terminal.wait_for("claude");
    if paper.light {
        terminal.send("\x1b]11;rgb:ffff/ffff/ffff\x1b\\");
    }
    (server, home, terminal)
}

fn edit() -> Reply {
    Reply::tool_use(
        "Edit",
        json!({
            "file_path": "src/greeting.rs",
            "old_string": "    format!(\"Hello {name}\")",
            "new_string": "    let name = name.trim();\n    format!(\"Hello, {name}!\")",
        }),
    )
}

/// Keeps what a terminal needs alive with it.
struct Scene {
    terminal: Terminal,
    _server: BlockingServer,
    _home: TestHome,
}

impl std::ops::Deref for Scene {
    type Target = Terminal;

    fn deref(&self) -> &Terminal {
        &self.terminal
    }
}

fn conversation(paper: &Paper) -> Scene {
    let (server, home, terminal) = open(
        paper,
        Scenario::new()
            .reply(
                Reply::text("I look at the code first.")
                    .with_tool_use("Read", json!({"file_path": "src/greeting.rs"}))
                    .with_tool_use("Grep", json!({"pattern": "greeting", "path": "src"})),
            )
            .reply(edit())
            .reply(Reply::text(
                "The greeting is **trimmed** and ends properly now:\n\n```rust\nassert_eq!(greeting(\" Ada \"), \"Hello, Ada!\");\n```\n\n| case | before | after |\n|---|---|---|\n| `\"Ada\"` | Hello Ada | Hello, Ada! |\n| `\" Ada \"` | Hello  Ada  | Hello, Ada! |\n\nShall I add a test for it?",
            )),
    );
    terminal.send("\x1b[Z");
    terminal.wait_for("accept edits on");
    terminal.say("The greeting looks odd when the name has blanks around it. Fix it.");
    terminal.wait_for("Shall I add a test");
    terminal.wait_gone("esc to interrupt");
    Scene {
        terminal,
        _server: server,
        _home: home,
    }
}

fn question(paper: &Paper) -> Scene {
    let (server, home, terminal) = open(
        paper,
        Scenario::new().reply(Reply::text("I clean up and run the tests.").with_tool_use(
            "Bash",
            json!({
                "command": "git status --short && rm -r target/old; cargo test --workspace",
                "description": "Remove old build output, then run all tests",
            }),
        )),
    );
    terminal.say("clean up, then run the tests");
    terminal.wait_for("Run this command?");
    Scene {
        terminal,
        _server: server,
        _home: home,
    }
}

fn svg(terminal: &Terminal, paper: &Paper) -> String {
    terminal.with_screen(|screen| {
        let (_, columns) = screen.size();
        let used = screen.contents().trim_end().lines().count();
        let rows = u16::try_from(used).unwrap();
        let width = f64::from(columns).mul_add(CELL.0, MARGIN * 2.0);
        let height = f64::from(rows).mul_add(CELL.1, MARGIN * 2.0);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{}\"/>\n",
            paper.background
        );
        for row in 0..rows {
            let y = f64::from(row).mul_add(CELL.1, MARGIN);
            for column in 0..columns {
                let Some(cell) = screen.cell(row, column) else {
                    continue;
                };
                let x = f64::from(column).mul_add(CELL.0, MARGIN);
                let wide = if cell.is_wide() { 2.0 } else { 1.0 };
                if let Some(color) = color(cell.bgcolor()) {
                    let _ = writeln!(
                        out,
                        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{}\" fill=\"{color}\"/>",
                        CELL.0 * wide + 0.3,
                        CELL.1
                    );
                }
                let text = cell.contents();
                if text.trim().is_empty() {
                    continue;
                }
                let fill = color(cell.fgcolor()).unwrap_or_else(|| paper.foreground.to_owned());
                let mut looks = String::new();
                for (on, look) in [
                    (cell.bold(), " font-weight=\"bold\""),
                    (cell.italic(), " font-style=\"italic\""),
                    (cell.underline(), " text-decoration=\"underline\""),
                    (cell.dim(), " opacity=\"0.6\""),
                ] {
                    if on {
                        looks.push_str(look);
                    }
                }
                let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                let _ = writeln!(
                    out,
                    "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{fill}\"{looks}>{escaped}</text>",
                    y + 13.5
                );
            }
        }
        let (row, column) = screen.cursor_position();
        if !screen.hide_cursor() && row < rows {
            let _ = writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"2\" height=\"{}\" fill=\"{}\"/>",
                f64::from(column).mul_add(CELL.0, MARGIN),
                f64::from(row).mul_add(CELL.1, MARGIN),
                CELL.1,
                paper.foreground
            );
        }
        out.push_str("</svg>\n");
        out
    })
}

fn color(color: vt100::Color) -> Option<String> {
    match color {
        vt100::Color::Default => None,
        vt100::Color::Idx(index) => Some(format!("rgb({index},{index},{index})")),
        vt100::Color::Rgb(r, g, b) => Some(format!("#{r:02x}{g:02x}{b:02x}")),
    }
}
