//! Settings that change while a session runs.

use super::{chatty, wait_for_settings};
use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{StreamJson, TestHome};
use serde_json::{Value, json};

/// A session, and the settings file that it watches.
struct Live {
    home: TestHome,
    session: StreamJson,
    changes: usize,
}

impl Live {
    fn start(server: &BlockingServer, settings: &Value, flags: &[&str]) -> Self {
        let home = TestHome::with_server(server);
        home.write(home.config().join("settings.json"), settings.to_string());
        let mut session = StreamJson::start(&home, flags);
        session.prompt("hi");
        session.wait_for_result();
        Self {
            home,
            session,
            changes: 0,
        }
    }

    /// Changes the settings and waits until they count.
    fn change(&mut self, settings: &Value) {
        self.changes += 1;
        let mut settings = settings.clone();
        let mark = format!("change number {}", self.changes);
        settings["language"] = mark.as_str().into();
        let file = self.home.config().join("settings.json");
        self.home.write(file, settings.to_string());
        wait_for_settings(&mut self.session, &mark);
    }

    fn ask(&mut self, prompt: &str) -> Value {
        self.session.prompt(prompt);
        self.session.wait_for_result()
    }
}

/// A model that runs the command that the prompt says, and then tells its output.
fn obedient() -> BlockingServer {
    let scenario = Scenario::new().responder(|request| {
        let said = request.last_user_text();
        match said.split_once("run: ") {
            Some((_, command)) if request.last_results().is_empty() => {
                Reply::tool_use("Bash", json!({"command": command.trim()}))
            }
            _ if request.last_results().is_empty() => Reply::text("fine"),
            _ => Reply::text(request.last_tool_result()),
        }
    });
    BlockingServer::start(scenario).unwrap()
}

#[test]
fn variables_of_changed_settings_reach_the_next_command() {
    let server = obedient();
    let first = json!({"env": {"TIDE": "low", "MOON": "new"}});
    let mut live = Live::start(&server, &first, &["--allowedTools", "Bash"]);
    let tide = "run: echo \"tide=$TIDE moon=${MOON-gone} in=$CLAUDECODE/$LATHE\"";
    let said = live.ask(tide)["result"].to_string();
    assert!(said.contains("tide=low moon=new in=1/1"), "{said}");
    live.change(&json!({"env": {"TIDE": "high"}}));
    let said = live.ask(tide)["result"].to_string();
    assert!(said.contains("tide=high moon=gone"), "{said}");
    let _ = live.session.close();
}

#[test]
fn folders_of_changed_settings_are_worked_in_at_once() {
    let beside = tempfile::tempdir().unwrap();
    let folder = beside.path().canonicalize().unwrap();
    let file = folder.join("made");
    let written = file.clone();
    let scenario = Scenario::new().responder(move |request| {
        if request.last_user_text().contains("write") && request.last_results().is_empty() {
            Reply::tool_use("Write", json!({"file_path": written, "content": "x"}))
        } else {
            Reply::text("fine")
        }
    });
    let server = BlockingServer::start(scenario).unwrap();
    let flags = ["--permission-mode", "acceptEdits"];
    let mut live = Live::start(&server, &json!({}), &flags);
    live.ask("write it");
    assert!(!file.exists());
    let more = json!({"permissions": {"additionalDirectories": [folder]}});
    live.change(&more);
    live.ask("write it");
    assert!(file.exists());
    std::fs::remove_file(&file).unwrap();
    live.change(&json!({}));
    live.ask("write it");
    assert!(!file.exists());
    let _ = live.session.close();
}

#[test]
fn the_effort_of_changed_settings_counts_unless_a_flag_chose_one() {
    let effort = |flags: &[&str]| {
        let server = chatty();
        let mut live = Live::start(&server, &json!({"effort": "low"}), flags);
        live.change(&json!({"effort": "max"}));
        live.ask("once more");
        let _ = live.session.close();
        let requests = server.message_requests();
        let of = |index: usize| requests[index].body["output_config"]["effort"].clone();
        (of(0), of(1))
    };
    assert_eq!(effort(&[]), (json!("low"), json!("max")));
    let flag = ["--effort", "medium"];
    assert_eq!(effort(&flag), (json!("medium"), json!("medium")));
}
