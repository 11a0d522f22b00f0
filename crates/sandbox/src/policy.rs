//! The policy of a confined command.

use std::path::PathBuf;

/// The rights of a command that was found to only read. The kernel refuses everything else.
///
/// Paths that don't exist are skipped. A folder includes everything below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOnlyPolicy {
    /// Files and folders that it may read, but not run.
    pub readable: Vec<PathBuf>,
    /// Files and folders that it may read and run programs from.
    pub executable: Vec<PathBuf>,
    /// Folders that it may write in: a private temporary folder at most.
    pub writable: Vec<PathBuf>,
    /// Files below readable folders that it may not read: secrets.
    pub hidden: Vec<PathBuf>,
    /// Lines of an attributes file for git: which files it treats as binary, so that it shows no patches of them.
    pub git_attributes: String,
    /// Whether it may use the network.
    pub network: bool,
}

impl ReadOnlyPolicy {
    /// Adds what programs of the system need. Folders of the search path that lie in a readable folder
    /// are the project's, not the system's, and stay unable to run.
    pub fn add_system(&mut self, system: &crate::SystemPaths) {
        let is_home = |folder: &PathBuf| {
            let home = system.home.as_ref();
            home.is_some_and(|home| home.starts_with(folder))
        };
        let brought = |path: &PathBuf| {
            let mut folders = self.readable.iter().filter(|folder| !is_home(folder));
            folders.any(|folder| path.starts_with(folder))
        };
        let searched = system.searched.iter().filter(|path| !brought(path));
        let executable = system.executable.iter().chain(searched).cloned();
        self.executable.extend(executable.collect::<Vec<_>>());
        self.readable.extend(system.readable.iter().cloned());
    }

    /// Whether it may read a path.
    #[must_use]
    pub fn reads(&self, path: &std::path::Path) -> bool {
        let lists = [&self.readable, &self.executable, &self.writable];
        lists
            .iter()
            .any(|list| list.iter().any(|allowed| path.starts_with(allowed)))
    }
}
