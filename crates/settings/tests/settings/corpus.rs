//! Files as people have them — valid, odd and broken — and what counts of each. Beside every
//! `name.json` lies `name.expected.json`.

use crate::Machine;
use lathe_settings::load::load_text;
use lathe_settings::schema::Settings;
use lathe_settings::{Source, Trust};
use pretty_assertions::assert_eq;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Expected {
    source: String,
    trusted: bool,
    /// The effective value, or the word `unchanged`.
    value: Value,
    problems: Vec<ExpectedProblem>,
    withheld: Option<Vec<String>>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExpectedProblem {
    severity: String,
    key: String,
    says: String,
    line: Option<usize>,
    column: Option<usize>,
    #[serde(default)]
    restriction_lost: bool,
}

fn source(name: &str) -> Source {
    Source::ALL
        .into_iter()
        .find(|source| source.name() == name)
        .unwrap()
}

#[test]
fn every_file_of_the_corpus_counts_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/settings/corpus");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".expected.json").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() >= 60, "the corpus has {} files", names.len());
    let machine = Machine::new();
    let mut failures = Vec::new();
    for name in names {
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check(&machine, &folder, &name);
        }));
        if checked.is_err() {
            failures.push(name);
        }
    }
    assert!(
        failures.is_empty(),
        "these files of the corpus fail: {failures:?}"
    );
}

fn check(machine: &Machine, folder: &Path, name: &str) {
    let file = folder.join(format!("{name}.json"));
    let text = std::fs::read_to_string(&file).unwrap();
    let expected: Expected = serde_json::from_str(
        &std::fs::read_to_string(folder.join(format!("{name}.expected.json"))).unwrap(),
    )
    .unwrap();
    let trust = if expected.trusted {
        Trust::Trusted
    } else {
        Trust::Untrusted
    };
    let resolved = load_text(
        source(&expected.source),
        &file,
        &text,
        &machine.places(),
        &trust,
    );

    let value = if expected.value == json!("unchanged") {
        jsonc_parser::parse_to_serde_value(&text, &jsonc_parser::ParseOptions::default()).unwrap()
    } else {
        expected.value
    };
    assert_eq!(resolved.value, value, "{name}");
    // What counts is what the types hold, too.
    assert_eq!(
        serde_json::from_value::<Settings>(value).unwrap(),
        resolved.settings,
        "{name}"
    );

    let shown: Vec<String> = resolved.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        resolved.problems.len(),
        expected.problems.len(),
        "{name}: {shown:#?}"
    );
    for wanted in &expected.problems {
        let found = resolved
            .problems
            .iter()
            .find(|problem| problem.key == wanted.key);
        let problem =
            found.unwrap_or_else(|| panic!("{name}: nothing about {wanted:?} in {shown:#?}"));
        assert_eq!(
            serde_json::to_value(problem.severity).unwrap(),
            wanted.severity,
            "{name}: {problem}"
        );
        assert!(
            problem.to_string().contains(&wanted.says),
            "{name}: {problem} doesn't say {}",
            wanted.says
        );
        assert_eq!(
            problem.restriction_lost, wanted.restriction_lost,
            "{name}: {problem}"
        );
        assert!(problem.line.is_some(), "{name}: {problem} names no line");
        if wanted.line.is_some() {
            assert_eq!(problem.line, wanted.line, "{name}: {problem}");
        }
        if wanted.column.is_some() {
            assert_eq!(problem.column, wanted.column, "{name}: {problem}");
        }
    }
    let withheld: Vec<String> = resolved
        .withheld()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(withheld, expected.withheld.unwrap_or_default(), "{name}");
}
