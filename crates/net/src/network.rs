use crate::client::{ClientOptions, Reach};
use crate::error::NetError;
use crate::trust;
use lathe_settings::{Environment, Variable};
use reqwest::{Client, ClientBuilder, NoProxy, Proxy};
use std::path::PathBuf;
use url::Url;

/// How this machine reaches others. A plain value: nothing here has looked at the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Network {
    /// Proxies.
    pub proxies: Proxies,
    /// CA certificates (PEM files) that are trusted beside the system's.
    pub extra_ca_files: Vec<PathBuf>,
    /// CA certificates (a PEM file) that are trusted instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Shown to servers that ask for a client certificate.
    pub identity: Option<ClientIdentity>,
}

/// A client certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate and those that lead to its authority (a PEM file).
    pub certificate: PathBuf,
    /// The private key (a PEM file); `None` if it is in the same file.
    pub key: Option<PathBuf>,
}

/// Proxies, by the usual variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `https` addresses.
    pub https: Option<String>,
    /// For `http` addresses.
    pub http: Option<String>,
    /// For both, where nothing more specific is set.
    pub all: Option<String>,
    /// Hosts that are reached directly, separated by commas.
    pub exceptions: Option<String>,
}

impl Network {
    /// The network as the environment describes it.
    #[must_use]
    pub fn of(environment: &Environment) -> Self {
        let text = |variable| environment.get(variable).map(str::to_owned);
        let file = |variable| Some(environment.resolve(environment.get(variable)?));
        Self {
            proxies: Proxies {
                https: text(Variable::HttpsProxy),
                http: text(Variable::HttpProxy),
                all: text(Variable::AllProxy),
                exceptions: text(Variable::NoProxy),
            },
            extra_ca_files: [Variable::NodeExtraCaFile, Variable::ExtraCaFile]
                .into_iter()
                .filter_map(file)
                .collect(),
            ca_file: file(Variable::CaFile),
            identity: file(Variable::ClientCertificate).map(|certificate| ClientIdentity {
                certificate,
                key: file(Variable::ClientKey),
            }),
        }
    }

    /// Makes a client.
    ///
    /// # Errors
    /// If the network names something that can't be used: a proxy that isn't an address, a file that
    /// holds no certificates.
    pub fn client(&self, options: &ClientOptions) -> Result<Client, NetError> {
        let mut builder = options.builder();
        if options.reach != Reach::ThisMachine {
            builder = self.with_proxies(builder)?;
        }
        builder = if options.reach == Reach::WithoutTls && !self.proxies.any_secure() {
            builder.tls_certs_only([])
        } else {
            let mut tls = trust::tls_config(self)?;
            tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            builder.tls_backend_preconfigured(tls)
        };
        builder
            .build()
            .map_err(|error| NetError::Client(crate::innermost(&error)))
    }

    /// The TLS configuration for a connection that is no HTTP request, such as a WebSocket.
    ///
    /// # Errors
    /// As [`Network::client`].
    pub fn tls(&self) -> Result<rustls::ClientConfig, NetError> {
        trust::tls_config(self)
    }

    fn with_proxies(&self, mut builder: ClientBuilder) -> Result<ClientBuilder, NetError> {
        type Make = fn(&str) -> reqwest::Result<Proxy>;
        let proxies: [(&'static str, &Option<String>, Make); 3] = [
            ("HTTPS_PROXY", &self.proxies.https, |url| Proxy::https(url)),
            ("HTTP_PROXY", &self.proxies.http, |url| Proxy::http(url)),
            ("ALL_PROXY", &self.proxies.all, |url| Proxy::all(url)),
        ];
        for (variable, value, make) in proxies {
            let Some(value) = value else { continue };
            let address = if value.contains("://") {
                value.clone()
            } else {
                format!("http://{value}")
            };
            let proxy = make(&address).map_err(|_| NetError::Proxy { variable })?;
            let exceptions = self
                .proxies
                .exceptions
                .as_deref()
                .and_then(NoProxy::from_string);
            builder = builder.proxy(proxy.no_proxy(exceptions));
        }
        Ok(builder)
    }
}

impl Proxies {
    fn any_secure(&self) -> bool {
        [&self.https, &self.http, &self.all]
            .into_iter()
            .flatten()
            .any(|address| address.starts_with("https:"))
    }

    /// The variable that names the proxy for an address, if it has one. Only for messages: the decision
    /// itself is the client's.
    #[must_use]
    pub fn variable_for(&self, url: &Url) -> Option<&'static str> {
        let host = url.host_str().unwrap_or_default();
        let exceptions = self.exceptions.as_deref().unwrap_or_default();
        let excepted = exceptions
            .split(',')
            .map(|entry| entry.trim().trim_start_matches('.'))
            .any(|entry| {
                let parent = host.strip_suffix(entry);
                entry == "*"
                    || (!entry.is_empty()
                        && parent.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
            });
        let (specific, variable) = match url.scheme() {
            "https" => (&self.https, "HTTPS_PROXY"),
            _ => (&self.http, "HTTP_PROXY"),
        };
        match (excepted, specific, &self.all) {
            (true, _, _) | (false, None, None) => None,
            (false, Some(_), _) => Some(variable),
            (false, None, Some(_)) => Some("ALL_PROXY"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_variables_are_read() {
        let variables = [
            ("https_proxy", "http://lower"),
            ("HTTPS_PROXY", "http://upper"),
            ("NO_PROXY", "localhost"),
            ("NODE_EXTRA_CA_CERTS", "/ca.pem"),
            ("LATHE_EXTRA_CA_CERTS", "more.pem"),
            ("SSL_CERT_FILE", "~/only.pem"),
            ("CLAUDE_CODE_CLIENT_CERT", "/me.pem"),
            ("CLAUDE_CODE_CLIENT_KEY", "/me.key"),
        ];
        let environment = Environment {
            home: Some("/home/me".into()),
            cwd: "/work".into(),
            ..Environment::of_variables(variables)
        };
        let network = Network::of(&environment);
        assert_eq!(network.proxies.https.as_deref(), Some("http://lower"));
        assert_eq!(network.proxies.http, None);
        assert_eq!(network.proxies.exceptions.as_deref(), Some("localhost"));
        assert_eq!(
            network.extra_ca_files,
            [PathBuf::from("/ca.pem"), PathBuf::from("/work/more.pem")]
        );
        assert_eq!(network.ca_file, Some(PathBuf::from("/home/me/only.pem")));
        assert_eq!(
            network.identity,
            Some(ClientIdentity {
                certificate: "/me.pem".into(),
                key: Some("/me.key".into()),
            })
        );
    }

    #[test]
    fn the_variable_of_a_proxy_is_known_for_messages() {
        let proxies = Proxies {
            https: Some("http://a".into()),
            http: None,
            all: Some("http://b".into()),
            exceptions: Some("localhost, .internal.example".into()),
        };
        let variable = |url: &str| proxies.variable_for(&Url::parse(url).unwrap());
        assert_eq!(variable("https://x.example/"), Some("HTTPS_PROXY"));
        assert_eq!(variable("http://x.example/"), Some("ALL_PROXY"));
        assert_eq!(variable("http://localhost:80/"), None);
        assert_eq!(variable("https://deep.internal.example/"), None);
        assert_eq!(variable("https://notlocalhost/"), Some("HTTPS_PROXY"));
        let none = Proxies::default();
        assert_eq!(none.variable_for(&Url::parse("https://x/").unwrap()), None);
    }

    #[test]
    fn what_cannot_be_used_is_named_with_its_variable() {
        let text = |network: Network| {
            let made = network.client(&ClientOptions::default());
            made.unwrap_err().to_string()
        };
        let proxy = text(Network {
            proxies: Proxies {
                all: Some("http://[".into()),
                ..Proxies::default()
            },
            ..Network::default()
        });
        assert!(proxy.contains("ALL_PROXY"), "{proxy}");
        let authority = text(Network {
            ca_file: Some("/nowhere/ca.pem".into()),
            ..Network::default()
        });
        assert!(authority.contains("/nowhere/ca.pem"), "{authority}");
        assert!(authority.contains("SSL_CERT_FILE"), "{authority}");
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        let identity = text(Network {
            identity: Some(ClientIdentity {
                certificate: empty,
                key: None,
            }),
            ..Network::default()
        });
        assert!(identity.contains("CLAUDE_CODE_CLIENT_CERT"), "{identity}");
        assert!(identity.contains("contains no certificate"), "{identity}");
    }
}
