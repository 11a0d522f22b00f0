//! The order in which a decision is made, as one small function.
//!
//! Each check of a call (a path, a part of a command, an address) collects [`Findings`]; this module
//! turns them into a verdict, always in the same order: deny rule, refusal, hard safety check, ask
//! rule, what the tool may always do, mode, allow rule, question. Where several things are touched at
//! once, each gets its verdict and the [`strictest`] one wins.

use lathe_protocol::permission::{Decision, DecisionReason, PermissionMode, PermissionUpdate};
use std::path::PathBuf;

/// The question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    pub(crate) reason: DecisionReason,
    pub(crate) suggestions: Vec<PermissionUpdate>,
    pub(crate) blocked_path: Option<PathBuf>,
}

impl Question {
    pub(crate) fn new(reason: DecisionReason) -> Self {
        Self {
            reason,
            suggestions: Vec::new(),
            blocked_path: None,
        }
    }

    pub(crate) fn other(reason: impl Into<String>) -> Self {
        Self::new(DecisionReason::Other {
            reason: reason.into(),
        })
    }
}

/// Everything that speaks for and against one thing that a call touches.
#[derive(Debug, Clone)]
pub(crate) struct Findings {
    /// A deny rule.
    pub(crate) deny: Option<DecisionReason>,
    /// It can't be judged and nobody's word would help (a path that could be anything).
    pub(crate) refused: Option<DecisionReason>,
    /// A hard safety check: the user must say it, each time.
    pub(crate) hard: Option<Question>,
    /// It can't be known what it does: no mode, general rule or hook lets it pass, so the user must say it.
    pub(crate) unknown: Option<Question>,
    /// An ask rule.
    pub(crate) ask: Option<DecisionReason>,
    /// Fine by itself (a read inside the roots).
    pub(crate) passes: Option<DecisionReason>,
    /// It changes something: plan mode refuses it.
    pub(crate) changes: bool,
    /// A file change inside the roots, which acceptEdits lets pass.
    pub(crate) edit_in_roots: bool,
    /// It runs in the sandbox, and that is enough.
    pub(crate) sandboxed: bool,
    /// An allow rule.
    pub(crate) allow: Option<DecisionReason>,
    /// The question.
    pub(crate) question: Question,
}

impl Findings {
    pub(crate) fn new(question: Question) -> Self {
        Self {
            deny: None,
            refused: None,
            hard: None,
            unknown: None,
            ask: None,
            passes: None,
            changes: true,
            edit_in_roots: false,
            sandboxed: false,
            allow: None,
            question,
        }
    }

    /// The verdict.
    pub(crate) fn decide(mut self, mode: PermissionMode) -> Decision {
        // What can't be known is bounded by the sandbox, if it runs there.
        let unknown = self.unknown.take().filter(|_| !self.sandboxed);
        let changes = self.changes;
        match (self.decide_as_known(mode), unknown) {
            // The same question with and without a rule, or a rule would take a hook's answer away.
            (Decision::Allow { .. } | Decision::Ask { hard: false, .. }, Some(question)) => {
                ask(question, true, mode, changes)
            }
            (decision, _) => decision,
        }
    }

    fn decide_as_known(self, mode: PermissionMode) -> Decision {
        if let Some(reason) = self.deny.or(self.refused) {
            return Decision::Deny { reason };
        }
        let changes = self.changes;
        if let Some(question) = self.hard {
            return ask(question, true, mode, changes);
        }
        if let Some(reason) = self.ask
            && !self.sandboxed
        {
            return ask(Question::new(reason), false, mode, changes);
        }
        if let Some(reason) = self.passes {
            return Decision::Allow { reason };
        }
        match mode {
            PermissionMode::Plan if changes => {
                return Decision::Deny {
                    reason: DecisionReason::Mode { mode },
                };
            }
            PermissionMode::BypassPermissions => {
                return Decision::Allow {
                    reason: DecisionReason::Mode { mode },
                };
            }
            PermissionMode::AcceptEdits | PermissionMode::Auto if self.edit_in_roots => {
                return Decision::Allow {
                    reason: DecisionReason::Mode {
                        mode: PermissionMode::AcceptEdits,
                    },
                };
            }
            _ => {}
        }
        if self.sandboxed {
            let reason = "runs in the sandbox, where commands need no confirmation".to_owned();
            return Decision::Allow {
                reason: DecisionReason::Other { reason },
            };
        }
        if let Some(reason) = self.allow {
            return Decision::Allow { reason };
        }
        ask(self.question, false, mode, changes)
    }
}

/// A question, or what a mode makes of questions.
fn ask(question: Question, hard: bool, mode: PermissionMode, changes: bool) -> Decision {
    match mode {
        // Nobody is asked. What stopped it is said where it is more than "nobody was asked".
        PermissionMode::DontAsk => Decision::Deny {
            reason: match question.reason {
                reason @ DecisionReason::SafetyCheck { .. } => reason,
                _ => DecisionReason::Mode { mode },
            },
        },
        PermissionMode::Plan if changes => Decision::Deny {
            reason: DecisionReason::Mode { mode },
        },
        _ => Decision::Ask {
            reason: question.reason,
            suggestions: question.suggestions,
            blocked_path: question.blocked_path,
            hard,
        },
    }
}

/// How strict a decision is: more is stricter.
pub(crate) fn strictness(decision: &Decision) -> u8 {
    match decision {
        Decision::Allow { .. } => 0,
        Decision::Ask {
            hard: false,
            reason,
            ..
        } => match reason {
            // Neither a hook nor the classifier may answer these, so no other question may hide them.
            DecisionReason::SafetyCheck { .. } => 3,
            DecisionReason::Rule { .. } => 2,
            _ => 1,
        },
        Decision::Ask { hard: true, .. } => 4,
        Decision::Deny { .. } => 5,
    }
}

/// The strictest of several decisions, the first of equals. If it is a question, it offers what all
/// questions together need, so that one answer settles the call; a hard one offers only what silences
/// every hard one.
pub(crate) fn strictest(decisions: Vec<Decision>) -> Option<Decision> {
    let most = decisions.iter().map(strictness).max()?;
    let mut all_suggestions: Vec<PermissionUpdate> = Vec::new();
    for decision in &decisions {
        if let Decision::Ask { suggestions, .. } = decision {
            merge(&mut all_suggestions, suggestions);
        }
    }
    let settled = decisions.iter().all(|decision| match decision {
        Decision::Ask {
            hard: true,
            suggestions,
            ..
        } => !suggestions.is_empty(),
        _ => true,
    });
    // Of several that pass, one that needed a rule or a mode says more than one that passes anyway.
    let telling = |decision: &Decision| {
        use DecisionReason::{Mode, Rule};
        matches!(
            decision,
            Decision::Allow {
                reason: Rule { .. } | Mode { .. }
            }
        )
    };
    let at = decisions
        .iter()
        .position(telling)
        .filter(|_| most == 0)
        .or_else(|| {
            decisions
                .iter()
                .position(|decision| strictness(decision) == most)
        })?;
    let mut winner = decisions.into_iter().nth(at)?;
    if let Decision::Ask {
        suggestions, hard, ..
    } = &mut winner
    {
        if !*hard {
            *suggestions = all_suggestions;
        } else if !settled {
            suggestions.clear();
        }
    }
    Some(winner)
}

/// Adds updates to a list: rules and folders for the same place become one update.
pub(crate) fn merge(all: &mut Vec<PermissionUpdate>, more: &[PermissionUpdate]) {
    use PermissionUpdate::{AddDirectories, AddRules};
    'next: for update in more {
        for known in all.iter_mut() {
            match (known, update) {
                (
                    AddRules {
                        rules,
                        behavior,
                        destination,
                    },
                    AddRules {
                        rules: new,
                        behavior: same,
                        destination: there,
                    },
                ) if behavior == same && destination == there => {
                    for rule in new {
                        if !rules.contains(rule) {
                            rules.push(rule.clone());
                        }
                    }
                    continue 'next;
                }
                (
                    AddDirectories {
                        directories,
                        destination,
                    },
                    AddDirectories {
                        directories: new,
                        destination: there,
                    },
                ) if destination == there => {
                    for directory in new {
                        if !directories.contains(directory) {
                            directories.push(directory.clone());
                        }
                    }
                    continue 'next;
                }
                (known, update) if known == update => continue 'next,
                _ => {}
            }
        }
        all.push(update.clone());
    }
}
