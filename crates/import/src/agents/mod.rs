//! The agents whose setups are read, one module each.

mod aider;
mod claude;
mod codex;
mod cursor;
mod gemini;
mod opencode;

use crate::plan::Plan;
use crate::read;
use lathe_settings::{Places, Source};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// An agent whose setup can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// Cursor and its CLI.
    Cursor,
    /// aider.
    Aider,
}

/// No agent has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an agent that can be imported from; choose claude, codex, gemini, opencode, cursor or aider"
)]
pub struct UnknownAgent(String);

impl FromStr for Agent {
    type Err = UnknownAgent;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|agent| agent.name() == text);
        found.ok_or_else(|| UnknownAgent(text.to_owned()))
    }
}

impl Agent {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Claude,
        Self::Codex,
        Self::Gemini,
        Self::Opencode,
        Self::Cursor,
        Self::Aider,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Cursor => "cursor",
            Self::Aider => "aider",
        }
    }

    /// Files and folders of its setup, in the home folder and in a project.
    fn traces(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            // Its folders are read where they are, so that there is nothing to offer.
            Self::Claude => (&[], &[]),
            Self::Codex => (
                &[".codex/config.toml", ".codex/AGENTS.md", ".codex/prompts"],
                &[],
            ),
            Self::Gemini => (
                &[".gemini/settings.json", ".gemini/GEMINI.md"],
                &[".gemini", "GEMINI.md"],
            ),
            Self::Opencode => (
                &[".config/opencode"],
                &["opencode.json", "opencode.jsonc", ".opencode"],
            ),
            Self::Cursor => (
                &[".cursor/mcp.json", ".cursor/cli-config.json"],
                &[".cursor", ".cursorrules"],
            ),
            Self::Aider => (&[".aider.conf.yml"], &[".aider.conf.yml"]),
        }
    }

    /// Whether there is a setup of it.
    pub(crate) fn is_there(self, places: &Places) -> bool {
        let (home, project) = self.traces();
        let in_home = home.iter().any(|name| {
            let home = places.environment.home.as_ref();
            home.is_some_and(|home| home.join(name).exists())
        });
        in_home
            || project
                .iter()
                .any(|name| places.project.join(name).exists())
    }

    pub(crate) fn read(self, places: &Places, plan: &mut Plan) {
        let home = places.environment.home.clone().unwrap_or_default();
        match self {
            Self::Claude => claude::read(places, plan),
            Self::Codex => codex::read(&home, plan),
            Self::Gemini => gemini::read(&home, &places.project, plan),
            Self::Opencode => opencode::read(&home, &places.project, plan),
            Self::Cursor => cursor::read(&home, &places.project, plan),
            Self::Aider => aider::read(&home, &places.project, plan),
        }
    }
}

/// A file of instructions becomes a rule of ours that always applies.
fn instructions(plan: &mut Plan, source: Source, file: &Path) {
    let Some(text) = read::text(file, plan) else {
        return;
    };
    if text.trim().is_empty() {
        return;
    }
    let target = plan
        .folder(source)
        .join("rules")
        .join(format!("{}.md", plan.agent.name()));
    let was = plan.shown(file);
    plan.file(was, target, text, "");
}

/// Markdown files that have our form already.
fn copied(plan: &mut Plan, source: Source, folder: &Path, kind: &str) {
    for (file, inside) in read::files(folder, "md") {
        if let Some(text) = read::text(&file, plan) {
            let target = plan.folder(source).join(kind).join(inside);
            let was = plan.shown(&file);
            plan.file(was, target, text, "");
        }
    }
}

/// Skills: folders with a `SKILL.md` and whatever belongs to it.
fn skills(plan: &mut Plan, source: Source, folder: &Path) {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("SKILL.md").is_file())
        .collect();
    found.sort();
    for skill in found {
        let name = skill.file_name().unwrap_or_default();
        let target = plan.folder(source).join("skills").join(name);
        for (file, inside) in all_files(&skill) {
            match std::fs::read_to_string(&file) {
                Ok(text) => {
                    let was = plan.shown(&file);
                    plan.file(was, target.join(inside), text, "");
                }
                Err(_) => plan.left(plan.shown(&file), "it is not text; copy it by hand"),
            }
        }
    }
}

fn all_files(folder: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut found: Vec<(PathBuf, PathBuf)> = [
        "md", "txt", "py", "sh", "js", "ts", "json", "toml", "yaml", "yml",
    ]
    .iter()
    .flat_map(|ending| read::files(folder, ending))
    .collect();
    found.sort();
    found
}

/// Keys that nothing was done about, each with a reason.
fn rest(plan: &mut Plan, table: &Map<String, Value>, known: &[&str], reasons: &[(&str, &str)]) {
    for key in table.keys().filter(|key| !known.contains(&key.as_str())) {
        let reason = reasons.iter().find(|(name, _)| name == key);
        plan.left(
            key,
            reason.map_or("there is no such setting here", |(_, why)| why),
        );
    }
}
