//! `lathe review`, as CI runs it.

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::TestHome;
use serde_json::{Value, json};

/// A model that finds one defect, which is there as long as the file has the word.
fn reviewer() -> BlockingServer {
    let scenario = Scenario::new().responder(|request| {
        let system = request.body["system"].to_string();
        let asked = request.messages()[0].to_string();
        if asked.contains("Fix each of them") {
            let fixed = "def add(a, b):\n    return a + b\n";
            return match request.messages().len() {
                1 => Reply::tool_use("Read", json!({"file_path": "app.py"})),
                3 => Reply::tool_use("Write", json!({"file_path": "app.py", "content": fixed})),
                _ => Reply::text("fixed"),
            };
        }
        if !request.last_results().is_empty() {
            return Reply::text("done");
        }
        let finding = json!({
            "file": "app.py", "line": 2, "category": "correctness", "verdict": "CONFIRMED",
            "summary": "The sum is off by one", "failure_scenario": "add(1, 1) gives 3",
        });
        let is_there = asked.contains("+ 1");
        assert!(system.contains("You review a change") || system.contains("try to refute it"));
        let findings = if is_there { vec![finding] } else { Vec::new() };
        Reply::tool_use("ReportFindings", json!({"findings": findings}))
    });
    BlockingServer::start(scenario).unwrap()
}

fn sample(server: &BlockingServer) -> TestHome {
    let home = TestHome::with_server(server);
    home.write("app.py", "def add(a, b):\n    return a + b\n");
    home.git_init();
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    home.write("app.py", "def add(a, b):\n    return a + b + 1\n");
    home
}

#[test]
fn findings_make_the_exit_code_one_in_every_format() {
    let server = reviewer();
    let home = sample(&server);
    let text = home.run(["review", "--effort", "low"], "");
    assert_eq!(text.code(), Some(1), "{text:?}");
    assert!(
        text.stdout.contains("app.py:2 (correctness, confirmed)"),
        "{text:?}"
    );
    let found = home.run(["review", "--format", "json", "--fail-on", "never"], "");
    assert_eq!(found.code(), Some(0), "{found:?}");
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(found["findings"][0]["verdict"], "CONFIRMED");
    assert_eq!(found["count"], 1);
    let sarif = home.run(["review", "--format", "sarif", "--max-findings", "3"], "");
    assert_eq!(sarif.code(), Some(1), "{sarif:?}");
    let sarif: Value = serde_json::from_str(&sarif.stdout).unwrap();
    let location = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(location["region"]["startLine"], 2);
    home.write("app.py", "def add(a, b):\n    return (a + b)\n");
    let clean = home.run(["review"], "");
    assert_eq!(clean.code(), Some(0), "{clean:?}");
    home.write("app.py", "def add(a, b):\n    return a + b\n");
    let nothing = home.run(["review"], "");
    assert_eq!(nothing.code(), Some(2), "{nothing:?}");
    assert!(
        nothing.stderr.contains("no changes to review"),
        "{nothing:?}"
    );
    server.finish();
}

#[test]
fn fixes_are_made_and_checked() {
    let server = reviewer();
    let home = sample(&server);
    let fixed = home.run(["review", "--fix", "--effort", "low"], "");
    assert_eq!(fixed.code(), Some(0), "{fixed:?}");
    assert!(fixed.stdout.contains("confirmed, fixed"), "{fixed:?}");
    assert!(!home.read("app.py").contains("+ 1"));
    server.finish();
}

/// A `gh` that shows the change of a pull request, and keeps its arguments and what it is sent.
fn pretend_gh(home: &TestHome, fails: bool) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let end = if fails {
        "cat > /dev/null; echo 'HTTP 403: no rights here' >&2; exit 1"
    } else {
        "cat > \"$HOME/posted.json\""
    };
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> \"$HOME/gh.txt\"\ncase \"$1\" in\n  pr) git diff;;\n  api) {end};;\nesac\n"
    );
    let folder = home.home().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("gh");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display())
}

/// The review of pull request 12 in a terminal, up to the question.
fn asked_to_post(home: &TestHome, path: &str) -> lathe_testkit::Terminal {
    let mut command = home.command(["review", "12", "--comment", "--effort", "low"]);
    command.env("PATH", path);
    let terminal = lathe_testkit::Terminal::start(&command, 100, 30);
    terminal.wait_for("Post 1 findings to pull request 12? [y/N]");
    terminal
}

fn called(home: &TestHome) -> String {
    std::fs::read_to_string(home.home().join("gh.txt")).unwrap()
}

#[test]
fn findings_are_posted_to_the_pull_request_after_a_yes_and_only_then() {
    let server = reviewer();
    let home = sample(&server);
    let path = pretend_gh(&home, false);
    let mut terminal = asked_to_post(&home, &path);
    assert_eq!(called(&home), "pr diff 12 --color never\n");
    terminal.send("n\r");
    terminal.wait_for("nothing was posted");
    assert_eq!(terminal.ended().code(), Some(1));
    assert_eq!(called(&home), "pr diff 12 --color never\n");
    let mut terminal = asked_to_post(&home, &path);
    terminal.send("y\r");
    terminal.wait_for("the findings are posted to pull request 12");
    assert_eq!(terminal.ended().code(), Some(1));
    let sent = "api --method POST repos/{owner}/{repo}/pulls/12/reviews --input -\n";
    assert!(called(&home).ends_with(sent), "{}", called(&home));
    let posted = std::fs::read(home.home().join("posted.json")).unwrap();
    let posted: Value = serde_json::from_slice(&posted).unwrap();
    let comment = &posted["comments"][0];
    assert_eq!(comment["path"], "app.py", "{posted}");
    assert_eq!(comment["line"], 2, "{posted}");
    let body = comment["body"].as_str().unwrap();
    assert!(body.contains("The sum is off by one"), "{posted}");
    server.finish();
}

#[test]
fn findings_that_can_not_be_posted_are_an_error_with_the_words_of_gh() {
    let server = reviewer();
    let home = sample(&server);
    let path = pretend_gh(&home, true);
    let mut terminal = asked_to_post(&home, &path);
    terminal.send("yes\r");
    terminal.wait_for("HTTP 403: no rights here");
    assert_eq!(terminal.ended().code(), Some(1));
    // Without a terminal there is nobody who could agree.
    let home = home.variable("PATH", path);
    let unasked = home.run(["review", "12", "--comment", "--effort", "low"], "");
    assert_eq!(unasked.code(), Some(2), "{unasked:?}");
    assert!(unasked.stderr.contains("needs a terminal"), "{unasked:?}");
    assert!(!home.home().join("posted.json").exists());
    server.finish();
}
