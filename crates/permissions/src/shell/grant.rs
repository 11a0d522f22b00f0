//! Which allow rule covers a part of a command, and how far it reaches.

use super::Judge;
use crate::ruleset::Rule;
use lathe_protocol::permission::Behavior;
use lathe_shell::analysis::{Argument, Concern, ConcernKind, Part, PathKind, WorkingFolder};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The allow rule that covers a part as a command, and how far.
#[derive(Clone, Copy)]
pub(super) struct Grant<'a> {
    pub(super) rule: &'a Rule,
    pub(super) reach: Reach,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// The command and the files that its words name.
    Command,
    /// Also where its output goes.
    Output,
    /// All that, and secrets too: the rule spells the command out.
    Spelt,
}

/// The allow rule that covers a part, if one does.
pub(super) fn grant<'a>(
    judge: &Judge<'a>,
    part: &Part,
    folders: Option<&[PathBuf]>,
) -> Option<Grant<'a>> {
    if let Some(rule) = judge.exact {
        return Some(Grant {
            rule,
            reach: Reach::Spelt,
        });
    }
    if let Some(rule) = judge.everything {
        return Some(Grant {
            rule,
            reach: Reach::Output,
        });
    }
    if part.concerns.iter().any(Concern::asks_despite_rules) {
        return None;
    }
    // A rule is for a command in the folder that is worked in, not for the same words where another
    // folder's configuration says what they do.
    let foreign = part
        .concerns
        .iter()
        .any(|concern| concern.kind == ConcernKind::ForeignFolder);
    if foreign && !are_roots(judge, folders) {
        return None;
    }
    if part.folder != WorkingFolder::Start && !are_inside(judge, folders) {
        return None;
    }
    let home = judge.context.home.as_path();
    let words = words_of(&part.effective_argv, home);
    // A rule may name the wrapper too (`timeout 60 npm test:*`).
    let wrapped = (!part.wrappers.is_empty()).then(|| words_of(&part.argv, home));
    // A rule that names the variables too was made for exactly these.
    let assigned = assigned_words(part);
    let with_variables: Option<Vec<Option<Cow<'_, str>>>> = assigned.as_ref().map(|assigned| {
        let assigned = assigned.iter().map(|text| Some(text.as_str().into()));
        assigned.chain(words.iter().cloned()).collect()
    });
    let rule = judge.context.rules.with(Behavior::Allow).find(|rule| {
        rule.command().is_some_and(|pattern| {
            let grants = |words: &[Option<Cow<'_, str>>]| pattern.grants(&texts_of(words));
            let names_more = |count: usize| pattern.spoken_words() > count;
            let as_it_is = grants(&words)
                || wrapped
                    .as_ref()
                    .is_some_and(|words| names_more(part.wrappers.len()) && grants(words));
            (part.can_be_allowed && as_it_is)
                || with_variables.as_ref().is_some_and(|words| {
                    names_more(assigned.as_ref().map_or(0, Vec::len)) && grants(words)
                })
        })
    })?;
    let spelt = rule
        .command()
        .is_some_and(crate::pattern::CommandPattern::is_exact);
    Some(Grant {
        rule,
        reach: if spelt { Reach::Spelt } else { Reach::Command },
    })
}

/// Whether each of the folders that a part may run in is a working root itself.
pub(super) fn are_roots(judge: &Judge<'_>, folders: Option<&[PathBuf]>) -> bool {
    folders.is_some_and(|folders| {
        folders.iter().all(|folder| {
            let folder = judge.call.resolved.get(folder);
            folder
                .real
                .as_ref()
                .is_some_and(|real| judge.context.roots.contains(real))
        })
    })
}

/// Whether each of the folders that a part may run in lies in the working roots.
fn are_inside(judge: &Judge<'_>, folders: Option<&[PathBuf]>) -> bool {
    let inside = |folder: &PathBuf| judge.call.resolved.get(folder).inside(&judge.context.roots);
    folders.is_some_and(|folders| folders.iter().all(inside))
}

/// The words of a command; `None` is one that isn't known before it runs. A path below the home folder reads as a rule
/// writes it, with `~`; a quoted `~` is no home folder and matches nothing.
pub(super) fn words_of<'a>(argv: &'a [Argument], home: &Path) -> Vec<Option<Cow<'a, str>>> {
    let home = home.to_string_lossy();
    let home = home.trim_end_matches('/');
    argv.iter()
        .map(|word| match word {
            Argument::Fixed(text) if text.starts_with("~/") => None,
            Argument::Fixed(text) => Some(match text.strip_prefix(home) {
                Some(rest) if rest.starts_with('/') && !home.is_empty() => {
                    Cow::Owned(format!("~{rest}"))
                }
                _ => Cow::Borrowed(text.as_str()),
            }),
            Argument::Variable(variable) => variable
                .source
                .strip_prefix("~/")
                .filter(|rest| variable.path.kind == PathKind::Home && *rest == variable.path.text)
                .map(|_| Cow::Borrowed(variable.source.as_str())),
        })
        .collect()
}

/// The texts of words, as patterns take them.
pub(super) fn texts_of<'a>(words: &'a [Option<Cow<'_, str>>]) -> Vec<Option<&'a str>> {
    words.iter().map(Option::as_deref).collect()
}

/// The variables that are set in front of a command, as a rule writes them; none where there is none, or where a value
/// isn't known.
fn assigned_words(part: &Part) -> Option<Vec<String>> {
    if part.assignments.is_empty() {
        return None;
    }
    part.assignments
        .iter()
        .map(|assignment| {
            let value = assignment.value.fixed()?;
            Some(format!("{}={value}", assignment.name))
        })
        .collect()
}
