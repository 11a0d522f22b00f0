//! A channel between a host and a device: numbered, in parts, acknowledged, and encrypted.
//!
//! The relay may lose, repeat, reorder, change or invent frames; each is noticed here. A frame that is not the next one
//! is dropped, and what was lost is asked for again: the sender keeps what was not acknowledged. Beyond
//! [`MOST_FRAMES`] or [`MOST_BYTES`] it gives up, and the channel begins anew with a snapshot. Pure: no clock, no
//! socket.

use super::envelope::{Envelope, PART, VERSION};
use super::keys::Agreed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use std::collections::VecDeque;

/// How many frames wait for an acknowledgement at most.
pub const MOST_FRAMES: usize = 1_000;
/// How many bytes of them.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;
/// The longest message.
pub const LONGEST: usize = 8 * 1024 * 1024;
/// After how many frames one is acknowledged even if nothing else is sent.
const ACKNOWLEDGE: u64 = 8;
/// How many frames may be wrong before the channel is given up.
const MOST_WRONG: u32 = 64;

/// Why a channel is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The other side acknowledges nothing.
    #[error("the other side does not answer")]
    Overflow,
    /// A message is longer than [`LONGEST`].
    #[error("a message is longer than {LONGEST} bytes")]
    TooLong,
    /// Too many frames were changed on the way.
    #[error("frames are changed on the way")]
    Tampered,
    /// Encryption failed.
    #[error("a message can't be encrypted")]
    Cipher,
}

/// The result of taking a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A whole message.
    Message(Vec<u8>),
    /// A part of one, or an acknowledgement.
    Nothing,
    /// It came before.
    Replayed,
    /// Frames before it are missing; [`Channel::ask_again`] gets them.
    Gap,
    /// It was changed, or is not for this channel.
    Tampered,
    /// The other side misses frames; these are sent again.
    Again(Vec<String>),
}

/// Which side of a channel this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The host.
    Host,
    /// A device.
    Device,
}

/// One side of a channel.
pub struct Channel {
    room: String,
    own: String,
    other: String,
    stream: String,
    seal: LessSafeKey,
    open: LessSafeKey,
    next_out: u64,
    next_in: u64,
    /// The last number that was told to the other side.
    told: u64,
    unacknowledged: VecDeque<(u64, String)>,
    unacknowledged_bytes: usize,
    parts: Vec<u8>,
    parts_seen: u32,
    wrong: u32,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Channel")
            .field("stream", &self.stream)
            .field("next_out", &self.next_out)
            .field("next_in", &self.next_in)
            .finish_non_exhaustive()
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl Channel {
    /// A channel after a handshake. `own` and `other` are names in the room.
    #[must_use]
    pub fn new(agreed: Agreed, side: Side, room: &str, own: &str, other: &str) -> Self {
        let (seal, open) = match side {
            Side::Host => (agreed.from_host, agreed.from_device),
            Side::Device => (agreed.from_device, agreed.from_host),
        };
        Self {
            room: room.to_owned(),
            own: own.to_owned(),
            other: other.to_owned(),
            stream: agreed.stream,
            seal,
            open,
            next_out: 0,
            next_in: 0,
            told: 0,
            unacknowledged: VecDeque::new(),
            unacknowledged_bytes: 0,
            parts: Vec::new(),
            parts_seen: 0,
            wrong: 0,
        }
    }

    /// Its name.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.stream
    }

    fn envelope(&self, seq: u64, part: Option<(u32, u32)>) -> Envelope {
        Envelope {
            v: VERSION,
            room: self.room.clone(),
            from: self.own.clone(),
            to: self.other.clone(),
            stream: self.stream.clone(),
            seq,
            ack: self.next_in,
            part,
            ct: String::new(),
        }
    }

    /// The frames of a message.
    ///
    /// # Errors
    /// If the channel is over: too much waits for an acknowledgement.
    pub fn send(&mut self, message: &[u8]) -> Result<Vec<String>, Broken> {
        if message.len() > LONGEST {
            return Err(Broken::TooLong);
        }
        // Before a message, not within one: a long snapshot is sent whole.
        if self.unacknowledged.len() >= MOST_FRAMES || self.unacknowledged_bytes >= MOST_BYTES {
            return Err(Broken::Overflow);
        }
        let chunks: Vec<&[u8]> = if message.is_empty() {
            vec![&[]]
        } else {
            message.chunks(PART).collect()
        };
        let count = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        let mut frames = Vec::with_capacity(chunks.len());
        for (number, chunk) in (0..).zip(chunks) {
            let part = (count > 1).then_some((number, count));
            frames.push(self.seal(chunk, part)?);
        }
        self.told = self.next_in;
        Ok(frames)
    }

    fn seal(&mut self, chunk: &[u8], part: Option<(u32, u32)>) -> Result<String, Broken> {
        let mut envelope = self.envelope(self.next_out, part);
        let mut bytes = chunk.to_vec();
        let bound = Aad::from(envelope.bound());
        self.seal
            .seal_in_place_append_tag(nonce(envelope.seq), bound, &mut bytes)
            .map_err(|_| Broken::Cipher)?;
        envelope.ct = STANDARD.encode(&bytes);
        let frame = envelope.to_text();
        self.next_out += 1;
        self.unacknowledged_bytes += frame.len();
        self.unacknowledged.push_back((envelope.seq, frame.clone()));
        Ok(frame)
    }

    /// Whether enough came in that an acknowledgement is due. `idle` says that nothing else will be sent soon.
    #[must_use]
    pub fn owes(&self, idle: bool) -> bool {
        let owed = self.next_in.saturating_sub(self.told);
        owed >= ACKNOWLEDGE || (idle && owed > 0)
    }

    /// Asks the other side to send everything from the next expected frame on again.
    #[must_use]
    pub fn ask_again(&self) -> String {
        self.envelope(0, None).to_text()
    }

    /// Takes a frame.
    ///
    /// # Errors
    /// If the channel is over.
    pub fn receive(&mut self, envelope: &Envelope) -> Result<Received, Broken> {
        let fits = envelope.v == VERSION
            && envelope.room == self.room
            && envelope.from == self.other
            && envelope.to == self.own
            && envelope.stream == self.stream;
        if !fits {
            return Ok(Received::Tampered);
        }
        if envelope.ct.is_empty() {
            // Not authenticated: nothing is forgotten for it, and the frames are the same as before.
            let again = self.unacknowledged.iter();
            let again = again.filter(|(seq, _)| *seq >= envelope.ack);
            return Ok(Received::Again(
                again.map(|(_, frame)| frame.clone()).collect(),
            ));
        }
        if envelope.seq < self.next_in {
            return Ok(Received::Replayed);
        }
        if envelope.seq > self.next_in {
            return Ok(Received::Gap);
        }
        let Some(chunk) = self.unseal(envelope) else {
            self.wrong += 1;
            if self.wrong > MOST_WRONG {
                return Err(Broken::Tampered);
            }
            return Ok(Received::Tampered);
        };
        self.next_in += 1;
        self.acknowledged(envelope.ack);
        if chunk.is_empty() && envelope.part.is_none() {
            // An acknowledgement is not acknowledged itself.
            self.told += 1;
            return Ok(Received::Nothing);
        }
        self.gather(chunk, envelope.part)
    }

    fn unseal(&self, envelope: &Envelope) -> Option<Vec<u8>> {
        let mut bytes = STANDARD.decode(&envelope.ct).ok()?;
        let bound = Aad::from(envelope.bound());
        let opened = self
            .open
            .open_in_place(nonce(envelope.seq), bound, &mut bytes);
        let length = opened.ok()?.len();
        bytes.truncate(length);
        Some(bytes)
    }

    /// Forgets frames that the other side has.
    fn acknowledged(&mut self, ack: u64) {
        while let Some((seq, frame)) = self.unacknowledged.front()
            && *seq < ack
        {
            self.unacknowledged_bytes = self.unacknowledged_bytes.saturating_sub(frame.len());
            self.unacknowledged.pop_front();
        }
    }

    fn gather(&mut self, chunk: Vec<u8>, part: Option<(u32, u32)>) -> Result<Received, Broken> {
        let Some((number, count)) = part else {
            self.parts.clear();
            self.parts_seen = 0;
            return Ok(Received::Message(chunk));
        };
        // The frames are the other side's own and in order; anything else is its mistake.
        if number != self.parts_seen || number >= count {
            return Err(Broken::Tampered);
        }
        if self.parts.len() + chunk.len() > LONGEST {
            return Err(Broken::TooLong);
        }
        self.parts.extend(chunk);
        self.parts_seen += 1;
        if self.parts_seen < count {
            return Ok(Received::Nothing);
        }
        self.parts_seen = 0;
        Ok(Received::Message(std::mem::take(&mut self.parts)))
    }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;
