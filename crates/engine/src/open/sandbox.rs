//! The sandbox of a session: whether there is one, and what is said if there isn't.

use crate::open::options::OpenError;
use lathe_permissions::SandboxFacts;
use lathe_protocol::diagnostic::Diagnostic;
use lathe_sandbox::{Sandbox, SandboxOptions, Tier};
use lathe_settings::{Places, Resolved};
use std::sync::Arc;

/// The sandbox of a session. Nothing is probed until somebody asks.
pub(crate) fn sandbox(places: &Places) -> Option<Arc<Sandbox>> {
    let helper = std::env::current_exe().ok()?;
    let search_path = places.environment.foreign("PATH").map(Into::into);
    Some(Arc::new(Sandbox::new(SandboxOptions {
        helper,
        state: places.config_home.join("sandbox"),
        search_path,
        only: None,
    })))
}

/// Whether settings switch the sandbox on.
pub(crate) fn is_wanted(settings: &Resolved, switched_off: bool) -> bool {
    let configured = settings.settings.sandbox.as_ref();
    !switched_off && configured.and_then(|sandbox| sandbox.enabled) == Some(true)
}

/// What permission decisions need to know. Probes the machine if settings want a sandbox.
pub(crate) fn facts(
    settings: &Resolved,
    switched_off: bool,
    sandbox: Option<&Arc<Sandbox>>,
) -> SandboxFacts {
    let configured = settings.settings.sandbox.clone().unwrap_or_default();
    let wanted = is_wanted(settings, switched_off);
    let tier = match sandbox {
        Some(sandbox) if wanted => sandbox.tier(),
        _ => Tier::None,
    };
    SandboxFacts::new(&configured, wanted, tier)
}

/// Refuses to start, or warns, where settings want a sandbox that can't be had.
pub(crate) fn check(
    settings: &Resolved,
    facts: &SandboxFacts,
    switched_off: bool,
    sandbox: Option<&Arc<Sandbox>>,
    remarks: &mut Vec<Diagnostic>,
) -> Result<(), OpenError> {
    if !is_wanted(settings, switched_off) || facts.bash_sandboxed {
        return Ok(());
    }
    let reasons = sandbox.map_or_else(
        || "the program doesn't find itself".to_owned(),
        |sandbox| sandbox.status().missing.join("; "),
    );
    if facts.settings.fail_if_unavailable == Some(true) {
        return Err(OpenError::NoSandbox { reasons });
    }
    remarks.push(Diagnostic::warning(format!(
        "settings ask for a sandbox, and none can be had here ({reasons}). Commands run without a sandbox and are asked about; sandbox.failIfUnavailable refuses to start instead"
    )));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The settings of a text, and a machine on which nothing confines commands.
    fn place(sandbox: &serde_json::Value) -> (tempfile::TempDir, Resolved, Arc<Sandbox>) {
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
        let none = Sandbox::new(SandboxOptions {
            helper: "/bin/false".into(),
            state: folder.path().join("state"),
            search_path: None,
            only: Some(Tier::None),
        });
        (folder, settings, Arc::new(none))
    }

    #[test]
    fn a_sandbox_that_can_not_be_had_is_refused_or_said() {
        let (_folder, settings, none) = place(&json!({"enabled": true}));
        let mut remarks = Vec::new();
        let found = facts(&settings, false, Some(&none));
        assert!(!found.bash_sandboxed);
        check(&settings, &found, false, Some(&none), &mut remarks).unwrap();
        assert_eq!(remarks.len(), 1);
        assert!(
            remarks[0]
                .to_string()
                .contains("settings ask for a sandbox"),
            "{remarks:?}"
        );
        let (_folder, settings, none) = place(&json!({"enabled": true, "failIfUnavailable": true}));
        let found = facts(&settings, false, Some(&none));
        let refused = check(&settings, &found, false, Some(&none), &mut remarks);
        assert!(matches!(refused, Err(OpenError::NoSandbox { .. })));
        // Switched off on the command line, nothing is needed.
        check(&settings, &found, true, Some(&none), &mut remarks).unwrap();
        let (_folder, settings, none) =
            place(&json!({"enabled": false, "failIfUnavailable": true}));
        check(
            &settings,
            &facts(&settings, false, Some(&none)),
            false,
            Some(&none),
            &mut remarks,
        )
        .unwrap();
        assert_eq!(remarks.len(), 1);
    }
}
