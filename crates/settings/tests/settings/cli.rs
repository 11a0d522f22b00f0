//! `lathe config` and `lathe trust`.

use crate::Machine;
use lathe_settings::cli::{self, Format};
use lathe_settings::{LoadOptions, Resolved, Source, Trust, TrustStore, Variable, load};
use pretty_assertions::assert_eq;
use serde_json::Value;

fn options() -> LoadOptions {
    LoadOptions {
        trust: Trust::Trusted,
        ..LoadOptions::default()
    }
}

fn resolved(machine: &Machine) -> Resolved {
    load(&machine.places(), &options())
}

#[test]
fn values_are_taken_as_the_key_wants_them() {
    let machine = Machine::new();
    let places = machine.places();
    let set = |key: &str, value: &str| {
        cli::set(&places, Source::User, key, value, None).map_err(|error| error.to_string())
    };
    set("model", "opus").unwrap();
    set("language", "5").unwrap();
    set("cleanupPeriodDays", "7").unwrap();
    set("includeCoAuthoredBy", "false").unwrap();
    set("permissions.deny", r#"["Bash(rm *)"]"#).unwrap();
    set(r#"prices."some-model-4.5".input"#, "1.25").unwrap();
    set("env.PORT", "8080").unwrap();
    let got = |key: &str| cli::get(&resolved(&machine), key, Format::Text).unwrap();
    assert_eq!(got("model"), "opus");
    assert_eq!(got("language"), "5");
    assert_eq!(got("cleanupPeriodDays"), "7");
    assert_eq!(got("includeCoAuthoredBy"), "false");
    assert_eq!(got("permissions.deny"), "[\n  \"Bash(rm *)\"\n]");
    assert_eq!(got(r#"prices."some-model-4.5".input"#), "1.25");
    assert_eq!(
        cli::get(&resolved(&machine), "model", Format::Json).unwrap(),
        "\"opus\""
    );

    assert!(
        set("modle", "x")
            .unwrap_err()
            .contains("did you mean model?")
    );
    assert!(
        set("nothing.like.this", "x")
            .unwrap_err()
            .contains("lathe config schema")
    );
    assert!(
        set("cleanupPeriodDays", "soon")
            .unwrap_err()
            .contains("expected a whole number")
    );
    assert!(
        set("permissions.defaultMode", "yolo")
            .unwrap_err()
            .contains("\"acceptEdits\"")
    );
    assert!(
        set("permissions.allow", "Bash")
            .unwrap_err()
            .contains("[\"Bash\"]")
    );
    assert!(
        set("a..b", "x")
            .unwrap_err()
            .contains("is not a settings key")
    );
    assert!(
        cli::get(&resolved(&machine), "theme", Format::Text)
            .unwrap_err()
            .to_string()
            .contains("theme is not set")
    );
}

#[test]
fn scopes_choose_the_file_and_unset_finds_the_other_name() {
    let machine = Machine::new();
    let places = machine.places();
    cli::set(&places, Source::Project, "model", "opus", None).unwrap();
    cli::set(&places, Source::Local, "theme", "dark", None).unwrap();
    assert!(
        machine
            .read("home/project/.lathe/settings.json")
            .contains("opus")
    );
    assert!(
        machine
            .read("home/project/.lathe/settings.local.json")
            .contains("dark")
    );
    machine.write("home/.lathe/settings.json", r#"{"effortLevel": "high"}"#);
    assert_eq!(
        cli::get(&resolved(&machine), "effortLevel", Format::Text).unwrap(),
        "high"
    );
    assert!(
        cli::unset(&places, Source::User, "effort", None)
            .unwrap()
            .contains("is removed from")
    );
    assert!(
        cli::unset(&places, Source::User, "effort", None)
            .unwrap()
            .contains("was not set in")
    );
    assert_eq!(machine.read("home/.lathe/settings.json"), "{}");
    assert!(cli::set(&places, Source::Managed, "model", "x", None).is_err());
}

#[test]
fn listings_say_where_each_value_comes_from_and_hide_secrets() {
    let machine = Machine::new();
    machine.write(
        "home/.lathe/settings.json",
        "{\n  \"model\": \"opus\",\n  \"env\": {\"API_TOKEN\": \"hush\"}\n}",
    );
    let text = cli::list(&resolved(&machine), Format::Text);
    assert!(
        text.contains("model = \"opus\"  (user ") && text.contains("settings.json:2)"),
        "{text}"
    );
    assert!(
        text.contains("env.API_TOKEN") && !text.contains("hush"),
        "{text}"
    );
    let rows: Value = serde_json::from_str(&cli::list(&resolved(&machine), Format::Json)).unwrap();
    assert_eq!(rows[0]["key"], "model");
    assert_eq!(rows[0]["line"], 2);
    let paths = cli::paths(&machine.places(), &options(), Format::Text);
    assert!(
        paths.contains("managed-settings.json  (not there)"),
        "{paths}"
    );
    assert_eq!(
        cli::list(&Resolved::default(), Format::Text),
        "nothing is set\n"
    );
}

#[test]
fn the_doctor_names_every_problem_with_its_place_and_what_is_withheld() {
    let machine = Machine::new();
    machine.write(
        "home/.lathe/settings.json",
        "{\n  \"permisions\": {},\n  \"cleanupPeriodDays\": \"x\"\n}",
    );
    machine.write(
        "home/project/.claude/settings.json",
        r#"{"apiKeyHelper": "./x"}"#,
    );
    let untrusted = LoadOptions::default();
    let found = load(&machine.places(), &untrusted);
    let further = ["hooks.PreToolUse: bad matcher".to_owned()];
    let diagnosis = cli::doctor(
        &machine.places(),
        &untrusted,
        &found,
        &further,
        Format::Text,
    );
    assert!(!diagnosis.healthy);
    for expected in [
        "settings.json:3:3: cleanupPeriodDays: expected a whole number",
        "warning: ",
        "did you mean permissions?",
        "error: hooks.PreToolUse: bad matcher",
        "helper commands: apiKeyHelper: ./x",
    ] {
        assert!(
            diagnosis.text.contains(expected),
            "{expected} in {}",
            diagnosis.text
        );
    }
    let json: Value = serde_json::from_str(
        &cli::doctor(&machine.places(), &untrusted, &found, &[], Format::Json).text,
    )
    .unwrap();
    assert_eq!(json["healthy"], false);
    assert_eq!(json["problems"].as_array().unwrap().len(), 2);
    // A restriction in a file where it has no effect is as bad as one that can't be read.
    let lost = Machine::new();
    lost.write(
        "home/.lathe/settings.json",
        r#"{"allowManagedHooksOnly": true}"#,
    );
    let found = resolved(&lost);
    let diagnosis = cli::doctor(&lost.places(), &options(), &found, &[], Format::Text);
    assert!(!diagnosis.healthy, "{}", diagnosis.text);
    assert!(diagnosis.text.contains("a restriction is not in effect"));
    let healthy = Machine::new();
    assert!(
        cli::doctor(
            &healthy.places(),
            &options(),
            &resolved(&healthy),
            &[],
            Format::Text
        )
        .healthy
    );
}

#[test]
fn editing_makes_the_file_and_takes_the_persons_editor() {
    let machine = Machine::new();
    let variables = [("EDITOR".to_owned(), "nano -w".to_owned())]
        .into_iter()
        .collect();
    let places = machine.places_with("home/project", variables);
    let (editor, file) = cli::edit(&places, Source::User).unwrap();
    assert_eq!(editor, "nano -w");
    assert_eq!(file, machine.path("home/.lathe/settings.json"));
    assert!(
        machine
            .read("home/.lathe/settings.json")
            .contains("$schema")
    );
    assert_eq!(resolved(&machine).problems, []);
    assert!(cli::edit(&places, Source::Flag).is_err());
}

#[test]
fn variables_are_listed_with_their_values_and_secrets_are_not() {
    let machine = Machine::new();
    let variables = [
        ("ANTHROPIC_API_KEY", "sk-secret"),
        ("CLAUDE_CODE_MAX_RETRIES", "3"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into_iter()
    .collect();
    let places = machine.places_with("home/project", variables);
    let text = cli::environment(&places.environment, Format::Text);
    assert!(text.contains("set to (hidden)") && !text.contains("sk-secret"));
    assert!(text.contains("LATHE_MAX_RETRIES, CLAUDE_CODE_MAX_RETRIES"));
    assert!(text.contains("set to 3"));
    assert_eq!(places.environment.number(Variable::MaxRetries), Some(3));
    let json: Value =
        serde_json::from_str(&cli::environment(&places.environment, Format::Json)).unwrap();
    assert!(
        json.as_array()
            .unwrap()
            .iter()
            .any(|row| row["name"] == "MCP_TIMEOUT")
    );
    let mut names: Vec<&str> = Variable::ALL
        .iter()
        .flat_map(|variable| variable.declaration().names())
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "every name is declared once");
}

#[test]
fn trust_is_listed_given_and_taken() {
    let machine = Machine::new();
    let places = machine.places();
    let store = TrustStore::new(&places);
    machine.write(
        "home/project/.lathe/settings.json",
        r#"{"apiKeyHelper": "./x"}"#,
    );
    assert_eq!(
        cli::trust_list(&store, Format::Text).unwrap(),
        "no folder is remembered\n"
    );
    let text = cli::trust_add(&places, &store, ".".as_ref(), "now").unwrap();
    assert!(
        text.contains("is trusted from now on")
            && text.contains("helper commands: apiKeyHelper: ./x"),
        "{text}"
    );
    assert!(
        cli::trust_list(&store, Format::Text)
            .unwrap()
            .starts_with("trusted ")
    );
    std::fs::create_dir_all(machine.path("home/project/inner")).unwrap();
    let text = cli::trust_remove(&places, &store, "inner".as_ref()).unwrap();
    assert!(
        text.contains("was not remembered") && text.contains("a folder above it is trusted"),
        "{text}"
    );
    assert!(
        cli::trust_remove(&places, &store, ".".as_ref())
            .unwrap()
            .contains("is no longer trusted")
    );
    assert!(
        cli::trust_add(&places, &store, "missing".as_ref(), "now")
            .unwrap_err()
            .to_string()
            .contains("is not a folder")
    );
}
