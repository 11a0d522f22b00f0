//! `/exit` leaves.

use crate::app::{App, Leave};

pub(crate) fn run(app: &mut App) {
    app.exit.leave = Some(Leave::Asked);
}
