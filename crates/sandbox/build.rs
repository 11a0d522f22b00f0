//! Compiles the small helper (`src/small`) for the target, to be part of the library.
//!
//! It needs nothing but the compiler: no C library and no other crate. Where it can't be linked (a cross build without
//! a linker for it), the library goes without, and our own binary is the helper, which starts more slowly.
#![expect(
    clippy::disallowed_methods,
    reason = "cargo speaks to build scripts through the environment"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/small");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let program = PathBuf::from(variable("OUT_DIR")).join("small-helper");
    let known = ["x86_64", "aarch64"].contains(&variable("CARGO_CFG_TARGET_ARCH").as_str());
    if variable("CARGO_CFG_TARGET_OS") != "linux" || !known {
        write(&program, &[]);
        return;
    }
    if let Err(reason) = compile(&program, &variable("TARGET")) {
        println!("cargo:warning=commands in the sandbox start more slowly: {reason}");
        write(&program, &[]);
    }
}

fn write(program: &Path, bytes: &[u8]) {
    if let Err(error) = std::fs::write(program, bytes) {
        println!("cargo:warning={}: {error}", program.display());
    }
}

fn compile(program: &Path, target: &str) -> Result<(), String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command
        .args([
            "src/small/main.rs",
            "--edition",
            "2024",
            "--crate-name",
            "small_helper",
        ])
        .args([
            "--crate-type",
            "bin",
            "--target",
            target,
            "-D",
            "warnings",
            "-o",
        ])
        .arg(program);
    // One fixed address: nothing is adjusted at the start.
    for option in [
        "opt-level=s",
        "panic=abort",
        "strip=symbols",
        "relocation-model=static",
        "link-arg=-nostartfiles",
        "link-arg=-nostdlib",
        "link-arg=-static",
        "link-arg=-no-pie",
    ] {
        command.args(["-C", option]);
    }
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        let mut flag = std::ffi::OsString::from("linker=");
        flag.push(linker);
        command.arg("-C").arg(flag);
    }
    // Flags of the build (coverage, sanitizers) are for programs with a library: they are not passed on.
    command
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(text
        .lines()
        .next()
        .unwrap_or("it can't be linked")
        .to_owned())
}
