//! The daily look for a new version, from a terminal.

use crate::releases::{Releases, data, link, make_native, native, starts};
use lathe_testkit::TestHome;
use lathe_testkit::pty::Terminal;
use serde_json::json;

fn settings(home: &TestHome, releases: &Releases, updates: &str) {
    std::fs::write(
        home.config().join("settings.json"),
        json!({"releaseUrl": releases.peer.url(), "autoUpdates": updates}).to_string(),
    )
    .unwrap();
}

fn home(releases: &Releases) -> TestHome {
    releases
        .home()
        .variable("ANTHROPIC_API_KEY", "test-key")
        .variable("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
}

fn state(home: &TestHome) -> String {
    std::fs::read_to_string(data(home).join("state.json")).unwrap_or_default()
}

fn start(home: &TestHome) -> Terminal {
    let terminal = Terminal::start(&native(home, []), 80, 24);
    terminal.wait_for("? for keys");
    terminal
}

#[test]
fn a_new_version_is_named_at_the_next_start_and_looked_for_once_a_day() {
    let releases = Releases::start(&["9.1.0"], "9.1.0", "9.1.0");
    let home = home(&releases);
    make_native(&home);
    let mut terminal = start(&home);
    terminal.wait("the look for a version", |_| state(&home).contains("9.1.0"));
    terminal.leave();
    let asked = releases.peer.requests().len();
    let mut terminal = start(&home);
    terminal.wait_everything("the notice", |text| {
        text.contains("lathe 9.1.0 is available")
    });
    terminal.leave();
    assert_eq!(releases.peer.requests().len(), asked);
    assert_eq!(starts(&home), lathe_update::VERSION);
    // Switched off, nothing is said.
    settings(&home, &releases, "off");
    let mut terminal = start(&home);
    terminal.leave();
    assert!(!terminal.everything().contains("is available"));
}

#[test]
fn a_native_installation_updates_itself_in_the_background_when_told_to() {
    let releases = Releases::start(&["9.1.0"], "9.1.0", "9.1.0");
    let home = home(&releases);
    make_native(&home);
    settings(&home, &releases, "on");
    let mut terminal = start(&home);
    terminal.wait("the update", |_| {
        std::fs::read_link(link(&home)).is_ok_and(|target| target.ends_with("9.1.0/lathe"))
    });
    terminal.leave();
    assert_eq!(starts(&home), "9.1.0");
}

#[test]
fn build_servers_and_a_variable_switch_the_look_off() {
    let releases = Releases::start(&["9.1.0"], "9.1.0", "9.1.0");
    for variable in ["CI", "LATHE_DISABLE_AUTO_UPDATES"] {
        let home = home(&releases).variable(variable, "1");
        make_native(&home);
        let mut terminal = start(&home);
        terminal.leave();
        assert_eq!(state(&home), "", "{variable}");
    }
    assert!(releases.peer.requests().is_empty());
}
