//! Makes the program smaller where the linker and the system can: identical functions are kept once, and
//! the list of addresses to adjust at the start is packed. Together that is a tenth of its size.
//!
//! Not every linker knows both, and not every C library starts a program with packed addresses. So a tiny
//! program is linked with them and started; what doesn't work on this machine is left out.
#![expect(
    clippy::disallowed_methods,
    reason = "cargo speaks to build scripts through the environment"
)]

use std::path::Path;
use std::process::{Command, Stdio};

const LINK_ARGUMENTS: [&str; 2] = ["-Wl,-z,pack-relative-relocs", "-Wl,--icf=all"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    // A program for another machine can't be tried here, and a debug build has no use for it.
    let is_native = variable("HOST") == variable("TARGET");
    if !is_native || variable("CARGO_CFG_TARGET_OS") != "linux" || variable("PROFILE") != "release"
    {
        return;
    }
    let folder = variable("OUT_DIR");
    for argument in LINK_ARGUMENTS {
        if works(Path::new(&folder), argument) {
            println!("cargo:rustc-link-arg-bins={argument}");
        }
    }
}

/// Whether a program that is linked with an argument starts.
fn works(folder: &Path, argument: &str) -> bool {
    let source = folder.join("probe.rs");
    let program = folder.join("probe");
    if std::fs::write(&source, "fn main() {}").is_err() {
        return false;
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut link = Command::new(rustc);
    link.arg(&source).arg("-o").arg(&program);
    link.arg(format!("-Clink-arg={argument}"));
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        let mut flag = std::ffi::OsString::from("-Clinker=");
        flag.push(linker);
        link.arg(flag);
    }
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    link.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    succeeds(link) && succeeds(Command::new(&program))
}

fn succeeds(mut command: Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}
