//! `bpf` builds the kernel programs for both architectures and replaces the committed objects, which the agent embeds;
//! `bpf --check` builds and compares them.
//!
//! The objects are committed so that building the agent needs no BPF toolchain. The same sources give the same bytes on
//! any machine, since paths are remapped; the check proves it where the toolchain is installed: bpf-linker on the PATH,
//! llvm-strip, and the rust-src component.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::root;

const ARCHITECTURES: [&str; 2] = ["aarch64", "x86_64"];
const STRIPS: [&str; 3] = ["llvm-strip-22", "/usr/lib/llvm-22/bin/llvm-strip", "llvm-strip"];
const HOW: &str = "install it: rustup component add rust-src; LLVM 22's development package; \
                   cargo install bpf-linker@0.13.0 --locked --no-default-features --features llvm-22";

/// Runs the command.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    match arguments {
        [] => each(|built, committed| {
            std::fs::copy(built, committed).map(drop).context("cannot write the object")
        }),
        [flag] if flag == "--check" => check(),
        _ => bail!("expected --check or no argument: found {arguments:?}"),
    }
}

/// Compares the objects, or prints that it is skipped without the toolchain.
pub fn check() -> anyhow::Result<()> {
    if let Err(missing) = toolchain() {
        println!("skipped: the kernel objects are not rebuilt here: {missing:#}; {HOW}");
        return Ok(());
    }
    each(|built, committed| {
        let same = std::fs::read(built)? == std::fs::read(committed)?;
        ensure!(same, "{} is stale: run cargo xtask bpf and commit it", committed.display());
        Ok(())
    })
}

fn each(act: impl Fn(&Path, &Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let strip = toolchain().context(HOW)?;
    for architecture in ARCHITECTURES {
        let built = build(architecture, strip)?;
        act(&built, &root().join(format!("ebpf-probes/objects/kernel.{architecture}.o")))?;
    }
    Ok(())
}

fn answers(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// Returns the llvm-strip to use, or an error that names the missing tool.
fn toolchain() -> anyhow::Result<&'static str> {
    ensure!(answers("bpf-linker"), "there is no bpf-linker");
    ensure!(sysroot()?.join("lib/rustlib/src/rust/library/core").exists(), "there is no rust-src");
    STRIPS.into_iter().find(|s| answers(s)).context("there is no llvm-strip")
}

fn sysroot() -> anyhow::Result<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().context("cannot run rustc")?;
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn cargo_home() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

/// Returns the compiler flags. The programs carry no BTF: nothing in them is relocated by it, and with it the verifier
/// treats every out-of-line function as a global one, which may return numbers only.
fn flags(architecture: &str) -> anyhow::Result<String> {
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let flags = [
        format!("--cfg=bpf_target_arch=\"{architecture}\""),
        "-Cdebuginfo=2".to_owned(),
        "-Ctarget-cpu=v3".to_owned(),
        remap(root(), "warptap"),
        remap(&cargo_home(), "cargo"),
        remap(&sysroot()?, "rust"),
    ];
    Ok(flags.join("\u{1f}"))
}

fn build(architecture: &str, strip: &str) -> anyhow::Result<PathBuf> {
    let kernel = root().join("ebpf-probes/kernel");
    // A folder per checkout: cargo distinguishes two checkouts in one target folder only by file times.
    let target = root().join("target/bpf").join(architecture);
    let mut cargo = Command::new("cargo");
    cargo.args([
        "build",
        "--quiet",
        "--release",
        "--locked",
        "-Zbuild-std=core",
        "--target",
        "bpfel-unknown-none",
    ]);
    // The unstable flag for the core library is the only use of nightly features.
    cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", flags(architecture)?);
    cargo.env("CARGO_TARGET_DIR", &target).env_remove("RUSTFLAGS").current_dir(kernel);
    ensure!(cargo.status()?.success(), "the kernel programs do not build for {architecture}");
    let object = target.join("kernel.o");
    let linked = target.join("bpfel-unknown-none/release/kernel");
    let stripped = Command::new(strip).arg("-g").arg("-o").args([&object, &linked]).status()?;
    ensure!(stripped.success(), "{strip} failed");
    Ok(object)
}
