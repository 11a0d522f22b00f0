//! The attacks: a name, whether it can be tried without a sandbox, and a script that succeeds if the attack does.

mod files;
mod kernel;
mod network;
mod secrets;
mod settings;

/// An attack.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// It does no harm beyond its own place, and must succeed there.
    pub(crate) control: bool,
    pub(crate) script: &'static str,
}

/// The beginning of scripts in Python.
pub(crate) const PRELUDE: &str = r#"import ctypes,os,sys,socket,fcntl
libc=ctypes.CDLL(None,use_errno=True)
def call(number,*values):
    return libc.syscall(ctypes.c_long(number),*[ctypes.c_long(value) if isinstance(value,int) else value for value in values])
def ok(result):
    sys.exit(0 if result>=0 else 1)
"#;

/// Attacks that Landlock alone does not stop; docs/sandbox.md says so.
pub(crate) const LIMITS_OF_LANDLOCK: &[&str] = &[
    "git-config-alias",
    "git-config-append",
    "git-config-command",
    "git-config-fsmonitor",
    "git-config-remove",
    "git-config-rename",
    "git-config-replace",
    "git-config-hard-link",
    "git-config-descriptor",
    "git-folder-rename",
    "git-folder-replace",
    "git-hook-change",
    "git-hook-mode",
    "git-hook-new",
    "git-hook-remove",
    "git-hooks-copy-over",
    "git-hooks-link",
    "git-hooks-remove",
    "git-hooks-rename",
    "git-commondir-new",
    "git-commondir-rename",
    "git-module-config",
    "git-module-hook",
    "git-module-rename",
    "git-modules-rename",
    "git-worktree-pointer",
    "git-worktree-rename",
    "git-worktree-config",
    "mcp-servers-new",
    "mcp-servers-rename",
    "other-settings-change",
    "other-settings-rename",
    "other-settings-link",
    "other-hooks-new",
    "own-settings-new",
    "own-settings-remove",
    "own-settings-rename",
    "process-descriptors",
    "process-limits",
    "process-priority",
    "secret-list",
    "secret-mode",
    "state-of-sandboxes",
    "write-mode",
    "write-owner",
    "write-times",
    "write-utimes",
    "write-xattr",
    "rights-bounding-admin",
];

const fn case(name: &'static str, control: bool, script: &'static str) -> Case {
    Case {
        name,
        control,
        script,
    }
}

/// All attacks, theme by theme.
pub(crate) fn cases() -> Vec<&'static Case> {
    let themes = [
        files::FILES,
        secrets::SECRETS,
        settings::SETTINGS,
        network::NETWORK,
        kernel::KERNEL,
    ];
    themes.into_iter().flatten().collect()
}
