//! The look for a new version, at most once a day, and what is remembered of manifests.

use crate::TARGET;
use crate::VERSION;
use crate::download::Releases;
use crate::error::{UpdateError, at};
use crate::layout::Layout;
use crate::version::Version;
use lathe_settings::{Environment, Variable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime};

/// How long a look is good for.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The file of the state.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct State {
    /// The greatest serial number of a manifest by address.
    serials: BTreeMap<String, u64>,
    /// When a new version was last looked for, in seconds since 1970.
    checked: u64,
    /// The version that was found then.
    available: Option<String>,
}

fn read(layout: &Layout) -> State {
    fs::read(layout.state())
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

fn write(layout: &Layout, state: &State) -> Result<(), UpdateError> {
    let file = layout.state();
    fs::create_dir_all(&layout.data).map_err(at(&layout.data))?;
    let bytes = serde_json::to_vec(state).unwrap_or_default();
    lathe_settings::write::replace(&file, &bytes, 0o600).map_err(at(&file))
}

/// Refuses a manifest that is older than one that was seen before.
pub(crate) fn remember_serial(
    layout: &Layout,
    address: &str,
    serial: u64,
) -> Result<(), UpdateError> {
    let mut state = read(layout);
    let seen = state.serials.get(address).copied().unwrap_or(0);
    if serial < seen {
        return Err(UpdateError::OldManifest { serial, seen });
    }
    if serial > seen {
        state.serials.insert(address.to_owned(), serial);
        write(layout, &state)?;
    }
    Ok(())
}

/// Whether updates are switched off by the environment: by the variable, or since this is a build server.
#[must_use]
pub fn is_off(environment: &Environment) -> bool {
    environment.is_on(Variable::DisableAutoUpdates)
        || environment
            .foreign("CI")
            .is_some_and(|value| lathe_settings::environment::parse_switch(value) != Some(false))
}

/// The newer version that an earlier look found.
#[must_use]
pub fn known(environment: &Environment) -> Option<Version> {
    // A program that can't check a release has no news of one.
    crate::manifest::key(environment).ok()?;
    let state = read(&Layout::of(environment).ok()?);
    let available: Version = state.available?.parse().ok()?;
    (available > VERSION.parse().ok()?).then_some(available)
}

/// Whether the last look is more than a day ago.
#[must_use]
pub fn is_due(environment: &Environment) -> bool {
    let Ok(layout) = Layout::of(environment) else {
        return false;
    };
    let checked = SystemTime::UNIX_EPOCH + Duration::from_secs(read(&layout).checked);
    let since = SystemTime::now().duration_since(checked);
    crate::manifest::key(environment).is_ok() && since.is_ok_and(|since| since > DAY)
}

/// Looks for a new version and remembers the answer, also that there was none.
///
/// # Errors
/// As [`Releases::manifest`].
pub async fn look(
    environment: &Environment,
    address: Option<&str>,
    channel: &str,
) -> Result<Option<Version>, UpdateError> {
    let layout = Layout::of(environment)?;
    let mut state = read(&layout);
    state.checked = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    write(&layout, &state)?;
    let releases = Releases::of(environment, address)?;
    let manifest = releases.manifest().await?;
    remember_serial(&layout, releases.address(), manifest.serial)?;
    let (version, _) = manifest.find(channel, TARGET)?;
    let mut state = read(&layout);
    state.available = Some(version.to_string());
    write(&layout, &state)?;
    Ok((version > VERSION.parse()?).then_some(version))
}
