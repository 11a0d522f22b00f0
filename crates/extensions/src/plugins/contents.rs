//! The parts of a plugin's folder.
//!
//! Conventional folders and files are found automatically; the manifest adds to them. For commands,
//! agents and output styles, a path in the manifest *replaces* the conventional folder; skills,
//! hooks and servers are added. Every path, links resolved, must be inside the plugin's folder. A
//! mistake in one part disables only that part.

use super::bundle::Bundle;
use super::manifest::{Manifest, read_json, texts};
use super::monitors;
use super::name::PluginId;
use super::plain;
use super::source::inside;
use crate::plugin::{CommandPath, PluginContribution, SessionParts};
use crate::problem::Problem;
use lathe_protocol::hook::HookEvent;
use lathe_settings::schema::{HookDefinition, HookGroup, HookKind};
use lathe_settings::trust::{Bring, BringKind};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Settings that a plugin may set defaults for.
pub const ALLOWED_SETTINGS: [&str; 2] = ["agent", "outputStyle"];

#[derive(Debug, Clone, PartialEq)]
pub struct Plugin {
    pub id: PluginId,
    pub manifest: Manifest,
    pub contribution: PluginContribution,
    pub problems: Vec<Problem>,
}

/// The context of a plugin's folder.
#[derive(Debug, Clone, Default)]
pub struct PluginContext<'a> {
    /// The folder for its data.
    pub data: Option<PathBuf>,
    /// The user's options (`pluginConfigs`).
    pub options: Option<&'a Value>,
    /// True if its installation was confirmed.
    pub confirmed: bool,
    /// True if its servers will be started, so bundles must be unpacked.
    pub unpack: bool,
}

impl Plugin {
    /// Reads a plugin's folder.
    ///
    /// # Errors
    /// If there is no plugin there, or its manifest is broken.
    pub fn read(root: &Path, id: &PluginId, around: &PluginContext<'_>) -> Result<Self, Problem> {
        let root = std::fs::canonicalize(root)
            .map_err(|error| Problem::fatal(root, format!("can't be read: {error}")))?;
        if !root.is_dir() {
            return Err(Problem::fatal(&root, "is not a folder"));
        }
        let mut problems = Vec::new();
        let manifest = Manifest::read(&root, &id.name, &mut problems)?;
        let file = manifest.file.clone().unwrap_or_else(|| root.clone());
        if manifest.name != id.name {
            problems.push(Problem::field(
                &file,
                "name",
                format!(
                    "is {}, but the plugin was found as {id}; that name is used",
                    manifest.name
                ),
            ));
        }
        let mut reader = Reader {
            root: &root,
            file: &file,
            manifest: &manifest,
            around,
            problems,
        };
        let mut contribution = PluginContribution {
            name: id.name.clone(),
            id: Some(id.to_string()),
            version: manifest.version.clone(),
            root: root.clone(),
            data: around.data.clone(),
            agents: reader.paths("agents", "agents", Convention::Replaced),
            skills: reader.skills(),
            commands: reader.commands(),
            output_styles: reader.paths("outputStyles", "output-styles", Convention::Replaced),
            trusted: around.confirmed,
            ..PluginContribution::default()
        };
        let (shown, all) = reader.user_config(around.options);
        contribution.user_config = shown;
        let filled = PluginContribution {
            user_config: all,
            ..contribution.clone()
        };
        contribution.hooks = reader.hooks(&contribution);
        contribution.mcp_servers = reader.mcp_servers(&filled);
        contribution.lsp_servers = reader.lsp_servers(&filled);
        contribution.session = SessionParts {
            settings: reader.settings(),
            themes: reader.paths("themes", "themes", Convention::Replaced),
            monitors: monitors::read(&mut reader, &contribution),
        };
        Ok(Self {
            id: id.clone(),
            problems: reader.problems,
            manifest,
            contribution,
        })
    }

    /// Its parts, for the user to review before confirming.
    #[must_use]
    pub fn parts(&self) -> Vec<Bring> {
        let mut brings = Vec::new();
        let contribution = &self.contribution;
        let root = contribution.root.to_string_lossy();
        let mut add = |kind, key: String, what: String| {
            brings.push(Bring {
                kind,
                key: plain(&key, 100),
                // The current folder is a staging folder, so relative paths are shown.
                what: plain(&what.replace(&*root, "${CLAUDE_PLUGIN_ROOT}"), 300),
            });
        };
        for (event, groups) in &contribution.hooks {
            for group in groups {
                let key = match group.matcher.as_deref() {
                    Some(matcher) if !matcher.is_empty() => format!("{event} ({matcher})"),
                    _ => event.clone(),
                };
                for hook in &group.hooks {
                    add(BringKind::Hook, key.clone(), hook_text(hook));
                }
            }
        }
        for (name, server) in &contribution.mcp_servers {
            add(BringKind::McpServer, name.clone(), server_text(server));
        }
        for (name, server) in &contribution.lsp_servers {
            add(BringKind::LanguageServer, name.clone(), server_text(server));
        }
        for monitor in &contribution.session.monitors {
            add(
                BringKind::Monitor,
                monitor.name.clone(),
                monitor.command.clone(),
            );
        }
        if let Some(Value::Object(settings)) = &contribution.session.settings {
            for (key, value) in settings {
                add(BringKind::Other, key.clone(), value.to_string());
            }
        }
        let commands = contribution.command_paths();
        for (kind, paths) in [
            ("commands", &commands),
            ("agents", &contribution.agents),
            ("skills", &contribution.skills),
            ("output styles", &contribution.output_styles),
            ("themes", &contribution.session.themes),
        ] {
            let paths = paths.iter().filter(|path| **path != contribution.root);
            let mut names = names_in(paths);
            if kind == "skills" && contribution.skills.contains(&contribution.root) {
                names.insert(0, self.id.name.clone());
            }
            if !names.is_empty() {
                add(BringKind::Extension, kind.to_owned(), names.join(", "));
            }
        }
        brings
    }

    /// The parts that run by themselves: hooks, servers and monitors.
    #[must_use]
    pub fn runs(&self) -> Vec<Bring> {
        let mut brings = self.parts();
        brings.retain(|bring| {
            matches!(
                bring.kind,
                BringKind::Hook
                    | BringKind::McpServer
                    | BringKind::LanguageServer
                    | BringKind::Monitor
            )
        });
        brings
    }
}

/// A part of a plugin, in a line.
#[must_use]
pub fn describe(bring: &Bring) -> String {
    match bring.kind {
        BringKind::Extension => bring.to_string(),
        kind => format!("{}: {bring}", kind.heading()),
    }
}

fn hook_text(hook: &HookDefinition) -> String {
    let words = hook.args.iter().flatten().cloned();
    let first = [&hook.command, &hook.url, &hook.prompt, &hook.tool]
        .into_iter()
        .flatten()
        .next()
        .cloned()
        .unwrap_or_default();
    std::iter::once(first)
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

fn server_text(server: &Value) -> String {
    let text = |name: &str| server.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut words: Vec<String> = text("command")
        .or_else(|| text("url"))
        .into_iter()
        .collect();
    words.extend(texts(server.get("args")));
    words.join(" ")
}

/// The names of up to a hundred Markdown files, themes and skill folders below some paths.
fn names_in<'a>(paths: impl DoubleEndedIterator<Item = &'a PathBuf>) -> Vec<String> {
    let mut names = Vec::new();
    let mut open: Vec<(PathBuf, usize)> = paths.rev().map(|path| (path.clone(), 0)).collect();
    while let Some((path, depth)) = open.pop() {
        if names.len() >= 100 {
            break;
        }
        let stem = |path: &Path| {
            path.file_stem()
                .map(|name| name.to_string_lossy().into_owned())
        };
        if path.is_file() {
            if path
                .extension()
                .is_some_and(|extension| extension == "md" || extension == "json")
            {
                names.extend(stem(&path));
            }
        } else if path.join("SKILL.md").is_file() {
            names.extend(
                path.file_name()
                    .map(|name| name.to_string_lossy().into_owned()),
            );
        } else if depth < 4
            && let Ok(entries) = std::fs::read_dir(&path)
        {
            let mut inner: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            inner.sort();
            open.extend(inner.into_iter().rev().map(|path| (path, depth + 1)));
        }
    }
    names
}

/// The effect of paths in the manifest on the conventional folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Convention {
    /// They replace it.
    Replaced,
    /// It is used as well.
    Kept,
}

pub(super) struct Reader<'a> {
    root: &'a Path,
    pub(super) file: &'a Path,
    pub(super) manifest: &'a Manifest,
    around: &'a PluginContext<'a>,
    pub(super) problems: Vec<Problem>,
}

impl Reader<'_> {
    pub(super) fn problem(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.problems
            .push(Problem::field(self.file, field, message));
    }

    /// The real path of a file or folder of the plugin; reports a problem if it is missing or outside.
    pub(super) fn path(&mut self, field: &str, text: &str) -> Option<PathBuf> {
        let relative = match inside(text) {
            Ok(relative) => relative,
            Err(why) => {
                self.problem(field, why.to_string());
                return None;
            }
        };
        let path = self.root.join(relative);
        match std::fs::canonicalize(&path) {
            Ok(real) if real.starts_with(self.root) => Some(real),
            Ok(_) => {
                self.problem(
                    field,
                    format!("{text:?} is a link out of the plugin's folder"),
                );
                None
            }
            Err(_) => {
                self.problem(field, format!("{text:?} is not there"));
                None
            }
        }
    }

    /// A conventional file or folder, if it exists.
    pub(super) fn conventional(&mut self, name: &str) -> Option<PathBuf> {
        let path = self.root.join(name);
        path.symlink_metadata().ok()?;
        self.path(name, name)
    }

    fn paths(&mut self, key: &str, folder: &str, convention: Convention) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let named: Vec<(String, String)> = match self.manifest.components.get(key) {
            None => Vec::new(),
            Some(Value::String(path)) => vec![(key.to_owned(), path.clone())],
            Some(Value::Array(list)) => {
                let mut paths = Vec::new();
                for (index, item) in list.iter().enumerate() {
                    let field = format!("{key}[{index}]");
                    match item.as_str() {
                        Some(path) => paths.push((field, path.to_owned())),
                        None => self.problem(field, "must be a path (./…)"),
                    }
                }
                paths
            }
            Some(_) => {
                self.problem(key, "must be a path (./…) or a list of paths");
                Vec::new()
            }
        };
        let named_here = self.manifest.components.contains_key(key);
        let replaced = convention == Convention::Replaced || self.manifest.named_only;
        if !(named_here && replaced) {
            found.extend(self.conventional(folder));
        }
        for (field, path) in named {
            if let Some(path) = self.path(&field, &path)
                && !found.contains(&path)
            {
                found.push(path);
            }
        }
        found
    }

    /// The commands. A manifest may list them by name, with a path in `source` or the text in `content`.
    fn commands(&mut self) -> Vec<CommandPath> {
        let Some(Value::Object(map)) = self.manifest.components.get("commands").cloned() else {
            let paths = self.paths("commands", "commands", Convention::Replaced);
            return paths.into_iter().map(CommandPath::from).collect();
        };
        let mut found = Vec::new();
        for (name, entry) in map {
            let field = format!("commands.{name}");
            let Some(source) = entry.get("source").and_then(Value::as_str) else {
                if entry.get("content").is_some_and(Value::is_string) {
                    found.push(CommandPath::named(self.file.to_path_buf(), &name, &entry));
                } else {
                    self.problem(field, "needs \"source\", a path (./…), or \"content\"");
                }
                continue;
            };
            let path = self.path(&field, source);
            found.extend(path.map(|path| CommandPath::named(path, &name, &entry)));
        }
        found
    }

    /// The folders of skills; a `SKILL.md` beside the manifest makes the plugin itself one.
    fn skills(&mut self) -> Vec<PathBuf> {
        let mut found = self.paths("skills", "skills", Convention::Kept);
        let is_skill = self.root.join("SKILL.md").is_file();
        if is_skill && !self.manifest.named_only && !found.contains(&self.root.to_path_buf()) {
            found.insert(0, self.root.to_path_buf());
        }
        found
    }

    /// The objects of a key: the conventional file, then the manifest's paths and objects.
    fn objects(&mut self, key: &str, conventional: &str) -> Vec<(PathBuf, Map<String, Value>)> {
        let replaced = self.manifest.named_only && self.manifest.components.contains_key(key);
        let mut files: Vec<PathBuf> = if replaced {
            Vec::new()
        } else {
            self.conventional(conventional).into_iter().collect()
        };
        let mut objects = Vec::new();
        let named = self.manifest.components.get(key).cloned();
        let items = match named {
            None => Vec::new(),
            Some(Value::Array(list)) => list,
            Some(other) => vec![other],
        };
        for item in items {
            match item {
                Value::String(path) if path.starts_with("https://") => {
                    self.problem(
                        key,
                        format!("{path:?} would have to be fetched at every start, which is not supported; put the file into the plugin, or write the server itself here (command and args, or url)"),
                    );
                }
                Value::String(path) if key == "mcpServers" && is_bundle(&path) => {
                    objects.extend(self.bundle(key, &path));
                }
                Value::String(path) => {
                    if let Some(file) = self.path(key, &path)
                        && !files.contains(&file)
                    {
                        files.push(file);
                    }
                }
                Value::Object(map) => objects.push((self.file.to_path_buf(), map)),
                _ => self.problem(key, "must be a path (./…), an object or a list of them"),
            }
        }
        let mut all = Vec::new();
        for file in files {
            match read_json(&file) {
                Ok(document) => {
                    if let Value::Object(map) = document.value {
                        all.push((file, map));
                    }
                }
                Err(problem) => self.problems.push(Problem {
                    fatal: false,
                    ..problem
                }),
            }
        }
        all.extend(objects);
        all
    }

    /// The server of a bundle.
    fn bundle(&mut self, key: &str, path: &str) -> Option<(PathBuf, Map<String, Value>)> {
        let file = self.path(key, path)?;
        let bundle = Bundle {
            file: &file,
            data: self.around.data.as_deref().filter(|_| self.around.unpack),
            options: self.around.options,
        };
        match bundle.server() {
            Ok((name, server)) => {
                let named = Map::from_iter([(name, Value::Object(server))]);
                Some((file, named))
            }
            Err(why) => {
                let path = plain(path, 120);
                self.problem(key, format!("the bundle {path} is ignored: {why}"));
                None
            }
        }
    }

    fn hooks(&mut self, plugin: &PluginContribution) -> BTreeMap<String, Vec<HookGroup>> {
        let mut hooks: BTreeMap<String, Vec<HookGroup>> = BTreeMap::new();
        for (file, map) in self.objects("hooks", "hooks/hooks.json") {
            let events = match map.get("hooks") {
                Some(Value::Object(events)) => events.clone(),
                _ => map,
            };
            for (event, groups) in events {
                if event == "description" || event == "$schema" {
                    continue;
                }
                if event.parse::<HookEvent>().is_err() {
                    self.problems.push(Problem::field(
                        &file,
                        format!("hooks.{event}"),
                        "is not an event; its hooks never run",
                    ));
                    continue;
                }
                let Value::Array(groups) = groups else {
                    self.problems.push(Problem::field(
                        &file,
                        format!("hooks.{event}"),
                        "must be a list",
                    ));
                    continue;
                };
                for (index, group) in groups.into_iter().enumerate() {
                    let field = format!("hooks.{event}[{index}]");
                    let group = hook_group(group, plugin, &file, &field, &mut self.problems);
                    hooks.entry(event.clone()).or_default().extend(group);
                }
            }
        }
        hooks.retain(|_, groups| !groups.is_empty());
        hooks
    }

    fn mcp_servers(&mut self, plugin: &PluginContribution) -> BTreeMap<String, Value> {
        let mut servers = BTreeMap::new();
        for (file, map) in self.objects("mcpServers", ".mcp.json") {
            let map = match map.get("mcpServers") {
                Some(Value::Object(inner)) => inner.clone(),
                _ => map,
            };
            for (name, server) in map {
                let field = format!("mcpServers.{}", plain(&name, 60));
                let mut refuse =
                    |message: &str| self.problems.push(Problem::field(&file, &field, message));
                let has_other =
                    name.contains(|c: char| c.is_control() || matches!(c, '/' | '\\' | ':'));
                if name.trim().is_empty() || has_other {
                    refuse("a server's name has no `/`, `:` and control characters; rename it");
                    continue;
                }
                let Value::Object(mut server) = expand(server, plugin) else {
                    refuse("must be an object with \"command\" or \"url\"");
                    continue;
                };
                let text = |key: &str| server.get(key).is_some_and(Value::is_string);
                if !text("command") && !text("url") {
                    refuse("has neither \"command\" nor \"url\"");
                    continue;
                }
                if server.contains_key("command") {
                    with_root(&mut server, plugin);
                }
                servers.insert(name, Value::Object(server));
            }
        }
        servers
    }

    fn lsp_servers(&mut self, plugin: &PluginContribution) -> BTreeMap<String, Value> {
        const KEYS: &[&str] = &[
            "command",
            "args",
            "extensionToLanguage",
            "transport",
            "env",
            "initializationOptions",
            "settings",
            "workspaceFolder",
            "startupTimeout",
            "shutdownTimeout",
            "restartOnCrash",
            "maxRestarts",
            "loggingConfig",
            "rootMarkers",
            "diagnostics",
        ];
        let mut servers = BTreeMap::new();
        for (file, map) in self.objects("lspServers", ".lsp.json") {
            let map = match map.get("lspServers") {
                Some(Value::Object(inner)) => inner.clone(),
                _ => map,
            };
            for (name, server) in map {
                let field = format!("lspServers.{}", plain(&name, 60));
                let mut refuse =
                    |message: String| self.problems.push(Problem::field(&file, &field, message));
                let Value::Object(mut server) = expand(server, plugin) else {
                    refuse("must be an object".to_owned());
                    continue;
                };
                if let Some(unknown) = server.keys().find(|key| !KEYS.contains(&key.as_str())) {
                    refuse(format!("{unknown:?} is unknown; the server is ignored"));
                    continue;
                }
                if !server.get("command").is_some_and(Value::is_string) {
                    refuse("needs \"command\"".to_owned());
                    continue;
                }
                if !server
                    .get("extensionToLanguage")
                    .is_some_and(Value::is_object)
                {
                    refuse(
                        "needs \"extensionToLanguage\", such as {\".ts\": \"typescript\"}"
                            .to_owned(),
                    );
                    continue;
                }
                with_root(&mut server, plugin);
                servers.insert(name, Value::Object(server));
            }
        }
        servers
    }

    fn settings(&mut self) -> Option<Value> {
        let mut kept = Map::new();
        for (file, map) in self.objects("settings", "settings.json") {
            for (key, value) in map {
                if ALLOWED_SETTINGS.contains(&key.as_str()) && value.is_string() {
                    kept.insert(key, value);
                } else if key != "$schema" {
                    self.problems.push(
                        Problem::field(
                            &file,
                            plain(&key, 60),
                            "is not a setting that a plugin may preset",
                        )
                        .fix(format!(
                            "a plugin may preset {}",
                            ALLOWED_SETTINGS.join(" and ")
                        )),
                    );
                }
            }
        }
        (!kept.is_empty()).then_some(Value::Object(kept))
    }

    /// The user's options: without secrets, and with them.
    fn user_config(
        &mut self,
        options: Option<&Value>,
    ) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
        let given = options.and_then(|value| value.get("options")).or(options);
        let mut shown = BTreeMap::new();
        let mut all = BTreeMap::new();
        for (key, option) in &self.manifest.user_config {
            let value = given
                .and_then(|given| given.get(key))
                .or(option.default.as_ref());
            let text = match value {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Array(list)) => list
                    .iter()
                    .map(|item| {
                        item.as_str()
                            .map_or_else(|| item.to_string(), str::to_owned)
                    })
                    .collect::<Vec<_>>()
                    .join(","),
                Some(value) if !value.is_null() => value.to_string(),
                _ if option.required => {
                    let id = &self.manifest.name;
                    self.problems.push(
                        Problem::field(
                            self.file,
                            format!("userConfig.{key}"),
                            format!("is not filled in: {}", plain(&option.description, 100)),
                        )
                        .fix(format!(
                            "set pluginConfigs → \"{id}@…\" → options → {key} in your settings.json"
                        )),
                    );
                    continue;
                }
                _ => String::new(),
            };
            if !option.sensitive {
                shown.insert(key.clone(), text.clone());
            }
            all.insert(key.clone(), text);
        }
        (shown, all)
    }
}

fn is_bundle(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    path.ends_with(".mcpb") || path.ends_with(".dxt")
}

/// A group of hooks with the plugin's variables expanded. Hooks that can't be parsed are left out.
fn hook_group(
    mut group: Value,
    plugin: &PluginContribution,
    file: &Path,
    field: &str,
    problems: &mut Vec<Problem>,
) -> Option<HookGroup> {
    let Some(Value::Array(hooks)) = group.get_mut("hooks").map(Value::take) else {
        problems.push(Problem::field(file, field, "needs \"hooks\", a list"));
        return None;
    };
    let mut kept = Vec::new();
    for (index, hook) in hooks.into_iter().enumerate() {
        let field = format!("{field}.hooks[{index}]");
        match serde_json::from_value::<HookDefinition>(hook) {
            Ok(hook) if hook.kind == HookKind::Callback => problems.push(Problem::field(
                file,
                field,
                "callback hooks belong to SDK hosts, not to plugins",
            )),
            Ok(hook) => {
                let hook = fill_hook(hook, plugin);
                if hook
                    .command
                    .as_deref()
                    .is_some_and(|command| command.contains("${user_config."))
                {
                    problems.push(
                        Problem::field(
                            file,
                            &field,
                            "${user_config.…} is not filled in in a shell command",
                        )
                        .fix("use \"args\", where each argument is passed unchanged"),
                    );
                }
                kept.push(hook);
            }
            Err(error) => problems.push(Problem::field(file, field, error.to_string())),
        }
    }
    if let Some(place) = group.get_mut("hooks") {
        *place = Value::Array(Vec::new());
    }
    match serde_json::from_value::<HookGroup>(group) {
        Ok(group) if !kept.is_empty() => Some(HookGroup {
            hooks: kept,
            ..group
        }),
        Ok(_) => None,
        Err(error) => {
            problems.push(Problem::field(file, field, error.to_string()));
            None
        }
    }
}

fn fill_hook(mut hook: HookDefinition, plugin: &PluginContribution) -> HookDefinition {
    let filled = |text: &mut Option<String>| {
        if let Some(text) = text {
            *text = plugin.expand(text);
        }
    };
    if hook.args.is_some() {
        filled(&mut hook.command);
    } else if let Some(command) = &mut hook.command {
        *command = in_shell(command, plugin);
    }
    for word in hook.args.iter_mut().flatten() {
        *word = plugin.expand(word);
    }
    filled(&mut hook.url);
    filled(&mut hook.prompt);
    for value in hook.headers.iter_mut().flatten().map(|(_, value)| value) {
        *value = plugin.expand(value);
    }
    hook
}

/// A shell command with the plugin's folders expanded. Only plain paths are expanded; the shell
/// would misread others, but has the variables itself.
pub(super) fn in_shell(command: &str, plugin: &PluginContribution) -> String {
    let is_plain = |path: &Path| {
        path.to_str().is_some_and(|text| {
            text.chars()
                .all(|c| c.is_ascii_alphanumeric() || "/._-+@".contains(c))
        })
    };
    let folders = PluginContribution {
        user_config: BTreeMap::new(),
        data: plugin.data.clone().filter(|data| is_plain(data)),
        root: plugin.root.clone(),
        ..PluginContribution::default()
    };
    if is_plain(&plugin.root) {
        folders.expand(command)
    } else {
        command.to_owned()
    }
}

/// A value with the plugin's variables expanded in all strings.
fn expand(value: Value, plugin: &PluginContribution) -> Value {
    match value {
        Value::String(text) => Value::String(plugin.expand(&text)),
        Value::Array(list) => list.into_iter().map(|item| expand(item, plugin)).collect(),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| (key, expand(value, plugin)))
            .collect(),
        other => other,
    }
}

/// Adds the plugin's folders to a server's environment.
fn with_root(server: &mut Map<String, Value>, plugin: &PluginContribution) {
    let environment = server.entry("env").or_insert(Map::new().into());
    let Value::Object(environment) = environment else {
        return;
    };
    let mut add = |suffix: &str, path: &Path| {
        for prefix in ["CLAUDE", "LATHE"] {
            environment
                .entry(format!("{prefix}_PLUGIN_{suffix}"))
                .or_insert_with(|| path.to_string_lossy().into_owned().into());
        }
    };
    add("ROOT", &plugin.root);
    plugin.data.iter().for_each(|data| add("DATA", data));
}
