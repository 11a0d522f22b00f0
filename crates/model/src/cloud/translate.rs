//! The Messages API as clouds take it: without `model`, with a version in the body.

use super::aws_sign::encoded;
use super::frames::FrameDecoder;
use crate::anthropic::events;
use crate::body::{Purpose, RequestBody};
use crate::classify_foreign;
use crate::error::ModelError;
use crate::provider::Transfer;
use crate::request::ModelRequest;
use crate::wire::decoding::{Decode, Unusable, broken};
use crate::wire::emit::Emitter;
use crate::wire::{Prepared, Translator};
use base64::Engine as _;
use bytes::Bytes;
use lathe_net::sse::SseEvent;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;

/// A cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cloud {
    Bedrock,
    Vertex { project: String, region: String },
}

/// The address of Vertex AI in a region.
pub(crate) fn vertex_address(region: &str) -> String {
    match region {
        "global" => "https://aiplatform.googleapis.com/v1".to_owned(),
        "us" | "eu" => format!("https://aiplatform.{region}.rep.googleapis.com/v1"),
        region => format!("https://{region}-aiplatform.googleapis.com/v1"),
    }
}

/// The translator for a cloud.
pub(crate) struct OnCloud {
    pub(crate) cloud: Cloud,
}

impl Translator for OnCloud {
    fn prepare(&self, request: &ModelRequest, transfer: Transfer) -> Result<Prepared, ModelError> {
        let mut request = request.clone();
        let model = std::mem::take(&mut request.model);
        let betas = crate::anthropic::needed_betas(&request);
        if !betas.is_empty() {
            request
                .extra
                .insert("anthropic_beta".to_owned(), json!(betas));
        }
        let streaming = transfer == Transfer::Streaming;
        let (path, version, purpose) = match &self.cloud {
            Cloud::Bedrock => {
                let method = if streaming {
                    "invoke-with-response-stream"
                } else {
                    "invoke"
                };
                let path = format!("model/{}/{method}", encoded(&model, false));
                (path, "bedrock-2023-05-31", Purpose::Whole)
            }
            Cloud::Vertex { project, region } => {
                let method = if streaming {
                    "streamRawPredict"
                } else {
                    "rawPredict"
                };
                let path = format!(
                    "projects/{project}/locations/{region}/publishers/anthropic/models/{model}:{method}"
                );
                let purpose = if streaming {
                    Purpose::Streaming
                } else {
                    Purpose::Whole
                };
                (path, "vertex-2023-10-16", purpose)
            }
        };
        request
            .extra
            .insert("anthropic_version".to_owned(), version.into());
        let body = RequestBody::messages_api(&request, purpose);
        let mut parts = body.parts().to_vec();
        // The model is in the address.
        if let Some(head) = parts.first_mut()
            && let Ok(text) = std::str::from_utf8(head)
        {
            *head = Bytes::from(text.replacen(r#""model":"","#, "", 1));
        }
        Ok(Prepared {
            path,
            query: Vec::new(),
            body: RequestBody::of_parts(parts),
            decoder: Box::new(CloudDecoder {
                frames: (self.cloud == Cloud::Bedrock && streaming).then(FrameDecoder::default),
                began: false,
            }),
        })
    }
}

/// The payload of a frame: an event in base64. Beside it there may be padding.
#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow, default)]
    bytes: Option<Cow<'a, str>>,
}

/// Reads events of the Messages API, in frames or not.
struct CloudDecoder {
    frames: Option<FrameDecoder>,
    /// Whether anything came.
    began: bool,
}

impl CloudDecoder {
    fn take(data: Bytes, out: &mut Emitter) -> Result<(), Unusable> {
        let event = SseEvent {
            name: Bytes::new(),
            data: Some(data),
            id: None,
            retry: None,
        };
        if let Some(piece) = events::read(event, None)? {
            out.pass(piece);
        }
        Ok(())
    }
}

impl Decode for CloudDecoder {
    fn event(&mut self, _name: &[u8], data: &[u8], out: &mut Emitter) -> Result<(), Unusable> {
        Self::take(Bytes::copy_from_slice(data), out)
    }

    fn whole(&mut self, body: &[u8], out: &mut Emitter) -> Result<(), Unusable> {
        if let Ok(value) = serde_json::from_slice::<Value>(body)
            && let Some(error) = value.get("error").filter(|error| error.is_object())
        {
            return Err(Unusable::Trouble(classify_foreign::stream_error(error)));
        }
        let message = events::message(body, None)?;
        for piece in events::from_message(message)? {
            out.pass(piece);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Emitter) -> Result<(), Unusable> {
        if out.is_ended() {
            Ok(())
        } else {
            Err(broken())
        }
    }

    fn accepts(&self) -> &'static str {
        if self.frames.is_some() {
            "application/vnd.amazon.eventstream"
        } else {
            "text/event-stream"
        }
    }

    fn frames(&mut self, bytes: &[u8], out: &mut Emitter) -> Option<Result<(), Unusable>> {
        // A frame begins with its length, whose first byte is small: a document or a page begins with something else.
        let is_first = !std::mem::replace(&mut self.began, true);
        if is_first && bytes.first().is_some_and(|byte| *byte > 1) {
            self.frames = None;
        }
        let frames = self.frames.as_mut()?;
        frames.push(bytes);
        loop {
            let frame = match frames.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => return Some(Ok(())),
                Err(error) => return Some(Err(Unusable::Malformed(error.to_string()))),
            };
            if frame.header(":message-type").as_deref() != Some("event") {
                let kind = frame
                    .header(":exception-type")
                    .or_else(|| frame.header(":error-code"))
                    .unwrap_or("internalServerException".into());
                let said: Value = serde_json::from_slice(&frame.payload).unwrap_or_default();
                let message = said["message"]
                    .as_str()
                    .map(Cow::from)
                    .or_else(|| frame.header(":error-message"));
                let error = json!({"type": kind, "message": message.unwrap_or(kind.clone())});
                return Some(Err(Unusable::Trouble(classify_foreign::stream_error(
                    &error,
                ))));
            }
            let payload: Payload<'_> = match serde_json::from_slice(&frame.payload) {
                Ok(payload) => payload,
                Err(error) => return Some(Err(error.into())),
            };
            let Some(bytes) = payload.bytes else {
                continue;
            };
            let decoded = base64::engine::general_purpose::STANDARD.decode(bytes.as_bytes());
            let Ok(decoded) = decoded else {
                let message = "an event is not base64".to_owned();
                return Some(Err(Unusable::Malformed(message)));
            };
            if let Err(error) = Self::take(Bytes::from(decoded), out) {
                return Some(Err(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::content::ContentBlock;
    use lathe_protocol::encoded::EncodedMessage;
    use lathe_protocol::message::Role;

    fn prepared(cloud: Cloud, model: &str, transfer: Transfer) -> (String, Value) {
        let mut request = ModelRequest::new(model, 100);
        request.betas = vec!["context-1m-2025-08-07".into()];
        let hello = [ContentBlock::text("hello")];
        request
            .messages
            .push(EncodedMessage::new(Role::User, &hello).unwrap());
        let prepared = OnCloud { cloud }.prepare(&request, transfer).ok().unwrap();
        let body = serde_json::from_slice(&prepared.body.parts().concat()).unwrap();
        (prepared.path, body)
    }

    #[test]
    fn the_model_is_in_the_address_and_version_and_betas_in_the_body() {
        let id = "us.anthropic.claude-opus-4-7-v1:0";
        let (path, body) = prepared(Cloud::Bedrock, id, Transfer::Streaming);
        assert_eq!(
            path,
            "model/us.anthropic.claude-opus-4-7-v1%3A0/invoke-with-response-stream"
        );
        assert_eq!(body["anthropic_version"], "bedrock-2023-05-31");
        assert_eq!(body["anthropic_beta"], json!(["context-1m-2025-08-07"]));
        assert_eq!((body.get("model"), body.get("stream")), (None, None));
        let arn = "arn:aws:bedrock:us-east-1:1:inference-profile/x";
        let (path, _) = prepared(Cloud::Bedrock, arn, Transfer::Whole);
        assert_eq!(
            path,
            "model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx/invoke"
        );
        let vertex = || Cloud::Vertex {
            project: "p".to_owned(),
            region: "europe-west1".to_owned(),
        };
        let (path, body) = prepared(vertex(), "claude-opus-4-7", Transfer::Streaming);
        assert_eq!(
            path,
            "projects/p/locations/europe-west1/publishers/anthropic/models/claude-opus-4-7:streamRawPredict"
        );
        assert_eq!(body["anthropic_version"], "vertex-2023-10-16");
        assert_eq!((body.get("model"), &body["stream"]), (None, &json!(true)));
        let (path, _) = prepared(vertex(), "m", Transfer::Whole);
        assert!(path.ends_with("/m:rawPredict"), "{path}");
    }

    #[test]
    fn vertex_has_an_address_for_a_region_for_a_part_of_the_world_and_for_all_of_it() {
        for (region, host) in [
            ("europe-west1", "europe-west1-aiplatform.googleapis.com"),
            ("us", "aiplatform.us.rep.googleapis.com"),
            ("eu", "aiplatform.eu.rep.googleapis.com"),
            ("global", "aiplatform.googleapis.com"),
        ] {
            assert_eq!(vertex_address(region), format!("https://{host}/v1"));
        }
    }

    #[test]
    fn an_exception_in_a_stream_is_the_error_that_it_names() {
        let said = |headers: &[(&str, &str)], payload: &[u8]| {
            let request = ModelRequest::new("m", 1);
            let translator = OnCloud {
                cloud: Cloud::Bedrock,
            };
            let prepared = translator.prepare(&request, Transfer::Streaming);
            let mut decoder = prepared.ok().unwrap().decoder;
            let bytes = super::super::frames::frame(headers, payload);
            match decoder.frames(&bytes, &mut Emitter::new("m")) {
                Some(Err(Unusable::Trouble(error))) => error,
                _ => panic!("no error"),
            }
        };
        let throttled = said(
            &[
                (":message-type", "exception"),
                (":exception-type", "throttlingException"),
            ],
            br#"{"message":"Too many tokens, please wait"}"#,
        );
        assert!(
            matches!(throttled, ModelError::RateLimited(_)),
            "{throttled:?}"
        );
        let long = said(
            &[
                (":message-type", "exception"),
                (":exception-type", "validationException"),
            ],
            br#"{"message":"Input is too long for requested model."}"#,
        );
        assert!(matches!(long, ModelError::PromptTooLong { .. }), "{long:?}");
        let broken = said(
            &[
                (":message-type", "error"),
                (":error-code", "internalServerException"),
                (":error-message", "oh"),
            ],
            b"",
        );
        assert!(matches!(broken, ModelError::Server(_)), "{broken:?}");
    }
}
