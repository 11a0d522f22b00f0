//! Whatever a file is and whatever happens meanwhile: the change is right or refused, and the file
//! is never damaged.

use crate::support::{Workshop, text_of};
use lathe_protocol::ids::RecordId;
use lathe_session::SessionError;
use lathe_tools::context::ChangeObserver;
use proptest::prelude::*;
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

fn utf16(text: &str, little: bool) -> Vec<u8> {
    std::iter::once(0xFEFF)
        .chain(text.encode_utf16())
        .flat_map(|unit: u16| {
            if little {
                unit.to_le_bytes()
            } else {
                unit.to_be_bytes()
            }
        })
        .collect()
}

#[tokio::test]
async fn crlf_stays_crlf() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "one\r\ntwo\r\nthree\r\n");
    assert!(!workshop.read("a.txt").await.contains('\r'));
    workshop.edit("a.txt", "one\ntwo", "1\n2\n2b").await;
    assert_eq!(workshop.bytes("a.txt"), b"1\r\n2\r\n2b\r\nthree\r\n");
    workshop
        .call("Read", json!({"file_path": "a.txt"}))
        .await
        .unwrap();
    workshop
        .call("Write", json!({"file_path": "a.txt", "content": "x\ny\n"}))
        .await
        .unwrap();
    assert_eq!(workshop.bytes("a.txt"), b"x\r\ny\r\n");
}

#[tokio::test]
async fn mixed_line_ends_stay_where_they_are() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "one\r\ntwo\nthree\r\nfour\n");
    workshop.edit("a.txt", "two", "2").await;
    assert_eq!(workshop.bytes("a.txt"), b"one\r\n2\nthree\r\nfour\n");
}

#[tokio::test]
async fn a_byte_order_mark_stays_and_is_not_shown() {
    let workshop = Workshop::new();
    workshop.put("a.txt", b"\xEF\xBB\xBFone\ntwo\n");
    assert!(workshop.read("a.txt").await.starts_with("     1\tone"));
    workshop.edit("a.txt", "one", "1").await;
    assert_eq!(workshop.bytes("a.txt"), b"\xEF\xBB\xBF1\ntwo\n");
    workshop.read("a.txt").await;
    workshop
        .call("Write", json!({"file_path": "a.txt", "content": "é"}))
        .await
        .unwrap();
    assert_eq!(workshop.bytes("a.txt"), b"\xEF\xBB\xBF\xC3\xA9");
}

#[tokio::test]
async fn utf16_stays_utf16_with_its_mark_or_without_one() {
    for (little, mark) in [(true, 0), (false, 0), (true, 2), (false, 2)] {
        let stored = |text: &str| utf16(text, little).split_off(mark);
        let workshop = Workshop::new();
        workshop.put("a.txt", stored("one\r\ntwo 🎉\r\n"));
        let shown = workshop.read("a.txt").await;
        assert!(
            shown.contains("two 🎉") && shown.contains("UTF-16"),
            "{shown}"
        );
        workshop.edit("a.txt", "one\ntwo", "1\n2 é").await;
        assert_eq!(workshop.bytes("a.txt"), stored("1\r\n2 é 🎉\r\n"));
    }
}

#[tokio::test]
async fn broken_utf16_is_refused() {
    let workshop = Workshop::new();
    let mut bytes = utf16("one", true);
    bytes.push(0);
    let path = workshop.put("a.txt", &bytes);
    assert!(
        workshop
            .error("Read", json!({"file_path": "a.txt"}))
            .await
            .contains("UTF-16")
    );
    // Even when it counts as read.
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    assert!(workshop.session.file_cache.seed(&path, modified));
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "x"});
    assert!(workshop.error("Edit", edit).await.contains("UTF-16"));
    assert_eq!(workshop.bytes("a.txt"), bytes);
}

#[tokio::test]
async fn latin1_stays_latin1_or_is_refused() {
    let workshop = Workshop::new();
    workshop.put("a.txt", b"caf\xE9\n\xA92026\n");
    assert!(workshop.read("a.txt").await.contains("café"));
    workshop.edit("a.txt", "café", "thé").await;
    assert_eq!(workshop.bytes("a.txt"), b"th\xE9\n\xA92026\n");
    workshop.read("a.txt").await;
    let edit = json!({"file_path": "a.txt", "old_string": "thé", "new_string": "茶"});
    let error = workshop.error("Edit", edit).await;
    assert!(error.contains('茶') && error.contains("Latin-1"), "{error}");
    assert_eq!(workshop.bytes("a.txt"), b"th\xE9\n\xA92026\n");
}

#[tokio::test]
async fn a_missing_final_newline_stays_missing() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "one\ntwo");
    let output = workshop.edit("a.txt", "two", "2").await;
    assert_eq!(workshop.bytes("a.txt"), b"one\n2");
    let lines = output.structured["structuredPatch"][0]["lines"].to_string();
    assert!(lines.contains("No newline at end of file"), "{lines}");
}

#[tokio::test]
async fn a_chain_of_symlinks_stays_and_its_end_is_changed() {
    let workshop = Workshop::new();
    workshop.put("real/a.txt", "one");
    symlink("real/a.txt", workshop.path("middle")).unwrap();
    symlink(workshop.path("middle"), workshop.path("link")).unwrap();
    workshop.edit("link", "one", "two").await;
    assert_eq!(workshop.bytes("real/a.txt"), b"two");
    for name in ["link", "middle"] {
        assert!(workshop.path(name).symlink_metadata().unwrap().is_symlink());
    }
    // Read through the link, changed behind it: it is one file.
    workshop.read("link").await;
    workshop
        .call(
            "Edit",
            json!({"file_path": "real/a.txt", "old_string": "two", "new_string": "three"}),
        )
        .await
        .unwrap();
    assert_eq!(workshop.bytes("link"), b"three");
}

#[tokio::test]
async fn writing_through_a_dangling_symlink_creates_what_it_names() {
    let workshop = Workshop::new();
    symlink("later/a.txt", workshop.path("link")).unwrap();
    workshop
        .call("Write", json!({"file_path": "link", "content": "x"}))
        .await
        .unwrap();
    assert!(
        workshop
            .path("link")
            .symlink_metadata()
            .unwrap()
            .is_symlink()
    );
    assert_eq!(workshop.bytes("later/a.txt"), b"x");

    symlink("loop", workshop.path("loop")).unwrap();
    let error = workshop
        .error("Write", json!({"file_path": "loop", "content": "x"}))
        .await;
    assert!(error.contains("points to itself"), "{error}");
}

#[tokio::test]
async fn a_read_only_file_is_refused_even_for_root() {
    let workshop = Workshop::new();
    let path = workshop.put("a.txt", "one");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    workshop.read("a.txt").await;
    for (tool, input) in [
        ("Write", json!({"file_path": "a.txt", "content": "x"})),
        (
            "Edit",
            json!({"file_path": "a.txt", "old_string": "one", "new_string": "x"}),
        ),
    ] {
        let error = workshop.error(tool, input).await;
        assert!(error.contains("read-only"), "{tool}: {error}");
    }
    assert_eq!(workshop.bytes("a.txt"), b"one");
    assert_eq!(workshop.names(), ["a.txt"]);
}

#[tokio::test]
async fn mode_bits_and_owner_stay() {
    let workshop = Workshop::new();
    for mode in [0o755, 0o600, 0o664] {
        let path = workshop.put("a.sh", "one");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        // Only root can give a file away; for anyone else the owner can't differ.
        let given = std::os::unix::fs::chown(&path, Some(1234), Some(4321)).is_ok();
        workshop.edit("a.sh", "one", "two").await;
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!(metadata.mode() & 0o7777, mode);
        if given {
            assert_eq!((metadata.uid(), metadata.gid()), (1234, 4321));
        }
    }
}

#[tokio::test]
async fn a_new_file_has_the_usual_mode() {
    let workshop = Workshop::new();
    workshop.put("usual", "");
    workshop
        .call("Write", json!({"file_path": "new", "content": ""}))
        .await
        .unwrap();
    let mode = |name: &str| std::fs::metadata(workshop.path(name)).unwrap().mode();
    assert_eq!(mode("new"), mode("usual"));
}

#[tokio::test]
async fn other_hard_links_keep_the_old_content_and_that_is_said() {
    let workshop = Workshop::new();
    let path = workshop.put("a.txt", "one");
    std::fs::hard_link(&path, workshop.path("b.txt")).unwrap();
    let output = workshop.edit("a.txt", "one", "two").await;
    assert!(
        text_of(&output).contains("hard link"),
        "{}",
        text_of(&output)
    );
    assert_eq!(workshop.bytes("b.txt"), b"one");
}

#[tokio::test]
async fn special_files_are_refused() {
    let workshop = Workshop::new();
    let made = Command::new("mkfifo")
        .arg(workshop.path("pipe"))
        .status()
        .unwrap();
    assert!(made.success());
    symlink("/dev/null", workshop.path("null")).unwrap();
    for name in ["pipe", "null", "/dev/full"] {
        let error = workshop
            .error("Write", json!({"file_path": name, "content": "x"}))
            .await;
        assert!(error.contains("not a regular file"), "{name}: {error}");
    }
}

/// Someone else who writes at the worst moment: after the file was loaded, before it is replaced.
struct Intruder;

impl ChangeObserver for Intruder {
    fn before_change(&self, path: &Path, _turn: RecordId) -> Result<(), SessionError> {
        // The same size and, on a coarse clock, the same time.
        std::fs::write(path, "ONE\n").map_err(|source| SessionError::Io {
            action: "write",
            path: path.to_owned(),
            source,
        })
    }

    fn after_change(&self, path: &Path, _turn: RecordId) {
        panic!("{} was changed", path.display());
    }
}

#[tokio::test]
async fn a_change_by_someone_else_at_the_last_moment_wins() {
    let workshop = Workshop::observed(Intruder);
    workshop.put("a.txt", "one\n");
    workshop.read("a.txt").await;
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"});
    let error = workshop.error("Edit", edit).await;
    assert!(error.contains("changed by another program"), "{error}");
    assert_eq!(workshop.bytes("a.txt"), b"ONE\n");

    let error = workshop
        .error("Write", json!({"file_path": "new.txt", "content": "x"}))
        .await;
    assert!(error.contains("created by another program"), "{error}");
    assert_eq!(workshop.bytes("new.txt"), b"ONE\n");
    assert_eq!(workshop.names(), ["a.txt", "new.txt"]);
}

const FULL_DISK_FOLDER: &str = "LATHE_TEST_FULL_DISK_FOLDER";

/// Runs this test again in a process whose disk is full: a tiny file system where one can be
/// mounted, otherwise a limit on the size of files, which fails writes in the same place.
///
/// Fault: The disk of the project is full
/// Seen: The model gets the path and the error of the system
/// Kept: The file as it was
#[tokio::test]
async fn a_full_disk_leaves_the_old_file_whole() {
    if let Ok(folder) = std::env::var(FULL_DISK_FOLDER) {
        return on_a_full_disk(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let again = |script: &str| {
        Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "damage::a_full_disk_leaves_the_old_file_whole",
                "--nocapture",
            ])
            .env(FULL_DISK_FOLDER, folder.path())
            .output()
            .unwrap()
    };
    let can_mount = Command::new("unshare")
        .args(["-m", "mount", "-t", "tmpfs", "-o", "size=64k", "none"])
        .arg(folder.path())
        .output()
        .is_ok_and(|output| output.status.success());
    let mut scripts = vec!["trap '' XFSZ; ulimit -f 32; exec \"$@\""];
    if can_mount {
        scripts.push(
            "exec unshare -m sh -c 'mount -t tmpfs -o size=64k none \"$LATHE_TEST_FULL_DISK_FOLDER\" && exec \"$@\"' sh \"$@\"",
        );
    }
    for script in scripts {
        let output = again(script);
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{text}");
        assert!(text.contains("1 passed"), "{script}\n{text}");
    }
}

async fn on_a_full_disk(folder: &Path) {
    let workshop = Workshop::with(|session| *session.working_folder.write() = folder.to_owned());
    workshop.put("a.txt", "one\n");
    workshop.read("a.txt").await;
    let much = "x".repeat(200_000);
    for (tool, input) in [
        ("Write", json!({"file_path": "a.txt", "content": much})),
        (
            "Edit",
            json!({"file_path": "a.txt", "old_string": "one", "new_string": much}),
        ),
        ("Write", json!({"file_path": "new.txt", "content": much})),
    ] {
        let error = workshop.error(tool, input).await;
        assert!(
            error.contains("No space left on the disk"),
            "{tool}: {error}"
        );
        assert_eq!(workshop.bytes("a.txt"), b"one\n");
        assert_eq!(workshop.names(), ["a.txt"]);
    }
    // The file is still the one that was read, so a smaller change goes through.
    workshop
        .call(
            "Edit",
            json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"}),
        )
        .await
        .unwrap();
    assert_eq!(workshop.bytes("a.txt"), b"two\n");
    std::fs::remove_file(workshop.path("a.txt")).unwrap();
}

#[derive(Debug, Clone, Copy)]
enum Stored {
    Utf8,
    Utf8WithMark,
    Utf16Little,
    Utf16Big,
    Latin1,
}

fn store(text: &str, stored: Stored) -> Vec<u8> {
    match stored {
        Stored::Utf8 => text.as_bytes().to_vec(),
        Stored::Utf8WithMark => [b"\xEF\xBB\xBF", text.as_bytes()].concat(),
        Stored::Utf16Little => utf16(text, true),
        Stored::Utf16Big => utf16(text, false),
        // The characters below are all in Latin-1.
        Stored::Latin1 => text.chars().map(|character| character as u8).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// An edit exchanges the bytes that it matches, and every other byte of the file stays.
    #[test]
    fn an_edit_changes_the_matched_bytes_and_no_other(
        before in "[abé \r\n\t]{0,30}",
        after in "[abé \r\n\t]{0,30}",
        line_end in prop_oneof![Just("\n"), Just("\r\n")],
        stored in prop_oneof![
            Just(Stored::Utf8), Just(Stored::Utf8WithMark), Just(Stored::Utf16Little),
            Just(Stored::Utf16Big), Just(Stored::Latin1),
        ],
    ) {
        // A letter that occurs nowhere else makes the place unique, and é that Latin-1 is no UTF-8.
        let before = format!("é{before}|");
        let after = format!("|{after}");
        let text = format!("{before}Q{line_end}Q{after}");
        let bytes = store(&text, stored);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let workshop = Workshop::new();
        workshop.put("a.txt", &bytes);
        runtime.block_on(workshop.edit("a.txt", "Q\nQ", "R\nR"));
        let expected = store(&format!("{before}R{line_end}R{after}"), stored);
        prop_assert_eq!(workshop.bytes("a.txt"), expected);
    }
}
