//! `/doctor` checks the installation.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::layers::{Page, Purpose};
use crate::render::style::{Line, Style};
use crate::render::theme::Theme;
use lathe_doctor::{Diagnosis, DoctorOptions, Severity, TerminalFacts, diagnose};

/// Looks at everything that a session is opened with, as `lathe doctor` does.
pub(crate) fn run(app: &mut App) {
    let environment = app.places.environment.clone();
    let size = u16::try_from(app.screen.columns)
        .ok()
        .zip(u16::try_from(app.screen.rows).ok());
    let options = DoctorOptions {
        settings_flags: app.engine.options.settings.flags.clone(),
        setting_sources: app.engine.options.settings.sources.clone(),
        plugin_folders: app.engine.options.extensions.plugin_folders.clone(),
        terminal: TerminalFacts {
            is_terminal: true,
            size,
        },
        ..DoctorOptions::default()
    };
    app.jobs.task(async move {
        let diagnosis = Box::pin(diagnose(&environment, &options)).await;
        Some(JobResult::Diagnosis(Box::new(diagnosis)))
    });
}

pub(crate) fn show(app: &mut App, diagnosis: &Diagnosis) {
    // The key bindings are the terminal's own business.
    let (_, problems) =
        crate::prompt::keymap::Keymap::load(&crate::prompt::keymap::files(&app.places));
    let page = diagnosis_page(diagnosis, &problems, &app.look.theme);
    app.layers.open(page);
}

/// The findings, the worst first.
pub(crate) fn diagnosis_page(diagnosis: &Diagnosis, problems: &[String], theme: &Theme) -> Page {
    let mut lines = Vec::new();
    let mut check = |severity: Severity, area: &str, what: &str, fix: Option<&str>| {
        let (mark, style) = match severity {
            Severity::Fine => ("✓ ", theme.success),
            Severity::Note => ("· ", theme.muted),
            Severity::Warning => ("⚠ ", theme.warning),
            Severity::Error => ("✗ ", theme.error),
        };
        let what = crate::render::text::clean(what).replace('\n', " ");
        lines.push(
            Line::styled(mark, style)
                .with(format!("{area}: "), theme.muted)
                .with(what, Style::PLAIN),
        );
        if let Some(fix) = fix {
            let fix = crate::render::text::clean(fix).replace('\n', " ");
            lines.push(Line::styled(format!("    {fix}"), theme.muted));
        }
    };
    if problems.is_empty() {
        check(Severity::Fine, "keys", "key bindings are valid", None);
    }
    for problem in problems {
        let fix = "/keybindings lists contexts and actions";
        check(Severity::Error, "keys", problem, Some(fix));
    }
    let mut findings: Vec<_> = diagnosis.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in findings {
        check(
            finding.severity,
            finding.area,
            &finding.what,
            finding.fix.as_deref(),
        );
    }
    let title = match (
        diagnosis.count(Severity::Error) + problems.len(),
        diagnosis.count(Severity::Warning),
    ) {
        (0, 0) => "Doctor: no problems found".to_owned(),
        (errors, warnings) => format!(
            "Doctor: {}, {}",
            crate::render::text::counted(errors, "error"),
            crate::render::text::counted(warnings, "warning")
        ),
    };
    Page::of_lines(Purpose::Reading, title, lines)
}
