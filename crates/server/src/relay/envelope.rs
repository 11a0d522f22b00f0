//! The frames that a relay passes on.

use serde::{Deserialize, Serialize};

/// The version.
pub const VERSION: u32 = 1;
/// The most bytes of a message in one envelope.
pub const PART: usize = 64 * 1024;
/// The largest envelope as text: a part as base64, and its fields.
pub const LARGEST: usize = 96 * 1024;

/// A frame: who it is from and for, its number, and the ciphertext.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// [`VERSION`].
    pub v: u32,
    /// The room.
    pub room: String,
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// The channel; empty for a handshake.
    #[serde(default)]
    pub stream: String,
    /// Its number in its channel and direction.
    #[serde(default)]
    pub seq: u64,
    /// The number that the sender expects next.
    #[serde(default)]
    pub ack: u64,
    /// Which part of a message it is, and of how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<(u32, u32)>,
    /// The ciphertext as base64; a handshake in the clear; empty asks for everything from `ack` on again.
    #[serde(default)]
    pub ct: String,
}

impl Envelope {
    /// The fields that are authenticated with the ciphertext: all of them.
    #[must_use]
    pub fn bound(&self) -> String {
        let (part, parts) = self.part.unwrap_or((0, 1));
        format!(
            "{}|{}|{}|{}|{}|{}|{}|{part}/{parts}",
            self.v, self.room, self.from, self.to, self.stream, self.seq, self.ack
        )
    }

    /// The frame as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
