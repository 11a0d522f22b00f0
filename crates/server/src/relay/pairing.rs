//! Links, and the admission of a device at the terminal.
//!
//! `lathe devices pair` writes a [`Pairing`] with a fresh secret and prints the link. When a device answers to it, the
//! server writes down what it [`Seen`]; the terminal shows the six digits, and writes the user's [`Verdict`]. The
//! files are in a folder that tools can't read, and each is there for one device.

use super::keys::{self, Identity, KeyError};
use crate::devices::DeviceScope;
use lathe_session::paths::{create_private_folder, write_private_file};
use ring::digest::{SHA256, digest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a link admits a device.
pub const LIFE: Duration = Duration::from_secs(10 * 60);

/// Why pairing fails.
#[derive(Debug, thiserror::Error)]
pub enum PairingError {
    /// A key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A file.
    #[error(transparent)]
    File(#[from] lathe_session::SessionError),
    /// The server has no relay.
    #[error("the server uses no relay; start it with `lathe serve --relay wss://HOST`")]
    NoRelay,
}

/// The host's own place at a relay.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Station {
    /// The relay, as `wss://host`.
    pub relay: String,
    /// The host's key, as it is stored.
    key: String,
    /// Proves to the relay that the room is the host's own: the room is its hash.
    proof: String,
}

impl Station {
    /// The host's identity.
    ///
    /// # Errors
    /// If the stored key is damaged.
    pub fn identity(&self) -> Result<Identity, KeyError> {
        Identity::read(&self.key)
    }

    /// The proof.
    #[must_use]
    pub fn proof(&self) -> &str {
        &self.proof
    }

    /// The room.
    #[must_use]
    pub fn room(&self) -> String {
        room_of(&self.proof)
    }

    /// The address of the page at the relay.
    fn page(&self) -> String {
        let page = self.relay.replacen("wss://", "https://", 1);
        page.replacen("ws://", "http://", 1)
    }
}

/// The room that a proof opens.
#[must_use]
pub fn room_of(proof: &str) -> String {
    keys::text(digest(&SHA256, format!("lathe room\n{proof}").as_bytes()).as_ref())
}

/// A link that waits for its device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pairing {
    /// Names it.
    pub id: String,
    /// The secret of the link.
    pub secret: String,
    /// The rights of the device.
    pub scope: DeviceScope,
    /// Until when, in seconds since 1970.
    until: i64,
}

/// A device that answered to a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The digits that both must show.
    pub digits: String,
    /// The name that the device suggests.
    pub name: String,
}

/// The user's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The digits are the same.
    Admit,
    /// They are not, or the device is not the user's.
    Refuse,
}

/// The files of the relay in a server's folder.
#[derive(Debug, Clone)]
pub struct Pairings {
    folder: PathBuf,
}

impl Pairings {
    /// Those of a server's folder.
    #[must_use]
    pub fn new(server_folder: &Path) -> Self {
        Self {
            folder: server_folder.to_owned(),
        }
    }

    /// The host's place at a relay: the one that is stored for it, else a new one.
    ///
    /// # Errors
    /// If it can't be written, or the system gives no randomness.
    pub fn station(&self, relay: &str) -> Result<Station, PairingError> {
        let relay = relay.trim_end_matches('/').to_owned();
        let path = self.folder.join("relay.json");
        if let Some(known) = read::<Station>(&path).filter(|known| known.relay == relay) {
            known.identity()?;
            return Ok(known);
        }
        let station = Station {
            relay,
            key: Identity::generate()?,
            proof: keys::secret()?,
        };
        create_private_folder(&self.folder)?;
        write(&path, &station)?;
        Ok(station)
    }

    /// The place of the server that runs or ran last.
    ///
    /// # Errors
    /// If there is none.
    pub fn known_station(&self) -> Result<Station, PairingError> {
        read(&self.folder.join("relay.json")).ok_or(PairingError::NoRelay)
    }

    fn file(&self, id: &str, kind: &str) -> Option<PathBuf> {
        let safe = id.len() <= 32 && !id.is_empty() && id.bytes().all(|it| it.is_ascii_hexdigit());
        safe.then(|| self.folder.join("pairings").join(format!("{id}.{kind}")))
    }

    /// Makes a link. Gives the pairing and the link's text.
    ///
    /// # Errors
    /// If it can't be written, or there is no relay.
    pub fn begin(&self, scope: DeviceScope) -> Result<(Pairing, String), PairingError> {
        let station = self.known_station()?;
        let pairing = Pairing {
            id: uuid::Uuid::new_v4().simple().to_string(),
            secret: keys::secret()?,
            scope,
            until: jiff::Timestamp::now().as_second() + LIFE.as_secs().cast_signed(),
        };
        create_private_folder(&self.folder.join("pairings"))?;
        if let Some(path) = self.file(&pairing.id, "link") {
            write(&path, &pairing)?;
        }
        let link = format!(
            "{}/#r={}&k={}&p={}&s={}",
            station.page(),
            station.room(),
            station.identity()?.public(),
            pairing.id,
            pairing.secret,
        );
        Ok((pairing, link))
    }

    /// A link that waits and is not too old.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<Pairing> {
        let pairing: Pairing = read(&self.file(id, "link")?)?;
        (pairing.until >= jiff::Timestamp::now().as_second()).then_some(pairing)
    }

    /// Notes the device that answered; `false` if another did before.
    pub fn note(&self, id: &str, seen: &Seen) -> bool {
        let Some(path) = self.file(id, "seen") else {
            return false;
        };
        !path.exists() && write(&path, seen).is_ok()
    }

    /// The device that answered, if one did.
    #[must_use]
    pub fn seen(&self, id: &str) -> Option<Seen> {
        read(&self.file(id, "seen")?)
    }

    /// Writes the user's decision down.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn decide(&self, id: &str, verdict: Verdict) -> Result<(), PairingError> {
        if let Some(path) = self.file(id, "verdict") {
            write(&path, &verdict)?;
        }
        Ok(())
    }

    /// The user's decision, if there is one.
    #[must_use]
    pub fn verdict(&self, id: &str) -> Option<Verdict> {
        read(&self.file(id, "verdict")?)
    }

    /// Removes a link and what belongs to it.
    pub fn end(&self, id: &str) {
        for kind in ["link", "seen", "verdict"] {
            if let Some(path) = self.file(id, kind) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), PairingError> {
    let text = serde_json::to_vec(value).unwrap_or_default();
    write_private_file(path, &text)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_for_one_device_and_carries_its_secrets_in_the_fragment() {
        let home = tempfile::tempdir().unwrap();
        let pairings = Pairings::new(home.path());
        assert!(matches!(
            pairings.begin(DeviceScope::View),
            Err(PairingError::NoRelay)
        ));
        let station = pairings.station("wss://relay.example/").unwrap();
        assert_eq!(
            pairings.station("wss://relay.example").unwrap().room(),
            station.room(),
            "a restart keeps the room"
        );
        let (pairing, link) = pairings.begin(DeviceScope::Approve).unwrap();
        let (page, fragment) = link.split_once('#').unwrap();
        assert_eq!(page, "https://relay.example/");
        assert!(fragment.contains(&pairing.secret) && fragment.contains(&station.room()));
        assert!(
            !link.contains(station.proof()),
            "who has a link is not the host"
        );
        assert_eq!(pairings.find(&pairing.id), Some(pairing.clone()));
        for wrong in ["", "../relay", "zz", "../../x"] {
            assert_eq!(pairings.find(wrong), None, "{wrong}");
        }
        let seen = Seen {
            digits: "123456".to_owned(),
            name: "phone".to_owned(),
        };
        assert!(pairings.note(&pairing.id, &seen));
        assert!(!pairings.note(&pairing.id, &seen), "a second device");
        assert_eq!(pairings.verdict(&pairing.id), None);
        pairings.decide(&pairing.id, Verdict::Admit).unwrap();
        assert_eq!(pairings.verdict(&pairing.id), Some(Verdict::Admit));
        pairings.end(&pairing.id);
        assert_eq!(pairings.find(&pairing.id), None);
        assert_eq!(pairings.seen(&pairing.id), None);
    }
}
