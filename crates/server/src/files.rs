//! Files of a session's folder: those that its Read rules let pass without a question, and no others.

use crate::api::{FileView, FolderEntry};
use crate::problem::Problem;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use lathe_permissions::PermissionContext;
use lathe_permissions::settings::context_of;
use lathe_protocol::permission::PermissionMode;
use lathe_settings::trust_store::TrustStore;
use lathe_settings::{Environment, LoadOptions, Places, load};
use std::io::Read as _;
use std::path::Path;

/// The largest file that is shown.
const LARGEST: u64 = 4 * 1024 * 1024;
/// How many entries of a folder are listed.
const MOST_ENTRIES: usize = 2_000;

/// Reads a file, or lists a folder, of a session that works in `folder`.
pub(crate) fn read(
    environment: &Environment,
    folder: &Path,
    wanted: &str,
) -> Result<FileView, Problem> {
    let context = context(environment, folder);
    // The place that is judged is the one that is opened: links are followed once, here.
    let path = std::fs::canonicalize(folder.join(wanted)).map_err(|_| absent())?;
    if !context.reads_freely(&path) {
        return Err(absent());
    }
    let found = std::fs::metadata(&path).map_err(|_| absent())?;
    let mut view = FileView {
        path: path.clone(),
        text: None,
        base64: None,
        entries: None,
    };
    if found.is_dir() {
        view.entries = Some(entries(&context, &path));
        return Ok(view);
    }
    if !found.is_file() {
        return Err(absent());
    }
    let mut content = Vec::new();
    std::fs::File::open(&path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut content))
        .map_err(|_| absent())?;
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > LARGEST {
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("files of up to {LARGEST} bytes are shown"),
        ));
    }
    match String::from_utf8(content) {
        Ok(text) => view.text = Some(text),
        Err(error) => view.base64 = Some(STANDARD.encode(error.as_bytes())),
    }
    Ok(view)
}

/// One answer for what isn't there and what may not be seen.
fn absent() -> Problem {
    Problem::not_found("such file that may be read without a question")
}

/// The permissions that a session would start with there, in the default mode.
fn context(environment: &Environment, folder: &Path) -> PermissionContext {
    let mut environment = environment.clone();
    folder.clone_into(&mut environment.cwd);
    let places = Places::new(environment);
    let trust = TrustStore::new(&places);
    let options = LoadOptions {
        flags: Vec::new(),
        managed_flags: Vec::new(),
        sources: None,
        trust: trust.trust(&places.project),
    };
    let settings = load(&places, &options);
    let (mut context, _) = context_of(&places, &settings, trust.is_trusted(&places.project));
    context.mode = PermissionMode::Default;
    context
}

fn entries(context: &PermissionContext, folder: &Path) -> Vec<FolderEntry> {
    let Ok(found) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut entries: Vec<FolderEntry> = found
        .flatten()
        .filter(|entry| context.reads_freely(&entry.path()))
        .take(MOST_ENTRIES)
        .map(|entry| FolderEntry {
            name: entry.file_name().to_string_lossy().into_owned(),
            folder: entry.path().is_dir(),
        })
        .collect();
    entries.sort();
    entries
}
