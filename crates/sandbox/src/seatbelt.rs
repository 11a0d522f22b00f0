//! The profile for the sandbox of macOS, as text.

use crate::domains::UnixSockets;
use crate::sandbox_policy::SandboxPolicy;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The program that applies a profile.
pub const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// The words that stand before a command.
pub(crate) fn words(policy: &SandboxPolicy, temporary: &Path) -> Vec<OsString> {
    vec![
        PROGRAM.into(),
        "-p".into(),
        profile(policy, temporary, None).into(),
    ]
}

/// The profile of a policy. Rules that come later count, so the order is that of the tree. `proxy` is the port on this
/// machine that leads out, if there is one.
#[must_use]
pub fn profile(policy: &SandboxPolicy, temporary: &Path, proxy: Option<u16>) -> String {
    let mut text = String::from(
        "(version 1)\n(deny default)\n\
         (allow process-exec)\n(allow process-fork)\n(allow process-info* (target same-sandbox))\n\
         (allow signal (target same-sandbox))\n(allow sysctl-read)\n(allow file-read*)\n\
         (allow file-ioctl (literal \"/dev/tty\") (literal \"/dev/ptmx\") (regex #\"^/dev/ttys[0-9]+$\"))\n\
         (allow pseudo-tty)\n(allow ipc-posix-sem)\n(allow ipc-posix-shm*)\n(allow mach-lookup \
         (global-name \"com.apple.system.opendirectoryd.libinfo\") (global-name \"com.apple.system.logger\") \
         (global-name \"com.apple.SystemConfiguration.configd\"))\n",
    );
    for device in [
        "/dev/null",
        "/dev/zero",
        "/dev/tty",
        "/dev/ptmx",
        "/dev/dtracehelper",
    ] {
        line(&mut text, "allow file-write*", "literal", Path::new(device));
    }
    text.push_str("(allow file-write* (regex #\"^/dev/ttys[0-9]+$\") (subpath \"/dev/fd\"))\n");
    line(&mut text, "allow file-write*", "subpath", temporary);
    let protected = policy.protected.iter().map(|entry| &entry.path);
    let mut entries: Vec<(&Path, &str)> = ruled("allow file-write*", &policy.writable)
        .chain(ruled("deny file-write*", protected))
        .chain(ruled("deny file-read* file-write*", &policy.hidden))
        .chain(ruled("allow file-read*", &policy.shown))
        .collect();
    entries
        .sort_by_key(|(path, rule)| (crate::sandbox_policy::depth(path), rule.starts_with("deny")));
    for (path, rule) in entries {
        line(&mut text, rule, "subpath", path);
    }
    // What holds a protected path can't be renamed either.
    for entry in &policy.protected {
        let roots = &policy.writable;
        let inside = |folder: &&Path| {
            roots
                .iter()
                .any(|root| folder.starts_with(root) && *folder != root)
        };
        for folder in entry.path.ancestors().skip(1).filter(inside) {
            line(&mut text, "deny file-write-unlink", "literal", folder);
        }
    }
    text.push_str("(deny file-write-setugid)\n");
    network(&mut text, policy, proxy);
    text
}

/// Paths that one rule is about.
fn ruled<'a>(
    rule: &'static str,
    paths: impl IntoIterator<Item = &'a PathBuf>,
) -> impl Iterator<Item = (&'a Path, &'static str)> {
    paths.into_iter().map(move |path| (path.as_path(), rule))
}

fn network(text: &mut String, policy: &SandboxPolicy, proxy: Option<u16>) {
    if let Some(port) = proxy {
        let _ = writeln!(
            text,
            "(allow network-outbound (remote ip \"localhost:{port}\"))"
        );
    }
    if !policy.network.no_listening {
        text.push_str("(allow network-bind (local ip \"localhost:*\"))\n(allow network-inbound (local ip \"localhost:*\"))\n");
    }
    match &policy.network.unix_sockets {
        UnixSockets::None => {}
        UnixSockets::All => text.push_str("(allow network-outbound (remote unix-socket))\n"),
        UnixSockets::Listed(paths) => {
            for path in paths {
                let _ = writeln!(
                    text,
                    "(allow network-outbound (remote unix-socket (path-literal {})))",
                    quoted(path)
                );
            }
        }
    }
}

fn line(text: &mut String, rule: &str, kind: &str, path: &Path) {
    let _ = writeln!(text, "({rule} ({kind} {}))", quoted(path));
}

/// A path as a text of the profile's language.
fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox_policy::tests::policy;

    #[test]
    fn the_deepest_rule_comes_last() {
        let text = profile(&policy(), Path::new("/private/tmp/s"), None);
        let position = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("{part} in\n{text}"))
        };
        assert!(text.starts_with("(version 1)\n(deny default)\n"));
        assert!(
            position("(allow file-write* (subpath \"/w\"))")
                < position("(deny file-write* (subpath \"/w/.lathe\"))")
        );
        assert!(
            position("(deny file-write* (subpath \"/w/.lathe\"))")
                < position("(allow file-write* (subpath \"/w/.lathe/worktrees/a\"))")
        );
        assert!(
            position("(deny file-read* file-write* (subpath \"/home/u/.ssh\"))")
                < position("(allow file-read* (subpath \"/home/u/.ssh/known_hosts\"))")
        );
        assert!(position("(deny file-write-unlink (literal \"/w/.git\"))") > 0);
    }

    #[test]
    fn the_network_is_closed_but_for_the_proxy() {
        let mut policy = policy();
        let text = profile(&policy, Path::new("/t"), None);
        assert!(!text.contains("network-outbound"), "{text}");
        let text = profile(&policy, Path::new("/t"), Some(4000));
        assert!(text.contains("(allow network-outbound (remote ip \"localhost:4000\"))"));
        policy.network.no_listening = true;
        policy.network.unix_sockets = UnixSockets::Listed(vec!["/s/agent".into()]);
        let text = profile(&policy, Path::new("/t"), None);
        assert!(!text.contains("network-bind"), "{text}");
        assert!(
            text.contains("(remote unix-socket (path-literal \"/s/agent\"))"),
            "{text}"
        );
    }

    #[test]
    fn no_path_breaks_out_of_its_text() {
        let policy = SandboxPolicy {
            writable: vec!["/w\") (allow default) (\"".into(), "/back\\slash".into()],
            ..SandboxPolicy::default()
        };
        let text = profile(&policy, Path::new("/t"), None);
        assert!(
            text.contains("(subpath \"/w\\\") (allow default) (\\\"\")"),
            "{text}"
        );
        assert!(text.contains("\"/back\\\\slash\""), "{text}");
        assert_eq!(text.matches('(').count(), text.matches(')').count());
    }

    #[test]
    #[cfg(target_os = "macos")]
    #[expect(
        clippy::disallowed_methods,
        reason = "the program that knows the language"
    )]
    fn the_program_takes_the_profile() {
        let text = profile(&policy(), Path::new("/private/tmp"), Some(1));
        let status = std::process::Command::new(PROGRAM)
            .args(["-p", &text, "/usr/bin/true"])
            .status()
            .unwrap();
        assert!(status.success(), "{text}");
    }
}
