//! How long a decision takes. Budgets: a simple command 50 µs, one of fifty parts 1 ms, both with the
//! analysis and the questions to the file system (`whole`); a megabyte of nonsense 50 ms.
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use divan::Bencher;
use lathe_permissions::{CallFacts, PermissionContext, Rule, decide, parse_rule, resolve};
use lathe_protocol::permission::{Behavior, RuleSource, Subject};
use serde_json::Value;
use std::path::PathBuf;

fn main() {
    divan::main();
}

struct Fixture {
    _folder: tempfile::TempDir,
    context: PermissionContext,
    project: PathBuf,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let project = base.join("project");
    std::fs::create_dir_all(project.join("src")).unwrap();
    std::fs::write(project.join("src/main.rs"), "").unwrap();
    let mut context =
        PermissionContext::new(&project, &base.join("home"), &base.join("home/.lathe"));
    context.trusted = true;
    for (behavior, text) in [
        (Behavior::Allow, "Bash(npm test:*)"),
        (Behavior::Allow, "Bash(cargo build *)"),
        (Behavior::Allow, "Edit(src/**)"),
        (Behavior::Ask, "Bash(git push:*)"),
        (Behavior::Deny, "Bash(rm:*)"),
        (Behavior::Deny, "Read(**/*.key)"),
    ] {
        let anchors = context.anchors(RuleSource::ProjectSettings);
        let value = parse_rule(text).unwrap();
        context
            .rules
            .add(Rule::new(value, behavior, RuleSource::ProjectSettings, &anchors).unwrap());
    }
    Fixture {
        _folder: folder,
        context,
        project,
    }
}

fn command(fixture: &Fixture, command: &str) -> Subject {
    Subject::Shell {
        command: command.to_owned(),
        cwd: fixture.project.clone(),
        unsandboxed: false,
    }
}

fn fifty_parts() -> String {
    (0..50)
        .map(|index| format!("grep -n word{index} src/main.rs"))
        .collect::<Vec<_>>()
        .join(" && ")
}

fn whole(bencher: Bencher<'_, '_>, fixture: &Fixture, tool: &str, subject: &Subject) {
    bencher.bench(|| {
        let call = CallFacts {
            tool_name: tool,
            aliases: &[],
            input: &Value::Null,
            subject,
            read_only: false,
            resolved: resolve(subject, &fixture.context),
        };
        decide(&call, &fixture.context)
    });
}

fn decision_only(bencher: Bencher<'_, '_>, fixture: &Fixture, tool: &str, subject: &Subject) {
    let call = CallFacts {
        tool_name: tool,
        aliases: &[],
        input: &Value::Null,
        subject,
        read_only: false,
        resolved: resolve(subject, &fixture.context),
    };
    bencher.bench(|| decide(&call, &fixture.context));
}

#[divan::bench]
fn simple_command_whole(bencher: Bencher<'_, '_>) {
    let fixture = fixture();
    whole(
        bencher,
        &fixture,
        "Bash",
        &command(&fixture, "git status --short"),
    );
}

#[divan::bench]
fn simple_command_decision(bencher: Bencher<'_, '_>) {
    let fixture = fixture();
    decision_only(
        bencher,
        &fixture,
        "Bash",
        &command(&fixture, "git status --short"),
    );
}

#[divan::bench]
fn reading_command_whole(bencher: Bencher<'_, '_>) {
    let fixture = fixture();
    whole(
        bencher,
        &fixture,
        "Bash",
        &command(&fixture, "cat src/main.rs | head -5"),
    );
}

#[divan::bench]
fn fifty_parts_whole(bencher: Bencher<'_, '_>) {
    let fixture = fixture();
    whole(
        bencher,
        &fixture,
        "Bash",
        &command(&fixture, &fifty_parts()),
    );
}

#[divan::bench]
fn fifty_parts_decision(bencher: Bencher<'_, '_>) {
    let fixture = fixture();
    decision_only(
        bencher,
        &fixture,
        "Bash",
        &command(&fixture, &fifty_parts()),
    );
}

#[divan::bench]
fn edit_whole(bencher: Bencher<'_, '_>) {
    let fixture = fixture();
    let subject = Subject::Write {
        paths: vec![fixture.project.join("src/main.rs")],
    };
    whole(bencher, &fixture, "Edit", &subject);
}

#[divan::bench(args = ["(", "$(", "a ", "'", "a;", "<<a\n"], sample_count = 10)]
fn a_megabyte_of_nonsense(bencher: Bencher<'_, '_>, unit: &str) {
    let fixture = fixture();
    whole(
        bencher,
        &fixture,
        "Bash",
        &command(&fixture, &unit.repeat(1_000_000 / unit.len())),
    );
}
