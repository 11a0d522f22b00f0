//! What a confined command may do.

use std::path::PathBuf;

/// What a command that was found to only read may do. Everything else is refused by the kernel.
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
    /// Whether it may use the network.
    pub network: bool,
}

impl ReadOnlyPolicy {
    /// A policy with the system's own folders, for a process with this environment.
    #[must_use]
    pub fn with_system(system: &crate::SystemPaths) -> Self {
        Self {
            readable: system.readable.clone(),
            executable: system.executable.clone(),
            ..Self::default()
        }
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
