//! The time zone of the user, read from the one file that describes it. A library that knows all zones by name looks at
//! hundreds of files first, which is a good part of a start.

use jiff::tz::TimeZone;
use std::path::Path;

/// Where the system keeps its zones, by name.
const ZONES: &str = "/usr/share/zoneinfo";
/// The system's own zone.
const LOCAL: &str = "/etc/localtime";

/// The zone where the user is, from what `TZ` and `TZDIR` say.
#[must_use]
pub fn zone(zone: Option<&str>, folder: Option<&str>) -> TimeZone {
    let zone = match zone {
        None => read(Path::new(LOCAL)),
        Some(zone) => named(zone, Path::new(folder.unwrap_or(ZONES))),
    };
    zone.unwrap_or(TimeZone::UTC)
}

/// A zone as `TZ` names it: a zone's name, a file, or rules in short.
fn named(zone: &str, folder: &Path) -> Option<TimeZone> {
    let name = zone.strip_prefix(':').unwrap_or(zone);
    if name.is_empty() {
        return None;
    }
    // Joining a path that begins at the root gives that path.
    read(&folder.join(name)).or_else(|| TimeZone::posix(name).ok())
}

fn read(path: &Path) -> Option<TimeZone> {
    TimeZone::tzif("", &std::fs::read(path).ok()?).ok()
}
