//! Changing files without disturbing them.

use crate::{Machine, git};
use lathe_protocol::permission::{
    Behavior, PermissionMode, PermissionUpdate, RuleSource, RuleValue,
};
use lathe_settings::write::{
    Edit, OwnWrites, WriteError, patch, rule_text, save_update, write, write_file,
};
use lathe_settings::{KeyPath, LoadOptions, Source, Trust, load};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

fn key(text: &str) -> KeyPath {
    text.parse().unwrap()
}

fn set(text: &str, name: &str, value: Value) -> String {
    patch(
        text,
        &[Edit::Set {
            key: key(name),
            value,
        }],
    )
    .unwrap()
}

#[test]
fn a_change_leaves_comments_order_and_indentation_alone() {
    let text = "// mine\n{\n\t\"theme\": \"dark\", // easy on the eyes\n\t/* rules */ \"permissions\": {\n\t\t\"allow\": [\n\t\t\t\"Read\", // always\n\t\t],\n\t},\n\t\"model\":\"opus\"\n}\n// end\n";
    assert_eq!(
        set(text, "model", json!("haiku")),
        text.replace("\"opus\"", "\"haiku\"")
    );
    assert_eq!(set(text, "theme", json!("dark")), text, "nothing to change");
    let added = patch(
        text,
        &[Edit::Add {
            key: key("permissions.allow"),
            items: vec![json!("Glob"), json!("Read")],
        }],
    )
    .unwrap();
    assert_eq!(
        added,
        text.replace(
            "\"Read\", // always\n",
            "\"Read\", // always\n\t\t\t\"Glob\",\n"
        )
    );
    let removed = patch(
        &added,
        &[Edit::Remove {
            key: key("permissions.allow"),
            items: vec![json!("Glob")],
        }],
    )
    .unwrap();
    assert_eq!(removed, text);
}

#[test]
fn removing_a_key_keeps_the_comments_of_its_neighbours() {
    let text = "{\n  // about a\n  \"a\": 1, // more about a\n  // about b\n  \"b\": 2,\n  /* about c */\n  \"c\": 3 // last\n}\n";
    let without = patch(text, &[Edit::Unset { key: key("b") }]).unwrap();
    for comment in ["// about a", "// more about a", "/* about c */", "// last"] {
        assert!(without.contains(comment), "{comment} in {without}");
    }
    assert_eq!(parsed(&without), json!({"a": 1, "c": 3}));
    let without = patch(text, &[Edit::Unset { key: key("c") }]).unwrap();
    assert!(
        without.contains("// about b") && without.contains("// more about a"),
        "{without}"
    );
    assert_eq!(parsed(&without), json!({"a": 1, "b": 2}));
}

#[test]
fn a_new_file_gets_a_plain_shape() {
    let text = patch(
        "",
        &[
            Edit::Set {
                key: key("model"),
                value: json!("opus"),
            },
            Edit::Add {
                key: key("permissions.allow"),
                items: vec![json!("Bash(ls:*)"), json!("Read")],
            },
        ],
    )
    .unwrap();
    assert_eq!(
        text,
        "{\n  \"model\": \"opus\",\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(ls:*)\",\n      \"Read\"\n    ]\n  }\n}\n"
    );
}

#[test]
fn what_stands_in_the_way_is_named_and_nothing_is_written() {
    let error = patch(
        r#"{"permissions": "none"}"#,
        &[Edit::Add {
            key: key("permissions.allow"),
            items: vec![json!("x")],
        }],
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "permissions is not an object in this file; fix it manually; nothing was written"
    );
    let error = patch(
        r#"{"permissions": {"allow": "x"}}"#,
        &[Edit::Add {
            key: key("permissions.allow"),
            items: vec![json!("x")],
        }],
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("permissions.allow is not a list"),
        "{error}"
    );
    assert!(matches!(
        patch("{\"a\": ", &[]),
        Err(WriteError::Broken { .. })
    ));
    assert_eq!(
        set(
            r#"{"permissions": null}"#,
            "permissions.defaultMode",
            json!("plan")
        )
        .matches("plan")
        .count(),
        1
    );
}

#[test]
fn of_two_equal_keys_the_one_that_counts_is_changed() {
    assert_eq!(
        set(r#"{"model": "a", "model": "b"}"#, "model", json!("c")),
        r#"{"model": "a", "model": "c"}"#
    );
}

/// JSON with comments, blanks and trailing commas in odd places.
fn any_document() -> impl Strategy<Value = String> {
    let trivia = prop_oneof![
        4 => Just(String::new()),
        3 => Just(" ".to_owned()),
        2 => Just("\n  ".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => Just(" // note\n".to_owned()),
        1 => Just(" /* a, b: {} */ ".to_owned()),
    ];
    let scalar = prop_oneof![
        Just("true".to_owned()),
        Just("null".to_owned()),
        Just("-1.5e3".to_owned()),
        Just("\"t\\u00e9 \\\"x\\\" // no\"".to_owned()),
        Just("\"ü\"".to_owned())
    ];
    let value = scalar.prop_recursive(2, 12, 3, {
        let trivia = trivia.clone();
        move |inner| {
            let element = (trivia.clone(), inner.clone(), trivia.clone())
                .prop_map(|(a, v, b)| format!("{a}{v}{b}"));
            let named = (
                trivia.clone(),
                0..6_u8,
                trivia.clone(),
                inner,
                trivia.clone(),
            )
                .prop_map(|(a, n, b, v, c)| format!("{a}\"n{n}\":{b}{v}{c}"));
            prop_oneof![
                prop::collection::vec(element, 0..4)
                    .prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(named, 0..4)
                    .prop_map(|fields| format!("{{{}}}", fields.join(","))),
            ]
        }
    });
    let field = (trivia.clone(), trivia.clone(), value, trivia.clone());
    (
        trivia.clone(),
        prop::collection::vec(field, 1..5),
        prop::bool::ANY,
        trivia,
    )
        .prop_map(|(before, fields, comma, after)| {
            let fields: Vec<String> = fields
                .into_iter()
                .enumerate()
                .map(|(number, (a, b, value, c))| format!("{a}\"key{number}\":{b}{value}{c}"))
                .collect();
            format!(
                "{before}{{{}{}}}{after}",
                fields.join(","),
                if comma { "," } else { "" }
            )
        })
}

fn parsed(text: &str) -> Value {
    jsonc_parser::parse_to_serde_value(text, &jsonc_parser::ParseOptions::default()).unwrap()
}

/// Where the value of a top-level key stands.
fn value_range(text: &str, name: &str) -> std::ops::Range<usize> {
    use jsonc_parser::common::Ranged as _;
    let options = jsonc_parser::ParseOptions::default();
    let ast = jsonc_parser::parse_to_ast(text, &jsonc_parser::CollectOptions::default(), &options)
        .unwrap();
    let root = ast.value.unwrap();
    let range = root.as_object().unwrap().get(name).unwrap().value.range();
    range.start..range.end
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replacing_a_value_touches_no_other_byte(text in any_document(), value in prop_oneof![Just(json!("NEW")), Just(json!(7)), Just(json!([])), Just(json!(false))]) {
        let range = value_range(&text, "key0");
        let expected = if parsed(&text)["key0"] == value {
            text.clone()
        } else {
            format!("{}{value}{}", &text[..range.start], &text[range.end..])
        };
        prop_assert_eq!(set(&text, "key0", value), expected);
    }

    #[test]
    fn adding_a_key_only_inserts(text in any_document()) {
        let mut expected = parsed(&text);
        expected["added"] = json!("x");
        let patched = set(&text, "added", json!("x"));
        prop_assert_eq!(parsed(&patched), expected);
        let kept: String = patched.chars().filter(|character| !character.is_whitespace()).collect();
        let old: String = text.chars().filter(|character| !character.is_whitespace()).collect();
        prop_assert!(is_subsequence(&old, &kept), "{text}\n{patched}");
    }

    #[test]
    fn setting_and_unsetting_gives_the_same_content_back(text in any_document()) {
        let patched = set(&text, "added.inner", json!([1, 2]));
        let back = patch(&patched, &[Edit::Unset { key: key("added") }]).unwrap();
        prop_assert_eq!(parsed(&back), parsed(&text));
    }

    #[test]
    fn no_text_makes_patching_panic(text in "\\PC{0,60}") {
        let _ = patch(&text, &[Edit::Set { key: key("a.b"), value: json!(1) }, Edit::Unset { key: key("c") }]);
    }
}

fn is_subsequence(small: &str, large: &str) -> bool {
    let mut rest = large.chars();
    small
        .chars()
        .all(|wanted| rest.any(|found| found == wanted))
}

#[test]
fn a_file_keeps_its_mode_and_a_link_stays_a_link() {
    let machine = Machine::new();
    let real = machine.write("dotfiles/settings.json", "{ \"theme\": \"dark\" }\n");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir_all(machine.path("home/.lathe")).unwrap();
    std::os::unix::fs::symlink(
        "../../dotfiles/settings.json",
        machine.path("home/.lathe/settings.json"),
    )
    .unwrap();
    write(
        &machine.places(),
        Source::User,
        &[Edit::Set {
            key: key("theme"),
            value: json!("light"),
        }],
        None,
    )
    .unwrap();
    assert_eq!(
        machine.read("dotfiles/settings.json"),
        "{ \"theme\": \"light\" }\n"
    );
    assert!(machine.path("home/.lathe/settings.json").is_symlink());
    assert_eq!(
        fs::metadata(&real).unwrap().permissions().mode() & 0o777,
        0o640
    );
}

#[test]
fn a_link_to_a_file_that_is_not_there_yet_makes_that_file() {
    let machine = Machine::new();
    fs::create_dir_all(machine.path("home/.lathe")).unwrap();
    std::os::unix::fs::symlink(
        machine.path("elsewhere.json"),
        machine.path("home/.lathe/settings.json"),
    )
    .unwrap();
    write(
        &machine.places(),
        Source::User,
        &[Edit::Set {
            key: key("theme"),
            value: json!("dark"),
        }],
        None,
    )
    .unwrap();
    assert!(machine.read("elsewhere.json").contains("dark"));
}

#[test]
fn policy_and_flags_are_never_written() {
    let machine = Machine::new();
    for source in [Source::Managed, Source::Flag] {
        let error = write(&machine.places(), source, &[], None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("never written"), "{error}");
    }
}

#[test]
fn a_broken_file_is_left_as_it_is_and_named() {
    let machine = Machine::new();
    machine.write("home/.lathe/settings.json", "{\n  oops\n}");
    let edits = [Edit::Set {
        key: key("model"),
        value: json!("x"),
    }];
    let error = write(&machine.places(), Source::User, &edits, None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("home/.lathe/settings.json:2:3"), "{error}");
    assert_eq!(machine.read("home/.lathe/settings.json"), "{\n  oops\n}");
}

#[test]
fn writers_at_the_same_time_all_get_their_change_in() {
    let machine = Machine::new();
    let file = machine.path("home/.lathe/settings.json");
    std::thread::scope(|scope| {
        for number in 0..24 {
            let file = file.clone();
            scope.spawn(move || {
                let edit = Edit::Add {
                    key: key("permissions.allow"),
                    items: vec![json!(format!("Tool{number}"))],
                };
                write_file(&file, &[edit], 0o600, None).unwrap();
            });
        }
    });
    let resolved = load(&machine.places(), &LoadOptions::default());
    assert_eq!(resolved.problems, []);
    assert_eq!(resolved.rules().len(), 24);
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let left: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary or lock file is left");
}

#[test]
fn local_settings_are_kept_out_of_git_once() {
    let machine = Machine::new();
    let project = machine.path("home/project");
    git(&project, &["init", "-q"]);
    for theme in ["dark", "light"] {
        write(
            &machine.places(),
            Source::Local,
            &[Edit::Set {
                key: key("theme"),
                value: json!(theme),
            }],
            None,
        )
        .unwrap();
    }
    machine.write("home/project/.lathe/settings.json", "{}");
    let status = git(
        &project,
        &["status", "--porcelain", "--untracked-files=all"],
    );
    assert_eq!(status, "?? .lathe/settings.json\n");
    let exclude = machine.read("home/project/.git/info/exclude");
    assert_eq!(exclude.matches("settings.local.json").count(), 1);
}

#[test]
fn local_settings_of_a_worktree_are_kept_out_of_git_too() {
    let machine = Machine::new();
    let project = machine.path("home/project");
    git(&project, &["init", "-q"]);
    git(
        &project,
        &[
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@x",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "x",
        ],
    );
    git(&project, &["worktree", "add", "-q", "../tree"]);
    let places = machine.places_at("home/tree");
    write(
        &places,
        Source::Local,
        &[Edit::Set {
            key: key("theme"),
            value: json!("dark"),
        }],
        None,
    )
    .unwrap();
    assert_eq!(
        git(
            &machine.path("home/tree"),
            &["status", "--porcelain", "--untracked-files=all"]
        ),
        ""
    );
}

fn rule(tool: &str, content: Option<&str>) -> RuleValue {
    RuleValue {
        tool_name: tool.into(),
        rule_content: content.map(str::to_owned),
    }
}

#[test]
fn permission_updates_go_where_they_say() {
    let machine = Machine::new();
    let places = machine.places();
    let own = OwnWrites::default();
    let save = |update: PermissionUpdate| save_update(&places, &update, Some(&own)).unwrap();
    let rules = vec![rule("Bash", Some("npm test:*")), rule("Read", None)];
    save(PermissionUpdate::AddRules {
        rules: rules.clone(),
        behavior: Behavior::Allow,
        destination: RuleSource::LocalSettings,
    });
    save(PermissionUpdate::AddRules {
        rules: vec![rule("Bash", Some("python -c \"print(1)\""))],
        behavior: Behavior::Deny,
        destination: RuleSource::LocalSettings,
    });
    save(PermissionUpdate::RemoveRules {
        rules: vec![rule("Read", None)],
        behavior: Behavior::Allow,
        destination: RuleSource::LocalSettings,
    });
    save(PermissionUpdate::SetMode {
        mode: PermissionMode::AcceptEdits,
        destination: RuleSource::LocalSettings,
    });
    save(PermissionUpdate::AddDirectories {
        directories: vec!["/a".into(), "/b".into()],
        destination: RuleSource::UserSettings,
    });
    save(PermissionUpdate::RemoveDirectories {
        directories: vec!["/a".into()],
        destination: RuleSource::UserSettings,
    });
    save(PermissionUpdate::ReplaceRules {
        rules: vec![rule("Glob", None)],
        behavior: Behavior::Ask,
        destination: RuleSource::ProjectSettings,
    });
    assert_eq!(
        save(PermissionUpdate::SetMode {
            mode: PermissionMode::Plan,
            destination: RuleSource::Session
        }),
        None
    );
    let local: Value =
        serde_json::from_str(&machine.read("home/project/.lathe/settings.local.json")).unwrap();
    assert_eq!(
        local,
        json!({"permissions": {"allow": ["Bash(npm test:*)"], "deny": ["Bash(python -c \"print\\(1\\)\")"], "defaultMode": "acceptEdits"}})
    );
    let user: Value = serde_json::from_str(&machine.read("home/.lathe/settings.json")).unwrap();
    assert_eq!(
        user,
        json!({"permissions": {"additionalDirectories": ["/b"]}})
    );
    let resolved = load(
        &places,
        &LoadOptions {
            trust: Trust::Trusted,
            ..LoadOptions::default()
        },
    );
    assert_eq!(resolved.settings.permissions.unwrap().ask, ["Glob"]);
    assert_eq!(
        rule_text(&rule("Bash", Some(r"a\b(c)"))),
        r"Bash(a\\b\(c\))"
    );
}

#[test]
fn a_folder_can_not_lead_what_is_saved_for_it_into_the_persons_own_settings() {
    let machine = Machine::new();
    let own = machine.write("home/.lathe/settings.json", "{}");
    fs::create_dir_all(machine.path("home/project/.lathe")).unwrap();
    let link = machine.path("home/project/.lathe/settings.local.json");
    let edits = [Edit::Add {
        key: key("permissions.allow"),
        items: vec![json!("Bash")],
    }];
    for target in [own, machine.path("home/.lathe/not-there-yet.json")] {
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let error = write(&machine.places(), Source::Local, &edits, None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("is a link into"), "{error}");
        fs::remove_file(&link).unwrap();
    }
    assert_eq!(machine.read("home/.lathe/settings.json"), "{}");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&link)
            .status()
            .unwrap()
            .success()
    );
    let error = write(&machine.places(), Source::Local, &edits, None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("is not a file"), "{error}");
}
