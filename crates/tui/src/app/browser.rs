//! Opens web pages in the user's browser.

use crate::app::App;
use lathe_process::Command;

/// Opens a page in the user's browser. Where there is none, its address can still be followed.
pub(crate) fn open(app: &mut App, url: &str) {
    let shown = crate::render::text::reveal(url);
    if !(url.starts_with("https://") || url.starts_with("http://")) {
        app.warn(format!("{shown} is not a web page and was not opened."));
        return;
    }
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    match Command::new(opener).argument(url).launch() {
        Ok(()) => app.remark(format!("Opening {shown}")),
        Err(_) => app.remark(format!("Open this page: {shown}")),
    }
}
