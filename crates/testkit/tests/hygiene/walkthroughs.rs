//! The walk-throughs of ARCHITECTURE.md name files and functions that exist.

use crate::pages::prose;
use crate::sources::rust_files;
use lathe_testkit::workspace_root;
use std::collections::BTreeSet;
use std::path::Path;

/// Files and functions that a table of hops names: | 1 | `crates/lathe/src/main.rs` | `main` | … |
fn hops(page: &str) -> Vec<(String, String)> {
    page.lines()
        .filter(|line| line.starts_with("| ") && line.contains(".rs` | `"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let file = cells[2].trim_matches('`').to_owned();
            (file, cells[3].trim_matches('`').to_owned())
        })
        .collect()
}

/// Whether a file declares a function: `name`, or `Type::name`, whose `impl` must be there too.
fn declares(path: &Path, function: &str) -> bool {
    let Ok(text) = std::fs::read_to_string(path) else {
        return false;
    };
    let (of, name) = match function.rsplit_once("::") {
        Some((of, name)) => (Some(of), name),
        None => (None, function),
    };
    let has_function = text
        .match_indices(&format!("fn {name}"))
        .any(|(at, found)| text[at + found.len()..].starts_with(['(', '<']));
    let has_type = of.is_none_or(|of| {
        text.lines().any(|line| {
            let line = line.trim_start();
            (line.starts_with("impl") || line.contains("trait "))
                && line
                    .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
                    .any(|word| word == of)
        })
    });
    has_function && has_type
}

/// The most hops of a walk-through.
const MOST_HOPS: usize = 15;

#[test]
fn the_walk_throughs_name_functions_that_exist() {
    let page = std::fs::read_to_string(workspace_root().join("ARCHITECTURE.md")).unwrap();
    let (_, walks) = page
        .split_once("\n## Walk-throughs\n")
        .expect("ARCHITECTURE.md has walk-throughs");
    let walks = walks.split("\n## ").next().unwrap();
    let walks: Vec<&str> = walks.split("\n### ").skip(1).collect();
    assert!(
        walks.len() >= 3,
        "print mode, the terminal and the SDK each have one"
    );
    let mut wrong = Vec::new();
    for walk in walks {
        let title = walk.lines().next().unwrap();
        let hops = hops(walk);
        assert!(
            (3..=MOST_HOPS).contains(&hops.len()),
            "{title}: {} hops",
            hops.len()
        );
        for (file, function) in hops {
            if !declares(&workspace_root().join(&file), &function) {
                wrong.push(format!("{title}: {file} has no {function}"));
            }
        }
    }
    assert!(wrong.is_empty(), "ARCHITECTURE.md:\n{}", wrong.join("\n"));
}

/// Test files that the page of invariants names must be there.
#[test]
fn files_that_architecture_names_exist() {
    let page = std::fs::read_to_string(workspace_root().join("ARCHITECTURE.md")).unwrap();
    let all: Vec<String> = rust_files(&workspace_root().join("crates"))
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let mut missing = BTreeSet::new();
    for line in prose(&page) {
        for word in line.split('`').skip(1).step_by(2) {
            if word.ends_with(".rs")
                && !word.contains(' ')
                && !all.iter().any(|path| path.ends_with(&format!("/{word}")))
                && !all.iter().any(|path| {
                    // A path without `crates/` and `src/`: engine/decide.rs.
                    word.split_once('/').is_some_and(|(of, file)| {
                        path.contains(&format!("/crates/{of}/"))
                            && path.ends_with(&format!("/{file}"))
                    })
                })
            {
                missing.insert(word.to_owned());
            }
        }
    }
    assert!(
        missing.is_empty(),
        "ARCHITECTURE.md names files that aren't there: {missing:?}"
    );
}
