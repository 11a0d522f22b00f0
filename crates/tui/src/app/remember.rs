//! `#`: writes a line into an instruction file.

use crate::app::App;
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::Line;
use lathe_protocol::op::{Op, Prompt};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub(crate) fn ask_where(app: &mut App, text: &str) {
    let project = &app.places.project;
    let existing = ["AGENTS.md", "CLAUDE.md"]
        .iter()
        .find(|name| project.join(name).is_file())
        .unwrap_or(&"AGENTS.md");
    let user = user_file(app);
    let items = vec![
        Item::new(
            project.join(existing).display().to_string(),
            "For this project",
            format!("{existing}, shared with everyone"),
        ),
        Item::new(
            user.display().to_string(),
            "For all your projects",
            user.display().to_string(),
        ),
    ];
    let picker = Picker::new(
        Purpose::Memory {
            text: text.to_owned(),
        },
        "Where should this be remembered?",
        items,
    )
    .explained(vec![Line::plain(format!("  {text}"))]);
    app.layers.open(picker);
}

pub(crate) fn user_file(app: &App) -> PathBuf {
    let home = &app.places.config_home;
    ["AGENTS.md", "LATHE.md", "CLAUDE.md"]
        .iter()
        .map(|name| home.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| home.join("AGENTS.md"))
}

pub(crate) fn write(app: &mut App, text: &str, file: &str) {
    let path = Path::new(file);
    match add_line(path, text) {
        Ok(()) => {
            app.remark(format!("Remembered in {}", path.display()));
            let mut prompt = Prompt::new(format!(
                "The user asked to remember this, and it was added to {}: {text}",
                path.display()
            ));
            prompt.context_only = true;
            prompt.is_meta = true;
            app.queue.own_context.insert(prompt.uuid);
            app.engine.send(Op::Prompt(prompt));
        }
        Err(error) => app.warn(format!(
            "Nothing was written to {}: {error}",
            path.display()
        )),
    }
}

/// Why a line was not added. The file is as it was.
#[derive(Debug, thiserror::Error)]
enum AddError {
    #[error("it is not UTF-8; convert it, or add the line yourself")]
    NotText,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Adds a line to a file, which is replaced as a whole or left as it was.
fn add_line(path: &Path, text: &str) -> Result<(), AddError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // A link stays a link.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (before, mode) = match std::fs::read(&target) {
        Ok(bytes) => (
            bytes,
            std::fs::metadata(&target)?.permissions().mode() & 0o7777,
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (Vec::new(), 0o644),
        Err(error) => return Err(error.into()),
    };
    let mut whole = String::from_utf8(before).map_err(|_| AddError::NotText)?;
    if !whole.is_empty() && !whole.ends_with('\n') {
        whole.push('\n');
    }
    whole.push_str(&format!("- {text}\n"));
    Ok(lathe_settings::write::replace(
        &target,
        whole.as_bytes(),
        mode,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_added_and_a_file_in_another_encoding_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/AGENTS.md");
        add_line(&path, "one").unwrap();
        std::fs::write(&path, "# Rules\nkein Zeilenende").unwrap();
        add_line(&path, "two").unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "# Rules\nkein Zeilenende\n- two\n"
        );
        let latin = b"Gr\xfc\xdfe\n";
        std::fs::write(&path, latin).unwrap();
        let refused = add_line(&path, "three").unwrap_err().to_string();
        assert!(refused.contains("UTF-8"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), latin);
        let left: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_link_and_the_mode_of_its_file_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (
            folder.path().join("CLAUDE.md"),
            folder.path().join("AGENTS.md"),
        );
        std::fs::write(&file, "a\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        add_line(&link, "b").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "a\n- b\n");
        assert_eq!(
            std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o640
        );
    }
}
