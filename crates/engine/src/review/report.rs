//! The report of a review: as text, as JSON, as SARIF 2.1.0, and as comments of a pull request.

use super::ReviewReport;
use lathe_tools::report_findings::{Finding, Verdict, text_of};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The report as text.
#[must_use]
pub fn text(report: &ReviewReport) -> String {
    let head = format!(
        "Review of {}: {} in {}.",
        report.name,
        counted(report.findings.len(), "finding"),
        counted(report.files, "file")
    );
    let mut parts = vec![head];
    if !report.findings.is_empty() {
        parts.push(text_of(&report.findings));
    }
    if report.refuted > 0 {
        parts.push(format!(
            "{} refuted on verification.",
            counted(report.refuted, "finding")
        ));
    }
    parts.extend(report.remarks.iter().cloned());
    parts.join("\n\n")
}

pub(super) fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The report as JSON: the fields of ReportFindings, and what was reviewed.
#[must_use]
pub fn json(report: &ReviewReport) -> Value {
    json!({
        "target": report.name, "level": report.level, "count": report.findings.len(),
        "findings": report.findings, "refuted": report.refuted, "remarks": report.remarks,
    })
}

/// The report as SARIF 2.1.0.
#[must_use]
pub fn sarif(report: &ReviewReport) -> Value {
    let ids: BTreeSet<&str> = report.findings.iter().map(rule_id).collect();
    let rules: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "shortDescription": {"text": format!("Finding of category {id}")}}))
        .collect();
    let results: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| {
            let index = ids.iter().position(|id| *id == rule_id(finding)).unwrap_or(0);
            let mut physical = json!({"artifactLocation": {"uri": uri(&finding.file), "uriBaseId": "%SRCROOT%"}});
            if let Some(line) = finding.line {
                physical["region"] = json!({"startLine": line});
            }
            json!({
                "ruleId": rule_id(finding), "ruleIndex": index, "level": level(finding),
                "message": {"text": format!("{}\n{}", finding.summary.trim(), finding.failure_scenario.trim())},
                "locations": [{"physicalLocation": physical}],
                "partialFingerprints": {"finding/v1": fingerprint(finding)},
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "lathe", "version": env!("CARGO_PKG_VERSION"),
                "informationUri": "https://github.com/lathe-dev/lathe", "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn rule_id(finding: &Finding) -> &str {
    finding
        .category
        .as_deref()
        .filter(|it| !it.trim().is_empty())
        .unwrap_or("defect")
}

fn level(finding: &Finding) -> &'static str {
    match finding.verdict {
        Some(Verdict::Confirmed) => "error",
        Some(Verdict::Plausible) | None => "warning",
    }
}

/// A relative path as a URI.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

/// The same for the same finding after lines moved.
fn fingerprint(finding: &Finding) -> String {
    use sha2::Digest as _;
    let text = format!(
        "{}\0{}\0{}",
        finding.file,
        rule_id(finding),
        finding.summary.trim()
    );
    let digest = sha2::Sha256::digest(text.as_bytes());
    digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A review of a pull request, as the API of GitHub takes it. `shown` says whether a line is part of the difference; other
/// findings stand in the text.
#[must_use]
pub fn comments(report: &ReviewReport, shown: impl Fn(&str, u32) -> bool) -> Value {
    let (mut comments, mut others) = (Vec::new(), Vec::new());
    for finding in &report.findings {
        match finding.line.filter(|line| shown(&finding.file, *line)) {
            Some(line) => comments.push(json!({
                "path": finding.file, "line": line, "side": "RIGHT",
                "body": format!("{}\n\n{}", finding.summary.trim(), finding.failure_scenario.trim()),
            })),
            None => others.push(finding.clone()),
        }
    }
    let mut body = format!(
        "{} by `lathe review`.",
        counted(report.findings.len(), "finding")
    );
    if !others.is_empty() {
        body.push_str(&format!("\n\nOutside of the diff:\n\n{}", text_of(&others)));
    }
    json!({"event": "COMMENT", "body": body, "comments": comments})
}
