//! Bundles of MCP servers (`.mcpb`, formerly `.dxt`): a zip archive with a server and a
//! `manifest.json` that says how to start it.
//!
//! The manifest is read whenever the plugin is. The bundle is unpacked once, for a session with the
//! plugin enabled, into the plugin's data folder. The options of its manifest come from
//! `pluginConfigs`, as the plugin's own options do.

use super::archive::ArchiveError;
use super::copy::Limits;
use super::plain;
use super::zip::Archive;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

const MANIFEST: &str = "manifest.json";
/// How long folders of earlier versions are kept, since a session may still use them.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) struct Bundle<'a> {
    pub(crate) file: &'a Path,
    /// The folder to unpack it in; `None` only reads it.
    pub(crate) data: Option<&'a Path>,
    /// The user's options (`pluginConfigs`).
    pub(crate) options: Option<&'a Value>,
}

/// Why a bundle can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error(transparent)]
    Read(std::io::Error),
    #[error("it can't be unpacked: {0}")]
    Unpack(#[source] std::io::Error),
    #[error("it is not a file of at most {0} MB")]
    Size(u64),
    #[error("its {MANIFEST} is broken: {0}")]
    Manifest(#[source] serde_json::Error),
    #[error("its {MANIFEST} has no name")]
    NoName,
    #[error(
        "{key} is not filled in ({what}); set pluginConfigs → \"<plugin>@<marketplace>\" → mcpServers → {server} → {key} in your settings.json"
    )]
    MissingOption {
        key: String,
        what: String,
        server: String,
    },
    #[error("it doesn't work on {0}")]
    Platform(&'static str),
    #[error("it doesn't say how its server is started")]
    NoCommand,
    #[error("it doesn't say how its server ({0}) is started")]
    UnknownType(String),
}

impl Bundle<'_> {
    /// The server: its name, and its entry in the format of `.mcp.json`.
    ///
    /// # Errors
    /// If it can't be used.
    pub(crate) fn server(&self) -> Result<(String, Map<String, Value>), BundleError> {
        let (manifest, folder) = match self.data {
            Some(data) => {
                let folder = self.unpacked(data)?;
                let text = std::fs::read(folder.join(MANIFEST));
                (text.map_err(BundleError::Read)?, Some(folder))
            }
            None => {
                let bytes = self.bytes()?;
                let mut archive = Archive::read(&bytes, Limits::default())?;
                (archive.file(MANIFEST)?, None)
            }
        };
        let manifest: Value = serde_json::from_slice(&manifest).map_err(BundleError::Manifest)?;
        let name = manifest["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(BundleError::NoName);
        }
        let values = self.values(&name, &manifest)?;
        let server = server(&manifest, folder.as_deref(), &values)?;
        Ok((name, server))
    }

    fn bytes(&self) -> Result<Vec<u8>, BundleError> {
        let limit = Limits::default().total;
        let length = std::fs::metadata(self.file).map_err(BundleError::Read)?;
        if !length.is_file() || length.len() > limit {
            return Err(BundleError::Size(limit / 1024 / 1024));
        }
        std::fs::read(self.file).map_err(BundleError::Read)
    }

    /// Unpacks the bundle unless done before. Each version of the file has its own folder.
    fn unpacked(&self, data: &Path) -> Result<PathBuf, BundleError> {
        let file = std::fs::metadata(self.file).map_err(BundleError::Unpack)?;
        let mut version = Sha256::new();
        for number in [
            file.size(),
            file.ino(),
            file.mtime().cast_unsigned(),
            file.mtime_nsec().cast_unsigned(),
        ] {
            version.update(number.to_le_bytes());
        }
        let version: String = version.finalize()[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let stem = self
            .file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let all = data.join("bundles");
        let folder = all.join(format!("{stem}-{version}"));
        if folder.join(MANIFEST).is_file() {
            return Ok(folder);
        }
        std::fs::create_dir_all(&all).map_err(BundleError::Unpack)?;
        sweep(&all, &format!("{stem}-"));
        // In a temporary folder until it is complete: two sessions may start at once.
        let place = tempfile::Builder::new()
            .prefix(".unpacking-")
            .tempdir_in(&all)
            .map_err(BundleError::Unpack)?;
        let bytes = self.bytes()?;
        let mut archive = Archive::read(&bytes, Limits::default())?;
        archive.unpack(place.path())?;
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755))
            .map_err(BundleError::Unpack)?;
        match std::fs::rename(place.path(), &folder) {
            Ok(()) => {
                // It was renamed; nothing is left to delete.
                let _ = place.keep();
            }
            Err(_) if folder.join(MANIFEST).is_file() => {}
            Err(error) => return Err(BundleError::Unpack(error)),
        }
        Ok(folder)
    }

    /// The user's options, else the manifest's defaults.
    fn values(
        &self,
        name: &str,
        manifest: &Value,
    ) -> Result<BTreeMap<String, Vec<String>>, BundleError> {
        let given = |key: &str| {
            let options = self.options?;
            let for_server = options
                .get("mcpServers")
                .and_then(|servers| servers.get(name));
            let for_plugin = options.get("options").unwrap_or(options);
            for_server
                .and_then(|values| values.get(key))
                .or_else(|| for_plugin.get(key))
        };
        let mut values = BTreeMap::new();
        for (key, option) in manifest["user_config"].as_object().into_iter().flatten() {
            let value = given(key).or_else(|| option.get("default"));
            let texts: Vec<String> = match value {
                None | Some(Value::Null) => Vec::new(),
                Some(Value::Array(list)) => list.iter().map(text).collect(),
                Some(value) => vec![text(value)],
            };
            if texts.iter().all(String::is_empty) && option["required"] == true {
                let what = option["title"]
                    .as_str()
                    .or_else(|| option["description"].as_str());
                return Err(BundleError::MissingOption {
                    key: key.clone(),
                    what: plain(what.unwrap_or("the server needs it"), 100),
                    server: name.to_owned(),
                });
            }
            values.insert(key.clone(), texts);
        }
        Ok(values)
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Deletes the folders of earlier versions.
fn sweep(all: &Path, prefix: &str) {
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_old = || {
            let changed = entry.metadata().and_then(|entry| entry.modified()).ok();
            changed
                .and_then(|time| time.elapsed().ok())
                .is_some_and(|age| age > KEPT)
        };
        if (name.starts_with(prefix) || name.starts_with(".unpacking-")) && is_old() {
            // Errors are ignored: it is tried again next time.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The entry of a server. Without a folder, `${__dirname}` stays unexpanded.
fn server(
    manifest: &Value,
    folder: Option<&Path>,
    values: &BTreeMap<String, Vec<String>>,
) -> Result<Map<String, Value>, BundleError> {
    let platform = if cfg!(target_os = "macos") {
        "darwin"
    } else {
        "linux"
    };
    if let Some(platforms) = manifest
        .pointer("/compatibility/platforms")
        .and_then(Value::as_array)
        && !platforms.iter().any(|known| known == platform)
    {
        return Err(BundleError::Platform(platform));
    }
    let server = &manifest["server"];
    let entry_point = server["entry_point"].as_str().unwrap_or_default();
    let config = &server["mcp_config"];
    let own = &config["platform_overrides"][platform];
    let said = |key: &str| own.get(key).or_else(|| config.get(key));
    let usual = format!("${{__dirname}}/{entry_point}");
    let (command, args) = match (
        said("command").and_then(Value::as_str),
        server["type"].as_str(),
    ) {
        (Some(command), _) => {
            let args = said("args")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            (command.to_owned(), args)
        }
        (None, _) if entry_point.is_empty() => {
            return Err(BundleError::NoCommand);
        }
        (None, Some("node")) => ("node".to_owned(), vec![usual.into()]),
        (None, Some("python")) => ("python3".to_owned(), vec![usual.into()]),
        (None, Some("binary")) => (usual, Vec::new()),
        (None, kind) => {
            let kind = plain(kind.unwrap_or("no kind"), 40);
            return Err(BundleError::UnknownType(kind));
        }
    };
    let fill = |text: &str| filled(text, folder, values);
    let mut words: Vec<String> = Vec::new();
    for word in args.iter().filter_map(Value::as_str) {
        // An option with several values becomes several arguments.
        match word
            .strip_prefix("${user_config.")
            .and_then(|rest| rest.strip_suffix('}'))
        {
            Some(key) if values.contains_key(key) => words.extend(values[key].iter().cloned()),
            _ => words.push(fill(word)),
        }
    }
    let command = fill(&command);
    if let Some(folder) = folder
        && Path::new(&command).starts_with(folder)
        && server["type"] == "binary"
    {
        // Archives made on systems without file modes lack the executable bit.
        let _ = std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o755));
    }
    let mut environment = Map::new();
    for variables in [config.get("env"), own.get("env")] {
        for (name, value) in variables.and_then(Value::as_object).into_iter().flatten() {
            environment.insert(name.clone(), fill(&text(value)).into());
        }
    }
    Ok(Map::from_iter([
        ("type".to_owned(), "stdio".into()),
        ("command".to_owned(), command.into()),
        ("args".to_owned(), words.into()),
        ("env".to_owned(), environment.into()),
    ]))
}

/// Expands a bundle's variables in a text. `${HOME}` is expanded when the server is started, like
/// any variable.
fn filled(text: &str, folder: Option<&Path>, values: &BTreeMap<String, Vec<String>>) -> String {
    let mut text = text.replace("${/}", "/").replace("${pathSeparator}", "/");
    for (name, place) in [
        ("DESKTOP", "Desktop"),
        ("DOCUMENTS", "Documents"),
        ("DOWNLOADS", "Downloads"),
    ] {
        text = text.replace(&format!("${{{name}}}"), &format!("${{HOME}}/{place}"));
    }
    if let Some(folder) = folder {
        text = text.replace("${__dirname}", &folder.display().to_string());
    }
    for (key, value) in values {
        text = text.replace(&format!("${{user_config.{key}}}"), &value.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::zip::tests::{File, zipped};
    use super::*;
    use serde_json::json;

    fn write(folder: &Path, manifest: &Value) -> PathBuf {
        let file = folder.join("my.mcpb");
        let manifest = manifest.to_string();
        let bytes = zipped(&[
            File("manifest.json", 0, manifest.as_bytes(), None),
            File("server/main", 0, b"#!/bin/sh\n", None),
        ]);
        std::fs::write(&file, bytes).unwrap();
        file
    }

    fn server(
        file: &Path,
        data: Option<&Path>,
        options: &Value,
    ) -> Result<(String, Value), String> {
        let bundle = Bundle {
            file,
            data,
            options: Some(options),
        };
        bundle
            .server()
            .map(|(name, server)| (name, Value::Object(server)))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_server_is_started_as_its_manifest_says() {
        let folder = tempfile::tempdir().unwrap();
        let file = write(
            folder.path(),
            &json!({"name": "files", "server": {"type": "node", "entry_point": "server/main", "mcp_config": {
                "command": "node",
                "args": ["${__dirname}${/}server/main", "--key=${user_config.key}", "${user_config.folders}", "${user_config.none}", "${DESKTOP}"],
                "env": {"LEVEL": "${user_config.level}", "A": "1"},
                "platform_overrides": {"linux": {"env": {"A": "2"}}, "darwin": {"env": {"A": "2"}}},
            }}, "user_config": {
                "key": {"type": "string", "title": "The key", "required": true, "sensitive": true},
                "folders": {"type": "directory", "multiple": true, "default": ["/a", "/b"]},
                "none": {"type": "string"},
                "level": {"type": "number", "default": 3},
            }}),
        );
        let error = server(&file, None, &json!({})).unwrap_err();
        assert!(error.contains("key is not filled in (The key)"), "{error}");
        for options in [
            json!({"mcpServers": {"files": {"key": "k"}}}),
            json!({"options": {"key": "k"}}),
        ] {
            let (name, looked_at) = server(&file, None, &options).unwrap();
            assert_eq!(name, "files");
            assert_eq!(
                looked_at,
                json!({"type": "stdio", "command": "node",
                    "args": ["${__dirname}/server/main", "--key=k", "/a", "/b", "${HOME}/Desktop"],
                    "env": {"LEVEL": "3", "A": "2"}})
            );
        }
        assert!(
            !folder.path().join("bundles").exists(),
            "it was only looked at"
        );
    }

    #[test]
    fn a_bundle_is_unpacked_once_and_again_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let manifest =
            json!({"name": "b", "server": {"type": "binary", "entry_point": "server/main"}});
        let file = write(folder.path(), &manifest);
        let data = folder.path().join("data");
        let command = |file: &Path| {
            let (_, server) = server(file, Some(&data), &json!({})).unwrap();
            PathBuf::from(server["command"].as_str().unwrap())
        };
        let first = command(&file);
        assert!(first.starts_with(&data), "{}", first.display());
        let mode = std::fs::metadata(&first).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "it may be run");
        std::fs::write(&first, "kept").unwrap();
        assert_eq!(command(&file), first);
        assert_eq!(std::fs::read_to_string(&first).unwrap(), "kept");
        std::fs::remove_file(&file).unwrap();
        let mut longer = manifest;
        longer["description"] = "another version".into();
        let second = command(&write(folder.path(), &longer));
        assert_ne!(second, first);
        let left: Vec<_> = std::fs::read_dir(data.join("bundles")).unwrap().collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn a_bundle_that_can_t_be_started_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        for (manifest, why) in [
            (
                json!({"name": "x", "compatibility": {"platforms": ["win32"]}}),
                "doesn't work on",
            ),
            (
                json!({"name": "x", "server": {"type": "node"}}),
                "doesn't say how",
            ),
            (
                json!({"name": "x", "server": {"type": "uv", "entry_point": "a"}}),
                "(uv)",
            ),
            (json!({"server": {}}), "no name"),
            (json!([]), "no name"),
        ] {
            let error = server(&write(folder.path(), &manifest), None, &json!({})).unwrap_err();
            assert!(error.contains(why), "{why}: {error}");
        }
        let empty = folder.path().join("e.mcpb");
        std::fs::write(&empty, zipped(&[])).unwrap();
        assert!(
            server(&empty, None, &json!({}))
                .unwrap_err()
                .contains("no manifest.json")
        );
    }
}
