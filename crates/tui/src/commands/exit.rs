//! `/exit` leaves.

use crate::app::{App, Leave};

pub(crate) fn run(app: &mut App) {
    if app.session.works_in_background() && !app.commands.warned_of_exit {
        app.commands.warned_of_exit = true;
        app.warn("Background work will stop. Enter /exit again to exit.");
        return;
    }
    app.exit.leave = Some(Leave::Asked);
}
