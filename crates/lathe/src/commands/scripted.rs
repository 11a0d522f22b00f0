//! Sessions of subcommands that are answered by a script on loopback.

use lathe_settings::Environment;
use std::path::Path;

/// Beginnings of variables that choose a model or change the harness.
const ABOUT_MODELS: [&str; 7] = [
    "ANTHROPIC_",
    "CLAUDE",
    "LATHE_",
    "OPENAI_",
    "AWS_",
    "GOOGLE_",
    "GEMINI_",
];

/// The user's environment in another folder, without what chooses a model, and with settings and sessions of its own.
pub(crate) fn environment(
    environment: &Environment,
    cwd: &Path,
    config: &Path,
    address: &str,
    sandbox: bool,
) -> Environment {
    let mut environment = environment.clone();
    cwd.clone_into(&mut environment.cwd);
    let variables = &mut environment.variables;
    variables.retain(|name, _| !ABOUT_MODELS.iter().any(|prefix| name.starts_with(prefix)));
    let sandbox = if sandbox { "1" } else { "0" };
    for (name, value) in [
        ("LATHE_CONFIG_DIR", config.display().to_string()),
        ("ANTHROPIC_BASE_URL", address.to_owned()),
        ("ANTHROPIC_API_KEY", "scripted".to_owned()),
        ("LATHE_SANDBOX", sandbox.to_owned()),
        ("LATHE_SESSION_TITLES", "0".to_owned()),
        ("NO_PROXY", "127.0.0.1".to_owned()),
    ] {
        variables.insert(name.to_owned(), value);
    }
    environment
}
