//! The documentation: links, the table of contents of the book, the map of crates.

use lathe_testkit::workspace_root;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// All pages: those of the root and of `docs/`.
fn pages() -> Vec<PathBuf> {
    let root = workspace_root();
    let mut found = Vec::new();
    for folder in [root.to_owned(), root.join("docs"), root.join("examples")] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "md")
            {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// The lines of a page outside of code blocks.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return false;
        }
        !in_code
    })
}

/// The targets of links and pictures in a line: `[text](target)`, `src="target"`, `srcset="target"`.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (start, end) in [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"')] {
        for (at, _) in line.match_indices(start) {
            let rest = &line[at + start.len()..];
            found.extend(rest.split(end).next());
        }
    }
    found
}

/// The anchors of a page, as GitHub and mdBook make them from headings.
fn anchors(text: &str) -> BTreeSet<String> {
    prose(text)
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            heading
                .chars()
                .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        })
        .collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for target in prose(&text).flat_map(targets) {
            if target.contains("://") || target.starts_with("mailto:") || target.is_empty() {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap().join(file)
            };
            let is_there = path.exists()
                && (anchor.is_empty()
                    || anchors(&std::fs::read_to_string(&path).unwrap()).contains(anchor));
            if !is_there {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn the_book_has_every_page() {
    let docs = workspace_root().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<&str> = summary.lines().flat_map(targets).collect();
    let missing: Vec<String> = pages()
        .iter()
        .filter(|page| page.parent() == Some(docs.as_path()))
        .filter_map(|page| Some(page.file_name()?.to_str()?.to_owned()))
        .filter(|name| name != "SUMMARY.md" && !listed.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {missing:?}");
}

#[test]
fn the_readme_names_every_page_of_the_book() {
    let root = workspace_root();
    let [summary, readme] = ["docs/SUMMARY.md", "README.md"]
        .map(|page| std::fs::read_to_string(root.join(page)).unwrap());
    let listed: BTreeSet<&str> = readme.lines().flat_map(targets).collect();
    let missing: Vec<&str> = summary
        .lines()
        .filter(|line| line.starts_with("- "))
        .flat_map(targets)
        .filter(|page| !listed.contains(format!("docs/{page}").as_str()))
        .collect();
    assert!(missing.is_empty(), "not in README.md: {missing:?}");
}

#[test]
fn the_map_has_every_crate() {
    let page = std::fs::read_to_string(workspace_root().join("ARCHITECTURE.md")).unwrap();
    let missing: Vec<String> = crate::sources::crates()
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .filter(|name| !page.contains(&format!("| `{name}` |")))
        .collect();
    assert!(
        missing.is_empty(),
        "not in the map of ARCHITECTURE.md: {missing:?}"
    );
}
