//! `/export` writes the conversation to a file.

use crate::app::App;
use crate::app::jobs::JobResult;
use lathe_session::export::ExportFormat;

pub(crate) fn run(app: &mut App, arguments: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let path = session.transcript().to_owned();
    // Nothing is written into the project unless a file there is named.
    let target = if arguments.is_empty() {
        let id = session.session_id().to_string();
        let name = format!("conversation-{}.md", id.get(..8).unwrap_or(&id));
        app.places.config_home.join("exports").join(name)
    } else {
        app.places.environment.resolve(arguments)
    };
    let format = ExportFormat::of_file(&target);
    app.jobs.blocking(move || {
        let exported = lathe_session::store::info(&path)
            .ok_or_else(|| "the conversation is empty".to_owned())
            .and_then(|info| {
                let loaded = lathe_session::load(&path).map_err(|error| error.to_string())?;
                let text = lathe_session::export::export(&info, &loaded, format);
                if let Some(folder) = target.parent() {
                    let _ = std::fs::create_dir_all(folder);
                }
                std::fs::write(&target, text)
                    .map_err(|error| format!("can't write {}: {error}", target.display()))
            });
        Some(JobResult::report(
            exported.map(|()| format!("Wrote {}", target.display())),
        ))
    });
}
