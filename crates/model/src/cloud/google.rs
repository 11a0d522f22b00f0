//! Access tokens of Google: application default credentials.

use crate::error::ModelError;
use crate::wire::authorize::note;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use lathe_net::{ClientOptions, Network, Reach};
use lathe_settings::Environment;
use parking_lot::Mutex;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use url::Url;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const JWT_GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// A token is fetched anew this long before it ends.
const MARGIN: Duration = Duration::from_secs(120);
/// How long the metadata server may take: outside of the cloud there is none.
const METADATA_LIMIT: Duration = Duration::from_secs(3);

/// Where access tokens come from, and the last one.
pub(crate) struct Google {
    environment: Environment,
    network: Network,
    /// A token that was given.
    given: Option<crate::anthropic::credentials::CredentialSource>,
    cached: tokio::sync::Mutex<Option<(String, Instant)>>,
    seen: Mutex<Vec<String>>,
}

impl Google {
    pub(crate) fn new(
        environment: Environment,
        network: Network,
        given: Option<crate::anthropic::credentials::CredentialSource>,
    ) -> Self {
        Self {
            environment,
            network,
            given,
            cached: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// The access token for the next request.
    pub(crate) async fn token(&self) -> Result<String, ModelError> {
        if let Some(given) = &self.given
            && let Some(token) = given.current().await?.api_key
        {
            note(&self.seen, &token);
            return Ok(token);
        }
        let mut cached = self.cached.lock().await;
        if let Some((token, until)) = cached.as_ref()
            && *until > Instant::now() + MARGIN
        {
            return Ok(token.clone());
        }
        let answer = self.fetch().await?;
        let token = answer["access_token"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if token.is_empty() {
            return Err(trouble("the answer has no access_token"));
        }
        note(&self.seen, &token);
        let seconds = answer["expires_in"].as_u64().unwrap_or(300);
        *cached = Some((token.clone(), Instant::now() + Duration::from_secs(seconds)));
        Ok(token)
    }

    /// Forgets the token after a refusal; `false` if the next one would be the same.
    pub(crate) async fn refresh(&self) -> Result<bool, ModelError> {
        match &self.given {
            Some(given) => given.refresh().await,
            None => Ok(self.cached.lock().await.take().is_some()),
        }
    }

    pub(crate) fn secrets(&self) -> Vec<String> {
        self.seen.lock().clone()
    }

    /// The file of the application default credentials.
    fn file(&self) -> Option<(PathBuf, bool)> {
        if let Some(named) = self.environment.foreign("GOOGLE_APPLICATION_CREDENTIALS") {
            return Some((PathBuf::from(named), true));
        }
        let folder = match self.environment.foreign("CLOUDSDK_CONFIG") {
            Some(folder) => PathBuf::from(folder),
            None => self.environment.home.clone()?.join(".config/gcloud"),
        };
        Some((folder.join("application_default_credentials.json"), false))
    }

    async fn fetch(&self) -> Result<Value, ModelError> {
        if let Some((file, named)) = self.file() {
            match std::fs::read(&file) {
                Ok(bytes) => {
                    let credentials: Value = serde_json::from_slice(&bytes).map_err(|error| {
                        trouble(&format!("{} can't be read: {error}", file.display()))
                    })?;
                    return self.exchange(&credentials).await;
                }
                Err(error) if named => {
                    return Err(trouble(&format!(
                        "{} can't be read: {error}",
                        file.display()
                    )));
                }
                Err(_) => {}
            }
        }
        self.metadata().await
    }

    async fn exchange(&self, credentials: &Value) -> Result<Value, ModelError> {
        let text = |name: &str| credentials[name].as_str().unwrap_or_default().to_owned();
        let uri = credentials["token_uri"]
            .as_str()
            .unwrap_or(TOKEN_URI)
            .to_owned();
        let form: Vec<(&str, String)> = match credentials["type"].as_str() {
            Some("authorized_user") => vec![
                ("grant_type", "refresh_token".to_owned()),
                ("client_id", text("client_id")),
                ("client_secret", text("client_secret")),
                ("refresh_token", text("refresh_token")),
            ],
            Some("service_account") => vec![
                ("grant_type", JWT_GRANT.to_owned()),
                ("assertion", jwt(credentials, &uri, now())?),
            ],
            other => {
                return Err(trouble(&format!(
                    "credentials of type {} are not supported (authorized_user, service_account)",
                    other.unwrap_or("?")
                )));
            }
        };
        for (name, secret) in &form {
            if *name != "grant_type" {
                note(&self.seen, secret);
            }
        }
        let url = Url::parse(&uri).map_err(|error| trouble(&format!("token_uri: {error}")))?;
        let client = self.client(&url)?;
        let sent = client.post(url).form(&form).send().await;
        answer(sent).await
    }

    async fn metadata(&self) -> Result<Value, ModelError> {
        let host = self
            .environment
            .foreign("GCE_METADATA_HOST")
            .unwrap_or("metadata.google.internal");
        let url = format!(
            "http://{host}/computeMetadata/v1/instance/service-accounts/default/token?scopes={SCOPE}"
        );
        let url = Url::parse(&url).map_err(|error| trouble(&error.to_string()))?;
        let client = self.client(&url)?;
        let sent = client.get(url).header("metadata-flavor", "Google").send();
        let none = || {
            trouble(
                "there are none: run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS",
            )
        };
        let sent = tokio::time::timeout(METADATA_LIMIT, sent)
            .await
            .map_err(|_| none())?;
        if sent.is_err() {
            return Err(none());
        }
        answer(sent).await
    }

    fn client(&self, url: &Url) -> Result<reqwest::Client, ModelError> {
        let options = ClientOptions {
            reach: Reach::by_scheme(url),
            connect_timeout: Some(Duration::from_secs(10)),
            ..ClientOptions::default()
        };
        self.network
            .client(&options)
            .map_err(|error| trouble(&error.to_string()))
    }
}

async fn answer(sent: Result<reqwest::Response, reqwest::Error>) -> Result<Value, ModelError> {
    let response = sent.map_err(|error| trouble(&lathe_net::innermost(&error)))?;
    let status = response.status();
    let bytes = lathe_net::body(response, 256 * 1024)
        .await
        .map_err(|error| trouble(&error.to_string()))?;
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if !status.is_success() {
        let words = value["error_description"]
            .as_str()
            .or(value["error"].as_str())
            .unwrap_or_default();
        return Err(trouble(&format!(
            "the token was refused ({status}): {words}"
        )));
    }
    Ok(value)
}

fn trouble(message: &str) -> ModelError {
    ModelError::MissingKey {
        message: format!("Google credentials: {message}"),
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map(|since| since.as_secs()).unwrap_or_default()
}

/// A signed claim that is exchanged for a token.
pub(crate) fn jwt(credentials: &Value, audience: &str, now: u64) -> Result<String, ModelError> {
    let pem = credentials["private_key"].as_str().unwrap_or_default();
    let body: String = pem
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .map(str::trim)
        .collect();
    let unusable = || trouble("private_key can't be read: it must be an RSA key in PKCS #8");
    let der = STANDARD.decode(body).map_err(|_| unusable())?;
    let pair = RsaKeyPair::from_pkcs8(&der).map_err(|_| unusable())?;
    let mut header = json!({"alg": "RS256", "typ": "JWT"});
    if let Some(id) = credentials["private_key_id"].as_str() {
        header["kid"] = id.into();
    }
    let claims = json!({
        "iss": credentials["client_email"], "scope": SCOPE, "aud": audience,
        "iat": now, "exp": now + 3600,
    });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(&header), part(&claims));
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(
        &RSA_PKCS1_SHA256,
        &ring::rand::SystemRandom::new(),
        text.as_bytes(),
        &mut signature,
    )
    .map_err(|_| unusable())?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
