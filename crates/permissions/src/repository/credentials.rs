//! Passwords and tokens in git's configuration: an address with a name in it, a header for every request.
//!
//! `git remote -v` and `git config --list` show them. They pass without a question where there is nothing to show.

use super::config::ConfigEntry;
use super::obeyed::{ConfigFile, config_files};
use std::path::{Path, PathBuf};

/// Whether the words after `git` and its options show values of the configuration that can hold a password.
pub(crate) fn shows_configuration(words: &[&str]) -> bool {
    match words {
        ["config", rest @ ..] => {
            let names: Vec<&str> = rest
                .iter()
                .copied()
                .filter(|word| !word.starts_with('-') && *word != "get")
                .collect();
            let lists = rest.iter().any(|word| {
                matches!(*word, "-l" | "list" | "--list" | "--regexp")
                    || word.starts_with("--get-regexp")
                    || word.starts_with("--get-urlmatch")
            });
            lists || names.is_empty() || names.iter().any(|name| may_hold(name))
        }
        ["remote", rest @ ..] => !rest.is_empty(),
        ["var", ..] => true,
        ["ls-remote", rest @ ..] => rest.contains(&"--get-url"),
        _ => false,
    }
}

/// Whether a setting can hold a password or a token.
fn may_hold(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    [
        "header", "cookie", "pass", "token", "secret", "key", "url", "proxy", "helper", "auth",
    ]
    .iter()
    .any(|word| lower.contains(word))
}

/// The file of the configuration of a folder's repository, or of the user, that holds a password or a token, or that
/// can't be read.
pub(crate) fn file_with_credentials(folder: &Path, home: &Path) -> Option<PathBuf> {
    let suspicious = |file: &ConfigFile| {
        let entries = file.entries.as_ref();
        entries.is_none_or(|entries| entries.iter().any(is_credential))
    };
    let mut files = config_files(folder, home).into_iter();
    files.find(suspicious).map(|file| file.path)
}

/// Why a file is a secret as the configuration of a repository that holds a password or a token.
pub(crate) fn secret_configuration(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let is_configuration = ["config", "config.worktree"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known));
    if !is_configuration || !file.parent()?.join("HEAD").exists() {
        return None;
    }
    let text = lathe_settings::regular_file::read_text(file).ok()?;
    let holds = match super::config::parse(text.strip_prefix('\u{feff}').unwrap_or(&text)) {
        Some(entries) => entries.iter().any(is_credential),
        None => true,
    };
    holds.then(|| format!("`{}` holds a password or a token of git's", file.display()))
}

/// Whether a setting is a password, a token, or an address with one.
fn is_credential(entry: &ConfigEntry) -> bool {
    let names_one = ["extraheader", "password", "pass", "token", "oauthtoken"]
        .iter()
        .any(|name| entry.key.ends_with(name));
    let with_user = |text: &str| {
        text.match_indices("://").any(|(at, _)| {
            let is_web = text.get(..at).is_some_and(|scheme| {
                scheme.ends_with("http") || scheme.ends_with("https") || scheme.ends_with("socks5")
            });
            let after = text.get(at + 3..).unwrap_or_default();
            let host = after.split(['/', '?', '#', ' ']).next().unwrap_or(after);
            let user = host.rsplit_once('@').map(|(user, _)| user);
            user.is_some_and(|user| is_web || user.contains(':'))
        })
    };
    names_one || with_user(&entry.value) || entry.subsection.as_deref().is_some_and(with_user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_configurations_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let project = folder.path().join("project");
        std::fs::create_dir_all(project.join(".git")).unwrap();
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(project.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let held = |text: &str| {
            std::fs::write(project.join(".git/config"), text).unwrap();
            file_with_credentials(&project, &home).is_some()
        };
        for text in [
            "[remote \"origin\"]\nurl = https://me:word@example.com/x\n",
            "[remote \"origin\"]\nurl = https://ghp_word@github.com/x\n",
            "[http \"https://github.com/\"]\nextraheader = AUTHORIZATION: basic eA==\n",
            "[url \"https://me:word@example.com/\"]\ninsteadOf = https://example.com/\n",
            "[http]\nproxy = http://me:word@proxy:80\n",
            "[sendemail]\nsmtpPass = word\n",
            "not a configuration",
        ] {
            assert!(held(text), "{text}");
        }
        for text in [
            "[remote \"origin\"]\nurl = git@github.com:a/b.git\n",
            "[remote \"origin\"]\nurl = ssh://git@github.com/a/b\n",
            "[remote \"origin\"]\nurl = https://github.com/a/b\n",
            "[credential]\nhelper = store\n",
        ] {
            assert!(!held(text), "{text}");
        }
        std::fs::write(home.join(".gitconfig"), "[include]\npath = more\n").unwrap();
        std::fs::write(home.join("more"), "[http]\nextraHeader = X: y\n").unwrap();
        assert!(held("[core]\nbare = false\n"), "an included file");
    }

    #[test]
    fn what_shows_values_is_known() {
        for words in [
            &["config", "-l"][..],
            &["config", "list"],
            &["config", "--get-regexp", "."],
            &["config", "--get", "http.extraheader"],
            &["config", "get", "remote.origin.url"],
            &["remote", "-v"],
            &["remote", "get-url", "origin"],
            &["var", "-l"],
        ] {
            assert!(shows_configuration(words), "{words:?}");
        }
        for words in [
            &["config", "--get", "user.name"][..],
            &["config", "user.email"],
            &["remote"],
            &["status"],
        ] {
            assert!(!shows_configuration(words), "{words:?}");
        }
    }
}
