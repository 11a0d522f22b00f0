//! Reads all sources and merges them into the settings in effect.
//!
//! Each file becomes a [`Layer`]: parsed, held to the schema, freed of what an untrusted folder may
//! not say. The layers are then merged by strength. Nothing here fails: what is wrong with a file is
//! a [`Problem`] in the result, and a file that can't be read grants nothing.

use crate::document::{Document, Position};
use crate::key::KeyPath;
use crate::paths::Places;
use crate::reading::{Presence, Reader, read};
use crate::schema::{HookGroup, Settings};
use crate::source::{Problem, Severity, Source};
use crate::trust::{Bring, Trust};
use lathe_protocol::permission::{Behavior, RuleSource};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Options of loading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadOptions {
    /// The values of `--settings`: each a file, or JSON.
    pub flags: Vec<String>,
    /// The values of `--managed-settings`: policy from the parent process, below the machine's own.
    pub managed_flags: Vec<String>,
    /// The sources of `--setting-sources`; `None` is all. Managed settings and flags always apply.
    pub sources: Option<Vec<Source>>,
    /// How far the folder's own settings take effect.
    pub trust: Trust,
}

impl LoadOptions {
    fn includes(&self, source: Source) -> bool {
        match source {
            Source::Flag | Source::Managed => true,
            other => self
                .sources
                .as_ref()
                .is_none_or(|named| named.contains(&other)),
        }
    }
}

/// One file's (or flag's) settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Where it comes from.
    pub source: Source,
    /// The file; `None` for JSON on the command line.
    pub path: Option<PathBuf>,
    /// The folder that rule patterns such as `/src/**` and relative paths refer to.
    pub folder: PathBuf,
    /// The part in effect.
    pub value: Value,
    /// The part that would take effect if the folder was trusted.
    pub withheld: Vec<Bring>,
    pub(crate) document: Document,
}

impl Layer {
    /// Where a key stands in the file.
    #[must_use]
    pub fn position(&self, key: &KeyPath) -> Option<Position> {
        self.document.position(&key.pointer())
    }

    /// The hooks of this layer, by event.
    #[must_use]
    pub fn hooks(&self) -> BTreeMap<String, Vec<HookGroup>> {
        self.value
            .get("hooks")
            .and_then(|hooks| BTreeMap::deserialize(hooks).ok())
            .unwrap_or_default()
    }
}

/// A permission rule as it stands in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct SourcedRule {
    /// Its behaviour.
    pub behavior: Behavior,
    /// The rule as written.
    pub rule: String,
    /// Where it comes from.
    pub source: RuleSource,
    /// The folder that patterns such as `/src/**` refer to.
    pub folder: PathBuf,
    /// The file.
    pub file: Option<PathBuf>,
    /// Where it stands in the file.
    pub position: Option<Position>,
}

/// Where the value of a key comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// The source.
    pub source: Source,
    /// The file.
    pub path: Option<PathBuf>,
    /// The place in the file.
    pub position: Option<Position>,
}

/// Which hooks may run at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HookSwitches {
    /// No hooks run but managed ones.
    pub disabled: bool,
    /// Managed hooks don't run either; only managed settings can say so.
    pub managed_disabled: bool,
    /// Only managed hooks run; only managed settings can say so.
    pub managed_only: bool,
}

/// The settings of all sources, merged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resolved {
    /// The settings in effect.
    pub settings: Settings,
    /// The same as JSON.
    pub value: Value,
    /// The layers, weakest first.
    pub layers: Vec<Layer>,
    /// Problems in the files.
    pub problems: Vec<Problem>,
}

impl Resolved {
    /// Which source the value of a key comes from: the strongest that says something about it.
    #[must_use]
    pub fn origin(&self, key: &KeyPath) -> Option<Origin> {
        self.layers
            .iter()
            .rev()
            .find(|layer| key.find(&layer.value).is_some_and(|value| !value.is_null()))
            .map(|layer| Origin {
                source: layer.source,
                path: layer.path.clone(),
                position: layer.position(key),
            })
    }

    /// Every permission rule in effect, with its origin. With
    /// `allowManagedPermissionRulesOnly`, allow and ask rules of other sources are left out; their
    /// deny rules stay, since those can only take away.
    #[must_use]
    pub fn rules(&self) -> Vec<SourcedRule> {
        let managed_only = self.settings.allow_managed_permission_rules_only == Some(true);
        let mut rules = Vec::new();
        for layer in &self.layers {
            for (name, behavior) in [
                ("deny", Behavior::Deny),
                ("ask", Behavior::Ask),
                ("allow", Behavior::Allow),
            ] {
                if managed_only && layer.source != Source::Managed && behavior != Behavior::Deny {
                    continue;
                }
                let list = layer.value.pointer(&format!("/permissions/{name}"));
                for (index, rule) in list
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .enumerate()
                {
                    let Some(rule) = rule.as_str() else { continue };
                    rules.push(SourcedRule {
                        behavior,
                        rule: rule.to_owned(),
                        source: layer.source.into(),
                        folder: layer.folder.clone(),
                        file: layer.path.clone(),
                        position: layer
                            .document
                            .position(&format!("/permissions/{name}/{index}")),
                    });
                }
            }
        }
        rules
    }

    /// Further working roots, made absolute from the folder of the file that names them.
    #[must_use]
    pub fn directories(&self, places: &Places) -> Vec<(PathBuf, RuleSource)> {
        let mut directories: Vec<(PathBuf, RuleSource)> = Vec::new();
        for layer in &self.layers {
            let list = layer.value.pointer("/permissions/additionalDirectories");
            for path in list
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
            {
                let path = places.environment.resolve_from(path, &layer.folder);
                if !directories.iter().any(|(known, _)| *known == path) {
                    directories.push((path, layer.source.into()));
                }
            }
        }
        directories
    }

    /// Which hooks may run at all.
    #[must_use]
    pub fn hook_switches(&self) -> HookSwitches {
        let says = |key: &str, managed: bool| {
            self.layers
                .iter()
                .rfind(|layer| {
                    (layer.source == Source::Managed || !managed) && layer.value.get(key).is_some()
                })
                .and_then(|layer| layer.value.get(key)?.as_bool())
                .unwrap_or(false)
        };
        HookSwitches {
            disabled: says("disableAllHooks", false),
            managed_disabled: says("disableAllHooks", true),
            managed_only: says("allowManagedHooksOnly", true),
        }
    }

    /// The environment that settings ask for.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        self.settings
            .env
            .iter()
            .map(|(name, value)| (name.clone(), value.text()))
            .collect()
    }

    /// The content of the folder that has no effect because the folder isn't trusted.
    #[must_use]
    pub fn withheld(&self) -> Vec<Bring> {
        let mut all: Vec<Bring> = self
            .layers
            .iter()
            .flat_map(|layer| layer.withheld.clone())
            .collect();
        all.dedup();
        all
    }

    /// The problems of what the command line itself gave; a caller ends with them instead of
    /// starting with less than it was told.
    #[must_use]
    pub fn flag_errors(&self) -> Vec<&Problem> {
        self.problems
            .iter()
            .filter(|problem| problem.source == Source::Flag && problem.severity == Severity::Error)
            .collect()
    }
}

/// Reads everything.
#[must_use]
pub fn load(places: &Places, options: &LoadOptions) -> Resolved {
    load_with(places, options, &mut read)
}

/// Reads everything with another way to read a file.
pub(crate) fn load_with(places: &Places, options: &LoadOptions, read: &mut Reader<'_>) -> Resolved {
    let mut resolved = Resolved::default();
    for source in Source::ALL {
        if !options.includes(source) {
            continue;
        }
        let flags: &[String] = match source {
            Source::Flag => &options.flags,
            Source::Managed => &options.managed_flags,
            _ => &[],
        };
        for flag in flags {
            resolved.load_flag(source, flag, places, options, read);
        }
        for file in places.settings_files(source) {
            resolved.load_file(source, &file, places, options, Presence::Optional, read);
        }
    }
    resolved.finish();
    resolved
}

/// Every file that is or would be read, with its source.
#[must_use]
pub fn files(places: &Places, options: &LoadOptions) -> Vec<(Source, PathBuf)> {
    let mut files = Vec::new();
    for source in Source::ALL
        .into_iter()
        .filter(|source| options.includes(*source))
    {
        if source == Source::Flag {
            let named = options.flags.iter().map(|flag| flag.trim());
            files.extend(
                named
                    .filter(|flag| !flag.starts_with('{'))
                    .map(|flag| (source, places.environment.resolve(flag))),
            );
        }
        files.extend(
            places
                .settings_files(source)
                .into_iter()
                .map(|file| (source, file)),
        );
    }
    files
}

/// Reads one text as a layer of a source, as `config doctor` and the watcher need it.
#[must_use]
pub fn load_text(
    source: Source,
    path: &Path,
    text: &str,
    places: &Places,
    trust: &Trust,
) -> Resolved {
    let mut resolved = Resolved::default();
    let options = LoadOptions {
        trust: trust.clone(),
        ..LoadOptions::default()
    };
    resolved.load_text(source, Some(path), text, places, &options);
    resolved.finish();
    resolved
}
