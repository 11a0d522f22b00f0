//! `/copy` copies the last answer to the clipboard.

use crate::app::App;

pub(crate) fn run(app: &mut App) {
    match app.conversation.last_answer() {
        Some(text) => {
            app.screen.pending.push_str(&clipboard_sequence(text));
            app.remark("copied the last answer");
        }
        None => app.warn("No answer to copy yet."),
    }
}

/// The sequence that puts a text into the clipboard of the terminal (OSC 52), also over ssh.
pub(crate) fn clipboard_sequence(text: &str) -> String {
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    format!("\x1b]52;c;{encoded}\x07")
}
