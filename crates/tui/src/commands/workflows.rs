//! `/workflows`: the runs of workflows; `watch` opens one as it works.

use crate::app::{App, agents};
use crate::commands::answered_by_engine;
use lathe_protocol::command::BuiltinCommand;

pub(crate) fn run(app: &mut App, arguments: &str) {
    let watched = arguments.trim().strip_prefix("watch ").map(str::trim);
    if let Some(id) = watched
        && agents::open(app, id)
    {
        return;
    }
    answered_by_engine(app, BuiltinCommand::Workflows, arguments);
}
