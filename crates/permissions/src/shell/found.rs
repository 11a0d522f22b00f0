//! Protected files that a command removes or changes without naming them: those below a folder, by their names.

use super::operand::{Meaning, meaning_of};
use super::part::View;
use crate::broad::base_name;
use crate::glob::could_match;
use crate::protected::startup_names;
use lathe_shell::analysis::Argument;
use std::path::{Path, PathBuf};

/// Files that let others in, beside those that are run.
const KEYS: &[&str] = &[
    ".ssh/authorized_keys",
    ".ssh/config",
    ".ssh/id_rsa",
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".netrc",
];

impl View<'_> {
    /// Why everything in a folder must not be removed or changed, or what `find` finds there by its name.
    pub(super) fn found_protected(&self) -> Option<String> {
        let names = self.names_looked_for();
        let mut folders = Vec::new();
        for loss in &self.part.losses {
            match meaning_of(&loss.operand, self.folders, self.judge.context) {
                Meaning::Paths(paths) => folders.extend(paths),
                Meaning::Pattern { patterns, .. } => folders.extend(self.matches_of(&patterns)),
                Meaning::Unbounded => {}
            }
        }
        folders.iter().find_map(|folder| {
            self.protected_form(folder)
                .or_else(|| self.protected_below(folder, &names))
        })
    }

    /// A file of the home folder that lies below a folder and has one of some names.
    fn protected_below(&self, folder: &Path, names: &[&str]) -> Option<String> {
        if names.is_empty() {
            return None;
        }
        let home = &self.judge.context.home;
        let resolved = self.judge.call.resolved.get(folder);
        let forms: Vec<PathBuf> = resolved.forms().map(crate::path::fold).collect();
        startup_names()
            .chain(KEYS.iter().map(PathBuf::from))
            .map(|name| home.join(name))
            .filter(|path| forms.iter().any(|form| path.starts_with(form)))
            .filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                names
                    .iter()
                    .any(|pattern| could_match(&pattern.to_lowercase(), &name.to_lowercase()))
            })
            .find_map(|path| self.protected_form(&path))
    }

    /// The names that the `find` of a part looks for.
    fn names_looked_for(&self) -> Vec<&str> {
        let all = self.part.all_effective.iter();
        all.filter(|argv| {
            let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
            base_name(name) == "find"
        })
        .flat_map(|argv| argv.windows(2))
        .filter_map(|pair| match pair {
            [test, value] if matches!(test.fixed()?, "-name" | "-iname") => Some(value.text()),
            _ => None,
        })
        .collect()
    }
}
