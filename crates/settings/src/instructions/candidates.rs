//! Which files of a folder are instructions.

use super::Scope;
use std::path::{Path, PathBuf};

/// Something to load in a folder.
pub(super) enum Candidate {
    /// A file.
    File {
        /// The file.
        path: PathBuf,
        /// Whose words it is.
        scope: Scope,
    },
    /// A folder with rules.
    Rules {
        /// The folder.
        path: PathBuf,
    },
}

impl Candidate {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File { path, .. } | Self::Rules { path } => path,
        }
    }
}

/// The candidates of a folder in the order in which they speak: the shared ones, those in `.claude`
/// and `.lathe` (ours last), rules, and at the end the user's own for this folder.
pub(super) fn candidates_of(folder: &Path) -> Vec<Candidate> {
    let file = |path: PathBuf, scope| Candidate::File { path, scope };
    let mut candidates = Vec::new();
    for name in ["AGENTS.md", "CLAUDE.md"] {
        candidates.push(file(folder.join(name), Scope::Project));
    }
    for inner in [".claude", ".lathe"] {
        for name in ["AGENTS.md", "CLAUDE.md"] {
            candidates.push(file(folder.join(inner).join(name), Scope::Project));
        }
    }
    for inner in [".claude", ".lathe"] {
        candidates.push(Candidate::Rules {
            path: folder.join(inner).join("rules"),
        });
    }
    for name in ["AGENTS.local.md", "CLAUDE.local.md"] {
        candidates.push(file(folder.join(name), Scope::Local));
        for inner in [".claude", ".lathe"] {
            candidates.push(file(folder.join(inner).join(name), Scope::Local));
        }
    }
    candidates
}
