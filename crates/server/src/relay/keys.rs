//! The host's key, the handshake, and the keys of a channel.
//!
//! ```text
//! device → host   {"e": ephemeral key, "n": nonce, "who": "pair:ID" or "device:ID", "name": …}
//! host → device   {"e": ephemeral key, "sig": signature of all of it by the host's key}
//! ```
//!
//! Both then derive from the shared secret, and from what only they know (the secret of the link, or the hash of the
//! device's token): two keys, the name of the channel, and six digits that people compare.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use ring::agreement::{self, ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
};
use serde::{Deserialize, Serialize};

/// Why keys can't be made or agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The system gives no randomness.
    #[error("the system gives no random numbers")]
    Random,
    /// The stored key is damaged.
    #[error(
        "the key of the relay is damaged; remove relay.json in the server folder, and pair devices again"
    )]
    Damaged,
    /// The other side's key is no point of the curve.
    #[error("the other side's key is wrong")]
    Foreign,
    /// The signature is not the host's.
    #[error("the host's signature is wrong: somebody else answered")]
    Signature,
}

/// Bytes as text for links and frames.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes of a text.
#[must_use]
pub fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// 256 random bits as text.
///
/// # Errors
/// If the system gives none.
pub fn secret() -> Result<String, KeyError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| KeyError::Random)?;
    Ok(text(&bytes))
}

/// The key by which devices know a host.
pub struct Identity {
    pair: EcdsaKeyPair,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("Identity")
            .field(&self.public())
            .finish()
    }
}

impl Identity {
    /// A new key, to be stored as it is given.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn generate() -> Result<String, KeyError> {
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        document
            .map(|document| text(document.as_ref()))
            .map_err(|_| KeyError::Random)
    }

    /// A stored key.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn read(stored: &str) -> Result<Self, KeyError> {
        let document = bytes(stored).ok_or(KeyError::Damaged)?;
        let random = SystemRandom::new();
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &document, &random)
            .map(|pair| Self { pair })
            .map_err(|_| KeyError::Damaged)
    }

    /// The public key, as links carry it.
    #[must_use]
    pub fn public(&self) -> String {
        text(self.pair.public_key().as_ref())
    }
}

/// The device's part of a handshake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hi {
    /// The ephemeral key.
    pub e: String,
    /// Random, so that no two handshakes are alike.
    pub n: String,
    /// `pair:ID` or `device:ID`.
    pub who: String,
    /// The name that a new device suggests.
    #[serde(default)]
    pub name: String,
}

/// The host's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHi {
    /// The ephemeral key.
    pub e: String,
    /// The signature of both parts.
    pub sig: String,
}

/// The result of a handshake.
pub struct Agreed {
    /// The name of the channel.
    pub stream: String,
    /// The digits that people compare.
    pub digits: String,
    /// Encrypts what the host sends.
    pub from_host: LessSafeKey,
    /// Encrypts what the device sends.
    pub from_device: LessSafeKey,
}

impl std::fmt::Debug for Agreed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Agreed")
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

/// Everything that was said, which the signature and the keys are bound to.
fn said(room: &str, member: &str, hi: &Hi, host_key: &str) -> String {
    format!(
        "lathe relay v1\n{room}\n{member}\n{}\n{}\n{}\n{}\n{host_key}",
        hi.e, hi.n, hi.who, hi.name
    )
}

/// An ephemeral key, and its public part as text.
fn ephemeral() -> Result<(EphemeralPrivateKey, String), KeyError> {
    let key = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new())
        .map_err(|_| KeyError::Random)?;
    let public = key.compute_public_key().map_err(|_| KeyError::Random)?;
    let public = text(public.as_ref());
    Ok((key, public))
}

/// The length of derived bytes.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive(prk: &Prk, purpose: &str, length: usize) -> Result<Vec<u8>, KeyError> {
    let info = [purpose.as_bytes()];
    let mut out = vec![0; length];
    prk.expand(&info, Length(length))
        .and_then(|okm| okm.fill(&mut out))
        .map_err(|_| KeyError::Foreign)?;
    Ok(out)
}

fn agree(
    own: EphemeralPrivateKey,
    other: &str,
    known: &str,
    said: &str,
) -> Result<Agreed, KeyError> {
    let other = bytes(other).ok_or(KeyError::Foreign)?;
    let other = UnparsedPublicKey::new(&ECDH_P256, other);
    // What only the two know, and everything that was said, go into the salt.
    let salt = digest(&SHA256, format!("{known}\n{said}").as_bytes());
    let salt = Salt::new(HKDF_SHA256, salt.as_ref());
    let prk = agreement::agree_ephemeral(own, &other, |shared| salt.extract(shared))
        .map_err(|_| KeyError::Foreign)?;
    let key = |purpose: &str| -> Result<LessSafeKey, KeyError> {
        let key = UnboundKey::new(&AES_256_GCM, &derive(&prk, purpose, 32)?);
        key.map(LessSafeKey::new).map_err(|_| KeyError::Foreign)
    };
    let number = derive(&prk, "digits", 8)?
        .iter()
        .fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    Ok(Agreed {
        stream: text(&derive(&prk, "stream", 12)?),
        digits: format!("{:06}", number % 1_000_000),
        from_host: key("host to device")?,
        from_device: key("device to host")?,
    })
}

/// The host's side of a handshake. `known` is the secret of the link, or the hash of the device's token.
///
/// # Errors
/// If the device's key is wrong.
pub fn answer(
    identity: &Identity,
    room: &str,
    member: &str,
    hi: &Hi,
    known: &str,
) -> Result<(HostHi, Agreed), KeyError> {
    let (own, public) = ephemeral()?;
    let said = said(room, member, hi, &public);
    let signature = identity
        .pair
        .sign(&SystemRandom::new(), said.as_bytes())
        .map_err(|_| KeyError::Random)?;
    let agreed = agree(own, &hi.e, known, &said)?;
    let host_hi = HostHi {
        e: public,
        sig: text(signature.as_ref()),
    };
    Ok((host_hi, agreed))
}

/// A handshake that a device began.
pub struct Begun {
    own: EphemeralPrivateKey,
    /// Its first message.
    pub hi: Hi,
}

impl std::fmt::Debug for Begun {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Begun")
            .field("hi", &self.hi)
            .finish_non_exhaustive()
    }
}

impl Begun {
    /// Begins a handshake.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn new(who: &str, name: &str) -> Result<Self, KeyError> {
        let (own, e) = ephemeral()?;
        let hi = Hi {
            e,
            n: secret()?,
            who: who.to_owned(),
            name: name.to_owned(),
        };
        Ok(Self { own, hi })
    }

    /// Ends it with the host's answer.
    ///
    /// # Errors
    /// If the answer is not the host's.
    pub fn finish(
        self,
        host_key: &str,
        room: &str,
        member: &str,
        answer: &HostHi,
        known: &str,
    ) -> Result<Agreed, KeyError> {
        let said = said(room, member, &self.hi, &answer.e);
        let key = bytes(host_key).ok_or(KeyError::Signature)?;
        let signature = bytes(&answer.sig).ok_or(KeyError::Signature)?;
        ring::signature::UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key)
            .verify(said.as_bytes(), &signature)
            .map_err(|_| KeyError::Signature)?;
        agree(self.own, &answer.e, known, &said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_agree_and_nobody_else_does() {
        let identity = Identity::read(&Identity::generate().unwrap()).unwrap();
        let begun = Begun::new("pair:1", "phone").unwrap();
        let (answered, host) = answer(&identity, "room", "d1", &begun.hi, "secret").unwrap();
        let device = begun
            .finish(&identity.public(), "room", "d1", &answered, "secret")
            .unwrap();
        assert_eq!(host.digits, device.digits);
        assert_eq!(host.digits.len(), 6);
        assert_eq!(host.stream, device.stream);

        // Without the secret of the link the keys differ.
        let begun = Begun::new("pair:1", "phone").unwrap();
        let (answered, host) = answer(&identity, "room", "d1", &begun.hi, "secret").unwrap();
        let device = begun
            .finish(&identity.public(), "room", "d1", &answered, "guess")
            .unwrap();
        assert_ne!(host.stream, device.stream);

        // Somebody in between can't answer for the host, or change what was said.
        let other = Identity::read(&Identity::generate().unwrap()).unwrap();
        let begun = Begun::new("pair:1", "phone").unwrap();
        let (forged, _) = answer(&other, "room", "d1", &begun.hi, "secret").unwrap();
        let key = identity.public();
        let refused = begun.finish(&key, "room", "d1", &forged, "secret");
        assert_eq!(refused.unwrap_err(), KeyError::Signature);
        for (room, member) in [("other", "d1"), ("room", "d2")] {
            let begun = Begun::new("pair:1", "phone").unwrap();
            let (answered, _) = answer(&identity, "room", "d1", &begun.hi, "secret").unwrap();
            let refused = begun.finish(&key, room, member, &answered, "secret");
            assert_eq!(refused.unwrap_err(), KeyError::Signature);
        }
        assert_eq!(Identity::read("AAAA").unwrap_err(), KeyError::Damaged);
        let hi = Hi {
            e: text(&[4; 65]),
            ..Begun::new("pair:1", "x").unwrap().hi
        };
        assert_eq!(
            answer(&identity, "room", "d1", &hi, "s").unwrap_err(),
            KeyError::Foreign
        );
    }
}
