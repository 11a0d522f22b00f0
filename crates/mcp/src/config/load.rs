//! Loads all declared servers and determines the status of each.

use super::choices::{Choices, FolderChoices};
use super::claude::claude_servers;
use super::entry::{ConfigError, ConfigLocation};
use super::judge::{drop_copies, judge, refuse_same_tool_names};
use crate::server::ServerConfig;
use indexmap::IndexMap;
use lathe_protocol::diagnostic::Diagnostic;
use lathe_settings::document::Document;
use lathe_settings::{Environment, LoadOptions, Places, Resolved, Source};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The maximum size of a configuration file.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// Where a server is declared, lowest precedence first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Plugin,
    /// The user's own settings.
    User,
    /// The project, for everybody who works on it.
    Project,
    /// The user's settings for the project.
    Local,
    /// The command line or an SDK host.
    Dynamic,
    /// Managed settings.
    Managed,
}

impl Scope {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Dynamic => "dynamic",
            Self::Managed => "managed",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The servers of a plugin.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PluginServers {
    pub plugin: String,
    /// Entries in the format of `.mcp.json`.
    pub servers: Map<String, Value>,
    /// Variables of the plugin (`CLAUDE_PLUGIN_ROOT`), in addition to the environment.
    pub variables: BTreeMap<String, String>,
}

impl PluginServers {
    /// The servers of plugins, by plugin. The plugins' own variables were filled in when they were read.
    #[must_use]
    pub fn of_plugins(plugins: Vec<(String, BTreeMap<String, Value>)>) -> Vec<Self> {
        plugins
            .into_iter()
            .map(|(plugin, servers)| Self {
                plugin,
                servers: servers.into_iter().collect(),
                variables: BTreeMap::new(),
            })
            .collect()
    }
}

/// The inputs for loading servers.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub places: &'a Places,
    /// The effective settings.
    pub settings: &'a Resolved,
    /// How the settings were loaded: selected sources and trust.
    pub options: &'a LoadOptions,
    /// The environment for variables.
    pub environment: &'a Environment,
    /// The values of `--mcp-config`.
    pub flags: &'a [String],
    /// True to ignore all other servers (`--strict-mcp-config`).
    pub strict: bool,
    pub plugins: &'a [PluginServers],
}

/// The status of a declared server.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    Ready(ServerConfig),
    Disabled(ServerConfig),
    /// A server of the project that is neither approved nor refused.
    NeedsApproval,
    /// A server of the project that the user refused.
    Refused,
    Untrusted,
    /// Denied by managed settings.
    Denied(String),
    /// Its configuration is invalid.
    Broken(ConfigError),
}

/// A declared server.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    pub name: String,
    pub scope: Scope,
    pub file: Option<PathBuf>,
    /// The entry as written.
    pub entry: Value,
    /// Variables of the entry that are not set; it is started nevertheless.
    pub unset: Option<ConfigError>,
    pub standing: Standing,
}

impl Declared {
    /// Its configuration, if it may be used.
    #[must_use]
    pub fn config(&self) -> Option<ServerConfig> {
        match &self.standing {
            Standing::Ready(config) => Some(config.clone()),
            Standing::Disabled(config) => Some(ServerConfig {
                disabled: true,
                ..config.clone()
            }),
            _ => None,
        }
    }

    /// Why it is not started, with a fix; `None` if it is started.
    #[must_use]
    pub fn why_not(&self) -> Option<String> {
        let name = &self.name;
        match &self.standing {
            Standing::Ready(_) => None,
            Standing::Disabled(_) => Some(format!(
                "it is disabled here; `lathe mcp enable {name}` enables it"
            )),
            Standing::NeedsApproval => Some(format!(
                "it comes with the project and is not approved; inspect it with `lathe mcp get {name}` and approve it with `lathe mcp enable {name}`"
            )),
            Standing::Refused => Some(format!(
                "it was refused; `lathe mcp enable {name}` approves it"
            )),
            Standing::Untrusted => Some(
                "this folder is not trusted; `lathe trust add` trusts it, or name the server's file with --mcp-config".to_owned(),
            ),
            Standing::Denied(reason) => Some(reason.clone()),
            Standing::Broken(error) => Some(error.to_string()),
        }
    }

    /// Its transport, if known: `stdio`, `http`, `sse`, `ws` or `sdk`.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        if let Some(config) = self.config() {
            return config.transport.kind();
        }
        match self.entry.get("type").and_then(Value::as_str) {
            Some("sse") => "sse",
            Some("ws" | "websocket") => "ws",
            Some("sdk") => "sdk",
            Some("stdio") => "stdio",
            None if self.entry.get("command").is_some() => "stdio",
            _ => "http",
        }
    }
}

/// All declared servers and problems of their files.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Servers {
    /// In the order of discovery.
    pub list: Vec<Declared>,
    /// Servers hidden by one of higher precedence, lowest precedence last.
    pub hidden: Vec<Declared>,
    /// Problems of whole files.
    pub problems: Vec<Diagnostic>,
}

impl Servers {
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Declared> {
        self.list.iter().find(|server| server.name == name)
    }

    /// The configurations for a manager: servers to start, and disabled ones.
    #[must_use]
    pub fn configs(&self) -> IndexMap<String, ServerConfig> {
        self.list
            .iter()
            .filter_map(|server| Some((server.name.clone(), server.config()?)))
            .collect()
    }

    /// Remarks for the start of a session: broken files, and servers that are invalid, not approved
    /// or denied.
    #[must_use]
    pub fn remarks(&self) -> Vec<Diagnostic> {
        let mut remarks = self.problems.clone();
        for server in &self.list {
            match &server.standing {
                Standing::Ready(_) => {
                    if let Some(unset) = &server.unset {
                        let text = format!("the MCP server {}: {unset}", server.name);
                        remarks.push(Diagnostic::warning(text));
                    }
                }
                Standing::Disabled(_) | Standing::Refused => {}
                Standing::Broken(error) => remarks.push(Diagnostic::error(format!(
                    "the MCP server {} was not started: {error}",
                    server.name
                ))),
                _ => {
                    let why = server.why_not().unwrap_or_default();
                    remarks.push(Diagnostic::warning(format!(
                        "the MCP server {} was not started: {why}",
                        server.name
                    )));
                }
            }
        }
        remarks
    }
}

/// An entry before its status is determined.
pub(super) struct FoundEntry {
    pub(super) name: String,
    pub(super) scope: Scope,
    pub(super) place: ConfigLocation,
    pub(super) entry: Value,
    pub(super) variables: BTreeMap<String, String>,
    /// True if it is in an untrusted folder.
    pub(super) untrusted: bool,
}

/// Reads the values of `--mcp-config`, each a file or JSON.
///
/// # Errors
/// If a value can't be read or is invalid. The caller exits instead of starting without it.
pub fn read_flags(
    values: &[String],
    environment: &Environment,
) -> Result<Vec<(String, ConfigLocation, Value)>, ConfigError> {
    let mut found = Vec::new();
    for value in values {
        let trimmed = value.trim();
        // The flag and the file, for messages.
        let (place, named, text) = if trimmed.starts_with('{') {
            let place = ConfigLocation::flag("--mcp-config");
            let named = place.to_string();
            (place, named, trimmed.to_owned())
        } else {
            let path = environment.resolve(trimmed);
            let named = format!("--mcp-config: {}", path.display());
            let text = read_text(&path).map_err(|error| ConfigError::Unreadable {
                place: named.clone(),
                reason: error.to_string(),
            })?;
            (ConfigLocation::file(&path), named, text)
        };
        let servers = servers_of(&text, &place)?;
        let Some(servers) = servers else {
            return Err(ConfigError::Field {
                place: named,
                field: "mcpServers".to_owned(),
                reason: "it is missing; write {\"mcpServers\": {\"name\": {\"command\": \"…\"}}}"
                    .to_owned(),
            });
        };
        for (name, entry) in servers {
            if !entry.is_object() {
                return Err(ConfigError::Field {
                    place: named,
                    field: format!("mcpServers.{name}"),
                    reason: "must be an object".to_owned(),
                });
            }
            found.push((name, place.clone(), entry));
        }
    }
    Ok(found)
}

/// Loads all servers.
#[must_use]
pub fn load(request: Request<'_>) -> Servers {
    let mut servers = Servers::default();
    let choices = match Choices::new(request.places).get() {
        Ok(choices) => choices,
        Err(error) => {
            servers.problems.push(Diagnostic::error(error.to_string()));
            FolderChoices::default()
        }
    };
    let mut found = Vec::new();
    if !request.strict {
        plugins(request, &mut found);
        let of_claude = claude_servers(request.places, &mut servers.problems);
        if includes(request, Source::User) {
            of_claude.add(Scope::User, request, &mut found);
        }
        settings(request, Source::User, Scope::User, &mut found);
        project(request, &mut found, &mut servers.problems);
        settings(request, Source::Project, Scope::Project, &mut found);
        if includes(request, Source::Local) {
            of_claude.add(Scope::Local, request, &mut found);
        }
        local(request, &choices, &mut found);
    }
    flags(request, &mut found, &mut servers.problems);
    managed(request, &mut found, &mut servers.problems);

    let mut strongest: IndexMap<String, FoundEntry> = IndexMap::new();
    for one in found {
        match strongest.get(&one.name) {
            Some(known) if known.scope > one.scope => {
                servers.hidden.push(hidden(one));
            }
            _ => {
                let name = one.name.clone();
                if let Some(weaker) = strongest.insert(name, one) {
                    servers.hidden.push(hidden(weaker));
                }
            }
        }
    }
    servers.list = strongest
        .into_values()
        .map(|one| judge(one, request, &choices))
        .collect();
    refuse_same_tool_names(&mut servers.list);
    drop_copies(&mut servers);
    servers
}

/// The files with servers or choices, apart from settings. They need not exist.
#[must_use]
pub fn files(request: Request<'_>) -> Vec<PathBuf> {
    let mut files = vec![request.places.managed.join("managed-mcp.json")];
    if !request.strict {
        files.push(Choices::new(request.places).file().to_path_buf());
        if includes(request, Source::Project) {
            let folders = project_folders(request.places).into_iter();
            files.extend(folders.map(|folder| folder.join(".mcp.json")));
        }
    }
    let named = request
        .flags
        .iter()
        .map(|value| value.trim())
        .filter(|value| !value.starts_with('{'))
        .map(|value| request.environment.resolve(value));
    // A pipe can be read only once.
    files.extend(named.filter(|file| file.is_file()));
    files
}

fn hidden(one: FoundEntry) -> Declared {
    Declared {
        name: one.name,
        scope: one.scope,
        file: one.place.file,
        entry: one.entry,
        unset: None,
        standing: Standing::Refused,
    }
}

fn includes(request: Request<'_>, source: Source) -> bool {
    request
        .options
        .sources
        .as_ref()
        .is_none_or(|named| named.contains(&source))
}

fn plugins(request: Request<'_>, found: &mut Vec<FoundEntry>) {
    for plugin in request.plugins {
        for (name, entry) in &plugin.servers {
            found.push(FoundEntry {
                name: format!("plugin:{}:{name}", plugin.plugin),
                scope: Scope::Plugin,
                place: ConfigLocation::flag("a plugin"),
                entry: started_elsewhere(entry.clone(), request),
                variables: plugin.variables.clone(),
                untrusted: false,
            });
        }
    }
}

/// An entry of the user's own or of a plugin. In an untrusted folder its program starts in the home folder: a program
/// that starts in a folder obeys the files there (`.npmrc`, tool versions, packages).
pub(super) fn started_elsewhere(mut entry: Value, request: Request<'_>) -> Value {
    let home = request.places.environment.home.as_deref();
    if let (false, Some(home), Some(fields)) = (
        request.options.trust.covers_folder(),
        home.and_then(Path::to_str),
        entry.as_object_mut(),
    ) && fields.contains_key("command")
        && !fields.contains_key("cwd")
    {
        fields.insert("cwd".to_owned(), Value::from(home));
    }
    entry
}

/// The servers in the settings of a source.
fn settings(request: Request<'_>, source: Source, scope: Scope, found: &mut Vec<FoundEntry>) {
    for layer in &request.settings.layers {
        if layer.source != source {
            continue;
        }
        let servers = layer.value.get("mcpServers").and_then(Value::as_object);
        for (name, entry) in servers.into_iter().flatten() {
            found.push(FoundEntry {
                name: name.clone(),
                scope,
                place: layer
                    .path
                    .as_deref()
                    .map_or(ConfigLocation::flag("--settings"), ConfigLocation::file),
                entry: if source == Source::User {
                    started_elsewhere(entry.clone(), request)
                } else {
                    entry.clone()
                },
                variables: BTreeMap::new(),
                untrusted: false,
            });
        }
    }
}

/// Reads `.mcp.json` of the folder and its parents in the same repository; the nearest takes
/// precedence.
fn project(request: Request<'_>, found: &mut Vec<FoundEntry>, problems: &mut Vec<Diagnostic>) {
    if !includes(request, Source::Project) {
        return;
    }
    let mut folders: Vec<&Path> = project_folders(request.places);
    folders.reverse();
    for folder in folders {
        let file = folder.join(".mcp.json");
        for (name, entry) in read_file(&file, problems) {
            found.push(FoundEntry {
                name,
                scope: Scope::Project,
                place: ConfigLocation::file(&file),
                entry,
                variables: BTreeMap::new(),
                untrusted: !request.options.trust.covers_folder(),
            });
        }
    }
}

/// The folders that are searched for `.mcp.json`, nearest first.
fn project_folders(places: &Places) -> Vec<&Path> {
    let cwd = places.environment.cwd.as_path();
    let home = places.environment.home.as_deref();
    let repository = cwd.ancestors().find(|folder| folder.join(".git").exists());
    let top = match repository {
        Some(top) => top,
        None if cwd.starts_with(&places.project) => places.project.as_path(),
        None => cwd,
    };
    let mut folders: Vec<&Path> = cwd
        .ancestors()
        .take_while(|folder| folder.starts_with(top))
        .filter(|folder| Some(*folder) != home || *folder == cwd)
        .collect();
    if !folders.contains(&places.project.as_path()) {
        folders.push(&places.project);
    }
    folders
}

/// The servers in the local settings. In an untrusted folder, only those that this user added are
/// used.
fn local(request: Request<'_>, choices: &FolderChoices, found: &mut Vec<FoundEntry>) {
    if !includes(request, Source::Local) {
        return;
    }
    settings(request, Source::Local, Scope::Local, found);
    if request.options.trust.covers(Source::Local) {
        return;
    }
    for file in request.places.settings_files(Source::Local) {
        // Problems were reported when the settings were loaded.
        for (name, entry) in read_file(&file, &mut Vec::new()) {
            let untrusted = !choices.owns(&name, &entry);
            found.push(FoundEntry {
                name,
                scope: Scope::Local,
                place: ConfigLocation::file(&file),
                entry,
                variables: BTreeMap::new(),
                untrusted,
            });
        }
    }
}

/// The servers that this user added to the local settings of a folder. They are used whether the
/// folder is trusted or not.
#[must_use]
pub fn own_servers(places: &Places) -> Vec<String> {
    let Ok(choices) = Choices::new(places).get() else {
        return Vec::new();
    };
    if choices.own.is_empty() {
        return Vec::new();
    }
    let files = places.settings_files(Source::Local);
    files
        .iter()
        .flat_map(|file| read_file(file, &mut Vec::new()))
        .filter(|(name, entry)| choices.owns(name, entry))
        .map(|(name, _)| name)
        .collect()
}

fn flags(request: Request<'_>, found: &mut Vec<FoundEntry>, problems: &mut Vec<Diagnostic>) {
    let mut given = Vec::new();
    match read_flags(request.flags, request.environment) {
        Ok(servers) => given = servers,
        Err(error) => problems.push(error.into()),
    }
    for (name, place, entry) in given {
        found.push(FoundEntry {
            name,
            scope: Scope::Dynamic,
            place,
            entry,
            variables: BTreeMap::new(),
            untrusted: false,
        });
    }
    if !request.strict {
        settings(request, Source::Flag, Scope::Dynamic, found);
    }
}

fn managed(request: Request<'_>, found: &mut Vec<FoundEntry>, problems: &mut Vec<Diagnostic>) {
    settings(request, Source::Managed, Scope::Managed, found);
    let file = request.places.managed.join("managed-mcp.json");
    for (name, entry) in read_file(&file, problems) {
        found.push(FoundEntry {
            name,
            scope: Scope::Managed,
            place: ConfigLocation::file(&file),
            entry,
            variables: BTreeMap::new(),
            untrusted: false,
        });
    }
}

/// The entries of a file, if it exists.
fn read_file(file: &Path, problems: &mut Vec<Diagnostic>) -> Vec<(String, Value)> {
    let place = ConfigLocation::file(file);
    let text = match read_text(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            problems.push(
                ConfigError::Unreadable {
                    place: place.to_string(),
                    reason: error.to_string(),
                }
                .into(),
            );
            return Vec::new();
        }
    };
    match servers_of(&text, &place) {
        Ok(servers) => servers.unwrap_or_default().into_iter().collect(),
        Err(error) => {
            problems.push(error.into());
            Vec::new()
        }
    }
}

/// Reads a file of limited size.
fn read_text(file: &Path) -> std::io::Result<String> {
    let metadata = std::fs::metadata(file)?;
    // It may be a pipe of the caller's shell (`<(…)`), but not a folder, and not in the place of a folder's own file.
    if metadata.is_dir() {
        return Err(std::io::Error::other("it is a folder"));
    }
    let of_folder = file.file_name().is_some_and(|name| {
        name == ".mcp.json" || name == "settings.json" || name == "settings.local.json"
    });
    if !metadata.is_file() && of_folder {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    if metadata.len() > MOST_BYTES {
        return Err(std::io::Error::other(format!(
            "it has {} bytes, the maximum is {MOST_BYTES}",
            metadata.len()
        )));
    }
    if metadata.is_file() {
        return std::fs::read_to_string(file);
    }
    // A pipe can be read only once, but the configuration is read repeatedly.
    let mut said = PIPES.lock();
    if let Some(text) = said.get(file) {
        return Ok(text.clone());
    }
    let mut text = String::new();
    std::fs::File::open(file)?
        .take(MOST_BYTES)
        .read_to_string(&mut text)?;
    said.insert(file.to_path_buf(), text.clone());
    Ok(text)
}

/// The content of pipes that were read.
static PIPES: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());

/// The `mcpServers` of a text, if present.
pub(super) fn servers_of(
    text: &str,
    place: &ConfigLocation,
) -> Result<Option<Map<String, Value>>, ConfigError> {
    let document = Document::parse(text).map_err(|error| ConfigError::NotJson {
        place: format!("{place}:{}:{}", error.position.line, error.position.column),
        reason: error.message,
    })?;
    match document.value.get("mcpServers") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(servers)) => Ok(Some(servers.clone())),
        Some(_) => Err(ConfigError::Field {
            place: place.to_string(),
            field: "mcpServers".to_owned(),
            reason: "must be an object of servers by name".to_owned(),
        }),
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
