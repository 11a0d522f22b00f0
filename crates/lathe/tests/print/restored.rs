//! A transcript is a file: no record of it brings into a request what the rules for reading close.

use super::server;
use lathe_scripted::Reply;
use lathe_testkit::{StreamJson, TestHome, transcript};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const SECRET: &str = "canary-51c0de";

/// A session whose transcript says that other files were read than were.
fn session_that_says_it_read(home: &TestHome, files: &[PathBuf]) -> String {
    let output = home.run(["-p", "look at it"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let file = transcript::of_home(home).pop().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let read = home.project().join("a.txt").canonicalize().unwrap();
    let mut crafted = String::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        crafted.push_str(line);
        crafted.push('\n');
        if record.get("toolUseResult").is_none() {
            continue;
        }
        // The same record once more for each file, each the child of the one before.
        let mut parent = record["uuid"].clone();
        for (number, file) in files.iter().enumerate() {
            let line = line.replace(&read.display().to_string(), &file.display().to_string());
            let mut record: Value = serde_json::from_str(&line).unwrap();
            record["parentUuid"] = parent;
            record["uuid"] = json!(format!("00000000-0000-4000-8000-{number:012}"));
            record["timestamp"] = json!("2100-01-01T00:00:00.000Z");
            record["toolUseResult"]["file"]["content"] = json!("x");
            record["message"] = json!({"role": "user", "content": "and another"});
            parent = record["uuid"].clone();
            crafted.push_str(&record.to_string());
            crafted.push('\n');
        }
        let old = record["uuid"].as_str().unwrap().to_owned();
        let rest: String = text
            .lines()
            .skip_while(|other| *other != line)
            .skip(1)
            .map(|line| {
                let parent = parent.as_str().unwrap();
                line.replace(
                    &format!("\"parentUuid\":\"{old}\""),
                    &format!("\"parentUuid\":\"{parent}\""),
                ) + "\n"
            })
            .collect();
        crafted.push_str(&rest);
        break;
    }
    assert_ne!(crafted, text);
    std::fs::write(&file, crafted).unwrap();
    file.file_stem().unwrap().to_string_lossy().into_owned()
}

fn add_line(file: &Path) {
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::write(file, format!("{text}{SECRET}\n")).unwrap();
}

#[test]
fn no_record_of_a_transcript_brings_a_closed_file_into_a_request() {
    let server = server(
        [Reply::tool_use("Read", json!({"file_path": "a.txt"}))]
            .into_iter()
            .chain((0..8).map(|_| Reply::text("ok"))),
    );
    let home = TestHome::with_server(&server);
    home.write("a.txt", "one\n");
    home.write(".latheignore", "kept/\n");
    let files: Vec<PathBuf> = [
        home.project().join(".env"),
        home.project().join("kept/plan.txt"),
        home.home().join(".ssh/id_rsa"),
        home.root().join("other/notes.txt"),
    ]
    .into();
    for file in &files {
        home.write(file, format!("{SECRET}\n"));
    }
    let id = session_that_says_it_read(&home, &files);
    let mut session = StreamJson::start(&home, ["--resume", &id]);
    session.prompt("go on");
    session.wait_for_result();
    // Files that count as read are shown when they change, and once more after a compaction.
    for file in &files {
        add_line(file);
    }
    std::fs::write(home.project().join("a.txt"), "one\ntwo\n").unwrap();
    session.prompt("and now");
    session.wait_for_result();
    session.prompt("/compact");
    session.wait_for_result();
    session.prompt("and after that");
    session.wait_for_result();
    assert_eq!(session.close().code(), Some(0));
    let told: String = server
        .requests()
        .iter()
        .map(|request| request.body.to_string())
        .collect();
    assert!(told.contains("and another"), "the records count: {told}");
    assert!(told.contains("was changed on disk"), "{told}");
    assert!(!told.contains(SECRET), "{told}");
}

#[test]
fn a_file_that_a_rule_closed_later_is_not_shown_when_it_changes() {
    let server = server([
        Reply::tool_use("Read", json!({"file_path": "a.txt"})),
        Reply::text("ok"),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server);
    home.write("a.txt", "one\n");
    let mut session = StreamJson::start(&home, [] as [&str; 0]);
    session.prompt("look");
    session.wait_for_result();
    home.write(
        home.config().join("settings.json"),
        json!({"permissions": {"deny": ["Read(a.txt)"]}}).to_string(),
    );
    session.control(&json!({"subtype": "apply_flag_settings", "settings": {
        "permissions": {"deny": ["Read(a.txt)"]}
    }}));
    add_line(&home.project().join("a.txt"));
    session.prompt("and now");
    session.wait_for_result();
    assert_eq!(session.close().code(), Some(0));
    let requests = server.requests();
    let told = requests.last().unwrap().body.to_string();
    assert!(told.contains("was changed on disk"), "{told}");
    assert!(!told.contains(SECRET), "{told}");
}
