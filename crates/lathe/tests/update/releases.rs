//! Releases of a test: archives, a manifest that is signed with a key of the test's own, and a server for them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lathe_testkit::peer::{Peer, PeerReply};
use lathe_testkit::run::{Output, Running};
use lathe_testkit::{TestHome, binary};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// A pair of keys.
pub(crate) struct Key(Ed25519KeyPair);

impl Key {
    pub(crate) fn new() -> Self {
        let random = ring::rand::SystemRandom::new();
        let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    pub(crate) fn public(&self) -> String {
        STANDARD.encode(self.0.public_key().as_ref())
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        STANDARD.encode(self.0.sign(bytes).as_ref()).into_bytes()
    }
}

/// A program that prints a version.
pub(crate) fn program(says: &str) -> Vec<u8> {
    format!("#!/bin/sh\necho 'lathe {says}'\n").into_bytes()
}

/// An archive with a program in it.
pub(crate) fn archive(program: &[u8]) -> Vec<u8> {
    let packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(packed);
    for (name, content) in [
        ("lathe-x/LICENSE", &b"text"[..]),
        ("lathe-x/lathe", program),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        header.set_cksum();
        tar.append_data(&mut header, name, content).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The files of the server.
#[derive(Clone)]
pub(crate) struct Files(pub(crate) Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

/// A server of releases with its key.
pub(crate) struct Releases {
    pub(crate) key: Key,
    pub(crate) files: Files,
    pub(crate) peer: Peer,
}

pub(crate) fn target() -> &'static str {
    lathe_update::TARGET
}

impl Releases {
    pub(crate) fn start(versions: &[&str], stable: &str, latest: &str) -> Self {
        let files = Files(Arc::default());
        let served = files.clone();
        let peer = Peer::start(move |request, _| {
            let name = request.path.trim_start_matches('/');
            match served.0.lock().unwrap().get(name) {
                Some(bytes) => PeerReply::new(200, "application/octet-stream", bytes.clone()),
                None => PeerReply::not_found(),
            }
        });
        let releases = Self {
            key: Key::new(),
            files,
            peer,
        };
        let mut listed = serde_json::Map::new();
        for version in versions {
            let bytes = archive(&program(version));
            let file = format!("lathe-{version}.tar.gz");
            listed.insert((*version).to_owned(), entry(&file, &bytes));
            releases.put(&file, bytes);
        }
        releases.publish(&json!({
            "format": 1, "serial": 1,
            "channels": {"stable": stable, "latest": latest},
            "versions": listed,
        }));
        releases
    }

    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) {
        self.files.0.lock().unwrap().insert(name.to_owned(), bytes);
    }

    pub(crate) fn publish(&self, manifest: &Value) {
        let bytes = manifest.to_string().into_bytes();
        self.put("manifest.json.sig", self.key.sign(&bytes));
        self.put("manifest.json", bytes);
    }

    pub(crate) fn manifest(&self) -> Value {
        serde_json::from_slice(&self.files.0.lock().unwrap()["manifest.json"]).unwrap()
    }

    /// A home that takes its releases from here.
    pub(crate) fn home(&self) -> TestHome {
        let home = TestHome::new().variable("LATHE_TEST_RELEASE_KEY", self.key.public());
        std::fs::write(
            home.config().join("settings.json"),
            json!({"releaseUrl": self.peer.url()}).to_string(),
        )
        .unwrap();
        home
    }
}

pub(crate) fn entry(file: &str, bytes: &[u8]) -> Value {
    json!({"targets": {target(): {"file": file, "sha256": sha256(bytes), "size": bytes.len()}}})
}

/// The link of a native installation.
pub(crate) fn link(home: &TestHome) -> PathBuf {
    home.home().join(".local/bin/lathe")
}

pub(crate) fn data(home: &TestHome) -> PathBuf {
    home.home().join(".local/share/lathe")
}

/// Installs the program under test as a native version, and gives its path.
pub(crate) fn make_native(home: &TestHome) -> PathBuf {
    let version = data(home).join("versions").join(lathe_update::VERSION);
    for folder in [
        &version,
        &data(home).join("locks"),
        &data(home).join("staging"),
    ] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::create_dir_all(home.home().join(".local/bin")).unwrap();
    let program = version.join("lathe");
    std::fs::hard_link(binary::lathe(), &program)
        .or_else(|_| std::fs::copy(binary::lathe(), &program).map(drop))
        .unwrap();
    std::os::unix::fs::symlink(&program, link(home)).unwrap();
    program
}

/// A command of the installed program.
pub(crate) fn native<'a>(home: &TestHome, arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let program = data(home)
        .join("versions")
        .join(lathe_update::VERSION)
        .join("lathe");
    let mut command = Command::new(program);
    home.dress(&mut command);
    command.args(arguments);
    command
}

pub(crate) fn finish(command: Command) -> Output {
    let mut running = Running::start(command);
    running.close_stdin();
    running.finish()
}

/// The version that the link starts.
#[track_caller]
pub(crate) fn starts(home: &TestHome) -> String {
    let mut command = Command::new(link(home));
    home.dress(&mut command);
    command.arg("--version");
    let output = finish(command);
    assert_eq!(output.code(), Some(0), "{output:?}");
    output.stdout.trim().replace("lathe ", "")
}
