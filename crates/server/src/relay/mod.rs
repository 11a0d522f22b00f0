//! Remote control through a relay: a blind switchboard, and an encrypted channel through it.
//!
//! The relay passes envelopes between the host of a room (`lathe serve --relay`) and its devices. It sees who talks and
//! how much, never what. The keys come from an ephemeral ECDH on P-256, signed by the host's key, which the link to
//! the page carries in its fragment together with a secret; HKDF makes one AES-256-GCM key for each direction.
//!
//! | module | contents |
//! |---|---|
//! | [`envelope`] | the frames that the relay sees |
//! | [`keys`] | the host's key, the handshake, the keys of a channel, the six digits |
//! | [`channel`] | numbering, parts, acknowledgements, and everything that a relay could do wrong |
//! | [`switchboard`] | `lathe relay` |
//! | [`pairing`] | links, and the admission of a device at the terminal |
//! | `host` | the host's side |

pub mod channel;
pub mod envelope;
pub(crate) mod host;
pub mod keys;
pub mod pairing;
pub mod switchboard;

/// The subprotocol of rooms.
pub const PROTOCOL: &str = "lathe.relay.v1";
/// The beginning of the subprotocol by which a host proves that a room is its own.
pub const PROOF_PROTOCOL: &str = "lathe.proof.";
/// The name of the host in its room.
pub const HOST: &str = "host";

/// A pause before the next connection: up to 250 ms, doubled each time up to 30 s, with full jitter. `random` is
/// between 0 and 1.
#[must_use]
pub fn backoff(attempt: u32, random: f64) -> std::time::Duration {
    let most = (250.0 * 2_f64.powi(i32::try_from(attempt.min(10)).unwrap_or(10))).min(30_000.0);
    std::time::Duration::from_secs_f64(most * random.clamp(0.0, 1.0) / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_thirty_seconds_and_never_end() {
        let most = |attempt| backoff(attempt, 1.0).as_millis();
        assert_eq!([0, 1, 2, 7].map(most), [250, 500, 1_000, 30_000]);
        assert_eq!(most(u32::MAX), 30_000);
        assert_eq!(backoff(3, 0.0).as_millis(), 0);
        assert_eq!(backoff(3, 0.5).as_millis(), 1_000);
    }
}
