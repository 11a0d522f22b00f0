//! `/cost` shows what the session has used.

use crate::app::{App, spending};
use crate::layers::{Page, Purpose};
use crate::render::cell;
use crate::render::markdown::Look;
use crate::render::style::Line;
use crate::render::text::{tokens, wrap};
use lathe_engine::ledger::Totals;

pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let totals = session.history().totals();
    let budget = spending::budget(app);
    let title = format!("This session: ${:.4}", totals.cost_usd());
    app.layers
        .open(Page::new(Purpose::Reading, title, move |look| {
            cost_lines(&totals, budget, look)
        }));
}

/// Usage and cost, by model and by purpose.
pub(crate) fn cost_lines(totals: &Totals, budget: Option<f64>, look: Look<'_>) -> Vec<Line> {
    let theme = look.theme;
    if totals.models.is_empty() {
        return vec![Line::styled("  nothing used yet", theme.muted)];
    }
    let mut facts = vec![
        format!("API time {}", milliseconds(totals.api_duration_ms)),
        format!("tool time {}", milliseconds(totals.tool_duration_ms)),
        format!("lines +{} −{}", totals.lines_added, totals.lines_removed),
    ];
    if let Some(share) = totals.cached_share() {
        facts.push(format!("{:.0}% of the input from the cache", share * 100.0));
    }
    if let Some(budget) = budget {
        facts.push(format!("budget ${budget:.2}"));
    }
    let mut lines = wrap(
        &Line::styled(facts.join(" · "), theme.muted),
        look.columns,
        2,
    );
    let price = |dollars: f64| format!("${dollars:.4}");
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (model, usage) in &totals.models {
        rows.push(vec![
            model.clone(),
            tokens(usage.input_tokens),
            tokens(usage.output_tokens),
            tokens(usage.cache_read_input_tokens),
            tokens(usage.cache_creation_input_tokens),
            if totals.unpriced_models.contains(model) {
                "unknown".to_owned()
            } else {
                price(usage.cost_usd)
            },
        ]);
    }
    if totals.parts.len() > 1 {
        for (part, usage) in &totals.parts {
            rows.push(vec![
                format!("· {}", part.name()),
                tokens(usage.input_tokens),
                tokens(usage.output_tokens),
                tokens(usage.cache_read_input_tokens),
                tokens(usage.cache_creation_input_tokens),
                price(usage.cost_usd),
            ]);
        }
    }
    let columns = [
        "model",
        "input",
        "output",
        "cache read",
        "cache written",
        "cost",
    ]
    .map(str::to_owned);
    lines.extend(cell::plain_table(&columns, &rows, look));
    for (why, times) in &totals.cache_breaks {
        lines.extend(wrap(
            &Line::styled(format!("{times} × cache miss: {why}"), theme.muted),
            look.columns,
            2,
        ));
    }
    lines
}

fn milliseconds(milliseconds: u64) -> String {
    crate::render::text::duration(std::time::Duration::from_millis(milliseconds))
}
