//! Programs of a session that are no commands, in the sandbox: language servers, and servers and hooks that ask for it.
//!
//! They get the policy of commands. Nobody is asked about hosts: a server starts when nobody looks, so it reaches what
//! rules allow.

use lathe_permissions::Permissions;
use lathe_permissions::sandbox::policy;
use lathe_process::{Command, Confine};
use lathe_proxy::{Proxy, ProxyOptions};
use lathe_sandbox::{NetworkPolicy, Request, Sandbox, SandboxError};
use lathe_settings::environment::looks_secret;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;

/// The confinement of programs.
struct Place {
    sandbox: Arc<Sandbox>,
    permissions: Arc<Permissions>,
    proxy: Mutex<Option<Proxy>>,
}

/// Puts programs into the sandbox while commands run there; `None` if the program can't make one.
pub(crate) fn confine(
    sandbox: Option<&Arc<Sandbox>>,
    permissions: &Arc<Permissions>,
) -> Option<Confine> {
    let place = Place {
        sandbox: Arc::clone(sandbox?),
        permissions: Arc::clone(permissions),
        proxy: Mutex::default(),
    };
    Some(Arc::new(move |command| place.confine(command)))
}

impl Place {
    fn confine(&self, command: Command) -> Result<Command, SandboxError> {
        let context = self.permissions.snapshot();
        if !context.sandbox.bash_sandboxed {
            // Switched off by the user: nothing is confined. Wanted and not to be had: who asked for it is refused.
            return if context.sandbox.binds && !self.sandbox.tier().confines() {
                Err(SandboxError::Unavailable {
                    reasons: self.sandbox.status().missing.join("; "),
                })
            } else {
                Ok(command)
            };
        }
        let (mut policy, _) = policy(&context);
        policy.hide_credentials();
        let scrubbed: Vec<String> = policy.credential_variables().map(str::to_owned).collect();
        let directory = command.working_directory().unwrap_or(&context.cwd);
        let directory = directory.to_path_buf();
        let socket = self.socket(&policy.network);
        let request = Request {
            directory: &directory,
            files: &[],
            keeps: &[],
            terminal: false,
            proxy: socket.as_deref().map(|socket| (socket, "service")),
        };
        let wrapping = Arc::new(self.sandbox.wrap(&policy, &request)?);
        Ok(command
            .without_variables(|name| {
                looks_secret(name) || scrubbed.iter().any(|scrubbed| scrubbed == name)
            })
            .sandboxed(&wrapping))
    }

    /// The way to the hosts that rules allow.
    fn socket(&self, policy: &NetworkPolicy) -> Option<PathBuf> {
        if !self.sandbox.tier().has_proxy() {
            return None;
        }
        let mut proxy = self.proxy.lock();
        if let Some(proxy) = &*proxy {
            proxy.set_policy(policy.clone());
            return Some(proxy.socket());
        }
        let log = self.permissions.snapshot().config_home.join("sandbox.log");
        let folder = self.sandbox.socket_folder().ok()?;
        let started = Proxy::start(ProxyOptions {
            folder,
            policy: policy.clone(),
            ask: None,
            log: Some(log),
            masking: None,
        });
        let started = started
            .inspect_err(|error| tracing::warn!(%error, "servers in the sandbox have no network"));
        Some(proxy.insert(started.ok()?).socket())
    }
}
