//! Money: a question when a session has cost more than a threshold, a warning before its budget is spent.
//!
//! `costThresholdUsd` is the threshold (5 dollars where it isn't set; 0 never asks). The user is asked
//! once at it and once at every multiple of it, and only when they are not typing; otherwise it is said
//! in a line. The budget is that of the run (`--max-budget-usd`, `maxBudgetUsd`; what a session that is
//! taken up again had cost before doesn't count) and is held by the engine; here it is only told.

use crate::app::{App, settings};
use crate::commands::cost;
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::{Line, Style};
use crate::render::theme::Theme;

/// The dollars after which the user is asked, where nothing is set.
pub(crate) const THRESHOLD: f64 = 5.0;

/// The share of a budget at which the user is warned.
const NEARLY: f64 = 0.8;

/// The warnings that were shown already.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Spending {
    /// The session's cost when it was opened.
    pub(crate) before: f64,
    /// How many thresholds were passed.
    passed: f64,
    /// Whether it was said that the budget is nearly spent.
    nearly: bool,
}

/// The most dollars that the session may cost.
pub(crate) fn budget(app: &App) -> Option<f64> {
    app.engine.options.limits.max_budget_usd.or_else(|| {
        let settings = app.engine.handle.as_ref()?.settings().json();
        settings.get("maxBudgetUsd")?.as_f64()
    })
}

impl Spending {
    /// A session that had cost this much when it was opened: that was said then.
    pub(crate) fn since(before: f64, threshold: f64) -> Self {
        let mut spending = Self {
            before,
            ..Self::default()
        };
        let _ = spending.look(before, threshold, None);
        spending
    }

    /// The warnings to show now that a session has cost this much: whether a threshold was passed, and
    /// whether the budget is nearly spent.
    fn look(&mut self, cost: f64, threshold: f64, budget: Option<f64>) -> (bool, bool) {
        let times = if threshold > 0.0 {
            (cost / threshold).floor()
        } else {
            0.0
        };
        let passed = times > self.passed;
        self.passed = self.passed.max(times);
        let spent = cost - self.before;
        let nearly =
            !self.nearly && budget.is_some_and(|budget| spent >= budget * NEARLY && spent < budget);
        self.nearly |= nearly;
        (passed, nearly)
    }
}

/// Looks what the session has cost at the end of a turn.
pub(crate) fn check(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let cost = session.history().totals().cost_usd();
    let budget = budget(app);
    let threshold = app.settings.cost_threshold;
    let (passed, nearly) = app.session.spending.look(cost, threshold, budget);
    if nearly && let Some(budget) = budget {
        let spent = cost - app.session.spending.before;
        app.warn(format!("Spent ${spent:.2} of the ${budget:.2} budget."));
    }
    if !passed {
        return;
    }
    let free =
        app.layers.are_quiet() && app.prompt.editor.is_empty() && app.queue.prompts.is_empty();
    if free {
        app.layers
            .open(cost_question(cost, threshold, &app.look.theme));
    } else {
        app.warn(format!(
            "This session has cost ${cost:.2}; /cost shows the details."
        ));
    }
}

/// The user's answer to the question about the cost.
pub(crate) fn answered(app: &mut App, value: &str) {
    match value {
        "show" => cost::run(app),
        "never" => {
            app.settings.cost_threshold = 0.0;
            if settings::save(app, "costThresholdUsd", 0.into()) {
                app.remark("You won't be asked again (costThresholdUsd in your settings).");
            }
        }
        _ => {}
    }
}

/// An amount in dollars, with as many digits as it takes to see it.
pub(crate) fn dollars(amount: f64) -> String {
    if amount < 0.1 {
        format!("${amount:.3}")
    } else {
        format!("${amount:.2}")
    }
}

/// The cost, for the status line.
pub(crate) fn fact(app: &App, cost: f64, theme: &Theme) -> (String, Style) {
    let spent = cost - app.session.spending.before;
    match budget(app) {
        Some(budget) if spent >= budget * NEARLY => {
            (format!("${spent:.2} of ${budget:.2}"), theme.warning)
        }
        _ => (format!("${cost:.2}"), theme.muted),
    }
}

/// The question whether to continue.
pub(crate) fn cost_question(cost: f64, threshold: f64, theme: &Theme) -> Picker {
    let next = (cost / threshold).floor().mul_add(threshold, threshold);
    let items = vec![
        Item::new("on", "Continue", format!("asks again at ${next:.2}")),
        Item::new("show", "Show the details", ""),
        Item::new("never", "Don't ask again", "saved in your settings"),
    ];
    Picker::new(
        Purpose::Cost,
        format!("This session has cost ${cost:.2}"),
        items,
    )
    .explained(vec![Line::styled(
        "Another model (/model) or less thinking (/effort) costs less; --max-budget-usd sets a limit.",
        theme.muted,
    )])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_threshold_is_reported_once_and_the_budget_before_it_is_spent() {
        let mut spending = Spending::default();
        let table = [
            (1.0, Some(20.0), (false, false)),
            (5.5, Some(20.0), (true, false)),
            (6.0, Some(20.0), (false, false)),
            (16.5, Some(20.0), (true, true)),
            (17.0, Some(20.0), (false, false)),
            (21.0, Some(20.0), (true, false)),
        ];
        for (cost, budget, expected) in table {
            assert_eq!(spending.look(cost, 5.0, budget), expected, "{cost}");
        }
        assert_eq!(Spending::default().look(100.0, 0.0, None), (false, false));
        // A resumed session: its earlier cost was reported then, and isn't the run's.
        let mut again = Spending::since(12.0, 5.0);
        assert_eq!(again.look(12.5, 5.0, Some(1.0)), (false, false));
        assert_eq!(again.look(12.9, 5.0, Some(1.0)), (false, true));
        assert_eq!(again.look(15.1, 5.0, Some(1.0)), (true, false));
    }
}
