//! The analyser's corpus through the whole decision.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use common::{World, add_rule, corpus, decide_on, shell, verdict};
use lathe_protocol::permission::{Behavior, Decision, PermissionMode, RuleSource};

#[test]
fn no_attempt_of_the_corpus_passes_without_a_word() {
    let world = World::new();
    let mut context = world.context();
    let mut passed = Vec::new();
    let attempts = corpus("bypasses.tsv");
    assert!(attempts.len() >= 300);
    for sample in attempts {
        context.shell = sample.shell;
        for mode in [
            PermissionMode::Default,
            PermissionMode::DontAsk,
            PermissionMode::Plan,
        ] {
            context.mode = mode;
            let decision = decide_on("Bash", &shell(&sample.command, &world.project()), &context);
            if matches!(decision, Decision::Allow { .. }) {
                passed.push(format!(
                    "{mode} {:?} ({}): {decision:?}",
                    sample.command, sample.kind
                ));
            }
        }
    }
    assert!(
        passed.is_empty(),
        "{} passed:\n{}",
        passed.len(),
        passed.join("\n")
    );
}

#[test]
fn no_attempt_of_the_corpus_passes_by_an_unrelated_rule() {
    let world = World::new();
    let mut context = world.context();
    for rule in [
        "Bash(npm run lint:*)",
        "Bash(yarn lint *)",
        "Bash(git stash list:*)",
        "Bash(ls:*)",
        "Bash(true)",
        "Bash(pwd:*)",
        "Bash(cargo house-style *)",
        "Edit(docs/**)",
        "Read(~/notes/**)",
    ] {
        add_rule(
            &mut context,
            Behavior::Allow,
            rule,
            RuleSource::UserSettings,
        );
    }
    let mut passed = Vec::new();
    for sample in corpus("bypasses.tsv") {
        context.shell = sample.shell;
        let decision = decide_on("Bash", &shell(&sample.command, &world.project()), &context);
        if matches!(decision, Decision::Allow { .. }) {
            passed.push(format!(
                "{:?} ({}): {decision:?}",
                sample.command, sample.kind
            ));
        }
    }
    assert!(
        passed.is_empty(),
        "{} passed:\n{}",
        passed.len(),
        passed.join("\n")
    );
}

#[test]
fn ordinary_readers_pass_unless_they_look_outside() {
    let world = World::new();
    let mut context = world.context();
    let mut wrong = Vec::new();
    let mut asked_for_paths = 0;
    let samples = corpus("ordinary.tsv");
    let total = samples.len();
    for sample in samples {
        context.shell = sample.shell;
        let decision = decide_on("Bash", &shell(&sample.command, &world.project()), &context);
        match &decision {
            Decision::Allow { .. } => {}
            Decision::Ask {
                blocked_path: Some(path),
                ..
            } => {
                println!("asks for {}: {}", path.display(), sample.command);
                asked_for_paths += 1;
            }
            Decision::Ask { .. } | Decision::Deny { .. } => {
                wrong.push(format!(
                    "{:?}: {:?} {decision:?}",
                    sample.command,
                    verdict(&decision)
                ));
            }
        }
    }
    assert!(total >= 300);
    let most = total / 20;
    assert!(
        wrong.len() <= most,
        "{} of {total} (and {asked_for_paths} for their paths) are asked about:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        asked_for_paths * 5 <= total,
        "{asked_for_paths} of {total} look outside"
    );
}
