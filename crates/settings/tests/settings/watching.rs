//! Changes while running. Every wait is for an event; the limit only guards against a hang.

use crate::Machine;
use lathe_settings::write::{Edit, write};
use lathe_settings::{Change, LoadOptions, OwnWrites, SettingsWatcher, Source, Trust, load};
use pretty_assertions::assert_eq;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

const HANG: Duration = Duration::from_secs(30);

fn start(machine: &Machine, own: &OwnWrites) -> (SettingsWatcher, UnboundedReceiver<Change>) {
    let options = LoadOptions {
        trust: Trust::Trusted,
        ..LoadOptions::default()
    };
    let resolved = Arc::new(load(&machine.places(), &options));
    SettingsWatcher::start(machine.places(), options, resolved, own.clone()).unwrap()
}

async fn next(changes: &mut UnboundedReceiver<Change>) -> Change {
    tokio::time::timeout(HANG, changes.recv())
        .await
        .expect("a change is reported")
        .unwrap()
}

#[tokio::test]
async fn an_edit_is_reported_with_what_changed_and_from_where() {
    let machine = Machine::new();
    let file = machine.write(
        "home/.lathe/settings.json",
        r#"{"model": "opus", "env": {"TOKEN": "a"}}"#,
    );
    let (watcher, mut changes) = start(&machine, &OwnWrites::default());
    std::fs::write(
        &file,
        r#"{"model": "haiku", "env": {"TOKEN": "secret"}, "permissions": {"deny": ["Bash"]}}"#,
    )
    .unwrap();
    let change = next(&mut changes).await;
    assert_eq!(change.files, [(Source::User, file)]);
    let lines: Vec<String> = change
        .keys
        .iter()
        .map(lathe_settings::watch::KeyChange::summary)
        .collect();
    assert_eq!(
        lines,
        [
            "env.TOKEN: (hidden) → (hidden)",
            "model: \"opus\" → \"haiku\"",
            "permissions.deny is now [\"Bash\"]"
        ]
    );
    assert_eq!(change.resolved.settings.model.as_deref(), Some("haiku"));
    assert_eq!(watcher.current().settings.model.as_deref(), Some("haiku"));
}

#[tokio::test]
async fn a_broken_edit_keeps_the_last_good_content_and_says_so() {
    let machine = Machine::new();
    let file = machine.write(
        "home/.lathe/settings.json",
        r#"{"permissions": {"deny": ["Bash"]}}"#,
    );
    let (_watcher, mut changes) = start(&machine, &OwnWrites::default());
    std::fs::write(&file, "{\n\"permissions\": {\"deny\": [").unwrap();
    let change = next(&mut changes).await;
    assert_eq!(change.keys, []);
    assert_eq!(change.resolved.rules().len(), 1, "the denial still holds");
    let problem = change.problems[0].to_string();
    assert!(
        problem.contains("settings.json:2:")
            && problem.contains("last valid content stays in effect"),
        "{problem}"
    );
    std::fs::write(&file, r#"{"permissions": {"deny": ["Read"]}}"#).unwrap();
    let change = next(&mut changes).await;
    assert_eq!(change.problems, []);
    assert_eq!(change.resolved.rules()[0].rule, "Read");
}

#[tokio::test]
async fn a_folder_that_appears_and_a_file_that_goes_are_noticed() {
    let machine = Machine::new();
    std::fs::create_dir_all(machine.path("home/.lathe")).unwrap();
    let (_watcher, mut changes) = start(&machine, &OwnWrites::default());
    let file = machine.write("home/project/.lathe/settings.json", r#"{"theme": "dark"}"#);
    let change = next(&mut changes).await;
    assert_eq!(change.files, [(Source::Project, file.clone())]);
    assert_eq!(change.resolved.settings.theme.as_deref(), Some("dark"));
    std::fs::remove_file(&file).unwrap();
    let change = next(&mut changes).await;
    assert_eq!(change.keys[0].summary(), "theme is no longer set");
    assert_eq!(change.resolved.settings.theme, None);
}

#[tokio::test]
async fn an_editor_that_replaces_the_file_and_one_behind_a_link_are_noticed() {
    let machine = Machine::new();
    let real = machine.write("dotfiles/settings.json", r#"{"theme": "a"}"#);
    std::fs::create_dir_all(machine.path("home/.lathe")).unwrap();
    std::os::unix::fs::symlink(&real, machine.path("home/.lathe/settings.json")).unwrap();
    let (_watcher, mut changes) = start(&machine, &OwnWrites::default());
    let temporary = machine.write("dotfiles/.settings.json.swp", r#"{"theme": "b"}"#);
    std::fs::rename(temporary, &real).unwrap();
    assert_eq!(
        next(&mut changes).await.resolved.settings.theme.as_deref(),
        Some("b")
    );
}

#[tokio::test]
async fn what_this_process_writes_is_not_reported_back() {
    let machine = Machine::new();
    machine.write("home/.lathe/settings.json", "{}");
    let own = OwnWrites::default();
    let (watcher, mut changes) = start(&machine, &own);
    let edit = Edit::Set {
        key: "theme".parse().unwrap(),
        value: json!("mine"),
    };
    write(&machine.places(), Source::User, &[edit], Some(&own)).unwrap();
    // Someone else's change comes after ours: it is the first thing that is reported.
    let file = machine.write(
        "home/project/.lathe/settings.json",
        r#"{"language": "theirs"}"#,
    );
    let change = next(&mut changes).await;
    assert!(change.files.contains(&(Source::Project, file)));
    assert_eq!(
        change.resolved.settings.theme.as_deref(),
        Some("mine"),
        "it counts nevertheless"
    );
    drop(watcher);
    assert!(changes.try_recv().is_err());
}

#[tokio::test]
async fn trusting_the_folder_while_running_brings_its_settings_in() {
    let machine = Machine::new();
    machine.write(
        "home/project/.lathe/settings.json",
        r#"{"apiKeyHelper": "./key.sh"}"#,
    );
    let options = LoadOptions {
        trust: Trust::Untrusted,
        ..LoadOptions::default()
    };
    let resolved = Arc::new(load(&machine.places(), &options));
    let (watcher, mut changes) = SettingsWatcher::start(
        machine.places(),
        options.clone(),
        resolved,
        OwnWrites::default(),
    )
    .unwrap();
    assert_eq!(watcher.current().settings.api_key_helper, None);
    watcher.reconfigure(
        machine.places(),
        LoadOptions {
            trust: Trust::Trusted,
            ..options
        },
    );
    let change = next(&mut changes).await;
    assert_eq!(
        change.resolved.settings.api_key_helper.as_deref(),
        Some("./key.sh")
    );
}

#[tokio::test]
async fn a_warning_is_said_once_and_an_error_each_time() {
    let machine = Machine::new();
    let file = machine.write("home/.lathe/settings.json", r#"{"modle": "x", "theme": 1}"#);
    let (_watcher, mut changes) = start(&machine, &OwnWrites::default());
    std::fs::write(&file, r#"{"modle": "x", "theme": 1, "language": "de"}"#).unwrap();
    let change = next(&mut changes).await;
    let keys: Vec<&str> = change
        .problems
        .iter()
        .map(|problem| problem.key.as_str())
        .collect();
    assert_eq!(keys, ["theme"]);
}

#[tokio::test]
async fn what_changes_between_loading_and_watching_is_reported() {
    let machine = Machine::new();
    let edited = machine.write("home/.lathe/settings.json", r#"{"theme": "a"}"#);
    let removed = machine.write("home/project/.lathe/settings.json", r#"{"language": "de"}"#);
    let options = LoadOptions {
        trust: Trust::Trusted,
        ..LoadOptions::default()
    };
    let resolved = Arc::new(load(&machine.places(), &options));
    std::fs::write(&edited, r#"{"theme": "b"}"#).unwrap();
    std::fs::remove_file(&removed).unwrap();
    let added = machine.write(
        "home/project/.lathe/settings.local.json",
        r#"{"model": "opus"}"#,
    );
    let (_watcher, mut changes) =
        SettingsWatcher::start(machine.places(), options, resolved, OwnWrites::default()).unwrap();
    let change = next(&mut changes).await;
    assert_eq!(
        change.files,
        [
            (Source::User, edited),
            (Source::Local, added),
            (Source::Project, removed)
        ]
    );
    let lines: Vec<String> = change
        .keys
        .iter()
        .map(lathe_settings::watch::KeyChange::summary)
        .collect();
    assert_eq!(
        lines,
        [
            "language is no longer set",
            "model is now \"opus\"",
            "theme: \"a\" → \"b\""
        ]
    );
}

#[tokio::test]
async fn a_file_that_breaks_before_it_is_watched_keeps_what_was_loaded() {
    let machine = Machine::new();
    let file = machine.write(
        "home/.lathe/settings.json",
        r#"{"permissions": {"deny": ["Bash"]}} // a remark"#,
    );
    let options = LoadOptions::default();
    let resolved = Arc::new(load(&machine.places(), &options));
    std::fs::write(&file, "{").unwrap();
    let (_watcher, mut changes) =
        SettingsWatcher::start(machine.places(), options, resolved, OwnWrites::default()).unwrap();
    let change = next(&mut changes).await;
    assert_eq!(change.keys, []);
    assert_eq!(change.resolved.rules().len(), 1, "the denial still holds");
    assert!(
        change.problems[0]
            .to_string()
            .contains("last valid content stays in effect")
    );
}

#[tokio::test]
async fn files_that_stay_as_they_were_loaded_are_no_change() {
    let machine = Machine::new();
    machine.write(
        "home/.lathe/settings.json",
        "{\"theme\": \"a\", // a remark\n}",
    );
    machine.write("home/project/.lathe/settings.local.json", "{ broken");
    let (watcher, mut changes) = start(&machine, &OwnWrites::default());
    // The first look is over when the watcher has started.
    assert!(changes.try_recv().is_err());
    assert_eq!(watcher.current().settings.theme.as_deref(), Some("a"));
}

#[tokio::test]
async fn a_folder_that_is_replaced_is_watched_again() {
    let machine = Machine::new();
    let file = machine.write("home/.lathe/settings.json", r#"{"theme": "a"}"#);
    let (_watcher, mut changes) = start(&machine, &OwnWrites::default());
    std::fs::remove_dir_all(machine.path("home/.lathe")).unwrap();
    machine.write("home/.lathe/settings.json", r#"{"theme": "b"}"#);
    // That the file was gone for a moment may be seen or not.
    while next(&mut changes).await.resolved.settings.theme.as_deref() != Some("b") {}
    std::fs::write(&file, r#"{"theme": "c"}"#).unwrap();
    let change = next(&mut changes).await;
    assert_eq!(change.resolved.settings.theme.as_deref(), Some("c"));
}
