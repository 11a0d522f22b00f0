//! People aren't asked about everyday reads: a list of commands, judged in a trusted project and in an ordinary clone
//! that nobody trusted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use common::{World, decide_on, shell};
use lathe_permissions::PermissionContext;
use lathe_protocol::permission::Decision;
use std::process::Command;

fn commands() -> Vec<&'static str> {
    include_str!("everyday.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .collect()
}

/// An ordinary project with a repository.
fn world() -> World {
    let world = World::new();
    let project = world.project();
    for gone in [".git", "kept", ".lathe"] {
        std::fs::remove_dir_all(project.join(gone)).unwrap();
    }
    for gone in [
        "link-out",
        "link-env",
        "folder-out",
        "link-hooks",
        "dangling",
        "circle",
        ".env",
    ] {
        std::fs::remove_file(project.join(gone)).unwrap();
    }
    std::fs::create_dir(project.join("docs")).unwrap();
    for file in [
        "src/lib.rs",
        "docs/a.md",
        "README.md",
        "Cargo.toml",
        "Cargo.lock",
        "package.json",
        "data.csv",
    ] {
        std::fs::write(project.join(file), "x\n").unwrap();
    }
    let git = |words: &[&str]| {
        let status = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(words)
            .current_dir(&project)
            .status();
        assert!(status.unwrap().success(), "git {words:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "one"]);
    world
}

fn asked(context: &PermissionContext) -> Vec<&'static str> {
    commands()
        .into_iter()
        .filter(|command| {
            let decision = decide_on("Bash", &shell(command, &context.cwd), context);
            !matches!(decision, Decision::Allow { .. })
        })
        .collect()
}

#[test]
fn everyday_reads_pass_without_a_question() {
    let world = world();
    let all = commands().len();
    assert!(all >= 400, "{all} commands");
    let mut context = world.context();
    let trusted = asked(&context);
    assert!(
        trusted.len() * 100 <= all * 3,
        "{} of {all}: {trusted:#?}",
        trusted.len()
    );
    context.trusted = false;
    let untrusted = asked(&context);
    assert!(
        untrusted.len() * 100 <= all * 15,
        "{} of {all}: {untrusted:#?}",
        untrusted.len()
    );
}
