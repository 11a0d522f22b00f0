//! Where settings come from and which of them wins.

use crate::{Machine, git};
use lathe_protocol::permission::{Behavior, PermissionMode, RuleSource};
use lathe_settings::{KeyPath, LoadOptions, Severity, Source, Trust, load};
use pretty_assertions::assert_eq;
use std::collections::BTreeMap;

fn trusted() -> LoadOptions {
    LoadOptions {
        trust: Trust::Trusted,
        ..LoadOptions::default()
    }
}

fn key(text: &str) -> KeyPath {
    text.parse().unwrap()
}

#[test]
fn stronger_sources_win_in_the_documented_order() {
    let machine = Machine::new();
    // From the weakest up, each step adds a stronger file and must win over all before it.
    let flags = machine.path("flags.json");
    let steps = [
        ("home/.lathe/settings.json", Source::User),
        ("home/project/.claude/settings.json", Source::Project),
        ("home/project/.lathe/settings.json", Source::Project),
        ("home/project/.claude/settings.local.json", Source::Local),
        ("home/project/.lathe/settings.local.json", Source::Local),
        ("flags.json", Source::Flag),
        ("etc/lathe/managed-settings.json", Source::Managed),
        (
            "etc/lathe/managed-settings.d/10-first.json",
            Source::Managed,
        ),
        (
            "etc/lathe/managed-settings.d/20-second.json",
            Source::Managed,
        ),
    ];
    for (number, (file, source)) in steps.into_iter().enumerate() {
        let path = machine.write(file, &format!("{{\"model\": \"model-{number}\"}}"));
        let mut options = trusted();
        if flags.exists() {
            options.flags = vec![flags.display().to_string()];
        }
        let resolved = load(&machine.places(), &options);
        assert_eq!(
            resolved.settings.model,
            Some(format!("model-{number}")),
            "{file}"
        );
        let origin = resolved.origin(&key("model")).unwrap();
        assert_eq!((origin.source, origin.path), (source, Some(path)));
        assert_eq!(resolved.problems, []);
        assert_eq!(resolved.layers.len(), number + 1);
    }
}

#[test]
fn setting_sources_leave_out_files_but_never_policy_or_flags() {
    let machine = Machine::new();
    machine.write("home/.lathe/settings.json", r#"{"theme": "user"}"#);
    machine.write(
        "home/project/.lathe/settings.json",
        r#"{"language": "project"}"#,
    );
    machine.write(
        "home/project/.lathe/settings.local.json",
        r#"{"outputStyle": "local"}"#,
    );
    machine.write(
        "etc/lathe/managed-settings.json",
        r#"{"permissions": {"deny": ["Bash"]}}"#,
    );
    let with = |sources: &str| {
        let options = LoadOptions {
            sources: Some(Source::parse_list(sources).unwrap()),
            flags: vec![r#"{"model": "flag"}"#.into()],
            ..trusted()
        };
        let settings = load(&machine.places(), &options).settings;
        assert_eq!(settings.model.as_deref(), Some("flag"));
        assert_eq!(settings.permissions.unwrap().deny, ["Bash"]);
        (
            settings.theme.is_some(),
            settings.language.is_some(),
            settings.output_style.is_some(),
        )
    };
    assert_eq!(with("user,project,local"), (true, true, true));
    assert_eq!(with("user"), (true, false, false));
    assert_eq!(with("project, local"), (false, true, true));
    assert_eq!(with(""), (false, false, false));
    assert!(
        Source::parse_list("user,policy")
            .unwrap_err()
            .to_string()
            .contains("'policy'")
    );
}

#[test]
fn the_config_home_is_named_by_either_variable_and_ours_wins() {
    let machine = Machine::new();
    let home = |pairs: &[(&str, &str)]| {
        let variables: BTreeMap<String, String> = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        machine.places_with("home/project", variables).config_home
    };
    assert_eq!(home(&[]), machine.path("home/.lathe"));
    assert_eq!(
        home(&[("CLAUDE_CONFIG_DIR", "/a")]),
        std::path::Path::new("/a")
    );
    assert_eq!(
        home(&[("CLAUDE_CONFIG_DIR", "/a"), ("LATHE_CONFIG_DIR", "~/b")]),
        machine.path("home/b")
    );
    assert_eq!(
        home(&[("LATHE_CONFIG_DIR", "")]),
        machine.path("home/.lathe")
    );
}

#[test]
fn the_project_is_the_nearest_folder_with_settings_inside_the_repository() {
    let machine = Machine::new();
    std::fs::create_dir_all(machine.path("home/project/a/b")).unwrap();
    // Without a repository a folder above is nobody's project, and home never is.
    machine.write("home/.claude/settings.json", "{}");
    machine.write("home/project/.claude/settings.json", "{}");
    assert_eq!(
        machine.places_at("home/project/a/b").project,
        machine.path("home/project/a/b")
    );
    git(&machine.path("home/project"), &["init", "-q"]);
    assert_eq!(
        machine.places_at("home/project/a/b").project,
        machine.path("home/project")
    );
    machine.write("home/project/a/.lathe/settings.json", "{}");
    assert_eq!(
        machine.places_at("home/project/a/b").project,
        machine.path("home/project/a")
    );
    assert_eq!(machine.places_at("home").project, machine.path("home"));
}

#[test]
fn flags_take_a_file_or_json_and_say_what_is_wrong_with_either() {
    let machine = Machine::new();
    let errors = |flag: &str| {
        let options = LoadOptions {
            flags: vec![flag.to_owned()],
            ..trusted()
        };
        let resolved = load(&machine.places(), &options);
        let errors: Vec<String> = resolved
            .flag_errors()
            .iter()
            .map(ToString::to_string)
            .collect();
        (resolved.settings.model, errors.join("\n"))
    };
    machine.write("home/project/extra.json", r#"{"model": "from file",}"#);
    assert_eq!(
        errors("extra.json"),
        (Some("from file".into()), String::new())
    );
    assert_eq!(
        errors(r#" {"model": "inline"} "#),
        (Some("inline".into()), String::new())
    );
    assert!(
        errors("missing.json")
            .1
            .contains("missing.json: no such file")
    );
    assert!(
        errors("missing.json")
            .1
            .contains("give --settings a readable file")
    );
    assert!(errors(r#"{"model": }"#).1.contains("not valid JSON"));
    assert!(errors(r#"{"model": "x""#).1.contains("doesn't end with }"));
    assert!(
        errors(r#"{"model": 4}"#)
            .1
            .contains("--settings:1:2: model: expected a text")
    );
    assert!(errors(".").1.contains("is not a file"));
}

#[test]
fn a_broken_or_unreadable_file_is_reported_and_the_others_count() {
    let machine = Machine::new();
    machine.write(
        "home/.lathe/settings.json",
        r#"{"permissions": {"deny": ["WebFetch"]}}"#,
    );
    machine.write(
        "home/project/.lathe/settings.json",
        r#"{"permissions": {"allow": ["Bash"]"#,
    );
    std::fs::create_dir_all(machine.path("home/project/.lathe/settings.local.json")).unwrap();
    std::fs::create_dir_all(machine.path("home/project/.claude")).unwrap();
    std::fs::write(
        machine.path("home/project/.claude/settings.json"),
        b"{\"theme\": \"\xff\"}",
    )
    .unwrap();
    let resolved = load(&machine.places(), &trusted());
    let rules: Vec<String> = resolved.rules().into_iter().map(|rule| rule.rule).collect();
    assert_eq!(rules, ["WebFetch"]);
    let messages: Vec<&str> = resolved
        .problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert_eq!(messages[0], "is not UTF-8 text");
    assert!(messages[1].starts_with("not valid JSON"));
    assert_eq!(messages[2], "is not a file");
    assert!(
        resolved
            .problems
            .iter()
            .all(|problem| problem.severity == Severity::Error && problem.restriction_lost)
    );
}

#[test]
fn a_pipe_lying_in_the_folder_does_not_stop_the_start() {
    let machine = Machine::new();
    std::fs::create_dir_all(machine.path("home/project/.lathe")).unwrap();
    let pipe = machine.path("home/project/.lathe/settings.json");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let resolved = load(&machine.places(), &trusted());
    assert_eq!(resolved.problems[0].message, "is not a file");
}

#[test]
fn rules_keep_their_source_their_folder_and_their_line() {
    let machine = Machine::new();
    machine.write(
        "home/.lathe/settings.json",
        "{\n  \"permissions\": {\n    \"allow\": [\"Edit(/notes/**)\"]\n  }\n}",
    );
    machine.write(
        "home/project/.claude/settings.json",
        r#"{"permissions": {"deny": ["Edit(/src/**)"]}}"#,
    );
    let rules = load(&machine.places(), &trusted()).rules();
    assert_eq!(rules.len(), 2);
    assert_eq!(
        (rules[0].behavior, rules[0].source),
        (Behavior::Allow, RuleSource::UserSettings)
    );
    assert_eq!(rules[0].folder, machine.path("home/.lathe"));
    assert_eq!(rules[0].position.unwrap().line, 3);
    assert_eq!(
        (rules[1].behavior, rules[1].source),
        (Behavior::Deny, RuleSource::ProjectSettings)
    );
    assert_eq!(rules[1].folder, machine.path("home/project"));
    assert_eq!(
        rules[1].file,
        Some(machine.path("home/project/.claude/settings.json"))
    );
}

#[test]
fn policy_can_make_its_own_rules_the_only_grants() {
    let machine = Machine::new();
    machine.write(
        "home/.lathe/settings.json",
        r#"{"permissions": {"allow": ["Bash"], "deny": ["Read"]}}"#,
    );
    machine.write(
        "etc/lathe/managed-settings.json",
        r#"{"allowManagedPermissionRulesOnly": true, "permissions": {"allow": ["Glob"]}}"#,
    );
    let rules: Vec<String> = load(&machine.places(), &trusted())
        .rules()
        .into_iter()
        .map(|rule| rule.rule)
        .collect();
    assert_eq!(
        rules,
        ["Read", "Glob"],
        "a grant of the person is gone, a denial stays"
    );
}

#[test]
fn directories_are_absolute_from_the_file_that_names_them() {
    let machine = Machine::new();
    machine.write(
        "home/.lathe/settings.json",
        r#"{"permissions": {"additionalDirectories": ["~/shared", "/abs"]}}"#,
    );
    machine.write(
        "home/project/.lathe/settings.json",
        r#"{"permissions": {"additionalDirectories": ["../docs"]}}"#,
    );
    let places = machine.places();
    let found: Vec<_> = load(&places, &trusted())
        .directories(&places)
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    assert_eq!(
        found,
        [
            machine.path("home/shared"),
            "/abs".into(),
            machine.path("home/project/../docs")
        ]
    );
}

#[test]
fn only_policy_can_switch_off_policy_hooks() {
    let machine = Machine::new();
    machine.write(
        "home/.lathe/settings.json",
        r#"{"disableAllHooks": true, "allowManagedHooksOnly": true}"#,
    );
    let switches = load(&machine.places(), &trusted()).hook_switches();
    assert!(switches.disabled && !switches.managed_disabled && !switches.managed_only);
    machine.write(
        "etc/lathe/managed-settings.json",
        r#"{"disableAllHooks": true, "allowManagedHooksOnly": true}"#,
    );
    let switches = load(&machine.places(), &trusted()).hook_switches();
    assert!(switches.disabled && switches.managed_disabled && switches.managed_only);
}

#[test]
fn policy_from_the_parent_counts_below_the_machines_own() {
    let machine = Machine::new();
    machine.write("home/.lathe/settings.json", r#"{"model": "mine"}"#);
    let options = LoadOptions {
        managed_flags: vec![r#"{"model": "parent", "language": "parent"}"#.into()],
        ..trusted()
    };
    assert_eq!(
        load(&machine.places(), &options).settings.model.as_deref(),
        Some("parent")
    );
    machine.write("etc/lathe/managed-settings.json", r#"{"model": "machine"}"#);
    let settings = load(&machine.places(), &options).settings;
    assert_eq!(settings.model.as_deref(), Some("machine"));
    assert_eq!(settings.language.as_deref(), Some("parent"));
}

#[test]
fn typed_settings_carry_what_the_files_say() {
    let machine = Machine::new();
    machine.write(
        "home/.lathe/settings.json",
        r#"{"permissions": {"defaultMode": "plan"}, "fallbackModel": "sonnet", "env": {"PORT": 80, "ON": true}, "custom": {"kept": 1}}"#,
    );
    let resolved = load(&machine.places(), &trusted());
    assert_eq!(
        resolved.settings.permissions.as_ref().unwrap().default_mode,
        Some(PermissionMode::Plan)
    );
    assert_eq!(
        resolved.settings.fallback_model.as_ref().unwrap().list(),
        ["sonnet"]
    );
    assert_eq!(
        resolved.environment(),
        BTreeMap::from([("ON".into(), "true".into()), ("PORT".into(), "80".into())])
    );
    assert_eq!(resolved.settings.extra["custom"]["kept"], 1);
}

#[test]
fn in_the_home_folder_the_persons_file_is_read_once_as_the_persons() {
    let machine = Machine::new();
    machine.write(
        "home/.lathe/settings.json",
        r#"{"apiKeyHelper": "./key", "permissions": {"allow": ["Read"]}}"#,
    );
    let resolved = load(&machine.places_at("home"), &LoadOptions::default());
    assert_eq!(resolved.layers.len(), 1);
    assert_eq!(resolved.withheld(), []);
    assert_eq!(resolved.settings.api_key_helper.as_deref(), Some("./key"));
}

#[test]
fn modes_under_their_other_names_are_understood() {
    let machine = Machine::new();
    for word in ["manual", "delegate"] {
        machine.write(
            "home/.lathe/settings.json",
            &format!(r#"{{"permissions": {{"defaultMode": "{word}"}}}}"#),
        );
        let resolved = load(&machine.places(), &trusted());
        assert_eq!(resolved.problems, []);
        assert_eq!(
            resolved.settings.permissions.unwrap().default_mode,
            Some(PermissionMode::Default)
        );
    }
}

#[test]
fn other_names_for_keys_are_read_as_ours() {
    let machine = Machine::new();
    machine.write(
        "home/.lathe/settings.json",
        r#"{"promptSuggestionEnabled": false, "awaySummaryEnabled": false, "preferredNotifChannel": "terminal_bell",
            "promptCacheTtl": "1h", "effortLevel": "low", "attribution": false,
            "autoUpdates": false, "otelHeadersHelper": "/opt/headers", "autoConnectIde": true,
            "modelPricing": {"overrides": {"house": {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4}}},
            "modelOverrides": {"claude-opus-5-5": "arn:opus"},
            "additionalMarketplaces": {"m": {"source": {"source": "github", "repo": "a/b"}}}}"#,
    );
    machine.write(
        "etc/lathe/managed-settings.json",
        r#"{"allowedMarketplaces": []}"#,
    );
    let resolved = load(&machine.places(), &LoadOptions::default());
    assert_eq!(resolved.problems, []);
    let settings = &resolved.settings;
    assert_eq!(settings.prompt_suggestions, Some(false));
    assert_eq!(settings.away_summary, Some(false));
    assert_eq!(resolved.value["notifications"], "bell");
    assert_eq!(resolved.value["promptCache"], "1h");
    assert_eq!(resolved.value["attribution"]["commit"], "");
    assert_eq!(resolved.value["autoUpdates"], "off");
    assert_eq!(resolved.value["telemetry"]["headersHelper"], "/opt/headers");
    assert_eq!(resolved.value["ide"]["autoConnect"], true);
    assert_eq!(settings.prices["house"].cache_write, Some(4.0));
    assert_eq!(
        settings.models["claude-opus-5-5"].name.as_deref(),
        Some("arn:opus")
    );
    assert!(settings.extra_known_marketplaces.contains_key("m"));
    assert_eq!(settings.strict_known_marketplaces, Some(Vec::new()));
}

#[test]
fn kinds_that_do_not_exist_are_reported_and_ignored() {
    let machine = Machine::new();
    machine.write(
        "home/.lathe/settings.json",
        r#"{"lspServers": {"x": {"command": "y", "transport": "socket", "extensionToLanguage": {".x": "x"}}},
            "statusLine": {"type": "static", "command": "date"},
            "fileSuggestion": {"type": "index", "command": "files"}}"#,
    );
    let resolved = load(&machine.places(), &LoadOptions::default());
    let keys: Vec<String> = resolved
        .problems
        .iter()
        .map(|problem| problem.key.clone())
        .collect();
    assert_eq!(
        keys,
        [
            "lspServers.x.transport",
            "statusLine.type",
            "fileSuggestion.type"
        ]
    );
}

#[test]
fn keys_of_the_ecosystem_without_effect_are_known_and_nothing_is_guessed() {
    let machine = Machine::new();
    machine.write(
        "home/.lathe/settings.json",
        r#"{"tui": "fullscreen", "agentPushNotifEnabled": true, "skipAutoPermissionPrompt": true,
            "skipDangerousModePermissionPrompt": true, "remoteControlAtStartup": false,
            "inputNeededNotifEnabled": true, "voiceEnabled": true,
            "spinnerVerbs": {"mode": "append", "verbs": []},
            "attribution": {"sessionUrl": false},
            "deniedModels": ["x"]}"#,
    );
    let resolved = load(&machine.places(), &LoadOptions::default());
    assert_eq!(resolved.problems.len(), 10, "{:#?}", resolved.problems);
    for problem in &resolved.problems {
        let text = problem.to_string();
        assert!(text.contains("without effect here"), "{text}");
        assert!(!text.contains("did you mean"), "{text}");
        let restricts = problem.key == "deniedModels";
        assert_eq!(problem.restriction_lost, restricts, "{text}");
        assert_eq!(problem.severity == Severity::Note, !restricts, "{text}");
    }
}
