//! Updates that are killed at any point.

use crate::releases::{Releases, finish, link, make_native, native, starts};
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

/// How many updates are killed.
const KILLED: usize = 200;

/// Every update fetches its version again, so that each goes through all steps: also the replacement of a
/// program in its place. The moment of the kill is chosen over the whole time that an update takes: the range grows with
/// each kill and shrinks with each update that was quicker, so that it covers every step on a machine of any speed.
#[test]
fn killed_updates_leave_the_old_version_or_the_new_one() {
    let releases = Releases::start(&["9.0.0", "9.1.0"], "9.0.0", "9.1.0");
    let home = releases.home();
    make_native(&home);
    let started = Instant::now();
    let output = finish(native(&home, ["install", "9.0.0", "--force"]));
    assert_eq!(output.code(), Some(0), "{output:?}");
    let mut range = started.elapsed();
    let mut random = fastrand::Rng::with_seed(7);
    let (mut round, mut killed, mut expected) = (0, 0, vec!["9.0.0".to_owned()]);
    while killed < KILLED {
        round += 1;
        let version = if round % 2 == 0 { "9.1.0" } else { "9.0.0" };
        let mut child = native(&home, ["install", version, "--force"])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let limit = range.mul_f64(random.f64());
        std::thread::sleep(limit.max(Duration::from_millis(1)));
        // Fails where it has ended by itself.
        let _ = child.kill();
        let status = child.wait().unwrap();
        if status.success() {
            range = range.mul_f64(0.8);
            expected = vec![version.to_owned()];
        } else {
            assert_eq!(status.signal(), Some(9), "round {round}: {status}");
            range = range.mul_f64(1.05);
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
    // What the killed ones left is cleaned up by the next that ends.
    let output = finish(native(&home, ["install", "9.1.0", "--force"]));
    assert_eq!(output.code(), Some(0), "{output:?}");
    let data = crate::releases::data(&home);
    assert_eq!(std::fs::read_dir(data.join("staging")).unwrap().count(), 0);
    let bin = link(&home).parent().unwrap().to_owned();
    assert_eq!(std::fs::read_dir(bin).unwrap().count(), 1);
}
