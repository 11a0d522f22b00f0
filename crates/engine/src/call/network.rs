//! The network of commands in the sandbox: a proxy for each conversation, and its questions about hosts.

use crate::call::CallEnvironment;
use crate::conversation::hook_points::HookPoints;
use crate::conversation::questions::{Answer, HookMay, Questions};
use futures::FutureExt as _;
use lathe_permissions::{PermissionContext, Permissions};
use lathe_protocol::event::{News, NoticeLevel, Priority};
use lathe_protocol::ids::{AgentId, ToolUseId};
use lathe_protocol::permission::{
    Behavior, DecisionReason, NETWORK, PermissionMode, PermissionReply, PermissionRequest,
    PermissionUpdate, RuleSource, RuleValue,
};
use lathe_proxy::{AskHost, HostAnswer, MaskError, Prepared, Proxy, ProxyOptions, Wanted};
use lathe_sandbox::{
    CredentialSource, Host, HostVerdict, NetworkPolicy, Sandbox, SandboxError, SandboxPolicy,
};
use lathe_shell::run::SandboxedNetwork;
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The proxy of a conversation. Started for its first command in the sandbox.
#[derive(Default)]
pub(crate) struct SandboxNetwork {
    proxy: Mutex<Option<Arc<Proxy>>>,
    /// The credentials that commands see, by the settings that it was made for.
    masks: Mutex<Option<(Vec<CredentialSource>, Arc<Prepared>)>>,
}

impl SandboxNetwork {
    /// The way to the network for a command; `None` if there is none.
    pub(super) fn way_out(
        &self,
        calls: &CallEnvironment,
        sandbox: &Sandbox,
        policy: &NetworkPolicy,
        masks: Option<&Arc<Prepared>>,
        call: &ToolUseId,
    ) -> Option<SandboxedNetwork> {
        let masking = masks.map(|masks| Arc::clone(&masks.masking));
        let mut proxy = self.proxy.lock();
        let proxy = match &*proxy {
            Some(proxy) => {
                proxy.set_policy(policy.clone());
                proxy.set_masking(masking);
                Arc::clone(proxy)
            }
            None => {
                let folder = sandbox
                    .socket_folder()
                    .inspect_err(|error| tracing::warn!(%error, "the sandbox has no network"));
                let options = ProxyOptions {
                    folder: folder.ok()?,
                    policy: policy.clone(),
                    ask: Some(asking(calls)),
                    log: Some(calls.permissions.snapshot().config_home.join("sandbox.log")),
                    masking,
                };
                let started = Proxy::start(options)
                    .inspect_err(|error| tracing::warn!(%error, "the sandbox has no network"));
                Arc::clone(proxy.insert(Arc::new(started.ok()?)))
            }
        };
        Some(SandboxedNetwork {
            socket: proxy.socket(),
            name: call.as_str().to_owned(),
            refused: Arc::new(move |name: &str| proxy.take_refused(name)),
        })
    }
}

impl SandboxNetwork {
    /// Takes over what rules and settings say now, for commands that run already.
    pub(crate) fn refresh(&self, context: &PermissionContext) {
        if let Some(proxy) = &*self.proxy.lock() {
            proxy.set_policy(lathe_permissions::sandbox::policy(context).0.network);
        }
    }

    /// Stand-ins for the credentials of a policy; `None` if there are none, or none can be made. The policy then
    /// hides what it can't mask.
    pub(super) fn masks(
        &self,
        calls: &CallEnvironment,
        sandbox: &Sandbox,
        policy: &mut SandboxPolicy,
    ) -> Option<Arc<Prepared>> {
        if policy.credentials.is_empty() {
            return None;
        }
        let mut masks = self.masks.lock();
        let known = masks.as_ref().filter(|(of, _)| *of == policy.credentials);
        let prepared = match known {
            Some((_, prepared)) => Some(Arc::clone(prepared)),
            None if sandbox.tier().has_proxy() => {
                let warn = |text: String| {
                    calls
                        .events
                        .news(News::new(Priority::High), NoticeLevel::Warning, text);
                };
                let made = prepare(calls, sandbox, &policy.credentials);
                let made = made.map_err(|error| warn(error.to_string())).ok();
                for problem in made.iter().flat_map(|made| &made.problems) {
                    warn(format!("sandbox.credentials: {problem}"));
                }
                made.map(Arc::new)
            }
            None => None,
        };
        match &prepared {
            Some(prepared) => {
                policy.masked.extend(prepared.files.iter().cloned());
                policy.hidden.extend(prepared.hidden.iter().cloned());
            }
            None => policy.hide_credentials(),
        }
        *masks = prepared
            .clone()
            .map(|prepared| (policy.credentials.clone(), prepared));
        prepared
    }
}

/// Why there are no stand-ins.
#[derive(Debug, thiserror::Error)]
enum NoMasks {
    #[error(transparent)]
    Mask(#[from] MaskError),
    #[error(transparent)]
    Folder(#[from] SandboxError),
    #[error("credentials can't be masked: {0}")]
    Network(#[from] lathe_net::NetError),
}

fn prepare(
    calls: &CallEnvironment,
    sandbox: &Sandbox,
    sources: &[CredentialSource],
) -> Result<Prepared, NoMasks> {
    let environment = &calls.tools.environment;
    let folder = sandbox.mask_folder()?;
    let tls = lathe_net::Network::of(environment).tls()?;
    let variable = |name: &str| environment.variables.get(name).cloned();
    Ok(lathe_proxy::prepare(sources, variable, &folder, tls)?)
}

/// Who answers questions of a conversation's commands.
struct Asker {
    questions: Arc<Questions>,
    hooks: Arc<HookPoints>,
    permissions: Arc<Permissions>,
    agent_id: Option<AgentId>,
}

/// Asks the answerer of these calls.
fn asking(calls: &CallEnvironment) -> AskHost {
    let asker = Arc::new(Asker {
        questions: Arc::clone(&calls.questions),
        hooks: Arc::clone(&calls.hooks),
        permissions: Arc::clone(&calls.permissions),
        agent_id: calls.agent_id.clone(),
    });
    Arc::new(move |wanted: Wanted| {
        let asker = Arc::clone(&asker);
        async move { answer(&asker, &wanted).await }.boxed()
    })
}

async fn answer(calls: &Asker, wanted: &Wanted) -> HostAnswer {
    match calls.permissions.mode() {
        PermissionMode::BypassPermissions => return HostAnswer::Allow,
        PermissionMode::DontAsk => {
            return HostAnswer::Deny("no rule allows it, and mode dontAsk never asks".to_owned());
        }
        _ => {}
    }
    let questions = &calls.questions;
    let request = question(calls, wanted);
    let cancel = CancellationToken::new();
    let asking = questions.ask(request, &calls.hooks, HookMay::Decide, None, &cancel);
    tokio::pin!(asking);
    let answer = tokio::select! {
        answer = &mut asking => answer,
        () = becomes_allowed(questions.of_session(&calls.permissions), wanted) => {
            // The same host was allowed for good elsewhere, for another agent or in settings.
            cancel.cancel();
            asking.await;
            return HostAnswer::AllowAlways;
        }
    };
    match answer {
        Answer::Reply(PermissionReply::Allow {
            updated_permissions,
            ..
        })
        | Answer::HookReply(PermissionReply::Allow {
            updated_permissions,
            ..
        }) => {
            questions.apply(&updated_permissions, &calls.permissions);
            if updated_permissions.is_empty() {
                HostAnswer::Allow
            } else {
                HostAnswer::AllowAlways
            }
        }
        Answer::Reply(PermissionReply::Deny { message, .. })
        | Answer::HookReply(PermissionReply::Deny { message, .. }) => {
            let said = message.trim();
            HostAnswer::Deny(if said.is_empty() {
                "the user refused".to_owned()
            } else {
                format!("the user refused: {said}")
            })
        }
        Answer::NobodyToAsk | Answer::Withdrawn => {
            HostAnswer::Deny("no rule allows it, and there is no user to ask".to_owned())
        }
    }
}

/// Waits until the rules allow a host.
async fn becomes_allowed(permissions: &Permissions, wanted: &Wanted) {
    let mut changes = permissions.changes();
    loop {
        let policy = lathe_permissions::sandbox::policy(&permissions.snapshot()).0;
        if policy.network.judge(&wanted.host, wanted.port) == HostVerdict::Allowed {
            return;
        }
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

fn question(calls: &Asker, wanted: &Wanted) -> PermissionRequest {
    let reason = DecisionReason::Other {
        reason: format!(
            "a sandboxed command connects to {}, port {}",
            wanted.host, wanted.port
        ),
    };
    let suggestion = match &wanted.host {
        Host::Name(name) => vec![PermissionUpdate::AddRules {
            rules: vec![RuleValue {
                tool_name: "WebFetch".to_owned(),
                rule_content: Some(format!("domain:{name}")),
            }],
            behavior: Behavior::Allow,
            destination: RuleSource::LocalSettings,
        }],
        Host::Address(_) => Vec::new(),
    };
    let input = json!({
        "url": format!("https://{}:{}/", wanted.host, wanted.port),
        "prompt": "A sandboxed command connects to this host.",
    });
    PermissionRequest {
        permission_suggestions: suggestion,
        decision_reason: Some(reason.text()),
        decision_reason_type: Some(reason.kind().to_owned()),
        display_name: Some(NETWORK.to_owned()),
        title: Some(format!("Reach {}", wanted.host)),
        agent_id: calls.agent_id.clone(),
        ..PermissionRequest::new("WebFetch", input, ToolUseId::from(wanted.command.clone()))
    }
}
