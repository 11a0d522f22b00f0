//! Credentials of AWS, and the headers of a signed request.
//!
//! The chain: a bearer token, the environment, the profile (keys, `credential_process`, single sign-on, a role),
//! a web identity, the container, the instance.

use super::aws_profile::Profiles;
use super::aws_sign::{AwsKeys, Signing, encoded, hex, signed_headers};
use crate::body::RequestBody;
use crate::error::ModelError;
use crate::router::Keys;
use crate::wire::authorize::{note, sensitive};
use http::header::{AUTHORIZATION, HeaderMap};
use http::{HeaderValue, Method};
use lathe_net::{ClientOptions, Network, Reach};
use lathe_settings::{Environment, Variable};
use parking_lot::Mutex;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use serde_json::Value;
use std::time::{Duration, Instant};
use url::Url;

/// Keys without an end are read again after this long.
const LIFETIME: Duration = Duration::from_secs(15 * 60);
const MARGIN: Duration = Duration::from_secs(120);
/// How long the services of a container or an instance may take: elsewhere there are none.
const METADATA_LIMIT: Duration = Duration::from_secs(2);

/// Signs requests to one service in one region.
pub(crate) struct Aws {
    environment: Environment,
    network: Network,
    profile: String,
    profile_named: bool,
    region: String,
    keys_of: Keys,
    profiles: Profiles,
    cached: tokio::sync::Mutex<Option<(AwsKeys, Instant)>>,
    seen: Mutex<Vec<String>>,
}

struct FoundCredentials {
    keys: AwsKeys,
    lifetime: Duration,
}

impl FoundCredentials {
    fn lasting(keys: AwsKeys) -> Self {
        Self {
            keys,
            lifetime: LIFETIME,
        }
    }
}

impl Aws {
    pub(crate) fn new(
        environment: &Environment,
        network: &Network,
        region: Option<&str>,
        profile: Option<&str>,
        keys_of: Keys,
    ) -> Result<Self, ModelError> {
        let read = |variable: &str, usual: &str| {
            let named = environment.foreign(variable).map(std::path::PathBuf::from);
            let file = named.or_else(|| Some(environment.home.clone()?.join(usual)));
            file.and_then(|file| std::fs::read_to_string(file).ok())
                .unwrap_or_default()
        };
        let profiles = Profiles::read(
            &read("AWS_CONFIG_FILE", ".aws/config"),
            &read("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
        );
        let named = profile.or_else(|| environment.foreign("AWS_PROFILE"));
        let name = named.unwrap_or("default").to_owned();
        if named.is_some() && !profiles.has(&name) {
            return Err(trouble(&format!(
                "there is no profile {name} in ~/.aws/config or ~/.aws/credentials"
            )));
        }
        let region = region
            .or_else(|| environment.foreign("AWS_REGION"))
            .or_else(|| environment.foreign("AWS_DEFAULT_REGION"))
            .or_else(|| profiles.get(&name, "region"));
        let Some(region) = region.map(str::to_owned) else {
            return Err(trouble(
                "no region is set: set AWS_REGION, or `region` of the provider",
            ));
        };
        Ok(Self {
            environment: environment.clone(),
            network: network.clone(),
            profile_named: profile.is_some(),
            profile: name,
            region,
            keys_of,
            profiles,
            cached: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
        })
    }

    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    pub(crate) fn secrets(&self) -> Vec<String> {
        self.seen.lock().clone()
    }

    /// Adds the signature to the headers.
    pub(crate) async fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        body: &RequestBody,
    ) -> Result<(), ModelError> {
        if self.environment.is_on(Variable::SkipBedrockAuth) {
            return Ok(());
        }
        if let Some(token) = self.environment.get(Variable::BedrockToken) {
            note(&self.seen, token);
            headers.insert(AUTHORIZATION, sensitive(format!("Bearer {token}"))?);
            return Ok(());
        }
        let keys = self.keys().await?;
        let time = jiff::Timestamp::now()
            .strftime("%Y%m%dT%H%M%SZ")
            .to_string();
        headers.insert("x-amz-date", header(&time)?);
        if let Some(token) = &keys.token {
            headers.insert("x-amz-security-token", sensitive(token.clone())?);
        }
        let mut hash = Context::new(&SHA256);
        for part in body.parts() {
            hash.update(part);
        }
        let authorization = Signing {
            keys: &keys,
            region: &self.region,
            service: "bedrock",
            time: &time,
            method: method.as_str(),
            url,
            headers: &signed_headers(headers),
            body_hash: &hex(hash.finish().as_ref()),
        }
        .authorization();
        headers.insert(AUTHORIZATION, sensitive(authorization)?);
        Ok(())
    }

    /// Reads the keys again after a refusal; `false` if they would be the same.
    pub(crate) async fn refresh(&self) -> Result<bool, ModelError> {
        let before = self.cached.lock().await.take();
        if self.renewed().await? {
            return Ok(true);
        }
        let Some((before, _)) = before else {
            return Ok(false);
        };
        Ok(self.keys().await? != before)
    }

    /// Runs the command that renews the sign-in; `false` if there is none.
    async fn renewed(&self) -> Result<bool, ModelError> {
        let (Some(command), Some(sign_in)) = (&self.keys_of.aws_refresh, &self.keys_of.sign_in)
        else {
            return Ok(false);
        };
        sign_in(command)(true)
            .await
            .map_err(|error| trouble(&format!("awsAuthRefresh failed: {error}")))?;
        Ok(true)
    }

    async fn keys(&self) -> Result<AwsKeys, ModelError> {
        let mut cached = self.cached.lock().await;
        if let Some((keys, until)) = cached.as_ref()
            && *until > Instant::now()
        {
            return Ok(keys.clone());
        }
        let found = match self.find().await {
            Ok(found) => found,
            Err(error) => {
                if !self.renewed().await? {
                    return Err(error);
                }
                self.find().await?
            }
        };
        note(&self.seen, &found.keys.secret);
        note(&self.seen, &found.keys.access);
        if let Some(token) = &found.keys.token {
            note(&self.seen, token);
        }
        let until = Instant::now() + found.lifetime.saturating_sub(MARGIN);
        *cached = Some((found.keys.clone(), until));
        Ok(found.keys)
    }

    async fn find(&self) -> Result<FoundCredentials, ModelError> {
        let get = |name: &str| self.environment.foreign(name).map(str::to_owned);
        if let Some(command) = &self.keys_of.aws_export {
            return self.exported(command).await;
        }
        // A profile that settings name comes before keys of the environment.
        if !self.profile_named
            && let Some(found) = self.of_environment()
        {
            return Ok(found);
        }
        if let Some(found) = self.of_profile(&self.profile, 0).await? {
            return Ok(found);
        }
        if let (Some(file), Some(role)) = (get("AWS_WEB_IDENTITY_TOKEN_FILE"), get("AWS_ROLE_ARN"))
        {
            return self.web_identity(&file, &role).await;
        }
        if let Some(found) = self.container().await? {
            return Ok(found);
        }
        match self.instance().await {
            Some(found) => Ok(found),
            None => Err(trouble(
                "there are none: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or AWS_BEARER_TOKEN_BEDROCK, or run `aws sso login`",
            )),
        }
    }

    fn of_environment(&self) -> Option<FoundCredentials> {
        let get = |name: &str| self.environment.foreign(name).map(str::to_owned);
        Some(FoundCredentials::lasting(AwsKeys {
            access: get("AWS_ACCESS_KEY_ID")?,
            secret: get("AWS_SECRET_ACCESS_KEY")?,
            token: get("AWS_SESSION_TOKEN"),
        }))
    }

    async fn of_profile(
        &self,
        profile: &str,
        depth: usize,
    ) -> Result<Option<FoundCredentials>, ModelError> {
        let get = |name: &str| self.profiles.get(profile, name);
        if depth > 4 {
            return Err(trouble(&format!(
                "the roles of profile {profile} form a circle"
            )));
        }
        if let Some(role) = get("role_arn") {
            let source = match (get("source_profile"), get("credential_source")) {
                // A role on top of the keys of the same profile.
                (Some(source), _) if source == profile => self.static_keys(profile),
                (Some(source), _) => Box::pin(self.of_profile(source, depth + 1)).await?,
                (None, Some("Environment")) => self.of_environment(),
                (None, Some("EcsContainer")) => self.container().await?,
                (None, Some("Ec2InstanceMetadata")) => self.instance().await,
                (None, _) => None,
            };
            if let Some(source) = source {
                return self.assume(&source.keys, role, profile).await.map(Some);
            }
            if let Some(file) = get("web_identity_token_file") {
                return self.web_identity(file, role).await.map(Some);
            }
            return Err(trouble(&format!(
                "profile {profile} has role_arn without a source_profile or credential_source that has keys"
            )));
        }
        if let Some(found) = self.static_keys(profile) {
            return Ok(Some(found));
        }
        if let Some(command) = get("credential_process") {
            return self.process(command).await.map(Some);
        }
        if get("sso_account_id").is_some() {
            return self.single_sign_on(profile).await.map(Some);
        }
        Ok(None)
    }

    fn static_keys(&self, profile: &str) -> Option<FoundCredentials> {
        let get = |name: &str| self.profiles.get(profile, name).map(str::to_owned);
        Some(FoundCredentials::lasting(AwsKeys {
            access: get("aws_access_key_id")?,
            secret: get("aws_secret_access_key")?,
            token: get("aws_session_token"),
        }))
    }

    async fn process(&self, command: &str) -> Result<FoundCredentials, ModelError> {
        let value = self.printed("credential_process", command).await?;
        of_json(&value, "AccessKeyId", "SecretAccessKey", "SessionToken")
    }

    /// The credentials printed by a command from settings, in the format of AWS STS or of `credential_process`.
    async fn exported(&self, command: &str) -> Result<FoundCredentials, ModelError> {
        let value = self.printed("awsCredentialExport", command).await?;
        let keys = value.get("Credentials").unwrap_or(&value);
        of_json(keys, "AccessKeyId", "SecretAccessKey", "SessionToken")
    }

    async fn printed(&self, name: &str, command: &str) -> Result<Value, ModelError> {
        let Some(helper) = &self.keys_of.helper else {
            return Err(trouble(&format!("{name} can't be run here")));
        };
        let text = helper(command)(false)
            .await
            .map_err(|error| trouble(&format!("{name} failed: {error}")))?;
        serde_json::from_str(&text).map_err(|_| trouble(&format!("{name} did not print JSON")))
    }

    async fn single_sign_on(&self, profile: &str) -> Result<FoundCredentials, ModelError> {
        let sso = |name: &str| self.profiles.sso(profile, name);
        let missing = |name: &str| trouble(&format!("profile {profile} has no {name}"));
        let region = sso("sso_region").ok_or_else(|| missing("sso_region"))?;
        let account = sso("sso_account_id").ok_or_else(|| missing("sso_account_id"))?;
        let role = sso("sso_role_name").ok_or_else(|| missing("sso_role_name"))?;
        let key = sso("sso_session").or_else(|| sso("sso_start_url"));
        let key = key.ok_or_else(|| missing("sso_start_url"))?;
        let name = hex(digest(&SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes()).as_ref());
        let expired = || {
            trouble(&format!(
                "the single sign-on has ended: run `aws sso login --profile {profile}`"
            ))
        };
        let home = self.environment.home.clone().ok_or_else(expired)?;
        let file = home.join(".aws/sso/cache").join(format!("{name}.json"));
        let text = std::fs::read_to_string(file).map_err(|_| expired())?;
        let token: Value = serde_json::from_str(&text).map_err(|_| expired())?;
        let ends = token["expiresAt"].as_str().unwrap_or_default();
        if ends
            .parse::<jiff::Timestamp>()
            .is_ok_and(|ends| ends <= jiff::Timestamp::now())
        {
            return Err(expired());
        }
        let token = token["accessToken"].as_str().ok_or_else(expired)?;
        note(&self.seen, token);
        let base = self
            .environment
            .foreign("AWS_ENDPOINT_URL_SSO")
            .map_or_else(
                || format!("https://portal.sso.{region}.amazonaws.com"),
                str::to_owned,
            );
        let url = format!(
            "{base}/federation/credentials?role_name={}&account_id={}",
            encoded(role, false),
            encoded(account, false)
        );
        let answer = self
            .get(&url, &[("x-amz-sso_bearer_token", token.to_owned())])
            .await?;
        let value: Value = serde_json::from_str(&answer).map_err(|_| expired())?;
        of_json(
            &value["roleCredentials"],
            "accessKeyId",
            "secretAccessKey",
            "sessionToken",
        )
    }

    fn sts(&self) -> String {
        self.environment
            .foreign("AWS_ENDPOINT_URL_STS")
            .map_or_else(
                || format!("https://sts.{}.amazonaws.com", self.region),
                str::to_owned,
            )
    }

    async fn assume(
        &self,
        keys: &AwsKeys,
        role: &str,
        profile: &str,
    ) -> Result<FoundCredentials, ModelError> {
        let get = |name: &str| self.profiles.get(profile, name);
        let mut url = Url::parse(&self.sts()).map_err(|error| trouble(&error.to_string()))?;
        url.query_pairs_mut()
            .append_pair("Action", "AssumeRole")
            .append_pair("Version", "2011-06-15")
            .append_pair("RoleArn", role)
            .append_pair(
                "RoleSessionName",
                get("role_session_name").unwrap_or("lathe"),
            );
        if let Some(id) = get("external_id") {
            url.query_pairs_mut().append_pair("ExternalId", id);
        }
        let time = jiff::Timestamp::now()
            .strftime("%Y%m%dT%H%M%SZ")
            .to_string();
        let mut headers = vec![("x-amz-date", time.clone())];
        if let Some(token) = &keys.token {
            headers.push(("x-amz-security-token", token.clone()));
        }
        let authorization = Signing {
            keys,
            region: &self.region,
            service: "sts",
            time: &time,
            method: "GET",
            url: &url,
            headers: &headers,
            body_hash: &hex(digest(&SHA256, b"").as_ref()),
        }
        .authorization();
        headers.push(("authorization", authorization));
        of_xml(&self.get(url.as_str(), &headers).await?)
    }

    async fn web_identity(&self, file: &str, role: &str) -> Result<FoundCredentials, ModelError> {
        let token = std::fs::read_to_string(file)
            .map_err(|error| trouble(&format!("{file} can't be read: {error}")))?;
        note(&self.seen, token.trim());
        let name = self.environment.foreign("AWS_ROLE_SESSION_NAME");
        let form = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", role),
            ("RoleSessionName", name.unwrap_or("lathe")),
            ("WebIdentityToken", token.trim()),
        ];
        let url = Url::parse(&self.sts()).map_err(|error| trouble(&error.to_string()))?;
        // The token goes into the body: an address is written to logs.
        let sent = self.client(&url)?.post(url).form(&form).send().await;
        of_xml(&text(sent).await?)
    }

    async fn container(&self) -> Result<Option<FoundCredentials>, ModelError> {
        let get = |name: &str| self.environment.foreign(name);
        let url = match (
            get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
            get("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        ) {
            (Some(path), _) => format!("http://169.254.170.2{path}"),
            (None, Some(url)) => url.to_owned(),
            (None, None) => return Ok(None),
        };
        let mut headers = Vec::new();
        let of_file = get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
            .and_then(|file| std::fs::read_to_string(file).ok());
        let token = of_file.or_else(|| get("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(str::to_owned));
        if let Some(token) = token {
            headers.push(("authorization", token.trim().to_owned()));
        }
        let answer = self.get(&url, &headers).await?;
        let value: Value = serde_json::from_str(&answer)
            .map_err(|_| trouble("the container's answer can't be read"))?;
        of_json(&value, "AccessKeyId", "SecretAccessKey", "Token").map(Some)
    }

    async fn instance(&self) -> Option<FoundCredentials> {
        let get = |name: &str| self.environment.foreign(name);
        if get("AWS_EC2_METADATA_DISABLED") == Some("true") {
            return None;
        }
        let base = get("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or("http://169.254.169.254");
        let base = base.trim_end_matches('/').to_owned();
        let url = Url::parse(&format!("{base}/latest/api/token")).ok()?;
        let client = self.client(&url).ok()?;
        let sent = client
            .put(url)
            .header("x-aws-ec2-metadata-token-ttl-seconds", "21600")
            .send();
        let sent = tokio::time::timeout(METADATA_LIMIT, sent).await.ok()?;
        let headers = [("x-aws-ec2-metadata-token", text(sent).await.ok()?)];
        let path = format!("{base}/latest/meta-data/iam/security-credentials/");
        let role = self.get(&path, &headers).await.ok()?;
        let role = role.lines().next()?.trim().to_owned();
        let answer = self.get(&format!("{path}{role}"), &headers).await.ok()?;
        let value: Value = serde_json::from_str(&answer).ok()?;
        of_json(&value, "AccessKeyId", "SecretAccessKey", "Token").ok()
    }

    async fn get(&self, url: &str, headers: &[(&str, String)]) -> Result<String, ModelError> {
        let url = Url::parse(url).map_err(|error| trouble(&error.to_string()))?;
        let mut request = self.client(&url)?.get(url);
        for (name, value) in headers {
            request = request.header(*name, sensitive(value.clone())?);
        }
        text(request.send().await).await
    }

    fn client(&self, url: &Url) -> Result<reqwest::Client, ModelError> {
        let options = ClientOptions {
            reach: Reach::by_scheme(url),
            connect_timeout: Some(Duration::from_secs(5)),
            timeout: Some(Duration::from_secs(15)),
            ..ClientOptions::default()
        };
        self.network
            .client(&options)
            .map_err(|error| trouble(&error.to_string()))
    }
}

async fn text(sent: Result<reqwest::Response, reqwest::Error>) -> Result<String, ModelError> {
    let response = sent.map_err(|error| trouble(&lathe_net::innermost(&error)))?;
    let status = response.status();
    let bytes = lathe_net::body(response, 256 * 1024)
        .await
        .map_err(|error| trouble(&error.to_string()))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if !status.is_success() {
        let words = tag(&text, "Message").unwrap_or_default();
        return Err(trouble(&format!("they were refused ({status}) {words}")));
    }
    Ok(text)
}

fn header(text: &str) -> Result<HeaderValue, ModelError> {
    HeaderValue::try_from(text).map_err(|error| trouble(&error.to_string()))
}

fn of_json(
    value: &Value,
    access: &str,
    secret: &str,
    token: &str,
) -> Result<FoundCredentials, ModelError> {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let (Some(access), Some(secret)) = (text(access), text(secret)) else {
        return Err(trouble("the answer has no keys"));
    };
    let ends = text("Expiration").and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let of_milliseconds = value["expiration"]
        .as_i64()
        .and_then(|milliseconds| jiff::Timestamp::from_millisecond(milliseconds).ok());
    Ok(FoundCredentials {
        keys: AwsKeys {
            access,
            secret,
            token: text(token),
        },
        lifetime: lifetime(ends.or(of_milliseconds)),
    })
}

fn lifetime(ends: Option<jiff::Timestamp>) -> Duration {
    let seconds = ends.map(|ends| ends.as_second() - jiff::Timestamp::now().as_second());
    seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map_or(LIFETIME, Duration::from_secs)
}

fn of_xml(text: &str) -> Result<FoundCredentials, ModelError> {
    let (Some(access), Some(secret)) = (tag(text, "AccessKeyId"), tag(text, "SecretAccessKey"))
    else {
        return Err(trouble("the answer of STS has no keys"));
    };
    let ends = tag(text, "Expiration").and_then(|text| text.parse().ok());
    Ok(FoundCredentials {
        keys: AwsKeys {
            access: access.to_owned(),
            secret: secret.to_owned(),
            token: tag(text, "SessionToken").map(str::to_owned),
        },
        lifetime: lifetime(ends),
    })
}

/// The text of the first element of this name.
fn tag<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let start = text.find(&format!("<{name}>"))? + name.len() + 2;
    let end = text[start..].find(&format!("</{name}>"))?;
    Some(text[start..start + end].trim())
}

fn trouble(message: &str) -> ModelError {
    ModelError::MissingKey {
        message: format!("AWS credentials: {message}"),
    }
}
