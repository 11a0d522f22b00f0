//! The files of the AWS command line: `~/.aws/config` and `~/.aws/credentials`. Pure.

use std::collections::BTreeMap;

/// The sections of both files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Profiles {
    profiles: BTreeMap<String, BTreeMap<String, String>>,
    sessions: BTreeMap<String, BTreeMap<String, String>>,
}

impl Profiles {
    /// Reads the two files; keys of the second take precedence.
    pub(crate) fn read(config: &str, credentials: &str) -> Self {
        let mut all = Self::default();
        all.add(config, true);
        all.add(credentials, false);
        all
    }

    fn add(&mut self, text: &str, is_config: bool) {
        let mut section: Option<&mut BTreeMap<String, String>> = None;
        for line in text.lines() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = trimmed
                .strip_prefix('[')
                .and_then(|it| it.split(']').next())
            {
                let name = name.trim();
                section = if let Some(session) = name.strip_prefix("sso-session ") {
                    Some(self.sessions.entry(session.trim().to_owned()).or_default())
                } else {
                    let profile = name.strip_prefix("profile ").filter(|_| is_config);
                    let name = profile.unwrap_or(name).trim().to_owned();
                    Some(self.profiles.entry(name).or_default())
                };
                continue;
            }
            // A line that is indented belongs to a nested section, which says nothing about keys.
            if line.starts_with([' ', '\t']) {
                continue;
            }
            if let (Some(section), Some((name, value))) =
                (section.as_mut(), trimmed.split_once('='))
            {
                let value = value.split(" #").next().unwrap_or(value).trim();
                section.insert(name.trim().to_lowercase(), value.to_owned());
            }
        }
    }

    /// A value of a profile.
    pub(crate) fn get(&self, profile: &str, name: &str) -> Option<&str> {
        let value = self.profiles.get(profile)?.get(name)?;
        (!value.is_empty()).then_some(value.as_str())
    }

    /// Whether there is such a profile.
    pub(crate) fn has(&self, profile: &str) -> bool {
        self.profiles.contains_key(profile)
    }

    /// A value of the single sign-on of a profile, from the profile or its session.
    pub(crate) fn sso(&self, profile: &str, name: &str) -> Option<&str> {
        self.get(profile, name).or_else(|| {
            let session = self.get(profile, "sso_session")?;
            self.sessions.get(session)?.get(name).map(String::as_str)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_both_files_are_merged() {
        let profiles = Profiles::read(
            "[default]\nregion = eu-west-1\n[profile work] # x\nregion=us-east-1\nsso_session = corp\ns3 =\n  max = 1\n[sso-session corp]\nsso_region = eu-north-1\n",
            "; keys\n[work]\naws_access_key_id = AK\naws_secret_access_key = S=K\n",
        );
        assert_eq!(profiles.get("default", "region"), Some("eu-west-1"));
        assert_eq!(profiles.get("work", "region"), Some("us-east-1"));
        assert_eq!(profiles.get("work", "aws_secret_access_key"), Some("S=K"));
        assert_eq!(profiles.sso("work", "sso_region"), Some("eu-north-1"));
        assert!(profiles.get("work", "max").is_none() && !profiles.has("none"));
    }
}
