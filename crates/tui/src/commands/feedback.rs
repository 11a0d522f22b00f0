//! `/feedback` writes a report to a file.

use crate::app::App;

pub(crate) fn run(app: &mut App, words: &str) {
    let folder = app.places.config_home.join("feedback");
    let _ = std::fs::create_dir_all(&folder);
    let now = jiff::Timestamp::now().as_second();
    let target = folder.join(format!("feedback-{now}.md"));
    let session = app
        .engine
        .handle
        .as_ref()
        .map_or_else(String::new, |session| session.session_id().to_string());
    let text = format!(
        "# Feedback on Lathe {}\n\nSession: {session}\nModel: {}\nTerminal: {}×{} {}\n\n## What happened\n\n{words}\n\n## What should have happened\n\n",
        env!("CARGO_PKG_VERSION"),
        app.session.model,
        app.screen.columns,
        app.screen.rows,
        app.places.environment.foreign("TERM").unwrap_or_default(),
    );
    match std::fs::write(&target, text) {
        Ok(()) => app.remark(format!("Wrote {}; nothing was sent.", target.display())),
        Err(error) => app.warn(format!("can't write {}: {error}", target.display())),
    }
}
