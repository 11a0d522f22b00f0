//! aider: `.aider.conf.yml` in the home folder and the project.

use crate::plan::Plan;
use crate::read;
use lathe_settings::Source;
use serde_json::{Map, Value};
use std::path::Path;

const REASONS: [(&str, &str); 14] = [
    ("auto-commits", "commits are made when you ask for them"),
    ("dirty-commits", "commits are made when you ask for them"),
    ("auto-lint", "write a PostToolUse hook"),
    ("lint-cmd", "write a PostToolUse hook that runs it"),
    ("auto-test", "say in AGENTS.md how tests are run"),
    ("test-cmd", "say in AGENTS.md how tests are run"),
    ("edit-format", "the model edits with tools"),
    ("editor-model", "there is one model for all work"),
    ("architect", "use plan mode: --permission-mode plan"),
    ("map-tokens", "files are searched when they are needed"),
    ("cache-prompts", "requests are cached anyway"),
    ("dark-mode", "choose a theme with /theme"),
    ("light-mode", "choose a theme with /theme"),
    ("env-file", "set the variables in the environment"),
];

pub(super) fn read(home: &Path, project: &Path, plan: &mut Plan) {
    config(plan, Source::User, &home.join(".aider.conf.yml"));
    if project != home {
        config(plan, Source::Project, &project.join(".aider.conf.yml"));
        for (name, why) in [
            (
                ".aiderignore",
                "files are kept from the model by deny rules: permissions.deny Read(PATH)",
            ),
            (
                ".aider.model.settings.yml",
                "facts about models are in `models`",
            ),
            (
                ".aider.model.metadata.json",
                "facts about models are in `models`",
            ),
        ] {
            if project.join(name).is_file() {
                plan.left(name, why);
            }
        }
        if project.join(".env").is_file() {
            plan.secret(
                ".env",
                "it stays there; set the variables in the environment",
            );
        }
    }
}

fn config(plan: &mut Plan, source: Source, file: &Path) {
    let Some(config) = read::yaml(file, plan) else {
        return;
    };
    for (theirs, ours) in [("model", "model"), ("weak-model", "smallModel")] {
        match config.get(theirs).and_then(Value::as_str) {
            Some(name) => {
                let (value, why) = model(name);
                plan.set(source, theirs, ours, value.into(), why);
            }
            None if config.contains_key(theirs) => plan.left(theirs, "it is not a name"),
            None => {}
        }
    }
    if config.get("vim") == Some(&Value::Bool(true)) {
        plan.set(source, "vim", "editorMode", "vim".into(), "");
    }
    if config.get("attribute-co-authored-by") == Some(&Value::Bool(false)) {
        plan.set(
            source,
            "attribute-co-authored-by",
            "includeCoAuthoredBy",
            false.into(),
            "",
        );
    }
    if let Some(language) = config.get("chat-language").and_then(Value::as_str) {
        plan.set(source, "chat-language", "language", language.into(), "");
    }
    match config.get("reasoning-effort").and_then(Value::as_str) {
        Some(word @ ("low" | "medium" | "high")) => {
            plan.set(source, "reasoning-effort", "effort", word.into(), "");
        }
        Some(word) => plan.left(
            "reasoning-effort",
            format!("'{word}' is not an effort here"),
        ),
        None => {}
    }
    conventions(plan, source, &config);
    left(plan, file, &config);
}

/// A model under the name of its provider.
fn model(name: &str) -> (String, &'static str) {
    match name {
        "sonnet" | "opus" | "haiku" => (name.to_owned(), ""),
        _ if name.starts_with("claude") => (name.to_owned(), ""),
        _ if name.starts_with("anthropic/") => (
            name.trim_start_matches("anthropic/").to_owned(),
            "it is the usual provider",
        ),
        _ if name.contains('/') => (
            name.to_owned(),
            "check the provider's name with `lathe models`",
        ),
        _ if name.starts_with("gemini") => (format!("gemini/{name}"), "with its provider"),
        _ if name.starts_with("deepseek") => (format!("deepseek/{name}"), "with its provider"),
        _ => (format!("openai/{name}"), "with its provider"),
    }
}

/// Files that are always read become instructions.
fn conventions(plan: &mut Plan, source: Source, config: &Map<String, Value>) {
    let files: Vec<&str> = match config.get("read") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    let text: String = files
        .iter()
        .map(|file| {
            if source == Source::Project && !file.starts_with(['/', '~']) {
                format!("@../../{file}\n")
            } else {
                format!("@{file}\n")
            }
        })
        .collect();
    let target = plan.folder(source).join("rules/aider.md");
    plan.file("read".to_owned(), target, text, "references");
}

fn left(plan: &mut Plan, file: &Path, config: &Map<String, Value>) {
    let known = [
        "model",
        "weak-model",
        "vim",
        "attribute-co-authored-by",
        "chat-language",
        "reasoning-effort",
        "read",
    ];
    let place = plan.shown(file);
    for key in config.keys().filter(|key| !known.contains(&key.as_str())) {
        if key.ends_with("api-key") || key == "set-env" {
            plan.secret(
                key,
                format!("it stays in {place}; `lathe login PROVIDER` stores a key"),
            );
            continue;
        }
        let reason = REASONS.iter().find(|(name, _)| name == key);
        plan.left(
            key,
            reason.map_or("there is no such setting here", |(_, why)| why),
        );
    }
}
