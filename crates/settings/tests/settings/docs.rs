//! The pages and the schema say what the code says. `UPDATE_DOCS=1` writes them anew.

use lathe_settings::{cli, docs};
use std::path::{Path, PathBuf};

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name)
}

fn hold(name: &str, expected: &str) {
    let path = page(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, expected).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = found
        .lines()
        .zip(expected.lines())
        .find(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "docs/{name} is out of date; run the tests of lathe-settings with UPDATE_DOCS=1. First difference: {differing:?}"
    );
}

#[test]
fn the_shipped_schema_is_the_one_of_the_code() {
    hold("settings.schema.json", &cli::schema());
}

#[test]
fn the_tables_of_the_settings_page_are_those_of_the_code() {
    let text = std::fs::read_to_string(page("settings.md")).unwrap();
    for table in docs::tables() {
        let mark = format!("<!-- begin {} -->", table.name);
        assert!(text.contains(&mark), "docs/settings.md has no {mark}");
    }
    hold("settings.md", &docs::fill(&text));
}

#[test]
fn every_key_has_a_description() {
    let schema = lathe_settings::schema::json_schema();
    let mut objects = vec![("settings", schema)];
    objects.extend(
        schema["$defs"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.as_str(), value)),
    );
    for (name, object) in objects {
        for (key, property) in object["properties"].as_object().into_iter().flatten() {
            assert!(
                property["description"].is_string(),
                "{name}.{key} has no description"
            );
        }
    }
}

#[test]
fn the_examples_of_the_settings_page_load_without_a_complaint() {
    let text = std::fs::read_to_string(page("settings.md")).unwrap();
    let examples: Vec<&str> = text
        .split("```jsonc\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(examples.len() >= 2, "the page has examples");
    let machine = crate::Machine::new();
    for example in examples {
        let resolved = lathe_settings::load::load_text(
            lathe_settings::Source::Project,
            Path::new("example.json"),
            example,
            &machine.places(),
            &lathe_settings::Trust::Trusted,
        );
        assert_eq!(resolved.problems, [], "{example}");
    }
}
