//! The servers in `~/.claude.json`, which the reference program of this ecosystem keeps there: those of the
//! user, and those of the user for one folder. The file is only read. It also holds the state and the
//! accounts of that program, of which nothing is looked at.

use super::entry::{ConfigError, ConfigLocation};
use super::load::{FoundEntry, Request, Scope, started_elsewhere};
use lathe_protocol::diagnostic::Diagnostic;
use lathe_settings::Places;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The maximum size of the file: it holds the history of every folder.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// The parts of the file that hold servers. Everything else is skipped while it is parsed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaudeFile {
    mcp_servers: Option<Map<String, Value>>,
    /// By folder; only that of the session is parsed further.
    projects: Option<BTreeMap<String, Box<RawValue>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaudeProject {
    mcp_servers: Option<Map<String, Value>>,
    /// Servers that the user switched off in this folder.
    disabled_mcp_servers: Option<Vec<String>>,
}

/// The servers of `~/.claude.json` that apply in a folder.
#[derive(Debug, Default)]
pub struct ClaudeServers {
    file: PathBuf,
    user: Vec<(String, Value)>,
    local: Vec<(String, Value)>,
}

impl ClaudeServers {
    /// The names of all of them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.user.iter().chain(&self.local);
        all.map(|(name, _)| name.as_str())
    }

    pub(super) fn add(&self, scope: Scope, request: Request<'_>, found: &mut Vec<FoundEntry>) {
        let servers = match scope {
            Scope::Local => &self.local,
            _ => &self.user,
        };
        found.extend(servers.iter().map(|(name, entry)| FoundEntry {
            name: name.clone(),
            scope,
            place: ConfigLocation::file(&self.file),
            entry: started_elsewhere(entry.clone(), request),
            variables: BTreeMap::new(),
            untrusted: false,
        }));
    }
}

/// Reads the servers that `~/.claude.json` has for the user and for this folder.
pub fn claude_servers(places: &Places, problems: &mut Vec<Diagnostic>) -> ClaudeServers {
    let Some(file) = places.claude_json() else {
        return ClaudeServers::default();
    };
    match read(&file) {
        Ok(Some(content)) => servers_for(places, file, content),
        Ok(None) => ClaudeServers::default(),
        Err(error) => {
            problems.push(error.into());
            ClaudeServers::default()
        }
    }
}

fn servers_for(places: &Places, file: PathBuf, mut content: ClaudeFile) -> ClaudeServers {
    let mut projects = content.projects.take().unwrap_or_default();
    let mut local = Vec::new();
    let mut disabled = Vec::new();
    for folder in folders(places) {
        let Some(project) = projects.remove(folder.to_string_lossy().as_ref()) else {
            continue;
        };
        let project: ClaudeProject = serde_json::from_str(project.get()).unwrap_or_default();
        local.extend(project.mcp_servers.unwrap_or_default());
        disabled.extend(project.disabled_mcp_servers.unwrap_or_default());
    }
    let is_on = |(name, _): &(String, Value)| !disabled.contains(name);
    let user = content.mcp_servers.unwrap_or_default().into_iter();
    ClaudeServers {
        file,
        user: user.filter(is_on).collect(),
        local: local.into_iter().filter(is_on).collect(),
    }
}

/// The folders under whose path the file may hold servers for this one, lowest precedence first.
fn folders(places: &Places) -> Vec<&Path> {
    let cwd = places.environment.cwd.as_path();
    let repository = cwd.ancestors().find(|folder| folder.join(".git").exists());
    let mut folders: Vec<&Path> = repository.into_iter().collect();
    for folder in [places.project.as_path(), cwd] {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

fn read(file: &Path) -> Result<Option<ClaudeFile>, ConfigError> {
    let place = || ConfigLocation::file(file).to_string();
    let unreadable = |reason: String| ConfigError::Unreadable {
        place: place(),
        reason,
    };
    let metadata = match std::fs::metadata(file) {
        Ok(metadata) => metadata,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error.to_string())),
    };
    if !metadata.is_file() {
        return Ok(None);
    }
    if metadata.len() > MOST_BYTES {
        let reason = format!(
            "it has {} bytes, the maximum is {MOST_BYTES}",
            metadata.len()
        );
        return Err(unreadable(reason));
    }
    let text = std::fs::read(file).map_err(|error| unreadable(error.to_string()))?;
    if text.trim_ascii().is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|error| ConfigError::NotJson {
            place: place(),
            reason: error.to_string(),
        })
}
