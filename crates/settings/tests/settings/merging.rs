//! Properties of merging and validation that hold for any content.

use lathe_settings::merge::{Merged, merge};
use lathe_settings::schema::Settings;
use lathe_settings::validate::validate;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Objects with few names, so that layers collide often.
fn any_object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (0..4_i32).prop_map(Value::from),
        "[ab]".prop_map(Value::from),
    ];
    let names = prop_oneof![
        Just("model"),
        Just("permissions"),
        Just("allow"),
        Just("fallbackModel"),
        Just("availableModels"),
        Just("x")
    ];
    let inner = leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((names.clone(), inner), 0..4).prop_map(object),
        ]
    });
    let names = prop_oneof![
        Just("model"),
        Just("permissions"),
        Just("allow"),
        Just("fallbackModel"),
        Just("availableModels"),
        Just("x")
    ];
    prop::collection::vec((names, inner), 0..5).prop_map(object)
}

fn object(fields: Vec<(&'static str, Value)>) -> Value {
    Value::Object(
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

/// Settings-shaped values: real keys with fitting and unfitting values.
fn any_settings() -> impl Strategy<Value = Value> {
    let keys: Vec<String> = lathe_settings::schema::json_schema()["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .chain(["unknownKey".to_owned()])
        .collect();
    let value = prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        Just(json!(3)),
        Just(json!(0.5)),
        Just(json!("text")),
        Just(json!("high")),
        Just(json!(["a", "b"])),
        Just(json!([1, {"type": "command", "command": "x"}])),
        Just(
            json!({"allow": ["Bash"], "deny": 5, "type": "command", "command": "x", "enabled": "no"})
        ),
        Just(
            json!({"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "x", "timeout": "1"}]}, 4]})
        ),
        Just(
            json!({"filesystem": {"denyRead": ["a", 1]}, "network": [], "a": {"type": "openai", "input": "x"}})
        ),
    ];
    prop::collection::vec((prop::sample::select(keys), value), 0..8)
        .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merging_is_associative(a in any_object(), b in any_object(), c in any_object()) {
        let [a, b, c] = [a, b, c].map(|value| Merged::of(&value));
        let left = a.clone().under(b.clone()).under(c.clone());
        let right = a.under(b.under(c));
        prop_assert_eq!(left.into_value(), right.into_value());
    }

    #[test]
    fn merging_a_layer_with_itself_changes_nothing(a in any_object()) {
        prop_assert_eq!(merge([&a, &a]), merge([&a]));
        let once = merge([&a]);
        prop_assert_eq!(merge([&once]), once);
    }

    #[test]
    fn an_empty_layer_anywhere_changes_nothing(a in any_object(), b in any_object()) {
        let empty = json!({});
        prop_assert_eq!(merge([&empty, &a, &empty, &b, &empty]), merge([&a, &b]));
    }

    #[test]
    fn what_validation_keeps_always_fits_the_types_and_validates_again(value in any_settings()) {
        let (kept, _) = validate(&value);
        prop_assert!(serde_json::from_value::<Settings>(merge([&kept])).is_ok(), "{kept}");
        let (again, findings) = validate(&kept);
        prop_assert_eq!(again, kept);
        prop_assert!(findings.iter().all(|finding| matches!(finding.kind, lathe_settings::validate::FindingKind::Unknown { .. })), "{:?}", findings);
    }

    #[test]
    fn a_weaker_source_never_removes_a_deny_rule(weak in any_settings(), rule in "[A-Z][a-z]{1,5}") {
        let strong = json!({"permissions": {"deny": [rule]}});
        let (weak, _) = validate(&weak);
        let merged = merge([&weak, &strong]);
        let denied = merged["permissions"]["deny"].as_array().unwrap();
        prop_assert!(denied.contains(&json!(rule)));
    }

    #[test]
    fn an_untrusted_folder_keeps_its_denials_and_gains_nothing(value in any_settings()) {
        let (value, _) = validate(&value);
        let (kept, _) = lathe_settings::trust::withhold(&value);
        for grant in ["/hooks", "/apiKeyHelper", "/statusLine", "/permissions/allow", "/permissions/additionalDirectories", "/mcpServers", "/providers"] {
            prop_assert!(kept.pointer(grant).is_none(), "{grant} in {kept}");
        }
        prop_assert_eq!(kept.pointer("/permissions/deny"), value.pointer("/permissions/deny"));
        let (again, held) = lathe_settings::trust::withhold(&kept);
        prop_assert_eq!(again, kept);
        prop_assert!(held.is_empty(), "{:?}", held);
    }
}

#[test]
fn lists_unite_objects_merge_and_scalars_take_the_strongest() {
    let user = json!({"model": "haiku", "permissions": {"allow": ["Read", "Glob"], "deny": ["Bash"]}, "env": {"A": "1", "B": "1"}});
    let project =
        json!({"model": "opus", "permissions": {"allow": ["Glob", "Grep"]}, "env": {"B": "2"}});
    let local = json!({"env": {"A": null}, "fallbackModel": ["sonnet"]});
    assert_eq!(
        merge([&user, &project, &local]),
        json!({
            "model": "opus",
            "permissions": {"allow": ["Read", "Glob", "Grep"], "deny": ["Bash"]},
            "env": {"B": "2"},
            "fallbackModel": ["sonnet"]
        })
    );
}

#[test]
fn a_restricting_list_of_a_stronger_source_is_not_widened_by_a_weaker_one() {
    let user = json!({"availableModels": ["opus"], "allowedMcpServers": [{"serverName": "x"}], "fallbackModel": ["a"]});
    let managed =
        json!({"availableModels": ["haiku"], "allowedMcpServers": [], "fallbackModel": ["b"]});
    assert_eq!(merge([&user, &managed]), managed);
}
