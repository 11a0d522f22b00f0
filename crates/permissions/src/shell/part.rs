//! The verdict on one part of a command.

use super::Judge;
use super::grant::{Grant, are_roots, grant, texts_of, words_of};
use super::operand::{Meaning, folders_of, meaning_of};
use crate::order::Findings;
use crate::order::Question;
use crate::order::strictest;
use crate::repository::Repository;
use crate::ruleset::Rule;
use crate::suggest;
use lathe_protocol::permission::{
    Behavior, Decision, DecisionReason, PermissionUpdate, RuleSource,
};
use lathe_shell::analysis::{
    Argument, Concern, ConcernKind, Obeys, Part, ReadOnly, Shows, WorkingFolder, analyse,
    suggested_prefix,
};
use std::borrow::Cow;
use std::path::Path;
use std::path::PathBuf;

/// Judges one part: as a command, and by each file that it names.
pub(super) fn judge_part(judge: &Judge<'_>, part: &Part) -> Decision {
    let folders = folders_of(part, judge.cwd, judge.context);
    let view = View {
        judge,
        part,
        folders: folders.as_deref(),
        grant: grant(judge, part, folders.as_deref()),
        lists: part.shows == Shows::Names,
    };
    let mut decisions = vec![view.command().decide(judge.context.mode)];
    let mut paths: Vec<Findings> = Vec::new();
    view.redirections(&mut paths);
    view.reads(&mut paths);
    view.names_like_options(&mut paths);
    view.found_below(&mut paths);
    view.file_command(&mut paths);
    view.mentioned_secrets(&mut paths);
    view.mentioned_writes(&mut paths);
    decisions.extend(
        paths
            .into_iter()
            .map(|findings| findings.decide(judge.context.mode)),
    );
    strictest(decisions).unwrap_or_else(|| judge.as_unknown())
}

/// Why the configuration of a folder is not obeyed without a question.
struct Distrust(String);

/// One part of a command, with what its judgement needs.
pub(super) struct View<'a> {
    pub(super) judge: &'a Judge<'a>,
    pub(super) part: &'a Part,
    pub(super) folders: Option<&'a [PathBuf]>,
    pub(super) grant: Option<Grant<'a>>,
    /// It shows names only.
    pub(super) lists: bool,
}

impl View<'_> {
    // ---- as a command -------------------------------------------------------------------------

    fn command(&self) -> Findings {
        let part = self.part;
        let reads = self.reads_only();
        let mut question = Question::other(String::new());
        if !reads {
            question = Question::other(self.why_asked());
            question.suggestions = self.suggestions();
        }
        if self.judge.leaves_sandbox && !reads {
            question.reason = DecisionReason::SandboxOverride {
                reason: "the command asks to run outside the sandbox".to_owned(),
            };
        }
        let mut findings = self.judge.findings(question);
        findings.changes = !reads;
        self.deny_and_ask(&mut findings);
        let danger = self.vital_removal().or_else(|| self.nested_danger());
        if let Some(reason) = danger {
            findings.hard = Some(Question::new(DecisionReason::SafetyCheck { reason }));
        }
        if let Some(reason) = self.unknown_effect() {
            findings.unknown = Some(self.judge.unknown(reason));
        }
        let blocking = part
            .concerns
            .iter()
            .find(|concern| concern.asks_despite_rules());
        if blocking.is_some_and(|concern| {
            matches!(
                concern.kind,
                ConcernKind::RunsText | ConcernKind::VariableCommand
            )
        }) {
            self.judge.guard_denials(&mut findings);
        }
        if reads {
            let reason = "it only reads".to_owned();
            findings.passes = Some(DecisionReason::Other { reason });
        }
        // A redirection by itself, and a reader whose output goes to a file: the file decides.
        if blocking.is_none() && !reads && self.reads_only_beside_redirections() {
            findings.passes = Some(DecisionReason::Other {
                reason: "apart from its redirections it only reads".to_owned(),
            });
            findings.changes = true;
        }
        findings.edit_in_roots =
            part.file_command.is_some() && blocking.is_none() && part.can_be_allowed;
        findings.allow = self.grant.map(|grant| grant.rule.reason());
        findings
    }

    fn why_asked(&self) -> String {
        let blocking = self
            .part
            .concerns
            .iter()
            .find(|concern| concern.asks_despite_rules());
        if let Some(concern) = blocking {
            return concern.message.clone();
        }
        if let Err(reason) = self.configuration(self.obeys()) {
            return reason.0;
        }
        if let Some(file) = self.shown_credentials() {
            return format!("it would show a password or token of `{}`", file.display());
        }
        match &self.part.read_only {
            ReadOnly::Yes => "the folder that it runs in can't be checked".to_owned(),
            ReadOnly::No { reason } => reason.clone(),
        }
    }

    /// Whose configuration the part obeys. A shim of a version manager obeys the folder, whatever it stands for.
    fn obeys(&self) -> Obeys {
        let resolved = &self.judge.call.resolved;
        let is_shim = self
            .part
            .all_effective
            .iter()
            .filter_map(|argv| argv.first().and_then(Argument::fixed))
            .any(|name| resolved.is_shim(name));
        if is_shim {
            Obeys::Folder
        } else {
            self.part.obeys
        }
    }

    /// Whether the configuration that the part obeys where it runs can't make it run a program, or why it can.
    fn configuration(&self, obeys: Obeys) -> Result<(), Distrust> {
        if obeys == Obeys::Nothing {
            return Ok(());
        }
        let Some(folders) = self.folders else {
            return Err(Distrust(
                "the folder that it runs in can't be known".to_owned(),
            ));
        };
        for folder in folders {
            match obeys {
                Obeys::Nothing => {}
                Obeys::Folder => self.trusts(folder)?,
                Obeys::Repository | Obeys::RepositoryOnly => self.repository(folder, obeys)?,
            }
        }
        Ok(())
    }

    /// Whether the user's trust covers a folder: the project and what lies in it.
    fn trusts(&self, folder: &Path) -> Result<(), Distrust> {
        let context = self.judge.context;
        let resolved = self.judge.call.resolved.get(folder);
        let own = self.judge.call.resolved.get(&context.project);
        let own = own.real.as_deref().unwrap_or(&context.project);
        let inside = resolved
            .real
            .as_deref()
            .is_some_and(|real| real.starts_with(own));
        if context.trusted && inside {
            return Ok(());
        }
        Err(Distrust(format!(
            "`{}` is not a trusted folder, and its configuration can name programs to run",
            folder.display()
        )))
    }

    /// Whether git runs nothing there: the repository of the trusted folder, or one that names no programs.
    fn repository(&self, folder: &Path, obeys: Obeys) -> Result<(), Distrust> {
        let resolved = &self.judge.call.resolved;
        let context = self.judge.context;
        let Some(repository) = resolved.repository(folder) else {
            return Err(Distrust(
                "the repository that git would use isn't known".to_owned(),
            ));
        };
        let trusted = resolved
            .repository(&context.project)
            .filter(|_| context.trusted)
            .and_then(Repository::folder);
        if obeys == Obeys::RepositoryOnly && repository.folder().is_none() {
            return Err(Distrust(
                "without a repository git reads any files that it is given".to_owned(),
            ));
        }
        if trusted.is_some() && trusted == repository.folder() {
            return Ok(());
        }
        let here = resolved.get(folder).real.clone();
        let is_trusted_folder = [&context.project, &context.cwd]
            .iter()
            .any(|own| here.is_some() && resolved.get(own).real == here);
        if context.trusted && is_trusted_folder {
            return Ok(());
        }
        match repository {
            // The folder may be made, and filled, by an earlier part.
            Repository::None if self.part.folder != WorkingFolder::Start => Err(Distrust(
                "after a change of folder, the repository can't be checked".to_owned(),
            )),
            Repository::None | Repository::Plain { .. } => Ok(()),
            Repository::NotPlain { reason, .. } => Err(Distrust(format!(
                "the repository's configuration can make git run programs: {reason}"
            ))),
        }
    }

    /// The file of git's configuration with a password in it that the part would show.
    fn shown_credentials(&self) -> Option<&Path> {
        let file = self.judge.call.resolved.shown_credentials()?;
        super::shows_configuration(self.part).then_some(file)
    }

    /// Whether the part may run because it only reads.
    fn reads_only(&self) -> bool {
        let part = self.part;
        if self.configuration(self.obeys()).is_err() || self.shown_credentials().is_some() {
            return false;
        }
        if part.read_only.is_yes() {
            return true;
        }
        // After a change of folder: git is judged where it runs, everything else only in a root.
        part.read_only_in_trusted_folder
            && (self.obeys() != Obeys::Folder || are_roots(self.judge, self.folders))
    }

    /// Whether it would only read if its redirections weren't there.
    fn reads_only_beside_redirections(&self) -> bool {
        let part = self.part;
        let writes = part
            .redirections
            .iter()
            .any(|redirection| !redirection.free);
        if !writes || !part.assignments.is_empty() {
            return false;
        }
        if part.argv.is_empty() {
            return true;
        }
        let words: Vec<String> = part
            .argv
            .iter()
            .map(|word| match word {
                Argument::Fixed(text) => format!("'{}'", text.replace('\'', r"'\''")),
                Argument::Variable(variable) => variable.source.clone(),
            })
            .collect();
        let alone = analyse(&words.join(" "), self.judge.context.shell);
        alone.read_only
            && self.shown_credentials().is_none()
            && alone
                .parts
                .iter()
                .all(|part| self.configuration(part.obeys).is_ok())
    }

    fn deny_and_ask(&self, findings: &mut Findings) {
        let rules = &self.judge.context.rules;
        let home = self.judge.context.home.as_path();
        let commands: Vec<Vec<Option<Cow<'_, str>>>> = self
            .part
            .all_effective
            .iter()
            .chain([&self.part.argv, &self.part.effective_argv])
            .flat_map(|argv| {
                let words = words_of(argv, home);
                // `/bin/rm` is `rm`.
                let named = words.first().cloned().flatten().map(|name| {
                    let mut named = words.clone();
                    if let Some(first) = named.first_mut() {
                        *first = Some(crate::broad::base_name(&name).to_owned().into());
                    }
                    named
                });
                std::iter::once(words).chain(named)
            })
            .filter(|words| !words.is_empty())
            .collect();
        let on = |behavior| {
            rules.with(behavior).find(|rule: &&Rule| {
                rule.command().is_some_and(|pattern| {
                    commands
                        .iter()
                        .any(|words| pattern.matches(&texts_of(words)))
                })
            })
        };
        findings.deny = on(Behavior::Deny).map(Rule::reason);
        if findings.ask.is_none() {
            findings.ask = on(Behavior::Ask).map(Rule::reason);
        }
        let possible = rules.with(Behavior::Deny).find(|rule| {
            rule.command().is_some_and(|pattern| {
                commands
                    .iter()
                    .any(|words| pattern.could_match(&texts_of(words)))
            })
        });
        if let (None, Some(rule)) = (&findings.deny, possible) {
            let reason = format!(
                "its expanded arguments are unknown, and the rule {} may deny them",
                rule.text()
            );
            findings.hard = Some(Question::new(DecisionReason::SafetyCheck { reason }));
        }
    }

    fn suggestions(&self) -> Vec<PermissionUpdate> {
        let part = self.part;
        if !part.can_be_allowed || part.concerns.iter().any(Concern::asks_despite_rules) {
            return self.judge.exact_suggestion();
        }
        if part.file_command.is_some() && self.paths_are_inside() {
            // Edits in general cover simple file commands.
            return vec![PermissionUpdate::SetMode {
                mode: lathe_protocol::permission::PermissionMode::AcceptEdits,
                destination: RuleSource::Session,
            }];
        }
        match suggested_prefix(&part.effective_argv) {
            Some(words) => {
                let content = Some(format!("{}:*", words.join(" ")));
                vec![suggest::allow_rule(
                    "Bash",
                    content,
                    RuleSource::LocalSettings,
                )]
            }
            None => self.judge.exact_suggestion(),
        }
    }

    fn paths_are_inside(&self) -> bool {
        self.part
            .file_command
            .iter()
            .flat_map(|command| &command.paths)
            .all(
                |operand| match meaning_of(operand, self.folders, self.judge.context) {
                    Meaning::Paths(paths) => paths.iter().all(|path| {
                        self.judge
                            .call
                            .resolved
                            .get(path)
                            .inside(&self.judge.context.roots)
                    }),
                    Meaning::Pattern { .. } | Meaning::Unbounded => false,
                },
            )
    }
}
