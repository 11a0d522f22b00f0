//! Errors as `application/problem+json`.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::convert::Infallible;

/// The body of a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A body of known bytes.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

/// An error for a client (RFC 9457).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Problem {
    /// The status code.
    pub status: u16,
    /// The kind of error.
    pub title: String,
    /// The reason: what happened, to what, and what to do.
    pub detail: String,
    /// Who answered a question first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The answer that won.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<Box<Value>>,
}

impl Problem {
    /// An error.
    #[must_use]
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status: status.as_u16(),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            detail: detail.into(),
            by: None,
            reply: None,
        }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no {what}"))
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn failed(error: &dyn std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(full(serde_json::to_vec(&self).unwrap_or_default()));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if self.status == 401 {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
