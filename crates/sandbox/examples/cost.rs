//! Prints the processor time that preparing a confinement takes, and how much more of it the start of a confined
//! process takes than that of the same process without: `cargo run --release -p lathe-sandbox --example cost`.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for people, with their own search path"
)]

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use lathe_sandbox::{Confinement, ReadOnlyPolicy, SystemPaths};
    use std::os::unix::process::CommandExt;
    use std::path::PathBuf;
    use std::process::Command;
    use std::sync::Arc;
    use std::time::Duration;

    const TIMES: u32 = 300;
    let search = std::env::var_os("PATH");
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let mut policy = ReadOnlyPolicy {
        readable: vec![std::env::current_dir()?],
        ..ReadOnlyPolicy::default()
    };
    policy.add_system(&SystemPaths::find(search.as_deref(), home.as_deref()));
    let began = processor_time();
    for _ in 0..TIMES {
        Confinement::new(&policy)?;
    }
    let paths = policy.readable.len() + policy.executable.len();
    println!(
        "preparing ({paths} paths): {:?}",
        (processor_time() - began) / TIMES
    );
    let start = |confined: bool| -> Result<Duration, Box<dyn std::error::Error>> {
        let began = processor_time() + time_of_children();
        for _ in 0..TIMES {
            let mut command = Command::new("/bin/true");
            if confined {
                let confinement = Arc::new(Confinement::new(&policy)?);
                // SAFETY: entering makes plain system calls only.
                unsafe { command.pre_exec(move || confinement.enter()) };
            } else {
                // SAFETY: does nothing.
                unsafe { command.pre_exec(|| Ok(())) };
            }
            command.status()?;
        }
        Ok((processor_time() + time_of_children() - began) / TIMES)
    };
    start(false)?;
    let (plain, confined) = (start(false)?, start(true)?);
    println!("starting /bin/true: {plain:?}");
    println!(
        "starting /bin/true confined: {confined:?}, {:.2} times a plain start, {:?} more (the limit is 1 ms)",
        confined.as_secs_f64() / plain.as_secs_f64(),
        confined.saturating_sub(plain)
    );
    Ok(())
}

/// The processor time that this thread used.
#[cfg(target_os = "linux")]
fn processor_time() -> std::time::Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes into the value that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    std::time::Duration::from_secs(part(time.tv_sec))
        + std::time::Duration::from_nanos(part(time.tv_nsec))
}

/// The processor time of the processes that were started and have ended.
#[cfg(target_os = "linux")]
fn time_of_children() -> std::time::Duration {
    // SAFETY: all zeroes is a value of this type, and it is filled by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let part = |time: libc::timeval| {
        let number = |value: i64| u64::try_from(value).unwrap_or(0);
        std::time::Duration::from_secs(number(time.tv_sec))
            + std::time::Duration::from_micros(number(time.tv_usec))
    };
    part(usage.ru_utime) + part(usage.ru_stime)
}

#[cfg(not(target_os = "linux"))]
fn main() {}
