//! Merging what hooks say: properties that hold for any answers.

use lathe_hooks::answer::{HookAnswer, HookDecision, merge, parse};
use lathe_protocol::hook::HookEvent;
use lathe_protocol::permission::PermissionReply;
use proptest::prelude::*;

fn any_answer() -> impl Strategy<Value = HookAnswer> {
    let decision = prop::option::of(prop_oneof![
        Just(HookDecision::Allow),
        Just(HookDecision::Ask),
        Just(HookDecision::Defer),
        Just(HookDecision::Deny)
    ]);
    let reply = prop::option::of(prop_oneof![
        Just(PermissionReply::allow()),
        Just(PermissionReply::deny("no"))
    ]);
    let text = || prop::option::of("[a-c]");
    (
        decision,
        reply,
        text(),
        text(),
        text(),
        text(),
        any::<bool>(),
    )
        .prop_map(
            |(
                decision,
                permission_reply,
                block,
                stop,
                additional_context,
                input,
                suppress_output,
            )| HookAnswer {
                hook: "h".into(),
                permission: decision.map(|decision| (decision, None)),
                permission_reply,
                block,
                stop,
                additional_context,
                updated_input: input.map(|input| serde_json::json!({"command": input})),
                suppress_output,
                ..HookAnswer::default()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_strictest_voice_is_never_lost(answers in prop::collection::vec(any_answer(), 0..6)) {
        let outcome = merge(answers.clone());
        let strictest = answers.iter().filter_map(|answer| answer.permission.as_ref().map(|(decision, _)| *decision)).max();
        prop_assert_eq!(outcome.permission.map(|voice| voice.decision), strictest);
        let refused = answers.iter().any(|answer| matches!(answer.permission_reply, Some(PermissionReply::Deny { .. })));
        prop_assert_eq!(matches!(outcome.permission_reply, Some(PermissionReply::Deny { .. })), refused);
        prop_assert_eq!(outcome.block.is_some(), answers.iter().any(|answer| answer.block.is_some()));
        prop_assert_eq!(outcome.stop.is_some(), answers.iter().any(|answer| answer.stop.is_some()));
    }

    #[test]
    fn order_decides_only_between_replacements(answers in prop::collection::vec(any_answer(), 0..6)) {
        let forward = merge(answers.clone());
        let backward = merge(answers.iter().rev().cloned().collect());
        prop_assert_eq!(forward.permission.map(|voice| voice.decision), backward.permission.map(|voice| voice.decision));
        prop_assert_eq!(forward.suppress_output, backward.suppress_output);
        let last = answers.iter().rev().find_map(|answer| answer.updated_input.clone());
        prop_assert_eq!(forward.updated_input, last);
        let contexts: Vec<String> = answers.iter().filter_map(|answer| answer.additional_context.clone()).collect();
        prop_assert_eq!(forward.additional_context, contexts);
    }

    #[test]
    fn no_output_makes_reading_panic_and_only_exit_code_zero_can_allow(
        code in prop::option::of(-1..200_i32), stdout in "\\PC{0,80}", stderr in "\\PC{0,40}", number in 0..HookEvent::ALL.len()
    ) {
        let event = HookEvent::ALL[number];
        let answer = parse(event, "h", code, &stdout, &stderr);
        if code != Some(0) {
            prop_assert!(!matches!(answer.permission, Some((HookDecision::Allow, _))));
            let approved = matches!(answer.permission_reply, Some(PermissionReply::Allow { .. }));
            prop_assert!(!approved);
            prop_assert!(answer.updated_input.is_none());
        }
    }

    #[test]
    fn a_cut_answer_never_allows(at in 0..200_usize) {
        let whole = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"ls"}}}"#;
        let cut = &whole[..at.min(whole.len() - 1)];
        let answer = parse(HookEvent::PreToolUse, "h", Some(0), cut, "");
        prop_assert_eq!(answer.permission, None);
        prop_assert_eq!(answer.updated_input, None);
    }
}
