//! Facts about the installation, for `lathe doctor` and `lathe update`.

use crate::kind::Kind;
use crate::layout::Layout;
use crate::lock::{self, Found};
use crate::version::Version;
use lathe_settings::Environment;
use std::path::{Path, PathBuf};

/// The state of the installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The running program.
    pub program: PathBuf,
    /// How it was installed.
    pub kind: Kind,
    /// Programs of this name on the PATH, in its order, each real file once.
    pub on_path: Vec<PathBuf>,
    /// The versions of the native layout.
    pub versions: Vec<Version>,
    /// The version that the native link leads to.
    pub current: Option<Version>,
    /// Locks of the native layout.
    pub locks: Vec<Found>,
    /// Whether the native layout has unfinished work in it.
    pub unfinished: bool,
    /// Why this program can't update itself; `None` if it can.
    pub why_not: Option<String>,
}

/// Looks at the installation, and changes nothing.
#[must_use]
pub fn facts(environment: &Environment, program: &Path) -> Facts {
    let real = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_path_buf());
    let kind = Kind::of(&real, environment);
    let layout = Layout::of(environment).ok();
    let why_not = match (&kind, &layout) {
        (Kind::Native, Some(layout)) => refusal(environment, layout),
        (kind, _) => kind.how_to_update().map(str::to_owned),
    };
    let layout = layout.filter(|layout| layout.data.is_dir());
    Facts {
        program: real,
        kind,
        on_path: on_path(environment),
        versions: layout.as_ref().map(Layout::installed).unwrap_or_default(),
        current: layout.as_ref().and_then(Layout::current),
        locks: layout
            .as_ref()
            .map(|layout| lock::list(&layout.locks()))
            .unwrap_or_default(),
        unfinished: layout.is_some_and(|layout| {
            std::fs::read_dir(layout.staging()).is_ok_and(|mut entries| entries.next().is_some())
        }),
        why_not,
    }
}

/// Why a native installation can't be changed.
fn refusal(environment: &Environment, layout: &Layout) -> Option<String> {
    if let Err(error) = crate::manifest::key(environment) {
        return Some(error.to_string());
    }
    let bin = layout.link.parent().unwrap_or(Path::new("/"));
    [layout.versions().as_path(), bin]
        .into_iter()
        .find_map(|folder| {
            tempfile::tempfile_in(folder)
                .err()
                .map(|error| format!("{} can't be written: {error}", folder.display()))
        })
}

fn on_path(environment: &Environment) -> Vec<PathBuf> {
    let path = environment.foreign("PATH").unwrap_or_default();
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut found = Vec::new();
    for candidate in std::env::split_paths(path).map(|folder| folder.join("lathe")) {
        let Ok(real) = std::fs::canonicalize(&candidate) else {
            continue;
        };
        if real.is_file() && !seen.contains(&real) {
            seen.push(real);
            found.push(candidate);
        }
    }
    found
}
