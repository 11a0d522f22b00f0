//! Judging a shell command.
//!
//! The analyser says what would run; here each part gets its verdict and the strictest one wins.
//! A part is judged as a command (rules, read-only, mode) and by every file that it names: a redirection
//! is a write whatever command it hangs on, and a file that is read outside the roots asks however
//! harmless the reader is.
//!
//! - A deny rule matches through every wrapper, an allow rule only through harmless ones.
//! - An allow rule for a command covers the files that its words name, but not where its output goes,
//!   and not secrets. A rule that spells the whole command out covers all that, because the user
//!   has seen exactly this text.
//! - What isn't understood asks, and where a deny rule could be meant, even bypass mode asks.

mod bringers;
mod brought;
mod code;
mod danger;
mod found;
mod grant;
mod links;
mod nested;
mod operand;
mod part;
mod part_files;
mod runs;
mod services;
mod survey;

pub(crate) use brought::{Through, through_brought};
pub(crate) use links::MadeLinks;
pub(crate) use nested::shows_configuration;
pub(crate) use operand::{Expansion, folders_of, paths_of};
pub(crate) use survey::{Found, Survey, look_through, surveys_of};

use crate::context::{CallFacts, PermissionContext};
use crate::order::{Findings, Question, strictest};
use crate::pattern::exact_content;
use crate::ruleset::Rule;
use crate::suggest;
use lathe_protocol::permission::{Behavior, Decision, DecisionReason, RuleSource};
use lathe_shell::analysis::{Analysis, analyse, suggested_prefix};
use lathe_shell::syntax::ShellKind;
use part::judge_part;
use std::path::Path;
use std::sync::Arc;

/// One part of a command and what was decided about it.
#[derive(Debug, Clone, PartialEq)]
pub struct PartVerdict {
    /// Its text.
    pub text: String,
    /// The decision.
    pub decision: Decision,
}

/// A command, taken apart and judged.
#[derive(Debug, Clone)]
pub struct CommandVerdict {
    /// The analysis.
    pub analysis: Arc<Analysis>,
    /// Each part.
    pub parts: Vec<PartVerdict>,
    /// The verdict.
    pub decision: Decision,
}

/// The facts that the parts of one command share.
pub(crate) struct Judge<'a> {
    pub(crate) call: &'a CallFacts<'a>,
    pub(crate) context: &'a PermissionContext,
    pub(crate) command: &'a str,
    pub(crate) cwd: &'a Path,
    /// The command runs in the sandbox, and that is enough.
    pub(crate) sandboxed: bool,
    /// The command asks to leave the sandbox.
    pub(crate) leaves_sandbox: bool,
    /// An allow rule that spells out this whole command.
    pub(crate) exact: Option<&'a Rule>,
    /// An allow rule for every command.
    pub(crate) everything: Option<&'a Rule>,
    /// An ask rule for every command, or for this whole one.
    pub(crate) ask: Option<&'a Rule>,
}

/// The verdict on a command.
pub(crate) fn judge(
    call: &CallFacts<'_>,
    command: &str,
    cwd: &Path,
    unsandboxed: bool,
    context: &PermissionContext,
) -> CommandVerdict {
    let analysis = match call.resolved.analysis() {
        Some(analysis) => Arc::clone(analysis),
        None => Arc::new(analyse(command, context.shell)),
    };
    let mut names = call.names();
    names.push("Bash");
    let find = |behavior, wanted: &dyn Fn(&Rule) -> bool| {
        context.rules.with(behavior).find(|rule| wanted(rule))
    };
    let is_exact = |rule: &Rule| {
        rule.command()
            .is_some_and(|pattern| pattern.is_command(command))
    };
    let is_whole = |rule: &Rule| rule.covers_whole(&names);
    let in_sandbox = context.sandbox.holds(&analysis, unsandboxed, &context.home);
    let judge = Judge {
        call,
        context,
        command,
        cwd,
        sandboxed: in_sandbox && context.sandbox.auto_allow,
        leaves_sandbox: context.sandbox.bash_sandboxed && unsandboxed && !in_sandbox,
        exact: find(Behavior::Allow, &is_exact),
        everything: find(Behavior::Allow, &is_whole),
        ask: find(Behavior::Ask, &|rule| is_exact(rule) || is_whole(rule)),
    };
    let denied = find(Behavior::Deny, &|rule| is_exact(rule) || is_whole(rule));
    let parts: Vec<PartVerdict> = analysis
        .parts
        .iter()
        .map(|part| PartVerdict {
            text: part.text.clone(),
            decision: judge_part(&judge, part),
        })
        .collect();
    let decision = match denied {
        Some(rule) => Decision::Deny {
            reason: rule.reason(),
        },
        None => judge.combine(&analysis, &parts),
    };
    CommandVerdict {
        analysis,
        parts,
        decision,
    }
}

impl Judge<'_> {
    /// The verdict on the whole command from those on its parts.
    fn combine(&self, analysis: &Analysis, parts: &[PartVerdict]) -> Decision {
        let mut decisions: Vec<Decision> = Vec::with_capacity(parts.len() + 1);
        let several = parts.len() > 1;
        for part in parts {
            decisions.push(if several {
                in_context(part)
            } else {
                part.decision.clone()
            });
        }
        decisions.extend(self.as_a_whole(analysis));
        decisions.extend(self.through_links());
        if decisions.is_empty() {
            // Nothing runs: an empty command, or only comments.
            let reason = DecisionReason::Other {
                reason: "the command runs nothing".to_owned(),
            };
            let mut findings = Findings::new(Question::new(reason.clone()));
            findings.changes = false;
            findings.ask = self.ask.map(Rule::reason);
            findings.passes = Some(reason);
            return findings.decide(self.context.mode);
        }
        let mut decision = strictest(decisions).unwrap_or_else(|| self.as_unknown());
        self.fit_suggestions(&mut decision);
        decision
    }

    /// The objection to the command as a whole, beside its parts.
    fn as_a_whole(&self, analysis: &Analysis) -> Option<Decision> {
        let reason = match &analysis.understood {
            Err(problem) => format!("the command is not understood: {problem}"),
            Ok(()) => {
                let messages: Vec<&str> = analysis
                    .concerns
                    .iter()
                    .map(|concern| concern.message.as_str())
                    .collect();
                if messages.is_empty() {
                    return None;
                }
                format!("the command has {}", messages.join(", "))
            }
        };
        let mut question = Question::other(reason.clone());
        question.suggestions = self.exact_suggestion();
        let mut findings = self.findings(question);
        findings.allow = self.exact.or(self.everything).map(Rule::reason);
        if analysis.understood.is_err() {
            // Whatever a mode or a rule would let pass can stand in it.
            findings.unknown = self.exact.is_none().then(|| self.unknown(reason));
            self.guard_denials(&mut findings);
            if let Some(reason) = danger::danger_in_command(self) {
                findings.hard = Some(Question::new(DecisionReason::SafetyCheck { reason }));
            }
        }
        Some(findings.decide(self.context.mode))
    }

    /// The objection to a path that leads through a link which an earlier part may have brought.
    fn through_links(&self) -> Option<Decision> {
        let through = self.call.resolved.through()?;
        let reason = format!(
            "`{}` can lead anywhere: `{}` may have put a link there by then",
            through.path, through.by
        );
        let mut findings = self.findings(Question::other(reason.clone()));
        findings.unknown = self.exact.is_none().then(|| self.unknown(reason.clone()));
        findings.passes = Some(DecisionReason::Other { reason });
        Some(findings.decide(self.context.mode))
    }

    fn as_unknown(&self) -> Decision {
        self.findings(Question::other("the command can't be checked"))
            .decide(self.context.mode)
    }

    /// Findings with what holds for every part of the command.
    pub(crate) fn findings(&self, question: Question) -> Findings {
        let mut findings = Findings::new(question);
        findings.ask = self.ask.map(Rule::reason);
        findings.sandboxed = self.sandboxed;
        findings
    }

    /// Where it can't be said what runs, a deny rule whose words stand in the text may be meant; then
    /// neither a rule nor a mode lets it pass without the user.
    pub(crate) fn guard_denials(&self, findings: &mut Findings) {
        let meant = self.context.rules.with(Behavior::Deny).find(|rule| {
            rule.command().is_some_and(|pattern| {
                pattern
                    .leading_words()
                    .first()
                    .is_some_and(|word| self.command.contains(word))
            })
        });
        if let Some(rule) = meant {
            let reason = format!("the rule {} may deny what this would run", rule.text());
            findings
                .hard
                .get_or_insert(Question::new(DecisionReason::SafetyCheck { reason }));
        }
    }

    /// The suggestion that always works: exactly this command.
    pub(crate) fn exact_suggestion(&self) -> Vec<lathe_protocol::permission::PermissionUpdate> {
        let content = exact_content(self.command);
        if content.is_empty() {
            return Vec::new();
        }
        vec![suggest::allow_rule(
            "Bash",
            Some(content),
            RuleSource::LocalSettings,
        )]
    }

    /// The question about what can't be known; only a rule that spells the command out settles it.
    pub(crate) fn unknown(&self, reason: String) -> Question {
        let mut question = Question::new(DecisionReason::SafetyCheck { reason });
        question.suggestions = self.exact_suggestion();
        question
    }

    /// If one of the suggestions is the whole command, no other rule for commands is needed.
    fn fit_suggestions(&self, decision: &mut Decision) {
        use lathe_protocol::permission::PermissionUpdate::AddRules;
        let Decision::Ask { suggestions, .. } = decision else {
            return;
        };
        let exact = exact_content(self.command);
        for update in suggestions {
            if let AddRules { rules, .. } = update
                && rules.len() > 1
                && rules.iter().any(|rule| {
                    rule.tool_name == "Bash" && rule.rule_content.as_deref() == Some(&exact)
                })
            {
                rules.retain(|rule| {
                    rule.tool_name != "Bash" || rule.rule_content.as_deref() == Some(&exact)
                });
            }
        }
    }
}

/// A part's decision as that of a command with several parts: the reason names the part. Rules and
/// safety checks keep their own kind.
fn in_context(part: &PartVerdict) -> Decision {
    let mut decision = part.decision.clone();
    if let Decision::Ask { reason, .. } | Decision::Deny { reason } = &mut decision
        && matches!(
            reason,
            DecisionReason::Other { .. } | DecisionReason::WorkingDirectory { .. }
        )
    {
        *reason = DecisionReason::SubcommandResults {
            part: part.text.clone(),
            reason: reason.text(),
        };
    }
    decision
}

/// The content of the rule that would allow a command, for the text of a denial: the prefix of the
/// first part that needs one, or the command itself.
pub(crate) fn rule_for(command: &str) -> Option<String> {
    if command.trim().is_empty() {
        return None;
    }
    let analysis = analyse(command, ShellKind::Bash);
    let asking: Vec<_> = analysis
        .parts
        .iter()
        .filter(|part| !part.read_only.is_yes())
        .collect();
    match asking.as_slice() {
        [part] if analysis.understood.is_ok() && part.can_be_allowed => {
            match suggested_prefix(&part.effective_argv) {
                Some(words) => Some(format!("{}:*", words.join(" "))),
                None => Some(exact_content(command)),
            }
        }
        _ => Some(exact_content(command)),
    }
}
