//! Installing, updating, going back and removing, with releases that are signed by the test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests assert by panicking"
)]

mod background;
mod kills;
mod purge;
mod releases;

use lathe_testkit::run::{Output, Running};
use lathe_testkit::{StreamJson, TestHome};
use releases::{
    Key, Releases, archive, data, entry, finish, link, make_native, native, program, starts, target,
};
use serde_json::{Value, json};

#[track_caller]
fn fine(output: &Output) -> String {
    assert_eq!(output.code(), Some(0), "{output:?}");
    output.stdout.clone()
}

#[track_caller]
fn refused(output: &Output, why: &str) {
    assert_eq!(output.code(), Some(1), "{output:?}");
    assert!(output.stderr.contains(why), "{why} is not in {output:?}");
}

fn versions(home: &TestHome) -> Vec<String> {
    let entries = std::fs::read_dir(data(home).join("versions")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_release_is_installed_updated_and_left_again() {
    let releases = Releases::start(&["9.0.0", "9.1.0", "9.2.0", "9.3.0"], "9.1.0", "9.3.0");
    let home = releases.home();
    let said = fine(&home.run(["install"], ""));
    assert!(said.contains("installed lathe 9.1.0"), "{said}");
    assert!(said.contains("is not on the PATH"), "{said}");
    assert_eq!(starts(&home), "9.1.0");
    let said = fine(&home.run(["install", "latest"], ""));
    assert!(said.contains("9.1.0 → 9.3.0"), "{said}");
    assert!(said.contains("autoUpdatesChannel latest"), "{said}");
    fine(&home.run(["install", "9.0.0"], ""));
    assert_eq!(starts(&home), "9.0.0");
    let said = fine(&home.run(["install", "9.0.0"], ""));
    assert!(said.contains("already in use"), "{said}");
    // Going back to a version that is there needs no network.
    drop(releases);
    fine(&home.run(["install", "9.1.0"], ""));
    assert_eq!(starts(&home), "9.1.0");
    assert_eq!(versions(&home), ["9.0.0", "9.1.0", "9.3.0"]);
    assert_eq!(
        std::fs::read_dir(data(&home).join("staging"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn the_last_three_versions_are_kept() {
    let all = ["9.0.0", "9.1.0", "9.2.0", "9.3.0", "9.4.0"];
    let releases = Releases::start(&all, "9.0.0", "9.4.0");
    let home = releases.home();
    for version in all {
        fine(&home.run(["install", version], ""));
    }
    assert_eq!(versions(&home), ["9.2.0", "9.3.0", "9.4.0"]);
}

#[test]
fn a_native_installation_updates_itself_by_its_channel_and_never_goes_back() {
    let releases = Releases::start(&["0.0.1", "9.1.0"], "0.0.1", "9.1.0");
    let home = releases.home();
    make_native(&home);
    let output = finish(native(&home, ["update"]));
    refused(&output, "which is older than");
    assert!(output.stdout.contains("channel stable"), "{output:?}");
    assert!(output.stdout.contains("native installation"), "{output:?}");
    fine(&home.run(["config", "set", "autoUpdatesChannel", "latest"], ""));
    let said = fine(&finish(native(&home, ["update", "--check"])));
    assert!(said.contains("lathe 9.1.0 is available"), "{said}");
    assert_eq!(starts(&home), lathe_update::VERSION);
    let said = fine(&finish(native(&home, ["update"])));
    assert!(said.contains("→ 9.1.0"), "{said}");
    assert_eq!(starts(&home), "9.1.0");
}

#[test]
fn another_kind_of_installation_is_not_touched() {
    let releases = Releases::start(&["9.1.0"], "9.1.0", "9.1.0");
    let home = releases.home();
    let said = fine(&home.run(["update"], ""));
    assert!(said.contains("development installation"), "{said}");
    assert!(said.contains("cargo build --release"), "{said}");
    assert!(!link(&home).exists());
    assert!(releases.peer.requests().is_empty());
}

/// Changes the manifest, and says why it is refused.
type Attack = (&'static str, fn(&Releases, &mut Value));

const ATTACKS: [Attack; 12] = [
    ("signature", |releases, manifest| {
        let bytes = manifest.to_string().into_bytes();
        releases.put("manifest.json.sig", Key::new().sign(&bytes));
    }),
    ("signature", |releases, _| {
        releases.put("manifest.json.sig", b"AAAA".to_vec());
    }),
    ("signature", |releases, manifest| {
        manifest["serial"] = json!(7);
        releases.put("manifest.json", manifest.to_string().into_bytes());
    }),
    ("another SHA-256", |releases, _| {
        let mut bytes = archive(&program("9.1.0"));
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        releases.put("lathe-9.1.0.tar.gz", bytes);
    }),
    ("bytes instead of", |releases, _| {
        let bytes = archive(&program("9.1.0"));
        releases.put("lathe-9.1.0.tar.gz", bytes[..bytes.len() / 2].to_vec());
    }),
    ("bytes instead of", |releases, _| {
        let bytes = archive(&program("9.1.0")).repeat(3);
        releases.put("lathe-9.1.0.tar.gz", bytes);
    }),
    ("not a release archive", |releases, manifest| {
        let bytes = archive(&program("9.1.0"));
        let cut = bytes[..bytes.len() / 2].to_vec();
        manifest["versions"]["9.1.0"] = entry("lathe-9.1.0.tar.gz", &cut);
        releases.put("lathe-9.1.0.tar.gz", cut);
        releases.publish(manifest);
    }),
    ("says it is 'lathe 6.6.6'", |releases, manifest| {
        let bytes = archive(&program("6.6.6"));
        manifest["versions"]["9.1.0"] = entry("lathe-9.1.0.tar.gz", &bytes);
        releases.put("lathe-9.1.0.tar.gz", bytes);
        releases.publish(manifest);
    }),
    ("does not start", |releases, manifest| {
        let bytes = archive(b"\x7fELF for another machine");
        manifest["versions"]["9.1.0"] = entry("lathe-9.1.0.tar.gz", &bytes);
        releases.put("lathe-9.1.0.tar.gz", bytes);
        releases.publish(manifest);
    }),
    ("not a plain name", |releases, manifest| {
        manifest["versions"]["9.1.0"]["targets"][target()]["file"] = json!("../../../etc/x");
        releases.publish(manifest);
    }),
    ("there is no version 9.1.0", |releases, manifest| {
        manifest["versions"] = json!({});
        releases.publish(manifest);
    }),
    ("this program reads 1", |releases, manifest| {
        manifest["format"] = json!(2);
        releases.publish(manifest);
    }),
];

#[test]
fn anything_but_the_signed_release_is_refused_with_the_reason() {
    let releases = Releases::start(&["9.0.0", "9.1.0"], "9.0.0", "9.1.0");
    let home = releases.home();
    fine(&home.run(["install", "9.0.0"], ""));
    let sound = releases.files.0.lock().unwrap().clone();
    for (number, (why, attack)) in ATTACKS.into_iter().enumerate() {
        let mut manifest = releases.manifest();
        attack(&releases, &mut manifest);
        let output = home.run(["install", "9.1.0"], "");
        refused(&output, why);
        assert_eq!(starts(&home), "9.0.0", "after attack {number}");
        assert_eq!(versions(&home), ["9.0.0"], "after attack {number}");
        releases.files.0.lock().unwrap().clone_from(&sound);
    }
    fine(&home.run(["install", "9.1.0"], ""));
}

#[test]
fn an_old_manifest_is_not_taken_for_the_newest() {
    let releases = Releases::start(&["9.0.0", "9.1.0"], "9.0.0", "9.1.0");
    let home = releases.home();
    let old = releases.files.0.lock().unwrap().clone();
    let mut manifest = releases.manifest();
    manifest["serial"] = json!(5);
    releases.publish(&manifest);
    fine(&home.run(["install", "9.0.0"], ""));
    *releases.files.0.lock().unwrap() = old;
    refused(&home.run(["install", "9.1.0"], ""), "replayed");
}

#[test]
fn releases_come_from_encrypted_addresses_and_the_settings_of_a_folder_name_none() {
    let releases = Releases::start(&["9.1.0"], "9.1.0", "9.1.0");
    let home = releases.home();
    fine(&home.run(
        ["config", "set", "releaseUrl", "http://releases.example"],
        "",
    ));
    refused(&home.run(["install"], ""), "must begin with https://");
    // A folder can't choose where programs come from, also if it is trusted.
    home.write(
        ".lathe/settings.json",
        json!({"releaseUrl": releases.peer.url()}).to_string(),
    );
    fine(&home.run(["trust", "add"], ""));
    refused(&home.run(["install"], ""), "must begin with https://");
    assert!(releases.peer.requests().is_empty());
}

#[test]
fn a_program_without_a_key_installs_nothing() {
    let releases = Releases::start(&["9.1.0"], "9.1.0", "9.1.0");
    let home = releases.home().variable("LATHE_TEST_RELEASE_KEY", "");
    refused(&home.run(["install"], ""), "no release key");
    let home = releases
        .home()
        .variable("LATHE_TEST_RELEASE_KEY", "c2hvcnQ=");
    refused(&home.run(["install"], ""), "not 32 bytes");
}

#[test]
fn a_program_of_another_maker_in_the_way_is_replaced_only_by_force() {
    let releases = Releases::start(&["9.1.0"], "9.1.0", "9.1.0");
    let home = releases.home();
    std::fs::create_dir_all(home.home().join(".local/bin")).unwrap();
    std::fs::write(link(&home), "mine").unwrap();
    refused(&home.run(["install"], ""), "--force replaces it");
    assert_eq!(std::fs::read_to_string(link(&home)).unwrap(), "mine");
    fine(&home.run(["install", "--force"], ""));
    assert_eq!(starts(&home), "9.1.0");
}

#[test]
fn a_second_updater_names_the_first_and_changes_nothing() {
    let releases = Releases::start(&["9.1.0"], "9.1.0", "9.1.0");
    let home = releases.home();
    // The first waits for its archive as long as the test holds the files.
    let held = releases.files.0.lock().unwrap();
    let first = home.spawn(["install"]);
    let lock = data(&home).join("locks/update");
    let pid = first.pid().to_string();
    while !std::fs::read_to_string(&lock).is_ok_and(|text| text == pid) {
        std::thread::yield_now();
    }
    let second = home.run(["install"], "");
    refused(&second, &format!("another process (PID {pid}) changes"));
    let diagnosis = home.run(["doctor", "--no-connect"], "").stdout;
    assert!(
        diagnosis.contains(&format!("lock update: running, PID {pid}")),
        "{diagnosis}"
    );
    drop(held);
    fine(&first.finish());
    assert_eq!(starts(&home), "9.1.0");
}

#[test]
fn a_version_that_runs_is_not_removed_and_doctor_lists_its_lock() {
    let all = ["9.0.0", "9.1.0", "9.2.0", "9.3.0"];
    let releases = Releases::start(&all, "9.0.0", "9.3.0");
    let home = releases.home().variable("ANTHROPIC_API_KEY", "test-key");
    make_native(&home);
    let mut command = native(
        &home,
        [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
        ],
    );
    command.env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    let running = Running::start(command);
    let name = format!("run-{}-{}", lathe_update::VERSION, running.pid());
    while !data(&home).join("locks").join(&name).is_file() {
        std::thread::yield_now();
    }
    for version in all {
        fine(&home.run(["install", version], ""));
    }
    assert_eq!(
        versions(&home),
        [lathe_update::VERSION, "9.1.0", "9.2.0", "9.3.0"]
    );
    let diagnosis = home.run(["doctor", "--no-connect"], "").stdout;
    let line = format!("lock {name}: running, PID {}", running.pid());
    assert!(diagnosis.contains(&line), "{diagnosis}");
    running.kill();
    drop(running.finish());
    let diagnosis = home.run(["doctor", "--no-connect"], "").stdout;
    assert!(
        diagnosis.contains(&format!("lock {name}: stale")),
        "{diagnosis}"
    );
    // Cleaned up by the next change.
    fine(&home.run(["install", "9.0.0"], ""));
    assert!(!data(&home).join("locks").join(&name).exists());
    assert!(!versions(&home).contains(&lathe_update::VERSION.to_owned()));
}

#[test]
fn doctor_describes_a_native_installation() {
    let releases = Releases::start(&["9.0.0"], "9.0.0", "9.0.0");
    let home = releases.home().variable("SHELL", "/bin/bash");
    make_native(&home);
    let bin = home.home().join(".local/bin");
    let other = home.home().join("bin");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join("lathe"), "").unwrap();
    let path = format!("{}:{}", bin.display(), other.display());
    let mut command = native(&home, ["doctor", "--no-connect"]);
    command.env("PATH", path);
    let text = finish(command).stdout;
    for line in [
        "the kind of the installation: native",
        "it can update itself, from the channel stable",
        "there are several installations",
        "native versions: ",
        "completions for bash are not installed",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[test]
fn an_installation_is_removed_and_settings_only_when_asked() {
    let releases = Releases::start(&["9.1.0"], "9.1.0", "9.1.0");
    let home = releases.home();
    fine(&home.run(["install"], ""));
    let said = fine(&home.run(["uninstall"], ""));
    assert!(!link(&home).exists() && !data(&home).exists(), "{said}");
    assert!(home.config().join("settings.json").is_file());
    assert!(
        said.contains("settings and sessions are still in"),
        "{said}"
    );
    fine(&home.run(["install"], ""));
    let elsewhere = home.root().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let mut command = home.command(["uninstall", "--purge"]);
    command.env("LATHE_CONFIG_DIR", &elsewhere);
    assert_eq!(finish(command).code(), Some(2));
    assert!(elsewhere.is_dir());
    fine(&home.run(["uninstall", "--purge"], ""));
    assert!(!home.config().exists());
}

#[test]
fn a_session_of_another_kind_of_installation_takes_no_lock() {
    let server = lathe_testkit::server([lathe_scripted::Reply::text("hello")]);
    let home = TestHome::new().server(&server);
    let mut session = StreamJson::start(&home, ["--max-turns", "5"]);
    session.prompt("hi");
    session.wait_for_result();
    assert!(!data(&home).exists());
    let _ = session.close();
}
