//! Credentials that commands use without seeing them.
//!
//! Inside, a credential is a stand-in: a text of the same length that means nothing. On the way to a host that the
//! credential is for, the stand-in in a header becomes the real value; on the way back, the real value becomes the
//! stand-in again.

use crate::authority::Authority;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lathe_sandbox::{Host, HostRule};
use ring::rand::SecureRandom;
use std::fmt;
use std::sync::Arc;

/// The fewest characters of a stand-in that are random.
const FEWEST_RANDOM: usize = 16;
/// How much of a value is kept at its beginning, because programs look at it (`ghp_`, `sk-`, `glpat-`).
const LONGEST_PREFIX: usize = 12;

/// A credential.
#[derive(Clone)]
pub struct Credential {
    stand_in: String,
    value: String,
    hosts: Vec<HostRule>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credential")
            .field("stand_in", &self.stand_in)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// Why a value can't be a credential that is masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unmaskable {
    /// A stand-in of this length could be guessed, or be in a text by chance.
    #[error("it has fewer than {FEWEST_RANDOM} characters")]
    Short,
    /// It can't stand in a header.
    #[error("it has blanks, line ends or other characters that no token has")]
    NoToken,
    /// The system has no random numbers.
    #[error("there are no random numbers")]
    NoRandom,
}

impl Credential {
    /// Makes a stand-in for a value, which is for these hosts.
    ///
    /// # Errors
    /// If the value is none that can be masked.
    pub fn new(value: &str, hosts: Vec<HostRule>) -> Result<Self, Unmaskable> {
        if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Unmaskable::NoToken);
        }
        let kept = value
            .get(..LONGEST_PREFIX.min(value.len()))
            .and_then(|start| start.rfind(['_', '-']))
            .map_or(0, |at| at + 1);
        let kept = if value.len() - kept < FEWEST_RANDOM {
            0
        } else {
            kept
        };
        if value.len() - kept < FEWEST_RANDOM {
            return Err(Unmaskable::Short);
        }
        let mut stand_in = value.get(..kept).unwrap_or_default().to_owned();
        stand_in.push_str(&random_text(value.len() - kept)?);
        Ok(Self {
            stand_in,
            value: value.to_owned(),
            hosts,
        })
    }

    /// The placeholder.
    #[must_use]
    pub fn stand_in(&self) -> &str {
        &self.stand_in
    }

    fn is_for(&self, host: &Host, port: u16) -> bool {
        self.hosts.iter().any(|rule| rule.matches(host, port))
    }
}

/// Random letters and digits.
fn random_text(length: usize) -> Result<String, Unmaskable> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789Zz";
    let mut bytes = vec![0; length];
    ring::rand::SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Unmaskable::NoRandom)?;
    let letters = bytes.iter().map(|&byte| LETTERS[usize::from(byte & 63)]);
    Ok(letters.map(char::from).collect())
}

/// The credentials of a proxy, and how it stands between a command and the hosts that they are for.
pub struct Masking {
    pub(crate) credentials: Vec<Credential>,
    pub(crate) authority: Authority,
    /// How hosts are reached: their certificates are checked as everywhere.
    pub(crate) tls: Arc<rustls::ClientConfig>,
}

impl Masking {
    /// The credentials for a host. If there are some, its connections are looked into.
    pub(crate) fn masks(&self, host: &Host, port: u16) -> Option<Masks<'_>> {
        let credentials: Vec<&Credential> = self
            .credentials
            .iter()
            .filter(|credential| credential.is_for(host, port))
            .collect();
        (!credentials.is_empty()).then_some(Masks { credentials })
    }
}

/// The credentials for one host.
pub(crate) struct Masks<'a> {
    credentials: Vec<&'a Credential>,
}

/// Two texts of the same length: what is replaced, and by what.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

impl Masks<'_> {
    /// The values to mask in responses.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        let credentials = self.credentials.iter();
        credentials
            .map(|it| {
                (
                    it.value.clone().into_bytes(),
                    it.stand_in.clone().into_bytes(),
                )
            })
            .collect()
    }

    /// A header's value with the real credentials; `None` if it has no stand-in. With it comes what must not come
    /// back beside the credentials themselves.
    pub(crate) fn reveal(&self, value: &str) -> Option<(String, Option<Pair>)> {
        if let Some(revealed) = self.replaced(value) {
            return Some((revealed, None));
        }
        // A password in `Authorization: Basic` is encoded.
        let (scheme, encoded) = value.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let plain = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
        let revealed = STANDARD.encode(self.replaced(&plain)?);
        let pair = (
            revealed.clone().into_bytes(),
            encoded.trim().as_bytes().to_vec(),
        );
        Some((format!("{scheme} {revealed}"), Some(pair)))
    }

    fn replaced(&self, text: &str) -> Option<String> {
        let mut revealed = text.to_owned();
        for credential in &self.credentials {
            if revealed.contains(&credential.stand_in) {
                revealed = revealed.replace(&credential.stand_in, &credential.value);
            }
        }
        (revealed != text).then_some(revealed)
    }
}

/// Replaces texts in a stream. What could be the beginning of one is held back until it is clear.
#[derive(Debug, Default)]
pub(crate) struct Replacer {
    held: Vec<u8>,
}

impl Replacer {
    /// The part of the input that can be forwarded.
    pub(crate) fn push(&mut self, chunk: &[u8], pairs: &[Pair]) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(chunk);
        for (from, to) in pairs.iter().filter(|(from, to)| from.len() == to.len()) {
            let found: Vec<usize> = memchr::memmem::find_iter(&bytes, from).collect();
            for at in found {
                if let Some(place) = bytes.get_mut(at..at + from.len()) {
                    place.copy_from_slice(to);
                }
            }
        }
        let held = pairs
            .iter()
            .map(|(from, _)| overlap(&bytes, from))
            .max()
            .unwrap_or(0);
        self.held = bytes.split_off(bytes.len() - held);
        bytes
    }

    /// The rest at the end.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// How many bytes at the end of a text are the beginning of another.
fn overlap(bytes: &[u8], wanted: &[u8]) -> usize {
    let most = bytes.len().min(wanted.len().saturating_sub(1));
    (1..=most)
        .rev()
        .find(|&count| wanted.get(..count) == bytes.get(bytes.len() - count..))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(value: &str) -> Credential {
        Credential::new(value, vec![HostRule::parse("api.example").unwrap()]).unwrap()
    }

    #[test]
    fn a_stand_in_looks_like_the_value_and_says_nothing_about_it() {
        let value = "ghp_0123456789abcdefghij";
        let (first, second) = (credential(value), credential(value));
        assert!(first.stand_in.starts_with("ghp_"));
        assert_eq!(first.stand_in.len(), value.len());
        assert_ne!(first.stand_in, value);
        assert_ne!(first.stand_in, second.stand_in);
        assert!(!format!("{first:?}").contains(value));
        assert_eq!(
            Credential::new("short", vec![]).unwrap_err(),
            Unmaskable::Short
        );
        for value in [
            "two words of some length",
            "line\nline\nline\nline",
            "ünïcödé-ünïcödé-",
        ] {
            assert_eq!(
                Credential::new(value, vec![]).unwrap_err(),
                Unmaskable::NoToken
            );
        }
    }

    #[test]
    fn a_header_gets_the_value_also_where_it_is_encoded() {
        let token = credential("0123456789abcdefghij");
        let masks = Masks {
            credentials: vec![&token],
        };
        let bearer = format!("Bearer {}", token.stand_in);
        assert_eq!(
            masks.reveal(&bearer).unwrap().0,
            "Bearer 0123456789abcdefghij"
        );
        let basic = format!(
            "Basic {}",
            STANDARD.encode(format!("me:{}", token.stand_in))
        );
        let (revealed, pair) = masks.reveal(&basic).unwrap();
        let wanted = STANDARD.encode("me:0123456789abcdefghij");
        assert_eq!(revealed, format!("Basic {wanted}"));
        assert_eq!(pair.unwrap().0, wanted.as_bytes());
        for other in ["Bearer something", "Basic !!!", "Basic eDp5", "plain"] {
            assert!(masks.reveal(other).is_none());
        }
    }

    #[test]
    fn a_value_is_replaced_wherever_a_stream_is_cut() {
        let pairs = vec![(b"secret".to_vec(), b"masked".to_vec())];
        let text = b"a secret, secsecret and secre";
        for size in 1..text.len() {
            let mut replacer = Replacer::default();
            let mut out = Vec::new();
            for chunk in text.chunks(size) {
                out.extend(replacer.push(chunk, &pairs));
            }
            out.extend(replacer.finish());
            assert_eq!(out, b"a masked, secmasked and secre", "{size}");
        }
        // What can't be the beginning of a value is not held back.
        assert_eq!(Replacer::default().push(b"done\n", &pairs), b"done\n");
    }
}
