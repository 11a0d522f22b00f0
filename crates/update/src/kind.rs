//! Kinds of installations, found from the path of the running program.

use crate::layout::Layout;
use lathe_settings::Environment;
use std::path::{Path, PathBuf};

/// How a program was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Our own layout below `~/.local/share/lathe`, which updates itself.
    Native,
    /// `cargo install`.
    Cargo,
    /// A global package of npm, pnpm, yarn or bun.
    NpmGlobal(&'static str),
    /// A package of a project's `node_modules`.
    NpmLocal,
    /// A Python package: pip, pipx or uv.
    Pip(&'static str),
    /// A package manager of the system.
    PackageManager(&'static str),
    /// The target folder of a checkout.
    Development,
    /// None of these, such as an unpacked archive.
    Unknown,
}

impl Kind {
    /// The kind of a program. `program` is its real path.
    #[must_use]
    pub fn of(program: &Path, environment: &Environment) -> Self {
        Self::with_root(program, environment, Path::new("/"))
    }

    /// As [`Kind::of`], with package databases below another root, for tests.
    fn with_root(program: &Path, environment: &Environment, root: &Path) -> Self {
        let layout = Layout::of(environment).ok();
        if layout.is_some_and(|layout| layout.version_of(program).is_some()) {
            return Self::Native;
        }
        let text = program.to_string_lossy();
        let has = |part: &str| text.contains(part);
        if has("/node_modules/") {
            return node(&text);
        }
        if has("/nix/store/") {
            return Self::PackageManager("nix");
        }
        if has("/Cellar/") || has("/homebrew/") || has("/linuxbrew/") {
            return Self::PackageManager("brew");
        }
        if has("/pipx/venvs/") {
            return Self::Pip("pipx");
        }
        if has("/uv/tools/") {
            return Self::Pip("uv");
        }
        if has_python_package(program) {
            return Self::Pip("pip");
        }
        if is_cargo(program, environment) {
            return Self::Cargo;
        }
        if is_target_folder(program) {
            return Self::Development;
        }
        if program.starts_with("/usr/bin") || program.starts_with("/bin") {
            return system_package(root);
        }
        Self::Unknown
    }

    /// A word for people and programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Cargo => "cargo",
            Self::NpmGlobal(_) => "npm-global",
            Self::NpmLocal => "npm-local",
            Self::Pip(_) => "pip",
            Self::PackageManager(_) => "package manager",
            Self::Development => "development",
            Self::Unknown => "unknown",
        }
    }

    /// How this kind is updated; `None` for the native one, which does it itself.
    #[must_use]
    pub fn how_to_update(&self) -> Option<&'static str> {
        Some(match self {
            Self::Native => return None,
            Self::Cargo => "cargo install --locked --git https://github.com/lathe-dev/lathe lathe",
            Self::NpmGlobal("pnpm") => "pnpm add -g lathe@latest",
            Self::NpmGlobal("bun") => "bun add -g lathe@latest",
            Self::NpmGlobal("yarn") => "yarn global add lathe@latest",
            Self::NpmGlobal(_) => "npm install -g lathe@latest",
            Self::NpmLocal => "npm install lathe@latest",
            Self::Pip("pipx") => "pipx upgrade lathe",
            Self::Pip("uv") => "uv tool upgrade lathe",
            Self::Pip(_) => "pip install --upgrade lathe",
            Self::PackageManager("brew") => "brew upgrade lathe",
            Self::PackageManager("apt") => "sudo apt-get install --only-upgrade lathe",
            Self::PackageManager("pacman") => "sudo pacman -Syu lathe",
            Self::PackageManager("nix") => "nix profile upgrade lathe",
            Self::PackageManager(_) => "update it with the package manager that installed it",
            Self::Development => "git pull && cargo build --release",
            Self::Unknown => "lathe install",
        })
    }

    /// How this kind is removed; `None` for the native one.
    #[must_use]
    pub fn how_to_remove(&self) -> Option<&'static str> {
        Some(match self {
            Self::Native => return None,
            Self::Cargo => "cargo uninstall lathe",
            Self::NpmGlobal("pnpm") => "pnpm remove -g lathe",
            Self::NpmGlobal("bun") => "bun remove -g lathe",
            Self::NpmGlobal("yarn") => "yarn global remove lathe",
            Self::NpmGlobal(_) => "npm uninstall -g lathe",
            Self::NpmLocal => "npm uninstall lathe",
            Self::Pip("pipx") => "pipx uninstall lathe",
            Self::Pip("uv") => "uv tool uninstall lathe",
            Self::Pip(_) => "pip uninstall lathe",
            Self::PackageManager("brew") => "brew uninstall lathe",
            Self::PackageManager("apt") => "sudo apt-get remove lathe",
            Self::PackageManager("pacman") => "sudo pacman -R lathe",
            Self::PackageManager("nix") => "nix profile remove lathe",
            Self::PackageManager(_) => "remove it with the package manager that installed it",
            Self::Development => "cargo clean",
            Self::Unknown => "delete the file",
        })
    }
}

fn node(path: &str) -> Kind {
    let has = |part: &str| path.contains(part);
    if has("/_npx/") {
        Kind::NpmLocal
    } else if has("/.bun/install/global/") {
        Kind::NpmGlobal("bun")
    } else if has("/pnpm/global/") {
        Kind::NpmGlobal("pnpm")
    } else if has("/yarn/global/") {
        Kind::NpmGlobal("yarn")
    } else if has("/lib/node_modules/") {
        Kind::NpmGlobal("npm")
    } else {
        Kind::NpmLocal
    }
}

/// Whether a Python environment around `bin/lathe` has our package.
fn has_python_package(program: &Path) -> bool {
    let Some(prefix) = program.parent().and_then(Path::parent) else {
        return false;
    };
    entries(&prefix.join("lib"))
        .filter(|folder| name_of(folder).starts_with("python3"))
        .flat_map(|folder| ["site-packages", "dist-packages"].map(|packages| folder.join(packages)))
        .flat_map(|packages| entries(&packages))
        .any(|entry| {
            let name = name_of(&entry);
            name.starts_with("lathe-") && name.ends_with(".dist-info")
        })
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn is_cargo(program: &Path, environment: &Environment) -> bool {
    let named = environment.foreign("CARGO_HOME").map(PathBuf::from);
    let usual = environment.home.as_ref().map(|home| home.join(".cargo"));
    let mut homes = named.into_iter().chain(usual);
    homes.any(|home| program.parent() == Some(&home.join("bin")))
}

/// Whether cargo built the program here: its notes are beside it.
fn is_target_folder(program: &Path) -> bool {
    let folder = program.parent();
    folder.is_some_and(|folder| folder.join(".fingerprint").is_dir())
}

fn system_package(root: &Path) -> Kind {
    if root.join("var/lib/dpkg/info/lathe.list").is_file() {
        return Kind::PackageManager("apt");
    }
    let mut packages = entries(&root.join("var/lib/pacman/local"));
    if packages.any(|package| name_of(&package).starts_with("lathe-")) {
        return Kind::PackageManager("pacman");
    }
    Kind::PackageManager("the system's")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(home: &Path) -> Environment {
        Environment {
            home: Some(home.to_owned()),
            ..Environment::default()
        }
    }

    #[test]
    fn the_kind_is_found_from_the_path() {
        let environment = environment(Path::new("/home/me"));
        let kind = |path: &str| Kind::of(Path::new(path), &environment);
        let all = [
            (
                "/home/me/.local/share/lathe/versions/0.1.0/lathe",
                Kind::Native,
            ),
            ("/home/me/.cargo/bin/lathe", Kind::Cargo),
            (
                "/usr/lib/node_modules/lathe/node_modules/@lathe-dev/linux-x64/bin/lathe",
                Kind::NpmGlobal("npm"),
            ),
            (
                "/home/me/.nvm/versions/node/v22.1.0/lib/node_modules/lathe/x/lathe",
                Kind::NpmGlobal("npm"),
            ),
            (
                "/home/me/.bun/install/global/node_modules/lathe/lathe",
                Kind::NpmGlobal("bun"),
            ),
            (
                "/home/me/.local/share/pnpm/global/5/node_modules/lathe/lathe",
                Kind::NpmGlobal("pnpm"),
            ),
            (
                "/home/me/work/node_modules/@lathe-dev/linux-x64/bin/lathe",
                Kind::NpmLocal,
            ),
            (
                "/home/me/.npm/_npx/1/node_modules/lathe/lathe",
                Kind::NpmLocal,
            ),
            (
                "/home/me/.local/share/pipx/venvs/lathe/bin/lathe",
                Kind::Pip("pipx"),
            ),
            (
                "/home/me/.local/share/uv/tools/lathe/bin/lathe",
                Kind::Pip("uv"),
            ),
            (
                "/opt/homebrew/Cellar/lathe/0.1.0/bin/lathe",
                Kind::PackageManager("brew"),
            ),
            (
                "/nix/store/abc-lathe-0.1.0/bin/lathe",
                Kind::PackageManager("nix"),
            ),
            ("/opt/lathe/lathe", Kind::Unknown),
            (
                "/home/me/.local/share/lathe/versions/../../x",
                Kind::Unknown,
            ),
        ];
        for (path, expected) in all {
            assert_eq!(kind(path), expected, "{path}");
        }
    }

    #[test]
    fn a_python_environment_a_checkout_and_a_package_database_are_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let packages = root.join("venv/lib/python3.12/site-packages/lathe-0.1.0.dist-info");
        std::fs::create_dir_all(packages).unwrap();
        let environment = environment(&root.join("home"));
        let kind = |path: &Path| Kind::with_root(path, &environment, root);
        assert_eq!(kind(&root.join("venv/bin/lathe")), Kind::Pip("pip"));

        let target = root.join("checkout/target/debug");
        std::fs::create_dir_all(&target).unwrap();
        assert_eq!(kind(&target.join("lathe")), Kind::Unknown);
        std::fs::create_dir_all(target.join(".fingerprint")).unwrap();
        assert_eq!(kind(&target.join("lathe")), Kind::Development);

        let packaged = Path::new("/usr/bin/lathe");
        assert_eq!(kind(packaged), Kind::PackageManager("the system's"));
        std::fs::create_dir_all(root.join("var/lib/dpkg/info")).unwrap();
        std::fs::write(root.join("var/lib/dpkg/info/lathe.list"), "").unwrap();
        assert_eq!(kind(packaged), Kind::PackageManager("apt"));
    }

    #[test]
    fn every_kind_but_the_native_one_names_its_commands() {
        for kind in [
            Kind::Cargo,
            Kind::NpmGlobal("npm"),
            Kind::NpmLocal,
            Kind::Pip("pip"),
            Kind::PackageManager("brew"),
            Kind::Development,
            Kind::Unknown,
        ] {
            assert!(kind.how_to_update().is_some() && kind.how_to_remove().is_some());
        }
        assert_eq!(Kind::Native.how_to_update(), None);
    }
}
