//! The only way from the sandbox to the network.
//!
//! A [`Proxy`] listens on a unix socket, which is visible in a sandbox and nowhere leads but here. It speaks HTTP
//! (`CONNECT`, and requests for whole addresses) and SOCKS5. A host is judged by its name as it was asked for
//! ([`NetworkPolicy`]); a host that no rule names is asked about, once for everybody who waits for it. Names are looked
//! up here, and the connection goes to an address that was checked: private ones are refused, whatever name leads there.
//!
//! | module | its part |
//! |---|---|
//! | `http` | reads the head of a request strictly, and writes it again |
//! | `socks` | the few messages of SOCKS5 |
//! | `reach` | judges, asks, looks up and connects |
//! | `serve` | connections, from the greeting to their end |
//! | `credentials`, `masking` | what commands see of credentials, and how a header gets the real one |
//! | `authority`, `der`, `terminate` | TLS connections to hosts that credentials are for |
#![forbid(unsafe_code)]

mod authority;
mod credentials;
mod der;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod http;
mod masking;
mod reach;
mod serve;
mod socks;
mod terminate;

pub use authority::AuthorityError;
pub use credentials::{MaskError, Prepared, prepare};
pub use masking::{Credential, Masking, Unmaskable};

use futures::future::BoxFuture;
use lathe_sandbox::{Host, NetworkPolicy, Violation};
use parking_lot::{Mutex, RwLock};
use reach::Waiting;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::UnixListener;
use tokio_util::task::AbortOnDropHandle;

/// A host that somebody wants to reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
    /// The command that wants it, by the name that it was started with.
    pub command: String,
}

/// The answer about a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostAnswer {
    /// It may be reached now.
    Allow,
    /// It may be reached from now on.
    AllowAlways,
    /// It may not, for this reason.
    Deny(String),
}

/// Answers questions about hosts that no rule names.
pub type AskHost = Arc<dyn Fn(Wanted) -> BoxFuture<'static, HostAnswer> + Send + Sync>;

/// How a proxy is set up.
pub struct ProxyOptions {
    /// Where its socket is: a folder with a short path that only this user can enter.
    pub folder: PathBuf,
    /// The rules to begin with.
    pub policy: NetworkPolicy,
    /// Who is asked; `None` refuses every host that no rule names.
    pub ask: Option<AskHost>,
    /// Where it is written down what was wanted.
    pub log: Option<PathBuf>,
    /// Credentials that commands use without seeing them.
    pub masking: Option<Arc<Masking>>,
}

/// A running proxy. Dropped, it and its connections end.
pub struct Proxy {
    shared: Arc<Shared>,
    socket: PathBuf,
    _task: AbortOnDropHandle<()>,
}

/// State shared by the connections.
struct Shared {
    policy: RwLock<Arc<NetworkPolicy>>,
    ask: Option<AskHost>,
    log: Option<PathBuf>,
    masking: RwLock<Option<Arc<Masking>>>,
    /// Refusals, by command.
    refused: Mutex<HashMap<String, Vec<Violation>>>,
    /// Questions that are being asked, and who waits for the answer.
    waiting: Mutex<Waiting>,
}

/// Why there is no proxy.
#[derive(Debug, thiserror::Error)]
#[error("the proxy of the sandbox can't be started: {0}")]
pub struct ProxyError(#[from] io::Error);

/// Tells the sockets of one folder apart.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Proxy {
    /// Starts a proxy, on the current runtime.
    ///
    /// # Errors
    /// If its socket can't be made.
    pub fn start(options: ProxyOptions) -> Result<Self, ProxyError> {
        let name = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = options.folder.join(format!("proxy-{name}"));
        let listener = UnixListener::bind(&socket)?;
        let shared = Arc::new(Shared {
            policy: RwLock::new(Arc::new(options.policy)),
            ask: options.ask,
            log: options.log,
            masking: RwLock::new(options.masking),
            refused: Mutex::default(),
            waiting: Mutex::default(),
        });
        let task = lathe_spawn::task(serve::listen(listener, Arc::clone(&shared)));
        Ok(Self {
            shared,
            socket,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// The socket that it listens on.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.socket.clone()
    }

    /// Changes the rules. Connections that stand are not touched.
    pub fn set_policy(&self, policy: NetworkPolicy) {
        *self.shared.policy.write() = Arc::new(policy);
    }

    /// Changes the credentials that commands use without seeing them.
    pub fn set_masking(&self, masking: Option<Arc<Masking>>) {
        *self.shared.masking.write() = masking;
    }

    /// The refusals of a command since the last call.
    #[must_use]
    pub fn take_refused(&self, command: &str) -> Vec<Violation> {
        self.shared
            .refused
            .lock()
            .remove(command)
            .unwrap_or_default()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Gone already if its folder is.
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// The lines of a log, newest last, as they were written.
///
/// # Errors
/// If it can't be read. A log that was never written is empty.
pub fn read_log(path: &Path) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}
