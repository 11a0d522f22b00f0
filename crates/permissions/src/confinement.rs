//! The confinement of commands that pass because they only read.
//!
//! The decision trusts the analyser's tables there; the kernel doesn't have to. A command that a rule,
//! a mode, a hook or the user let pass is not confined: somebody vouched for it.

mod hidden;

use crate::context::{CallFacts, PermissionContext};
use lathe_protocol::permission::{Decision, DecisionReason, PermissionMode, Subject};
use lathe_sandbox::{ReadOnlyPolicy, repository_folders};
use lathe_shell::analysis::{Obeys, Part};
use std::path::Path;

/// Programs whose reading commands ask a service, with what each of them reads in the home folder to
/// do so.
const CLIENTS: &[(&str, &[&str])] = &[
    ("gh", &[".config/gh"]),
    ("glab", &[".config/glab-cli"]),
    ("kubectl", &[".kube"]),
    ("helm", &[".kube", ".config/helm", ".cache/helm"]),
    ("docker", &[".docker"]),
    ("podman", &[".config/containers", ".local/share/containers"]),
    ("npm", &[".npmrc", ".npm"]),
    ("pnpm", &[".npmrc", ".config/pnpm"]),
    ("yarn", &[".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn"]),
    ("pip", &[".config/pip", ".pip"]),
    ("pip3", &[".config/pip", ".pip"]),
    ("uv", &[".config/uv", ".cache/uv"]),
    ("systemctl", &[]),
    ("journalctl", &[]),
    ("ping", &[]),
    ("dig", &[]),
    ("host", &[]),
    ("nslookup", &[]),
    ("ip", &[]),
    ("ss", &[]),
    ("netstat", &[]),
];

/// Sub-commands of git that ask another repository.
const REMOTE_GIT: &[&str] = &["ls-remote"];

/// The policy for a command that passes because it only reads; `None` if it isn't confined.
#[must_use]
pub fn confinement(
    call: &CallFacts<'_>,
    decision: &Decision,
    context: &PermissionContext,
) -> Option<ReadOnlyPolicy> {
    let Subject::Shell {
        cwd, unsandboxed, ..
    } = call.subject
    else {
        return None;
    };
    let by_itself = matches!(
        decision,
        Decision::Allow {
            reason: DecisionReason::Other { .. }
                | DecisionReason::WorkingDirectory { .. }
                | DecisionReason::SubcommandResults { .. }
        }
    );
    let analysis = call.resolved.analysis()?;
    if !by_itself
        || context.mode == PermissionMode::BypassPermissions
        || context.sandbox.holds(analysis, *unsandboxed, &context.home)
    {
        return None;
    }
    let mut policy = ReadOnlyPolicy::default();
    let roots = context.roots.iter();
    policy.readable.extend(
        roots
            .chain(&context.files.session_paths)
            .chain(&context.files.readable_paths)
            .cloned(),
    );
    policy.readable.extend(repository_folders(cwd));
    policy
        .readable
        .extend(call.resolved.judged().map(Path::to_path_buf));
    for part in &analysis.parts {
        admit(part, cwd, &mut policy, &context.home);
    }
    policy.readable.sort();
    policy.readable.dedup();
    let uses_git = analysis
        .parts
        .iter()
        .any(|part| matches!(part.obeys, Obeys::Repository | Obeys::RepositoryOnly));
    if uses_git {
        policy.git_attributes = hidden::git_attributes(&context.home);
    }
    if !analysis.parts.iter().any(may_open_any_file) {
        let named: Vec<&Path> = call.resolved.judged().collect();
        policy.hidden = hidden::secrets(context, &named);
    }
    Some(policy)
}

/// Whether a part may open every file that it comes across, without showing what is in it.
fn may_open_any_file(part: &Part) -> bool {
    let name = part
        .effective_argv
        .first()
        .and_then(|word| word.fixed())
        .unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or(name);
    part.obeys != Obeys::Nothing
        || matches!(name, "wc" | "file" | "tokei" | "scc" | "xargs" | "find")
}

/// Adds what one part of a command needs.
fn admit(part: &Part, cwd: &Path, policy: &mut ReadOnlyPolicy, home: &Path) {
    let mut words = part.effective_argv.iter().map(|word| word.fixed());
    let Some(program) = words.next().flatten() else {
        return;
    };
    if program.contains('/') {
        policy.executable.push(cwd.join(program));
    }
    let name = program.rsplit('/').next().unwrap_or(program);
    if let Some((_, files)) = CLIENTS.iter().find(|(client, _)| *client == name) {
        policy.network = true;
        policy
            .readable
            .extend(files.iter().map(|file| home.join(file)));
    }
    if name == "git" && words.flatten().any(|word| REMOTE_GIT.contains(&word)) {
        policy.network = true;
        policy.readable.push(home.join(".ssh/known_hosts"));
    }
}
