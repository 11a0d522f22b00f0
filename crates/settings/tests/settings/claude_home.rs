//! `~/.claude` as a second folder of the user's own, below `~/.lathe`.

use crate::Machine;
use lathe_protocol::permission::RuleSource;
use lathe_settings::instructions::{InstructionOptions, Instructions, Scope};
use lathe_settings::{KeyPath, LoadOptions, Source, Trust, load};
use std::collections::BTreeMap;

fn machine() -> Machine {
    let machine = Machine::new();
    machine.write(
        "home/.claude/settings.json",
        r#"{"model": "theirs", "language": "de", "outputStyle": "terse",
            "permissions": {"allow": ["Read(/notes/**)"], "deny": ["Bash(rm:*)"]},
            "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}"#,
    );
    machine.write("home/.lathe/settings.json", r#"{"model": "ours"}"#);
    machine.write("home/.claude/CLAUDE.md", "their memory");
    machine.write("home/.claude/rules/style.md", "their rule");
    machine.write("home/.lathe/AGENTS.md", "our memory");
    machine
}

fn texts(instructions: &Instructions) -> Vec<(Scope, String)> {
    let files = instructions.files().iter();
    files
        .map(|file| (file.scope, file.text.trim().to_owned()))
        .collect()
}

fn discovered(machine: &Machine, cwd: &str) -> Vec<(Scope, String)> {
    let places = machine.places_at(cwd);
    texts(&Instructions::discover(
        &places,
        InstructionOptions::default(),
    ))
}

#[test]
fn settings_of_both_folders_apply_and_ours_are_stronger() {
    let machine = machine();
    let places = machine.places();
    let resolved = load(&places, &LoadOptions::default());
    assert_eq!(resolved.settings.model.as_deref(), Some("ours"));
    assert_eq!(resolved.settings.language.as_deref(), Some("de"));
    assert_eq!(resolved.settings.output_style.as_deref(), Some("terse"));
    assert!(resolved.settings.hooks.contains_key("Stop"));
    let rules = resolved.rules();
    assert_eq!(rules.len(), 2);
    for rule in &rules {
        assert_eq!(rule.source, RuleSource::UserSettings);
        // `/notes` is meant from the folder of the file that says it.
        assert_eq!(rule.folder, machine.path("home/.claude"));
    }
    let origin = resolved
        .origin(&"language".parse::<KeyPath>().unwrap())
        .unwrap();
    assert_eq!(origin.source, Source::User);
    assert_eq!(
        origin.path,
        Some(machine.path("home/.claude/settings.json"))
    );
    assert_eq!(
        places.written_file(Source::User),
        Some(machine.path("home/.lathe/settings.json"))
    );
}

#[test]
fn its_instructions_are_the_persons_wherever_the_project_lies() {
    let machine = machine();
    std::fs::create_dir_all(machine.path("srv/project")).unwrap();
    for cwd in ["home/project", "srv/project"] {
        assert_eq!(
            discovered(&machine, cwd),
            [
                (Scope::User, "their memory".to_owned()),
                (Scope::User, "their rule".to_owned()),
                (Scope::User, "our memory".to_owned()),
            ],
            "{cwd}"
        );
    }
}

#[test]
fn it_is_switched_off_by_variable_setting_and_flag() {
    let machine = machine();
    let variables = BTreeMap::from([("LATHE_READ_CLAUDE_HOME".to_owned(), "0".to_owned())]);
    let by_variable = machine.places_with("home/project", variables);
    let by_flag = machine
        .places()
        .with_flags(&[r#"{"readClaudeHome": false}"#.to_owned()]);
    machine.write("home/.lathe/settings.json", r#"{"readClaudeHome": false}"#);
    let by_setting = machine.places();
    for (how, places) in [
        ("variable", &by_variable),
        ("flag", &by_flag),
        ("setting", &by_setting),
    ] {
        assert_eq!(places.claude_home, None, "{how}");
        assert_eq!(places.claude_json(), None, "{how}");
        let resolved = load(places, &LoadOptions::default());
        assert_eq!(resolved.settings.language, None, "{how}");
        let instructions = Instructions::discover(places, InstructionOptions::default());
        assert_eq!(
            texts(&instructions),
            [(Scope::User, "our memory".to_owned())],
            "{how}"
        );
    }
    let on_again = machine
        .places()
        .with_flags(&[r#"{"readClaudeHome": true}"#.to_owned()]);
    assert_eq!(on_again.claude_home, Some(machine.path("home/.claude")));
    machine.write("home/.lathe/settings.json", "{}");
    machine.write(
        "etc/lathe/managed-settings.json",
        r#"{"readClaudeHome": false}"#,
    );
    assert_eq!(machine.places().claude_home, None);
}

#[test]
fn a_folder_cannot_take_the_persons_own_rules_away() {
    let machine = machine();
    machine.write(
        "home/project/.claude/settings.json",
        r#"{"readClaudeHome": false}"#,
    );
    let places = machine.places();
    let options = LoadOptions {
        trust: Trust::Trusted,
        ..LoadOptions::default()
    };
    let resolved = load(&places, &options);
    assert_eq!(resolved.rules().len(), 2);
    assert_eq!(resolved.settings.read_claude_home, None);
    assert!(
        resolved
            .problems
            .iter()
            .any(|problem| problem.key == "readClaudeHome" && problem.message.contains("folder")),
        "{:?}",
        resolved.problems
    );
}

#[test]
fn another_config_home_is_alone() {
    let machine = machine();
    for name in ["LATHE_CONFIG_DIR", "CLAUDE_CONFIG_DIR"] {
        let variables = BTreeMap::from([(
            name.to_owned(),
            machine.path("elsewhere").display().to_string(),
        )]);
        let places = machine.places_with("home/project", variables);
        assert_eq!(places.claude_home, None, "{name}");
        let resolved = load(&places, &LoadOptions::default());
        assert_eq!(resolved.layers.len(), 0, "{name}");
    }
}

#[test]
fn sources_without_the_person_leave_it_out() {
    let machine = machine();
    let options = LoadOptions {
        sources: Some(vec![Source::Project]),
        ..LoadOptions::default()
    };
    assert_eq!(load(&machine.places(), &options).layers.len(), 0);
}
