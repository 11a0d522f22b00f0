//! Undoing what a session did to files.

use crate::support::*;
use lathe_protocol::ids::{RecordId, SessionId};
use lathe_session::checkpoint::{FileAction, FileHistory, RewindMode, WriteGuard, WriteVerdict};
use lathe_session::cli::{self, RewindWhat};
use lathe_session::scan::{ScanLimits, scan};
use lathe_session::{
    SessionError, SessionPaths, SessionStore, TranscriptWriter, WriterOptions, load,
};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Work {
    _home: tempfile::TempDir,
    config: PathBuf,
    root: PathBuf,
    paths: SessionPaths,
    writer: TranscriptWriter,
    history: Arc<FileHistory>,
    script: Script,
}

/// Every file may be written.
fn free() -> WriteGuard {
    Arc::new(|_| WriteVerdict::Free)
}

impl Work {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config");
        let root = home.path().join("project");
        std::fs::create_dir(&root).unwrap();
        let script = Script::new();
        let paths = SessionPaths::new(&config, &root, script.id());
        let writer =
            TranscriptWriter::create(&paths.transcript(), WriterOptions::default()).unwrap();
        let history = Arc::new(FileHistory::new(writer.clone(), free()).unwrap());
        Self {
            _home: home,
            config,
            root,
            paths,
            writer,
            history,
            script,
        }
    }

    fn turn(&mut self, prompt: &str) -> RecordId {
        let id = self.script.prompt(prompt);
        self.writer
            .append(self.script.records.last().unwrap().clone());
        self.history.begin_turn(id);
        id
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Changes a file the way a tool does.
    async fn edit(&self, turn: RecordId, name: &str, content: &str) {
        let path = self.at(name);
        self.history.before_change(&path, turn).await.unwrap();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(&path, content).unwrap();
        self.history.after_change(&path, turn).await.unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.at(name)).ok()
    }

    /// The session as after a crash: nothing but the file, and another process.
    async fn restart(&mut self) {
        self.writer.close().await.unwrap();
        self.writer =
            TranscriptWriter::open_append(&self.paths.transcript(), WriterOptions::default())
                .unwrap();
        self.history = Arc::new(FileHistory::new(self.writer.clone(), free()).unwrap());
    }
}

#[tokio::test]
async fn files_go_back_to_what_they_held_before_a_prompt() {
    let mut work = Work::new();
    std::fs::write(work.at("kept"), "a\nb\nc\n").unwrap();
    std::fs::set_permissions(work.at("kept"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let one = work.turn("one");
    work.edit(one, "kept", "a\nB\nc\n").await;
    work.edit(one, "kept", "a\nBB\nc\n").await;
    let two = work.turn("two");
    work.edit(two, "new/deep/file", "created\n").await;
    work.edit(two, "kept", "gone\n").await;
    work.turn("three, which changes nothing");

    let preview = work
        .history
        .rewind_files(one, RewindMode::Preview)
        .await
        .unwrap();
    assert!(!preview.applied && preview.conflicts.is_empty());
    assert_eq!(preview.files.len(), 2);
    assert_eq!(
        work.read("kept").as_deref(),
        Some("gone\n"),
        "only looked at"
    );
    let kept = preview
        .files
        .iter()
        .find(|file| file.path.ends_with("kept"))
        .unwrap();
    assert_eq!((kept.insertions, kept.deletions), (3, 1));
    assert!(kept.diff.contains("-gone\n+a\n"), "{}", kept.diff);

    let report = work
        .history
        .rewind_files(two, RewindMode::Apply)
        .await
        .unwrap();
    assert!(report.applied);
    assert_eq!(work.read("kept").as_deref(), Some("a\nBB\nc\n"));
    assert!(!work.at("new").exists(), "made for the file, and empty now");

    let report = work
        .history
        .rewind_files(one, RewindMode::Apply)
        .await
        .unwrap();
    assert_eq!(report.files.len(), 1);
    assert_eq!(work.read("kept").as_deref(), Some("a\nb\nc\n"));
    let mode = std::fs::metadata(work.at("kept"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[tokio::test]
async fn a_rewind_can_be_undone_also_after_a_restart() {
    let mut work = Work::new();
    std::fs::write(work.at("file"), "old").unwrap();
    let one = work.turn("one");
    work.edit(one, "file", "new").await;
    work.edit(one, "created", "x").await;
    work.restart().await;
    let report = work
        .history
        .rewind_files(one, RewindMode::Apply)
        .await
        .unwrap();
    assert_eq!(work.read("file").as_deref(), Some("old"));
    assert_eq!(work.read("created"), None);
    let undo = report.undo.unwrap();
    work.restart().await;
    let report = work
        .history
        .rewind_files(undo, RewindMode::Apply)
        .await
        .unwrap();
    assert_eq!(work.read("file").as_deref(), Some("new"));
    assert_eq!(work.read("created").as_deref(), Some("x"));
    let actions: Vec<FileAction> = report.files.iter().map(|file| file.action).collect();
    assert!(actions.contains(&FileAction::Recreated), "{actions:?}");
    // And once more to and fro.
    work.history
        .rewind_files(report.undo.unwrap(), RewindMode::Apply)
        .await
        .unwrap();
    assert_eq!(work.read("file").as_deref(), Some("old"));
}

#[tokio::test]
async fn what_others_changed_is_not_overwritten_unless_forced() {
    let mut work = Work::new();
    std::fs::write(work.at("theirs"), "old").unwrap();
    std::fs::write(work.at("ours"), "old").unwrap();
    let one = work.turn("one");
    work.edit(one, "theirs", "new").await;
    work.edit(one, "ours", "new").await;
    std::fs::write(work.at("theirs"), "by the person").unwrap();
    let report = work
        .history
        .rewind_files(one, RewindMode::Apply)
        .await
        .unwrap();
    assert!(!report.applied);
    assert_eq!(report.conflicts.len(), 1);
    assert!(report.conflicts[0].path.ends_with("theirs"));
    assert_eq!(work.read("ours").as_deref(), Some("new"), "all or nothing");
    let report = work
        .history
        .rewind_files(one, RewindMode::Overwrite)
        .await
        .unwrap();
    assert!(report.applied);
    assert_eq!(work.read("theirs").as_deref(), Some("old"));
    let undone = work
        .history
        .rewind_files(report.undo.unwrap(), RewindMode::Apply)
        .await
        .unwrap();
    assert!(undone.applied);
    assert_eq!(
        work.read("theirs").as_deref(),
        Some("by the person"),
        "nothing is lost"
    );
}

#[tokio::test]
async fn a_change_that_a_crash_cut_off_is_not_taken_for_ours() {
    let mut work = Work::new();
    std::fs::write(work.at("file"), "old").unwrap();
    let one = work.turn("one");
    work.history
        .before_change(&work.at("file"), one)
        .await
        .unwrap();
    // The process dies here: before the change,
    work.restart().await;
    let report = work
        .history
        .rewind_files(one, RewindMode::Apply)
        .await
        .unwrap();
    assert!(report.files.is_empty() && report.conflicts.is_empty());
    // or after it.
    std::fs::write(work.at("file"), "half-known").unwrap();
    let report = work
        .history
        .rewind_files(one, RewindMode::Apply)
        .await
        .unwrap();
    assert_eq!(report.conflicts.len(), 1);
    assert!(
        work.history
            .rewind_files(one, RewindMode::Overwrite)
            .await
            .unwrap()
            .applied
    );
    assert_eq!(work.read("file").as_deref(), Some("old"));
}

#[tokio::test]
async fn links_are_written_through_and_come_back_as_links() {
    let mut work = Work::new();
    std::fs::write(work.at("target"), "old").unwrap();
    std::os::unix::fs::symlink("target", work.at("link")).unwrap();
    let one = work.turn("one");
    work.edit(one, "link", "new").await;
    assert_eq!(work.read("target").as_deref(), Some("new"));
    let two = work.turn("two");
    work.history
        .before_change(&work.at("link"), two)
        .await
        .unwrap();
    std::fs::remove_file(work.at("link")).unwrap();
    std::fs::write(work.at("link"), "a file now").unwrap();
    work.history
        .after_change(&work.at("link"), two)
        .await
        .unwrap();
    work.history
        .rewind_files(one, RewindMode::Apply)
        .await
        .unwrap();
    assert_eq!(
        std::fs::read_link(work.at("link")).unwrap(),
        Path::new("target")
    );
    assert_eq!(work.read("target").as_deref(), Some("old"));
}

#[tokio::test]
async fn what_a_shell_command_did_is_undone_as_far_as_it_is_known() {
    let mut work = Work::new();
    std::fs::write(work.at("edited"), "old\n").unwrap();
    std::fs::write(work.at("deleted"), "here\n").unwrap();
    std::fs::write(work.at("large"), vec![b'x'; 5_000]).unwrap();
    let one = work.turn("one");
    let roots = [work.root.clone()];
    let limits = ScanLimits {
        kept_file_bytes: 1_000,
        ..ScanLimits::default()
    };
    let before = scan(&roots, &[], limits);
    let status = std::process::Command::new("bash")
        .args([
            "-c",
            "echo more >> edited; rm deleted; echo n > created; echo y >> large",
        ])
        .current_dir(&work.root)
        .status()
        .unwrap();
    assert!(status.success());
    let changes = before.changes(&scan(&roots, &[], limits.without_contents()));
    let unknown = work
        .history
        .after_shell(before, changes, one)
        .await
        .unwrap();
    assert_eq!(unknown, [work.at("large")]);
    let report = work
        .history
        .rewind_files(one, RewindMode::Apply)
        .await
        .unwrap();
    assert!(report.applied, "{report:?}");
    assert_eq!(
        report.uncovered.len(),
        1,
        "what can't be brought back is said"
    );
    assert_eq!(work.read("edited").as_deref(), Some("old\n"));
    assert_eq!(work.read("deleted").as_deref(), Some("here\n"));
    assert_eq!(work.read("created"), None);
    assert!(work.read("large").unwrap().ends_with("y\n"));
}

#[tokio::test]
async fn undo_works_without_persistence_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let paths = SessionPaths::new(home.path(), home.path(), SessionId::random());
    let file = home.path().join("file");
    std::fs::write(&file, "old").unwrap();
    let history = Arc::new(
        FileHistory::new(TranscriptWriter::disabled(&paths.transcript()), free()).unwrap(),
    );
    let turn = RecordId::random();
    history.begin_turn(turn);
    history.before_change(&file, turn).await.unwrap();
    std::fs::write(&file, "new").unwrap();
    history.after_change(&file, turn).await.unwrap();
    assert!(
        history
            .rewind_files(turn, RewindMode::Apply)
            .await
            .unwrap()
            .applied
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
    let unknown = history
        .rewind_files(RecordId::random(), RewindMode::Apply)
        .await
        .unwrap_err();
    assert!(matches!(unknown, SessionError::NoSuchRecord { .. }));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn the_command_rewinds_conversation_and_files_and_can_be_undone() {
    let mut work = Work::new();
    std::fs::write(work.at("file"), "old\n").unwrap();
    let one = work.turn("first thing");
    work.edit(one, "file", "new\n").await;
    let two = work.turn("second thing");
    work.edit(two, "file", "newer\n").await;
    work.writer.close().await.unwrap();
    let store = SessionStore::new(&work.config);
    let id = work.script.id().to_string();
    let rewind = |to: String, what, mode| {
        let (store, id, root) = (store.clone(), id.clone(), work.root.clone());
        async move { cli::rewind(&store, &id, &root, &to, what, mode, free()).await }
    };
    let wrong = rewind("ffffffff".into(), RewindWhat::Both, RewindMode::Apply)
        .await
        .unwrap_err();
    assert!(wrong.to_string().contains("second thing"), "{wrong}");
    let looked = rewind(two.to_string(), RewindWhat::Both, RewindMode::Preview)
        .await
        .unwrap();
    let said = cli::rewind_text(&looked, RewindMode::Preview);
    assert!(
        said.contains("-newer\n+new\n") && said.contains("(preview)"),
        "{said}"
    );
    assert!(!looked.conversation);
    let done = rewind(two.to_string(), RewindWhat::Both, RewindMode::Apply)
        .await
        .unwrap();
    assert!(done.conversation);
    assert_eq!(done.messages, 1);
    assert_eq!(work.read("file").as_deref(), Some("new\n"));
    assert_eq!(load(&work.paths.transcript()).unwrap().tip(), Some(one));
    let said = cli::rewind_text(&done, RewindMode::Apply);
    let undo = done.files.as_ref().unwrap().undo.unwrap().to_string();
    assert!(
        said.contains(&undo) && said.contains("1 messages set aside"),
        "{said}"
    );
    rewind(undo, RewindWhat::Files, RewindMode::Apply)
        .await
        .unwrap();
    assert_eq!(work.read("file").as_deref(), Some("newer\n"));
    let parsed: serde_json::Value = serde_json::from_str(&cli::rewind_json(&done)).unwrap();
    assert_eq!(parsed["files"]["applied"], true);
}

#[tokio::test]
async fn a_rewind_writes_what_is_guarded_only_when_a_person_says_so() {
    let mut work = Work::new();
    for (verdict, overwritten) in [
        (WriteVerdict::Ask("it lies outside".to_owned()), true),
        (WriteVerdict::Refused("a rule forbids it".to_owned()), false),
    ] {
        std::fs::write(work.at("file"), "old\n").unwrap();
        let turn = work.turn("change it");
        work.edit(turn, "file", "new\n").await;
        let guard: WriteGuard = {
            let verdict = verdict.clone();
            Arc::new(move |_| verdict.clone())
        };
        let history = Arc::new(FileHistory::new(work.writer.clone(), guard).unwrap());
        let report = history.rewind_files(turn, RewindMode::Apply).await.unwrap();
        assert!(!report.applied, "{report:?}");
        assert_eq!(std::fs::read_to_string(work.at("file")).unwrap(), "new\n");
        let named = report.conflicts.iter().chain(&report.uncovered);
        assert_eq!(named.count(), 1, "{report:?}");
        let report = history
            .rewind_files(turn, RewindMode::Overwrite)
            .await
            .unwrap();
        assert_eq!(report.applied, overwritten, "{verdict:?}");
    }
}
