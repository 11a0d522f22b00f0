//! The sandbox of a session: whether there is one, and what is said if there isn't.

use crate::open::options::OpenError;
use lathe_permissions::sandbox::{SandboxFacts, Wish};
use lathe_protocol::diagnostic::Diagnostic;
use lathe_sandbox::{Sandbox, Tier};
use lathe_settings::{Places, Resolved};
use std::path::Path;
use std::sync::Arc;

/// The file in the config home whose presence says that the default was explained.
const MARKER: &str = "sandbox-announced";

/// The sandbox of a session. Nothing is probed until somebody asks, unless it is wanted: then the probe runs while
/// the session is being opened.
pub(crate) fn sandbox(places: &Places, wish: Wish) -> Option<Arc<Sandbox>> {
    let search_path = places.environment.foreign("PATH").map(Into::into);
    let sandbox = Arc::new(Sandbox::of_program(&places.config_home, search_path)?);
    if wish != Wish::Off {
        let probed = Arc::clone(&sandbox);
        drop(lathe_spawn::blocking(move || probed.tier()));
    }
    Some(sandbox)
}

/// The facts for permission decisions. Probes the machine if a sandbox is enabled.
pub(crate) fn facts(
    settings: &Resolved,
    wish: Wish,
    sandbox: Option<&Arc<Sandbox>>,
) -> SandboxFacts {
    let configured = settings.settings.sandbox.clone().unwrap_or_default();
    let tier = match sandbox {
        Some(sandbox) if wish != Wish::Off => sandbox.tier(),
        _ => Tier::None,
    };
    SandboxFacts::new(&configured, wish, tier)
}

/// Refuses to start, or warns, where a sandbox is asked for that can't be had. Explains the default once.
pub(crate) fn check(
    facts: &SandboxFacts,
    wish: Wish,
    sandbox: Option<&Arc<Sandbox>>,
    config_home: &Path,
    remarks: &mut Vec<Diagnostic>,
) -> Result<(), OpenError> {
    match wish {
        Wish::On if !facts.bash_sandboxed => {}
        Wish::Default if facts.bash_sandboxed => {
            remarks.extend(explanation(config_home).map(Diagnostic::note));
            return Ok(());
        }
        Wish::On | Wish::Default | Wish::Off => return Ok(()),
    }
    let reasons = sandbox.map_or_else(
        || "the program has no helper for it".to_owned(),
        |sandbox| sandbox.status().missing.join("; "),
    );
    if facts.settings.fail_if_unavailable == Some(true) {
        return Err(OpenError::NoSandbox { reasons });
    }
    remarks.push(Diagnostic::warning(format!(
        "settings enable the sandbox, but none is available ({reasons}). Commands run without it and need confirmation; sandbox.failIfUnavailable refuses to start instead"
    )));
    Ok(())
}

/// An explanation of the sandbox, for the first session that uses it.
fn explanation(config_home: &Path) -> Option<String> {
    let marker = config_home.join(MARKER);
    if marker.exists() {
        return None;
    }
    // If it can't be written, the remark is made again.
    let _ = std::fs::create_dir_all(config_home);
    let _ = std::fs::write(&marker, "");
    Some(
        "Commands run in a sandbox and therefore without confirmation: they can write to the project, see no secrets, and reach only the hosts that you allow. Refusals are reported, and you can allow a command to run outside. `/sandbox` shows the policy; --no-sandbox, or sandbox.enabled in settings, disables the sandbox."
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_sandbox::SandboxOptions;
    use serde_json::json;

    /// The settings of a text, and a machine with this tier alone.
    struct Place {
        folder: tempfile::TempDir,
        settings: Resolved,
        places: Places,
        sandbox: Arc<Sandbox>,
    }

    impl Place {
        fn new(sandbox: &serde_json::Value, tier: Tier) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let environment = lathe_settings::Environment {
                variables: std::collections::BTreeMap::new(),
                home: Some(folder.path().to_path_buf()),
                cwd: folder.path().to_path_buf(),
                withheld: Default::default(),
            };
            let places = Places::new(environment);
            std::fs::create_dir_all(&places.config_home).unwrap();
            let file = places.config_home.join("settings.json");
            std::fs::write(file, json!({"sandbox": sandbox}).to_string()).unwrap();
            let settings = lathe_settings::load(&places, &lathe_settings::LoadOptions::default());
            let sandbox = Sandbox::new(SandboxOptions {
                helper: "/bin/false".into(),
                state: folder.path().join("state"),
                search_path: None,
                only: Some(tier),
            });
            Self {
                folder,
                settings,
                places,
                sandbox: Arc::new(sandbox),
            }
        }

        fn wish(&self, switched_off: bool) -> Wish {
            Wish::of(&self.settings, switched_off, &self.places.environment)
        }

        /// Whether commands run in the sandbox, and what is said about it.
        fn opened(&self, switched_off: bool) -> Result<(bool, Vec<String>), OpenError> {
            let wish = self.wish(switched_off);
            let sandbox = Some(&self.sandbox);
            let found = facts(&self.settings, wish, sandbox);
            let mut remarks = Vec::new();
            check(&found, wish, sandbox, self.folder.path(), &mut remarks)?;
            let said = remarks.iter().map(ToString::to_string).collect();
            Ok((found.bash_sandboxed, said))
        }
    }

    #[test]
    fn a_sandbox_that_can_not_be_had_is_refused_or_said() {
        let (on, said) = Place::new(&json!({"enabled": true}), Tier::None)
            .opened(false)
            .unwrap();
        assert!(!on && said.len() == 1, "{said:?}");
        assert!(said[0].contains("settings enable the sandbox"), "{said:?}");
        for needed in [
            json!({"enabled": true, "failIfUnavailable": true}),
            json!({"failIfUnavailable": true}),
        ] {
            let place = Place::new(&needed, Tier::None);
            assert!(matches!(
                place.opened(false),
                Err(OpenError::NoSandbox { .. })
            ));
            // Switched off on the command line, nothing is needed.
            assert_eq!(place.opened(true).unwrap(), (false, Vec::new()));
        }
        for quiet in [
            json!({"enabled": false, "failIfUnavailable": true}),
            json!({}),
        ] {
            let opened = Place::new(&quiet, Tier::None).opened(false).unwrap();
            assert_eq!(opened, (false, Vec::new()), "{quiet}");
        }
    }

    #[test]
    fn a_weak_sandbox_is_on_only_if_somebody_says_so() {
        let weak = Tier::Landlock;
        assert!(!Wish::Default.holds(weak) && Wish::On.holds(weak));
        assert!(Wish::Default.holds(Tier::Bubblewrap) && Wish::Default.holds(Tier::Namespaces));
        assert!(!Wish::Off.holds(Tier::Bubblewrap) && !Wish::On.holds(Tier::None));
    }

    #[test]
    fn the_default_is_explained_once() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        assert!(explanation(&home).unwrap().contains("--no-sandbox"));
        assert_eq!(explanation(&home), None);
    }

    #[test]
    fn managed_settings_keep_the_sandbox_on() {
        let mut place = Place::new(&json!({"enabled": true}), Tier::None);
        assert_eq!(place.wish(false), Wish::On);
        assert_eq!(place.wish(true), Wish::Off);
        for layer in &mut place.settings.layers {
            layer.source = lathe_settings::Source::Managed;
        }
        assert_eq!(place.wish(true), Wish::On);
        let variables = &mut place.places.environment.variables;
        variables.insert("LATHE_SANDBOX".to_owned(), "0".to_owned());
        assert_eq!(place.wish(false), Wish::On);
    }

    #[test]
    fn the_environment_switches_the_sandbox() {
        let mut place = Place::new(&json!({}), Tier::None);
        assert_eq!(place.wish(false), Wish::Default);
        for (value, wanted) in [("0", Wish::Off), ("1", Wish::On)] {
            let variables = &mut place.places.environment.variables;
            variables.insert("LATHE_SANDBOX".to_owned(), value.to_owned());
            assert_eq!(place.wish(false), wanted);
        }
    }
}
