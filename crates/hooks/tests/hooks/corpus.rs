//! Hooks as people write them, run for real, and what comes of each.

use crate::Bench;
use pretty_assertions::assert_eq;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    event: String,
    input: Value,
    settings: Value,
    expect: Map<String, Value>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hook_of_the_corpus_does_what_is_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hooks/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 60, "the corpus has {} files", files.len());
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let case: Case = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let bench = Bench::new(&case.settings);
        let outcome = bench.run(&case.event, case.input).await;
        let found = serde_json::to_value(&outcome).unwrap();
        let voice = &found["permission"];
        for (key, wanted) in &case.expect {
            match key.as_str() {
                "silent" => assert_eq!(
                    Value::Bool(outcome.is_silent()),
                    *wanted,
                    "{name}: {found:#}"
                ),
                "runs" => assert_eq!(
                    outcome.runs.len(),
                    wanted.as_u64().unwrap() as usize,
                    "{name}: {found:#}"
                ),
                "decision" => assert_eq!(voice["decision"], *wanted, "{name}: {found:#}"),
                "permission_reason" => assert_eq!(voice["reason"], *wanted, "{name}: {found:#}"),
                "permission_reason_ends" => {
                    let reason = voice["reason"].as_str().unwrap_or_default();
                    assert!(
                        reason.ends_with(wanted.as_str().unwrap()),
                        "{name}: {found:#}"
                    );
                }
                "warnings" => {
                    let wanted = wanted.as_array().unwrap();
                    assert_eq!(outcome.warnings.len(), wanted.len(), "{name}: {found:#}");
                    for (warning, wanted) in outcome.warnings.iter().zip(wanted) {
                        assert!(
                            warning.contains(wanted.as_str().unwrap()),
                            "{name}: {warning}"
                        );
                    }
                }
                field => assert_eq!(found[field], *wanted, "{name}: {field} of {found:#}"),
            }
        }
        if !case.expect.contains_key("warnings") {
            assert_eq!(outcome.warnings, Vec::<String>::new(), "{name}");
        }
    }
}
