//! Other programs: the person's editor, and whatever holds the clipboard's images.

use crate::app::App;
use crate::dialog::Dialog;
use crate::editor::Editor;
use crate::terminal;
use lathe_settings::Variable;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

impl App {
    /// Opens the prompt in `$VISUAL` or `$EDITOR`.
    pub(crate) fn external_editor(&mut self) {
        let text = Editor::expand(self.editor.text(), self.editor.attachments());
        if let Some(text) = self.edit_outside(&text) {
            self.editor.set_text(text.trim_end());
        }
        self.edited();
    }

    /// Opens the plan that is to be approved in the person's editor.
    pub(crate) fn edit_plan(&mut self) {
        let Some(Dialog::Plan(dialog)) = &self.dialog else {
            return;
        };
        let plan = dialog.plan().to_owned();
        if let Some(text) = self.edit_outside(&plan)
            && let Some(Dialog::Plan(dialog)) = &mut self.dialog
        {
            dialog.set_plan(text);
        }
    }

    /// Opens a page in the person's browser. Where there is none, its address can still be followed.
    pub(crate) fn open_page(&mut self, url: &str) {
        let shown = crate::text::reveal(url);
        if !(url.starts_with("https://") || url.starts_with("http://")) {
            self.warn(format!("{shown} is no web page and was not opened."));
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
                self.remark(format!("opening {shown}"));
                // Waited for so that no dead process is left.
                self.jobs.blocking(move || {
                    let _ = child.wait();
                    None
                });
            }
            Err(_) => self.remark(format!("open this page: {shown}")),
        }
    }

    /// Lets the person edit a text in their editor. `None` when that didn't work; it is said.
    fn edit_outside(&mut self, text: &str) -> Option<String> {
        let environment = &self.places.environment;
        let editor = environment.get(Variable::Editor).unwrap_or("vi").to_owned();
        let file = tempfile::Builder::new()
            .prefix("lathe-prompt-")
            .suffix(".md")
            .tempfile();
        let mut file =
            match file.and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file)) {
                Ok(file) => file,
                Err(error) => {
                    self.warn(format!("no file for the editor can be made: {error}"));
                    return None;
                }
            };
        let reader = self.reader.clone()?;
        reader.pause();
        let clear = self.screen.clear();
        let _ = terminal::write(&clear);
        terminal::restore();
        // The words of $EDITOR may have arguments; a shell takes them apart as the person meant.
        let status = Command::new("sh")
            .arg("-c")
            .arg(format!("{editor} \"$1\""))
            .arg("sh")
            .arg(file.path())
            .stdin(Stdio::inherit())
            .stdout(Stdio::inherit())
            .stderr(Stdio::inherit())
            .current_dir(&environment.cwd)
            .status();
        let _ = terminal::enter();
        reader.go_on();
        self.changed_now();
        match status {
            Ok(status) if status.success() => {
                let mut edited = String::new();
                // The editor may have put another file in its place.
                std::fs::read_to_string(file.path())
                    .or_else(|_| file.read_to_string(&mut edited).map(|_| edited.clone()))
                    .ok()
            }
            Ok(status) => {
                self.warn(format!(
                    "{editor} ended with {status}; the text is as it was."
                ));
                None
            }
            Err(error) => {
                self.warn(format!(
                    "{editor} can't be started: {error}. Set EDITOR to your editor."
                ));
                None
            }
        }
    }

    /// Attaches the clipboard's image, if a program that can read it is there.
    pub(crate) fn paste_image(&mut self) {
        const READERS: &[(&str, &[&str])] = &[
            ("wl-paste", &["--no-newline", "--type", "image/png"]),
            (
                "xclip",
                &["-selection", "clipboard", "-target", "image/png", "-out"],
            ),
            ("pngpaste", &["-"]),
        ];
        for (program, arguments) in READERS {
            let output = Command::new(program)
                .args(*arguments)
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .output();
            if let Ok(output) = output
                && output.status.success()
                && output.stdout.starts_with(b"\x89PNG")
            {
                let data = base64::Engine::encode(
                    &base64::engine::general_purpose::STANDARD,
                    &output.stdout,
                );
                self.editor.attach_image("image/png", data);
                self.edited();
                return;
            }
        }
        self.leave_hint = Some((
            "no image in the clipboard (wl-paste, xclip or pngpaste reads it); a pasted path works too",
            std::time::Instant::now() + std::time::Duration::from_secs(3),
        ));
    }
}
