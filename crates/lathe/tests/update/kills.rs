//! Updates that are killed at any point.

use crate::releases::{Releases, finish, link, make_native, native, starts};
use std::time::{Duration, Instant};

/// How many updates are killed.
const KILLED: usize = 200;

/// Every update fetches its version again, so that each goes through all steps: also the replacement of a
/// program in its place. The moment of the kill is chosen over the whole time that an update takes.
#[test]
fn killed_updates_leave_the_old_version_or_the_new_one() {
    let releases = Releases::start(&["9.0.0", "9.1.0"], "9.0.0", "9.1.0");
    let home = releases.home();
    make_native(&home);
    let started = Instant::now();
    let output = finish(native(&home, ["install", "9.0.0", "--force"]));
    assert_eq!(output.code(), Some(0), "{output:?}");
    let whole = started.elapsed();
    let mut random = fastrand::Rng::with_seed(7);
    let (mut ended, mut killed, mut expected) = (0, 0, vec!["9.0.0".to_owned()]);
    for round in 0..KILLED {
        let version = if round % 2 == 0 { "9.1.0" } else { "9.0.0" };
        let mut child = native(&home, ["install", version, "--force"])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let limit = whole.mul_f64(random.f64() * 1.1);
        std::thread::sleep(limit.max(Duration::from_millis(1)));
        // Fails where it has ended by itself.
        let _ = child.kill();
        let status = child.wait().unwrap();
        if status.success() {
            ended += 1;
            expected = vec![version.to_owned()];
        } else {
            killed += 1;
            expected.push(version.to_owned());
        }
        let found = starts(&home);
        assert!(
            expected.contains(&found),
            "round {round}: {found} instead of {expected:?}"
        );
        expected = vec![found];
    }
    assert_eq!(ended + killed, KILLED);
    assert!(killed > KILLED / 4, "{killed} were killed, {ended} ended");
    // What the killed ones left is cleaned up by the next that ends.
    let output = finish(native(&home, ["install", "9.1.0", "--force"]));
    assert_eq!(output.code(), Some(0), "{output:?}");
    let data = crate::releases::data(&home);
    assert_eq!(std::fs::read_dir(data.join("staging")).unwrap().count(), 0);
    let bin = link(&home).parent().unwrap().to_owned();
    assert_eq!(std::fs::read_dir(bin).unwrap().count(), 1);
}
