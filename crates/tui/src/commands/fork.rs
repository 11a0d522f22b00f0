//! `/fork` continues in a copy of the session.

use crate::app::App;
use lathe_engine::SessionChoice;

pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    app.engine.options.session = SessionChoice::Resume(session.session_id().to_string());
    app.engine.options.fork = true;
    app.engine.options.session_id = None;
    app.conversation.cells.clear();
    app.remark("── a copy of this conversation ──");
    app.conversation.cells.clear();
    app.reopen();
}
