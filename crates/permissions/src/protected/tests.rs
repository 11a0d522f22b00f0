//! Tests of protected paths.

use super::*;

fn own(session_paths: &[PathBuf]) -> OwnPlaces<'_> {
    OwnPlaces {
        config_homes: [Path::new("/h/.lathe"); 2],
        session_paths,
        sockets: Some(Path::new("/run/user/1/lathe")),
    }
}

fn is_protected(path: &str) -> bool {
    let session_paths = [PathBuf::from("/h/.lathe/plans/p.md")];
    protected(Path::new(path), own(&session_paths)).is_some()
}

#[test]
fn writes_that_change_what_runs_are_protected() {
    for path in [
        "/p/.lathe/settings.json",
        "/p/.claude/settings.local.json",
        "/p/sub/.claude/skills/x/SKILL.md",
        "/p/.claude/commands/x.md",
        "/p/.lathe/hooks/x.sh",
        "/p/.lathe/worktrees",
        "/p/.lathe/worktrees/a",
        "/p/.lathe/worktrees/a/.lathe/settings.json",
        "/p/.lathe/worktrees/a/.git/hooks/pre-commit",
        "/h/.lathe/settings.json",
        "/p/.mcp.json",
        "/p/.latheignore",
        "/p/.git/hooks/pre-commit",
        "/p/.git/config",
        "/p/.git/modules/x/hooks/post-checkout",
        "/p/.git/worktrees/a/config.worktree",
        "/p/.GIT/Hooks/pre-commit",
        "/h/.gitconfig",
        "/h/.config/git/config",
        "/p/.git",
        "/h/.bashrc",
        "/h/.zshenv",
        "/h/.config/fish/config.fish",
        "/etc/profile.d/x.sh",
        "/h/.profile",
        "/h/.ssh/authorized_keys",
        "/h/.aws/credentials",
        "/h/.config/gcloud/x",
        "/h/.kube/config",
        "/h/.netrc",
        "/run/user/1/lathe/3f2a9c01b7de.sock",
        "/h/.lathe/server/devices.json",
        "/p/GIT~1/hooks",
        "/p/x::$DATA",
        "/p/x.",
        "/p/NUL",
        "/p/com1.txt",
    ] {
        assert!(is_protected(path), "{path}");
    }
}

#[test]
fn ordinary_writes_are_not() {
    for path in [
        "/p/src/main.rs",
        "/p/.gitignore",
        "/p/.github/workflows/x.yml",
        "/p/.git/info/exclude",
        "/p/CLAUDE.md",
        "/p/config",
        "/p/hooks/useThing.ts",
        "/p/.envrc.md",
        "/h/.lathe/plans/p.md",
        "/p/.lathe/worktrees/a/src/main.rs",
        "/p/profile.md",
        "/p/console.log",
        "/p/a~b.txt",
        "/p/common.rs",
        "/p/notes~",
        "/p/etc/hosts",
        "/p/git/hooks/x",
    ] {
        assert!(!is_protected(path), "{path}");
    }
}

fn is_secret(path: &str) -> bool {
    secret(Path::new(path), own(&[])).is_some()
}

#[test]
fn keys_passwords_and_profiles_are_secrets() {
    for path in [
        "/p/.env",
        "/p/.env.local",
        "/p/.envrc",
        "/p/sub/.ENV.production",
        "/h/.ssh/id_rsa",
        "/h/.ssh/config",
        "/h/.ssh",
        "/h/.aws/credentials",
        "/h/.gnupg/x",
        "/p/server.pem",
        "/p/tls.key",
        "/p/id_ed25519",
        "/h/.local/share/keyrings/x",
        "/h/.mozilla/firefox/x",
        "/h/.config/google-chrome/Default/Cookies",
        "/h/Library/Application Support/Google/Chrome/x",
        "/etc/shadow",
        "/proc/self/environ",
        "/proc/1/environ",
        "/h/.netrc",
        "/h/.git-credentials",
        "/h/.lathe/credentials.json",
        "/h/.lathe/server/devices.json",
        "/h/.lathe/server/codes/x",
        "/h/.lathe/run/3f2a9c01b7de.json",
        "/run/user/1/lathe/3f2a9c01b7de.lock",
    ] {
        assert!(is_secret(path), "{path}");
    }
}

#[test]
fn templates_public_keys_and_code_are_not() {
    for path in [
        "/p/.env.example",
        "/p/.env.local.sample",
        "/p/env.ts",
        "/p/src/environment.rs",
        "/h/id_rsa.pub",
        "/p/keys.ts",
        "/p/key",
        "/p/.key",
        "/etc/passwd",
        "/proc/cpuinfo",
        "/p/mozilla/x",
        "/p/README.md",
    ] {
        assert!(!is_secret(path), "{path}");
    }
}

#[test]
fn a_project_adds_its_own_secrets() {
    let (ignore, problems) = IgnoreFile::of_text(
        Path::new("/p"),
        "# x\nprivate/\n*.sql\n!public.sql\n/only-top\n",
    );
    assert!(problems.is_empty());
    assert!(ignore.names(Path::new("/p/private/x")));
    assert!(ignore.names(Path::new("/p/a/private/b/c")));
    assert!(ignore.names(Path::new("/p/dump.sql")));
    assert!(!ignore.names(Path::new("/p/public.sql")));
    assert!(!ignore.names(Path::new("/p/a/only-top")));
    assert!(!ignore.names(Path::new("/q/dump.sql")));
    assert!(!ignore.names(Path::new("/p")));
}
#[test]
fn ignore_files_of_other_programs_count_or_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = crate::path::real_folder(folder.path());
    std::fs::write(root.join(".cursorignore"), "keys/\n*.pem\n").unwrap();
    std::fs::write(root.join(".latheignore"), "!public.pem\n").unwrap();
    std::fs::write(root.join(".geminiignore"), "node_modules/\n").unwrap();
    let (ignore, problems) = IgnoreFile::load(&root);
    let ignore = ignore.unwrap();
    assert!(ignore.names(&root.join("keys/a")));
    assert!(ignore.names(&root.join("x.pem")));
    assert!(!ignore.names(&root.join("public.pem")));
    assert!(!ignore.names(&root.join("node_modules/x")));
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains(".geminiignore"), "{problems:?}");
}
