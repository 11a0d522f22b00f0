//! `lathe permissions list|add|remove|explain|test`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use common::{World, add_rule};
use lathe_permissions::cli::{self, CliError, Format, explain};
use lathe_permissions::settings::{context_of, rules_of};
use lathe_protocol::permission::{Behavior, PermissionMode, RuleSource};
use lathe_settings::Trust;
use lathe_settings::load::{LoadOptions, load};
use lathe_settings::paths::{Environment, Places};
use serde_json::{Value, json};

fn places(world: &World) -> Places {
    let environment = Environment {
        home: Some(world.home()),
        cwd: world.project(),
        ..Environment::default()
    };
    Places::with_managed(environment, world.base.join("managed"))
}

#[test]
fn explain_gives_one_object_with_parts_and_reasons() {
    let world = World::new();
    let mut context = world.context();
    cli::add_rule(&mut context, "allow:Bash(npm test:*)").unwrap();
    let found = explain("cd src && npm test | tee out.log", &context).to_json();
    let keys: Vec<&str> = found
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        [
            "verdict",
            "readOnly",
            "understood",
            "reason",
            "decidedBy",
            "confined",
            "setAside",
            "parts",
            "suggestions"
        ]
    );
    assert_eq!(found["verdict"], "ask");
    assert_eq!(found["readOnly"], false);
    assert_eq!(found["understood"], true);
    let parts: Vec<(&str, &str)> = found["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| {
            (
                part["text"].as_str().unwrap(),
                part["verdict"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        parts,
        [
            ("cd src", "allow"),
            ("npm test", "allow"),
            ("tee out.log", "ask")
        ]
    );
    assert!(found["reason"].as_str().unwrap().contains("tee out.log"));
    assert!(!found["suggestions"].as_array().unwrap().is_empty());
}

#[test]
fn explain_says_what_it_did_not_understand() {
    let world = World::new();
    let found = explain("echo 'x", &world.context()).to_json();
    assert_eq!(found["understood"], false);
    assert_eq!(found["verdict"], "ask");
    assert!(found["reason"].as_str().unwrap().contains("not understood"));
}

#[test]
fn without_rules_exactly_what_only_reads_is_allowed() {
    let world = World::new();
    let context = world.context();
    for (command, verdict) in [
        ("ls -la src", "allow"),
        ("git log --oneline -5 | head", "allow"),
        ("rg -n TODO src | sort | uniq -c", "allow"),
        ("find . -name '*.rs'", "allow"),
        ("find . -name '*.rs' -delete", "ask"),
        ("npm install", "ask"),
        ("ls > x", "ask"),
        ("rm -rf /", "ask"),
    ] {
        let found = explain(command, &context);
        assert_eq!(
            found.verdict(),
            verdict,
            "{command}: {:?}",
            found.decision()
        );
        assert_eq!(found.read_only(), verdict == "allow", "{command}");
    }
}

#[test]
fn colour_is_only_decoration() {
    let world = World::new();
    let explanation = explain("ls && npm test", &world.context());
    let plain = explanation.to_text(false);
    let colour = explanation.to_text(true);
    assert!(!plain.contains('\u{1b}'));
    assert!(colour.contains("\u{1b}[32m") && colour.contains("\u{1b}[33m"));
    let stripped: String = colour
        .split('\u{1b}')
        .enumerate()
        .map(|(index, piece)| {
            if index == 0 {
                piece
            } else {
                piece.split_once('m').unwrap().1
            }
        })
        .collect();
    assert_eq!(stripped, plain);
}

#[test]
fn rules_are_added_listed_and_removed() {
    let world = World::new();
    let places = places(&world);
    let settings = || {
        load(
            &places,
            &LoadOptions {
                trust: Trust::Trusted,
                ..LoadOptions::default()
            },
        )
    };
    let list = |format: Format| {
        let settings = settings();
        let (context, _) = context_of(&places, &settings, true);
        let (rules, problems) = rules_of(&settings, &context);
        cli::list(&settings, &rules, &problems, format)
    };
    assert!(list(Format::Plain).starts_with("No rules."));
    let said = cli::add(
        &places,
        Behavior::Deny,
        "Bash(curl:*)",
        RuleSource::UserSettings,
    )
    .unwrap();
    assert!(said.starts_with("Bash(curl:*) added to "), "{said}");
    let said = cli::add(
        &places,
        Behavior::Deny,
        "Bash(curl:*)",
        RuleSource::UserSettings,
    )
    .unwrap();
    assert!(said.contains("already in"), "{said}");
    cli::add(
        &places,
        Behavior::Allow,
        "Edit(/src/**)",
        RuleSource::ProjectSettings,
    )
    .unwrap();
    let text = list(Format::Plain);
    assert!(
        text.starts_with("Denied:\n  Bash(curl:*)  user settings, "),
        "{text}"
    );
    assert!(
        text.contains("Allowed:\n  Edit(/src/**)  project settings, "),
        "{text}"
    );
    let found: Value = serde_json::from_str(&list(Format::Json)).unwrap();
    assert_eq!(found["rules"][0]["rule"], "Bash(curl:*)");
    assert_eq!(found["rules"][0]["behavior"], "deny");
    assert_eq!(found["rules"][0]["source"], "userSettings");
    assert_eq!(found["problems"], json!([]));
    let said = cli::remove(
        &places,
        Behavior::Deny,
        "Bash(curl:*)",
        RuleSource::UserSettings,
    )
    .unwrap();
    assert!(said.contains("removed from"), "{said}");
    let said = cli::remove(
        &places,
        Behavior::Deny,
        "Bash(curl:*)",
        RuleSource::UserSettings,
    )
    .unwrap();
    assert!(said.contains("not in"), "{said}");
    for bad in ["bash(x)", "Bash(", "WebFetch(x.org)"] {
        assert!(
            matches!(
                cli::add(&places, Behavior::Allow, bad, RuleSource::UserSettings),
                Err(CliError::Rule(_))
            ),
            "{bad}"
        );
    }
    assert!(matches!(
        cli::add(&places, Behavior::Allow, "Bash", RuleSource::Session),
        Err(CliError::NotWritable)
    ));
}

#[test]
fn a_file_of_expectations_reports_what_differs() {
    let world = World::new();
    let mut context = world.context();
    add_rule(
        &mut context,
        Behavior::Allow,
        "Bash(npm test:*)",
        RuleSource::UserSettings,
    );
    let text = "# what we rely on\nallow\tgit status\nallow npm test\nask\tnpm publish\n\
                rule: deny:Bash(npm publish:*)\ndeny npm publish\nmode: acceptEdits\nallow touch x\n\
                allow \"echo a\\necho b\"\nallow rm -rf /\n";
    let report = cli::test(text, &context).unwrap();
    assert_eq!(report.total, 7);
    assert_eq!(report.differences.len(), 1, "{:?}", report.differences);
    assert!(
        report.differences[0].starts_with("line 10: expected allow, got ask: rm -rf /"),
        "{:?}",
        report.differences
    );
    assert!(report.to_text().ends_with("6 of 7 as expected\n"));
    assert_eq!(context.mode, PermissionMode::Default);
    for (bad, line) in [
        ("perhaps ls", 1),
        ("allow ls\nallow", 2),
        ("mode: yolo", 1),
        ("rule: Bash", 1),
    ] {
        let Err(CliError::Expectation { line: found, .. }) = cli::test(bad, &context) else {
            panic!("{bad}");
        };
        assert_eq!(found, line, "{bad}");
    }
}
