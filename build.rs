//! Link arguments of the shared library: its soname, so that programs ask for the major version they were linked
//! with, and the symbol versions that programs linked with TensorFlow's own libraries ask for.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, io};

const VERSIONS: &str = "tools/symbols/versions.ld";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={VERSIONS}");
    if variable("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtfcore.so.2");
    let versions = format!("-Wl,--version-script={}/{VERSIONS}", variable("CARGO_MANIFEST_DIR"));
    // rustc passes a version script of its own. LLD, its default on x86-64, combines the two, GNU ld refuses.
    // Without versions the library loads as well, after a warning from the dynamic linker.
    if links_with(&versions).unwrap_or(false) {
        println!("cargo:rustc-cdylib-link-arg={versions}");
    }
}

/// Whether an empty shared library links with this argument, under the flags of the build.
fn links_with(argument: &str) -> io::Result<bool> {
    let directory = variable("OUT_DIR");
    let source = Path::new(&directory).join("probe.rs");
    fs::write(&source, "")?;
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--crate-type=cdylib", "--target", &variable("TARGET"), "--out-dir", &directory]);
    rustc.args(variable("CARGO_ENCODED_RUSTFLAGS").split('\x1f').filter(|flag| !flag.is_empty()));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.arg(format!("-Clink-arg={argument}")).arg(source);
    Ok(rustc.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success())
}

/// A variable that cargo sets for build scripts.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
