//! Requests, refreshes and revokes tokens.
//!
//! Token endpoints refuse in different ways: with a status, with 200 and an error in the body, or
//! with their own names for an invalid refresh token. [`Denied`] classifies refusals by what can be
//! done about them.

use super::key;
use super::registration::{Client, Method};
use crate::limits::AUTH_BYTES;
use crate::net;
use crate::text;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tokens as stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tokens {
    pub(super) access: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh: Option<String>,
    /// The expiry of the access token, in Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
    /// The granted scopes.
    #[serde(default)]
    pub(super) scopes: Vec<String>,
}

impl Tokens {
    /// True if the access token expires within this many seconds.
    pub(super) fn ends_within(&self, seconds: u64) -> bool {
        self.expires_at.is_some_and(|at| at <= now() + seconds)
    }
}

/// Why a token was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Denied {
    /// The server doesn't know the client, or no longer.
    Client(String),
    /// The grant is invalid: the user has to sign in again.
    Grant(String),
    /// Another reason, possibly temporary.
    Other(String),
}

impl Denied {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Client(text) | Self::Grant(text) | Self::Other(text) => text,
        }
    }
}

/// A token endpoint and the client.
pub(super) struct Endpoint<'a> {
    pub(super) http: &'a reqwest::Client,
    pub(super) address: &'a str,
    pub(super) issuer: &'a str,
    pub(super) client: &'a Client,
    /// The key and the algorithm of a client with signed assertions.
    pub(super) key: Option<(&'a str, Option<&'a str>)>,
}

impl Endpoint<'_> {
    /// Requests tokens. `asked` are the granted scopes if the answer names none.
    pub(super) async fn ask(
        &self,
        mut form: Vec<(&str, String)>,
        asked: &[String],
    ) -> Result<Tokens, Denied> {
        let basic = self.identify(&mut form)?;
        let answer = self.post(self.address, &form, basic).await?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let access = text("access_token")
            .filter(|token| !token.is_empty())
            .ok_or_else(|| Denied::Other("the answer has no access token".to_owned()))?;
        if let Some(kind) = text("token_type")
            && !kind.eq_ignore_ascii_case("bearer")
        {
            return Err(Denied::Other(format!(
                "tokens of type {} are not supported",
                text::line(&kind, 50)
            )));
        }
        let life = match answer.get("expires_in") {
            Some(Value::String(digits)) => digits.parse().ok(),
            Some(number) => number.as_u64(),
            None => None,
        };
        let scopes = text("scope").map_or_else(
            || asked.to_vec(),
            |scope| scope.split_whitespace().map(str::to_owned).collect(),
        );
        Ok(Tokens {
            access,
            refresh: text("refresh_token").filter(|token| !token.is_empty()),
            expires_at: life.map(|life| now() + life),
            scopes,
        })
    }

    /// Revokes a token.
    pub(super) async fn revoke(
        &self,
        address: &str,
        token: &str,
        kind: &str,
    ) -> Result<(), Denied> {
        let mut form = vec![
            ("token", token.to_owned()),
            ("token_type_hint", kind.to_owned()),
        ];
        let basic = self.identify(&mut form)?;
        self.post(address, &form, basic).await.map(|_| ())
    }

    /// Identifies the client in the form or by a header.
    fn identify(&self, form: &mut Vec<(&str, String)>) -> Result<Option<String>, Denied> {
        let id = &self.client.id;
        let secret = self.client.secret.clone().unwrap_or_default();
        match self.client.method {
            Method::None => form.push(("client_id", id.clone())),
            Method::ClientSecretPost => {
                form.push(("client_id", id.clone()));
                form.push(("client_secret", secret));
            }
            Method::ClientSecretBasic => {
                let encode = |part: &str| -> String {
                    url::form_urlencoded::byte_serialize(part.as_bytes()).collect()
                };
                let pair = format!("{}:{}", encode(id), encode(&secret));
                return Ok(Some(format!("Basic {}", STANDARD.encode(pair))));
            }
            Method::PrivateKeyJwt => {
                let (pem, algorithm) = self
                    .key
                    .ok_or_else(|| Denied::Client("the client's key is missing".to_owned()))?;
                let signed = key::assertion(pem, algorithm, id, self.issuer)
                    .map_err(|error| Denied::Client(error.to_string()))?;
                form.push(("client_assertion", signed));
                form.push((
                    "client_assertion_type",
                    "urn:ietf:params:oauth:client-assertion-type:jwt-bearer".to_owned(),
                ));
            }
        }
        Ok(None)
    }

    async fn post(
        &self,
        address: &str,
        form: &[(&str, String)],
        basic: Option<String>,
    ) -> Result<Value, Denied> {
        let mut request = self
            .http
            .post(address)
            .header("accept", "application/json")
            .form(form);
        if let Some(basic) = basic {
            request = request.header("authorization", basic);
        }
        let other = |reason: String| Denied::Other(reason);
        let response = request
            .send()
            .await
            .map_err(|error| other(net::innermost(&error)))?;
        let status = response.status();
        let body = net::body(response, AUTH_BYTES)
            .await
            .map_err(|error| other(error.to_string()))?;
        judge(status, &body)
    }
}

/// Classifies the answer of a token endpoint.
fn judge(status: StatusCode, body: &[u8]) -> Result<Value, Denied> {
    let answer: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let error = answer.get("error").and_then(|error| match error {
        Value::String(code) => Some(code.as_str()),
        Value::Object(inner) => inner.get("code").or_else(|| inner.get("type"))?.as_str(),
        _ => None,
    });
    let failed = !status.is_success() || answer.get("ok") == Some(&Value::Bool(false));
    match error {
        Some(code) => Err(kind(code)(reason(status, body))),
        None if failed && status == StatusCode::UNAUTHORIZED => {
            Err(Denied::Client(reason(status, body)))
        }
        None if failed => Err(Denied::Other(reason(status, body))),
        None => Ok(answer),
    }
}

fn kind(code: &str) -> fn(String) -> Denied {
    match code {
        "invalid_client" | "unauthorized_client" | "client_not_found" | "invalid_client_id" => {
            Denied::Client
        }
        "invalid_grant"
        | "invalid_refresh_token"
        | "bad_refresh_token"
        | "expired_token"
        | "token_expired"
        | "token_revoked"
        | "invalid_token"
        | "refresh_token_expired"
        | "refresh_token_not_found"
        | "consent_required"
        | "interaction_required"
        | "login_required" => Denied::Grant,
        _ => Denied::Other,
    }
}

/// The server's reason for a refusal, without secrets.
pub(super) fn reason(status: StatusCode, body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let word = |name: &str| {
        answer
            .get(name)
            .and_then(Value::as_str)
            .map(|text| text::line(text, 200))
    };
    match (word("error"), word("error_description")) {
        (Some(error), Some(description)) => format!("{error}: {description}"),
        (Some(error), None) => error,
        _ => format!("HTTP {status}"),
    }
}

pub(super) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_classified_by_what_to_do() {
        let judged =
            |status: u16, body: &str| judge(StatusCode::from_u16(status).unwrap(), body.as_bytes());
        assert!(judged(200, r#"{"access_token":"t"}"#).is_ok());
        for (status, body) in [
            (400, r#"{"error":"invalid_grant"}"#),
            (
                200,
                r#"{"error":"invalid_grant","error_description":"gone"}"#,
            ),
            (200, r#"{"ok":false,"error":"invalid_refresh_token"}"#),
            (401, r#"{"error":"token_revoked"}"#),
            (400, r#"{"error":{"code":"expired_token"}}"#),
        ] {
            assert!(
                matches!(judged(status, body), Err(Denied::Grant(_))),
                "{body}"
            );
        }
        assert!(matches!(
            judged(401, r#"{"error":"invalid_client"}"#),
            Err(Denied::Client(_))
        ));
        assert!(matches!(judged(401, "no"), Err(Denied::Client(_))));
        assert_eq!(
            judged(503, "<html>"),
            Err(Denied::Other("HTTP 503 Service Unavailable".to_owned()))
        );
        assert_eq!(
            judged(400, r#"{"error":"x","error_description":"y\u001b[31m"}"#),
            Err(Denied::Other("x: y".to_owned()))
        );
    }
}
