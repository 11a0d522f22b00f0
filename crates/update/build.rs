//! Passes on the target, since a release has one archive for each, and the key and address of the releases.
#![expect(
    clippy::disallowed_methods,
    reason = "cargo speaks to build scripts through the environment"
)]

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo:rustc-env=RELEASE_TARGET={target}");
    for name in ["RELEASE_KEY", "RELEASE_URL"] {
        println!("cargo:rerun-if-env-changed=LATHE_{name}");
        if let Ok(value) = std::env::var(format!("LATHE_{name}")) {
            println!("cargo:rustc-env={name}={value}");
        }
    }
}
