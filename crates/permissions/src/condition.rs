//! Whether a call is one that a rule describes: the `if` of a hook.

use crate::context::{CallFacts, PermissionContext};
use crate::rule::parse_rule;
use crate::ruleset::{Rule, RuleSet};
use lathe_protocol::permission::{Behavior, Decision, DecisionReason, PermissionMode, RuleSource};

/// How much of a call a rule describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleMatch {
    /// Nothing of it. Also of a rule that is invalid.
    None,
    /// Something: one part of a command, one of several files, or what a wrapper runs.
    Part,
    /// All of it, apart from what needs no rule.
    Whole,
}

/// Compares a call with a rule as the decision does: [`RuleMatch::Part`] is where a deny rule would apply, and
/// [`RuleMatch::Whole`] where an allow rule would.
#[must_use]
pub fn rule_match(rule: &str, call: &CallFacts<'_>, context: &PermissionContext) -> RuleMatch {
    let Ok(value) = parse_rule(rule) else {
        return RuleMatch::None;
    };
    let judged = |behavior| {
        let anchors = context.anchors(RuleSource::Session);
        let rule = Rule::new(value.clone(), behavior, RuleSource::Session, &anchors).ok()?;
        let mut only = context.clone();
        only.mode = PermissionMode::Default;
        only.rules = RuleSet::default();
        only.rules.add(rule);
        Some(crate::decision::judge(call, &only))
    };
    let applies = match judged(Behavior::Deny) {
        Some(Decision::Deny {
            reason: DecisionReason::Rule { .. },
        }) => true,
        // The words of a command are not known, and the rule may be meant.
        Some(Decision::Ask {
            reason: DecisionReason::SafetyCheck { reason },
            hard: true,
            ..
        }) => reason.contains("the rule "),
        _ => false,
    };
    if !applies {
        return RuleMatch::None;
    }
    match judged(Behavior::Allow) {
        Some(Decision::Allow { .. }) => RuleMatch::Whole,
        _ => RuleMatch::Part,
    }
}
