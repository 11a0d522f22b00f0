//! Finding, forking, naming, exporting and deleting sessions.

use crate::support::*;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::ids::SessionId;
use lathe_protocol::message::Message;
use lathe_protocol::record::Fact;
use lathe_session::cli::Privacy;
use lathe_session::export::ExportFormat;
use lathe_session::fork::fork;
use lathe_session::{
    Scope, SessionError, SessionInfo, SessionPaths, SessionStore, TranscriptWriter, WriterOptions,
    cli, load, normalize,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

struct Place {
    _home: tempfile::TempDir,
    config: PathBuf,
    cwd: PathBuf,
    store: SessionStore,
    clock: SystemTime,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config");
        let cwd = home.path().join("project");
        std::fs::create_dir(&cwd).unwrap();
        let store = SessionStore::new(&config);
        // In the past, so that nothing depends on how fast the test runs.
        let clock = SystemTime::now() - Duration::from_secs(10_000);
        Self {
            _home: home,
            config,
            cwd,
            store,
            clock,
        }
    }

    /// Writes a session that is newer than those before.
    fn add(&mut self, script: &Script) -> SessionPaths {
        self.add_at(&self.cwd.clone(), script)
    }

    fn add_at(&mut self, cwd: &Path, script: &Script) -> SessionPaths {
        let paths = script.write_under(&self.config, cwd);
        self.clock += Duration::from_secs(10);
        let file = std::fs::File::options()
            .append(true)
            .open(paths.transcript())
            .unwrap();
        file.set_modified(self.clock).unwrap();
        paths
    }

    fn names(&self, scope: Scope<'_>) -> Vec<String> {
        self.store
            .list(scope, None)
            .into_iter()
            .filter_map(|info| info.title)
            .collect()
    }
}

fn simple(prompt: &str) -> Script {
    let mut script = Script::new();
    script.prompt(prompt);
    script.says("m1", text("answer"));
    script
}

#[test]
fn a_listing_shows_newest_first_and_passes_over_what_is_no_session() {
    let mut place = Place::new();
    let paths = place.add(&simple("first\n  prompt"));
    place.add(&simple("second"));
    let folder = paths.project_folder();
    let junk = |name: &str, content: &[u8]| std::fs::write(folder.join(name), content).unwrap();
    junk("notes.txt", b"hello");
    junk("not-a-uuid.jsonl", b"{}");
    junk(&format!("{}.jsonl", SessionId::random()), b"");
    junk(
        &format!("{}.jsonl", SessionId::random()),
        b"\xff\xfe garbage",
    );
    junk(
        &format!("{}.jsonl", SessionId::random()),
        b"{\"type\":\"mode\"}\n",
    );
    std::fs::create_dir(folder.join(format!("{}.jsonl", SessionId::random()))).unwrap();
    let mut side = Script::new();
    let mut record = side.template.user(None, Message::user("agent"));
    record.is_sidechain = true;
    side.push(record);
    place.add(&side);
    let cwd = place.cwd.clone();
    assert_eq!(place.names(Scope::Folder(&cwd)), ["second", "first prompt"]);
    assert_eq!(place.store.list(Scope::Folder(&cwd), Some(1)).len(), 1);
    let newest = place.store.newest(&cwd).unwrap();
    assert_eq!(newest.title.as_deref(), Some("second"));
    assert_eq!(newest.messages, Some(2));
    assert_eq!(newest.branch.as_deref(), Some("main"));
    assert_eq!(newest.cwd.as_deref(), Some(Path::new("/work")));
    assert!(place.store.newest(Path::new("/nowhere/at/all")).is_none());
}

#[test]
fn the_title_is_the_persons_then_the_models_then_a_prompt() {
    let mut place = Place::new();
    let mut script = Script::new();
    let session_id = script.id();
    script.meta("context");
    script.prompt("<command-name>/init</command-name>");
    script.prompt("the first prompt");
    place.add(&script);
    let title = |place: &Place| place.store.newest(&place.cwd).unwrap().title.unwrap();
    assert_eq!(title(&place), "the first prompt");
    script.fact(Fact::LastPrompt {
        last_prompt: "the last".into(),
        session_id,
    });
    place.add(&script);
    assert_eq!(title(&place), "the last");
    script.fact(Fact::AiTitle {
        ai_title: "by the model".into(),
        session_id,
    });
    place.add(&script);
    assert_eq!(title(&place), "by the model");
    let info = place.store.newest(&place.cwd).unwrap();
    place.store.rename(&info, " By me ").unwrap();
    place.store.tag(&info, "wip").unwrap();
    let renamed = place.store.newest(&place.cwd).unwrap();
    assert_eq!(renamed.title.as_deref(), Some("By me"));
    assert_eq!(renamed.tag.as_deref(), Some("wip"));
    place.store.rename(&info, "").unwrap();
    place.store.tag(&info, "").unwrap();
    let plain = place.store.newest(&place.cwd).unwrap();
    assert_eq!(
        (plain.title.as_deref(), plain.tag),
        (Some("by the model"), None)
    );
}

#[test]
fn a_long_session_is_listed_from_its_two_ends() {
    let mut place = Place::new();
    let mut script = Script::new();
    script.prompt(&"a very long first prompt ".repeat(5_000));
    for _ in 0..200 {
        script.says("m", text(&"z".repeat(2_000)));
    }
    script.fact(Fact::CustomTitle {
        custom_title: "long".into(),
        session_id: script.id(),
    });
    place.add(&script);
    let info = place.store.newest(&place.cwd).unwrap();
    assert_eq!(info.title.as_deref(), Some("long"));
    assert!(
        info.first_prompt
            .unwrap()
            .starts_with("a very long first prompt")
    );
    assert_eq!(info.messages, None, "not counted for a listing");
    assert!(info.size > 400_000);
}

#[test]
fn sessions_of_other_worktrees_of_the_repository_belong_to_the_project() {
    let mut place = Place::new();
    let repository = place.cwd.clone();
    let tree = repository.with_file_name("tree");
    let git = |arguments: &[&str]| {
        let status = Command::new("git")
            .current_dir(&repository)
            .args([
                "-c",
                "user.name=T",
                "-c",
                "user.email=t@example.com",
                "-c",
                "commit.gpgsign=false",
            ])
            .args(arguments)
            .env("HOME", &repository)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "git {arguments:?}");
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&["worktree", "add", "-q", tree.to_str().unwrap()]);
    place.add_at(&repository, &simple("in the main tree"));
    let other = simple("in the other tree");
    place.add_at(&tree, &other);
    place.add_at(Path::new("/elsewhere"), &simple("elsewhere"));
    assert_eq!(
        place.names(Scope::Folder(&repository)),
        ["in the main tree"]
    );
    assert_eq!(
        place.names(Scope::Project(&repository)),
        ["in the other tree", "in the main tree"]
    );
    assert_eq!(place.names(Scope::Everywhere).len(), 3);
    let found = place
        .store
        .resolve(&other.id().to_string(), &repository)
        .unwrap();
    assert_eq!(found.id, other.id());
    assert_eq!(
        place.store.newest(&repository).unwrap().title.as_deref(),
        Some("in the main tree")
    );
}

#[test]
fn a_resume_argument_is_an_id_its_beginning_a_title_or_a_path() {
    let mut place = Place::new();
    let one = Script::with_id("aaaa1111-0000-4000-8000-000000000001".parse().unwrap());
    let two = Script::with_id("aaaa2222-0000-4000-8000-000000000002".parse().unwrap());
    let mut paths = Vec::new();
    for (mut script, prompt) in [(one, "Fix the parser"), (two, "Fix the printer")] {
        script.prompt(prompt);
        paths.push(place.add(&script));
    }
    let cwd = place.cwd.clone();
    let found = |wanted: &str| {
        place
            .store
            .resolve(wanted, &cwd)
            .map(|info| info.title.unwrap())
    };
    assert_eq!(
        found("aaaa2222-0000-4000-8000-000000000002").unwrap(),
        "Fix the printer"
    );
    assert_eq!(found("AAAA1").unwrap(), "Fix the parser");
    assert_eq!(found("fix the PARSER").unwrap(), "Fix the parser");
    assert_eq!(found("printer").unwrap(), "Fix the printer");
    assert_eq!(
        found(paths[0].transcript().to_str().unwrap()).unwrap(),
        "Fix the parser"
    );
    for wanted in ["aaaa", "fix"] {
        let error = found(wanted).unwrap_err();
        let SessionError::Ambiguous { candidates, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(candidates.len(), 2);
        assert!(
            error
                .to_string()
                .contains("aaaa1111-0000-4000-8000-000000000001  Fix the parser"),
            "{error}"
        );
    }
    let unknown = "bbbb1111-0000-4000-8000-000000000009";
    let error = found(unknown).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("No conversation found with session ID: {unknown}")
    );
    for wanted in ["", "nothing like it", "/nowhere/x.jsonl"] {
        assert!(
            matches!(found(wanted), Err(SessionError::NotFound { .. })),
            "{wanted}"
        );
    }
}

#[test]
fn a_session_of_another_folder_is_not_resumed_here_but_pointed_at() {
    let mut place = Place::new();
    let script = simple("there");
    place.add_at(Path::new("/elsewhere"), &script);
    let error = place
        .store
        .resolve(&script.id().to_string(), &place.cwd)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("No conversation found with session ID: {}", script.id())
    );
    assert!(
        error.hint().unwrap().contains("/work"),
        "{:?}",
        error.hint()
    );
    assert!(place.store.find_anywhere(script.id()).is_some());
}

#[tokio::test]
async fn a_fork_is_the_same_conversation_under_a_new_id() {
    let place = Place::new();
    let mut script = Script::new();
    let session_id = script.id();
    script.prompt("one");
    let answer = script.says("m1", text("a"));
    script.prompt("dropped");
    script.parent = Some(answer);
    let picture = ContentBlock::image("image/png", "A".repeat(50_000));
    script.push(
        script
            .template
            .user(script.parent, Message::user(vec![picture])),
    );
    script.says("m2", call("t1"));
    script.result("t1", "long");
    script.fact(Fact::Replacement {
        tool_use_id: "t1".into(),
        replacement: "short".into(),
        session_id,
    });
    script.fact(Fact::CustomTitle {
        custom_title: "Mine".into(),
        session_id,
    });
    script.fact(Fact::Cost {
        totals: serde_json::json!({"usd": 3}),
        session_id,
    });
    let source = SessionPaths::new(&place.config, &place.cwd, session_id);
    let writer = TranscriptWriter::create(&source.transcript(), WriterOptions::default()).unwrap();
    script
        .records
        .iter()
        .for_each(|record| writer.append(record.clone()));
    writer.close().await.unwrap();
    let before = std::fs::read(source.transcript()).unwrap();

    let new_id = SessionId::random();
    let target = source.sibling(new_id);
    fork(&source.transcript(), &target, new_id, None).unwrap();
    assert_eq!(
        std::fs::read(source.transcript()).unwrap(),
        before,
        "the source is untouched"
    );
    let messages = |path: &Path| {
        let chain = load(path).unwrap().chain();
        normalize(chain.iter().map(|record| &**record), MODEL)
    };
    assert_eq!(
        messages(&target.transcript()),
        messages(&source.transcript())
    );
    let forked = load(&target.transcript()).unwrap();
    assert_eq!(forked.session_id(), Some(new_id));
    assert!(forked.messages().all(|record| record.session_id == new_id));
    let first = forked.messages().next().unwrap();
    assert_eq!(
        first.extra["forkedFrom"]["sessionId"],
        session_id.to_string()
    );
    assert_eq!(
        forked.messages().count(),
        5,
        "the dropped branch stays behind"
    );
    assert_eq!(forked.facts.title(), Some("Mine (fork)"));
    assert_eq!(forked.facts.cost, None);
    let listed = place.store.find_anywhere(new_id).unwrap();
    assert_eq!(listed.forked_from, Some(session_id));
    // The fork stands on its own.
    let info = place.store.find_anywhere(session_id).unwrap();
    place.store.delete(&info).unwrap();
    assert!(!source.transcript().exists() && !source.session_folder().exists());
    assert!(load(&target.transcript()).unwrap().missing_blobs.is_empty());
    let again = fork(&target.transcript(), &target, new_id, None).unwrap_err();
    assert!(matches!(again, SessionError::AlreadyExists { .. }));
    let third = SessionId::random();
    fork(
        &target.transcript(),
        &target.sibling(third),
        third,
        Some(answer),
    )
    .unwrap();
    assert_eq!(
        load(&target.sibling(third).transcript())
            .unwrap()
            .messages()
            .count(),
        2
    );
}

#[tokio::test]
async fn a_session_in_use_is_not_deleted() {
    let mut place = Place::new();
    let paths = place.add(&simple("mine"));
    std::fs::create_dir_all(paths.tool_results()).unwrap();
    let info = place.store.newest(&place.cwd).unwrap();
    let writer =
        TranscriptWriter::open_append(&paths.transcript(), WriterOptions::default()).unwrap();
    assert!(matches!(
        place.store.delete(&info),
        Err(SessionError::InUse { .. })
    ));
    writer.close().await.unwrap();
    let deleted = cli::delete(&place.store, &info.id.to_string(), &place.cwd).unwrap();
    assert_eq!(deleted.id, info.id);
    assert!(!paths.transcript().exists() && !paths.session_folder().exists());
}

fn story() -> Script {
    let mut script = Script::new();
    script.prompt("Why does it fail?");
    script.says("m1", thinking(MODEL));
    script.says("m1", text("Let me look."));
    script.says("m1", call("t1"));
    script.result("t1", "```\ncode\n```");
    script.meta("a hidden reminder");
    script.boundary();
    script.summary("Something failed.");
    script.says("m2", text("Because of this."));
    script
}

#[test]
fn an_export_reads_like_the_conversation() {
    let mut place = Place::new();
    let script = story();
    place.add(&script);
    let id = script.id().to_string();
    let export =
        |format| cli::export(&place.store, &id, &place.cwd, format, Privacy::Whole).unwrap();
    let markdown = export(ExportFormat::Markdown);
    assert!(markdown.starts_with("# Why does it fail?\n"), "{markdown}");
    assert!(
        markdown.contains("## You\n") && markdown.contains("## Assistant\n"),
        "{markdown}"
    );
    assert!(
        markdown.contains("**Read**\n\n```json\n{\n  \"file_path\": \"/a\"\n}\n```"),
        "{markdown}"
    );
    assert!(
        markdown.contains("````\n```\ncode\n```\n````"),
        "fences don't clash: {markdown}"
    );
    assert!(markdown.contains("summarised here") && !markdown.contains("hidden reminder"));
    let plain = export(ExportFormat::Text);
    assert!(
        plain.contains("  [Read]\n") && plain.contains("Because of this."),
        "{plain}"
    );
    let parsed: Value = serde_json::from_str(&export(ExportFormat::Json)).unwrap();
    assert_eq!(parsed["session"]["id"], id);
    assert_eq!(parsed["messages"].as_array().unwrap().len(), 9);
}

#[test]
fn show_tells_the_story_in_short() {
    let mut place = Place::new();
    let mut script = story();
    let last = script.prompt("And now?");
    script.fact(Fact::Mode {
        mode: "plan".into(),
        session_id: script.id(),
    });
    place.add(&script);
    let detail = cli::show(&place.store, &script.id().to_string(), &place.cwd).unwrap();
    assert_eq!(detail.prompts.len(), 2);
    assert_eq!(detail.prompts[1].id, last);
    assert_eq!(
        detail.interrupted.as_deref(),
        Some("the last prompt was not answered")
    );
    let shown = cli::show_text(&detail);
    assert!(
        shown.contains("mode         plan\n") && shown.contains(&format!("  {last}  ")),
        "{shown}"
    );
    let parsed: Value = serde_json::from_str(&cli::show_json(&detail)).unwrap();
    assert_eq!(parsed["permissionMode"], "plan");
    assert_eq!(parsed["firstPrompt"], "Why does it fail?");
}

#[test]
fn a_session_that_keeps_notes_is_previewed_by_them() {
    let mut place = Place::new();
    let mut script = Script::new();
    script.prompt("Why does it fail?\nAnd since when?");
    place.add(&script);
    let info = place.store.newest(&place.cwd).unwrap();
    assert_eq!(info.preview(4), ["Why does it fail? And since when?"]);
    let folder = info.path.with_extension("");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("notes.md"),
        "# Task: mend it\nThe clock.\n\n# State: as it is\nThe hand is mended.\n\nThe face is next.\n# Files\nclock.rs\n",
    )
    .unwrap();
    assert_eq!(
        info.preview(4),
        ["The hand is mended.", "The face is next."]
    );
    assert_eq!(info.preview(1), ["The hand is mended."]);
    let detail = cli::show(&place.store, &script.id().to_string(), &place.cwd).unwrap();
    assert!(cli::show_text(&detail).contains("\nnotes\n  # Task: mend it\n"));
    std::fs::write(folder.join("notes.md"), "Just words.\n").unwrap();
    assert_eq!(info.preview(4), ["Just words."]);
}

#[test]
fn the_table_fits_the_terminal_and_the_json_has_everything() {
    let info = |title: &str, minutes: i64, messages: Option<usize>| SessionInfo {
        id: "aaaa1111-0000-4000-8000-000000000001".parse().unwrap(),
        title: Some(title.to_owned()),
        custom_title: None,
        first_prompt: None,
        tag: None,
        branch: Some("main".into()),
        messages,
        size: 3 << 20,
        created: None,
        modified: jiff::Timestamp::from_second(1_000_000 - minutes * 60).unwrap(),
        cwd: Some("/work".into()),
        path: "/x".into(),
        forked_from: None,
        moved: None,
    };
    let now = jiff::Timestamp::from_second(1_000_000).unwrap();
    let rows = [
        info("short", 0, Some(4)),
        info(&"長い題 ".repeat(40), 90, None),
    ];
    let table = cli::list_table(&rows, 120, now);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines[0].starts_with("ID ") && lines[0].ends_with("FOLDER"),
        "{table}"
    );
    assert!(
        lines[1].contains("just now") && lines[1].contains(" 4 "),
        "{table}"
    );
    assert!(
        lines[2].contains("1 h ago") && lines[2].contains("3.0 MB") && lines[2].contains('…'),
        "{table}"
    );
    for line in &lines {
        let columns: usize = line
            .chars()
            .map(|letter| if letter > '\u{2fff}' { 2 } else { 1 })
            .sum();
        assert!(columns <= 120, "{columns}: {line}");
    }
    assert!(cli::list_table(&[], 80, now).contains("--all"));
    let parsed: Value = serde_json::from_str(&cli::list_json(&rows)).unwrap();
    assert_eq!(parsed[0]["messages"], 4);
    assert_eq!(parsed[1]["cwd"], "/work");
}
