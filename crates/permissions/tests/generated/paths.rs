//! Made-up paths for the file tools, for rewinds and for whatever else comes into a request by its path: what passes is
//! looked up on the disk.

use super::common::{World, decide_on, subject};
use super::{Random, SECRET, variants};
use lathe_permissions::{PermissionContext, decide_edit};
use lathe_protocol::permission::{Decision, PermissionMode};
use std::path::{Path, PathBuf};

/// A world whose secrets hold a canary, with links to them from ordinary places.
fn world() -> World {
    let world = World::new();
    let project = world.project();
    for secret in [
        ".env",
        "kept/secret.txt",
        "../other/x",
        "../home/.ssh/id_rsa",
    ] {
        std::fs::write(project.join(secret), SECRET).unwrap();
    }
    for (target, name) in [
        ("../.env", "src/plain.txt"),
        ("../../home", "src/deep"),
        ("../kept", "src/open"),
        ("/", "src/all"),
        (".", "src/same"),
    ] {
        std::os::unix::fs::symlink(target, project.join(name)).unwrap();
    }
    world
}

/// A path made of steps, in one of the ways to write it.
fn path(random: &mut Random, world: &World) -> String {
    const STEPS: &[&str] = &[
        "src",
        "..",
        ".",
        "",
        "deep",
        "open",
        "same",
        "all",
        ".ssh",
        "kept",
        "home",
        "project",
        "other",
        "link-out",
        "link-env",
        "folder-out",
        ".git",
        "hooks",
        ".lathe",
        "circle",
        "SRC",
    ];
    const NAMES: &[&str] = &[
        ".env",
        ".ENV",
        ".env.local",
        "plain.txt",
        "main.rs",
        "x",
        "id_rsa",
        "secret.txt",
        "config",
        ".bashrc",
        "settings.json",
        "pre-commit",
        "new.txt",
        ".npmrc",
        "x.pem",
        "",
        ".",
        "..",
    ];
    let mut steps: Vec<String> = Vec::new();
    for _ in 0..random.below(5) {
        steps.push(random.one(STEPS).to_owned());
    }
    steps.push(random.one(NAMES).to_owned());
    let joined = steps.join(random.one(&["/", "/", "//", "/./"]));
    match random.below(7) {
        0 => format!("{}/{joined}", world.project().display()),
        1 => format!("~/{joined}"),
        2 => format!("{}/{joined}", world.home().display()),
        3 => format!("./{joined}"),
        4 => format!("{}/../{joined}", world.project().display()),
        _ => joined,
    }
}

/// Where a path that a tool got leads on this disk; its folder where it doesn't exist.
fn lands(text: &str, world: &World) -> Option<PathBuf> {
    let path = world.project().join(text);
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    let folder = path.parent()?.canonicalize().ok()?;
    folder
        .is_dir()
        .then(|| folder.join(path.file_name().unwrap_or_default()))
}

fn is_allowed(decision: &Decision) -> bool {
    matches!(decision, Decision::Allow { .. })
}

/// Causes 5 and 8: reads that pass show no secret, and writes that pass, those of a rewind among them, stay in the project
/// and away from what is protected.
#[test]
fn no_spelling_of_a_path_passes_for_another_file() {
    let world = world();
    let mut context = world.context();
    let mut random = Random::new();
    let (mut reads, mut writes) = (0, 0);
    for _ in 0..variants() {
        let text = path(&mut random, &world);
        let Some(real) = lands(&text, &world) else {
            continue;
        };
        context.mode = PermissionMode::Default;
        let tool = random.one(&["Read", "Grep"]);
        let written = subject(tool, &text, &world.project());
        // `~` is expanded by who resolves paths, not by the disk.
        let expanded = !text.starts_with('~');
        if expanded && is_allowed(&decide_on(tool, &written, &context)) {
            reads += 1;
            assert!(real.starts_with(world.project()), "{tool}({text})");
            let shown = std::fs::read_to_string(&real).unwrap_or_default();
            assert!(!shown.contains(SECRET), "{tool}({text}) shows a secret");
        }
        context.mode = PermissionMode::AcceptEdits;
        let written = subject("Write", &text, &world.project());
        if expanded && is_allowed(&decide_on("Write", &written, &context)) {
            writes += 1;
            assert_harmless(&real, &text, &world);
        }
        if expanded && is_allowed(&rewound(&text, &world, &context)) {
            assert_harmless(&real, &text, &world);
        }
    }
    assert!(reads > 50 && writes > 50, "{reads} reads, {writes} writes");
}

fn rewound(text: &str, world: &World, context: &PermissionContext) -> Decision {
    decide_edit(&world.project().join(text), context)
}

fn assert_harmless(real: &Path, text: &str, world: &World) {
    assert!(
        real.starts_with(world.project()),
        "{text} is written outside"
    );
    let inside = real.strip_prefix(world.project()).unwrap();
    let names: Vec<String> = inside
        .components()
        .map(|part| part.as_os_str().to_string_lossy().to_lowercase())
        .collect();
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let hit = [".lathe", ".bashrc", ".npmrc", ".env", "kept"]
        .iter()
        .any(|wanted| has(wanted))
        || (has(".git") && (has("hooks") || has("config")));
    assert!(!hit, "{text} is written");
}
