//! Taking secrets and private names out of a text that leaves the machine.
//!
//! Keys and tokens are known by their form, values by the name before them (`API_KEY=…`), and the home folder by its
//! path. It is a net, not a proof: the text should still be read before it is published.

use crate::load::Loaded;
use crate::store::SessionInfo;
use lathe_protocol::record::Record;
use regex::Regex;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// The mark in the place of something that was taken out.
const HIDDEN: &str = "[hidden]";

static SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // Private keys.
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\]*(-----END [A-Z ]*PRIVATE KEY-----)?",
        // Keys and tokens that begin with a mark of their issuer.
        r"\b(sk|pk|rk)[-_][A-Za-z0-9_-]{16,}",
        r"\b(gh[pousr]|github_pat|glpat|xox[abprs]|npm|pypi|dop_v1|hf)[-_][A-Za-z0-9_-]{16,}",
        r"\b(AKIA|ASIA)[0-9A-Z]{16}\b",
        r"\bAIza[0-9A-Za-z_-]{30,}",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
        // Addresses of people.
        r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b",
    ]
    .into_iter()
    .filter_map(|pattern| Regex::new(pattern).ok())
    .collect()
});

/// A value behind a name or a word that says that it is secret; the first group is kept.
static NAMED: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r#"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}"#,
        r#"(?i)(["']?\b[A-Za-z0-9_]*(?:api_?key|secret|token|passw(?:or)?d|credential)[A-Za-z0-9_]*\\?["']?\s*[:=]\s*\\?["']?)[^\s"'\\,;(){}]{6,}"#,
        r"(?i)(\b[a-z][a-z0-9+.-]*://[^\s/:@]+:)[^\s/@]+@",
    ]
    .into_iter()
    .filter_map(|pattern| Regex::new(pattern).ok())
    .collect()
});

/// True if a text holds what looks like a private key, or a key or token with the mark of its issuer.
#[must_use]
pub fn has_secret(text: &str) -> bool {
    // The last pattern is for addresses of people.
    SECRETS
        .iter()
        .rev()
        .skip(1)
        .any(|secret| secret.is_match(text))
}

/// The text without secrets, addresses of people and the path of the home folder.
#[must_use]
pub fn sanitize(text: &str, home: Option<&Path>) -> String {
    let mut text = text.to_owned();
    for secret in SECRETS.iter() {
        text = secret.replace_all(&text, HIDDEN).into_owned();
    }
    for (index, named) in NAMED.iter().enumerate() {
        let with = if index == 2 {
            format!("${{1}}{HIDDEN}@")
        } else {
            format!("${{1}}{HIDDEN}")
        };
        text = named.replace_all(&text, with.as_str()).into_owned();
    }
    if let Some(home) = home.and_then(Path::to_str).filter(|home| home.len() > 1) {
        text = text.replace(home, "~");
    }
    text
}

/// A name whose value is secret.
static SECRET_NAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)(api_?key|secret|(^|_)token$|passw(or)?d|credential|authorization)").ok()
});

/// Sanitizes every text in a value; a text under a name that says so is hidden as a whole.
pub fn sanitize_value(value: &mut Value, home: Option<&Path>) {
    match value {
        Value::String(text) => *text = sanitize(text, home),
        Value::Array(items) => items.iter_mut().for_each(|item| sanitize_value(item, home)),
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                let is_secret = SECRET_NAME.as_ref().is_some_and(|it| it.is_match(name));
                match value {
                    Value::String(text) if is_secret => HIDDEN.clone_into(text),
                    value => sanitize_value(value, home),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The folder of a project under another name: as a path, and in the names that are made from it.
struct Project(Vec<(String, &'static str)>);

impl Project {
    fn new(folder: Option<&Path>, home: Option<&Path>) -> Self {
        let folder = folder.filter(|folder| folder.components().count() > 1);
        let Some(folder) = folder.filter(|folder| Some(*folder) != home) else {
            return Self(Vec::new());
        };
        let path = folder.to_string_lossy().into_owned();
        let name = crate::paths::project_key(folder);
        Self(vec![(path, "/project"), (name, "-project")])
    }

    fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (known, shown) in &self.0 {
            text = text.replace(known, shown);
        }
        text
    }

    fn hide_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.hide(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item)),
            Value::Object(fields) => {
                let renamed = std::mem::take(fields).into_iter();
                *fields = renamed
                    .map(|(name, value)| (self.hide(&name), value))
                    .collect();
                fields.values_mut().for_each(|value| self.hide_in(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// A session for an export that leaves the machine. Its folder is `/project` there.
#[must_use]
pub fn sanitized(
    info: &SessionInfo,
    loaded: &Loaded,
    home: Option<&Path>,
) -> (SessionInfo, Loaded) {
    let project = Project::new(info.cwd.as_deref(), home);
    let mut info = info.clone();
    for text in [
        &mut info.title,
        &mut info.custom_title,
        &mut info.first_prompt,
    ] {
        *text = text
            .as_deref()
            .map(|text| sanitize(&project.hide(text), home));
    }
    let shown = |path: &Path| PathBuf::from(sanitize(&project.hide(&path.to_string_lossy()), home));
    info.cwd = info.cwd.as_deref().map(shown);
    info.path = shown(&info.path);
    let mut loaded = loaded.clone();
    for record in &mut loaded.records {
        // Records came from JSON, so they can be written as JSON.
        let mut value = serde_json::to_value(&**record).unwrap_or_default();
        project.hide_in(&mut value);
        sanitize_value(&mut value, home);
        *record = Arc::new(Record::from_value(value));
    }
    (info, loaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_understood() {
        assert_eq!((SECRETS.len(), NAMED.len()), (7, 3));
    }

    #[test]
    fn the_folder_of_the_project_has_another_name() {
        let (folder, home) = (Path::new("/srv/acme/work"), Path::new("/home/ada"));
        let key = crate::paths::project_key(folder);
        let mut value = serde_json::json!({
            "cwd": "/srv/acme/work", "files": {"/srv/acme/work/a.rs": [format!("~/.lathe/projects/{key}/x")]}
        });
        Project::new(Some(folder), Some(home)).hide_in(&mut value);
        let wanted = serde_json::json!({
            "cwd": "/project", "files": {"/project/a.rs": ["~/.lathe/projects/-project/x"]}
        });
        assert_eq!(value, wanted);
        // The home folder keeps its sign, and the root is no project.
        for none in [home, Path::new("/")] {
            assert!(Project::new(Some(none), Some(home)).0.is_empty());
        }
    }

    #[test]
    fn a_value_under_a_secret_name_is_hidden_as_a_whole() {
        let mut value =
            serde_json::json!({"apiKey": "x y", "note": "at /home/ada", "max_tokens": "5"});
        sanitize_value(&mut value, Some(Path::new("/home/ada")));
        let wanted = serde_json::json!({"apiKey": HIDDEN, "note": "at ~", "max_tokens": "5"});
        assert_eq!(value, wanted);
    }

    #[test]
    fn secrets_and_names_are_hidden_and_the_rest_stays() {
        let home = Path::new("/home/ada");
        let key = format!("key sk-{}!", "a1".repeat(12));
        assert_eq!(sanitize(&key, Some(home)), "key [hidden]!");
        for (text, wanted) in [
            (
                "export GITHUB_TOKEN=abcdef123456",
                "export GITHUB_TOKEN=[hidden]",
            ),
            (r#"{"api_key": "abcdef123"}"#, r#"{"api_key": "[hidden]"}"#),
            (
                "Authorization: Bearer abcdefgh12",
                "Authorization: Bearer [hidden]",
            ),
            (
                "postgres://ada:secret1@db/x",
                "postgres://ada:[hidden]@db/x",
            ),
            ("mail ada@example.org now", "mail [hidden] now"),
            ("/home/ada/project/src", "~/project/src"),
            ("let token = next();", "let token = next();"),
            ("tokens: 5", "tokens: 5"),
        ] {
            assert_eq!(sanitize(text, Some(home)), wanted);
        }
        assert!(has_secret(&format!("key sk-{}!", "a1".repeat(12))));
        assert!(!has_secret("mail ada@example.org, let token = next();"));
        let key = "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nafter";
        assert_eq!(sanitize(key, None), "[hidden]\nafter");
    }
}
