//! `/clear` starts a new conversation.

use crate::app::App;
use lathe_engine::Restart;

pub(crate) fn run(app: &mut App) {
    app.go_to(&Restart::Clear, "── a new conversation ──");
}
