//! Findings that mean the same become one, and the most severe come first.

use lathe_tools::report_findings::{Finding, Verdict};
use std::collections::HashSet;

/// How many lines apart two findings may be to be the same.
const NEAR: u32 = 3;
/// The share of common words from which two texts say the same, in percent.
const ALIKE: usize = 50;

/// Merges findings that mean the same: the same file, near each other, about the same. The first one stays, with what it
/// lacks from the others.
pub(super) fn merge(findings: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        match merged.iter_mut().find(|known| is_same(known, &finding)) {
            None => merged.push(finding),
            Some(known) => {
                known.line = known.line.or(finding.line);
                if known.short_summary.is_none() {
                    known.short_summary = finding.short_summary;
                }
                if known.category.is_none() {
                    known.category = finding.category;
                }
                known.verdict = match (known.verdict, finding.verdict) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
            }
        }
    }
    merged
}

fn is_same(one: &Finding, other: &Finding) -> bool {
    if one.file != other.file {
        return false;
    }
    match (one.line, other.line) {
        (Some(one_line), Some(other_line)) if one_line == other_line => {
            overlap(one, other) >= ALIKE / 2 || one.category == other.category
        }
        (Some(one_line), Some(other_line)) => {
            one_line.abs_diff(other_line) <= NEAR && overlap(one, other) >= ALIKE
        }
        _ => overlap(one, other) >= ALIKE,
    }
}

/// The share of the words of the shorter summary that the other has too, in percent.
fn overlap(one: &Finding, other: &Finding) -> usize {
    let words = |finding: &Finding| -> HashSet<String> {
        finding
            .summary
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| word.chars().count() > 3)
            .map(str::to_lowercase)
            .collect()
    };
    let (one, other) = (words(one), words(other));
    let fewer = one.len().min(other.len());
    if fewer == 0 {
        return 0;
    }
    one.intersection(&other).count() * 100 / fewer
}

/// Orders findings: confirmed ones first, then by how bad their kind usually is. Equals stay in their order.
pub(super) fn order(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| {
        let verdict = match finding.verdict {
            Some(Verdict::Confirmed) => 0,
            Some(Verdict::Plausible) => 1,
            None => 2,
        };
        (verdict, weight(finding.category.as_deref().unwrap_or("")))
    });
}

fn weight(category: &str) -> u8 {
    match category {
        "security" => 0,
        "data-loss" => 1,
        "correctness" | "concurrency" | "bug" => 2,
        "error-handling" | "resource-leak" => 3,
        "efficiency" | "performance" => 5,
        "test-coverage" => 6,
        "simplification" | "style" => 7,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(file: &str, line: u32, summary: &str, category: &str) -> Finding {
        Finding {
            file: file.to_owned(),
            line: Some(line),
            summary: summary.to_owned(),
            short_summary: None,
            failure_scenario: "x".to_owned(),
            category: Some(category.to_owned()),
            verdict: None,
            outcome: None,
        }
    }

    #[test]
    fn the_same_defect_in_other_words_is_one() {
        let all = vec![
            finding(
                "a.rs",
                10,
                "The index is off by one, so the last element is skipped",
                "correctness",
            ),
            finding(
                "a.rs",
                11,
                "Off by one: the last element of the list is skipped",
                "correctness",
            ),
            finding("a.rs", 10, "SQL is built from user input", "security"),
            finding(
                "a.rs",
                90,
                "The index is off by one, so the last element is skipped",
                "correctness",
            ),
            finding(
                "b.rs",
                10,
                "The index is off by one, so the last element is skipped",
                "correctness",
            ),
        ];
        let merged = merge(all);
        let places: Vec<String> = merged.iter().map(Finding::place).collect();
        assert_eq!(places, ["a.rs:10", "a.rs:10", "a.rs:90", "b.rs:10"]);
    }

    #[test]
    fn the_most_severe_come_first() {
        let mut all = vec![
            finding("a", 1, "slow", "efficiency"),
            finding("b", 1, "hole", "security"),
            finding("c", 1, "wrong", "correctness"),
        ];
        all[0].verdict = Some(Verdict::Confirmed);
        all[1].verdict = Some(Verdict::Plausible);
        all[2].verdict = Some(Verdict::Confirmed);
        order(&mut all);
        let files: Vec<&str> = all.iter().map(|it| it.file.as_str()).collect();
        assert_eq!(files, ["c", "a", "b"]);
    }
}
