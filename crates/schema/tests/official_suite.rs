//! The official test suite of JSON Schema, as it comes with a package that `scripts/setup-tests` fetches.
//!
//! Every required case of the five drafts is held, and the optional ones about numbers and regular
//! expressions. Left out are the files about reading other documents, which is refused by design; a
//! case elsewhere that needs one must be among [`NEEDS_OTHER_DOCUMENTS`] and must be refused.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use lathe_schema::Schema;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// References to the drafts' own schemas or to a server.
const NEEDS_OTHER_DOCUMENTS: [&str; 7] = [
    "$ref and $dynamicAnchor are independent of order - $defs first",
    "$ref and $dynamicAnchor are independent of order - $ref first",
    "$ref to $dynamicRef finds detached $dynamicAnchor",
    "remote ref, containing refs itself",
    "strict-tree schema, guards against misspelled properties",
    "tests for implementation dynamic anchor and reference link",
    "validate definition against metaschema",
];

fn suite() -> PathBuf {
    let packages = std::env::var_os("LATHE_TEST_PACKAGES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-packages"),
        PathBuf::from,
    );
    let suite = packages.join("json-schema-suite");
    assert!(
        suite.join("draft7").is_dir(),
        "the JSON Schema test suite is not in {}: run scripts/setup-tests",
        suite.display()
    );
    suite
}

/// A case's schema as an object that says its draft.
fn with_draft(schema: Value, name: &str) -> Value {
    let Value::Object(mut schema) = schema else {
        return json!({"$schema": name, "allOf": [schema]});
    };
    if !schema.contains_key("$schema") {
        schema.insert("$schema".to_owned(), name.into());
    }
    Value::Object(schema)
}

struct Counts {
    held: usize,
    refused: Vec<String>,
    wrong: Vec<String>,
}

fn run_file(path: &Path, draft: &str, counts: &mut Counts) {
    let groups: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for group in groups {
        let title = group["description"].as_str().unwrap().to_owned();
        let schema = match Schema::new(with_draft(group["schema"].clone(), draft)) {
            Ok(schema) => schema,
            Err(error) if error.to_string().contains("other documents are not read") => {
                counts.refused.push(title);
                continue;
            }
            Err(error) => {
                counts
                    .wrong
                    .push(format!("{}: {title}: {error}", path.display()));
                continue;
            }
        };
        for case in group["tests"].as_array().unwrap() {
            let problems = schema.problems(&case["data"]);
            counts.held += 1;
            if problems.is_empty() != case["valid"].as_bool().unwrap() {
                counts.wrong.push(format!(
                    "{}: {title}: {}: {problems:?}",
                    path.display(),
                    case["description"]
                ));
            }
        }
    }
}

#[test]
fn the_official_cases_are_judged_as_they_say() {
    let mut counts = Counts {
        held: 0,
        refused: Vec::new(),
        wrong: Vec::new(),
    };
    for (folder, name) in [
        ("draft4", "http://json-schema.org/draft-04/schema#"),
        ("draft6", "http://json-schema.org/draft-06/schema#"),
        ("draft7", "http://json-schema.org/draft-07/schema#"),
        (
            "draft2019-09",
            "https://json-schema.org/draft/2019-09/schema",
        ),
        (
            "draft2020-12",
            "https://json-schema.org/draft/2020-12/schema",
        ),
    ] {
        let folder = suite().join(folder);
        let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .collect();
        for optional in [
            "float-overflow",
            "ecmascript-regex",
            "non-bmp-regex",
            "bignum",
        ] {
            files.push(
                folder
                    .join("optional")
                    .join(optional)
                    .with_extension("json"),
            );
        }
        files.sort();
        for file in files {
            let stem = file.file_stem().unwrap().to_str().unwrap();
            if file.exists() && !["refRemote", "vocabulary"].contains(&stem) {
                run_file(&file, name, &mut counts);
            }
        }
    }
    assert!(counts.wrong.is_empty(), "{}", counts.wrong.join("\n"));
    counts.refused.sort();
    counts.refused.dedup();
    assert_eq!(counts.refused, NEEDS_OTHER_DOCUMENTS);
    assert!(counts.held > 5_000, "only {} cases", counts.held);
}
