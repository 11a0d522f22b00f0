//! `lathe doctor` and `/doctor`: problems of an installation, with fixes.
//!
//! The doctor looks at everything that a session would be opened with, opens none, and changes
//! nothing. Its findings are data ([`Diagnosis`]), so that a command, a terminal and a host can each
//! show them their own way. Every area reports at least one finding, so that silence never means that an
//! area was not checked.
//!
//! `machine` looks at what is around: the program, the terminal, git, the disk. `configuration` looks
//! at what was written by people: settings, rules, hooks, extensions, plugins, servers, instructions.
//! No secret is ever part of a finding.
#![forbid(unsafe_code)]

pub mod advice;
mod configuration;
mod machine;
mod rules;
mod shipping;

use lathe_protocol::diagnostic::{self, Diagnostic};
use lathe_settings::trust_store::TrustStore;
use lathe_settings::{Environment, LoadOptions, Places, Resolved, Source, Trust};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Worth knowing.
    Note,
    /// Probably not what was meant.
    Warning,
    /// Something doesn't work or has no effect.
    Error,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The area, such as `settings`.
    pub area: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The finding.
    pub what: String,
    /// The fix; there is one for everything that isn't fine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// All findings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Diagnosis {
    /// The findings, in the order of the areas.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// How many findings have a severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }

    /// Whether there is no error.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    /// For programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "healthy": self.is_healthy(),
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "findings": self.findings,
        })
    }

    /// For people: by area, with the fix below what is to be fixed.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let mut area = "";
        for finding in &self.findings {
            if finding.area != area {
                area = finding.area;
                let _ = writeln!(text, "{area}");
            }
            let _ = writeln!(text, "  {:<8} {}", finding.severity.word(), finding.what);
            if let Some(fix) = &finding.fix {
                let _ = writeln!(text, "  {:<8} → {fix}", "");
            }
        }
        let (errors, warnings) = (self.count(Severity::Error), self.count(Severity::Warning));
        let _ = writeln!(
            text,
            "\n{}",
            match (errors, warnings) {
                (0, 0) => "No problems found.".to_owned(),
                (0, warnings) => format!("No errors; {}.", counted(warnings, "warning")),
                (errors, 0) => format!("{}.", counted(errors, "error")),
                (errors, warnings) => format!(
                    "{}, {}.",
                    counted(errors, "error"),
                    counted(warnings, "warning")
                ),
            }
        );
        text
    }
}

fn counted(count: usize, word: &str) -> String {
    if count == 1 {
        format!("1 {word}")
    } else {
        format!("{count} {word}s")
    }
}

/// Facts about the terminal that only the caller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TerminalFacts {
    /// Whether standard output is one.
    pub is_terminal: bool,
    /// Columns and rows.
    pub size: Option<(u16, u16)>,
}

/// Options of the caller.
#[derive(Debug, Clone, Default)]
pub struct DoctorOptions {
    /// The values of `--settings`.
    pub settings_flags: Vec<String>,
    /// The value of `--setting-sources`.
    pub setting_sources: Option<Vec<Source>>,
    /// The values of `--plugin-dir`.
    pub plugin_folders: Vec<PathBuf>,
    /// The values of `--mcp-config`.
    pub mcp_configs: Vec<String>,
    /// Whether MCP servers are connected to see whether they answer.
    pub connect_servers: bool,
    /// Facts about the terminal.
    pub terminal: TerminalFacts,
}

/// The installation that is checked.
pub(crate) struct Installation<'a> {
    pub(crate) places: Places,
    /// The environment, with what settings add.
    pub(crate) environment: Environment,
    pub(crate) trust: Trust,
    pub(crate) load_options: LoadOptions,
    pub(crate) settings: Resolved,
    pub(crate) options: &'a DoctorOptions,
}

/// Collects the findings of one area.
pub(crate) struct Report<'a> {
    area: &'static str,
    findings: &'a mut Vec<Finding>,
}

impl Report<'_> {
    fn add(&mut self, severity: Severity, what: impl Into<String>, fix: Option<String>) {
        self.findings.push(Finding {
            area: self.area,
            severity,
            what: what.into(),
            fix,
        });
    }

    /// Adds a diagnostic; `fix` is what to do if it has no hint of its own.
    pub(crate) fn diagnostic(&mut self, mut diagnostic: Diagnostic, fix: &str) {
        let severity = match diagnostic.severity {
            diagnostic::Severity::Note => Severity::Note,
            diagnostic::Severity::Warning => Severity::Warning,
            diagnostic::Severity::Error => Severity::Error,
        };
        let fix = diagnostic.hint.take().unwrap_or_else(|| fix.to_owned());
        self.add(severity, diagnostic.to_string(), Some(fix));
    }

    pub(crate) fn fine(&mut self, what: impl Into<String>) {
        self.add(Severity::Fine, what, None);
    }

    pub(crate) fn note(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.add(Severity::Note, what, Some(fix.into()));
    }

    pub(crate) fn warning(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.add(Severity::Warning, what, Some(fix.into()));
    }

    pub(crate) fn error(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.add(Severity::Error, what, Some(fix.into()));
    }
}

/// An area of the report and its check.
type Check = (&'static str, fn(&Installation<'_>, &mut Report<'_>));

const BEFORE_SERVERS: [Check; 9] = [
    ("installation", machine::installation),
    ("keys", machine::keys),
    ("settings", configuration::settings),
    ("permissions", rules::permissions),
    ("hooks", configuration::hooks),
    ("agents", configuration::agents),
    ("skills and commands", configuration::skills),
    ("output styles", configuration::output_styles),
    ("plugins", configuration::plugins),
];

const AFTER_SERVERS: [Check; 10] = [
    ("language servers", configuration::language_servers),
    ("instructions", configuration::instructions),
    ("sandbox", machine::sandbox),
    ("terminal", machine::terminal),
    ("search", machine::search),
    ("web search", machine::web_search),
    ("git", machine::git),
    ("sessions", machine::sessions),
    ("disk", machine::disk),
    ("environment", machine::variables),
];

fn run_checks(checks: &[Check], installation: &Installation<'_>, findings: &mut Vec<Finding>) {
    for (area, check) in checks {
        check(installation, &mut Report { area, findings });
    }
}

/// Runs all checks.
pub async fn diagnose(environment: &Environment, options: &DoctorOptions) -> Diagnosis {
    let installation = load(environment, options);
    let mut findings = Vec::new();
    run_checks(&BEFORE_SERVERS, &installation, &mut findings);
    configuration::servers(
        &installation,
        &mut Report {
            area: "mcp servers",
            findings: &mut findings,
        },
    )
    .await;
    run_checks(&AFTER_SERVERS, &installation, &mut findings);
    Diagnosis { findings }
}

fn load<'a>(environment: &Environment, options: &'a DoctorOptions) -> Installation<'a> {
    let mut environment = environment.clone();
    if let Ok(real) = std::fs::canonicalize(&environment.cwd) {
        environment.cwd = real;
    }
    let places = Places::new(environment).with_flags(&options.settings_flags);
    let trust = TrustStore::new(&places)
        .headless_trust(&places.project, options.setting_sources.as_deref());
    let load_options = LoadOptions {
        flags: options.settings_flags.clone(),
        managed_flags: Vec::new(),
        sources: options.setting_sources.clone(),
        trust: trust.clone(),
    };
    let settings = lathe_settings::load(&places, &load_options);
    let mut environment = places.environment.clone();
    for (name, value) in settings.environment() {
        environment.variables.entry(name).or_insert(value);
    }
    Installation {
        places,
        environment,
        trust,
        load_options,
        settings,
        options,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity) -> Finding {
        Finding {
            area: "disk",
            severity,
            what: "it is full".to_owned(),
            fix: Some("delete something".to_owned()),
        }
    }

    #[test]
    fn only_errors_make_it_unhealthy() {
        let warned = Diagnosis {
            findings: vec![finding(Severity::Warning), finding(Severity::Note)],
        };
        assert!(warned.is_healthy());
        assert!(warned.to_text().contains("No errors; 1 warning."));
        let failed = Diagnosis {
            findings: vec![finding(Severity::Error)],
        };
        assert!(!failed.is_healthy());
        assert_eq!(failed.to_json()["healthy"], false);
        let text = failed.to_text();
        assert!(text.starts_with("disk\n  error    it is full\n"), "{text}");
        assert!(text.contains("→ delete something"), "{text}");
    }
}
