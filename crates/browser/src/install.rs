//! The files by which a browser finds the host.

use crate::{HOST_NAME, folder};
use serde_json::json;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A browser with native messaging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Browser {
    /// Google Chrome.
    Chrome,
    /// Chromium.
    Chromium,
    /// Microsoft Edge.
    Edge,
    /// Brave.
    Brave,
    /// Firefox.
    Firefox,
}

/// Why nothing was installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// No browser has this name.
    #[error(
        "'{0}' is not a browser that is known; choose chrome, chromium, edge, brave or firefox"
    )]
    UnknownBrowser(String),
    /// The id can't be one of an extension.
    #[error("'{0}' is not the id of an extension: {1}")]
    BadId(String, &'static str),
    /// The file system refused.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        error: io::Error,
    },
}

impl FromStr for Browser {
    type Err = InstallError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "chrome" => Self::Chrome,
            "chromium" => Self::Chromium,
            "edge" => Self::Edge,
            "brave" => Self::Brave,
            "firefox" => Self::Firefox,
            other => return Err(InstallError::UnknownBrowser(other.to_owned())),
        })
    }
}

impl Browser {
    /// The folder of manifests, below the home folder.
    #[must_use]
    pub fn folder(self, home: &Path) -> PathBuf {
        let inside = if cfg!(target_os = "macos") {
            match self {
                Self::Chrome => "Library/Application Support/Google/Chrome/NativeMessagingHosts",
                Self::Chromium => "Library/Application Support/Chromium/NativeMessagingHosts",
                Self::Edge => "Library/Application Support/Microsoft Edge/NativeMessagingHosts",
                Self::Brave => {
                    "Library/Application Support/BraveSoftware/Brave-Browser/NativeMessagingHosts"
                }
                Self::Firefox => "Library/Application Support/Mozilla/NativeMessagingHosts",
            }
        } else {
            match self {
                Self::Chrome => ".config/google-chrome/NativeMessagingHosts",
                Self::Chromium => ".config/chromium/NativeMessagingHosts",
                Self::Edge => ".config/microsoft-edge/NativeMessagingHosts",
                Self::Brave => ".config/BraveSoftware/Brave-Browser/NativeMessagingHosts",
                Self::Firefox => ".mozilla/native-messaging-hosts",
            }
        };
        home.join(inside)
    }

    /// Whether an id can be one of this browser's extensions.
    fn check(self, id: &str) -> Result<(), InstallError> {
        let bad = |why| Err(InstallError::BadId(id.to_owned(), why));
        let fits = match self {
            Self::Firefox => {
                let plain =
                    |letter: char| letter.is_ascii_alphanumeric() || "{}-_.@".contains(letter);
                id.len() <= 80 && id.chars().all(plain) && (id.contains('@') || id.starts_with('{'))
            }
            _ => id.len() == 32 && id.bytes().all(|byte| (b'a'..=b'p').contains(&byte)),
        };
        match (fits, self) {
            (true, _) => Ok(()),
            (false, Self::Firefox) => bad("it looks like name@example or {uuid}"),
            (false, _) => bad("it has 32 letters from a to p, see chrome://extensions"),
        }
    }
}

/// Writes the wrapper and the manifest, and gives their paths.
///
/// # Errors
/// When the id is none, or the file system refuses.
pub fn install(
    browser: Browser,
    id: &str,
    home: &Path,
    config_home: &Path,
    program: &Path,
) -> Result<[PathBuf; 2], InstallError> {
    browser.check(id)?;
    let wrapper = folder(config_home).join("host");
    // The browser starts it with arguments of its own, and with little of an environment.
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
    let script = format!(
        "#!/bin/sh\n# Written by `lathe browser install`.\nLATHE_CONFIG_DIR={} exec {} browser host\n",
        quoted(config_home),
        quoted(program)
    );
    put(&wrapper, &script, 0o755)?;
    let mut manifest = json!({
        "name": HOST_NAME,
        "description": "Lathe: lets a session use this browser",
        "path": wrapper,
        "type": "stdio",
    });
    if browser == Browser::Firefox {
        manifest["allowed_extensions"] = json!([id]);
    } else {
        manifest["allowed_origins"] = json!([format!("chrome-extension://{id}/")]);
    }
    let file = browser.folder(home).join(format!("{HOST_NAME}.json"));
    put(&file, &format!("{manifest:#}\n"), 0o644)?;
    Ok([wrapper, file])
}

fn put(path: &Path, text: &str, mode: u32) -> Result<(), InstallError> {
    let failed = |error| InstallError::Io {
        path: path.to_path_buf(),
        error,
    };
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
    std::fs::write(path, text).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_extensions_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let tried = |browser, id| {
            install(
                browser,
                id,
                folder.path(),
                &folder.path().join("it's"),
                Path::new("/bin/lathe"),
            )
        };
        for id in [
            "",
            "abc",
            "../../../../../../../../../../x",
            "ABCDEFGHIJKLMNOPABCDEFGHIJKLMNOP",
        ] {
            assert!(tried(Browser::Chrome, id).is_err(), "{id}");
        }
        assert!(tried(Browser::Firefox, "no").is_err());
        let id = "abcdefghijklmnopabcdefghijklmnop";
        let [wrapper, manifest] = tried(Browser::Brave, id).unwrap();
        let text = std::fs::read_to_string(wrapper).unwrap();
        assert!(text.contains("it'\\''s"), "{text}");
        let text = std::fs::read_to_string(manifest).unwrap();
        assert!(
            text.contains(&format!("chrome-extension://{id}/")),
            "{text}"
        );
        let [_, manifest] = tried(Browser::Firefox, "lathe@lathe-dev.github.io").unwrap();
        let text = std::fs::read_to_string(manifest).unwrap();
        assert!(text.contains("allowed_extensions"), "{text}");
    }
}
