//! Discovery of a server's authorisation server.
//!
//! The server's challenge may name its metadata (RFC 9728); otherwise the well-known addresses are
//! tried, by path and then at the root. The metadata names an authorisation server, whose own
//! metadata is at one of the well-known addresses of RFC 8414 and OpenID Connect, tried in the
//! specified order. Older servers have neither: then the server's own origin is tried, and finally
//! the default endpoints of the specification of 2025-03-26.

use super::address::Policy;
use super::challenge::Challenge;
use super::error::AuthError;
use crate::limits::AUTH_BYTES;
use crate::net;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

/// The result of discovery.
#[derive(Debug, Clone)]
pub(super) struct Discovered {
    pub(super) issuer: String,
    /// The audience of the tokens (the `resource` parameter).
    pub(super) resource: String,
    /// The scopes in the server's own metadata.
    pub(super) resource_scopes: Vec<String>,
    pub(super) server: ServerMetadata,
}

/// The metadata of an authorisation server (RFC 8414).
#[derive(Debug, Clone, Deserialize, Default)]
pub(super) struct ServerMetadata {
    #[serde(default)]
    issuer: Option<String>,
    #[serde(default)]
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: String,
    #[serde(default)]
    pub(super) registration_endpoint: Option<String>,
    #[serde(default)]
    pub(super) revocation_endpoint: Option<String>,
    #[serde(default)]
    pub(super) scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

impl ServerMetadata {
    pub(super) fn issuer(&self) -> Option<&str> {
        self.issuer.as_deref()
    }
}

/// The metadata of an MCP server (RFC 9728).
#[derive(Debug, Deserialize)]
struct ResourceMetadata {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// Fetches metadata within the policy.
pub(super) struct Discovery<'a> {
    pub(super) client: &'a reqwest::Client,
    pub(super) policy: Policy,
    pub(super) server: &'a Url,
    /// The protocol version in discovery requests.
    pub(super) version: &'a str,
}

impl Discovery<'_> {
    /// Finds the authorisation server.
    ///
    /// # Errors
    /// If metadata is missing or contradictory.
    pub(super) async fn run(
        &self,
        challenge: &Challenge,
        configured: Option<&str>,
    ) -> Result<Discovered, AuthError> {
        let resource = self.resource(challenge).await?;
        let named = resource
            .as_ref()
            .and_then(|resource| resource.authorization_servers.first().cloned());
        let (audience, scopes) = match resource {
            Some(resource) => (resource.resource, resource.scopes_supported),
            None => (canonical(self.server), Vec::new()),
        };
        let (issuer, server) = if let Some(address) = configured {
            let address = parse(address, "authServerMetadataUrl")?;
            let server: ServerMetadata = self
                .fetch(&address)
                .await?
                .ok_or_else(|| AuthError::NoMetadata(address.clone()))?;
            let issuer = server.issuer.clone().unwrap_or_else(|| origin(&address));
            (issuer, server)
        } else if let Some(named) = named {
            let address = parse(&named, "authorization_servers")?;
            self.policy.check(&address)?;
            let server = self
                .authorisation_server(&address)
                .await?
                .ok_or_else(|| AuthError::Undescribed(named.clone()))?;
            check_issuer(&server, &named)?;
            (named, server)
        } else {
            self.old_style().await?
        };
        for endpoint in [
            Some(&server.token_endpoint),
            server.authorization_endpoint.as_ref(),
            server.registration_endpoint.as_ref(),
            server.revocation_endpoint.as_ref(),
        ]
        .into_iter()
        .flatten()
        {
            self.policy.check(&parse(endpoint, "an endpoint")?)?;
        }
        Ok(Discovered {
            issuer,
            resource: audience,
            resource_scopes: scopes,
            server,
        })
    }

    /// The server's own metadata: from the challenge, by path, or at the root.
    async fn resource(&self, challenge: &Challenge) -> Result<Option<ResourceMetadata>, AuthError> {
        let mut candidates = Vec::new();
        if let Some(named) = &challenge.resource_metadata {
            candidates.push(self.server.join(named).map_err(AuthError::Challenge)?);
        }
        for path in [self.server.path(), ""] {
            let address = well_known(self.server, "oauth-protected-resource", path);
            if !candidates.contains(&address) {
                candidates.push(address);
            }
        }
        for address in candidates {
            if address.origin() != self.server.origin() {
                self.policy.check(&address)?;
            }
            if let Some(found) = self.fetch::<ResourceMetadata>(&address).await? {
                if !covers(&found.resource, self.server) {
                    return Err(AuthError::OtherResource {
                        claimed: found.resource,
                        address: canonical(self.server),
                    });
                }
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The metadata of an authorisation server.
    async fn authorisation_server(
        &self,
        issuer: &Url,
    ) -> Result<Option<ServerMetadata>, AuthError> {
        let path = issuer.path().trim_end_matches('/');
        let mut candidates = vec![
            well_known(issuer, "oauth-authorization-server", path),
            well_known(issuer, "openid-configuration", path),
        ];
        if !path.is_empty() {
            let mut appended = issuer.clone();
            appended.set_query(None);
            appended.set_path(&format!("{path}/.well-known/openid-configuration"));
            candidates.push(appended);
        }
        for address in candidates {
            if let Some(found) = self.fetch(&address).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Without metadata of the server, its origin is the authorisation server, with or without
    /// metadata.
    async fn old_style(&self) -> Result<(String, ServerMetadata), AuthError> {
        let mut root = self.server.clone();
        root.set_path("");
        root.set_query(None);
        root.set_fragment(None);
        let issuer = origin(&root);
        if let Some(server) = self.authorisation_server(&root).await? {
            check_issuer(&server, &issuer)?;
            return Ok((issuer, server));
        }
        let endpoint = |path: &str| format!("{issuer}{path}");
        let server = ServerMetadata {
            authorization_endpoint: Some(endpoint("/authorize")),
            token_endpoint: endpoint("/token"),
            registration_endpoint: Some(endpoint("/register")),
            ..ServerMetadata::default()
        };
        Ok((issuer, server))
    }

    /// The metadata at an address, if any.
    async fn fetch<T: DeserializeOwned>(&self, address: &Url) -> Result<Option<T>, AuthError> {
        let response = self
            .client
            .get(address.clone())
            .header("accept", "application/json")
            .header("mcp-protocol-version", self.version)
            .send()
            .await
            .map_err(|error| AuthError::Unreachable {
                host: address.origin().ascii_serialization(),
                reason: net::innermost(&error),
            })?;
        if !response.status().is_success() {
            return Ok(None);
        }
        let body = net::body(response, AUTH_BYTES)
            .await
            .map_err(|error| AuthError::Http(error.to_string()))?;
        // An HTML page at a well-known address is not metadata.
        Ok(serde_json::from_slice(&body).ok())
    }
}

fn parse(address: &str, field: &'static str) -> Result<Url, AuthError> {
    Url::parse(address).map_err(|source| AuthError::Address {
        field,
        address: address.to_owned(),
        source,
    })
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn well_known(base: &Url, name: &str, path: &str) -> Url {
    let path = path.trim_end_matches('/');
    let mut address = base.clone();
    address.set_query(None);
    address.set_fragment(None);
    address.set_path(&format!("/.well-known/{name}{path}"));
    address
}

/// The server's address as the audience of a token.
fn canonical(server: &Url) -> String {
    let mut address = server.clone();
    address.set_fragment(None);
    let text = address.to_string();
    match (address.path(), address.query()) {
        ("/", None) => text.trim_end_matches('/').to_owned(),
        _ => text,
    }
}

/// True if metadata is about this server: the same origin, and its path or a parent path.
fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else {
        return false;
    };
    let above = resource.path().trim_end_matches('/');
    let path = server.path().trim_end_matches('/');
    resource.origin() == server.origin()
        && path
            .strip_prefix(above)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Metadata that names another issuer could be anybody's.
fn check_issuer(server: &ServerMetadata, expected: &str) -> Result<(), AuthError> {
    match &server.issuer {
        Some(issuer) if issuer.trim_end_matches('/') != expected.trim_end_matches('/') => {
            Err(AuthError::OtherIssuer {
                expected: expected.to_owned(),
                claimed: issuer.clone(),
            })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_about_its_own_server_and_what_lies_below() {
        let server = Url::parse("https://a.example/x/mcp").unwrap();
        for (resource, expected) in [
            ("https://a.example/x/mcp", true),
            ("https://a.example/x/mcp/", true),
            ("https://a.example/x", true),
            ("https://a.example", true),
            ("https://a.example/x/m", false),
            ("https://a.example/x/mcp/y", false),
            ("https://b.example/x/mcp", false),
            ("http://a.example/x/mcp", false),
            ("nonsense", false),
        ] {
            assert_eq!(covers(resource, &server), expected, "{resource}");
        }
    }

    #[test]
    fn well_known_addresses_come_before_the_path() {
        let issuer = Url::parse("https://a.example/tenant1?x").unwrap();
        assert_eq!(
            well_known(&issuer, "openid-configuration", issuer.path()).as_str(),
            "https://a.example/.well-known/openid-configuration/tenant1"
        );
    }
}
