//! Declared settings, variables, flags, hooks and keys.

use super::read;
use lathe_testkit::TestHome;
use serde_json::Value;
use std::collections::BTreeSet;

/// Every declared item, with its kind before its name.
pub(crate) fn all() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    settings(&mut all);
    variables(&mut all);
    flags(&mut all);
    hook_events(&mut all);
    keys_of_front_matter(&mut all);
    sdk_options(&mut all);
    all
}

/// The keys of the schema, which a test of the settings holds to the code.
fn settings(all: &mut BTreeSet<String>) {
    let schema: Value = serde_json::from_str(&read("docs/settings.schema.json")).unwrap();
    let keys = |object: &Value| -> Vec<(String, Value)> {
        let properties = object["properties"].as_object().into_iter().flatten();
        properties
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    for (key, property) in keys(&schema) {
        if key == "hooks" || key == "$schema" {
            continue;
        }
        let inner = inner_keys(&schema, &property);
        if inner.is_empty() {
            all.insert(format!("setting {key}"));
        }
        for name in inner {
            all.insert(format!("setting {key}.{name}"));
        }
    }
    for definition in ["HookDefinition", "HookGroup"] {
        for (key, _) in keys(&schema["$defs"][definition]) {
            all.insert(format!("hook field {key}"));
        }
    }
}

/// The keys of an object that a property refers to, directly or as the values of a map.
fn inner_keys(schema: &Value, property: &Value) -> Vec<String> {
    let choices = property["anyOf"].as_array().into_iter().flatten();
    let places = [
        &property["$ref"],
        &property["additionalProperties"]["$ref"],
        &property["items"]["$ref"],
    ];
    let references = choices
        .map(|choice| &choice["$ref"])
        .chain(places)
        .filter_map(Value::as_str);
    for reference in references {
        let target = schema.pointer(reference.trim_start_matches('#'));
        let properties = target.and_then(|target| target["properties"].as_object());
        if let Some(properties) = properties {
            return properties.keys().cloned().collect();
        }
    }
    Vec::new()
}

/// The main names of the variables that are read or set.
fn variables(all: &mut BTreeSet<String>) {
    let text = read("crates/settings/src/environment.rs");
    let table = text.split("variables! {").last().unwrap();
    for line in table.lines().filter(|line| line.contains("\" => \"")) {
        let name = line.split('"').nth(1).unwrap();
        all.insert(format!("variable {name}"));
    }
}

/// The flags in `--help`.
fn flags(all: &mut BTreeSet<String>) {
    let help = TestHome::new().run(["--help"], "").stdout;
    for line in help.lines() {
        let line = line.trim_start();
        if !line.starts_with('-') {
            continue;
        }
        let long = line
            .split([' ', ',', '[', '=', '<'])
            .find(|word| word.starts_with("--"));
        if let Some(flag) = long {
            all.insert(format!("flag {flag}"));
        }
    }
}

fn hook_events(all: &mut BTreeSet<String>) {
    let text = read("crates/protocol/src/hook.rs");
    let table = text.split("hook_events! {").last().unwrap();
    for line in table.lines().take_while(|line| *line != "}") {
        if let Some((name, _)) = line.trim().split_once(": ") {
            all.insert(format!("hook event {name}"));
        }
    }
}

fn keys_of_front_matter(all: &mut BTreeSet<String>) {
    let text = read("crates/extensions/src/agents/read.rs");
    let table = text.split("const KEYS").nth(1).unwrap();
    let table = table.split("];").next().unwrap();
    for key in table.split('"').skip(1).step_by(2) {
        all.insert(format!("agent key {key}"));
    }
    for (file, kind) in [
        ("crates/extensions/src/skills/read.rs", "skill key"),
        ("crates/extensions/src/output_style.rs", "style key"),
    ] {
        let text = read(file);
        // A key is read with one of the methods of `Fields`, or by a function that gets it.
        for part in text.split("fields.").skip(1) {
            let call = part.split(')').next().unwrap();
            let reads = !call.starts_with("report");
            if let Some(key) = call
                .split('"')
                .nth(1)
                .filter(|key| reads && !key.is_empty())
            {
                all.insert(format!("{kind} {key}"));
            }
        }
    }
}

fn sdk_options(all: &mut BTreeSet<String>) {
    let text = read("crates/protocol/src/control.rs");
    let fields = text.split("pub struct Initialize {").nth(1).unwrap();
    for line in fields.lines().take_while(|line| *line != "}") {
        let line = line.trim();
        if let Some((name, _)) = line
            .strip_prefix("pub ")
            .and_then(|rest| rest.split_once(':'))
        {
            all.insert(format!("sdk option {name}"));
        }
    }
}
