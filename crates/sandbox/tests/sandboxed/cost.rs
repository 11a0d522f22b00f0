//! The cost of a start in the sandbox beside plain bubblewrap, in system calls: these don't depend on the machine's load.

use crate::support::{Place, text, users};
use std::collections::BTreeMap;
use std::path::Path;

/// How often each call was made, from the table of strace.
fn calls(table: &Path) -> BTreeMap<String, u64> {
    let table = std::fs::read_to_string(table).unwrap();
    let mut calls = BTreeMap::new();
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [_, _, _, count, .., name] = words[..]
            && let Ok(count) = count.parse()
        {
            calls.insert(name.to_owned(), count);
        }
    }
    assert!(calls.contains_key("total"), "{table}");
    calls
}

/// A start in a repository with hidden folders, caches and the proxy needs at most this share more calls than one with
/// plain bubblewrap, which protects nothing of that. By the clock it is less: bubblewrap's calls take longer.
const MOST: f64 = 1.5;

#[test]
fn a_start_in_the_sandbox_takes_few_more_system_calls_than_plain_bubblewrap() {
    for user in users() {
        let place = Place::new(user);
        let (plain, ours) = (place.path("out/plain"), place.path("out/ours"));
        let output = place
            .command("strace")
            .args(["-f", "-c", "-o"])
            .arg(&plain)
            .args("bwrap --unshare-all --die-with-parent --new-session --cap-drop ALL".split(' '))
            .args(
                "--ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --tmpfs /run --bind".split(' '),
            )
            .args([place.path("ws"), place.path("ws")])
            .args(["--", "/bin/true"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{user:?}: {}", text(&output));
        let trace = ours.to_str().unwrap();
        let output = place
            .sandboxed("bubblewrap", &["--trace", trace])
            .arg("/bin/true")
            .output()
            .unwrap();
        assert!(output.status.success(), "{user:?}: {}", text(&output));
        let (plain, ours) = (calls(&plain), calls(&ours));
        let share = ours["total"] as f64 / plain["total"] as f64;
        assert!(share <= MOST, "{user:?}: {share:.2}\n{plain:?}\n{ours:?}");
        // bubblewrap reads the list of all mounts after each of its own; the helper doesn't.
        assert!(
            ours["mount"] <= plain["mount"],
            "{user:?}: {plain:?}\n{ours:?}"
        );
    }
}
