//! Judging one path that is read or written, by a file tool or by a shell command.

use crate::context::PermissionContext;
use crate::order::{Findings, Question};
use crate::path::{ResolvedPath, Suspicion, suspicion};
use crate::ruleset::Rule;
use crate::suggest;
use lathe_protocol::permission::{Behavior, DecisionReason, PermissionMode};
use std::path::{Path, PathBuf};

/// How the reason ends when a secret would be read.
pub(crate) const READ_SECRET: &str = "reading it needs confirmation";
/// How the reason ends when a secret would be changed.
pub(crate) const WRITE_SECRET: &str = "changing it needs confirmation";

/// Who touches a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Toucher<'a> {
    /// A file tool, by name.
    Tool(&'a str),
    /// A shell command that may show what is in a file.
    Shell,
    /// A shell command that shows names, sizes and dates only: a secret's name is no secret.
    Lister,
}

/// The findings about reading a path.
pub(crate) fn read(
    path: &ResolvedPath,
    toucher: Toucher<'_>,
    context: &PermissionContext,
) -> Findings {
    let mut findings = Findings::new(Question::other(String::new()));
    findings.changes = false;
    findings.deny = rule_on(path, context, Behavior::Deny, Rule::is_for_reading);
    if let Toucher::Tool(_) = toucher {
        let refused = || refused(path, |form| context.sandbox.bounds.refuse_reading(form));
        findings.deny = findings.deny.or_else(refused);
    }
    findings.ask = rule_on(path, context, Behavior::Ask, Rule::is_for_reading);
    let literal = match suspicion(&path.written, &context.cwd, &context.roots, false) {
        Some(Suspicion::Refused(reason)) => {
            findings.refused = Some(DecisionReason::SafetyCheck { reason });
            return findings;
        }
        Some(Suspicion::Literal(reason)) => Some(reason),
        None => None,
    };
    let secret = match toucher {
        Toucher::Lister => None,
        Toucher::Tool(_) | Toucher::Shell => path.forms().find_map(|form| context.secret(form)),
    };
    let free = is_readable(path, context);
    if free && secret.is_none() && literal.is_none() {
        // The question is never asked, so nothing is spent on what it would offer.
        findings.passes = Some(DecisionReason::WorkingDirectory {
            reason: format!("`{}` is in a working folder", path.written.display()),
        });
        return findings;
    }
    findings.question = match (secret, literal) {
        (Some(reason), _) => Question {
            reason: DecisionReason::SafetyCheck {
                reason: format!("{reason}; {READ_SECRET}"),
            },
            suggestions: suggest::naming(path, "Read"),
            blocked_path: Some(path.written.clone()),
        },
        (None, Some(reason)) => Question {
            reason: DecisionReason::Other { reason },
            suggestions: suggest::naming(path, "Read"),
            blocked_path: Some(path.written.clone()),
        },
        (None, None) => {
            let blocked = path.outside(&context.roots).map(Path::to_path_buf);
            Question {
                reason: DecisionReason::WorkingDirectory {
                    reason: outside_words(path, blocked.as_deref(), "reads"),
                },
                suggestions: suggest::reading(path, context),
                blocked_path: blocked,
            }
        }
    };
    if context.limits.outside.blocks_reads && !is_readable(path, context) {
        findings.hard = Some(Question {
            suggestions: Vec::new(),
            ..findings.question.clone()
        });
    }
    if path.real.is_some() {
        let tool = match toucher {
            Toucher::Tool(tool) => tool,
            Toucher::Shell | Toucher::Lister => "Read",
        };
        // Who may change a file may read it.
        let grants = |rule: &Rule| rule.is_for_reading() || rule.is_for_writing(tool);
        findings.allow = granted(path, context, grants, |form| readable(form, path, context));
    }
    findings
}

/// The question about a write, by the worst that speaks against it.
fn write_question(
    path: &ResolvedPath,
    context: &PermissionContext,
    secret: Option<String>,
    literal: Option<String>,
    names_programs: Option<&str>,
) -> Question {
    let safety = |reason: &str| DecisionReason::SafetyCheck {
        reason: format!("{reason}; {WRITE_SECRET}"),
    };
    let reason = match (secret, literal, names_programs) {
        (Some(reason), _, _) => safety(&reason),
        (None, Some(reason), _) => DecisionReason::Other { reason },
        (None, None, Some(reason)) => safety(reason),
        (None, None, None) => return plain_write_question(path, context),
    };
    Question {
        reason,
        suggestions: suggest::naming(path, "Edit"),
        blocked_path: Some(path.written.clone()),
    }
}

/// The question about a write that only its place, or the mode, speaks against.
fn plain_write_question(path: &ResolvedPath, context: &PermissionContext) -> Question {
    let blocked = path.outside(&context.roots).map(Path::to_path_buf);
    Question {
        reason: match &blocked {
            None => DecisionReason::Other {
                reason: format!("{} asks before editing files", mode_words(context.mode)),
            },
            Some(blocked) => DecisionReason::WorkingDirectory {
                reason: outside_words(path, Some(blocked), "writes"),
            },
        },
        suggestions: suggest::writing(path, context),
        blocked_path: blocked,
    }
}

/// The findings about writing a path.
pub(crate) fn write(
    path: &ResolvedPath,
    toucher: Toucher<'_>,
    context: &PermissionContext,
) -> Findings {
    let tool = match toucher {
        Toucher::Tool(tool) => tool,
        Toucher::Shell | Toucher::Lister => "Edit",
    };
    let mut findings = Findings::new(Question::other(String::new()));
    findings.deny = rule_on(path, context, Behavior::Deny, |rule| {
        rule.is_for_writing(tool)
    });
    if let Toucher::Tool(_) = toucher {
        let refused = || refused(path, |form| context.sandbox.bounds.refuse_writing(form));
        findings.deny = findings.deny.or_else(refused);
    }
    findings.ask = rule_on(path, context, Behavior::Ask, |rule| {
        rule.is_for_writing(tool)
    });
    let literal = match suspicion(&path.written, &context.cwd, &context.roots, true) {
        Some(Suspicion::Refused(reason)) => {
            findings.refused = Some(DecisionReason::SafetyCheck { reason });
            return findings;
        }
        Some(Suspicion::Literal(reason)) => Some(reason),
        None => None,
    };
    if path.real.is_some() && path.touched().all(|form| is_own(form, context)) {
        findings.changes = false;
        findings.passes = Some(DecisionReason::WorkingDirectory {
            reason: format!("`{}` is the session's own", path.written.display()),
        });
        return findings;
    }
    if let Some(reason) = path.forms().find_map(|form| context.protected(form)) {
        findings.hard = Some(Question {
            reason: DecisionReason::SafetyCheck { reason },
            suggestions: Vec::new(),
            blocked_path: Some(path.written.clone()),
        });
        return findings;
    }
    let secret = path.forms().find_map(|form| context.secret(form));
    let further = &context.sandbox.bounds.writable;
    let blocked = path
        .outside(&context.roots)
        .filter(|_| path.outside(further).is_some())
        .map(Path::to_path_buf);
    let names_programs = path
        .forms()
        .find_map(crate::protected::names_programs)
        .filter(|_| secret.is_none());
    findings.edit_in_roots =
        blocked.is_none() && secret.is_none() && literal.is_none() && names_programs.is_none();
    let taken_literally = literal.is_some();
    findings.question = write_question(path, context, secret, literal, names_programs.as_deref());
    if path.real.is_some() {
        let edits = matches!(
            context.mode,
            PermissionMode::AcceptEdits | PermissionMode::Auto
        );
        findings.allow = granted(
            path,
            context,
            |rule| rule.is_for_writing(tool),
            |form| {
                edits
                    && !taken_literally
                    && names_programs.is_none()
                    && within(form, &context.roots, path.case_insensitive)
            },
        );
    }
    findings
}

/// Why a path is out of bounds under any of its names.
fn refused(
    path: &ResolvedPath,
    refuse: impl Fn(&Path) -> Option<DecisionReason>,
) -> Option<DecisionReason> {
    path.forms().find_map(refuse)
}

fn within(form: &Path, folders: &[PathBuf], case_insensitive: bool) -> bool {
    folders
        .iter()
        .any(|folder| crate::path::starts_with(form, folder, case_insensitive))
}

/// Whether a form is the session's own: its plan, its notes.
fn is_own(form: &Path, context: &PermissionContext) -> bool {
    context.is_plan_file(form)
        || context
            .files
            .session_paths
            .iter()
            .any(|folder| form.starts_with(folder))
}

/// Whether a path lies where the session may read by itself.
pub(crate) fn is_readable(path: &ResolvedPath, context: &PermissionContext) -> bool {
    path.real.is_some() && path.touched().all(|form| readable(form, path, context))
}

/// Whether a path lies where the session works, or is its own, and is no settings file.
pub(crate) fn is_writable(path: &ResolvedPath, context: &PermissionContext) -> bool {
    let writable = |form: &Path| {
        is_own(form, context)
            || (within(form, &context.roots, path.case_insensitive)
                && !crate::protected::is_settings_file(form))
    };
    path.real.is_some() && path.touched().all(writable)
}

/// Whether a form may be read without a rule.
fn readable(form: &Path, path: &ResolvedPath, context: &PermissionContext) -> bool {
    within(form, &context.roots, path.case_insensitive)
        || within(form, &context.files.session_paths, false)
        || within(form, &context.files.readable_paths, false)
        || within(form, &context.sandbox.bounds.writable, false)
        || context.is_plan_file(form)
}

/// The first rule of a behaviour that matches some form of a path.
fn rule_on(
    path: &ResolvedPath,
    context: &PermissionContext,
    behavior: Behavior,
    about: impl Fn(&Rule) -> bool,
) -> Option<DecisionReason> {
    context
        .rules
        .with(behavior)
        .find(|rule| about(rule) && rule.covers_any_form(path))
        .map(Rule::reason)
}

/// The allow rule that lets a path pass: every form that is touched must be covered by a rule or be
/// free anyway, and at least one is covered by a rule. A form that is a secret needs a rule that
/// names it.
fn granted(
    path: &ResolvedPath,
    context: &PermissionContext,
    about: impl Fn(&Rule) -> bool,
    free: impl Fn(&Path) -> bool,
) -> Option<DecisionReason> {
    let mut reason = None;
    // The written form is used where it alone makes the path a secret.
    let written = Some(path.written.as_path()).filter(|written| context.secret(written).is_some());
    for form in path.touched().chain(written) {
        let secret = context.secret(form).is_some();
        let names = |rule: &Rule| {
            rule.named_path()
                .is_some_and(|named| context.secret(named).is_some())
        };
        let rule = context.rules.with(Behavior::Allow).find(|rule| {
            about(rule) && rule.covers_form(form, path.case_insensitive) && (!secret || names(rule))
        });
        match rule {
            Some(rule) => reason = reason.or_else(|| Some(rule.reason())),
            None if !secret && free(form) => {}
            None => return None,
        }
    }
    reason
}

/// A mode as the subject of a sentence.
fn mode_words(mode: PermissionMode) -> String {
    match mode {
        PermissionMode::Default => "Default mode".to_owned(),
        PermissionMode::Plan => "Plan mode".to_owned(),
        mode => format!("Mode {mode}"),
    }
}

fn outside_words(path: &ResolvedPath, blocked: Option<&Path>, verb: &str) -> String {
    let written = path.written.display();
    match (blocked, path.real.as_deref()) {
        (_, None) => format!(
            "what `{written}` leads to is not known, so it can't be seen whether it {verb} inside this project"
        ),
        (Some(blocked), _) if blocked != path.written => {
            format!(
                "`{written}` leads to `{}`, which is outside this project",
                blocked.display()
            )
        }
        _ => format!("`{written}` is outside this project"),
    }
}
