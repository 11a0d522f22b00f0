//! A client that signs who it is instead of sending a secret (RFC 7523, `private_key_jwt`).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

/// How long an assertion is good for, in seconds.
const LIFE: u64 = 300;

/// Signs that we are `client`, for the authorisation server `audience`.
///
/// # Errors
/// In words, if the key is no key or of a kind that isn't signed with.
pub(super) fn assertion(
    pem: &str,
    algorithm: Option<&str>,
    client: &str,
    audience: &str,
) -> Result<String, String> {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| format!("the client key is no PEM private key ({error})"))?;
    let key = any_supported_type(&key).map_err(|error| format!("the client key: {error}"))?;
    let wanted = match algorithm {
        None => vec![
            ("ES256", SignatureScheme::ECDSA_NISTP256_SHA256),
            ("RS256", SignatureScheme::RSA_PKCS1_SHA256),
            ("ES384", SignatureScheme::ECDSA_NISTP384_SHA384),
            ("EdDSA", SignatureScheme::ED25519),
        ],
        Some("ES256") => vec![("ES256", SignatureScheme::ECDSA_NISTP256_SHA256)],
        Some("ES384") => vec![("ES384", SignatureScheme::ECDSA_NISTP384_SHA384)],
        Some("RS256") => vec![("RS256", SignatureScheme::RSA_PKCS1_SHA256)],
        Some("EdDSA") => vec![("EdDSA", SignatureScheme::ED25519)],
        Some(other) => return Err(format!("{other} isn't signed with; ES256 and RS256 are")),
    };
    let (name, signer) = wanted
        .into_iter()
        .find_map(|(name, scheme)| Some((name, key.choose_scheme(&[scheme])?)))
        .ok_or("the client key is of another kind than the algorithm")?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let header = json!({"alg": name, "typ": "JWT"});
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
    let signature = signer
        .sign(signed.as_bytes())
        .map_err(|error| format!("the client key doesn't sign: {error}"))?;
    let signature = match name {
        "ES256" => fixed(&signature, 32).ok_or("the signature can't be read")?,
        "ES384" => fixed(&signature, 48).ok_or("the signature can't be read")?,
        _ => signature,
    };
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// An ECDSA signature as two numbers of fixed width, from its DER form (a sequence of two integers).
fn fixed(der: &[u8], width: usize) -> Option<Vec<u8>> {
    let body = der.strip_prefix(&[0x30])?;
    let (&length, mut rest) = body.split_first()?;
    // Both numbers fit into a short length up to P-384.
    if length >= 0x80 || usize::from(length) != rest.len() {
        return None;
    }
    let mut out = Vec::with_capacity(2 * width);
    for _ in 0..2 {
        let integer = rest.strip_prefix(&[0x02])?;
        let (&length, after) = integer.split_first()?;
        let (digits, next) = after.split_at_checked(length.into())?;
        rest = next;
        let digits = digits.strip_prefix(&[0]).unwrap_or(digits);
        out.resize(out.len() + width.checked_sub(digits.len())?, 0);
        out.extend_from_slice(digits);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_have_a_fixed_width() {
        let der = [0x30, 0x07, 0x02, 0x02, 0x00, 0x80, 0x02, 0x01, 0x05];
        assert_eq!(fixed(&der, 4).unwrap(), [0, 0, 0, 0x80, 0, 0, 0, 5]);
        assert!(fixed(&der[..5], 4).is_none());
        assert!(fixed(b"", 4).is_none());
    }

    #[test]
    fn what_is_no_key_is_said() {
        assert!(
            assertion("nonsense", None, "c", "a")
                .unwrap_err()
                .contains("PEM")
        );
    }
}
