//! `/clear` starts a new conversation.

use crate::app::App;
use lathe_engine::SessionChoice;

pub(crate) fn run(app: &mut App) {
    app.engine.options.session = SessionChoice::New;
    app.engine.options.fork = false;
    app.engine.options.session_id = None;
    app.engine.options.resume_at = None;
    app.conversation.cells.clear();
    app.conversation.todos.clear();
    app.remark("── a new conversation ──");
    app.conversation.cells.clear();
    app.reopen();
}
