//! Sandbox settings applied to the tools that read and write files themselves.
//!
//! Commands are held by the kernel; these tools are held here, by the same lists: what may not be read or written is
//! refused, whatever rules allow, and what may be written counts as a place to work in.

use super::{SandboxFacts, path_of, real};
use crate::context::PermissionContext;
use lathe_protocol::permission::DecisionReason;
use std::path::{Path, PathBuf};

/// Paths of the settings, absolute and with links followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds {
    unreadable: Vec<PathBuf>,
    readable: Vec<PathBuf>,
    unwritable: Vec<PathBuf>,
    /// Further places that may be written.
    pub(crate) writable: Vec<PathBuf>,
    /// Files whose content commands don't see either.
    credentials: Vec<PathBuf>,
}

impl Bounds {
    /// The bounds of settings; none where the sandbox is off.
    fn of(facts: &SandboxFacts, context: &PermissionContext) -> Self {
        if !facts.binds {
            return Self::default();
        }
        let resolve = |texts: &[String]| -> Vec<PathBuf> {
            let paths = texts.iter().map(|text| real(&path_of(text, context)));
            paths.collect()
        };
        let files = facts.settings.filesystem.clone().unwrap_or_default();
        let credentials = facts.settings.credentials.iter();
        let credentials = credentials.flat_map(|it| it.files.iter());
        let unwritable = resolve(&files.deny_write);
        let opened =
            |texts, key| super::opened(texts, key, &facts.settings, context, &mut Vec::new());
        let mut writable = opened(&files.allow_write, "allowWrite");
        writable.retain(|path| !unwritable.iter().any(|denied| path.starts_with(denied)));
        Self {
            unreadable: resolve(&files.deny_read),
            readable: opened(&files.allow_read, "allowRead"),
            unwritable,
            writable,
            credentials: credentials
                .map(|file| real(&path_of(file.path(), context)))
                .collect(),
        }
    }

    /// Why a path may not be read, if so. What is allowed deeper in a denied folder may be.
    pub(crate) fn refuse_reading(&self, path: &Path) -> Option<DecisionReason> {
        if self.credentials.iter().any(|file| file == path) {
            return Some(reason(path, "sandbox.credentials masks it"));
        }
        let denied = deepest(&self.unreadable, path)?;
        match deepest(&self.readable, path) {
            Some(allowed) if allowed > denied => None,
            _ => Some(reason(path, "sandbox.filesystem.denyRead names it")),
        }
    }

    /// Why a path may not be written, if so.
    pub(crate) fn refuse_writing(&self, path: &Path) -> Option<DecisionReason> {
        if deepest(&self.unwritable, path).is_some() {
            return Some(reason(path, "sandbox.filesystem.denyWrite names it"));
        }
        self.refuse_reading(path)
    }
}

fn reason(path: &Path, why: &str) -> DecisionReason {
    DecisionReason::Other {
        reason: format!("`{}` is out of bounds: {why}", path.display()),
    }
}

/// The depth of the deepest entry that holds a path.
fn deepest(entries: &[PathBuf], path: &Path) -> Option<usize> {
    let holding = entries.iter().filter(|entry| path.starts_with(entry));
    holding.map(|entry| entry.components().count()).max()
}

impl PermissionContext {
    /// Takes over what is known about the sandbox.
    pub fn set_sandbox(&mut self, mut facts: SandboxFacts) {
        facts.bounds = Bounds::of(&facts, self);
        self.sandbox = facts;
    }
}

#[cfg(test)]
mod tests {
    use crate::context::{CallFacts, resolve};
    use crate::sandbox::{SandboxFacts, Wish};
    use crate::{PermissionContext, decide};
    use lathe_protocol::permission::{Behavior, Decision, PermissionMode, Subject};
    use lathe_sandbox::Tier;
    use serde_json::json;

    fn place(wish: Wish) -> (tempfile::TempDir, PermissionContext) {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["project/closed", "home/out", "home/private/open"] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        for name in ["home/private/x", "home/private/open/x", "home/token"] {
            std::fs::write(base.join(name), "x").unwrap();
        }
        let (project, home) = (base.join("project"), base.join("home"));
        let mut context = PermissionContext::new(&project, &home, &home.join(".lathe"));
        context.mode = PermissionMode::AcceptEdits;
        let settings = serde_json::from_value(json!({
            "filesystem": {"allowWrite": ["~/out"], "denyWrite": ["closed"],
                "denyRead": ["~/private"], "allowRead": ["~/private/open"]},
            "credentials": {"files": ["~/token"]},
        }));
        context.set_sandbox(SandboxFacts::new(&settings.unwrap(), wish, Tier::None));
        (folder, context)
    }

    fn decided(context: &PermissionContext, tool: &str, path: &str) -> Behavior {
        let base = context.home.parent().unwrap();
        let paths = vec![base.join(path)];
        let subject = match tool {
            "Read" => Subject::Read { paths },
            _ => Subject::Write { paths },
        };
        let call = CallFacts {
            tool_name: tool,
            aliases: &[],
            input: &serde_json::Value::Null,
            subject: &subject,
            read_only: tool == "Read",
            resolved: resolve(&subject, context),
        };
        match decide(&call, context) {
            Decision::Allow { .. } => Behavior::Allow,
            Decision::Deny { .. } => Behavior::Deny,
            Decision::Ask { .. } => Behavior::Ask,
        }
    }

    #[test]
    fn file_tools_are_held_by_the_lists_of_the_sandbox_on_any_machine() {
        let (_folder, context) = place(Wish::Default);
        for (tool, path, wanted) in [
            ("Read", "home/private/x", Behavior::Deny),
            ("Edit", "home/private/x", Behavior::Deny),
            ("Read", "home/token", Behavior::Deny),
            ("Read", "home/private/open/x", Behavior::Ask),
            ("Edit", "project/closed/x", Behavior::Deny),
            ("Write", "project/closed/x", Behavior::Deny),
            ("Write", "project/x", Behavior::Allow),
            ("Write", "home/out/x", Behavior::Allow),
            ("Read", "home/out/x", Behavior::Allow),
            ("Write", "home/x", Behavior::Ask),
        ] {
            assert_eq!(decided(&context, tool, path), wanted, "{tool} {path}");
        }
        let (_folder, context) = place(Wish::Off);
        assert_eq!(
            decided(&context, "Write", "project/closed/x"),
            Behavior::Allow
        );
        assert_eq!(decided(&context, "Write", "home/out/x"), Behavior::Ask);
    }

    #[test]
    fn a_link_does_not_lead_around_the_lists() {
        let (_folder, context) = place(Wish::On);
        let (home, project) = (&context.home, &context.roots[0]);
        std::os::unix::fs::symlink(home.join("private/x"), project.join("link")).unwrap();
        std::os::unix::fs::symlink(project.join("closed"), project.join("other")).unwrap();
        assert_eq!(decided(&context, "Read", "project/link"), Behavior::Deny);
        assert_eq!(
            decided(&context, "Write", "project/other/x"),
            Behavior::Deny
        );
    }
}
