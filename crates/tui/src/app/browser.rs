//! Opens web pages in the user's browser.

use crate::app::App;
use std::process::{Command, Stdio};

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
    let opened = Command::new(opener)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match opened {
        Ok(mut child) => {
            app.remark(format!("opening {shown}"));
            // Waited for so that no dead process is left.
            app.jobs.blocking(move || {
                let _ = child.wait();
                None
            });
        }
        Err(_) => app.remark(format!("open this page: {shown}")),
    }
}
