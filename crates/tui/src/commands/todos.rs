//! `/todos` shows or hides the task list.

use crate::app::App;

pub(crate) fn run(app: &mut App) {
    app.look.show_todos = !app.look.show_todos;
    if app.conversation.todos.is_empty() {
        app.remark("No task list yet.");
    }
}
