//! Prints what a start in the sandbox costs beside one with plain bubblewrap and one without anything:
//! `LATHE_TEST_BINARY=target/release/lathe cargo run --release -p lathe-sandbox --example sandbox_cost`.
//! The three are started in turns, so that whatever else the machine does meets all of them. The clock tells how long a command
//! waits; on a busy machine the processor time says more.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for people"
)]

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use lathe_sandbox::{Request, Sandbox, SandboxOptions, SandboxPolicy};
    use std::process::Command;
    use std::time::{Duration, Instant};

    const TIMES: usize = 201;
    let helper =
        std::env::var_os("LATHE_TEST_BINARY").ok_or("LATHE_TEST_BINARY names no binary")?;
    let folder = tempfile::tempdir()?;
    let project = folder.path().canonicalize()?.join("project");
    std::fs::create_dir(&project)?;
    let sandbox = Sandbox::new(SandboxOptions {
        helper: std::fs::canonicalize(helper)?,
        state: folder.path().join("state"),
        search_path: std::env::var_os("PATH"),
        only: None,
    });
    println!("tier: {}", sandbox.tier());
    let policy = SandboxPolicy {
        writable: vec![project.clone()],
        ..SandboxPolicy::default()
    };
    let request = Request {
        directory: &project,
        files: &[],
        keeps: &[],
        terminal: false,
        proxy: None,
    };
    let place = project.as_os_str();
    let plain = || Ok(Command::new("/bin/true"));
    let bubblewrap = || {
        let mut command = Command::new("bwrap");
        command
            .args(["--unshare-all", "--die-with-parent", "--new-session"])
            .args(["--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev"])
            .args([
                "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run", "--bind",
            ])
            .args([place, place])
            .args(["--", "/bin/true"]);
        Ok(command)
    };
    let sandboxed = || -> Result<Command, Box<dyn std::error::Error>> {
        let wrapping = sandbox.wrap(&policy, &request)?;
        let (first, rest) = wrapping.words.split_first().ok_or("no words")?;
        let mut command = Command::new(first);
        command.args(rest).arg("/bin/true");
        Ok(command)
    };
    type Start<'a> = &'a dyn Fn() -> Result<Command, Box<dyn std::error::Error>>;
    let ways: [Start<'_>; 3] = [&plain, &bubblewrap, &sandboxed];
    let mut times: [Vec<Duration>; 3] = Default::default();
    let mut processor: [Vec<Duration>; 3] = Default::default();
    for _ in 0..TIMES {
        for ((way, times), processor) in ways.iter().zip(&mut times).zip(&mut processor) {
            let (began, used) = (Instant::now(), children());
            let ended = way()?.status()?;
            times.push(began.elapsed());
            processor.push(children().saturating_sub(used));
            if !ended.success() {
                return Err("a command failed".into());
            }
        }
    }
    for (name, times) in [("by the clock", times), ("processor time", processor)] {
        let [plain, bubblewrap, sandboxed] = times.map(|mut times| {
            times.sort_unstable();
            times[TIMES / 2].as_secs_f64() * 1000.0
        });
        println!(
            "starting /bin/true, {name} (median of {TIMES}): plain {plain:.2} ms, bubblewrap {bubblewrap:.2} ms, the sandbox {sandboxed:.2} ms; \
             ratio to bubblewrap {:.2} (at most 1.2)",
            sandboxed / bubblewrap
        );
    }
    Ok(())
}

/// The processor time of all children that have ended.
#[cfg(target_os = "linux")]
fn children() -> std::time::Duration {
    // SAFETY: all bytes zero are a value of this structure, and the kernel fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let time = |value: libc::timeval| {
        let seconds = u64::try_from(value.tv_sec).unwrap_or(0);
        let micros = u64::try_from(value.tv_usec).unwrap_or(0);
        std::time::Duration::from_secs(seconds) + std::time::Duration::from_micros(micros)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

#[cfg(not(target_os = "linux"))]
fn main() {}
