//! `/clear` starts a new conversation.

use crate::app::App;
use lathe_engine::Restart;

pub(crate) fn run(app: &mut App) {
    app.engine.restart(&Restart::Clear);
    app.conversation.cells.clear();
    app.conversation.todos.clear();
    app.remark("── a new conversation ──");
    app.conversation.cells.clear();
    app.reopen();
}
