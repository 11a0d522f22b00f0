//! Prints what a start in the sandbox costs beside one with plain bubblewrap and one without anything:
//! `LATHE_TEST_BINARY=target/release/lathe cargo run --release -p lathe-sandbox --example sandbox_cost`.
//! The sandbox is measured with a folder to write to, and as a session has it: a repository with protected paths, hidden folders,
//! caches. All are started in turns, so that whatever else the machine does meets all of them.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for people"
)]

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use lathe_sandbox::{Request, Sandbox, SandboxOptions, SandboxPolicy, Wrapping};
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// A command, and what holds its sandbox.
    type Started = (Command, Option<Wrapping>);
    const TIMES: usize = 201;
    let helper =
        std::env::var_os("LATHE_TEST_BINARY").ok_or("LATHE_TEST_BINARY names no binary")?;
    let folder = tempfile::tempdir()?;
    let project = folder.path().canonicalize()?.join("project");
    std::fs::create_dir(&project)?;
    let options = SandboxOptions {
        helper: std::fs::canonicalize(helper)?,
        state: folder.path().join("state"),
        search_path: std::env::var_os("PATH"),
        only: None,
    };
    // One for each policy, as a session has: what is made for caches is made once.
    let (sandbox, of_repository) = (Sandbox::new(options.clone()), Sandbox::new(options));
    println!("tier: {}", sandbox.tier());
    let policy = SandboxPolicy {
        writable: vec![project.clone()],
        ..SandboxPolicy::default()
    };
    let git = Command::new("git")
        .args(["init", "-q"])
        .current_dir(&project)
        .status()?;
    if !git.success() {
        return Err("git failed".into());
    }
    let mut repository = policy.clone();
    let found = lathe_sandbox::repository(&project);
    repository.writable.extend(found.writable);
    repository.protected.extend(found.protected);
    for name in [".ssh", ".aws", ".cargo", ".cache"] {
        let path = folder.path().canonicalize()?.join(name);
        std::fs::create_dir(&path)?;
        if name.starts_with(".c") {
            repository.caches.push(path);
        } else {
            repository.hidden.push(path);
        }
    }
    let request = Request {
        directory: &project,
        files: &[],
        keeps: &[],
        terminal: false,
        proxy: None,
    };
    let place = project.as_os_str();
    // All of them are started in the same way, by a copy of this process.
    let start_as_others = |mut command: Command| {
        // SAFETY: it does nothing.
        unsafe { command.pre_exec(|| Ok(())) };
        (command, None)
    };
    let plain = || Ok(start_as_others(Command::new("/bin/true")));
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
        Ok(start_as_others(command))
    };
    let start = |sandbox: &Sandbox,
                 policy: &SandboxPolicy|
     -> Result<Started, Box<dyn std::error::Error>> {
        let wrapping = sandbox.wrap(policy, &request)?;
        let (first, rest) = wrapping.words.split_first().ok_or("no words")?;
        let mut command = Command::new(first);
        command.args(rest).arg("/bin/true");
        let entry = wrapping.entry.clone();
        // SAFETY: entering makes plain system calls only.
        unsafe { command.pre_exec(move || entry.as_ref().map_or(Ok(()), |entry| entry.enter())) };
        Ok((command, Some(wrapping)))
    };
    let sandboxed = || start(&sandbox, &policy);
    let in_repository = || start(&of_repository, &repository);
    type Start<'a> = &'a dyn Fn() -> Result<Started, Box<dyn std::error::Error>>;
    let ways: [Start<'_>; 4] = [&plain, &bubblewrap, &sandboxed, &in_repository];
    let mut times: [Vec<Duration>; 4] = Default::default();
    let mut processor: [Vec<Duration>; 4] = Default::default();
    for _ in 0..TIMES {
        for ((way, times), processor) in ways.iter().zip(&mut times).zip(&mut processor) {
            let (began, used) = (Instant::now(), children());
            let (mut command, _wrapping) = way()?;
            let ended = command.status()?;
            times.push(began.elapsed());
            processor.push(children().saturating_sub(used));
            if !ended.success() {
                return Err("a command failed".into());
            }
        }
    }
    let medians = |times: [Vec<Duration>; 4]| {
        times.map(|mut times| {
            times.sort_unstable();
            times[TIMES / 2].as_secs_f64() * 1000.0
        })
    };
    let [plain, bubblewrap, sandboxed, in_repository] = medians(times);
    println!(
        "starting /bin/true, by the clock (median of {TIMES}): plain {plain:.2} ms, bubblewrap {bubblewrap:.2} ms, the sandbox {sandboxed:.2} ms, \
         in a repository {in_repository:.2} ms; ratios to bubblewrap {:.2} and {:.2} (at most 1.2)",
        sandboxed / bubblewrap,
        in_repository / bubblewrap
    );
    // Plain bubblewrap doesn't wait for all of its processes, so theirs isn't known.
    let [plain, _, sandboxed, in_repository] = medians(processor);
    println!(
        "the same in processor time: plain {plain:.2} ms, the sandbox {sandboxed:.2} ms, in a repository {in_repository:.2} ms"
    );
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
