//! Files shaped like those that people publish, and what becomes of each: `tests/corpus/expected.json` says
//! it, key by key. What is expected of a file besides its fields: `problems` (how many, or `atLeast`),
//! `missing` (it is ignored), and for plugins their parts, or why they are refused (`fails`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_extensions::plugins::contents::{Plugin, PluginContext};
use lathe_extensions::plugins::{PluginId, load};
use lathe_extensions::{AgentCatalog, OutputStyles, Problem, SkillCatalog, SkillForm, Sources};
use lathe_settings::{Environment, LoadOptions, Places, Trust};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Keys of an expectation that are no fields of what is expected.
const CONTROL: [&str; 13] = [
    "kind",
    "name",
    "file",
    "folder",
    "missing",
    "problems",
    "atLeast",
    "brings",
    "emptyBody",
    "hooks",
    "mcp",
    "lsp",
    "styles",
];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .canonicalize()
        .unwrap()
}

fn expectations() -> Vec<Value> {
    let text = std::fs::read_to_string(corpus().join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn places(temporary: &Path) -> Places {
    let project = corpus().join("project");
    let environment = Environment {
        variables: BTreeMap::from([(
            "LATHE_CONFIG_DIR".to_owned(),
            temporary.join("config").display().to_string(),
        )]),
        home: Some(temporary.join("home")),
        cwd: project.clone(),
        ..Environment::default()
    };
    Places::with_managed(environment, temporary.join("managed")).with_project(project)
}

/// Holds the number of problems of a file to what is expected.
fn hold_problems(expected: &Value, problems: &[&Problem], what: &str) {
    if let Some(count) = expected["problems"].as_u64() {
        assert_eq!(problems.len() as u64, count, "{what}: {problems:#?}");
    }
    if let Some(least) = expected["atLeast"].as_u64() {
        assert!(problems.len() as u64 >= least, "{what}: {problems:#?}");
    }
}

/// Holds the fields of something that was read to what is expected.
fn hold_fields(expected: &Value, found: Option<Value>, what: &str) {
    if expected["missing"] == true {
        assert!(found.is_none(), "{what} counts: {found:#?}");
        return;
    }
    let found = found.unwrap_or_else(|| panic!("{what} is not there"));
    for (key, value) in expected.as_object().unwrap() {
        if !CONTROL.contains(&key.as_str()) {
            assert_eq!(&found[key], value, "{what}: {key}");
        }
    }
    if let Some(events) = expected["hooks"].as_array() {
        let found: Vec<&String> = found["hooks"].as_object().unwrap().keys().collect();
        assert_eq!(found, events.iter().collect::<Vec<_>>(), "{what}: hooks");
    }
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.map(|item| item.as_str().unwrap().to_owned()).collect()
}

#[test]
fn published_extensions_are_read_as_expected() {
    let temporary = tempfile::tempdir().unwrap();
    let sources = Sources::new(&places(temporary.path()), &Trust::Trusted, None);
    let skills = SkillCatalog::load(&sources);
    let agents = AgentCatalog::load(&sources, &[]);
    let all = expectations();
    let files: Vec<&Value> = all.iter().filter(|one| one["kind"] != "plugin").collect();
    assert!(files.len() >= 40, "the corpus has {} files", files.len());
    for expected in &files {
        let name = expected["name"].as_str().unwrap();
        let file = expected["file"].as_str().unwrap();
        let what = format!("{} {file}", expected["kind"]);
        let is_of_file = |problem: &&Problem| problem.file.to_string_lossy().contains(file);
        if expected["kind"] == "agent" {
            let problems: Vec<&Problem> = agents.problems.iter().filter(is_of_file).collect();
            let found = agents
                .get(name)
                .map(|agent| serde_json::to_value(agent).unwrap());
            hold_fields(expected, found, &what);
            hold_problems(expected, &problems, &what);
        } else {
            let form = if expected["kind"] == "skill" {
                SkillForm::Skill
            } else {
                SkillForm::Command
            };
            let problems: Vec<&Problem> = skills.problems.iter().filter(is_of_file).collect();
            let found = skills
                .get(name)
                .filter(|skill| skill.form == form)
                .inspect(|skill| {
                    let is_empty = skill.body().unwrap().is_empty();
                    assert_eq!(is_empty, expected["emptyBody"] == true, "{what}");
                })
                .map(|skill| serde_json::to_value(skill).unwrap());
            hold_fields(expected, found, &what);
            hold_problems(expected, &problems, &what);
        }
    }
    // There is nothing unexpected.
    let counted = files.iter().filter(|one| one["missing"] != true).count();
    let own = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path.starts_with(corpus()));
    let found = skills.iter().filter(|skill| own(&skill.path)).count()
        + agents.iter().filter(|agent| own(&agent.path)).count();
    assert_eq!(found, counted);
}

#[test]
fn plugins_are_read_as_expected_and_hostile_ones_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let places = places(temporary.path());
    let all = expectations();
    let expected_plugins: Vec<&Value> = all.iter().filter(|one| one["kind"] == "plugin").collect();
    assert!(expected_plugins.len() >= 12);
    for expected in expected_plugins {
        let name = expected["folder"].as_str().unwrap();
        let folder = corpus().join("plugins").join(name);
        let id = PluginId::inline(name);
        let read = Plugin::read(
            &folder,
            &id,
            &PluginContext {
                confirmed: true,
                ..PluginContext::default()
            },
        );
        if let Some(why) = expected["fails"].as_str() {
            let problem = read.expect_err(name).to_string();
            assert!(problem.contains(why), "{name}: {problem}");
            continue;
        }
        let plugin = read.unwrap_or_else(|problem| panic!("{name}: {problem}"));
        let contribution = plugin.contribution.clone();
        assert_eq!(expected["name"], contribution.name.as_str());
        if let Some(version) = expected["version"].as_str() {
            assert_eq!(contribution.version.as_deref(), Some(version), "{name}");
        }
        let commands = contribution.commands.iter().map(|command| &command.path);
        let others = [
            &contribution.agents,
            &contribution.skills,
            &contribution.output_styles,
        ];
        for path in others.into_iter().flatten().chain(commands) {
            assert!(path.starts_with(&folder), "{name}: {}", path.display());
        }
        let sources = Sources::default().with_plugins(vec![contribution.clone()]);
        let skills = SkillCatalog::load(&sources);
        let agents = AgentCatalog::load(&sources, &[]);
        let styles = OutputStyles::load(&sources);
        if expected.get("brings").is_some() {
            let prefix = format!("{name}:");
            let mut brought: Vec<String> = skills.iter().map(|skill| skill.name.clone()).collect();
            brought.extend(agents.iter().map(|agent| agent.name.clone()));
            brought.retain(|brought| brought.starts_with(&prefix));
            brought.sort();
            let mut wanted = texts(&expected["brings"]);
            wanted.sort();
            assert_eq!(brought, wanted, "{name}");
        }
        for style in texts(&expected["styles"]) {
            assert!(styles.get(&style).is_some(), "{name}: {style}");
        }
        let keys = |map: Vec<&String>| map.into_iter().cloned().collect::<Vec<_>>();
        assert_eq!(
            keys(contribution.hooks.keys().collect()),
            texts(&expected["hooks"]),
            "{name}"
        );
        assert_eq!(
            keys(contribution.mcp_servers.keys().collect()),
            texts(&expected["mcp"]),
            "{name}"
        );
        assert_eq!(
            keys(contribution.lsp_servers.keys().collect()),
            texts(&expected["lsp"]),
            "{name}"
        );
        let problems: Vec<&Problem> = plugin
            .problems
            .iter()
            .chain(&skills.problems)
            .chain(&agents.problems)
            .chain(&styles.problems)
            .collect();
        hold_problems(expected, &problems, name);
        // What it says about itself can't play with a terminal.
        let settings = lathe_settings::load(&places, &LoadOptions::default());
        let loaded = load(&places, &settings, &[folder]);
        let listing = lathe_extensions::plugins::cli::list(&loaded);
        assert!(!listing.contains('\u{1b}'), "{name}: {listing:?}");
        // What comes with Lathe keeps its names.
        assert_eq!(
            agents.get("Explore").unwrap().description,
            AgentCatalog::builtin().get("Explore").unwrap().description
        );
        assert!(
            !skills
                .get("commit")
                .unwrap()
                .body()
                .unwrap()
                .contains("my server")
        );
    }
}
