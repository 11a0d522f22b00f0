//! The authorisation of one server: its tokens, refreshing and signing in.
//!
//! Everything that gets or changes a token holds `flight`, so that ten refused calls cause one
//! refresh and one browser page. The store's lock does the same across processes.

use super::address::{self, Policy};
use super::browser::Browser;
use super::callback::Callback;
use super::challenge::Challenge;
use super::discovery::{Discovered, Discovery};
use super::error::AuthError;
use super::registration::{self, Client, Method};
use super::store::{CredentialStore, Credentials, StoredSecret, config_hash};
use super::tokens::{Denied, Endpoint, Tokens};
use crate::error::McpError;
use crate::server::OAuthConfig;
use crate::status::Change;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::BoxFuture;
use lathe_settings::{Environment, Variable};
use parking_lot::Mutex;
use rmcp::model::ProtocolVersion;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use url::Url;

/// The time limit for the user at the browser.
const AGREEMENT: Duration = Duration::from_secs(5 * 60);
/// A token that expires within this many seconds is refreshed before use.
const MARGIN: u64 = 30;

/// Provides tokens for requests. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Access(pub(crate) Option<Arc<Authoriser>>);

impl Access {
    pub(crate) async fn bearer(&self) -> Option<String> {
        self.0.as_ref()?.bearer().await
    }

    /// Returns a new token after the server refused one, if that needs no person.
    pub(crate) async fn refused(&self, token: &str) -> Option<String> {
        self.0.as_ref()?.refused(token).await
    }
}

pub(crate) struct Authoriser {
    server: String,
    url: Url,
    config: OAuthConfig,
    hash: String,
    environment: Environment,
    store: CredentialStore,
    browser: Option<Arc<dyn Browser>>,
    changes: broadcast::Sender<Change>,
    current: Mutex<Option<Credentials>>,
    loaded: tokio::sync::OnceCell<()>,
    flight: tokio::sync::Mutex<()>,
    http: tokio::sync::OnceCell<(Policy, reqwest::Client)>,
}

impl Authoriser {
    pub(crate) fn new(
        server: &str,
        url: Url,
        config: OAuthConfig,
        environment: Environment,
        store: CredentialStore,
        browser: Option<Arc<dyn Browser>>,
        changes: broadcast::Sender<Change>,
    ) -> Self {
        Self {
            server: server.to_owned(),
            url,
            hash: config_hash(&config),
            config,
            environment,
            store,
            browser,
            changes,
            current: Mutex::new(None),
            loaded: tokio::sync::OnceCell::new(),
            flight: tokio::sync::Mutex::new(()),
            http: tokio::sync::OnceCell::new(),
        }
    }

    fn failed(&self, reason: impl std::fmt::Display) -> McpError {
        McpError::Auth(format!("signing in to {} failed: {reason}", self.server))
    }

    async fn http(&self) -> Result<&(Policy, reqwest::Client), McpError> {
        self.http
            .get_or_try_init(|| async {
                let policy = Policy::of(&self.url, self.config.allow_private_hosts).await;
                let client = address::client(policy, &self.environment)?;
                Ok((policy, client))
            })
            .await
            .map_err(|error: AuthError| self.failed(error))
    }

    /// Uses the store on a blocking thread, since a keyring may be slow. Reports a broken keyring.
    async fn in_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&CredentialStore) -> std::io::Result<T> + Send + 'static,
    ) -> std::io::Result<T> {
        let store = self.store.clone();
        let done = lathe_spawn::blocking(move || work(&store)).await;
        if let Some(text) = self.store.complaint() {
            let server = self.server.clone();
            let _ = self.changes.send(Change::Notice { server, text });
        }
        done.unwrap_or_else(|error| Err(std::io::Error::other(error)))
    }

    async fn find(&self) -> std::io::Result<Vec<Credentials>> {
        let (server, hash) = (self.url.to_string(), self.hash.clone());
        self.in_store(move |store| store.find(&server, &hash)).await
    }

    async fn stored(&self) -> Vec<Credentials> {
        self.find().await.unwrap_or_else(|error| {
            tracing::warn!(server = %self.server, %error, "credentials can't be read");
            Vec::new()
        })
    }

    async fn load(&self) {
        self.loaded
            .get_or_init(|| async {
                let found = self
                    .stored()
                    .await
                    .into_iter()
                    .find(|found| found.tokens.is_some());
                let mut current = self.current.lock();
                if current.is_none() {
                    *current = found;
                }
            })
            .await;
    }

    fn tokens(&self) -> Option<Tokens> {
        self.current.lock().as_ref()?.tokens.clone()
    }

    async fn bearer(&self) -> Option<String> {
        self.load().await;
        let tokens = self.tokens()?;
        if !tokens.ends_within(MARGIN) {
            return Some(tokens.access);
        }
        // An expired token is still tried if it can't be refreshed, since clocks differ.
        Some(self.refused(&tokens.access).await.unwrap_or(tokens.access))
    }

    async fn refused(&self, token: &str) -> Option<String> {
        let _one = self.flight.lock().await;
        let tokens = self.tokens()?;
        if tokens.access != token {
            return Some(tokens.access);
        }
        let credentials = self.current.lock().clone()?;
        self.refresh(credentials).await
    }

    /// Refreshes a token, or uses the one that another process got meanwhile.
    async fn refresh(&self, credentials: Credentials) -> Option<String> {
        let lock = {
            let credentials = credentials.clone();
            self.in_store(move |store| store.refresh_lock(&credentials))
                .await
                .map_err(|error| tracing::warn!(%error, "no lock for a refresh"))
                .ok()
        };
        let newer = self.stored().await.into_iter().find(|found| {
            found.issuer == credentials.issuer
                && found.tokens.is_some()
                && found.tokens != credentials.tokens
        });
        if let Some(newer) = newer {
            let access = newer.tokens.as_ref().map(|tokens| tokens.access.clone());
            *self.current.lock() = Some(newer);
            return access;
        }
        let old = credentials.tokens.clone()?;
        let refreshed = if self.config.client_credentials {
            // Nothing to refresh: the client requests a new token.
            let challenge = Challenge::default();
            return self
                .agree(&challenge)
                .await
                .map_err(|error| tracing::debug!(server = %self.server, %error, "no new token"))
                .ok()
                .and_then(|()| Some(self.tokens()?.access));
        } else {
            let refresh = old.refresh.clone()?;
            let (_, http) = self.http().await.ok()?;
            let endpoint = self.endpoint(http, &credentials);
            let form = vec![
                ("grant_type", "refresh_token".to_owned()),
                ("refresh_token", refresh),
                ("resource", credentials.resource.clone()),
            ];
            endpoint.ask(form, &old.scopes).await
        };
        let outcome = match refreshed {
            Ok(mut tokens) => {
                // A server without rotation sends no new refresh token.
                tokens.refresh = tokens.refresh.or(old.refresh);
                let access = tokens.access.clone();
                self.keep(Credentials {
                    tokens: Some(tokens),
                    ..credentials
                })
                .await;
                Some(access)
            }
            Err(denied) => {
                tracing::debug!(server = %self.server, reason = denied.text(), "no refresh");
                match denied {
                    Denied::Grant(_) => {
                        self.keep(Credentials {
                            tokens: None,
                            ..credentials
                        })
                        .await;
                    }
                    // The registration is invalid: the next sign-in creates a new one.
                    Denied::Client(_) => self.forget(&credentials).await,
                    Denied::Other(_) => {}
                }
                None
            }
        };
        drop(lock);
        outcome
    }

    fn endpoint<'a>(
        &'a self,
        http: &'a reqwest::Client,
        credentials: &'a Credentials,
    ) -> Endpoint<'a> {
        Endpoint {
            http,
            address: &credentials.token_endpoint,
            issuer: &credentials.issuer,
            client: &credentials.client,
            key: self.key(),
        }
    }

    fn key(&self) -> Option<(&str, Option<&str>)> {
        let key = self.config.client_key.as_deref()?;
        Some((key, self.config.signing_algorithm.as_deref()))
    }

    async fn save(&self, credentials: Credentials) {
        if let Err(error) = self.in_store(move |store| store.save(&credentials)).await {
            tracing::warn!(server = %self.server, %error, "credentials can't be kept");
        }
    }

    async fn keep(&self, credentials: Credentials) {
        self.save(credentials.clone()).await;
        *self.current.lock() = Some(credentials);
    }

    async fn forget(&self, credentials: &Credentials) {
        let gone = credentials.clone();
        if let Err(error) = self.in_store(move |store| store.remove(&gone)).await {
            tracing::warn!(server = %self.server, %error, "credentials can't be removed");
        }
        *self.current.lock() = None;
    }

    /// Authorises according to a challenge.
    ///
    /// # Errors
    /// [`McpError::NeedsAuth`] if the user is needed and there is no browser, or the reason of the
    /// failure.
    pub(crate) async fn authorise(&self, challenge: &str) -> Result<(), McpError> {
        self.load().await;
        let _one = self.flight.lock().await;
        if self.take_newer().await {
            return Ok(());
        }
        self.agree(&Challenge::parse(challenge)).await
    }

    /// Uses tokens that another process got meanwhile, such as `lathe mcp login`.
    async fn take_newer(&self) -> bool {
        let mut stored = self.stored().await.into_iter();
        let mut current = self.current.lock();
        let known = current.as_ref().and_then(|current| current.tokens.as_ref());
        let newer = stored.find(|found| found.tokens.is_some() && found.tokens.as_ref() != known);
        let is_newer = newer.is_some();
        if is_newer {
            *current = newer;
        }
        is_newer
    }

    /// Boxed, so that it is not compiled again in every crate that awaits a connection.
    fn agree<'a>(&'a self, challenge: &'a Challenge) -> BoxFuture<'a, Result<(), McpError>> {
        Box::pin(self.agree_now(challenge))
    }

    async fn agree_now(&self, challenge: &Challenge) -> Result<(), McpError> {
        if self.browser.is_none() && !self.config.client_credentials {
            return Err(McpError::NeedsAuth(self.server.clone()));
        }
        let (policy, http) = self.http().await?;
        let discovery = Discovery {
            client: http,
            policy: *policy,
            server: &self.url,
            version: ProtocolVersion::LATEST_WITH_INITIALIZE.as_str(),
        };
        let found = discovery
            .run(challenge, self.config.metadata_url.as_deref())
            .await
            .map_err(|error| self.failed(error))?;
        let before = self
            .stored()
            .await
            .into_iter()
            .find(|stored| stored.issuer == found.issuer);
        let scopes = self.scopes(challenge, &found, before.as_ref());
        let secret = self
            .secret(&found.issuer)
            .await
            .map_err(|error| self.failed(error))?;
        if self.config.client_credentials {
            return self
                .own_credentials(http, &found, &scopes, secret.as_deref())
                .await;
        }
        let mut registration = before
            .map(|before| before.client)
            .filter(|client| client.registered);
        loop {
            let reused = registration.is_some();
            match self
                .ask_person(
                    http,
                    &found,
                    &scopes,
                    secret.as_deref(),
                    registration.take(),
                )
                .await
            {
                Ok(credentials) => {
                    self.keep(credentials).await;
                    return Ok(());
                }
                // The server no longer knows the client: try again with a new registration.
                Err(Denied::Client(_)) if reused => {}
                Err(denied) => return Err(self.failed(denied.text())),
            }
        }
    }

    /// The secret of a client that was registered manually. A stored one is sent only to the
    /// authorisation server that it was first used with.
    async fn secret(&self, issuer: &str) -> Result<Option<String>, AuthError> {
        if self.config.client_secret.is_some() {
            return Ok(self.config.client_secret.clone());
        }
        let Some(id) = self.config.client_id.clone() else {
            return Ok(None);
        };
        let (server, asked) = (self.url.to_string(), issuer.to_owned());
        let stored = self
            .in_store(move |store| Ok(store.client_secret(&server, &id, &asked)))
            .await;
        match stored {
            Ok(StoredSecret::Secret(secret)) => Ok(Some(secret)),
            Ok(StoredSecret::Bound(bound)) => Err(AuthError::OtherSecret {
                bound,
                issuer: issuer.to_owned(),
            }),
            Ok(StoredSecret::Absent) | Err(_) => Ok(None),
        }
    }

    /// The scopes to request: configured or challenged ones, and those granted before.
    fn scopes(
        &self,
        challenge: &Challenge,
        found: &Discovered,
        before: Option<&Credentials>,
    ) -> Vec<String> {
        let configured: Vec<String> = self
            .config
            .scopes
            .iter()
            .flat_map(|scopes| scopes.split_whitespace())
            .map(str::to_owned)
            .collect();
        let challenged = challenge.scopes();
        let more_is_wanted = challenge.error.as_deref() == Some("insufficient_scope");
        let mut scopes = before
            .and_then(|before| before.tokens.as_ref())
            .map(|tokens| tokens.scopes.clone())
            .unwrap_or_default();
        if !configured.is_empty() {
            scopes.extend(configured);
            if more_is_wanted {
                scopes.extend(challenged);
            }
        } else if !challenged.is_empty() {
            scopes.extend(challenged);
        } else {
            scopes.extend(found.resource_scopes.iter().cloned());
        }
        let supported = found.server.scopes_supported.as_deref().unwrap_or_default();
        if !scopes.is_empty()
            && !self.config.client_credentials
            && supported.iter().any(|scope| scope == "offline_access")
        {
            // Some servers give no refresh token without it.
            scopes.push("offline_access".to_owned());
        }
        let mut seen = std::collections::HashSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        scopes
    }

    /// Signs in with the client's own credentials, without the user.
    async fn own_credentials(
        &self,
        http: &reqwest::Client,
        found: &Discovered,
        scopes: &[String],
        secret: Option<&str>,
    ) -> Result<(), McpError> {
        let client = registration::known(&self.config, secret, None, &found.server, "")
            .filter(|client| client.method != Method::None)
            .ok_or_else(|| {
                self.failed("client credentials need a client id and a secret or a key")
            })?;
        let mut credentials = self.credentials(found, client);
        let mut form = vec![
            ("grant_type", "client_credentials".to_owned()),
            ("resource", found.resource.clone()),
        ];
        if !scopes.is_empty() {
            form.push(("scope", scopes.join(" ")));
        }
        let tokens = self
            .endpoint(http, &credentials)
            .ask(form, scopes)
            .await
            .map_err(|denied| self.failed(denied.text()))?;
        credentials.tokens = Some(tokens);
        self.keep(credentials).await;
        Ok(())
    }

    /// Opens the page, waits for the user, and exchanges the code.
    async fn ask_person(
        &self,
        http: &reqwest::Client,
        found: &Discovered,
        scopes: &[String],
        secret: Option<&str>,
        registration: Option<Client>,
    ) -> Result<Credentials, Denied> {
        let other = |text: String| Denied::Other(text);
        let failed = |error: AuthError| Denied::Other(error.to_string());
        let Some(browser) = &self.browser else {
            return Err(other("there is no browser".to_owned()));
        };
        let methods = &found.server.code_challenge_methods_supported;
        if methods
            .as_ref()
            .is_some_and(|methods| !methods.iter().any(|method| method == "S256"))
        {
            return Err(other(format!(
                "{} doesn't support PKCE with S256",
                found.issuer
            )));
        }
        let callback = self.callback(registration.as_ref()).await.map_err(failed)?;
        let document = self.environment.get(Variable::McpClientMetadataUrl);
        let redirect = &callback.redirect_uri;
        let known = registration::known(&self.config, secret, document, &found.server, redirect);
        let client = match (known, registration) {
            (Some(known), _) => known,
            (None, Some(client)) if client.redirect_uri == *redirect => client,
            (None, _) => registration::register(http, found, redirect, scopes)
                .await
                .map_err(failed)?,
        };
        let state = random();
        let verifier = random() + &random();
        let page = page(found, &client, scopes, redirect, &state, &verifier).map_err(failed)?;
        browser
            .open(page.as_str())
            .await
            .map_err(|error| other(error.to_string()))?;
        let answer = tokio::time::timeout(AGREEMENT, callback.answer(&state))
            .await
            .map_err(|_| other("the browser did not return in time".to_owned()))?
            .map_err(failed)?;
        check_issuer(found, answer.issuer.as_deref()).map_err(failed)?;
        let code = answer
            .code
            .map_err(|error| other(format!("{} said {error}", found.issuer)))?;
        let mut credentials = self.credentials(found, client);
        let form = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code),
            ("redirect_uri", redirect.clone()),
            ("code_verifier", verifier),
            ("resource", found.resource.clone()),
        ];
        let tokens = self.endpoint(http, &credentials).ask(form, scopes).await?;
        credentials.tokens = Some(tokens);
        Ok(credentials)
    }

    /// Listens on the registered port if possible, so that the registration can be reused.
    async fn callback(&self, registration: Option<&Client>) -> Result<Callback, AuthError> {
        if self.config.callback_port.is_some() {
            return Callback::open(self.config.callback_port).await;
        }
        let before = registration
            .and_then(|client| Url::parse(&client.redirect_uri).ok())
            .and_then(|url| url.port());
        if let Some(port) = before
            && let Ok(callback) = Callback::open(Some(port)).await
        {
            return Ok(callback);
        }
        Callback::open(None).await
    }

    fn credentials(&self, found: &Discovered, client: Client) -> Credentials {
        Credentials {
            server: self.url.to_string(),
            issuer: found.issuer.clone(),
            config: self.hash.clone(),
            client,
            tokens: None,
            token_endpoint: found.server.token_endpoint.clone(),
            revocation_endpoint: found.server.revocation_endpoint.clone(),
            resource: found.resource.clone(),
            updated_at: 0,
            in_keyring: false,
        }
    }

    /// Deletes the tokens without revoking them, so that the next connection signs in anew.
    pub(crate) async fn drop_tokens(&self) {
        let _one = self.flight.lock().await;
        for mut credentials in self.stored().await {
            credentials.tokens = None;
            self.save(credentials).await;
        }
        *self.current.lock() = None;
    }

    /// Revokes the tokens (the refresh token first) and deletes them. Returns whether there were
    /// any.
    pub(crate) async fn log_out(&self) -> Result<bool, McpError> {
        let _one = self.flight.lock().await;
        let all = self.find().await.map_err(|error| self.failed(error))?;
        let mut any = false;
        for credentials in all {
            if let (Some(tokens), Some(address)) =
                (&credentials.tokens, &credentials.revocation_endpoint)
                && let Ok((_, http)) = self.http().await
            {
                let endpoint = self.endpoint(http, &credentials);
                let mut given = vec![(tokens.access.as_str(), "access_token")];
                if let Some(refresh) = &tokens.refresh {
                    given.insert(0, (refresh, "refresh_token"));
                }
                for (token, kind) in given {
                    if let Err(denied) = endpoint.revoke(address, token, kind).await {
                        let reason = denied.text();
                        tracing::info!(server = %self.server, kind, reason, "a token wasn't revoked");
                    }
                }
            }
            any |= credentials.tokens.is_some();
            self.forget(&credentials).await;
        }
        Ok(any)
    }
}

/// The address of the authorisation page.
fn page(
    found: &Discovered,
    client: &Client,
    scopes: &[String],
    redirect: &str,
    state: &str,
    verifier: &str,
) -> Result<Url, AuthError> {
    let address = found
        .server
        .authorization_endpoint
        .as_deref()
        .ok_or_else(|| AuthError::NoPage(found.issuer.clone()))?;
    let mut page = Url::parse(address).map_err(|source| AuthError::Address {
        field: "authorization_endpoint",
        address: address.to_owned(),
        source,
    })?;
    {
        let mut query = page.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", redirect)
            .append_pair("state", state)
            .append_pair(
                "code_challenge",
                &URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes())),
            )
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &found.resource);
        if !scopes.is_empty() {
            query.append_pair("scope", &scopes.join(" "));
        }
        if scopes.iter().any(|scope| scope == "offline_access") {
            // OpenID Connect requires consent each time.
            query.append_pair("prompt", "consent");
        }
    }
    Ok(page)
}

/// RFC 9207: an answer from another server than the one asked is an attack.
fn check_issuer(found: &Discovered, answered: Option<&str>) -> Result<(), AuthError> {
    let expected = found.server.issuer().unwrap_or(&found.issuer);
    match answered {
        Some(answered) if answered != expected => Err(AuthError::OtherAnswer {
            expected: expected.to_owned(),
            claimed: answered.to_owned(),
        }),
        None if found.server.authorization_response_iss_parameter_supported => {
            Err(AuthError::UnnamedAnswer(expected.to_owned()))
        }
        _ => Ok(()),
    }
}

fn random() -> String {
    uuid::Uuid::new_v4().simple().to_string() + &uuid::Uuid::new_v4().simple().to_string()
}
