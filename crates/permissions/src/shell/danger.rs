//! Effects that need confirmation whatever the rules and the mode say: removals of what is vital, writes to protected files,
//! and what can't be known beforehand.

use super::Judge;
use super::code::{code as code_of, code_runs_unknown};
use super::grant::{texts_of, words_of};
use super::nested;
use super::operand::{
    Meaning, deleted_operands, meaning_of, mentioned_patterns, removed_operands, starts_of_removal,
    write_targets, written_operands,
};
use super::part::View;
use crate::broad::base_name;
use crate::ruleset::Rule;
use lathe_protocol::permission::Behavior;
use lathe_shell::analysis::{
    Analysis, Argument, Concern, ConcernKind, Part, PathKind, PathOperand, Vital, analyse,
};
use std::path::{Path, PathBuf};

/// Whether a pattern ends in a name that matches about everything.
fn is_everything(pattern: &str) -> bool {
    let last = pattern.rsplit('/').next().unwrap_or(pattern);
    !last.is_empty()
        && last
            .chars()
            .all(|character| matches!(character, '*' | '?' | '.' | '[' | ']' | '!'))
}

/// How deep texts in texts are looked at.
const MOST_NESTED: usize = 4;

/// Why a command that isn't understood needs confirmation whatever the rules say: something in its text looks like a removal
/// of what is vital, or like a write to a protected file.
pub(super) fn danger_in_command(judge: &Judge<'_>) -> Option<String> {
    let nested = nested::texts_of_command(judge.command, judge.context.shell);
    let folders = [judge.cwd.to_path_buf()];
    nested
        .commands
        .iter()
        .flat_map(|analysis| &analysis.parts)
        .find_map(|part| {
            let view = View {
                judge,
                part,
                folders: Some(&folders),
                grant: None,
                lists: false,
            };
            view.vital_removal().or_else(|| view.protected_target())
        })
}

/// A change of what the system itself keeps: schedules, start-up, accounts, volumes, the kernel.
fn changed_system(words: &[&str]) -> Option<&'static str> {
    match words {
        ["crontab" | "incrontab" | "at" | "batch", rest @ ..]
            if !rest.contains(&"-l") && !rest.contains(&"-V") =>
        {
            Some("it changes what runs at given times")
        }
        ["launchctl", "load" | "bootstrap" | "submit", ..]
        | ["systemctl", "link" | "edit" | "enable", ..]
        | ["systemctl", "--user", "link" | "edit" | "enable", ..]
        | ["update-rc.d" | "chkconfig", ..] => Some("it changes what runs when a session starts"),
        [
            "visudo" | "vipw" | "usermod" | "useradd" | "adduser" | "userdel" | "deluser"
            | "newusers" | "passwd" | "chpasswd" | "groupmod" | "groupadd" | "addgroup"
            | "groupdel" | "delgroup" | "chgpasswd" | "gpasswd" | "chsh",
            ..,
        ] => Some("it changes the accounts of the system"),
        ["lvremove" | "vgremove" | "pvremove", ..]
        | ["zpool", "destroy" | "labelclear", ..]
        | ["zfs", "destroy", ..]
        | ["btrfs", "subvolume", "delete", ..] => Some("it removes a volume"),
        ["diskutil", verb, ..] if !matches!(*verb, "list" | "info" | "activity") => {
            Some("it changes the disks")
        }
        ["insmod" | "rmmod" | "modprobe" | "kexec", ..] => Some("it changes the running kernel"),
        ["sysctl", rest @ ..] if rest.iter().any(|word| word.contains('=')) => {
            Some("it changes the running kernel")
        }
        ["npm" | "pnpm" | "yarn", "config" | "c", "set", key, ..] | ["npm", "set", key, ..]
            if names_program_for_npm(key) =>
        {
            Some("the setting can make npm run a program")
        }
        _ => None,
    }
}

/// Settings of package managers that name programs, or files with such settings.
fn names_program_for_npm(key: &str) -> bool {
    let (name, _) = key.split_once('=').unwrap_or((key, ""));
    matches!(
        name,
        "script-shell" | "shell" | "editor" | "git" | "node-options" | "viewer" | "prefix"
    ) || name.ends_with("config")
}

/// A setting that `git clone` gives the new repository and that names a program.
fn configured(words: &[&str]) -> Option<String> {
    words.iter().enumerate().find_map(|(at, word)| {
        let setting = match word.strip_prefix("--config=").or(word.strip_prefix("-c")) {
            Some("") => words.get(at + 1).copied(),
            None if *word == "--config" => words.get(at + 1).copied(),
            other => other,
        };
        let (key, value) = setting?.split_once('=')?;
        crate::repository::program_setting(&[key, value])
    })
}

impl View<'_> {
    /// Why a removal needs confirmation whatever the rules say.
    pub(super) fn vital_removal(&self) -> Option<String> {
        if let Some(removal) = &self.part.removal {
            return Some(format!(
                "it would remove {}: {}",
                removal.target, removal.reason
            ));
        }
        let context = self.judge.context;
        for operand in removed_operands(self.part) {
            let paths = match meaning_of(&operand, self.folders, context) {
                Meaning::Paths(paths) => paths,
                // Everything in a folder is the folder.
                Meaning::Pattern { folders, .. } if is_everything(&operand.text) => folders,
                Meaning::Unbounded if is_everything(&operand.text) => {
                    return Some(format!(
                        "it would remove everything that `{}` matches, the folder above included",
                        operand.text
                    ));
                }
                Meaning::Pattern { patterns, .. } => self.matches_of(&patterns),
                Meaning::Unbounded => continue,
            };
            for path in paths {
                let path = self.judge.call.resolved.get(&path);
                // A path in a nested text was not looked at, so its steps up are still in it.
                let vital = path.forms().map(crate::path::fold).find(|form| {
                    let holds = |folder: &Path| {
                        crate::path::starts_with(folder, form, path.case_insensitive)
                    };
                    holds(&context.home)
                        || holds(&context.machine.home)
                        || holds(&context.config_home)
                        || context.roots.iter().any(|root| holds(root))
                });
                if let Some(vital) = vital {
                    return Some(format!(
                        "it would remove `{}`, which is or holds a working root or the home folder",
                        vital.display()
                    ));
                }
            }
        }
        self.vital_loss()
            .or_else(|| self.removes_top_level())
            .or_else(|| self.found_protected())
    }

    /// Something vital that is removed or changed with everything in it, where its words don't show it: links lead there.
    fn vital_loss(&self) -> Option<String> {
        let context = self.judge.context;
        for loss in &self.part.losses {
            let paths = match meaning_of(&loss.operand, self.folders, context) {
                Meaning::Paths(paths) => paths,
                Meaning::Pattern { folders, .. } if is_everything(&loss.operand.text) => folders,
                Meaning::Pattern { patterns, .. } => self.matches_of(&patterns),
                Meaning::Unbounded => continue,
            };
            let vital = paths.iter().find_map(|path| {
                let resolved = self.judge.call.resolved.get(path);
                let forms: Vec<PathBuf> = resolved.forms().map(crate::path::fold).collect();
                forms
                    .into_iter()
                    .find(|form| self.is_vital_for(form, loss.vital))
            });
            if let Some(vital) = vital {
                return Some(format!(
                    "it would remove or change everything in `{}`",
                    vital.display()
                ));
            }
        }
        None
    }

    /// Whether a path is too much to lose, or holds what is.
    fn is_vital_for(&self, path: &Path, vital: Vital) -> bool {
        let context = self.judge.context;
        let top_level = path.is_absolute() && path.components().count() <= 2;
        let holds_home = || {
            path.parent() == Some(Path::new("/home"))
                || [&context.home, &context.machine.home]
                    .into_iter()
                    .any(|home| home.starts_with(path))
        };
        match vital {
            Vital::System => top_level,
            Vital::Home => top_level || holds_home(),
            Vital::Start => path == Path::new("/") || path == Path::new("/etc") || holds_home(),
            Vital::Project => self.is_vital(path),
            Vital::Nothing => false,
        }
    }

    /// A folder of the system that is removed, by whatever words: `cd /; rm -rf ./usr`.
    fn removes_top_level(&self) -> Option<String> {
        for operand in deleted_operands(self.part) {
            let Meaning::Paths(paths) = meaning_of(&operand, self.folders, self.judge.context)
            else {
                continue;
            };
            let top = paths
                .iter()
                .map(|path| crate::path::fold(path))
                .find(|path| path.is_absolute() && path.components().count() <= 2);
            if let Some(top) = top {
                return Some(format!(
                    "it would remove `{}`, a folder of the system",
                    top.display()
                ));
            }
        }
        None
    }

    /// Unknown parts that could be anything that a rule or a check denies: text that a shell runs, a file that
    /// is removed. Only a rule that spells the command out was made by someone who saw it.
    pub(super) fn unknown_effect(&self) -> Option<String> {
        if self.judge.exact.is_some() {
            return None;
        }
        let runs_value = |concern: &Concern| concern.kind == ConcernKind::RunsValue;
        if self.part.runs_unknown_text || self.part.concerns.iter().any(runs_value) {
            return Some("it runs text that can't be known beforehand".to_owned());
        }
        if self.runs_unknown_command() {
            return Some("it can't be known which command it runs".to_owned());
        }
        if code_runs_unknown(self.part) {
            return Some("it can't be known which command its code runs".to_owned());
        }
        if let Some(reason) = self.unknown_in_shell_text() {
            return Some(reason);
        }
        let unknown =
            |operand: &PathOperand| match meaning_of(operand, self.folders, self.judge.context) {
                Meaning::Paths(paths) => paths
                    .iter()
                    .any(|path| self.judge.call.resolved.get(path).leads_anywhere),
                Meaning::Pattern { patterns, .. } => patterns
                    .iter()
                    .any(|pattern| self.judge.call.resolved.matches(pattern).is_none()),
                Meaning::Unbounded => true,
            };
        // Working folders are there to be filled: one that isn't known is taken for one of these.
        let losses = self.part.losses.iter();
        let losses = losses
            .filter(|loss| loss.vital != Vital::Start)
            .map(|loss| loss.operand.clone());
        removed_operands(self.part)
            .into_iter()
            .chain(starts_of_removal(self.part))
            .chain(losses)
            .find(unknown)
            .map(|operand| {
                format!(
                    "it can't be known what `{}` removes or changes",
                    operand.text
                )
            })
    }

    /// A file that is written or removed by the text of a shell, and that can't be known: `sh -c 'echo x > "$1"' _ f`.
    fn unknown_in_shell_text(&self) -> Option<String> {
        if nested::removes_placeholder(self.part) {
            return Some("it can't be known what a variable's command removes".to_owned());
        }
        let texts = nested::shell_texts(self.part);
        let parts = texts
            .iter()
            .map(|text| analyse(text, self.judge.context.shell))
            .flat_map(|analysis| analysis.parts);
        parts.into_iter().find_map(|part| {
            let redirected = part
                .redirections
                .iter()
                .filter(|redirection| redirection.writes())
                .map(|redirection| redirection.target.path());
            let operand = redirected
                .chain(write_targets(&part))
                .chain(removed_operands(&part))
                .find(|operand| operand.kind == PathKind::Unbounded)?;
            Some(format!(
                "it can't be known which file `{}` is, which a shell changes",
                operand.text
            ))
        })
    }

    /// Effects of commands in the arguments of this one that need confirmation.
    pub(super) fn nested_danger(&self) -> Option<String> {
        let context = self.judge.context;
        let denies: Vec<&Rule> = context
            .rules
            .with(Behavior::Deny)
            .filter(|rule| rule.command().is_some())
            .collect();
        let denied = |argv: &[Argument]| {
            let words = words_of(argv, &context.home);
            denies
                .iter()
                .find(|rule| {
                    rule.command()
                        .is_some_and(|pattern| pattern.matches(&texts_of(&words)))
                })
                .map(|rule| format!("the rule {} may deny what this would run", rule.text()))
        };
        if !denies.is_empty() {
            let names: Vec<&str> = denies
                .iter()
                .filter_map(|rule| rule.command()?.leading_words().first().copied())
                .collect();
            let named = nested::from_names(self.part, &names, context.shell);
            let in_text = named
                .iter()
                .flat_map(|analysis| &analysis.parts)
                .find_map(|part| denied(&part.argv));
            let reason = nested::rests(self.part).into_iter().find_map(denied);
            if let Some(reason) = reason.or(in_text) {
                return Some(reason);
            }
        }
        self.danger_in_texts(self.part, &denied, MOST_NESTED)
            .or_else(|| self.danger_in_code())
            .or_else(|| self.changed_device())
            .or_else(|| self.changed_configuration())
            .or_else(|| self.mentioned_protected())
    }

    /// A protected file among the words of a program that isn't known to only read what they name.
    fn mentioned_protected(&self) -> Option<String> {
        if self.part.read_only.is_yes() || self.part.file_command.is_some() {
            return None;
        }
        let all = &self.part.all_effective;
        let names = |argv: &[Argument]| {
            let mut names = nested::names_in_words(argv);
            let words = argv.iter().skip(1).filter_map(Argument::fixed);
            names.extend(
                words
                    .filter(|word| self.is_link(word))
                    .map(ToOwned::to_owned),
            );
            names.retain(|name| self.protected_name(name).is_some());
            names
        };
        let is_fine = |argv: &[Argument]| {
            nested::leaves_its_files_alone(argv)
                || nested::as_command(argv, self.judge.context.shell).read_only
        };
        all.iter()
            .find_map(|argv| {
                let named = names(argv);
                let first = named.first()?;
                // What a wrapper runs has the words after its own.
                let runs_reader = all.iter().any(|inner| {
                    inner.len() < argv.len()
                        && argv.ends_with(inner)
                        && names(inner) == named
                        && is_fine(inner)
                });
                let reason = self.protected_name(first)?;
                (!is_fine(argv) && !runs_reader).then_some(reason)
            })
            .or_else(|| self.matched_protected())
            .or_else(|| self.written_by_editor())
    }

    /// A protected file that the commands for an editor name: `ed x <<< 'w ~/.bashrc'`.
    fn written_by_editor(&self) -> Option<String> {
        let edits = self.part.all_effective.iter().any(|argv| {
            let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
            matches!(base_name(name), "ed" | "red" | "ex" | "vi" | "vim" | "nvim")
        });
        let texts = self.part.fed_texts.iter().filter(|_| edits);
        texts
            .flat_map(|text| text.split_whitespace())
            .filter(|word| word.contains('/') || word.starts_with('.'))
            .find_map(|word| self.protected_name(word))
    }

    /// A protected file that a pattern matches among the words of such a program.
    fn matched_protected(&self) -> Option<String> {
        mentioned_patterns(self.part).iter().find_map(|operand| {
            let Meaning::Pattern { patterns, .. } =
                meaning_of(operand, self.folders, self.judge.context)
            else {
                return None;
            };
            self.matches_of(&patterns)
                .iter()
                .find_map(|path| self.protected_form(path))
        })
    }

    /// Why a file that a piece of text names is protected. How it is spelt doesn't count.
    fn protected_name(&self, name: &str) -> Option<String> {
        self.paths_in_code(name)
            .into_iter()
            .filter(|path| !path.starts_with("/dev") && !crate::protected::is_odd(path))
            .find_map(|path| self.protected_form(&path))
    }

    /// Whether a word is the name of a link.
    fn is_link(&self, word: &str) -> bool {
        self.paths_in_code(word)
            .iter()
            .any(|path| !self.judge.call.resolved.get(path).links.is_empty())
    }

    /// Why a path, or what it leads to, is protected.
    pub(super) fn protected_form(&self, path: &Path) -> Option<String> {
        let resolved = self.judge.call.resolved.get(path);
        resolved
            .forms()
            .find_map(|form| self.judge.context.protected(&crate::path::fold(form)))
    }

    /// Effects of the texts in a part's arguments that need confirmation, nested texts included.
    fn danger_in_texts(
        &self,
        part: &Part,
        denied: &dyn Fn(&[Argument]) -> Option<String>,
        depth: usize,
    ) -> Option<String> {
        let nested = nested::texts(part, self.judge.context.shell);
        if nested.too_many {
            return Some("its arguments contain too many commands to check".to_owned());
        }
        self.danger_in(&nested.commands, denied, depth)
    }

    /// Effects of commands found in a text that need confirmation.
    fn danger_in(
        &self,
        commands: &[Analysis],
        denied: &dyn Fn(&[Argument]) -> Option<String>,
        depth: usize,
    ) -> Option<String> {
        for part in commands.iter().flat_map(|analysis| &analysis.parts) {
            let folders = nested::folders_of_inner(part, self.folders, self.judge.context);
            let view = View {
                judge: self.judge,
                part,
                folders: folders.as_deref(),
                grant: None,
                lists: false,
            };
            let reason = view
                .vital_removal()
                .or_else(|| part.all_effective.iter().find_map(|argv| denied(argv)))
                .or_else(|| view.protected_target());
            if reason.is_some() {
                return reason;
            }
            if depth == 0 {
                return Some("it runs text that is nested too deeply to be checked".to_owned());
            }
            let deeper = view.danger_in_texts(part, denied, depth - 1);
            if deeper.is_some() {
                return deeper;
            }
        }
        None
    }

    /// Why a file that the part writes to is protected.
    fn protected_target(&self) -> Option<String> {
        let redirected = self
            .part
            .redirections
            .iter()
            .filter(|redirection| redirection.writes())
            .map(|redirection| redirection.target.path());
        let named = self
            .part
            .file_command
            .iter()
            .flat_map(|command| command.paths.clone());
        redirected
            .chain(write_targets(self.part))
            .chain(written_operands(self.part))
            .chain(named)
            .find_map(|operand| {
                let Meaning::Paths(paths) = meaning_of(&operand, self.folders, self.judge.context)
                else {
                    return None;
                };
                paths.iter().find_map(|path| self.protected_form(path))
            })
    }

    /// Whether the name of the command, or a program that a variable names, is only known when it runs.
    fn runs_unknown_command(&self) -> bool {
        let unknown = |argv: &Vec<Argument>| match argv.first() {
            Some(Argument::Variable(variable)) => {
                variable.values.is_empty()
                    && matches!(
                        variable.path.kind,
                        PathKind::Unbounded | PathKind::Pattern | PathKind::HomePattern
                    )
            }
            _ => false,
        };
        let made_on_the_way = self.part.assignments.iter().any(|assignment| {
            !assignment.harmless && assignment.value.path().kind == PathKind::Pipe
        });
        made_on_the_way || self.part.all_effective.iter().any(unknown)
    }

    /// Effects of an interpreter's inline code on files that its strings name.
    fn danger_in_code(&self) -> Option<String> {
        for code in code_of(self.part) {
            if code.removes_unknown {
                return Some("it can't be known which folder its code removes".to_owned());
            }
            for path in code
                .strings
                .iter()
                .flat_map(|text| self.paths_in_code(text))
            {
                let all_in = path
                    .parent()
                    .filter(|_| is_everything(&path.to_string_lossy()));
                let removed = self.judge.call.resolved.get(all_in.unwrap_or(&path));
                if code.removes && removed.forms().any(|form| self.is_vital(form)) {
                    return Some(format!(
                        "its code would remove `{}`, which is or holds a working root or the home folder",
                        path.display()
                    ));
                }
                let protected = self.protected_form(&path);
                if let Some(reason) = protected.filter(|_| code.changes) {
                    return Some(reason);
                }
            }
        }
        None
    }

    /// The files that a string in code could name.
    fn paths_in_code(&self, text: &str) -> Vec<PathBuf> {
        if text.len() > 4096 || text.contains('\n') {
            return Vec::new();
        }
        let home = &self.judge.context.home;
        let below_home = text
            .strip_prefix('~')
            .or_else(|| text.strip_prefix("$HOME"))
            .or_else(|| text.strip_prefix("${HOME}"))
            .filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let paths = match below_home {
            Some(rest) => vec![home.join(rest.trim_start_matches('/'))],
            None => self
                .folders
                .unwrap_or_default()
                .iter()
                .map(|folder| folder.join(text))
                .collect(),
        };
        paths.iter().map(|path| crate::path::fold(path)).collect()
    }

    /// Whether a path is, or holds, a working root or the home folder.
    fn is_vital(&self, path: &Path) -> bool {
        let context = self.judge.context;
        let is_top_level = path.is_absolute() && path.components().count() <= 2;
        if is_top_level
            || path
                .parent()
                .is_some_and(|parent| parent == Path::new("/home"))
        {
            return true;
        }
        [&context.home, &context.machine.home, &context.config_home]
            .into_iter()
            .chain(&context.roots)
            .any(|folder| folder.starts_with(path))
    }

    /// A disk among the words of a command that isn't known to only read.
    fn changed_device(&self) -> Option<String> {
        const DISKS: &[&str] = &[
            "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "md", "dm-", "mapper", "disk", "rdisk",
            "loop",
        ];
        const LOOKING: &[&str] = &[
            "mount", "umount", "smartctl", "blkid", "lsblk", "udevadm", "ls", "stat",
        ];
        if self.part.read_only.is_yes() {
            return None;
        }
        for argv in &self.part.all_effective {
            let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
            if LOOKING.contains(&base_name(name)) || nested::takes_messages(argv) {
                continue;
            }
            for word in argv.iter().skip(1).filter_map(Argument::fixed) {
                let value = word.split_once('=').map_or(word, |(_, value)| value);
                let disk = value
                    .strip_prefix("/dev/")
                    .is_some_and(|device| DISKS.iter().any(|disk| device.starts_with(disk)));
                if disk {
                    return Some(format!("it may change the disk `{value}`"));
                }
            }
        }
        None
    }

    /// A setting that names a program for git or for a scheduler to run.
    fn changed_configuration(&self) -> Option<String> {
        if self.part.read_only.is_yes() {
            return None;
        }
        self.part.all_effective.iter().find_map(|argv| {
            let words: Vec<&str> = argv.iter().map(Argument::text).collect();
            match words.as_slice() {
                ["git", rest @ ..] => self.changed_git(rest, argv),
                words => changed_system(words).map(ToOwned::to_owned),
            }
        })
    }

    /// A setting, a template or a schedule that makes git run programs.
    fn changed_git(&self, words: &[&str], argv: &[Argument]) -> Option<String> {
        match nested::after_options_of_git(words) {
            ["config", rest @ ..] => crate::repository::program_setting(rest)
                .map(|key| format!("the setting {key} can make git run a program")),
            ["maintenance", "start" | "register", ..] => {
                Some("it changes what runs at given times".to_owned())
            }
            ["clone" | "init", rest @ ..]
                if rest.iter().any(|word| word.starts_with("--template")) =>
            {
                Some("the template can bring hooks that git runs".to_owned())
            }
            ["clone", rest @ ..] if configured(rest).is_some() => {
                configured(rest).map(|key| format!("the setting {key} can make git run a program"))
            }
            ["clone" | "init", .., last] => {
                let operand = argv.last().map(Argument::path)?;
                let Meaning::Paths(paths) = meaning_of(&operand, self.folders, self.judge.context)
                else {
                    return None;
                };
                paths
                    .iter()
                    .filter(|_| !last.contains("://"))
                    .find_map(|path| self.judge.context.protected(&crate::path::fold(path)))
            }
            _ => None,
        }
    }
}
