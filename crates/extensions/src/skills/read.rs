//! Parses skills and custom commands from files.

use super::{Skill, SkillAbout, SkillCondition, SkillForm, SkillRun, SkillText};
use crate::agents::EFFORTS;
use crate::fields::Fields;
use crate::front_matter;
use crate::problem::Problem;
use crate::source::ExtensionSource;
use std::path::Path;
use std::sync::Arc;

/// The maximum length of a description in the open format; longer ones work but are reported.
const LONGEST_DESCRIPTION: usize = 1_024;
const LONGEST_NAME: usize = 64;

/// The context of a skill's file.
#[derive(Debug, Clone)]
pub(crate) struct FileContext {
    /// The name of the folder or file, prefixed by those of parent folders.
    pub(crate) name: String,
    pub(crate) form: SkillForm,
    pub(crate) source: ExtensionSource,
    pub(crate) trusted: bool,
    /// The plugin's variables.
    pub(crate) variables: Arc<[(String, String)]>,
}

/// Parses a text. `None` if it is not a valid skill; `problems` say why.
pub(crate) fn of_text(
    file: &Path,
    text: &str,
    context: &FileContext,
    problems: &mut Vec<Problem>,
) -> Option<Skill> {
    let head = front_matter::head(file, text, problems);
    let rest = head.rest;
    let mut fields = Fields::new(file, head.fields, problems);
    let name = name(&mut fields, context)?;
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
                    format!(
                        "has more than {LONGEST_DESCRIPTION} characters, the maximum of the format"
                    ),
                    Some("shorten it"),
                );
            }
            description
        }
        (None, Some(words)) => {
            if context.form == SkillForm::Skill {
                fields.report(
                    "description",
                    "is missing; the first line of the text is used instead",
                    Some("say what the skill does and when to use it"),
                );
            }
            words
        }
        (None, None) => {
            fields.report_fatal(
                "description",
                format!("{name} has none, so it is ignored"),
                "say what it does and when to use it",
            );
            return None;
        }
    };
    let when_to_use = fields.text("when_to_use");
    let mut skill = Skill {
        name,
        text: SkillText {
            builtin: None,
            is_summary: when_to_use.is_none() && super::is_one_line(&description),
            variables: context.variables.clone(),
            name_only: false,
        },
        description,
        when_to_use,
        argument_hint: fields.hint("argument-hint"),
        run: run(&mut fields),
        condition: SkillCondition {
            paths: fields.list("paths").unwrap_or_default(),
            base: None,
        },
        model_invocable: !fields.flag("disable-model-invocation").unwrap_or(false),
        user_invocable: fields.flag("user-invocable").unwrap_or(true),
        about: SkillAbout {
            display_name: fields.text("name").filter(|name| !is_own(name, context)),
            version: fields.text("version"),
            license: fields.text("license"),
            compatibility: fields.text("compatibility"),
            metadata: fields.words("metadata"),
        },
        form: context.form,
        source: context.source.clone(),
        folder: None,
        path: None,
        trusted: context.trusted,
    };
    // Patterns that match everything are no condition.
    if skill
        .condition
        .paths
        .iter()
        .any(|pattern| matches!(pattern.as_str(), "**" | "**/*" | "*"))
    {
        skill.condition.paths.clear();
    }
    if !context.trusted {
        hold_back(&mut skill, &mut fields);
    }
    Some(skill)
}

/// True if a name in the front matter is that of the folder or file.
fn is_own(name: &str, context: &FileContext) -> bool {
    context.name.rsplit(':').next() == Some(name)
}

fn run(fields: &mut Fields<'_>) -> SkillRun {
    SkillRun {
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
        hooks: fields.hooks(),
    }
}

/// Removes the fields that a file in an untrusted folder may not set.
fn hold_back(skill: &mut Skill, fields: &mut Fields<'_>) {
    const WHY: &str = "is ignored until the folder is trusted";
    if !skill.run.hooks.is_empty() {
        skill.run.hooks.clear();
        fields.report("hooks", WHY, None);
    }
    if !skill.run.allowed_tools.is_empty() {
        skill.run.allowed_tools.clear();
        fields.report("allowed-tools", WHY, None);
    }
}

fn name(fields: &mut Fields<'_>, context: &FileContext) -> Option<String> {
    let own = context.name.rsplit(':').next().unwrap_or_default();
    if context.form == SkillForm::Command {
        // A command has the name of its file.
        return is_callable(&context.name)
            .then(|| context.name.clone())
            .or_else(|| {
                fields.report_fatal(
                    "",
                    format!("'{}' is not a valid command name", context.name),
                    "name the file with letters, digits, '-', '_' and '.'",
                );
                None
            });
    }
    // A skill has the name of its folder; `name` is only shown.
    let prefix = context.name.strip_suffix(own).unwrap_or_default();
    let name = format!("{prefix}{}", typable(own));
    if is_callable(&name) {
        return Some(name);
    }
    fields.report_fatal(
        "name",
        format!("'{own}' is not a valid name, so the skill is ignored"),
        "name the folder with lower-case letters, digits and '-'",
    );
    None
}

/// The name of a folder with a hyphen for every character that a skill's name can't have.
fn typable(folder: &str) -> String {
    let letters = folder.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() || letter == '_' => letter,
        _ => '-',
    });
    let name: String = letters.collect();
    name.trim_matches('-').to_owned()
}

/// True if a name can be typed as a command: `[A-Za-z0-9:_.-]+`, starting with a letter, a digit or
/// `_`.
#[must_use]
pub(crate) fn is_callable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && name.len() <= 3 * LONGEST_NAME
        && name
            .split(':')
            .all(|part| !part.is_empty() && part.len() <= LONGEST_NAME)
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, ':' | '_' | '-' | '.'))
}

/// The first heading or line of text in the body.
fn first_words(body: &str) -> Option<String> {
    let line = body
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with(['`', '<']))
        .map(|line| line.trim_start_matches('#').trim())
        .find(|line| !line.is_empty())?;
    Some(line.chars().take(250).collect())
}
