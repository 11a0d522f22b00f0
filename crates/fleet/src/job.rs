//! A job: a prompt, the files it works on, and its limits. Jobs are written as JSON lines.

use crate::error::JobError;
use lathe_protocol::permission::PermissionMode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;

/// The largest job as JSON: it is stored with its state, which is rewritten with every renewal.
pub const LARGEST_JOB: usize = 256 << 10;
/// The keys of a job.
const KEYS: &[&str] = &[
    "id",
    "prompt",
    "title",
    "tenant",
    "class",
    "priority",
    "repo",
    "ref",
    "folder",
    "worktree",
    "model",
    "effort",
    "agent",
    "permissionMode",
    "allow",
    "ask",
    "deny",
    "sandbox",
    "budgetUsd",
    "maxTurns",
    "timeLimit",
    "retries",
    "schema",
    "labels",
    "secrets",
    "after",
];

/// The order in which jobs of a class are taken.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Before all others.
    High,
    /// The default.
    #[default]
    Normal,
    /// When nothing else is queued.
    Low,
}

impl Priority {
    /// All of them, in the order in which they are taken.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

/// The files that a job works on: a repository, a folder of the worker, or an empty folder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The address of a repository, which is cloned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// The branch, tag or commit to start from.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// A folder on the worker's machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Work in a git worktree of the folder instead of the folder itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub worktree: bool,
}

/// The permissions of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rules {
    /// The permission mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// Rules for calls that are allowed without asking.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Rules for calls that are asked about. Commands in the sandbox are not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// Rules for calls that are denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Whether commands run in the sandbox. Off needs a worker that allows it.
    pub sandbox: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            permission_mode: None,
            allow: Vec::new(),
            ask: Vec::new(),
            deny: Vec::new(),
            sandbox: true,
        }
    }
}

/// The limits of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Limits {
    /// The most that it may cost, in dollars; reserved from the budget of its tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// The most model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// The most seconds of one attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<u64>,
    /// How often it is tried again after a failure.
    pub retries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            budget_usd: None,
            max_turns: None,
            time_limit: None,
            retries: 1,
        }
    }
}

/// Conditions for a worker to take a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Needs {
    /// Labels that the worker must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Names of variables that the worker passes on. Their values never go through the queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Jobs that must be done first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Its id. A job that is submitted twice with the same id is one job.
    #[serde(default = "new_id")]
    pub id: String,
    /// The prompt.
    pub prompt: String,
    /// A title for lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Who it belongs to: budgets and concurrency are per tenant.
    #[serde(default = "default_word")]
    pub tenant: String,
    /// The kind of worker that takes it.
    #[serde(default = "default_word")]
    pub class: String,
    /// When it is taken.
    #[serde(default)]
    pub priority: Priority,
    /// The files.
    #[serde(flatten)]
    pub place: Place,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model should try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The agent that the conversation runs as; the worker must know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The permissions.
    #[serde(flatten)]
    pub rules: Rules,
    /// The limits.
    #[serde(flatten)]
    pub limits: Limits,
    /// The JSON schema of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Conditions.
    #[serde(flatten)]
    pub needs: Needs,
}

fn default_word() -> String {
    "default".to_owned()
}

/// An id that nothing else has.
#[must_use]
pub fn new_id() -> String {
    let id = uuid::Uuid::new_v4().simple().to_string();
    format!("j{}", &id[..11])
}

/// The name of a job in the queue: its tenant and its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey {
    /// The tenant.
    pub tenant: String,
    /// The id.
    pub id: String,
}

impl fmt::Display for JobKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.tenant, self.id)
    }
}

impl JobKey {
    /// Reads the name that [`Display`](fmt::Display) writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (tenant, id) = text.split_once('.')?;
        (is_word(tenant) && is_word(id)).then(|| Self {
            tenant: tenant.to_owned(),
            id: id.to_owned(),
        })
    }
}

/// True for a name that is safe in paths and subjects.
#[must_use]
pub fn is_word(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('-')
}

impl Job {
    /// A job with the defaults of the format.
    #[must_use]
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            id: new_id(),
            prompt: prompt.into(),
            title: None,
            tenant: default_word(),
            class: default_word(),
            priority: Priority::default(),
            place: Place::default(),
            model: None,
            effort: None,
            agent: None,
            rules: Rules::default(),
            limits: Limits::default(),
            schema: None,
            needs: Needs::default(),
        }
    }

    /// Its name in the queue.
    #[must_use]
    pub fn key(&self) -> JobKey {
        JobKey {
            tenant: self.tenant.clone(),
            id: self.id.clone(),
        }
    }

    /// A line for lists.
    #[must_use]
    pub fn headline(&self) -> &str {
        let text = self.title.as_deref().unwrap_or(&self.prompt);
        text.lines().next().unwrap_or_default()
    }

    /// Reads one job.
    ///
    /// # Errors
    /// If it is not JSON, has an unknown key, or a value is wrong.
    pub fn parse(text: &str) -> Result<Self, JobError> {
        let value: Value = serde_json::from_str(text).map_err(JobError::Json)?;
        if let Some(key) = value
            .as_object()
            .into_iter()
            .flat_map(|fields| fields.keys())
            .find(|key| !KEYS.contains(&key.as_str()))
        {
            return Err(JobError::UnknownKey(key.clone()));
        }
        let job: Self = serde_json::from_value(value).map_err(JobError::Json)?;
        job.check()?;
        Ok(job)
    }

    /// Reads jobs, one a line. Empty lines are left out.
    ///
    /// # Errors
    /// The first line that is wrong, with its number.
    pub fn parse_lines(text: &str) -> Result<Vec<Self>, JobError> {
        let mut jobs = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            jobs.push(Self::parse(line).map_err(|error| error.at_line(number + 1))?);
        }
        Ok(jobs)
    }

    /// Checks what types can't.
    ///
    /// # Errors
    /// If a value is wrong.
    pub fn check(&self) -> Result<(), JobError> {
        let wrong = |field, why: &str| JobError::Field {
            field,
            why: why.to_owned(),
        };
        const WORD: &str = "may hold letters, digits, _ and -, at most 64";
        for (field, text) in [
            ("id", &self.id),
            ("tenant", &self.tenant),
            ("class", &self.class),
        ] {
            if !is_word(text) {
                return Err(wrong(field, WORD));
            }
        }
        for (field, list) in [("after", &self.needs.after), ("labels", &self.needs.labels)] {
            if list.iter().any(|text| !is_word(text)) {
                return Err(wrong(field, WORD));
            }
        }
        if self.needs.after.contains(&self.id) {
            return Err(wrong("after", "names the job itself"));
        }
        let variable = |name: &String| {
            !name.is_empty()
                && !name.starts_with(|letter: char| letter.is_ascii_digit())
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        if !self.needs.secrets.iter().all(variable) {
            return Err(wrong("secrets", "holds names of variables, not values"));
        }
        if self.prompt.trim().is_empty() {
            return Err(wrong("prompt", "is empty"));
        }
        if self.place.repo.is_some() && self.place.folder.is_some() {
            return Err(wrong("folder", "excludes repo"));
        }
        if self.place.worktree && self.place.folder.is_none() {
            return Err(wrong("worktree", "needs folder"));
        }
        if self.place.reference.is_some() && self.place.repo.is_none() && !self.place.worktree {
            return Err(wrong("ref", "needs repo, or folder with worktree"));
        }
        if let Some(folder) = &self.place.folder
            && !folder.is_absolute()
        {
            return Err(wrong("folder", "must be absolute"));
        }
        for (field, text) in [("repo", &self.place.repo), ("ref", &self.place.reference)] {
            let odd = |text: &str| {
                text.is_empty() || text.starts_with('-') || text.contains(char::is_control)
            };
            if text.as_deref().is_some_and(odd) {
                return Err(wrong(field, "is no address of git"));
            }
        }
        if self
            .limits
            .budget_usd
            .is_some_and(|usd| !(usd.is_finite() && usd > 0.0))
        {
            return Err(wrong("budgetUsd", "must be above 0"));
        }
        let size = serde_json::to_vec(self).map_err(JobError::Json)?.len();
        if size > LARGEST_JOB {
            return Err(wrong(
                "prompt",
                "makes the job larger than 256 KB; put the text into a file of the repository",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_defaults_and_keeps_what_is_written() {
        let job = Job::parse(r#"{"prompt": "fix it"}"#).unwrap();
        assert_eq!(
            (job.class.as_str(), job.tenant.as_str()),
            ("default", "default")
        );
        assert!(job.rules.sandbox && job.limits.retries == 1);
        let text = r#"{"id":"a-1","prompt":"p","title":"t","tenant":"ada","class":"gpu","priority":"high",
            "repo":"https://x.example/r.git","ref":"main","model":"opus","effort":"low","agent":"Explore",
            "permissionMode":"acceptEdits","allow":["Edit"],"ask":["Bash(git push:*)"],"deny":["Bash"],"sandbox":true,"budgetUsd":2.5,"maxTurns":9,"timeLimit":60,"retries":3,
            "schema":{"type":"object"},"labels":["arm"],"secrets":["NPM_TOKEN"],"after":["b"]}"#;
        let job = Job::parse(text).unwrap();
        let again = Job::parse(&serde_json::to_string(&job).unwrap()).unwrap();
        assert_eq!(job, again);
        assert_eq!(job.rules.permission_mode, Some(PermissionMode::AcceptEdits));
        assert_eq!(job.limits.time_limit, Some(60));
    }

    #[test]
    fn wrong_jobs_name_the_field_and_the_line() {
        for (text, words) in [
            (r#"{"prompt":"p","budget":1}"#, "budget"),
            (r#"{"prompt":" "}"#, "prompt"),
            (r#"{"prompt":"p","id":"../x"}"#, "id"),
            (r#"{"prompt":"p","after":["a b"]}"#, "after"),
            (r#"{"prompt":"p","secrets":["A=1"]}"#, "secrets"),
            (r#"{"prompt":"p","repo":"-x"}"#, "repo"),
            (r#"{"prompt":"p","folder":"here"}"#, "folder"),
            (r#"{"prompt":"p","repo":"r","folder":"/f"}"#, "folder"),
            (r#"{"prompt":"p","budgetUsd":0}"#, "budgetUsd"),
            (r#"{"prompt":"p","permissionMode":"yolo"}"#, "yolo"),
            (r#"{"id":"x"}"#, "prompt"),
        ] {
            let error = Job::parse_lines(&format!("\n{text}\n"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(words) && error.contains("line 2"), "{error}");
        }
    }
}
