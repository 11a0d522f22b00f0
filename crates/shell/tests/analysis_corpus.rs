//! The corpora in `data/` decide: what is ordinary is recognised, what is dangerous never passes.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

mod analysis_support;

use analysis_support::{corpus, rows, unescape};
use lathe_shell::analysis::{Argument, PartKind, ReadOnly, analyse};
use lathe_shell::syntax::ShellKind;

#[test]
fn ordinary_reading_commands_are_recognised() {
    let lines = corpus("ordinary.tsv");
    assert!(lines.len() >= 300, "only {} ordinary commands", lines.len());
    let mut missed = Vec::new();
    for line in &lines {
        let analysis = analyse(&line.command, line.shell);
        if !analysis.read_only {
            missed.push(format!("{:?}: {:?}", line.command, analysis.understood));
        }
    }
    let recognised = (lines.len() - missed.len()) * 100 / lines.len();
    assert!(
        recognised >= 95,
        "{recognised} % recognised; missed:\n{}",
        missed.join("\n")
    );
}

#[test]
fn no_bypass_attempt_is_called_read_only() {
    let lines = corpus("bypasses.tsv");
    assert!(lines.len() >= 800, "only {} commands", lines.len());
    let passed: Vec<&str> = lines
        .iter()
        .filter(|line| analyse(&line.command, line.shell).read_only)
        .map(|line| line.command.as_str())
        .collect();
    assert!(passed.is_empty(), "called read-only: {passed:#?}");
}

#[test]
fn every_refusal_says_why() {
    for line in corpus("bypasses.tsv") {
        let analysis = analyse(&line.command, line.shell);
        let reasons = analysis.understood.is_err()
            || !analysis.concerns.is_empty()
            || analysis.parts.iter().any(
                |part| matches!(&part.read_only, ReadOnly::No { reason } if !reason.is_empty()),
            );
        assert!(reasons, "no reason for {:?}", line.command);
    }
}

#[test]
fn inputs_that_parsers_get_wrong_are_taken_apart_exactly() {
    for row in rows("parser.tsv") {
        let [name, command, outcome, words] = row.as_slice() else {
            panic!("{row:?}")
        };
        let analysis = analyse(&unescape(command), ShellKind::Bash);
        assert_eq!(
            analysis.understood.is_ok(),
            outcome == "understood",
            "{name}: {command}"
        );
        let found: Vec<Vec<String>> = analysis
            .parts
            .iter()
            .filter(|part| part.kind == PartKind::Command)
            .map(|part| {
                part.argv
                    .iter()
                    .map(|word| match word {
                        Argument::Fixed(text) => text.clone(),
                        Argument::Variable(variable) => format!("<{}>", variable.source),
                    })
                    .collect()
            })
            .collect();
        let expected: Vec<Vec<String>> = serde_json::from_str(words).expect("words as JSON");
        assert_eq!(found, expected, "{name}: {command}");
    }
}
