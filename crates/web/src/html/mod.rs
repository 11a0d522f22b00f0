//! HTML as Markdown.
//!
//! A page is read as browsers do it where that matters (tags that aren't closed, entities, raw text), into a tree
//! of bounded depth and size; the part that is about something is chosen from it and written as Markdown. There is
//! no page that fails: whatever the bytes are, some text comes out, in time and memory that grow with the page.

mod entities;
mod main_part;
mod markdown;
mod table;
mod tokens;
mod tree;

use tree::Tree;
use url::Url;

/// A page as text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Article {
    /// The title of the page.
    pub title: String,
    /// Its main part as Markdown.
    pub markdown: String,
    /// Where the page itself sends its reader, by a refresh.
    pub refresh: Option<String>,
}

/// The main part of a page as Markdown, with links made absolute.
#[must_use]
pub fn to_markdown(html: &str, address: &Url) -> Article {
    let tree = Tree::parse(html);
    let base = tree
        .find("base")
        .and_then(|node| tree.attribute(node, "href"))
        .and_then(|href| address.join(href).ok());
    let base = base.as_ref().unwrap_or(address);
    let chosen = main_part::choose(&tree);
    let title = tree
        .elements()
        .find(|node| tree.name(*node) == "title" && tree.name(tree.parent(*node)) != "svg")
        .map(|node| collapsed(&tree.text(node, 1_000)))
        .unwrap_or_default();
    Article {
        title,
        markdown: markdown::write(&tree, &chosen, base),
        refresh: refresh(&tree, base),
    }
}

/// The address in `<meta http-equiv=refresh content="5; url=…">`.
fn refresh(tree: &Tree<'_>, base: &Url) -> Option<String> {
    let meta = tree.elements().find(|node| {
        tree.name(*node) == "meta"
            && tree
                .attribute(*node, "http-equiv")
                .is_some_and(|value| value.eq_ignore_ascii_case("refresh"))
    })?;
    let content = tree.attribute(meta, "content")?;
    let at = content.to_ascii_lowercase().find("url=")?;
    let target = content.get(at + 4..)?.trim().trim_matches(['"', '\'']);
    let target = base.join(target).ok()?;
    matches!(target.scheme(), "http" | "https").then(|| target.to_string())
}

/// Text on one line, with single spaces.
fn collapsed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
