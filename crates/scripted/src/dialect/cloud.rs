//! Claude on clouds: the Messages API without `model`, with a version in the body; on Bedrock in frames.

use super::Read;
use base64::Engine as _;
use serde_json::{Value, json};

/// Reads a request.
pub(super) fn read(path: &str, mut body: Value, version: &str) -> Read {
    let mut problems = Vec::new();
    if body["anthropic_version"] != version {
        problems.push(format!("anthropic_version: must be {version}"));
    }
    if body.get("model").is_some() {
        problems.push("model: extra inputs are not permitted".to_owned());
    }
    let bedrock = version.starts_with("bedrock");
    if bedrock && body.get("stream").is_some() {
        problems.push("stream: extra inputs are not permitted".to_owned());
    }
    let (model, stream) = if bedrock {
        let rest = path.split("/model/").nth(1).unwrap_or_default();
        let (id, method) = rest.rsplit_once('/').unwrap_or((rest, ""));
        (decoded(id), method == "invoke-with-response-stream")
    } else {
        let last = path.rsplit('/').next().unwrap_or_default();
        let (id, method) = last.rsplit_once(':').unwrap_or((last, ""));
        let stream = method == "streamRawPredict";
        if stream && body["stream"] != true {
            problems.push("stream: must be true".to_owned());
        }
        (decoded(id), stream)
    };
    if let Some(fields) = body.as_object_mut() {
        fields.shift_remove("anthropic_version");
        fields.shift_remove("anthropic_beta");
        fields.insert("model".into(), json!(model));
        fields.insert("stream".into(), json!(stream));
    }
    Read {
        body,
        problems,
        units: Vec::new(),
    }
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A frame with an event of the Messages API.
pub(crate) fn frame(event: &Value) -> Vec<u8> {
    if event["type"] == "error" {
        let kind = match event["error"]["type"].as_str() {
            Some("overloaded_error") => "serviceUnavailableException",
            Some("rate_limit_error") => "throttlingException",
            Some("invalid_request_error") => "validationException",
            _ => "internalServerException",
        };
        let payload = json!({"message": event["error"]["message"]}).to_string();
        return bytes_of(
            &[(":message-type", "exception"), (":exception-type", kind)],
            payload.as_bytes(),
        );
    }
    let encoded = base64::engine::general_purpose::STANDARD.encode(event.to_string());
    let payload = json!({"bytes": encoded}).to_string();
    let headers = [
        (":event-type", "chunk"),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ];
    bytes_of(&headers, payload.as_bytes())
}

fn bytes_of(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, value) in headers {
        encoded.push(u8::try_from(name.len()).unwrap_or_default());
        encoded.extend_from_slice(name.as_bytes());
        encoded.push(7);
        encoded.extend_from_slice(&u16::try_from(value.len()).unwrap_or_default().to_be_bytes());
        encoded.extend_from_slice(value.as_bytes());
    }
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or_default().to_be_bytes();
    let mut bytes = length(12 + encoded.len() + payload.len() + 4).to_vec();
    bytes.extend_from_slice(&length(encoded.len()));
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend_from_slice(&encoded);
    bytes.extend_from_slice(payload);
    let checksum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&checksum.to_be_bytes());
    bytes
}
