//! Version numbers, as semantic versioning orders them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A version: `1.2.3` or `1.2.3-rc.1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    numbers: [u64; 3],
    /// The part after the dash; empty for a release.
    before: String,
}

/// A text that is no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a version; it should look like 1.2.3")]
pub struct BadVersion(pub String);

impl FromStr for Version {
    type Err = BadVersion;

    /// A version is also the name of a folder, so nothing but letters, digits, dots and dashes is accepted.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadVersion(text.chars().take(60).collect());
        let (numbers, before) = text.split_once('-').unwrap_or((text, ""));
        let mut parts = numbers.split('.').map(|part| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            let plain = part == "0" || !part.starts_with('0');
            part.parse::<u64>().ok().filter(|_| digits && plain)
        });
        let mut next = || parts.next().flatten().ok_or_else(bad);
        let numbers = [next()?, next()?, next()?];
        let named = !text.contains('-')
            || (before.len() <= 40
                && before.split('.').all(|part| {
                    !part.is_empty()
                        && part
                            .bytes()
                            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                }));
        if parts.next().is_some() || !named {
            return Err(bad());
        }
        Ok(Self {
            numbers,
            before: before.to_owned(),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(formatter, "{major}.{minor}.{patch}")?;
        if self.before.is_empty() {
            return Ok(());
        }
        write!(formatter, "-{}", self.before)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| match (&self.before, &other.before) {
                (one, two) if one == two => Ordering::Equal,
                // A release comes after what was before it.
                (one, _) if one.is_empty() => Ordering::Greater,
                (_, two) if two.is_empty() => Ordering::Less,
                (one, two) => parts(one, two),
            })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares what is after the dash: numbers by value and before words.
fn parts(one: &str, two: &str) -> Ordering {
    let key = |part: &str| match part.parse::<u64>() {
        Ok(number) => (0, number, String::new()),
        Err(_) => (1, 0, part.to_owned()),
    };
    one.split('.').map(key).cmp(two.split('.').map(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_releases_are() {
        let ordered = [
            "0.1.0",
            "0.2.0-alpha",
            "0.2.0-rc.2",
            "0.2.0-rc.10",
            "0.2.0",
            "0.10.0",
            "1.0.0",
        ];
        let versions: Vec<Version> = ordered.iter().map(|text| text.parse().unwrap()).collect();
        assert!(versions.is_sorted());
        let shown: Vec<String> = versions.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ordered);
    }

    #[test]
    fn a_version_is_a_safe_name_of_a_folder() {
        for text in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "v1.2.3",
            "1.2.x",
            "../..",
            "1.2.3-",
            "1.2.3-a/b",
            "1.2.3-..",
            "1.2.3-a..b",
            "01.2.3",
            "1.2.3-a b",
            "1.2.3+x",
            " 1.2.3",
            "99999999999999999999.0.0",
        ] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }
}
