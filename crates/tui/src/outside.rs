//! Other programs: the person's editor, and whatever holds the clipboard's images.

use crate::app::App;
use crate::editor::Editor;
use crate::terminal;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

impl App {
    /// Opens the prompt in `$VISUAL` or `$EDITOR`.
    pub(crate) fn external_editor(&mut self) {
        let environment = &self.places.environment;
        let editor = environment
            .first_variable(&["VISUAL", "EDITOR"])
            .unwrap_or("vi")
            .to_owned();
        let text = Editor::expand(self.editor.text(), self.editor.attachments());
        let file = tempfile::Builder::new()
            .prefix("lathe-prompt-")
            .suffix(".md")
            .tempfile();
        let mut file =
            match file.and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file)) {
                Ok(file) => file,
                Err(error) => {
                    self.warn(format!("no file for the editor can be made: {error}"));
                    return;
                }
            };
        let Some(reader) = self.reader.clone() else {
            return;
        };
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
        let mut edited = String::new();
        match status {
            Ok(status) if status.success() => {
                // The editor may have put another file in its place.
                let read = std::fs::read_to_string(file.path())
                    .or_else(|_| file.read_to_string(&mut edited).map(|_| edited.clone()));
                if let Ok(text) = read {
                    self.editor.set_text(text.trim_end());
                }
            }
            Ok(status) => self.warn(format!(
                "{editor} ended with {status}; the prompt is as it was."
            )),
            Err(error) => self.warn(format!(
                "{editor} can't be started: {error}. Set EDITOR to your editor."
            )),
        }
        self.edited();
        self.changed_now();
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
