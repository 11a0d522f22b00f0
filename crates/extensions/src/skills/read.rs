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
/// The maximum length of a line of the text that stands for a missing description.
const LONGEST_FIRST_WORDS: usize = 100;

/// The context of a skill's file.
#[derive(Debug, Clone)]
pub(crate) struct FileContext {
    /// The name of the folder or file, prefixed by those of parent folders.
    pub(crate) name: String,
    /// True if `name` in the front matter takes precedence over the folder's, as for a skill that a
    /// plugin's manifest points to.
    pub(crate) named_inside: bool,
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
    let description = match fields.text("description") {
        Some(description) => {
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
        None => {
            let words = first_words(rest);
            if context.form == SkillForm::Skill {
                let instead = match words {
                    Some(_) => "the first line of the text",
                    None => "the name",
                };
                fields.report(
                    "description",
                    format!("is missing; {instead} is used instead"),
                    Some("say what the skill does and when to use it"),
                );
            }
            words.unwrap_or_else(|| name.clone())
        }
    };
    let when_to_use = fields.text("when_to_use");
    let about = SkillAbout {
        display_name: display_name(&mut fields, &name),
        version: fields.text("version"),
        license: fields.text("license"),
        compatibility: fields.text("compatibility"),
        metadata: fields.words("metadata"),
    };
    let mut skill = Skill {
        name,
        text: SkillText {
            given: None,
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
        model_invocable: !fields.restriction("disable-model-invocation"),
        user_invocable: fields.flag("user-invocable").unwrap_or(true),
        about,
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

/// `name` in the front matter, if it differs from the name to type.
fn display_name(fields: &mut Fields<'_>, name: &str) -> Option<String> {
    let own = name.rsplit(':').next();
    fields.text("name").filter(|shown| own != Some(shown))
}

fn run(fields: &mut Fields<'_>) -> SkillRun {
    SkillRun {
        arguments: fields.names("arguments").unwrap_or_default(),
        allowed_tools: fields.tools("allowed-tools").unwrap_or_default(),
        disallowed_tools: fields.tools("disallowed-tools").unwrap_or_default(),
        model: fields
            .text("model")
            .filter(|model| !model.eq_ignore_ascii_case("inherit")),
        effort: fields.choice("effort", &EFFORTS),
        fork: fields
            .choice("context", &[("fork", true), ("inline", false)])
            .unwrap_or(false),
        background: fields.flag("background").unwrap_or(false),
        agent: fields.text("agent"),
        hooks: fields.hooks(),
    }
}

/// Removes the fields that a file in an untrusted folder may not set.
fn hold_back(skill: &mut Skill, fields: &mut Fields<'_>) {
    const WHY: &str = "is ignored until the folder is trusted";
    const FIX: &str = "`lathe trust add` trusts it";
    if !skill.run.hooks.is_empty() {
        skill.run.hooks.clear();
        fields.report("hooks", WHY, Some(FIX));
    }
    if !skill.run.allowed_tools.is_empty() {
        skill.run.allowed_tools.clear();
        fields.report("allowed-tools", WHY, Some(FIX));
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
    // A skill has the name of its folder; `name` is only shown. In plugins, other characters are
    // hyphens.
    let prefix = context.name.strip_suffix(own).unwrap_or_default();
    let inside = fields.text("name").filter(|_| context.named_inside);
    let own = inside.as_deref().unwrap_or(own);
    let own = match context.source {
        ExtensionSource::Plugin(_) => typable(own),
        _ => own.to_owned(),
    };
    let name = format!("{prefix}{own}");
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

/// A name with a hyphen for every character that can't be typed after a slash.
pub(super) fn typable(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        letter if letter.is_alphanumeric() || letter == '_' => letter,
        _ => '-',
    });
    let name: String = letters.collect();
    name.trim_matches('-').to_owned()
}

/// True if a file can be called by this name: it starts with a letter, a digit or `_`, and has no
/// character that would make it a path or several lines.
#[must_use]
pub(crate) fn is_callable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_alphanumeric() || first == '_')
        && name.chars().count() <= 3 * LONGEST_NAME
        && name
            .split(':')
            .all(|part| !part.trim().is_empty() && part.chars().count() <= LONGEST_NAME)
        && !name.contains(|letter: char| letter.is_control() || matches!(letter, '/' | '\\'))
}

/// The first heading or line of text in the body, shortened; of markup and code if there is no other.
fn first_words(body: &str) -> Option<String> {
    let lines = || body.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines()
        .filter(|line| !line.starts_with(['`', '<']))
        .map(|line| line.trim_start_matches('#').trim())
        .find(|line| !line.is_empty())
        .or_else(|| lines().find(|line| !line.starts_with("<!--") && !line.starts_with("```")))?;
    if line.chars().count() <= LONGEST_FIRST_WORDS {
        return Some(line.to_owned());
    }
    let cut: String = line.chars().take(LONGEST_FIRST_WORDS - 3).collect();
    Some(cut + "...")
}
