//! Grep and Glob on a real tree.

use crate::support::{Workshop, text_of};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use lathe_tools::registry;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Makes a file as old as said, so that "newest first" doesn't depend on the clock.
fn age(workshop: &Workshop, name: &str, seconds: u64) {
    std::fs::File::options()
        .write(true)
        .open(workshop.path(name))
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 - seconds))
        .unwrap();
}

fn tree() -> Workshop {
    let workshop = Workshop::new();
    for (index, (name, content)) in [
        ("src/main.rs", "fn main() {\n    run();\n}\n"),
        (
            "src/run.rs",
            "pub fn run() {\n    // TODO: more\n}\n\npub fn stop() {}\n",
        ),
        ("src/deep/a.ts", "export const run = 1;\n"),
        ("web/b.tsx", "const Run = 2;\n"),
        (".github/ci.yml", "run: test\n"),
        ("target/out.rs", "fn run() {}\n"),
        (".gitignore", "target/\n"),
        (".git/config", "run\n"),
        ("data.bin", "run\0run\n"),
        (".env", "RUN_KEY=run\n"),
    ]
    .into_iter()
    .enumerate()
    {
        workshop.put(name, content);
        age(&workshop, name, 10 * index as u64);
    }
    workshop
}

async fn grep(workshop: &Workshop, input: Value) -> String {
    workshop.text("Grep", input).await
}

#[tokio::test]
async fn files_with_matches_come_newest_first_without_what_is_not_searched() {
    let workshop = tree();
    let output = workshop
        .call("Grep", json!({"pattern": "run"}))
        .await
        .unwrap();
    assert_eq!(
        text_of(&output),
        "src/main.rs\nsrc/run.rs\nsrc/deep/a.ts\n.github/ci.yml\n\
         [1 files that may contain secrets were not searched. Name one in path to request it.]"
    );
    assert_eq!(output.structured["numFiles"], 4);
    assert_eq!(output.structured["mode"], "files_with_matches");
    assert!(matches!(
        output.display,
        Display::FileList {
            truncated: false,
            ..
        }
    ));
}

#[tokio::test]
async fn a_secret_file_is_searched_when_it_is_named() {
    let workshop = tree();
    let text = grep(&workshop, json!({"pattern": "run", "path": ".env"})).await;
    assert_eq!(text, ".env");
    let tools = registry::builtin();
    let call = Arc::clone(tools.find("Grep").unwrap())
        .prepare(json!({"pattern": "run", "path": ".env"}), &workshop.session)
        .unwrap();
    assert_eq!(
        call.subject(&workshop.session),
        Subject::Read {
            paths: vec![workshop.path(".env")]
        }
    );
}

#[tokio::test]
async fn content_is_sorted_by_path_with_numbers_and_surroundings() {
    let workshop = tree();
    let text = grep(
        &workshop,
        json!({"pattern": "run\\(", "output_mode": "content", "glob": "*.rs"}),
    )
    .await;
    assert_eq!(
        text,
        "src/main.rs:2:    run();\nsrc/run.rs:1:pub fn run() {"
    );
    let text = grep(
        &workshop,
        json!({"pattern": "pub fn", "output_mode": "content", "path": "src/run.rs", "-A": 1, "-n": false}),
    )
    .await;
    assert_eq!(
        text,
        "src/run.rs:pub fn run() {\nsrc/run.rs-    // TODO: more\n--\nsrc/run.rs:pub fn stop() {}"
    );
    let text = grep(
        &workshop,
        json!({"pattern": "TODO", "output_mode": "content", "context": 1}),
    )
    .await;
    assert!(
        text.starts_with(
            "src/run.rs-1-pub fn run() {\nsrc/run.rs:2:    // TODO: more\nsrc/run.rs-3-}"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn counts_are_lines_per_file_and_in_all() {
    let workshop = tree();
    let output = workshop
        .call(
            "Grep",
            json!({"pattern": "fn", "output_mode": "count", "type": "rust"}),
        )
        .await
        .unwrap();
    assert_eq!(
        text_of(&output),
        "src/main.rs:1\nsrc/run.rs:2\n\n[3 matching lines in 2 files.]"
    );
    assert_eq!(output.structured["numMatches"], 3);
}

#[tokio::test]
async fn case_types_and_globs_narrow_the_search() {
    let workshop = tree();
    let names = |input: Value| {
        let workshop = &workshop;
        async move {
            let text = grep(workshop, input).await;
            text.lines()
                .filter(|line| !line.starts_with('['))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(
        names(json!({"pattern": "run", "-i": true, "glob": "*.{ts,tsx}"})).await,
        ["src/deep/a.ts", "web/b.tsx"]
    );
    assert_eq!(
        names(json!({"pattern": "run", "type": "ts"})).await,
        ["src/deep/a.ts"]
    );
    assert_eq!(
        names(json!({"pattern": "run", "glob": "!*.rs, !*.yml"})).await,
        ["src/deep/a.ts"]
    );
    assert_eq!(
        names(json!({"pattern": "run", "path": "src", "glob": "src/*.rs"})).await,
        ["src/main.rs", "src/run.rs"]
    );
    assert_eq!(
        names(json!({"pattern": "nothing like it"})).await,
        ["No matches found."]
    );
    let error = workshop
        .error("Grep", json!({"pattern": "x", "type": "rustic"}))
        .await;
    assert!(error.contains("rust"), "{error}");
}

#[tokio::test]
async fn matches_span_lines_only_when_asked() {
    let workshop = tree();
    let error = workshop
        .error("Grep", json!({"pattern": "main.*\\n.*run"}))
        .await;
    assert!(error.contains("multiline"), "{error}");
    let text = grep(
        &workshop,
        json!({"pattern": "main.*run", "multiline": true, "output_mode": "content", "glob": "*.rs"}),
    )
    .await;
    assert_eq!(text, "src/main.rs:1:fn main() {\nsrc/main.rs:2:    run();");
}

#[tokio::test]
async fn an_invalid_pattern_shows_where_it_is_wrong() {
    let workshop = tree();
    let error = workshop.error("Grep", json!({"pattern": "fn (run"})).await;
    assert!(
        error.contains("    fn (run\n       ^") && error.contains("unclosed group"),
        "{error}"
    );
}

#[tokio::test]
async fn the_limit_is_said_and_the_offset_goes_on() {
    let workshop = Workshop::new();
    for number in 0..30 {
        workshop.put(&format!("{number:02}.txt"), "hit\n".repeat(10));
        age(&workshop, &format!("{number:02}.txt"), number);
    }
    let lines = |input: Value| {
        let workshop = &workshop;
        async move { grep(workshop, input).await }
    };
    let all = lines(json!({"pattern": "hit", "output_mode": "content", "head_limit": 0})).await;
    assert_eq!(all.lines().count(), 300);
    let first = lines(json!({"pattern": "hit", "output_mode": "content"})).await;
    let (shown, note) = first.split_once("\n\n[").unwrap();
    assert_eq!(shown.lines().count(), 250);
    assert!(note.contains("offset 250"), "{note}");
    let rest = lines(json!({"pattern": "hit", "output_mode": "content", "offset": 250})).await;
    assert_eq!(format!("{shown}\n{rest}"), all);
    let exact = lines(json!({"pattern": "hit", "output_mode": "content", "head_limit": 300})).await;
    assert_eq!(exact, all);

    let files = lines(json!({"pattern": "hit", "head_limit": 2, "offset": 1})).await;
    assert!(
        files.starts_with("01.txt\n02.txt\n\n[2 of 30 files are shown; see others with offset 3"),
        "{files}"
    );
    let beyond = lines(json!({"pattern": "hit", "offset": 99})).await;
    assert!(beyond.contains("30 files"), "{beyond}");
}

#[tokio::test]
async fn very_long_lines_are_cut_around_what_was_found() {
    let workshop = Workshop::new();
    workshop.put(
        "min.js",
        format!("{}needle{}\r\n", "a".repeat(3000), "b".repeat(3000)),
    );
    let text = grep(
        &workshop,
        json!({"pattern": "needle", "output_mode": "content"}),
    )
    .await;
    assert!(
        text.contains("aneedleb") && text.contains("line of 6006 characters"),
        "{text}"
    );
    assert!(text.len() < 700, "{text}");
}

#[tokio::test]
async fn utf16_files_are_searched() {
    let workshop = Workshop::new();
    let bytes: Vec<u8> = std::iter::once(0xFEFF)
        .chain("one\nneedle\n".encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    workshop.put("a.txt", bytes);
    let text = grep(
        &workshop,
        json!({"pattern": "needle", "output_mode": "content"}),
    )
    .await;
    assert_eq!(text, "a.txt:2:needle");
}

#[tokio::test]
async fn a_binary_file_that_is_named_says_so() {
    let workshop = tree();
    let text = grep(&workshop, json!({"pattern": "zzz", "path": "data.bin"})).await;
    assert!(text.contains("binary"), "{text}");
}

#[tokio::test]
async fn names_that_look_like_patterns_and_links_to_folders() {
    let workshop = Workshop::new();
    workshop.put("app/[id]/page.tsx", "x");
    workshop.put("folder/a.txt", "x");
    std::os::unix::fs::symlink("folder", workshop.path("link")).unwrap();
    std::os::unix::fs::symlink("folder/a.txt", workshop.path("link.txt")).unwrap();
    let glob = async |pattern: &str| workshop.text("Glob", json!({"pattern": pattern})).await;
    assert_eq!(glob("app/[id]/page.tsx").await, "app/[id]/page.tsx");
    assert_eq!(glob("link*").await, "link.txt");
}

#[tokio::test]
async fn files_that_could_not_be_read_are_counted() {
    let workshop = tree();
    // The start of a process's memory can't be read, not even by root.
    let text = grep(&workshop, json!({"pattern": "x", "path": "/proc/self/mem"})).await;
    assert!(
        text.contains("1 files or folders could not be read"),
        "{text}"
    );
}

#[tokio::test]
async fn a_search_that_is_cancelled_stops() {
    let workshop = tree();
    workshop.cancel.cancel();
    for (tool, input) in [
        ("Grep", json!({"pattern": "run"})),
        ("Glob", json!({"pattern": "*.rs"})),
    ] {
        let error = workshop.call(tool, input).await.unwrap_err();
        assert!(
            matches!(error, lathe_tools::ToolError::Cancelled(_)),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_place_that_does_not_exist_is_an_error() {
    let workshop = tree();
    let error = workshop
        .error("Grep", json!({"pattern": "x", "path": "srcs"}))
        .await;
    assert!(error.contains("does not exist"), "{error}");
    let error = workshop
        .error("Glob", json!({"pattern": "*", "path": "nowhere"}))
        .await;
    assert!(error.contains("not a directory"), "{error}");
}

#[tokio::test]
async fn globs_find_files_newest_first() {
    let workshop = tree();
    let glob = |input: Value| {
        let workshop = &workshop;
        async move { workshop.text("Glob", input).await }
    };
    assert_eq!(
        glob(json!({"pattern": "**/*.rs"})).await,
        "src/main.rs\nsrc/run.rs"
    );
    assert_eq!(
        glob(json!({"pattern": "*.rs"})).await,
        "src/main.rs\nsrc/run.rs"
    );
    assert_eq!(
        glob(json!({"pattern": "*.rs", "include_ignored": true})).await,
        "src/main.rs\nsrc/run.rs\ntarget/out.rs"
    );
    assert_eq!(
        glob(json!({"pattern": "**/*.{ts,tsx}"})).await,
        "src/deep/a.ts\nweb/b.tsx"
    );
    assert_eq!(
        glob(json!({"pattern": "src/*"})).await,
        "src/main.rs\nsrc/run.rs"
    );
    assert_eq!(
        glob(json!({"pattern": "*.ts", "path": "src"})).await,
        "src/deep/a.ts"
    );
    assert_eq!(
        glob(json!({"pattern": ".github/**"})).await,
        ".github/ci.yml"
    );
    assert_eq!(glob(json!({"pattern": "web/b.tsx"})).await, "web/b.tsx");
    let absolute = workshop.path("src/**/*.ts");
    assert_eq!(glob(json!({"pattern": absolute})).await, "src/deep/a.ts");
    assert!(
        glob(json!({"pattern": "*.py"}))
            .await
            .contains("include_ignored")
    );
}

#[tokio::test]
async fn globs_read_where_their_fixed_part_leads() {
    let workshop = tree();
    let tools = registry::builtin();
    let subject = |input: Value| {
        Arc::clone(tools.find("Glob").unwrap())
            .prepare(input, &workshop.session)
            .unwrap()
            .subject(&workshop.session)
    };
    let reads = |path: PathBuf| Subject::Read { paths: vec![path] };
    assert_eq!(
        subject(json!({"pattern": "**/*.rs"})),
        reads(workshop.root())
    );
    assert_eq!(
        subject(json!({"pattern": "src/*.rs"})),
        reads(workshop.path("src"))
    );
    assert_eq!(subject(json!({"pattern": "/etc/*"})), reads("/etc".into()));
    assert_eq!(
        subject(json!({"pattern": "../*"})),
        reads(workshop.outside().canonicalize().unwrap())
    );
    assert_eq!(
        subject(json!({"pattern": "*.rs", "path": "src"})),
        reads(workshop.path("src"))
    );
}

#[tokio::test]
async fn more_than_a_hundred_files_are_cut_and_that_is_said() {
    let workshop = Workshop::new();
    for number in 0..120 {
        workshop.put(&format!("{number:03}.txt"), "");
        age(&workshop, &format!("{number:03}.txt"), number);
    }
    let output = workshop
        .call("Glob", json!({"pattern": "*.txt"}))
        .await
        .unwrap();
    let text = text_of(&output);
    assert!(text.starts_with("000.txt\n001.txt\n"), "{text}");
    assert!(
        text.contains("099.txt\n\n[The newest 100 of 120 files"),
        "{text}"
    );
    assert_eq!(output.structured["numFiles"], 100);
    assert_eq!(output.structured["truncated"], true);
}

#[tokio::test]
async fn a_line_that_is_not_utf8_is_shown_as_read_would_show_it() {
    let workshop = Workshop::new();
    std::fs::write(workshop.path("old.txt"), b"le caf\xe9\n").unwrap();
    let input = json!({"pattern": "caf", "output_mode": "content"});
    assert_eq!(grep(&workshop, input).await, "old.txt:1:le café");
}
