//! Judging a shell command.

use crate::context::{CallFacts, PermissionContext};
use crate::order::{Findings, Question};
use crate::pattern::split_words;
use crate::ruleset::Rule;
use crate::suggest;
use lathe_protocol::permission::{Behavior, Decision, DecisionReason, RuleSource};

/// The verdict on a command.
pub(crate) fn decide(
    call: &CallFacts<'_>,
    command: &str,
    unsandboxed: bool,
    context: &PermissionContext,
) -> Decision {
    let names = call.names();
    let words = split_words(command).unwrap_or_default();
    let words: Vec<Option<&str>> = words.iter().map(|word| Some(word.as_str())).collect();
    let covers = |rule: &&Rule| {
        rule.covers_whole(&names)
            || rule
                .command()
                .is_some_and(|pattern| pattern.matches(&words))
    };
    let mut question = Question::other("the command can't be judged by itself");
    question.suggestions = vec![suggest::allow_rule(
        "Bash",
        Some(command.to_owned()),
        RuleSource::LocalSettings,
    )];
    let mut findings = Findings::new(question);
    findings.deny = context
        .rules
        .with(Behavior::Deny)
        .find(covers)
        .map(Rule::reason);
    findings.ask = context
        .rules
        .with(Behavior::Ask)
        .find(covers)
        .map(Rule::reason);
    findings.sandboxed =
        context.sandbox.bash_sandboxed && context.sandbox.auto_allow && !unsandboxed;
    findings.allow = context
        .rules
        .with(Behavior::Allow)
        .find(|rule| rule.covers_whole(&names))
        .map(Rule::reason);
    if unsandboxed && context.sandbox.bash_sandboxed {
        findings.question.reason = DecisionReason::SandboxOverride {
            reason: "the command asks to run outside the sandbox".to_owned(),
        };
    }
    findings.decide(context.mode)
}

/// The content of the rule that would allow a command.
pub(crate) fn rule_for(command: &str) -> Option<String> {
    Some(command.to_owned())
}
