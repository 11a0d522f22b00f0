//! Images: from the clipboard, or named by a pasted path.

use crate::app::App;
use lathe_process::{Command, Ending};
use std::time::Duration;

/// How long a program may take to read the clipboard.
const LIMIT: Duration = Duration::from_secs(10);
/// The largest image that is read.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// Attaches the clipboard's image, if a program that can read it is there.
pub(crate) fn paste_image(app: &mut App) {
    const READERS: &[(&str, &[&str])] = &[
        ("wl-paste", &["--no-newline", "--type", "image/png"]),
        (
            "xclip",
            &["-selection", "clipboard", "-target", "image/png", "-out"],
        ),
        ("pngpaste", &["-"]),
    ];
    for (program, arguments) in READERS {
        let command = Command::new(*program).arguments(*arguments);
        let output = lathe_process::read_blocking(command, LIMIT, MOST_BYTES);
        if let Ok(output) = output
            && output.ending == Ending::Exited(0)
            && output.stdout.starts_with(b"\x89PNG")
        {
            let data =
                base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &output.stdout);
            app.prompt.editor.attach_image("image/png", data);
            app.edited();
            return;
        }
    }
    app.alarms.show_for(
        "no image in the clipboard (wl-paste, xclip or pngpaste reads it); a pasted path works too",
        Duration::from_secs(3),
    );
}

/// An image that a pasted or dropped path names.
pub(crate) fn image_path(
    text: &str,
    environment: &lathe_settings::Environment,
) -> Option<(&'static str, String)> {
    let path = text.trim().trim_matches(['\'', '"']).replace("\\ ", " ");
    if path.contains('\n') || path.len() > 1000 {
        return None;
    }
    let extension = std::path::Path::new(&path)
        .extension()?
        .to_str()?
        .to_ascii_lowercase();
    let media_type = match extension.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        _ => return None,
    };
    let file = environment.resolve(&path);
    let metadata = std::fs::metadata(&file).ok()?;
    if !metadata.is_file() || metadata.len() > 5_000_000 {
        return None;
    }
    let bytes = std::fs::read(&file).ok()?;
    Some((
        media_type,
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes),
    ))
}
