//! Read: what it shows, where it stops, what it refuses.

use crate::support::{Workshop, blocks_of, text_of};
use base64::Engine as _;
use lathe_protocol::content::{ContentBlock, Source};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use lathe_settings::Environment;
use lathe_tools::registry;
use serde_json::json;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::Arc;

/// A 2x1 PNG.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGP4z8DA8J8BAAf/Af8Bf4mnAAAAAElFTkSuQmCC";

fn png() -> Vec<u8> {
    base64::engine::general_purpose::STANDARD
        .decode(PNG)
        .unwrap()
}

#[tokio::test]
async fn lines_are_numbered_and_the_result_is_structured() {
    let workshop = Workshop::new();
    let path = workshop.put("a.txt", "one\ntwo\n");
    let output = workshop
        .call("Read", json!({"file_path": "a.txt"}))
        .await
        .unwrap();
    assert_eq!(text_of(&output), "     1\tone\n     2\ttwo");
    assert_eq!(
        output.structured,
        json!({"type": "text", "file": {
            "filePath": path, "content": "one\ntwo", "numLines": 2, "startLine": 1, "totalLines": 2,
        }})
    );
    assert_eq!(
        output.display,
        Display::File {
            path,
            start_line: 1,
            line_count: 2,
            total_lines: 2
        }
    );
}

#[tokio::test]
async fn home_and_relative_paths_are_resolved_before_anyone_sees_them() {
    let workshop = Workshop::new();
    let path = workshop.put("sub/a.txt", "x");
    let tools = registry::builtin();
    for written in [
        "sub/a.txt",
        "./sub/../sub/a.txt",
        "~/sub/a.txt",
        path.to_str().unwrap(),
    ] {
        let tool = Arc::clone(tools.find("Read").unwrap());
        let call = tool
            .prepare(json!({"file_path": written}), &workshop.session)
            .unwrap();
        assert_eq!(call.input()["file_path"], json!(path));
        assert_eq!(
            call.subject(&workshop.session),
            Subject::Read {
                paths: vec![path.clone()]
            }
        );
        assert!(call.traits().read_only && call.traits().concurrency_safe);
    }
}

#[tokio::test]
async fn a_long_file_stops_after_two_thousand_lines_and_says_how_to_go_on() {
    let workshop = Workshop::new();
    let text: String = (1..=2500).map(|number| format!("{number}\n")).collect();
    workshop.put("a.txt", text);
    let shown = workshop.read("a.txt").await;
    assert!(shown.contains("  2000\t2000\n"), "{shown}");
    assert!(!shown.contains("\t2001"));
    assert!(shown.contains("Lines 1-2000 of 2500") && shown.contains("offset 2001"));
    let rest = workshop
        .text("Read", json!({"file_path": "a.txt", "offset": 2001}))
        .await;
    assert!(
        rest.starts_with("  2001\t2001\n") && rest.ends_with("  2500\t2500"),
        "{rest}"
    );
    let part = workshop
        .text(
            "Read",
            json!({"file_path": "a.txt", "offset": "10", "limit": 2}),
        )
        .await;
    assert!(part.starts_with("    10\t10\n    11\t11\n\n["), "{part}");
    let error = workshop
        .error("Read", json!({"file_path": "a.txt", "offset": 9000}))
        .await;
    assert!(error.contains("only 2500 lines"), "{error}");
}

#[tokio::test]
async fn long_lines_are_cut_and_that_is_said() {
    let workshop = Workshop::new();
    workshop.put("a.txt", format!("short\n{}\n", "y".repeat(5000)));
    let shown = workshop.read("a.txt").await;
    assert!(shown.contains("Cut at 2000 characters: line 2."), "{shown}");
    assert_eq!(shown.matches('y').count(), 2000);
}

#[tokio::test]
async fn an_unchanged_file_is_not_sent_twice() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "one\n");
    assert!(workshop.read("a.txt").await.contains("one"));
    let again = workshop.read("a.txt").await;
    assert!(
        again.contains("unchanged") && !again.contains("one"),
        "{again}"
    );
    // Another part is another question.
    let part = workshop
        .text("Read", json!({"file_path": "a.txt", "limit": 1}))
        .await;
    assert!(part.contains("one"));
    workshop.put("a.txt", "two!\n");
    assert!(workshop.read("a.txt").await.contains("two!"));
    // After a compaction the earlier answers are gone from the conversation.
    workshop.session.file_cache.forget_answers();
    assert!(workshop.read("a.txt").await.contains("two!"));
}

#[tokio::test]
async fn an_answer_that_failed_is_not_remembered_as_given() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "word ".repeat(30_000) + "\n");
    workshop.put("b.txt", "a longer line of words\n".repeat(8000));
    for name in ["b.txt", "b.txt"] {
        let error = workshop
            .error("Read", json!({"file_path": name, "limit": 8000}))
            .await;
        assert!(
            error.contains("tokens") && error.contains("limit: "),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_file_that_is_too_large_names_the_ways_out() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "x\n".repeat(200_000));
    let error = workshop.error("Read", json!({"file_path": "a.txt"})).await;
    for part in ["390.6 KB", "offset and limit", "Grep"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    let part = workshop
        .text(
            "Read",
            json!({"file_path": "a.txt", "offset": 150_000, "limit": 2}),
        )
        .await;
    assert!(
        part.starts_with("150000\tx\n150001\tx\n\n[Lines 150000-150001 of 200000"),
        "{part}"
    );
}

/// The file has holes, so it takes no room; reading all of it would take seconds and gigabytes.
#[tokio::test]
async fn a_window_of_a_huge_file_is_read_without_the_rest() {
    let workshop = Workshop::new();
    let path = workshop.path("huge.log");
    let mut file = std::fs::File::create(&path).unwrap();
    for number in 0..5000 {
        writeln!(file, "line {number}").unwrap();
    }
    file.set_len(200 * 1024 * 1024 * 1024).unwrap();
    let output = workshop
        .call(
            "Read",
            json!({"file_path": "huge.log", "offset": 1001, "limit": 2000}),
        )
        .await
        .unwrap();
    let shown = text_of(&output);
    assert!(shown.starts_with("  1001\tline 1000\n"), "{shown}");
    assert!(shown.contains("of about "), "{shown}");
    assert_eq!(output.structured["file"]["numLines"], 2000);
}

/// Reading on from where the last window ended needs no second look at what came before: the start
/// of the file can be overwritten without the count of lines suffering.
#[tokio::test]
async fn the_next_window_of_a_large_file_starts_where_the_last_one_ended() {
    let workshop = Workshop::new();
    let line = |number: usize| format!("{number:08}\n");
    let text: String = (1..=200_000).map(line).collect();
    let path = workshop.put("large.log", &text);
    let window = async |offset: usize| {
        workshop
            .text(
                "Read",
                json!({"file_path": "large.log", "offset": offset, "limit": 3}),
            )
            .await
    };
    assert!(window(150_000).await.starts_with("150000\t00150000\n"));
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, text.replacen('\n', "x", 1000)).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(modified).unwrap();
    assert!(window(150_003).await.starts_with("150003\t00150003\n"));
    assert!(window(150_010).await.starts_with("150010\t00150010\n"));
    // A new version is counted from its own start.
    std::fs::write(&path, text.replacen("00000001\n", "", 1)).unwrap();
    assert!(window(150_010).await.starts_with("150010\t00150011\n"));
}

#[tokio::test]
async fn a_long_read_stops_when_it_is_cancelled() {
    let workshop = Workshop::new();
    let file = std::fs::File::create(workshop.path("huge.log")).unwrap();
    (&file).write_all(&b"text\n".repeat(2000)).unwrap();
    file.set_len(200 * 1024 * 1024 * 1024).unwrap();
    workshop.cancel.cancel();
    let error = workshop
        .call(
            "Read",
            json!({"file_path": "huge.log", "offset": 1_000_000, "limit": 1}),
        )
        .await
        .unwrap_err();
    assert!(
        matches!(error, lathe_tools::ToolError::Cancelled(_)),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_empty_file_says_so() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "");
    assert!(workshop.read("a.txt").await.contains("empty"));
}

#[tokio::test]
async fn a_missing_file_is_answered_with_similar_names() {
    let workshop = Workshop::new();
    let path = workshop.put("src/settings.rs", "x");
    let error = workshop
        .error("Read", json!({"file_path": "src/setting.rs"}))
        .await;
    assert!(
        error.contains("Did you mean") && error.contains(path.to_str().unwrap()),
        "{error}"
    );
    let error = workshop
        .error("Read", json!({"file_path": "/src/settings.rs"}))
        .await;
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    symlink("nowhere", workshop.path("link")).unwrap();
    let error = workshop.error("Read", json!({"file_path": "link"})).await;
    assert!(error.contains("symlink to nowhere"), "{error}");
}

#[tokio::test]
async fn folders_streams_devices_and_binaries_are_refused() {
    let workshop = Workshop::new();
    workshop.put("folder/x", "");
    let error = workshop.error("Read", json!({"file_path": "folder"})).await;
    assert!(
        error.contains("directory") && error.contains("Glob"),
        "{error}"
    );

    assert!(
        Command::new("mkfifo")
            .arg(workshop.path("pipe"))
            .status()
            .unwrap()
            .success()
    );
    symlink("/dev/stdin", workshop.path("stdin")).unwrap();
    for name in [
        "pipe",
        "stdin",
        "/dev/zero",
        "/dev/stdin",
        "/dev/fd/0",
        "/proc/self/fd/0",
        "/proc/kmsg",
    ] {
        let error = workshop.error("Read", json!({"file_path": name})).await;
        assert!(error.contains("is not read"), "{name}: {error}");
    }

    workshop.put("program", b"\x7fELF\0\0\0\x01");
    let error = workshop
        .error("Read", json!({"file_path": "program"}))
        .await;
    assert!(error.contains("binary"), "{error}");
}

#[tokio::test]
async fn files_that_hide_their_size_are_read() {
    let workshop = Workshop::new();
    let shown = workshop.read("/proc/self/status").await;
    assert!(shown.contains("Name:"), "{shown}");
}

#[tokio::test]
async fn pictures_are_shown_by_what_they_are_not_by_their_name() {
    let workshop = Workshop::new();
    workshop.put("picture.txt", png());
    let output = workshop
        .call("Read", json!({"file_path": "picture.txt"}))
        .await
        .unwrap();
    assert_eq!(output.structured["type"], "image");
    assert!(matches!(output.display, Display::Image { .. }));
    let blocks = blocks_of(output);
    let [ContentBlock::Image(image)] = blocks.as_slice() else {
        panic!("{blocks:?}")
    };
    assert_eq!(
        image.source,
        Source::Base64 {
            media_type: "image/png".into(),
            data: PNG.into()
        }
    );
    // Words that begin like a picture are words.
    workshop.put("words.txt", "BMW and others\n");
    assert!(workshop.read("words.txt").await.contains("BMW"));
    // A damaged one is an error here rather than at the provider.
    workshop.put("bad.png", &png()[..40]);
    let error = workshop
        .error("Read", json!({"file_path": "bad.png"}))
        .await;
    assert!(error.contains("can't be shown"), "{error}");
}

/// A PDF with the words "This is page N" on each page.
fn pdf(pages: usize) -> Vec<u8> {
    let kids: Vec<String> = (0..pages)
        .map(|page| format!("{} 0 R", 4 + 2 * page))
        .collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!(
            "<< /Type /Pages /Kids [{}] /Count {pages} >>",
            kids.join(" ")
        ),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
    ];
    for page in 0..pages {
        let content = format!("BT /F1 24 Tf 72 700 Td (This is page {}) Tj ET", page + 1);
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R \
             /Resources << /Font << /F1 3 0 R >> >> >>",
            5 + 2 * page
        ));
        objects.push(format!(
            "<< /Length {} >>\nstream\n{content}\nendstream",
            content.len()
        ));
    }
    let mut text = "%PDF-1.4\n".to_owned();
    let mut places = String::new();
    for (index, object) in objects.iter().enumerate() {
        places.push_str(&format!("{:010} 00000 n \n", text.len()));
        text.push_str(&format!("{} 0 obj\n{object}\nendobj\n", index + 1));
    }
    let (size, table) = (objects.len() + 1, text.len());
    text.push_str(&format!(
        "xref\n0 {size}\n0000000000 65535 f \n{places}trailer << /Size {size} /Root 1 0 R >>\n\
         startxref\n{table}\n%%EOF\n"
    ));
    text.into_bytes()
}

#[tokio::test]
async fn pages_of_a_pdf_are_taken_out_by_pdftotext() {
    let path = std::env::var("PATH").unwrap();
    if !std::env::split_paths(&path).any(|folder| folder.join("pdftotext").is_file()) {
        eprintln!("skipped: pdftotext (poppler-utils) is not installed");
        return;
    }
    let workshop = Workshop::with(|session| {
        session.environment = Arc::new(Environment::of_variables([("PATH", path)]));
    });
    workshop.put("long.pdf", pdf(30));
    let output = workshop
        .call("Read", json!({"file_path": "long.pdf", "pages": "29-31"}))
        .await
        .unwrap();
    let text = text_of(&output);
    assert!(
        text.contains("[page 29]\nThis is page 29\n\n[page 30]\nThis is page 30"),
        "{text}"
    );
    assert_eq!(output.structured["file"]["count"], 2);
    workshop.put("broken.pdf", "%PDF-1.4\nnothing");
    let error = workshop
        .error("Read", json!({"file_path": "broken.pdf", "pages": "1"}))
        .await;
    assert!(error.contains("damaged"), "{error}");
}

#[tokio::test]
async fn a_short_pdf_is_sent_as_it_is() {
    let workshop = Workshop::new();
    workshop.put("a.pdf", pdf(3));
    let output = workshop
        .call("Read", json!({"file_path": "a.pdf"}))
        .await
        .unwrap();
    let blocks = blocks_of(output);
    let [ContentBlock::Document(document)] = blocks.as_slice() else {
        panic!("{blocks:?}")
    };
    let Source::Base64 { media_type, .. } = &document.source else {
        panic!("{document:?}")
    };
    assert_eq!(media_type, "application/pdf");
}

/// The workshop's PATH leads nowhere, so `pdftotext` is not installed as far as Read can tell.
#[tokio::test]
async fn pages_of_a_pdf_without_the_program_for_it() {
    let workshop = Workshop::new();
    workshop.put("long.pdf", pdf(30));
    let error = workshop
        .error("Read", json!({"file_path": "long.pdf"}))
        .await;
    assert!(
        error.contains("30 pages") && error.contains("\"1-5\""),
        "{error}"
    );
    let error = workshop
        .error("Read", json!({"file_path": "long.pdf", "pages": "1-5"}))
        .await;
    assert!(
        error.contains("pdftotext") && error.contains("poppler"),
        "{error}"
    );
    let error = workshop
        .error("Read", json!({"file_path": "long.pdf", "pages": "99"}))
        .await;
    assert!(error.contains("only 30 pages"), "{error}");

    workshop.put("short.pdf", pdf(2));
    let output = workshop
        .call("Read", json!({"file_path": "short.pdf", "pages": "1"}))
        .await
        .unwrap();
    let blocks = blocks_of(output);
    assert!(matches!(blocks[0], ContentBlock::Document(_)), "{blocks:?}");

    workshop.put("a.txt", "x");
    let error = workshop
        .error("Read", json!({"file_path": "a.txt", "pages": "1"}))
        .await;
    assert!(error.contains("not a PDF"), "{error}");
}

#[tokio::test]
async fn an_unknown_field_is_answered_with_the_known_ones() {
    let workshop = Workshop::new();
    let error = workshop
        .error("Read", json!({"file_path": "a", "lines": 3}))
        .await;
    assert!(
        error.contains("`lines`") && error.contains("file_path, offset?, limit?, pages?"),
        "{error}"
    );
}

#[tokio::test]
async fn a_source_file_that_is_too_long_comes_with_an_outline() {
    let workshop = Workshop::new();
    let functions = |count: usize| -> String {
        (0..count)
            .map(|at| format!("fn function_{at}() {{\n    // {}\n}}\n", "x".repeat(20)))
            .collect()
    };
    workshop.put("long.rs", functions(900));
    let shown = workshop.text("Read", json!({"file_path": "long.rs"})).await;
    assert!(
        shown.contains("Declarations in the rest, by line:\n2002: fn function_667()"),
        "{shown}"
    );
    assert!(!shown.contains("\n1999: fn"), "{shown}");
    // A part that was asked for is only that part.
    let part = workshop
        .text("Read", json!({"file_path": "long.rs", "limit": 5}))
        .await;
    assert!(!part.contains("Declared"), "{part}");
    workshop.put("huge.rs", functions(9_000));
    let error = workshop
        .error("Read", json!({"file_path": "huge.rs"}))
        .await;
    assert!(
        error.contains("too large") && error.contains("1: fn function_0()"),
        "{error}"
    );
}
