//! The cost of a session as text: by model and by part, with the savings of the cache.

use crate::session::ledger::{PartUsage, Totals};
use std::fmt::Write as _;

/// A report for people.
#[must_use]
pub fn text(totals: &Totals) -> String {
    if totals.models.is_empty() {
        return "No model has been called yet.\n".to_owned();
    }
    let mut out = format!("Total: ${:.4}\n", totals.cost_usd());
    let _ = writeln!(
        out,
        "Waiting for the model: {}, tools: {}, lines: +{} −{}",
        seconds(totals.api_duration_ms),
        seconds(totals.tool_duration_ms),
        totals.lines_added,
        totals.lines_removed
    );
    if let Some(share) = totals.cached_share() {
        let _ = writeln!(out, "Input read from the cache: {:.1} %", share * 100.0);
    }
    out.push_str("\nBy model:\n");
    for (model, usage) in &totals.models {
        let _ = writeln!(
            out,
            "  {model}: {} uncached + {} cached (+ {} written to the cache) in, {} out, {}",
            usage.input_tokens,
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
            usage.output_tokens,
            if totals.unpriced_models.contains(model) {
                "price unknown (set it under `prices` in settings)".to_owned()
            } else {
                format!("${:.4}", usage.cost_usd)
            }
        );
    }
    if !totals.parts.is_empty() {
        out.push_str("\nBy part:\n");
        for (part, usage) in &totals.parts {
            let _ = writeln!(out, "  {}: {}", part.name(), part_text(usage));
        }
    }
    if !totals.cache_breaks.is_empty() {
        out.push_str("\nRequests that could not use the cache:\n");
        for (why, times) in &totals.cache_breaks {
            let _ = writeln!(out, "  {times} × {why}");
        }
    }
    out
}

fn part_text(usage: &PartUsage) -> String {
    format!(
        "{}, {} uncached + {} cached (+ {} written) in, {} out, ${:.4}",
        calls(usage.calls),
        usage.input_tokens,
        usage.cache_read_input_tokens,
        usage.cache_creation_input_tokens,
        usage.output_tokens,
        usage.cost_usd
    )
}

/// `1 call`, `2 calls`.
#[must_use]
pub fn calls(count: u64) -> String {
    match count {
        1 => "1 call".to_owned(),
        count => format!("{count} calls"),
    }
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::ledger::{Ledger, Part};
    use lathe_model::Catalog;
    use lathe_protocol::usage::Usage;

    #[test]
    fn a_report_shows_models_parts_and_what_broke_the_cache() {
        let catalog = Catalog::built_in();
        let usage = Usage {
            input_tokens: 1_000,
            cache_read_input_tokens: 9_000,
            output_tokens: 50,
            ..Usage::default()
        };
        let mut ledger = Ledger::default();
        assert!(text(ledger.totals()).contains("No model has been called"));
        ledger.note_response("claude-opus-5-5", &usage, &catalog);
        ledger.note_part(Part::Side, "my-model", &usage, &catalog);
        let mut inner = Ledger::default();
        inner.note_response("claude-opus-5-5", &usage, &catalog);
        ledger.absorb(inner.totals());
        ledger.note_cache_break("the model changed");
        let report = text(ledger.totals());
        for wanted in [
            "Input read from the cache: 90.0 %",
            "price unknown",
            "conversation: 1 call,",
            "side queries: 1 call,",
            "sub-conversations: 1 call,",
            "1 × the model changed",
        ] {
            assert!(report.contains(wanted), "{wanted:?} is not in {report}");
        }
        let whole: f64 = ledger
            .totals()
            .parts
            .values()
            .map(|part| part.cost_usd)
            .sum();
        assert!((whole - ledger.cost_usd()).abs() < 1e-9);
        let kept = serde_json::to_value(ledger.totals()).unwrap();
        assert_eq!(
            &serde_json::from_value::<Totals>(kept).unwrap(),
            ledger.totals()
        );
    }
}
