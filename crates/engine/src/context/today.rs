//! Today's date where the user is.

use jiff::Timestamp;
use lathe_tools::schedule::zone;

/// The date, as `2026-01-31`. `time_zone` is what `TZ` says, `folder` what `TZDIR` says.
pub(crate) fn date(now: Timestamp, time_zone: Option<&str>, folder: Option<&str>) -> String {
    now.to_zoned(zone(time_zone, folder)).date().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_that_of_the_persons_zone() {
        let now: Timestamp = "2026-03-01T23:30:00Z".parse().unwrap();
        for (zone, wanted) in [
            ("", "2026-03-01"),
            ("UTC0", "2026-03-01"),
            (":EST5EDT,M3.2.0,M11.1.0", "2026-03-01"),
            ("CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-02"),
            ("No/Such_Zone", "2026-03-01"),
        ] {
            assert_eq!(date(now, Some(zone), Some("/nowhere")), wanted, "{zone}");
        }
    }

    #[test]
    fn a_zone_is_read_from_the_folder_of_zones() {
        let folder = tempfile::tempdir().unwrap();
        // The smallest file of a zone: no changes, and rules for all time.
        let mut file = Vec::new();
        for version in 0..2 {
            file.extend_from_slice(b"TZif2");
            file.extend_from_slice(&[0; 15]);
            for count in [0_u32, 0, 0, 0, 1, 4] {
                file.extend_from_slice(&count.to_be_bytes());
            }
            file.extend_from_slice(&32_400_u32.to_be_bytes());
            file.extend_from_slice(b"\0\0JST\0");
            if version == 1 {
                file.extend_from_slice(b"\nJST-9\n");
            }
        }
        std::fs::create_dir(folder.path().join("Far")).unwrap();
        std::fs::write(folder.path().join("Far/East"), file).unwrap();
        let now: Timestamp = "2026-12-31T20:00:00Z".parse().unwrap();
        let told = date(now, Some("Far/East"), folder.path().to_str());
        assert_eq!(told, "2027-01-01");
    }
}
