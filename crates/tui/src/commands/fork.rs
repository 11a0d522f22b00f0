//! `/fork` continues in a copy of the session.

use crate::app::App;
use lathe_engine::Restart;

pub(crate) fn run(app: &mut App) {
    if app.engine.handle.is_none() {
        return;
    }
    app.engine.restart(&Restart::Fork);
    app.conversation.cells.clear();
    app.remark("── a copy of this conversation ──");
    app.conversation.cells.clear();
    app.reopen();
}
