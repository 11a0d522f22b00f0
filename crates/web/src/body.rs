//! The bytes of an answer: read and unpacked, up to limits.

use crate::error::FetchError;
use crate::fetch::Limits;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use reqwest::Response;
use reqwest::header::CONTENT_ENCODING;
use std::io::Read;

/// How often an answer may be packed.
const MOST_LAYERS: usize = 2;

/// A way of packing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Gzip,
    Deflate,
}

/// Reads the body as it was sent.
pub(crate) async fn read(response: &mut Response, limits: &Limits) -> Result<Vec<u8>, FetchError> {
    let too_large = || FetchError::TooLarge { limit: limits.wire };
    let announced = response.content_length().unwrap_or_default();
    if usize::try_from(announced).is_ok_and(|announced| announced > limits.wire) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    loop {
        let chunk = response
            .chunk()
            .await
            .map_err(|error| FetchError::Unreachable {
                host: response.url().host_str().unwrap_or_default().to_owned(),
                reason: lathe_net::innermost(&error),
            })?;
        let Some(chunk) = chunk else {
            return Ok(bytes);
        };
        if bytes.len() + chunk.len() > limits.wire {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
}

/// How a response is packed, outermost last.
fn layers(response: &Response) -> Result<Vec<Packing>, FetchError> {
    let mut layers = Vec::new();
    for value in response.headers().get_all(CONTENT_ENCODING) {
        let value = String::from_utf8_lossy(value.as_bytes());
        for name in value.split(',').map(str::trim) {
            match name.to_ascii_lowercase().as_str() {
                "" | "identity" => {}
                "gzip" | "x-gzip" => layers.push(Packing::Gzip),
                "deflate" => layers.push(Packing::Deflate),
                _ => return Err(FetchError::Packed(name.chars().take(40).collect())),
            }
        }
    }
    if layers.len() > MOST_LAYERS {
        return Err(FetchError::Packed(format!("{} layers", layers.len())));
    }
    Ok(layers)
}

/// Unpacks a body. The work is done on a thread of its own.
pub(crate) async fn unpack(
    response: &Response,
    bytes: Vec<u8>,
    limits: &Limits,
) -> Result<Vec<u8>, FetchError> {
    let layers = layers(response)?;
    if layers.is_empty() || bytes.is_empty() {
        return Ok(bytes);
    }
    let limit = limits.unpacked;
    let work = lathe_spawn::blocking(move || {
        layers
            .iter()
            .rev()
            .try_fold(bytes, |bytes, packing| unpack_one(&bytes, *packing, limit))
    });
    work.await
        .unwrap_or_else(|error| Err(FetchError::Damaged(error.to_string())))
}

fn unpack_one(bytes: &[u8], packing: Packing, limit: usize) -> Result<Vec<u8>, FetchError> {
    match packing {
        Packing::Gzip => bounded(MultiGzDecoder::new(bytes), limit),
        // The name means zlib, and some servers send the bare format.
        Packing::Deflate => match bounded(ZlibDecoder::new(bytes), limit) {
            Err(FetchError::Damaged(_)) => bounded(DeflateDecoder::new(bytes), limit),
            other => other,
        },
    }
}

fn bounded(decoder: impl Read, limit: usize) -> Result<Vec<u8>, FetchError> {
    let mut unpacked = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    decoder
        .take(most)
        .read_to_end(&mut unpacked)
        .map_err(|error| FetchError::Damaged(error.to_string()))?;
    if unpacked.len() > limit {
        return Err(FetchError::Bomb { limit });
    }
    Ok(unpacked)
}
