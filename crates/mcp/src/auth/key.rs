//! Authenticates a client with a signed assertion instead of a secret (RFC 7523, `private_key_jwt`).
//!
//! The signatures are ring's, the TLS library's own crypto. A JWT that is only ever signed is two JSON objects
//! and a signature; the `jsonwebtoken` crate would bring a second crypto library for it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{AlgorithmIdentifier, PrivateKeyDer, alg_id};
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

/// How long an assertion is valid, in seconds.
const LIFE: u64 = 300;

/// Why an assertion can't be signed.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error("the client key is not a PEM private key ({0})")]
    NoKey(rustls::pki_types::pem::Error),
    #[error("the client key is of a kind that is not supported; RSA, P-256, P-384 and Ed25519 are")]
    UnknownKind,
    #[error("{0} is not supported; ES256, ES384, RS256 and EdDSA are")]
    UnknownAlgorithm(String),
    #[error("the client key is for {has}, but the configuration requires {wants}")]
    OtherAlgorithm { has: &'static str, wants: String },
    #[error("signing with the client key failed")]
    Sign,
}

/// Signs that we are `client`, for the authorisation server `audience`.
pub(super) fn assertion(
    pem: &str,
    algorithm: Option<&str>,
    client: &str,
    audience: &str,
) -> Result<String, KeyError> {
    let key = SigningKey::from_pem(pem)?;
    match algorithm {
        Some(wants) if !["ES256", "ES384", "RS256", "EdDSA"].contains(&wants) => {
            return Err(KeyError::UnknownAlgorithm(wants.to_owned()));
        }
        Some(wants) if wants != key.algorithm() => {
            return Err(KeyError::OtherAlgorithm {
                has: key.algorithm(),
                wants: wants.to_owned(),
            });
        }
        _ => {}
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let header = json!({"alg": key.algorithm(), "typ": "JWT"});
    let claims = json!({
        "iss": client,
        "sub": client,
        "aud": audience,
        "iat": now,
        "exp": now + LIFE,
        "jti": uuid::Uuid::new_v4().to_string(),
    });
    let signed = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(header.to_string()),
        URL_SAFE_NO_PAD.encode(claims.to_string())
    );
    let signature = key.sign(signed.as_bytes())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

enum SigningKey {
    Es256(EcdsaKeyPair),
    Es384(EcdsaKeyPair),
    Rs256(RsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

impl SigningKey {
    fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(KeyError::NoKey)?;
        match &key {
            PrivateKeyDer::Pkcs8(key) => Self::from_pkcs8(key.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der())
                .ok()
                .map(Self::Rs256),
            PrivateKeyDer::Sec1(key) => [alg_id::ECDSA_P256, alg_id::ECDSA_P384]
                .iter()
                .find_map(|curve| Self::from_pkcs8(&pkcs8(curve, key.secret_sec1_der()))),
            _ => None,
        }
        .ok_or(KeyError::UnknownKind)
    }

    fn from_pkcs8(key: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let ecdsa = |algorithm: &'static EcdsaSigningAlgorithm| {
            EcdsaKeyPair::from_pkcs8(algorithm, key, &random).ok()
        };
        ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .map(Self::Es256)
            .or_else(|| ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Self::Es384))
            .or_else(|| RsaKeyPair::from_pkcs8(key).ok().map(Self::Rs256))
            .or_else(|| {
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(key)
                    .ok()
                    .map(Self::EdDsa)
            })
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::Es384(_) => "ES384",
            Self::Rs256(_) => "RS256",
            Self::EdDsa(_) => "EdDSA",
        }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        match self {
            Self::Es256(key) | Self::Es384(key) => key
                .sign(&random, message)
                .map(|signature| signature.as_ref().to_vec()),
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .map(|()| signature)
            }
            Self::EdDsa(key) => Ok(key.sign(message).as_ref().to_vec()),
        }
        .map_err(|_| KeyError::Sign)
    }
}

/// Wraps a key in SEC1 form (`EC PRIVATE KEY`), which ring doesn't read, in PKCS#8.
fn pkcs8(curve: &AlgorithmIdentifier, sec1: &[u8]) -> Vec<u8> {
    const INTEGER: u8 = 0x02;
    const OCTET_STRING: u8 = 0x04;
    const SEQUENCE: u8 = 0x30;
    let der = |tag: u8, content: &[u8]| {
        let length = content.len();
        let mut bytes = match u8::try_from(length) {
            Ok(short) if short < 0x80 => vec![tag, short],
            Ok(byte) => vec![tag, 0x81, byte],
            // A key of these curves is shorter than 200 bytes; ring refuses what is cut off here.
            Err(_) => vec![tag, 0x82, (length >> 8) as u8, length as u8],
        };
        bytes.extend_from_slice(content);
        bytes
    };
    let parts = [
        der(INTEGER, &[0]),
        der(SEQUENCE, curve.as_ref()),
        der(OCTET_STRING, sec1),
    ];
    der(SEQUENCE, &parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, KeyPair as _,
        RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
    };
    use serde_json::Value;

    /// The header and the claims of an assertion whose signature is the key's.
    fn verified(pem: &str, assertion: &str) -> (Value, Value) {
        let (public, algorithm): (Vec<u8>, &'static dyn VerificationAlgorithm) =
            match SigningKey::from_pem(pem).unwrap() {
                SigningKey::Es256(key) => {
                    (key.public_key().as_ref().to_vec(), &ECDSA_P256_SHA256_FIXED)
                }
                SigningKey::Es384(key) => {
                    (key.public_key().as_ref().to_vec(), &ECDSA_P384_SHA384_FIXED)
                }
                SigningKey::Rs256(key) => (
                    key.public_key().as_ref().to_vec(),
                    &RSA_PKCS1_2048_8192_SHA256,
                ),
                SigningKey::EdDsa(key) => (key.public_key().as_ref().to_vec(), &ED25519),
            };
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
        let (signed, signature) = assertion.rsplit_once('.').unwrap();
        UnparsedPublicKey::new(algorithm, public)
            .verify(signed.as_bytes(), &decode(signature))
            .unwrap();
        let (header, claims) = signed.split_once('.').unwrap();
        let json = |part| serde_json::from_slice(&decode(part)).unwrap();
        (json(header), json(claims))
    }

    fn ed25519() -> String {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let text = base64::engine::general_purpose::STANDARD.encode(key.as_ref());
        format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
    }

    #[test]
    fn every_kind_and_form_of_key_signs() {
        for (pem, algorithm) in [
            (include_str!("../../tests/keys/p256-pkcs8.pem"), "ES256"),
            (include_str!("../../tests/keys/p256-sec1.pem"), "ES256"),
            (include_str!("../../tests/keys/p384-sec1.pem"), "ES384"),
            (include_str!("../../tests/keys/rsa.pem"), "RS256"),
            (include_str!("../../tests/keys/rsa-pkcs8.pem"), "RS256"),
            (&ed25519(), "EdDSA"),
        ] {
            for wanted in [None, Some(algorithm)] {
                let text = assertion(pem, wanted, "us", "https://auth.example").unwrap();
                let (header, claims) = verified(pem, &text);
                assert_eq!(header, json!({"alg": algorithm, "typ": "JWT"}));
                assert_eq!(claims["iss"], "us");
                assert_eq!(claims["sub"], "us");
                assert_eq!(claims["aud"], "https://auth.example");
                assert_eq!(
                    claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(),
                    LIFE
                );
            }
        }
    }

    #[test]
    fn a_key_that_can_t_be_used_is_an_error() {
        let p256 = include_str!("../../tests/keys/p256-sec1.pem");
        for (pem, algorithm, why) in [
            ("nonsense", None, "not a PEM private key"),
            (
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                None,
                "not supported; RSA",
            ),
            (p256, Some("HS256"), "HS256 is not supported"),
            (p256, Some("RS256"), "is for ES256"),
        ] {
            let error = assertion(pem, algorithm, "c", "a").unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
