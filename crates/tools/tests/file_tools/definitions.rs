//! The cost of the tools: their definitions are sent with every request.

use lathe_tools::registry;

/// The most bytes of JSON that all definitions take together.
const MOST_BYTES: usize = 12 * 1024;

/// The most bytes of each description.
const DESCRIPTIONS: [(&str, usize); 7] = [
    ("Read", 900),
    ("Write", 500),
    ("Edit", 800),
    ("MultiEdit", 400),
    ("Glob", 300),
    ("Grep", 700),
    ("NotebookEdit", 300),
];

#[test]
fn all_definitions_together_stay_small() {
    let definitions = registry::builtin().definitions();
    let sizes: Vec<(&str, usize)> = definitions
        .iter()
        .map(|tool| {
            (
                tool.name.as_str(),
                serde_json::to_string(tool).unwrap().len(),
            )
        })
        .collect();
    let total = serde_json::to_string(&definitions).unwrap().len();
    assert!(total <= MOST_BYTES, "{total} bytes: {sizes:?}");
}

#[test]
fn every_description_keeps_its_budget() {
    let definitions = registry::builtin().definitions();
    for (name, most) in DESCRIPTIONS {
        let tool = definitions.iter().find(|tool| tool.name == name).unwrap();
        let length = tool.description.len();
        assert!(length <= most, "{name}: {length} bytes, at most {most}");
    }
}

#[test]
fn fields_have_the_names_that_models_and_rules_know() {
    let definitions = registry::builtin().definitions();
    let fields = |name: &str| -> Vec<String> {
        let tool = definitions.iter().find(|tool| tool.name == name).unwrap();
        let schema = tool.input_schema.value();
        let properties = schema["properties"].as_object().unwrap();
        properties.keys().cloned().collect()
    };
    assert_eq!(fields("Read"), ["file_path", "offset", "limit", "pages"]);
    assert_eq!(fields("Write"), ["file_path", "content"]);
    assert_eq!(
        fields("Edit"),
        ["file_path", "old_string", "new_string", "replace_all"]
    );
    assert_eq!(fields("MultiEdit"), ["file_path", "edits"]);
    assert_eq!(
        fields("NotebookEdit"),
        [
            "notebook_path",
            "cell_id",
            "cell_number",
            "new_source",
            "cell_type",
            "edit_mode"
        ]
    );
    assert_eq!(fields("Glob"), ["pattern", "path", "include_ignored"]);
    assert_eq!(
        fields("Grep"),
        [
            "pattern",
            "path",
            "glob",
            "type",
            "output_mode",
            "-A",
            "-B",
            "-C",
            "-n",
            "-i",
            "multiline",
            "head_limit",
            "offset"
        ]
    );
    let grep = definitions.iter().find(|tool| tool.name == "Grep").unwrap();
    assert_eq!(
        grep.input_schema.value()["properties"]["output_mode"]["enum"],
        serde_json::json!(["content", "files_with_matches", "count"])
    );
    assert_eq!(
        grep.input_schema.value()["required"],
        serde_json::json!(["pattern"])
    );
}
