//! The packages of `scripts/dist`, installed from local files into scratch folders and run up to `lathe demo --fast`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests assert by panicking, and stand outside of the program"
)]

use base64::Engine as _;
use lathe_testkit::peer::{Peer, PeerReply};
use lathe_testkit::{TestHome, binary, workspace_root};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The system's programs, and nothing of the user's.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The packages, made once, from the program under test without its symbols.
fn packages() -> &'static Path {
    static MADE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    &MADE
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let program = folder.path().join("lathe");
            run(Command::new("strip")
                .arg("-o")
                .arg(&program)
                .arg(binary::lathe()));
            let out = folder.path().join("packages");
            let output = run(Command::new("python3")
                .arg(workspace_root().join("scripts/dist"))
                .arg("--binary")
                .arg(&program)
                .arg("--out")
                .arg(&out)
                .args(["--check", "--level", "1"]));
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(
                said.contains("two builds of the packages are equal"),
                "{said}"
            );
            (folder, out)
        })
        .1
}

fn package(beginning: &str, ending: &str) -> PathBuf {
    let found = std::fs::read_dir(packages())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut found = found.filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(beginning) && name.ends_with(ending)
    });
    found
        .next()
        .unwrap_or_else(|| panic!("no {beginning}…{ending}"))
}

/// Runs the installed program in a home of its own, with the system's programs only.
#[track_caller]
fn works(program: &Path, kind: &str) {
    let home = TestHome::new();
    let start = |arguments: &[&str]| {
        let mut command = Command::new(program);
        home.dress(&mut command);
        command.env("PATH", SYSTEM_PATH).args(arguments);
        run(&mut command)
    };
    let demo = start(&["demo", "--fast"]);
    assert!(!demo.stdout.is_empty());
    let update = String::from_utf8(start(&["update"]).stdout).unwrap();
    assert!(update.contains(&format!("{kind} installation")), "{update}");
}

#[test]
fn the_archive_works_and_has_everything() {
    let folder = tempfile::tempdir().unwrap();
    let archive = package("lathe-", ".tar.gz");
    run(Command::new("tar")
        .arg("-xzf")
        .arg(&archive)
        .arg("-C")
        .arg(folder.path()));
    let name = archive
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .replace(".tar.gz", "");
    let inside = folder.path().join(name);
    for file in [
        "LICENSE",
        "THIRD-PARTY-LICENSES.txt",
        "lathe.1",
        "completions/lathe.bash",
        "completions/_lathe",
        "completions/lathe.fish",
    ] {
        let size = std::fs::metadata(inside.join(file)).unwrap().len();
        assert!(size > 100, "{file} has {size} bytes");
    }
    works(&inside.join("lathe"), "unknown");
}

#[cfg(target_os = "linux")]
#[test]
fn the_debian_package_installs_into_a_system() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::create_dir_all(root.join("var/lib/dpkg/info")).unwrap();
    std::fs::create_dir_all(root.join("var/lib/dpkg/updates")).unwrap();
    std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    run(Command::new("dpkg")
        .arg(format!("--root={}", root.display()))
        .arg(format!("--log={}/log", root.display()))
        .args([
            "--force-depends",
            "--force-not-root",
            "--force-bad-path",
            "-i",
        ])
        .arg(package("lathe_", ".deb")));
    let list = std::fs::read_to_string(root.join("var/lib/dpkg/info/lathe.list")).unwrap();
    assert!(
        list.contains("/usr/share/bash-completion/completions/lathe"),
        "{list}"
    );
    works(&root.join("usr/bin/lathe"), "unknown");
}

/// A registry with the two packages of this machine.
fn registry() -> Peer {
    let entries: Vec<(String, Value, Vec<u8>)> = [package("npm-lathe", ".tgz"), native_npm()]
        .into_iter()
        .map(|path| {
            let bytes = std::fs::read(&path).unwrap();
            let output = run(Command::new("tar")
                .arg("-xzOf")
                .arg(&path)
                .arg("package/package.json"));
            let fields: Value = serde_json::from_slice(&output.stdout).unwrap();
            (fields["name"].as_str().unwrap().to_owned(), fields, bytes)
        })
        .collect();
    Peer::start(move |request, _| {
        let host = request.header("host").unwrap_or_default();
        let path = request
            .path
            .trim_start_matches('/')
            .replace("%2f", "/")
            .replace("%2F", "/");
        for (name, fields, bytes) in &entries {
            if path == format!("{name}/-/package.tgz") {
                return PeerReply::new(200, "application/octet-stream", bytes.clone());
            }
            if path == *name {
                let digest = <sha2::Sha512 as sha2::Digest>::digest(bytes);
                let integrity = base64::engine::general_purpose::STANDARD.encode(digest);
                let version = fields["version"].as_str().unwrap();
                let mut listed = fields.clone();
                listed["dist"] = json!({
                    "tarball": format!("http://{host}/{name}/-/package.tgz"),
                    "integrity": format!("sha512-{integrity}"),
                });
                return PeerReply::json(&json!({
                    "name": name, "dist-tags": {"latest": version}, "versions": {version: listed},
                }));
            }
        }
        PeerReply::not_found()
    })
}

fn native_npm() -> PathBuf {
    let system = if cfg!(target_os = "macos") {
        "npm-darwin"
    } else {
        "npm-linux"
    };
    package(system, ".tgz")
}

#[test]
fn the_npm_package_brings_the_program_of_the_platform_and_runs_no_script() {
    let registry = registry();
    let home = TestHome::new();
    let prefix = home.root().join("prefix");
    let mut npm = Command::new("npm");
    home.dress(&mut npm);
    run(npm
        .args([
            "install",
            "-g",
            "lathe",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--prefix",
        ])
        .arg(&prefix)
        .args(["--registry", &registry.url()])
        .arg("--cache")
        .arg(home.root().join("npm-cache")));
    let output = run(Command::new("tar")
        .arg("-xzOf")
        .arg(package("npm-lathe", ".tgz"))
        .arg("package/package.json"));
    let fields: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(fields.get("scripts"), None, "{fields}");
    let program = prefix.join("bin/lathe");
    works(&program, "npm-global");
    // The launcher on the PATH is not taken for another installation.
    let doctor = |path: &str| {
        let mut command = Command::new(&program);
        home.dress(&mut command);
        let output = command.env("PATH", path).args(["doctor", "--no-connect"]);
        String::from_utf8(output.output().unwrap().stdout).unwrap()
    };
    let bin = prefix.join("bin");
    let said = doctor(&format!("{}:{SYSTEM_PATH}", bin.display()));
    let fine = format!("`lathe` on the PATH is this one ({}/lathe)", bin.display());
    assert!(said.contains(&fine), "{said}");
    assert!(doctor(SYSTEM_PATH).contains("`npm prefix -g`"));
    // The exit code is passed on.
    let mut wrong = Command::new(&program);
    home.dress(&mut wrong);
    assert_eq!(
        wrong.arg("--no-such-flag").status().unwrap().code(),
        Some(2)
    );
}

#[test]
fn the_wheel_installs_the_program_as_a_script() {
    let folder = tempfile::tempdir().unwrap();
    let environment = folder.path().join("venv");
    run(Command::new("python3")
        .args(["-m", "venv"])
        .arg(&environment));
    run(Command::new(environment.join("bin/pip"))
        .args([
            "install",
            "--no-index",
            "--disable-pip-version-check",
            "--quiet",
            "--find-links",
        ])
        .arg(packages())
        .arg("lathe"));
    works(&environment.join("bin/lathe"), "pip");
}

#[test]
fn sums_bill_of_materials_and_licences_are_complete() {
    let sums = std::fs::read_to_string(packages().join("SHA256SUMS")).unwrap();
    run(Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
        .current_dir(packages()));
    let files = std::fs::read_dir(packages()).unwrap().count();
    assert_eq!(sums.lines().count(), files - 1, "{sums}");
    let bill = std::fs::read(package("lathe-", ".cdx.json")).unwrap();
    let bill: Value = serde_json::from_slice(&bill).unwrap();
    let components = bill["components"].as_array().unwrap();
    assert_eq!(bill["bomFormat"], "CycloneDX");
    let names: Vec<&str> = components
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    for name in ["tokio", "serde_json", "ring"] {
        assert!(names.contains(&name), "{name}");
    }
    for test_only in ["proptest", "insta", "pty-process"] {
        assert!(!names.contains(&test_only), "{test_only}");
    }
    for component in components {
        assert!(component["licenses"].is_array(), "{component}");
        assert_eq!(
            component["hashes"][0]["content"].as_str().map(str::len),
            Some(64),
            "{component}"
        );
    }
    let licences = std::fs::read_to_string(packages().join("THIRD-PARTY-LICENSES.txt")).unwrap();
    assert!(
        names
            .iter()
            .all(|name| licences.contains(&format!("{name} ")))
    );
    assert!(licences.contains("Permission is hereby granted"));
}

#[test]
fn a_release_that_is_signed_by_the_script_installs() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let key = root.join("key.pem");
    run(Command::new("openssl")
        .args(["genpkey", "-algorithm", "ed25519", "-out"])
        .arg(&key));
    let script = workspace_root().join("scripts/release-manifest");
    let output = run(Command::new("python3")
        .arg(&script)
        .arg("--print-key")
        .arg("--key")
        .arg(&key));
    let public = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let archive = package("lathe-", ".tar.gz");
    let version = env!("CARGO_PKG_VERSION");
    run(Command::new("python3")
        .arg(&script)
        .args([
            "--serial", "1", "--stable", version, "--latest", version, "--out",
        ])
        .arg(root)
        .arg("--key")
        .arg(&key)
        .arg(&archive));
    let (served, archive) = (root.to_path_buf(), archive);
    let peer = Peer::start(move |request, _| {
        let name = request.path.trim_start_matches('/');
        let file = if archive.ends_with(name) {
            archive.clone()
        } else {
            served.join(name)
        };
        match std::fs::read(file) {
            Ok(bytes) => PeerReply::new(200, "application/octet-stream", bytes),
            Err(_) => PeerReply::not_found(),
        }
    });
    let home = TestHome::new().variable("LATHE_TEST_RELEASE_KEY", public);
    let settings = json!({"releaseUrl": peer.url()}).to_string();
    std::fs::write(home.config().join("settings.json"), settings).unwrap();
    let output = home.run(["install"], "");
    assert_eq!(output.code(), Some(0), "{output:?}");
    let link = home.home().join(".local/bin/lathe");
    let mut demo = Command::new(&link);
    home.dress(&mut demo);
    run(demo.args(["demo", "--fast"]));
    let mut update = Command::new(&link);
    home.dress(&mut update);
    let said = String::from_utf8(run(update.arg("update")).stdout).unwrap();
    assert!(
        said.contains("native installation") && said.contains("already in use"),
        "{said}"
    );
}

/// The errors that the parser of a language finds in a file; `scripts/setup-tests` installs the parsers.
fn problems(language: &str, file: &Path) -> String {
    let packages = std::env::var_os("LATHE_TEST_PACKAGES")
        .map_or_else(|| workspace_root().join("target/test-packages"), Into::into);
    let folder = packages.join("packaging");
    let code = match language {
        "ruby" => {
            "const {loadPrism} = await import('@ruby/prism'); const parse = await loadPrism();
            for (const error of parse(text).errors) console.log(error.message);"
        }
        "docker" => {
            "const {validate} = (await import('dockerfile-utils')).default;
            for (const problem of validate(text)) console.log(problem.message);"
        }
        _ => {
            let code = "import sys, tree_sitter, tree_sitter_nix\n\
                parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_nix.language()))\n\
                print('wrong' if parser.parse(open(sys.argv[1], 'rb').read()).root_node.has_error else '', end='')";
            let mut python = Command::new(folder.join("venv/bin/python"));
            let output = run(python.args(["-c", code]).arg(file));
            return String::from_utf8(output.stdout).unwrap();
        }
    };
    let code = format!(
        "import {{readFileSync}} from 'node:fs'; const text = readFileSync(process.argv[1], 'utf8');\n{code}"
    );
    let mut node = Command::new("node");
    node.current_dir(&folder)
        .args(["--no-warnings", "--input-type=module", "-e", &code, "--"])
        .arg(file);
    String::from_utf8(run(&mut node).stdout).unwrap()
}

#[test]
fn the_image_and_the_flake_are_well_formed() {
    let root = workspace_root();
    let image = root.join("packaging/docker/Dockerfile");
    assert_eq!(problems("docker", &image), "");
    let flake = root.join("flake.nix");
    assert_eq!(problems("nix", &flake), "");
    let text = std::fs::read_to_string(&image).unwrap();
    let last_stage = text.rsplit("FROM ").next().unwrap();
    let user = last_stage.lines().find(|line| line.starts_with("USER "));
    assert!(user.is_some_and(|user| user != "USER root"), "{text}");
    // The version is in one place, and each image has one that is fixed.
    let text = std::fs::read_to_string(&flake).unwrap();
    assert!(text.contains("version = manifest.version;"), "{text}");
    // The parsers see what is wrong.
    let folder = tempfile::tempdir().unwrap();
    for (language, wrong) in [
        ("ruby", "class Lathe < Formula\n"),
        ("docker", "FORM alpine\nUSER\n"),
        ("nix", "{ outputs = { self "),
    ] {
        let file = folder.path().join(language);
        std::fs::write(&file, wrong).unwrap();
        assert_ne!(problems(language, &file), "", "{language}");
    }
}

#[test]
fn a_program_is_signed_before_it_is_packed() {
    let folder = tempfile::tempdir().unwrap();
    let signer = folder.path().join("signer");
    std::fs::write(
        &signer,
        "#!/bin/sh\nprintf ' signed with %s' \"$1\" >> \"$2\"\n",
    )
    .unwrap();
    run(Command::new("chmod").arg("755").arg(&signer));
    // A small program: what is in it does not matter here.
    let program = folder.path().join("lathe");
    std::fs::write(&program, "#!/bin/sh\necho words\nexit\n").unwrap();
    run(Command::new("chmod").arg("755").arg(&program));
    let before = std::fs::read(&program).unwrap();
    run(Command::new("python3")
        .arg(workspace_root().join("scripts/dist"))
        .arg("--binary")
        .arg(&program)
        .arg("--out")
        .arg(folder.path().join("packages"))
        .arg("--sign")
        .arg(format!("{} 'an identity'", signer.display()))
        .args(["--level", "1"]));
    assert_eq!(std::fs::read(&program).unwrap(), before);
    let mut archives = std::fs::read_dir(folder.path().join("packages"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let archive = archives
        .find(|path| path.to_str().unwrap().ends_with(".tar.gz"))
        .unwrap();
    let output = run(Command::new("tar")
        .arg("-xzOf")
        .arg(archive)
        .args(["--wildcards", "*/lathe"]));
    assert!(output.stdout.starts_with(&before));
    assert!(output.stdout.ends_with(b" signed with an identity"));
    // The workflow signs in that step, and nowhere after it.
    let workflow = workspace_root().join(".github/workflows/release.yml");
    let text = std::fs::read_to_string(workflow).unwrap();
    assert_eq!(text.matches("codesign").count(), 1, "{text}");
    let packing = text.find("scripts/dist").unwrap();
    let signing = text.find("--sign \"codesign").unwrap();
    let next_step = packing + text[packing..].find("\n      - ").unwrap();
    assert!(packing < signing && signing < next_step, "{text}");
}

#[test]
fn the_files_for_package_managers_are_filled_in() {
    let folder = tempfile::tempdir().unwrap();
    let targets = [
        "x86_64-unknown-linux-gnu",
        "aarch64-unknown-linux-gnu",
        "x86_64-apple-darwin",
        "aarch64-apple-darwin",
    ];
    let mut sums = String::new();
    for (number, target) in targets.iter().enumerate() {
        sums.push_str(&format!(
            "{:064x}  lathe-1.2.3-{target}.tar.gz\n",
            number + 1
        ));
    }
    std::fs::write(folder.path().join("SHA256SUMS"), sums).unwrap();
    let script = workspace_root().join("packaging/render");
    run(Command::new("python3").arg(&script).arg(folder.path()));
    for name in ["lathe.rb", "PKGBUILD"] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(text.contains("1.2.3") && !text.contains('@'), "{text}");
    }
    run(Command::new("bash")
        .arg("-n")
        .arg(folder.path().join("PKGBUILD")));
    assert_eq!(problems("ruby", &folder.path().join("lathe.rb")), "");
    for (name, sums) in [("lathe.rb", 4), ("PKGBUILD", 2)] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(text.matches(&"0".repeat(60)).count(), sums, "{text}");
    }
    std::fs::write(
        folder.path().join("SHA256SUMS"),
        "00  lathe-1.2.3-x86_64-apple-darwin.tar.gz\n",
    )
    .unwrap();
    let refused = Command::new("python3")
        .arg(&script)
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(!refused.status.success());
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("there is no archive for"), "{why}");
}
