//! Folders for the tests of loading: a home, a repository and a company's folder.
use lathe_settings::{Environment, Places};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) struct TestFolders {
    _folder: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) places: Places,
}

impl TestFolders {
    /// Loading happens in `cwd`, a folder below the root.
    pub(crate) fn new(cwd: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        for path in ["home", "repo/.git", cwd, "managed"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        let environment = Environment {
            home: Some(root.join("home")),
            cwd: root.join(cwd),
            ..Environment::default()
        };
        let places = Places::with_managed(environment, root.join("managed"));
        Self {
            _folder: folder,
            root,
            places,
        }
    }
}

pub(crate) fn write(root: &Path, file: &str, text: &str) {
    let file = root.join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}
