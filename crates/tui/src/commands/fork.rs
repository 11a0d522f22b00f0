//! `/fork` continues in a copy of the session.

use crate::app::App;
use lathe_engine::Restart;

pub(crate) fn run(app: &mut App) {
    let said = app
        .engine
        .handle
        .as_ref()
        .is_some_and(|session| session.transcript().exists());
    if !said {
        app.remark("The conversation is empty, so there is nothing to copy.");
        return;
    }
    app.go_to(&Restart::Fork, "── a copy of this conversation ──");
}
