//! Installing a version into the native layout.

use crate::check;
use crate::download::{Releases, unpack};
use crate::error::{UpdateError, at};
use crate::layout::{Layout, PROGRAM, sync_folder};
use crate::lock;
use crate::manifest::Artefact;
use crate::version::Version;
use crate::{TARGET, VERSION};
use lathe_process::{Command, Ending};
use lathe_settings::Environment;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How long the new program may take to print its version.
const TRIAL: Duration = Duration::from_secs(30);

/// The version that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The newest of a channel, which must not be older than the version in use.
    Update {
        /// The channel.
        channel: String,
    },
    /// A channel or a version, also an older one.
    Exactly {
        /// Its name.
        name: String,
        /// Whether a version that is there is fetched again, and another program's link replaced.
        force: bool,
    },
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// The version was in use already.
    Current(Version),
    /// Another version is in use now.
    Switched {
        /// The version before.
        from: Option<Version>,
        /// The version in use.
        to: Version,
        /// Old versions that were removed.
        removed: Vec<Version>,
    },
}

/// Installs what is wanted. The version in use changes at the very end, by one rename.
///
/// # Errors
/// For every reason of [`UpdateError`]; the version in use before is still in use then.
pub async fn install(
    environment: &Environment,
    address: Option<&str>,
    wanted: &Wanted,
) -> Result<Done, UpdateError> {
    let layout = Layout::of(environment)?;
    layout.create()?;
    let _lock = lock::update(&layout.locks())?;
    layout.clean();
    let force = matches!(wanted, Wanted::Exactly { force: true, .. });
    if !force && !layout.owns_link() {
        return Err(UpdateError::ForeignLink {
            link: layout.link.clone(),
            data: layout.data.clone(),
        });
    }
    let before = layout.current();
    // Going back to a version that is there needs no network.
    if let Wanted::Exactly { name, force: false } = wanted
        && let Ok(version) = name.parse::<Version>()
        && layout.program(&version).is_file()
    {
        return finish(&layout, before, version);
    }
    let releases = Releases::of(environment, address)?;
    let manifest = releases.manifest().await?;
    check::remember_serial(&layout, releases.address(), manifest.serial)?;
    let name = match wanted {
        Wanted::Update { channel } => channel,
        Wanted::Exactly { name, .. } => name,
    };
    let (version, artefact) = manifest.find(name, TARGET)?;
    if let Wanted::Update { channel } = wanted {
        refuse_downgrade(channel, &version, before.as_ref())?;
    }
    if force || !layout.program(&version).is_file() {
        stage(&layout, &releases, &version, artefact).await?;
    }
    finish(&layout, before, version)
}

/// An update never goes back: neither behind the version in use nor behind this program.
fn refuse_downgrade(
    channel: &str,
    offered: &Version,
    before: Option<&Version>,
) -> Result<(), UpdateError> {
    let current = match before {
        Some(version) => version.clone(),
        None => VERSION.parse()?,
    };
    if *offered < current {
        return Err(UpdateError::Downgrade {
            channel: channel.to_owned(),
            offered: offered.clone(),
            current,
        });
    }
    Ok(())
}

/// Fetches, checks and tries a version, then moves its program to its place.
async fn stage(
    layout: &Layout,
    releases: &Releases,
    version: &Version,
    artefact: &Artefact,
) -> Result<(), UpdateError> {
    let staging = layout.staging();
    let folder = tempfile::Builder::new()
        .prefix("install-")
        .tempdir_in(&staging)
        .map_err(at(&staging))?;
    let archive = folder.path().join("archive");
    releases.archive(artefact, &archive).await?;
    let program = folder.path().join(PROGRAM);
    let (file, place, name) = (archive, program.clone(), artefact.file.clone());
    lathe_spawn::blocking(move || unpack(&file, &name, &place))
        .await
        .map_err(|_| UpdateError::BadArchive {
            file: artefact.file.clone(),
            why: "it can't be unpacked".to_owned(),
        })??;
    let (tried, expected) = (program.clone(), version.clone());
    let trial = lathe_spawn::blocking(move || try_out(&tried, &expected)).await;
    trial.map_err(|_| UpdateError::DoesNotStart {
        version: version.clone(),
        why: "it could not be tried".to_owned(),
    })??;
    let place = layout.program(version);
    let parent = place.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(at(parent))?;
    fs::rename(&program, &place).map_err(at(&place))?;
    sync_folder(parent);
    Ok(())
}

/// Starts the new program, which must print the version that was promised.
fn try_out(program: &Path, version: &Version) -> Result<(), UpdateError> {
    let failed = |why: String| UpdateError::DoesNotStart {
        version: version.clone(),
        why,
    };
    let command = Command::new(program).argument("--version");
    let output = lathe_process::run_blocking(command, Vec::new(), TRIAL)
        .map_err(|error| failed(error.to_string()))?;
    match output.ending {
        Ending::Exited(0) if output.stdout.trim() == format!("{PROGRAM} {version}") => Ok(()),
        Ending::Exited(0) => Err(failed(format!(
            "it says it is '{}'",
            output.stdout.trim().chars().take(60).collect::<String>()
        ))),
        ending => Err(failed(format!("{ending:?} {}", output.stderr.trim()))),
    }
}

fn finish(layout: &Layout, before: Option<Version>, version: Version) -> Result<Done, UpdateError> {
    if before.as_ref() == Some(&version) {
        return Ok(Done::Current(version));
    }
    layout.switch(&version)?;
    let removed = layout.prune(before.as_ref());
    Ok(Done::Switched {
        from: before,
        to: version,
        removed,
    })
}
