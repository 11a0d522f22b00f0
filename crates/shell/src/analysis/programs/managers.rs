//! Package managers and tool chains: only what informs, and only where the project can't intervene.
//!
//! Most of them read a file of the project (`.npmrc`, `.cargo/config.toml`, `rust-toolchain.toml`,
//! `.yarnrc.yml`) that can name programs, hence the trusted folder.

use super::super::argument::{Argument, PathOperand};
use super::sub_commands::{self, SubCommand};
use super::{Obeys, Reading, Refusal, Verdict, all_fixed, refuse};

const NPM_COMMON: &str = "--json --long -l -g --global --depth= -a --all --parseable -p --omit= --include= --prod --production --dev \
    --silent -s --no-color --color= -w= --workspace= --workspaces";

const NPM: &[SubCommand] = &[
    ("ls", ""),
    ("list", ""),
    ("ll", ""),
    ("la", ""),
    ("view", ""),
    ("info", ""),
    ("show", ""),
    ("outdated", ""),
    ("root", ""),
    ("prefix", ""),
    ("explain", ""),
    ("why", ""),
    ("search", "--searchlimit="),
    ("whoami", ""),
    ("ping", ""),
    ("config get", ""),
    ("config list", ""),
    ("config ls", ""),
    ("-v", ""),
    ("fund", ""),
    ("query", ""),
    ("pkg get", ""),
    ("dist-tag ls", ""),
];

const YARN: &[SubCommand] = &[
    ("list", "--pattern= --depth= --json --prod"),
    ("info", "--json"),
    ("why", "--json"),
    ("outdated", "--json"),
    ("-v", ""),
    ("config get", ""),
    ("licenses list", ""),
];

const PNPM: &[SubCommand] = &[
    ("list", ""),
    ("ls", ""),
    ("why", ""),
    ("outdated", ""),
    ("root", ""),
    ("-v", ""),
    ("config get", ""),
    ("licenses list", ""),
];

const CARGO: &[SubCommand] = &[
    ("-V", ""),
    ("--list", ""),
    ("-vV", ""),
    ("locate-project", "--workspace --message-format="),
    ("read-manifest", "--manifest-path@"),
    ("verify-project", ""),
    ("search", "--limit="),
];

/// These write a lock file unless told not to.
const CARGO_LOCKED: &[SubCommand] = &[
    (
        "metadata",
        "--format-version= --no-deps --all-features --no-default-features -F= --features= --filter-platform=",
    ),
    (
        "tree",
        "-i= -e= -p= -d -f= --invert= --edges= --package= --duplicates --depth= --prefix= --no-dedupe --format= --charset= --workspace \
        --exclude= --all-features --no-default-features -F= --features= --target= --prune=",
    ),
    ("pkgid", ""),
];

const PIP: &[SubCommand] = &[
    (
        "list",
        "-o -u -e -l --outdated --uptodate --editable --local --user --format= --not-required --pre --exclude=",
    ),
    ("show", "-f --files"),
    (
        "freeze",
        "-l --local --user --all --exclude-editable --exclude=",
    ),
    ("check", ""),
    ("-V", ""),
    ("debug", ""),
    ("cache dir", ""),
    ("cache info", ""),
    ("cache list", ""),
    ("index versions", "--pre"),
    ("inspect", "--local --user"),
];

const GO: &[SubCommand] = &[
    ("version", "-m -v"),
    ("env", "-json"),
    ("doc", "-all -c -cmd -short -src -u"),
    ("list", "-json -m -f= -deps -test -e -find"),
    ("mod graph", ""),
    ("mod why", "-m -vendor"),
    ("tool", ""),
];

const RUSTUP: &[SubCommand] = &[
    ("toolchain list", "-v --verbose"),
    ("target list", "--installed --toolchain="),
    ("component list", "--installed --toolchain="),
    ("-V", ""),
    ("which", ""),
    ("show home", ""),
    ("override list", ""),
    ("check", ""),
];

const APT: &[SubCommand] = &[
    (
        "list",
        "--installed --upgradable --upgradeable -a --all-versions",
    ),
    ("show", "-a --all-versions"),
    ("search", "-n --names-only"),
    ("policy", ""),
    ("depends", ""),
    ("rdepends", ""),
];

const APT_CACHE: &[SubCommand] = &[
    ("search", "-n --names-only"),
    ("show", "-a --all-versions"),
    ("policy", ""),
    ("depends", ""),
    ("rdepends", ""),
];

const DPKG: &[SubCommand] = &[
    ("-l", ""),
    ("-L", ""),
    ("-s", ""),
    ("-S", ""),
    ("--list", ""),
    ("--listfiles", ""),
    ("--status", ""),
    ("--search", ""),
    ("--get-selections", ""),
    ("--print-architecture", ""),
];

const RPM: &[SubCommand] = &[
    ("-qa", ""),
    ("-qi", ""),
    ("-ql", ""),
    ("-qf", ""),
    ("-q", ""),
    ("-qc", ""),
    ("-qd", ""),
    ("-qR", ""),
];

const BREW: &[SubCommand] = &[
    ("list", "--versions --formula --cask -1 --full-name"),
    ("info", "--json? --cask --formula"),
    ("search", "--cask --formula"),
    ("deps", "--tree --installed"),
    ("uses", "--installed"),
    ("leaves", ""),
    ("config", ""),
    ("--prefix", ""),
    ("--version", ""),
    ("outdated", ""),
];

const SYSTEMCTL_COMMON: &str = "--no-pager --user --system -l -n= --full --lines= -q --quiet --no-legend --plain -o= \
    --output= -a --all -t= --type=";

const SYSTEMCTL: &[SubCommand] = &[
    ("status", ""),
    ("show", "-p= --property= --value"),
    ("list-units", "--all --type= --state= --failed"),
    ("list-unit-files", "--all --type= --state="),
    ("is-active", ""),
    ("is-enabled", ""),
    ("is-failed", ""),
    ("list-timers", "--all"),
    ("list-sockets", "--all"),
    ("list-dependencies", "--all --reverse"),
    ("--failed", ""),
    ("get-default", ""),
];

const GEM: &[SubCommand] = &[
    (
        "list",
        "-l -r -a --local --remote --all -d --details --versions",
    ),
    ("info", ""),
    ("search", ""),
    ("environment", ""),
    ("env", ""),
    ("which", ""),
    ("outdated", ""),
    ("contents", ""),
    ("dependency", ""),
];

const UV: &[SubCommand] = &[
    ("pip list", "--format= --outdated"),
    ("pip show", ""),
    ("pip freeze", ""),
    ("-V", ""),
    ("python list", "--only-installed"),
    ("tool list", ""),
    ("cache dir", ""),
];

const CONDA: &[SubCommand] = &[
    ("list", "-n= --name= --json"),
    ("env list", "--json"),
    ("info", "--json -e --envs"),
    ("-V", ""),
    ("search", ""),
];

/// Programs of which only the version is known.
const ONLY_VERSION: &[SubCommand] = &[("-v", ""), ("-V", "")];

/// Judges a package manager or tool chain; none if it isn't one.
pub(super) fn judge(name: &str, words: &[Argument]) -> Option<Verdict> {
    let (commands, everywhere, obeys): (&[SubCommand], &str, Obeys) = match name {
        "npm" => return Some(judge_npm(words)),
        "cargo" => return Some(judge_cargo(words)),
        "lathe" => return Some(judge_lathe(words)),
        "go" => return Some(judge_go(words)),
        "pnpm" => (
            PNPM,
            "--json --long -g --global --depth= --parseable --prod --dev --silent --no-color",
            Obeys::Folder,
        ),
        "yarn" => (YARN, "", Obeys::Folder),
        "pip" | "pip3" => (
            PIP,
            "--disable-pip-version-check -v -q --no-color --verbose --quiet --no-input",
            Obeys::Folder,
        ),
        "rustup" => (RUSTUP, "", Obeys::Folder),
        "apt" => (APT, "", Obeys::Nothing),
        "apt-cache" => (APT_CACHE, "", Obeys::Nothing),
        "dpkg" => (DPKG, "", Obeys::Nothing),
        "rpm" => (RPM, "", Obeys::Nothing),
        "brew" => (BREW, "", Obeys::Folder),
        "systemctl" => (SYSTEMCTL, SYSTEMCTL_COMMON, Obeys::Nothing),
        "gem" => (GEM, "", Obeys::Folder),
        "uv" => (UV, "", Obeys::Folder),
        "conda" => (CONDA, "", Obeys::Folder),
        "bun" | "mvn" | "gradle" | "dotnet" | "deno" => (ONLY_VERSION, "", Obeys::Folder),
        _ => return None,
    };
    if matches!(
        name,
        "yarn" | "pnpm" | "pip" | "pip3" | "gem" | "uv" | "conda" | "brew"
    ) && let Err(refusal) = only_package_names(words)
    {
        return Some(Err(refusal));
    }
    if let Err(refusal) = no_credentials(words) {
        return Some(Err(refusal));
    }
    if name == "systemctl"
        && let Err(refusal) = check_properties(words)
    {
        return Some(Err(refusal));
    }
    Some(sub_commands::judge(
        name, words, commands, everywhere, obeys,
    ))
}

/// `systemctl show` prints the environment of a service unless other properties are named.
fn check_properties(words: &[Argument]) -> Result<(), Refusal> {
    if words.first().and_then(Argument::fixed) != Some("show") {
        return Ok(());
    }
    let sorted = sub_commands::sorted("systemctl", words, SYSTEMCTL, SYSTEMCTL_COMMON)?;
    let mut named = sorted
        .values("-p")
        .chain(sorted.values("--property"))
        .peekable();
    let unnamed = named.peek().is_none();
    let shows = |list: &str| {
        list.split(',')
            .any(|property| property.trim().eq_ignore_ascii_case("environment"))
    };
    if unnamed || named.any(|list| list.is_none_or(shows)) {
        return refuse("systemctl show prints the environment of a service, which can hold keys");
    }
    Ok(())
}

fn obeying_folder() -> Reading {
    Reading {
        obeys: Obeys::Folder,
        ..Reading::default()
    }
}

/// Our own commands that only show something.
const LATHE: &[SubCommand] = &[
    ("agents list", ""),
    ("config env", ""),
    ("config list", ""),
    ("config schema", ""),
    ("hooks list", "--events"),
    ("permissions list", ""),
    ("skills list", ""),
];

fn judge_lathe(words: &[Argument]) -> Verdict {
    let fixed = all_fixed(words).ok_or("lathe with a word that isn't fixed")?;
    // Help is shown for any command, and nothing else happens.
    if let [commands @ .., "--help"] = fixed.as_slice()
        && commands.iter().all(|word| {
            word.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        })
        && commands.iter().all(|word| !word.starts_with('-'))
    {
        return Ok(Reading::default());
    }
    if let [_, _, rest @ ..] = words
        && rest.iter().any(|word| !word.text().starts_with("--"))
    {
        return refuse("lathe with words that aren't options");
    }
    sub_commands::judge("lathe", words, LATHE, "--json", Obeys::Folder)
}

fn judge_npm(words: &[Argument]) -> Verdict {
    // `npm run` alone lists the scripts; with a name it runs one.
    if let [Argument::Fixed(only)] = words
        && matches!(only.as_str(), "run" | "run-script")
    {
        return Ok(obeying_folder());
    }
    if words.first().and_then(Argument::fixed) == Some("run") {
        return refuse("npm run runs a script of the project");
    }
    only_package_names(words)?;
    no_credentials(words)?;
    sub_commands::judge("npm", words, NPM, NPM_COMMON, Obeys::Folder)
}

fn judge_cargo(words: &[Argument]) -> Verdict {
    let locked = all_fixed(words).is_some_and(|words| {
        words
            .iter()
            .any(|word| matches!(*word, "--locked" | "--frozen"))
    });
    if locked {
        let common =
            "--locked --frozen --offline -q --quiet -v --verbose --color= --manifest-path@";
        return sub_commands::judge("cargo", words, CARGO_LOCKED, common, Obeys::Folder);
    }
    let writes = words
        .first()
        .and_then(Argument::fixed)
        .is_some_and(|first| CARGO_LOCKED.iter().any(|(name, _)| *name == first));
    if writes {
        return refuse("cargo writes Cargo.lock here unless --locked is given");
    }
    sub_commands::judge(
        "cargo",
        words,
        CARGO,
        "-q --quiet -v --verbose --color= --offline",
        Obeys::Folder,
    )
}

/// Whether a word names a package and not an address that would be fetched.
fn is_package_name(word: &str) -> bool {
    let plain = word
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"@._-/^~<>=*".contains(&byte));
    plain && (!word.contains('/') || word.starts_with('@')) && !word.starts_with('.')
}

/// Refuses to show settings that hold passwords and tokens: `yarn config get npmAuthToken`.
fn no_credentials(words: &[Argument]) -> Result<(), Refusal> {
    let fixed: Vec<String> = words
        .iter()
        .filter_map(Argument::fixed)
        .map(str::to_ascii_lowercase)
        .collect();
    let [first, second, names @ ..] = fixed.as_slice() else {
        return Ok(());
    };
    let holds = |name: &String| {
        ["auth", "token", "pass", "secret", "key", "ident", "proxy"]
            .iter()
            .any(|word| name.contains(word))
            || name.starts_with('_')
            || name == "npmscopes"
            || name == "npmregistries"
    };
    if first == "config" && second == "get" && names.iter().any(holds) {
        return refuse("the setting can hold a password or a token");
    }
    Ok(())
}

/// Refuses operands that would be fetched from an address of the command's choice.
fn only_package_names(words: &[Argument]) -> Result<(), Refusal> {
    let operands = words
        .iter()
        .skip(1)
        .filter_map(Argument::fixed)
        .filter(|word| !word.starts_with('-'));
    for word in operands {
        if !is_package_name(word) {
            return refuse(format!("{word} isn't a plain package name"));
        }
    }
    Ok(())
}

/// Go's options are long ones with a single dash.
fn judge_go(words: &[Argument]) -> Verdict {
    let fixed = all_fixed(words).ok_or("go with a word that isn't fixed")?;
    let (length, allowed) = match fixed.as_slice() {
        ["mod", "graph" | "why", ..] => (2, "-m -vendor"),
        ["tool"] => (1, ""),
        [first, ..] => match GO.iter().find(|(name, _)| name == first) {
            Some((_, allowed)) if *first != "tool" => (1, *allowed),
            _ => return refuse(format!("go {first} may change things")),
        },
        [] => (0, ""),
    };
    let mut rest = fixed.iter().skip(length);
    let mut reading = obeying_folder();
    while let Some(word) = rest.next() {
        if !word.starts_with('-') {
            if fixed.first() == Some(&"version") {
                reading.paths.push(PathOperand::literal(*word));
            }
            // A version is looked up over the network, wherever the path points.
            if word.contains('@') {
                return refuse("go looks versions up over the network");
            }
            continue;
        }
        let name = word.split('=').next().unwrap_or_default();
        let name = name
            .strip_prefix('-')
            .filter(|name| name.starts_with('-'))
            .unwrap_or(name);
        if !allowed
            .split(' ')
            .any(|known| known.trim_end_matches('=') == name)
        {
            return refuse(format!("go's option {word} isn't known to be harmless"));
        }
        if allowed
            .split(' ')
            .any(|known| known.strip_suffix('=') == Some(name))
            && !word.contains('=')
        {
            rest.next();
        }
    }
    Ok(reading)
}
