//! Which calls run in the sandbox, and in which one.

use crate::call::pipeline::Pipeline;
use lathe_permissions::sandbox;
use lathe_protocol::permission::Subject;
use lathe_shell::analysis::analyse;
use lathe_shell::run::SandboxedRun;
use std::sync::Arc;

impl Pipeline {
    /// The sandbox of a command; `None` runs it outside. By the permissions as they are when it starts.
    pub(super) fn sandbox_of(&self, subject: &Subject) -> Option<Arc<SandboxedRun>> {
        let Subject::Shell {
            command,
            unsandboxed,
            ..
        } = subject
        else {
            return None;
        };
        let context = self.calls.permissions.snapshot();
        if !context.sandbox.bash_sandboxed {
            return None;
        }
        let analysis = analyse(command, context.shell);
        if !context
            .sandbox
            .holds(&analysis, *unsandboxed, &context.home)
        {
            return None;
        }
        let (mut policy, _) = sandbox::policy(&context);
        let session = Arc::clone(self.calls.tools.programs.sandbox.as_ref()?);
        let (calls, network) = (&self.calls, &self.calls.network);
        let masks = network.masks(calls, &session, &mut policy);
        let network = if session.tier().has_proxy() {
            network.way_out(calls, &session, &policy.network, masks.as_ref(), &self.id)
        } else {
            None
        };
        let mut scrubbed = context.sandbox.settings.scrub_environment.clone();
        scrubbed.extend(policy.credential_variables().map(str::to_owned));
        Some(Arc::new(SandboxedRun {
            sandbox: session,
            policy: Arc::new(policy),
            network,
            scrubbed,
            ignored: sandbox::ignored(&context.sandbox.settings, command),
            replaced: masks.map_or_else(Vec::new, |masks| masks.variables.clone()),
        }))
    }

    /// Whether a command that the sandbox stopped may be offered to the user to run outside.
    pub(super) fn may_leave_sandbox(&self) -> bool {
        let context = self.calls.permissions.snapshot();
        !context.sandbox.stays
            && context.mode != lathe_protocol::permission::PermissionMode::DontAsk
    }
}
