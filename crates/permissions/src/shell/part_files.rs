//! The verdict on the files that one part of a command names.

use super::grant::Reach;
use super::operand::{
    Meaning, implied_places, landing_places, meaning_of, mentioned, write_targets, written_operands,
};
use super::part::View;
use super::survey::{Found, surveys_of};
use crate::files::{self, Toucher};
use crate::order::Findings;
use crate::order::Question;
use crate::repository::ObjectKind;
use lathe_protocol::permission::DecisionReason;
use lathe_shell::analysis::{FileAction, PathKind, PathOperand, RedirectionKind, WorkingFolder};
use std::path::Path;
use std::path::PathBuf;

/// Files that are no files.
const FREE_DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
    "/dev/zero",
    "/dev/urandom",
    "/dev/random",
];

impl View<'_> {
    pub(super) fn redirections(&self, all: &mut Vec<Findings>) {
        for redirection in &self.part.redirections {
            if redirection.free {
                continue;
            }
            let writes = match redirection.kind {
                // Reads are among the part's read paths.
                RedirectionKind::Read | RedirectionKind::HereDocument => continue,
                RedirectionKind::Duplicate => {
                    all.push(self.unbounded(&redirection.text, true));
                    continue;
                }
                RedirectionKind::Write | RedirectionKind::Append | RedirectionKind::ReadWrite => {
                    true
                }
            };
            self.each_path(
                &redirection.target.path(),
                &redirection.text,
                writes,
                Reach::Output,
                all,
            );
        }
    }

    pub(super) fn reads(&self, all: &mut Vec<Findings>) {
        for operand in &self.part.read_paths {
            if operand.kind == PathKind::Object {
                self.object(&operand.text, all);
            } else {
                self.each_path(operand, &operand.text, false, Reach::Command, all);
            }
        }
        if self.part.folder != WorkingFolder::Start && self.part.read_only.is_yes() {
            // What it reads without naming it lies in the folder that it runs in.
            match self.folders {
                Some(folders) => {
                    for folder in folders {
                        all.push(self.path_findings(folder, false, Reach::Command));
                    }
                }
                None => all.push(self.unbounded("the folder it runs in", false)),
            }
        }
    }

    /// An object of the repository: a file as it was at some time has no name that could be judged.
    fn object(&self, name: &str, all: &mut Vec<Findings>) {
        let is_file = self.folders.is_none_or(|folders| {
            folders
                .iter()
                .any(|folder| self.judge.call.resolved.object(folder, name) != ObjectKind::NoFile)
        });
        if is_file {
            all.push(self.unbounded(name, false));
        }
    }

    /// Files that a pattern matches and that would be taken for options.
    pub(super) fn names_like_options(&self, all: &mut Vec<Findings>) {
        for operand in &self.part.names_of_files {
            let Meaning::Pattern { folders, patterns } =
                meaning_of(operand, self.folders, self.judge.context)
            else {
                all.push(self.unbounded(&operand.text, false));
                continue;
            };
            for pattern in patterns {
                let Some(found) = self.judge.call.resolved.matches(&pattern) else {
                    all.push(self.unbounded(&operand.text, false));
                    continue;
                };
                let looks_like_option = |path: &&PathBuf| {
                    folders.iter().any(|folder| {
                        path.strip_prefix(crate::path::fold(folder))
                            .is_ok_and(|name| name.as_os_str().as_encoded_bytes().starts_with(b"-"))
                    })
                };
                if let Some(path) = found.iter().find(looks_like_option) {
                    all.push(self.odd_name(path));
                }
            }
        }
    }

    /// A name that is taken for something else than a file.
    fn odd_name(&self, path: &Path) -> Findings {
        let mut question = Question::other(format!(
            "the name of `{}` would be taken for an option, or for several names",
            path.display()
        ));
        question.suggestions = self.judge.exact_suggestion();
        let mut findings = self.judge.findings(question);
        findings.changes = false;
        findings.allow = self.granted(Reach::Output);
        findings
    }

    /// Files below a folder that a recursive reader would show although they are secret or forbidden.
    pub(super) fn found_below(&self, all: &mut Vec<Findings>) {
        for survey in surveys_of(self.part, self.folders, self.judge.context) {
            match self.judge.call.resolved.survey(&survey) {
                Some(Found::Nothing) => {}
                Some(Found::Files(files)) => {
                    for file in files {
                        all.push(self.path_findings(file, false, Reach::Command));
                    }
                }
                Some(Found::OddName(path)) => all.push(self.odd_name(path)),
                Some(Found::TooMany) | None => {
                    let mut question = Question::other(format!(
                        "there are too many files in `{}` to see whether secrets are among them; the Grep tool skips secrets",
                        survey.folder.display()
                    ));
                    question.suggestions = self.judge.exact_suggestion();
                    let mut findings = self.judge.findings(question);
                    findings.changes = false;
                    findings.allow = self.granted(Reach::Command);
                    all.push(findings);
                }
            }
        }
    }

    pub(super) fn file_command(&self, all: &mut Vec<Findings>) {
        let Some(command) = &self.part.file_command else {
            return;
        };
        let last = command.paths.len().saturating_sub(1);
        for (index, operand) in command.paths.iter().enumerate() {
            let writes = command.action != FileAction::Copy || index == last;
            self.each_path(operand, &operand.text, writes, Reach::Command, all);
            // Under another name a rule would not know it.
            if command.action == FileAction::Link && index != last {
                self.each_path(operand, &operand.text, false, Reach::Command, all);
            }
        }
        let puts = matches!(
            command.action,
            FileAction::Copy | FileAction::Move | FileAction::Link
        );
        for implied in implied_places(&command.paths, self.folders, self.judge.context) {
            if puts {
                all.push(self.path_findings(&implied, true, Reach::Command));
            }
        }
        if puts
            && let Some(target) = command.paths.last()
            && let Meaning::Paths(targets) = meaning_of(target, self.folders, self.judge.context)
            && targets
                .iter()
                .any(|target| self.judge.call.resolved.get(target).is_folder)
        {
            for landing in landing_places(&command.paths, self.folders, self.judge.context) {
                all.push(self.path_findings(&landing, true, Reach::Command));
            }
        }
    }

    /// Programs of which it isn't known what they read: a word that names a secret, or a file that a
    /// rule forbids, is treated as read.
    pub(super) fn mentioned_secrets(&self, all: &mut Vec<Findings>) {
        if self.part.file_command.is_some() {
            return;
        }
        for word in mentioned(self.part) {
            let operand = PathOperand::literal(word);
            let Meaning::Paths(paths) = meaning_of(&operand, self.folders, self.judge.context)
            else {
                continue;
            };
            for path in paths {
                let resolved = self.judge.call.resolved.get(&path);
                let secret = resolved
                    .forms()
                    .any(|form| self.judge.context.secret(form).is_some());
                let findings = self.path_findings(&path, false, Reach::Command);
                if secret || findings.deny.is_some() {
                    all.push(findings);
                }
            }
        }
    }

    /// Programs that write files without being simple file commands, and file commands behind wrappers:
    /// a word that names a protected file, or one that a rule closes, is treated as written.
    pub(super) fn mentioned_writes(&self, all: &mut Vec<Findings>) {
        for operand in write_targets(self.part) {
            let meaning = meaning_of(&operand, self.folders, self.judge.context);
            if meaning == Meaning::Unbounded {
                all.push(self.unbounded(&operand.text, true));
            }
        }
        for operand in written_operands(self.part)
            .into_iter()
            .chain(write_targets(self.part))
        {
            let paths = match meaning_of(&operand, self.folders, self.judge.context) {
                Meaning::Paths(paths) => paths,
                Meaning::Pattern { patterns, .. } => self.matches_of(&patterns),
                Meaning::Unbounded => continue,
            };
            for path in paths {
                let findings = self.path_findings(&path, true, Reach::Command);
                let protected = findings
                    .hard
                    .as_ref()
                    .is_some_and(|question| question.blocked_path.is_some());
                if protected || findings.deny.is_some() || findings.ask.is_some() {
                    all.push(findings);
                }
            }
        }
    }

    fn each_path(
        &self,
        operand: &PathOperand,
        shown: &str,
        writes: bool,
        reach: Reach,
        all: &mut Vec<Findings>,
    ) {
        match meaning_of(operand, self.folders, self.judge.context) {
            Meaning::Paths(paths) => {
                for path in paths {
                    all.push(self.path_findings(&path, writes, reach));
                }
            }
            Meaning::Pattern { patterns, .. } if writes => {
                let mut question = self.unbounded(shown, true);
                question.unknown = None;
                all.push(question);
                for path in self.matches_of(&patterns) {
                    let findings = self.path_findings(&path, true, reach);
                    if findings.hard.is_some() || findings.deny.is_some() {
                        all.push(findings);
                    }
                }
            }
            Meaning::Pattern { folders, patterns } => {
                for folder in folders {
                    all.push(self.path_findings(&folder, false, reach));
                }
                for pattern in patterns {
                    match self.judge.call.resolved.matches(&pattern) {
                        Some(found) => {
                            for path in found {
                                all.push(self.path_findings(path, false, reach));
                            }
                        }
                        None => all.push(self.unbounded(shown, false)),
                    }
                }
            }
            Meaning::Unbounded => all.push(self.unbounded(shown, writes)),
        }
    }

    /// The files that patterns match now, as far as that is known.
    pub(super) fn matches_of(&self, patterns: &[PathBuf]) -> Vec<PathBuf> {
        patterns
            .iter()
            .filter_map(|pattern| self.judge.call.resolved.matches(pattern))
            .flatten()
            .cloned()
            .collect()
    }

    /// A file that can't be known: only a rule for every command, or for exactly this one, covers it.
    fn unbounded(&self, shown: &str, writes: bool) -> Findings {
        let verb = if writes { "written" } else { "read" };
        let mut question =
            Question::other(format!("it can't be known which file is {verb}: {shown}"));
        question.suggestions = self.judge.exact_suggestion();
        let mut findings = self.judge.findings(question);
        findings.changes = writes;
        // A reader of who knows what may be shown a secret.
        let needed = if writes || !self.lists {
            Reach::Output
        } else {
            Reach::Command
        };
        findings.allow = self.granted(needed);
        if writes && self.judge.exact.is_none() {
            // It could be a protected file.
            let reason = format!("it can't be known which file is written: {shown}");
            findings.unknown = Some(self.judge.unknown(reason));
        }
        findings
    }

    fn granted(&self, needed: Reach) -> Option<DecisionReason> {
        self.grant
            .filter(|grant| grant.reach >= needed)
            .map(|grant| grant.rule.reason())
    }

    fn path_findings(&self, path: &Path, writes: bool, reach: Reach) -> Findings {
        let resolved = self.judge.call.resolved.get(path);
        let context = self.judge.context;
        let free = FREE_DEVICES
            .iter()
            .any(|device| resolved.written == Path::new(device))
            || resolved.written.starts_with("/dev/fd");
        let mut findings = if writes {
            files::write(&resolved, Toucher::Shell, context)
        } else if self.lists {
            files::read(&resolved, Toucher::Lister, context)
        } else {
            files::read(&resolved, Toucher::Shell, context)
        };
        findings.sandboxed = self.judge.sandboxed;
        if free {
            findings.passes = Some(DecisionReason::Other {
                reason: "a device that holds nothing".to_owned(),
            });
            findings.hard = None;
            findings.refused = None;
            findings.changes = false;
            return findings;
        }
        if writes && resolved.leads_anywhere && self.judge.exact.is_none() {
            let reason = format!(
                "a link that the command makes can lead `{}` anywhere",
                path.display()
            );
            findings.unknown = Some(self.judge.unknown(reason));
        }
        // A shell expands nothing in a decoded word: `$` in a name is just a character, but one that
        // the user should look at.
        if let Some(reason) = findings.refused.take() {
            findings.hard.get_or_insert(Question::new(reason));
        }
        if findings.passes.is_some() {
            return findings;
        }
        let secret = !self.lists && resolved.forms().any(|form| context.secret(form).is_some());
        let needed = if secret { Reach::Spelt } else { reach };
        if findings.allow.is_none() {
            findings.allow = self.granted(needed);
        }
        if !secret && findings.question.suggestions.is_empty() {
            findings.question.suggestions = self.judge.exact_suggestion();
        }
        findings
    }
}
