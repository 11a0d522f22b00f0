//! Pages of many kinds, and the Markdown that they become: `pages/<name>.html` and `pages/<name>.md`.
//! `UPDATE_PAGES=1` writes the Markdown anew.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_web::{Content, html};
use std::fmt::Write as _;
use std::path::PathBuf;
use url::Url;

fn address() -> Url {
    "https://site.example/folder/page.html".parse().unwrap()
}

#[test]
fn pages_become_the_markdown_beside_them() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pages");
    let mut pages: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "html")
        })
        .collect();
    pages.sort();
    assert!(pages.len() >= 40, "{}", pages.len());
    let mut wrong = String::new();
    for page in pages {
        let source = std::fs::read_to_string(&page).unwrap();
        let Content::Text { text, title, .. } =
            Content::of(source.into_bytes(), "text/html", &address())
        else {
            panic!("{} is text", page.display());
        };
        let made = format!("title: {title}\n\n{text}\n");
        let beside = page.with_extension("md");
        if std::env::var_os("UPDATE_PAGES").is_some() {
            std::fs::write(&beside, &made).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        if made != expected {
            writeln!(wrong, "{}:\n{made}", beside.display()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Pages that are made to cost much: time grows with their size, not with its square.
#[test]
fn hostile_pages_end_in_bounded_memory_and_depth() {
    let repeated = |piece: &str, times: usize| piece.repeat(times);
    let pages = [
        repeated("<div>", 200_000),
        repeated("<b>", 200_000) + &repeated("</i>", 200_000),
        repeated("<sup>", 20_000) + "x",
        repeated("<a href=x>", 20_000) + "x",
        repeated("<table><tr><td>", 10_000) + "x",
        repeated("<table><tr><th>", 10_000) + "x",
        repeated("<ul><li>", 20_000) + "x",
        repeated("<blockquote>", 20_000) + "x",
        repeated("<h1>", 20_000) + "x",
        repeated("<em><strong>", 20_000) + "x",
        repeated("<!-- x -->", 200_000),
        repeated("<!-- x --!>", 200_000),
        repeated("&amp;&nope;", 200_000),
        repeated("<p", 200_000),
        repeated("<p a=1 b=2 ", 50_000),
        "<p ".to_owned() + &repeated("a", 1_000_000) + "=1>",
        repeated("</p>", 300_000),
        repeated("<pre>", 50_000) + "x",
        repeated("<td>", 100_000) + "x",
        repeated("<dl><dt>", 20_000),
        repeated("[](", 200_000),
        "<textarea>".to_owned() + &repeated("</text", 300_000),
        repeated("<header>", 20_000) + "x",
        repeated("<article><p>words and words ", 20_000),
    ];
    for (index, page) in pages.iter().enumerate() {
        let article = html::to_markdown(page, &address());
        assert!(article.markdown.len() <= 8 * 1024 * 1024, "page {index}");
    }
}
