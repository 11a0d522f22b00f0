//! From the credentials that settings name to what commands see of them.

use crate::authority::{Authority, AuthorityError};
use crate::masking::{Credential, Masking, Unmaskable};
use lathe_sandbox::{AUTHORITIES, CredentialPlace, CredentialSource, Masked};
use regex::Regex;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The placeholders that commands see instead of credentials.
pub struct Prepared {
    /// For the proxy.
    pub masking: Arc<Masking>,
    /// Variables that commands get: stand-ins, and where the certificate authorities are.
    pub variables: Vec<(OsString, OsString)>,
    /// Files that commands see instead of others.
    pub files: Vec<Masked>,
    /// Files that can't be masked, and must not be seen.
    pub hidden: Vec<PathBuf>,
    /// Problems, for the user.
    pub problems: Vec<String>,
}

/// Why credentials can't be masked at all. Commands must not see them then.
#[derive(Debug, thiserror::Error)]
pub enum MaskError {
    /// There is no authority.
    #[error("credentials can't be masked: {0}")]
    Authority(#[from] AuthorityError),
    /// A file can't be written.
    #[error("credentials can't be masked: {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Where systems keep the certificate authorities that they trust.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Variables that tell programs where certificate authorities are.
const TRUST: [&str; 9] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
];

/// Makes stand-ins for credentials. Files go to `folder`, which commands can't see.
///
/// # Errors
/// If there can be no stand-ins.
pub fn prepare(
    sources: &[CredentialSource],
    variable: impl Fn(&str) -> Option<String>,
    folder: &Path,
    tls: rustls::ClientConfig,
) -> Result<Prepared, MaskError> {
    let authority = Authority::new()?;
    let mut files = authorities(&authority, variable("SSL_CERT_FILE"), folder)?;
    let mut variables: Vec<(OsString, OsString)> = TRUST
        .iter()
        .map(|name| (name.into(), AUTHORITIES.into()))
        .collect();
    let mut credentials = Vec::new();
    let mut hidden = Vec::new();
    let mut problems = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        match &source.place {
            CredentialPlace::Variable(name) => {
                let Some(value) = variable(name).filter(|value| !value.is_empty()) else {
                    continue;
                };
                match Credential::new(value.trim(), source.hosts.clone()) {
                    Ok(credential) => {
                        variables.push((name.into(), credential.stand_in().into()));
                        credentials.push(credential);
                    }
                    Err(error) => problems.push(format!(
                        "the variable {name} can't be masked and is left out: {error}"
                    )),
                }
            }
            CredentialPlace::File { path, pattern } => {
                let Ok(text) = fs::read_to_string(path) else {
                    hidden.extend(path.exists().then(|| path.clone()));
                    continue;
                };
                match masked(&text, pattern.as_deref(), source) {
                    Ok((text, found)) => {
                        let stand_in = folder.join(format!("masked-{index}"));
                        write(&stand_in, &text)?;
                        let path = path.clone();
                        files.push(Masked { path, stand_in });
                        credentials.extend(found);
                    }
                    Err(error) => {
                        let path = path.clone();
                        problems.push(format!(
                            "{} can't be masked and is hidden: {error}",
                            path.display()
                        ));
                        hidden.push(path);
                    }
                }
            }
        }
    }
    let mut tls = tls;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let masking = Arc::new(Masking {
        credentials,
        authority,
        tls: Arc::new(tls),
    });
    Ok(Prepared {
        masking,
        variables,
        files,
        hidden,
        problems,
    })
}

/// Why a file can't be masked.
#[derive(Debug, thiserror::Error)]
enum FileProblem {
    #[error("`pattern` is no regular expression with one group: {0}")]
    Pattern(String),
    #[error("`pattern` matches nothing in it")]
    NoMatch,
    #[error("{0}; give a `pattern` whose group is the secret in it")]
    Whole(Unmaskable),
    #[error("what `pattern` finds is no token: {0}")]
    Part(Unmaskable),
}

/// A file's text with stand-ins.
fn masked(
    text: &str,
    pattern: Option<&str>,
    source: &CredentialSource,
) -> Result<(String, Vec<Credential>), FileProblem> {
    let hosts = || source.hosts.clone();
    let Some(pattern) = pattern else {
        let value = text.trim();
        let credential = Credential::new(value, hosts()).map_err(FileProblem::Whole)?;
        return Ok((text.replace(value, credential.stand_in()), vec![credential]));
    };
    let wrong = |reason: &dyn ToString| FileProblem::Pattern(reason.to_string());
    let pattern = Regex::new(pattern).map_err(|error| wrong(&error))?;
    if pattern.captures_len() != 2 {
        return Err(wrong(&"it must have exactly one group"));
    }
    let mut masked = text.to_owned();
    let mut found: Vec<Credential> = Vec::new();
    let mut values: Vec<&str> = Vec::new();
    for group in pattern.captures_iter(text).filter_map(|it| it.get(1)) {
        if !values.contains(&group.as_str()) {
            values.push(group.as_str());
        }
    }
    // The longest first: one may be a part of another.
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    for value in values {
        let credential = Credential::new(value, hosts()).map_err(FileProblem::Part)?;
        masked = masked.replace(value, credential.stand_in());
        found.push(credential);
    }
    if found.is_empty() {
        return Err(FileProblem::NoMatch);
    }
    Ok((masked, found))
}

/// The certificate authorities that commands trust: the system's, and that of the session. It also stands where the
/// system keeps its own, for programs that look nowhere else.
fn authorities(
    authority: &Authority,
    own: Option<String>,
    folder: &Path,
) -> Result<Vec<Masked>, MaskError> {
    let bundles = || BUNDLES.iter().map(PathBuf::from);
    let system = own
        .map(PathBuf::from)
        .into_iter()
        .chain(bundles())
        .find_map(|path| fs::read_to_string(path).ok());
    let mut text = system.unwrap_or_default();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&authority.pem());
    let stand_in = folder.join("authorities.pem");
    write(&stand_in, &text)?;
    let mut places: Vec<PathBuf> = bundles()
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    places.push(AUTHORITIES.into());
    places.sort();
    places.dedup();
    let masked = |path| Masked {
        path,
        stand_in: stand_in.clone(),
    };
    Ok(places.into_iter().map(masked).collect())
}

fn write(path: &Path, text: &str) -> Result<(), MaskError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|source| MaskError::File {
            path: path.to_path_buf(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_sandbox::HostRule;

    fn source(place: CredentialPlace) -> CredentialSource {
        CredentialSource {
            place,
            hosts: vec![HostRule::parse("api.example").unwrap()],
        }
    }

    fn tls() -> rustls::ClientConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth()
    }

    #[test]
    fn what_commands_see_has_nothing_of_the_values() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let plain = file("plain", "plain-secret-0123456789\n");
        let rc = file(
            "rc",
            "//a/:_authToken=first-secret-0123456789\nx=y\n//b/:_authToken=second-secret-012345678\n",
        );
        let words = file("words", "several words, and no token\n");
        let sources = [
            CredentialPlace::Variable("TOKEN".to_owned()),
            CredentialPlace::Variable("SHORT".to_owned()),
            CredentialPlace::Variable("ABSENT".to_owned()),
            CredentialPlace::File {
                path: plain.clone(),
                pattern: None,
            },
            CredentialPlace::File {
                path: rc.clone(),
                pattern: Some("_authToken=(.*)".to_owned()),
            },
            CredentialPlace::File {
                path: words.clone(),
                pattern: None,
            },
        ]
        .map(source);
        let variable = |name: &str| match name {
            "TOKEN" => Some("variable-secret-0123456789".to_owned()),
            "SHORT" => Some("secret".to_owned()),
            _ => None,
        };
        let made = prepare(&sources, variable, folder.path(), tls()).unwrap();
        let names: Vec<&OsString> = made.variables.iter().map(|(name, _)| name).collect();
        assert!(names.contains(&&"TOKEN".into()) && names.contains(&&"SSL_CERT_FILE".into()));
        assert!(!names.contains(&&"SHORT".into()) && !names.contains(&&"ABSENT".into()));
        assert!(
            made.variables
                .iter()
                .all(|(_, value)| !value.to_string_lossy().contains("secret-0"))
        );
        assert_eq!(made.hidden, [words]);
        assert_eq!(made.problems.len(), 2, "{:?}", made.problems);
        let seen = |path: &Path| {
            let masked = made.files.iter().find(|it| it.path == path).unwrap();
            fs::read_to_string(&masked.stand_in).unwrap()
        };
        assert!(!seen(&plain).contains("secret-0123") && seen(&plain).ends_with('\n'));
        let shown = seen(&rc);
        assert!(!shown.contains("secret-01"), "{shown}");
        assert!(shown.contains("\nx=y\n") && shown.matches("_authToken=").count() == 2);
        assert_eq!(made.masking.credentials.len(), 4);
    }

    #[test]
    fn a_pattern_must_name_the_secret() {
        let place = source(CredentialPlace::Variable(String::new()));
        for pattern in ["(", "no group", "(a)(b)", "absent=(.*)", "x=(y)"] {
            assert!(masked("x=y\n", Some(pattern), &place).is_err(), "{pattern}");
        }
    }
}
