//! Setups of six other agents, in their documented formats, with the reports that importing them gives.
//!
//! A setup is one file of `corpus/`: files behind lines `-- path --` (`home/…` or `project/…`), and the report behind
//! `-- report --`. `UPDATE_REPORTS=1` writes the reports.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests assert by panicking, and stand outside of the program"
)]

use lathe_import::{Agent, Fate, apply, plan};
use lathe_settings::{Environment, Places};
use pretty_assertions::assert_eq;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// The parts of a setup by name.
fn parts(text: &str) -> BTreeMap<String, String> {
    let mut parts = BTreeMap::new();
    let mut name = String::new();
    for line in text.split_inclusive('\n') {
        let marked = line.trim_end().strip_prefix("-- ");
        if let Some(found) = marked.and_then(|rest| rest.strip_suffix(" --")) {
            name = found.to_owned();
            parts.insert(name.clone(), String::new());
        } else {
            parts
                .get_mut(&name)
                .expect("a name comes first")
                .push_str(line);
        }
    }
    parts
}

struct Setup {
    agent: Agent,
    folder: tempfile::TempDir,
    places: Places,
    report: String,
}

fn setup(file: &Path) -> Setup {
    let text = std::fs::read_to_string(file).unwrap();
    let name = file.file_stem().unwrap().to_str().unwrap();
    let agent: Agent = name.split('-').next().unwrap().parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = std::fs::canonicalize(folder.path()).unwrap();
    for made in ["home", "project/.git"] {
        std::fs::create_dir_all(root.join(made)).unwrap();
    }
    let mut parts = parts(&text.replace("{project}", &root.join("project").to_string_lossy()));
    let report = parts.remove("report").unwrap_or_default();
    for (path, content) in parts {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let environment = Environment {
        home: Some(root.join("home")),
        cwd: root.join("project"),
        ..Environment::default()
    };
    let places = Places::with_managed(environment, root.join("managed"));
    Setup {
        agent,
        folder,
        places,
        report,
    }
}

/// A report without the names of transcripts, which depend on the temporary folder.
fn without_names(report: &str) -> String {
    let mut parts = report.split("~/.lathe/projects/");
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        let end = part.find(".jsonl").unwrap();
        text.push_str("~/.lathe/projects/NAME");
        text.push_str(&part[end..]);
    }
    text
}

/// All files below a folder with their content.
fn everything(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            found.extend(everything(&entry.path()));
        } else {
            found.insert(entry.path(), std::fs::read(entry.path()).unwrap());
        }
    }
    found
}

#[test]
fn setups_of_six_agents_are_imported_as_their_reports_say() {
    let files = corpus();
    assert!(files.len() >= 40, "{} setups", files.len());
    let mut agents = BTreeSet::new();
    for file in files {
        let setup = setup(&file);
        agents.insert(setup.agent.name());
        let plan = plan(&setup.places, setup.agent, true);
        let root = std::fs::canonicalize(setup.folder.path()).unwrap();
        let before = everything(&root);
        let planned = apply(&plan, &setup.places, true).unwrap();
        assert_eq!(
            everything(&root),
            before,
            "a dry run of {} writes",
            file.display()
        );
        let report = apply(&plan, &setup.places, false).unwrap();
        assert_eq!(planned, report, "{}", file.display());
        let text = without_names(&report.to_text());
        if std::env::var_os("UPDATE_REPORTS").is_some() {
            let whole = std::fs::read_to_string(&file).unwrap();
            let kept = whole.split("-- report --\n").next().unwrap();
            std::fs::write(&file, format!("{kept}-- report --\n{text}")).unwrap();
        } else {
            assert_eq!(text, setup.report, "{}", file.display());
        }
    }
    assert_eq!(agents.len(), 6, "{agents:?}");
}

#[test]
fn a_second_import_changes_nothing() {
    for file in corpus() {
        let setup = setup(&file);
        let root = std::fs::canonicalize(setup.folder.path()).unwrap();
        let first = plan(&setup.places, setup.agent, true);
        apply(&first, &setup.places, false).unwrap();
        let after = everything(&root);
        // As a new process would find the places.
        let places = Places::with_managed(setup.places.environment.clone(), root.join("managed"));
        let second = plan(&places, setup.agent, true);
        let report = apply(&second, &places, false).unwrap();
        assert_eq!(everything(&root), after, "{}", file.display());
        assert_eq!(
            report.count(&[Fate::Changed]),
            0,
            "{}: {}",
            file.display(),
            report.to_text()
        );
    }
}

#[test]
fn the_files_of_the_other_agent_stay_as_they_were() {
    for file in corpus() {
        let setup = setup(&file);
        let root = std::fs::canonicalize(setup.folder.path()).unwrap();
        let before = everything(&root);
        let plan = plan(&setup.places, setup.agent, true);
        apply(&plan, &setup.places, false).unwrap();
        let after = everything(&root);
        for (path, content) in before {
            let ours = path.starts_with(&setup.places.config_home)
                || path.starts_with(root.join("project/.lathe"))
                || path.ends_with(".mcp.json");
            assert!(
                ours || after.get(&path) == Some(&content),
                "{}",
                path.display()
            );
        }
    }
}

/// Every secret of the corpus has this in it.
const SECRET: &str = "hunter2";

#[test]
fn no_secret_is_copied() {
    let mut planted = 0;
    for file in corpus() {
        let setup = setup(&file);
        let root = std::fs::canonicalize(setup.folder.path()).unwrap();
        planted += everything(&root)
            .values()
            .filter(|content| String::from_utf8_lossy(content).contains(SECRET))
            .count();
        let before = everything(&root);
        let plan = plan(&setup.places, setup.agent, true);
        let report = apply(&plan, &setup.places, false).unwrap();
        assert!(!report.to_text().contains(SECRET), "{}", file.display());
        for (path, content) in everything(&root) {
            let text = String::from_utf8_lossy(&content);
            let is_new = before.get(&path) != Some(&content);
            assert!(
                !is_new || !text.contains(SECRET),
                "{}: {text}",
                path.display()
            );
        }
    }
    assert!(planted >= 6, "{planted} secrets");
}

#[test]
fn what_is_imported_is_valid_here() {
    for file in corpus() {
        let setup = setup(&file);
        let plan = plan(&setup.places, setup.agent, true);
        apply(&plan, &setup.places, false).unwrap();
        let root = std::fs::canonicalize(setup.folder.path()).unwrap();
        for (path, content) in everything(&root) {
            let ours = path.starts_with(&setup.places.config_home)
                || path.starts_with(root.join("project/.lathe"));
            if !ours || before_import(&file, &root, &path) {
                continue;
            }
            let text = String::from_utf8(content).unwrap();
            if path.ends_with("settings.json") {
                let document = lathe_settings::document::Document::parse(&text).unwrap();
                for (key, value) in document.value.as_object().unwrap() {
                    let key = lathe_settings::KeyPath(vec![key.clone()]);
                    lathe_settings::write::check(&key, value)
                        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                }
            }
            if path.extension().is_some_and(|ending| ending == "jsonl") {
                let loaded = lathe_session::load::load(&path).unwrap();
                assert!(
                    loaded.damaged.is_empty() && !loaded.torn_tail,
                    "{}",
                    path.display()
                );
                assert!(!loaded.records.is_empty(), "{}", path.display());
            }
        }
    }
}

/// Whether a file belongs to the setup itself.
fn before_import(file: &Path, root: &Path, path: &Path) -> bool {
    let text = std::fs::read_to_string(file).unwrap();
    let inside = path.strip_prefix(root).unwrap().display().to_string();
    text.contains(&format!("-- {inside} --"))
}

#[test]
fn links_of_a_project_lead_no_import_into_the_users_own_files() {
    let folder = tempfile::tempdir().unwrap();
    let root = std::fs::canonicalize(folder.path()).unwrap();
    for made in ["home/.lathe", "project/.git", "project/.cursor/commands"] {
        std::fs::create_dir_all(root.join(made)).unwrap();
    }
    let put = |path: &str, text: &str| std::fs::write(root.join(path), text).unwrap();
    put("home/.lathe/settings.json", "{}\n");
    put("project/.cursor/commands/evil.md", "Do evil.");
    put(
        "project/.cursor/mcp.json",
        r#"{"mcpServers": {"evil": {"command": "evil"}}}"#,
    );
    put(
        "project/.cursor/cli.json",
        r#"{"permissions": {"allow": ["Shell(*)"]}}"#,
    );
    std::os::unix::fs::symlink(root.join("home/.lathe"), root.join("project/.lathe")).unwrap();
    let settings = root.join("home/.lathe/settings.json");
    std::os::unix::fs::symlink(settings, root.join("project/.mcp.json")).unwrap();
    let environment = Environment {
        home: Some(root.join("home")),
        cwd: root.join("project"),
        ..Environment::default()
    };
    let places = Places::with_managed(environment, root.join("managed"));
    let before = everything(&root.join("home"));
    let plan = plan(&places, Agent::Cursor, false);
    let report = apply(&plan, &places, false).unwrap();
    assert_eq!(
        everything(&root.join("home")),
        before,
        "{}",
        report.to_text()
    );
    assert_eq!(report.count(&[Fate::Left]), 3, "{}", report.to_text());
}
