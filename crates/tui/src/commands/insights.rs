//! `/insights` shows what was done in all sessions and what it cost.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::commands::results::CommandResult;
use crate::layers::{Page, Purpose};
use crate::render::style::Line;
use crate::render::text::wrap;
use lathe_session::insights::{self, Insights};
use lathe_session::{Scope, SessionStore};

pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let store = SessionStore::new(&app.places.config_home);
    let price = session.model().prices();
    app.jobs.blocking(move || {
        let insights = insights::gather(&store, Scope::Everywhere, None, &price);
        Some(JobResult::Command(CommandResult::Insights(Box::new(
            insights,
        ))))
    });
}

pub(crate) fn show(app: &mut App, insights: Insights) {
    app.layers.open(page(insights.clone()));
    app.commands.insights = Some(insights);
}

pub(crate) fn page(insights: Insights) -> Page {
    Page::new(Purpose::Insights, "Insights", move |look| {
        let text = insights.text(look.columns);
        let lines = text.lines().map(|line| Line::plain(line.to_owned()));
        lines
            .flat_map(|line| wrap(&line, look.columns, 2))
            .collect()
    })
    .with_key('h', "write a page for a browser")
}

/// Writes the page for a browser.
pub(crate) fn write(app: &mut App) {
    let Some(insights) = app.commands.insights.clone() else {
        return;
    };
    let target = app.places.config_home.join("insights.html");
    app.jobs.blocking(move || {
        let written = std::fs::write(&target, insights.html())
            .map(|()| format!("Wrote {}", target.display()))
            .map_err(|error| format!("can't write {}: {error}", target.display()));
        Some(JobResult::report(written))
    });
}
