//! `/export` writes the conversation to a file.

use crate::app::App;
use crate::app::jobs::JobResult;
use lathe_session::export::ExportFormat;

pub(crate) fn run(app: &mut App, arguments: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let path = session.transcript().to_owned();
    let name = if arguments.is_empty() {
        format!("conversation-{}.md", &session.session_id().to_string()[..8])
    } else {
        arguments.to_owned()
    };
    let target = app.places.environment.resolve(&name);
    let format = match target.extension().and_then(|extension| extension.to_str()) {
        Some("json") => ExportFormat::Json,
        Some("txt") => ExportFormat::Text,
        _ => ExportFormat::Markdown,
    };
    app.jobs.blocking(move || {
        let exported = lathe_session::store::info(&path)
            .ok_or_else(|| "the conversation is empty".to_owned())
            .and_then(|info| {
                let loaded = lathe_session::load(&path).map_err(|error| error.to_string())?;
                let text = lathe_session::export::export(&info, &loaded, format);
                std::fs::write(&target, text)
                    .map_err(|error| format!("can't write {}: {error}", target.display()))
            });
        Some(JobResult::report(
            exported.map(|()| format!("wrote {}", target.display())),
        ))
    });
}
