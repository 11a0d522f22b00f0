//! Who may connect: devices with tokens, and codes that make a device once.
//!
//! A token is 256 random bits, shown once and kept as its hash. A code is made by `lathe web` or `lathe devices add` on
//! this machine, as a file named by its hash; taking it in removes the file, so that it works once.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lathe_session::paths::{create_private_folder, write_private_file};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a code works.
pub const CODE_LIFE: Duration = Duration::from_secs(10 * 60);
/// The most devices.
const MOST_DEVICES: usize = 200;

/// The rights of a device; each includes those before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DeviceScope {
    /// See sessions.
    View,
    /// Send prompts, interrupt, start and stop sessions.
    Prompt,
    /// Answer permission questions.
    Approve,
    /// Manage devices; widen permissions if this machine allows that.
    Admin,
}

impl DeviceScope {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Prompt => "prompt",
            Self::Approve => "approve",
            Self::Admin => "admin",
        }
    }
}

/// A word that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a scope: view, prompt, approve or admin")]
pub struct NotAScope(String);

impl std::str::FromStr for DeviceScope {
    type Err = NotAScope;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::View, Self::Prompt, Self::Approve, Self::Admin]
            .into_iter()
            .find(|scope| scope.name() == text)
            .ok_or_else(|| NotAScope(text.to_owned()))
    }
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Names it for revocation.
    pub id: String,
    /// Its name, which others see when it answers.
    pub name: String,
    /// Its rights.
    pub scope: DeviceScope,
    /// The SHA-256 of its token.
    pub hash: String,
    /// When it was admitted.
    pub created: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct DeviceFile {
    devices: Vec<Device>,
}

#[derive(Debug, Serialize, Deserialize)]
struct CodeFile {
    scope: DeviceScope,
    /// Seconds since 1970.
    until: i64,
}

/// Why devices can't be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The file can't be written.
    #[error(transparent)]
    Write(#[from] lathe_session::SessionError),
    /// The file is damaged.
    #[error("{} can't be read: {reason}; remove it, and admit the devices again", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The system gives no randomness.
    #[error("the system gives no random numbers")]
    Random,
    /// There are too many.
    #[error("there are {MOST_DEVICES} devices already; revoke some with `lathe devices revoke`")]
    TooMany,
}

/// The devices of a configuration folder.
#[derive(Debug, Clone)]
pub struct Devices {
    folder: PathBuf,
}

impl Devices {
    /// Those below a configuration folder.
    #[must_use]
    pub fn new(config_home: &Path) -> Self {
        Self {
            folder: config_home.join("server"),
        }
    }

    /// The folder, which holds nothing that tools may read.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn file(&self) -> PathBuf {
        self.folder.join("devices.json")
    }

    /// All devices.
    ///
    /// # Errors
    /// When the file is damaged: nobody is let in then.
    pub fn list(&self) -> Result<Vec<Device>, DeviceError> {
        let path = self.file();
        let failed = |reason: String| DeviceError::Read {
            path: path.clone(),
            reason,
        };
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice::<DeviceFile>(&bytes)
                .map(|file| file.devices)
                .map_err(|error| failed(error.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    fn save(&self, devices: Vec<Device>) -> Result<(), DeviceError> {
        create_private_folder(&self.folder)?;
        let text = serde_json::to_vec_pretty(&DeviceFile { devices }).unwrap_or_default();
        write_private_file(&self.file(), &text)?;
        Ok(())
    }

    /// Admits a device and gives its token, which is not kept.
    ///
    /// # Errors
    /// When it can't be written down.
    pub fn admit(&self, name: &str, scope: DeviceScope) -> Result<(Device, String), DeviceError> {
        let mut devices = self.list()?;
        if devices.len() >= MOST_DEVICES {
            return Err(DeviceError::TooMany);
        }
        let token = secret()?;
        let device = Device {
            id: hash(&secret()?).chars().take(8).collect(),
            name: plain_name(name),
            scope,
            hash: hash(&token),
            created: jiff::Timestamp::now().to_string(),
        };
        devices.push(device.clone());
        self.save(devices)?;
        Ok((device, token))
    }

    /// Removes a device by its id or its name. Gives how many were removed.
    ///
    /// # Errors
    /// When it can't be written down.
    pub fn revoke(&self, wanted: &str) -> Result<usize, DeviceError> {
        let mut devices = self.list()?;
        let before = devices.len();
        devices.retain(|device| device.id != wanted && device.name != wanted);
        let removed = before - devices.len();
        if removed > 0 {
            self.save(devices)?;
        }
        Ok(removed)
    }

    /// The device of a token.
    #[must_use]
    pub fn of_token(&self, token: &str) -> Option<Device> {
        let given = hash(token);
        // Hashes of random secrets: how long a comparison takes says nothing about the token.
        self.list()
            .ok()?
            .into_iter()
            .find(|device| device.hash == given)
    }

    /// Makes a code that admits one device.
    ///
    /// # Errors
    /// When it can't be written down.
    pub fn code(&self, scope: DeviceScope) -> Result<String, DeviceError> {
        let code = secret()?;
        let until = jiff::Timestamp::now().as_second() + CODE_LIFE.as_secs().cast_signed();
        let folder = self.folder.join("codes");
        create_private_folder(&folder)?;
        let text = serde_json::to_vec(&CodeFile { scope, until }).unwrap_or_default();
        write_private_file(&folder.join(hash(&code)), &text)?;
        Ok(code)
    }

    /// Takes a code in: its scope, once.
    #[must_use]
    pub fn take_code(&self, code: &str) -> Option<DeviceScope> {
        let path = self.folder.join("codes").join(hash(code));
        let text = fs::read(&path).ok()?;
        // The one that removes the file has it.
        fs::remove_file(&path).ok()?;
        let file: CodeFile = serde_json::from_slice(&text).ok()?;
        (file.until >= jiff::Timestamp::now().as_second()).then_some(file.scope)
    }
}

/// 256 random bits as text.
fn secret() -> Result<String, DeviceError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| DeviceError::Random)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A name of one line without control characters.
fn plain_name(name: &str) -> String {
    let name: String = name
        .chars()
        .filter(|letter| letter.is_alphanumeric() || " .-_()'".contains(*letter))
        .take(40)
        .collect();
    let name = name.trim();
    if name.is_empty() { "device" } else { name }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_token_is_kept_as_a_hash_and_revoked() {
        let home = tempfile::tempdir().unwrap();
        let devices = Devices::new(home.path());
        let (device, token) = devices.admit("phone\u{202e}\n", DeviceScope::View).unwrap();
        assert_eq!(device.name, "phone");
        assert_eq!(devices.of_token(&token), Some(device.clone()));
        assert_eq!(devices.of_token(&device.hash), None, "a hash is no token");
        let file = devices.file();
        assert!(!fs::read_to_string(&file).unwrap().contains(&token));
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(devices.revoke("phone").unwrap(), 1);
        assert_eq!(devices.of_token(&token), None);
    }

    #[test]
    fn a_code_works_once_and_a_damaged_file_lets_nobody_in() {
        let home = tempfile::tempdir().unwrap();
        let devices = Devices::new(home.path());
        let code = devices.code(DeviceScope::Approve).unwrap();
        assert_eq!(devices.take_code("../devices.json"), None);
        assert_eq!(devices.take_code(&code), Some(DeviceScope::Approve));
        assert_eq!(devices.take_code(&code), None);
        let (_, token) = devices.admit("a", DeviceScope::Admin).unwrap();
        fs::write(devices.file(), "{").unwrap();
        assert_eq!(devices.of_token(&token), None);
    }

    #[test]
    fn scopes_are_ordered() {
        assert!(DeviceScope::View < DeviceScope::Prompt);
        assert!(DeviceScope::Prompt < DeviceScope::Approve);
        assert!(DeviceScope::Approve < DeviceScope::Admin);
        assert!("root".parse::<DeviceScope>().is_err());
    }
}
