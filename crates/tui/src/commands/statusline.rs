//! `/statusline` explains the `statusLine` setting.

use crate::app::App;

pub(crate) fn run(app: &mut App) {
    app.remark(
        "statusLine in settings.json: {\"type\": \"command\", \"command\": \"…\"}. The command gets a JSON object on standard input (model, folder, cost, context) and prints up to four lines.",
    );
}
