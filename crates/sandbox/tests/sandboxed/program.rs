//! Runs a command in the sandbox: for tests of the crate, which have no binary of the product.
#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::exit,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a program for tests"
)]

use lathe_sandbox::{
    Absent, HELPER_WORD, HostRule, Protected, Request, Sandbox, SandboxOptions, SandboxPolicy,
    Tier, UnixSockets,
};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let mut words = std::env::args_os().skip(1).peekable();
    if words.peek().is_some_and(|word| word == HELPER_WORD) {
        words.next();
        std::process::exit(lathe_sandbox::helper(words));
    }
    let mut policy = SandboxPolicy::default();
    let mut options = SandboxOptions {
        helper: std::env::current_exe().expect("our own path"),
        state: PathBuf::from("/var/tmp"),
        search_path: None,
        only: None,
    };
    let mut directory = std::env::current_dir().expect("a folder");
    let (mut terminal, mut times) = (false, 1);
    let mut proxy: Option<PathBuf> = None;
    let mut trace: Option<std::ffi::OsString> = None;
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value");
        match word.to_str().expect("text") {
            "--" => break,
            "--tier" => options.only = Tier::find(&value().to_string_lossy()),
            "--state" => options.state = value().into(),
            "--directory" => directory = value().into(),
            "--write" => policy.writable.push(value().into()),
            "--cache" => policy.caches.push(value().into()),
            "--hide" => policy.hidden.push(value().into()),
            "--show" => policy.shown.push(value().into()),
            "--protect" => policy.protected.push(Protected {
                path: value().into(),
                absent: Absent::Ignored,
            }),
            "--protect-file" => policy.protected.push(Protected {
                path: value().into(),
                absent: Absent::File,
            }),
            "--protect-folder" => policy.protected.push(Protected {
                path: value().into(),
                absent: Absent::Folder,
            }),
            "--repository" => {
                let found = lathe_sandbox::repository(&PathBuf::from(value()));
                policy.writable.extend(found.writable);
                policy.protected.extend(found.protected);
            }
            "--allow" => policy
                .network
                .allowed
                .push(HostRule::parse(&value().to_string_lossy()).expect("a rule")),
            "--unix" => policy.network.unix_sockets = UnixSockets::All,
            "--no-listening" => policy.network.no_listening = true,
            "--processes" => {
                policy.limits.processes = value().to_string_lossy().parse().expect("a number");
            }
            "--file-size" => {
                policy.limits.file_size = value().to_string_lossy().parse().expect("a number");
            }
            "--terminal" => terminal = true,
            "--times" => times = value().to_string_lossy().parse().expect("a number"),
            "--proxy" => proxy = Some(value().into()),
            "--trace" => trace = Some(value()),
            other => panic!("{other}?"),
        }
    }
    let command: Vec<_> = words.collect();
    let sandbox = Sandbox::new(options);
    let request = Request {
        directory: &directory,
        files: &[],
        keeps: &[],
        terminal,
        proxy: proxy.as_deref().map(|proxy| (proxy, "test")),
    };
    let mut code = 0;
    for _ in 0..times {
        let wrapping = sandbox.wrap(&policy, &request).unwrap_or_else(|error| {
            eprintln!("{error}");
            std::process::exit(126)
        });
        let mut all: Vec<std::ffi::OsString> = Vec::new();
        if let Some(file) = &trace {
            all.extend(["strace", "-f", "-c", "-o"].map(Into::into));
            all.push(file.clone());
        }
        all.extend(wrapping.words.clone());
        all.extend(command.clone());
        let mut process = Command::new(&all[0]);
        process
            .args(&all[1..])
            .envs(wrapping.variables.clone())
            .current_dir(&directory);
        if let Some(entry) = wrapping.entry.clone() {
            // SAFETY: entering makes plain system calls only.
            unsafe { process.pre_exec(move || entry.enter()) };
        }
        let status = process.status().expect("it starts");
        code = status.code().unwrap_or(255);
    }
    drop(sandbox);
    std::process::exit(code);
}
