//! From a file to a skill. A custom command is a skill in a file of its own.

use super::{Skill, SkillForm, SkillText};
use crate::agents::EFFORTS;
use crate::fields::Fields;
use crate::front_matter;
use crate::problem::Problem;
use crate::source::ExtensionSource;
use std::path::Path;
use std::sync::Arc;

/// The longest description of the open format; longer ones work and are reported.
const LONGEST_DESCRIPTION: usize = 1_024;
/// The longest name.
const LONGEST_NAME: usize = 64;

/// What is known of a skill before its file is read.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// The folder's or file's own name, with the names of the folders above it in front.
    pub(crate) name: String,
    pub(crate) form: SkillForm,
    pub(crate) source: ExtensionSource,
    pub(crate) trusted: bool,
    /// What a plugin's files may name.
    pub(crate) variables: Arc<[(String, String)]>,
}

/// Reads a text. `None` when it can't be a skill; why is in `problems`.
pub(crate) fn of_text(
    file: &Path,
    text: &str,
    standing: &Standing,
    problems: &mut Vec<Problem>,
) -> Option<Skill> {
    let head = front_matter::head(file, text, problems);
    let has_body = !head.rest.trim_start().is_empty();
    let rest = head.rest;
    let mut fields = Fields::new(file, head.fields, problems);
    let name = name(&mut fields, standing)?;
    if !has_body {
        fields.report_fatal(
            "",
            format!("{name} has no instructions, so it doesn't count"),
            "write them below the front matter",
        );
        return None;
    }
    let written = fields.text("description");
    let instead = match written {
        Some(_) => None,
        None => first_words(rest),
    };
    let description = match (written, instead) {
        (Some(description), _) => {
            if description.chars().count() > LONGEST_DESCRIPTION {
                fields.report(
                    "description",
                    format!("has more than {LONGEST_DESCRIPTION} characters; the model sees the first 250"),
                    Some("shorten it"),
                );
            }
            description
        }
        (None, Some(words)) => {
            if standing.form == SkillForm::Skill {
                fields.report(
                    "description",
                    "is missing; the first words of the text stand for it",
                    Some("say what the skill does and when to use it"),
                );
            }
            words
        }
        (None, None) => {
            fields.report_fatal(
                "description",
                format!("{name} has none, so it doesn't count"),
                "say what it does and when to use it",
            );
            return None;
        }
    };
    let when_to_use = fields.text("when_to_use");
    let mut skill = Skill {
        name,
        is_summary: when_to_use.is_none() && super::is_one_line(&description),
        description,
        when_to_use,
        argument_hint: fields.hint("argument-hint"),
        arguments: fields.names("arguments").unwrap_or_default(),
        allowed_tools: fields.tools("allowed-tools").unwrap_or_default(),
        model: fields
            .text("model")
            .filter(|model| !model.eq_ignore_ascii_case("inherit")),
        effort: fields.choice("effort", &EFFORTS),
        fork: fields
            .choice("context", &[("fork", true), ("inline", false)])
            .unwrap_or(false),
        agent: fields.text("agent"),
        paths: fields.list("paths").unwrap_or_default(),
        hooks: fields.hooks(),
        model_invocable: !fields.flag("disable-model-invocation").unwrap_or(false),
        user_invocable: fields.flag("user-invocable").unwrap_or(true),
        version: fields.text("version"),
        license: fields.text("license"),
        compatibility: fields.text("compatibility"),
        metadata: fields.words("metadata"),
        form: standing.form,
        source: standing.source.clone(),
        folder: None,
        path: None,
        base: None,
        trusted: standing.trusted,
        text: SkillText::default(),
        variables: standing.variables.clone(),
    };
    // Patterns that cover everything are no condition.
    if skill
        .paths
        .iter()
        .any(|pattern| matches!(pattern.as_str(), "**" | "**/*" | "*"))
    {
        skill.paths.clear();
    }
    if !standing.trusted {
        hold_back(&mut skill, &mut fields);
    }
    Some(skill)
}

/// Takes away what an untrusted folder's file may not say.
fn hold_back(skill: &mut Skill, fields: &mut Fields<'_>) {
    const WHY: &str = "doesn't count until the folder is trusted";
    if !skill.hooks.is_empty() {
        skill.hooks.clear();
        fields.report("hooks", WHY, None);
    }
    if !skill.allowed_tools.is_empty() {
        skill.allowed_tools.clear();
        fields.report("allowed-tools", WHY, None);
    }
}

fn name(fields: &mut Fields<'_>, standing: &Standing) -> Option<String> {
    let own = standing.name.rsplit(':').next().unwrap_or_default();
    if standing.form == SkillForm::Command {
        // A command is called as its file is.
        return is_callable(&standing.name)
            .then(|| standing.name.clone())
            .or_else(|| {
                fields.report_fatal(
                    "",
                    format!("'{}' can't be the name of a command", standing.name),
                    "name the file with letters, digits, '-' and '_'",
                );
                None
            });
    }
    let prefix = standing.name.strip_suffix(own).unwrap_or_default();
    match fields.text("name") {
        Some(name) if name == own => {}
        Some(name) if is_callable(&name) && !name.contains(':') => {
            if matches!(standing.source, ExtensionSource::Builtin) {
                return Some(name);
            }
            fields.report(
                "name",
                format!("is '{name}', but its folder is '{own}'; it is called {name}"),
                Some("give both the same name"),
            );
            return Some(format!("{prefix}{name}"));
        }
        Some(name) => fields.report(
            "name",
            format!("'{name}' can't be a name; it is called {own}, like its folder"),
            Some("small letters, digits and '-', at most 64"),
        ),
        None => {}
    }
    if is_callable(&standing.name) {
        return Some(standing.name.clone());
    }
    fields.report_fatal(
        "name",
        format!("'{own}' can't be a name, so the skill doesn't count"),
        "name the folder with small letters, digits and '-'",
    );
    None
}

/// Whether something can be called by this name: `[A-Za-z0-9:_-]+`, beginning with a letter or digit.
#[must_use]
pub(crate) fn is_callable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.len() <= 3 * LONGEST_NAME
        && name
            .split(':')
            .all(|part| !part.is_empty() && part.len() <= LONGEST_NAME)
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, ':' | '_' | '-'))
}

/// The first words of the body that are not a heading, in one line.
fn first_words(body: &str) -> Option<String> {
    let line = body
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with(['#', '`', '<']))
        .or_else(|| {
            body.lines()
                .map(|line| line.trim().trim_start_matches('#').trim())
                .find(|line| !line.is_empty())
        })?;
    Some(line.chars().take(250).collect())
}
