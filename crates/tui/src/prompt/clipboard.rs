//! Images: from the clipboard, or named by a pasted path.

use crate::app::App;
use std::process::{Command, Stdio};

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
        let output = Command::new(program)
            .args(*arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        if let Ok(output) = output
            && output.status.success()
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
        std::time::Duration::from_secs(3),
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
