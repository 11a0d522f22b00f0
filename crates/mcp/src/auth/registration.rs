//! The client's identity at an authorisation server: manually registered, a metadata document (its
//! address is the id), or dynamically registered (RFC 7591).

use super::discovery::{Discovered, ServerMetadata};
use super::error::AuthError;
use crate::limits::AUTH_BYTES;
use crate::net;
use crate::server::OAuthConfig;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A client of an authorisation server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    /// Its authentication at the token endpoint.
    pub(super) method: Method,
    /// True if it was registered dynamically, so that this can be repeated.
    #[serde(default)]
    pub(super) registered: bool,
    /// The registered callback.
    #[serde(default)]
    pub(super) redirect_uri: String,
}

/// The authentication of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Method {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

impl Method {
    fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// The authentication of a client with a secret: the first supported one.
    pub(super) fn with_secret(server: &ServerMetadata) -> Self {
        let Some(methods) = &server.token_endpoint_auth_methods_supported else {
            return Self::ClientSecretBasic;
        };
        let has = |method: Self| methods.iter().any(|known| known == method.word());
        if has(Self::ClientSecretBasic) {
            Self::ClientSecretBasic
        } else if has(Self::ClientSecretPost) {
            Self::ClientSecretPost
        } else if has(Self::None) {
            Self::None
        } else {
            Self::ClientSecretBasic
        }
    }
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

/// A client that needs no registration: a manually registered one, or the metadata document.
pub(super) fn known(
    config: &OAuthConfig,
    secret: Option<&str>,
    document: Option<&str>,
    server: &ServerMetadata,
    redirect_uri: &str,
) -> Option<Client> {
    let client = |id: &str, secret: Option<&str>, method| Client {
        id: id.to_owned(),
        secret: secret.map(str::to_owned),
        method,
        registered: false,
        redirect_uri: redirect_uri.to_owned(),
    };
    if let Some(id) = &config.client_id {
        let method = if config.client_key.is_some() {
            Method::PrivateKeyJwt
        } else if secret.is_some() {
            Method::with_secret(server)
        } else {
            Method::None
        };
        return Some(client(id, secret, method));
    }
    match document {
        Some(document) if server.client_id_metadata_document_supported => {
            Some(client(document, None, Method::None))
        }
        _ => None,
    }
}

/// Registers a client dynamically.
///
/// # Errors
/// If the server accepts no registrations, or refuses this one.
pub(super) async fn register(
    http: &reqwest::Client,
    found: &Discovered,
    redirect_uri: &str,
    scopes: &[String],
) -> Result<Client, AuthError> {
    let Some(endpoint) = &found.server.registration_endpoint else {
        return Err(AuthError::NoRegistrations(found.issuer.clone()));
    };
    let methods = found.server.token_endpoint_auth_methods_supported.as_ref();
    let method = match methods {
        // Most servers accept a public client, which has no secret to lose.
        None => Method::None,
        Some(methods) if methods.iter().any(|known| known == Method::None.word()) => Method::None,
        Some(_) => Method::with_secret(&found.server),
    };
    let mut request = json!({
        "client_name": "Lathe",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method.word(),
        "application_type": "native",
    });
    if !scopes.is_empty() {
        request["scope"] = scopes.join(" ").into();
    }
    let failed = |reason: String| AuthError::Registration {
        issuer: found.issuer.clone(),
        reason,
    };
    let response = http
        .post(endpoint)
        .json(&request)
        .send()
        .await
        .map_err(|error| failed(net::innermost(&error)))?;
    let status = response.status();
    let body = net::body(response, AUTH_BYTES)
        .await
        .map_err(|error| failed(error.to_string()))?;
    if !status.is_success() {
        return Err(failed(super::tokens::reason(status, &body)));
    }
    let registered: Registered = serde_json::from_slice(&body)
        .map_err(|error| failed(format!("its answer is not a registration ({error})")))?;
    let secret = registered.client_secret.filter(|secret| !secret.is_empty());
    let method = match (&secret, registered.token_endpoint_auth_method.as_deref()) {
        (None, _) => Method::None,
        (Some(_), Some("client_secret_basic")) => Method::ClientSecretBasic,
        (Some(_), Some("client_secret_post")) => Method::ClientSecretPost,
        (Some(_), Some("none")) => Method::None,
        (Some(_), _) => Method::with_secret(&found.server),
    };
    Ok(Client {
        id: registered.client_id,
        secret,
        method,
        registered: true,
        redirect_uri: redirect_uri.to_owned(),
    })
}
