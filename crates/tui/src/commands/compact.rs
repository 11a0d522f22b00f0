//! `/compact` replaces the conversation by a summary.

use crate::app::App;
use lathe_protocol::op::Op;

pub(crate) fn run(app: &mut App, arguments: &str) {
    let instructions = Some(arguments.to_owned()).filter(|words| !words.is_empty());
    app.engine.send(Op::Compact { instructions });
}
