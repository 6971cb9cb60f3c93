//! `check` runs all checks of a change. Each step is a row; all steps run, and the failures are listed at the end.
//! `check --no-tests` skips the tests.

use std::process::Command;
use std::time::Instant;

use anyhow::{bail, ensure};

use crate::{bpf, root, tidy};

/// A step that runs a program in the repository's root.
struct Step {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    /// An optional program, and how to install it. The step is skipped with a message if it is missing.
    needs: Option<(&'static str, &'static str)>,
}

const KERNEL: &str = "ebpf-probes/kernel/Cargo.toml";

const STEPS: &[Step] = &[
    Step { name: "format", program: "cargo", arguments: &["fmt", "--all", "--check"], needs: None },
    Step {
        name: "format of the kernel programs",
        program: "cargo",
        arguments: &["fmt", "--check", "--manifest-path", KERNEL],
        needs: None,
    },
    Step {
        name: "lints",
        program: "cargo",
        arguments: &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-Dwarnings"],
        needs: None,
    },
    Step {
        name: "licences, advisories, sources",
        program: "cargo",
        arguments: &["deny", "--log-level", "error", "check", "bans", "licenses", "sources"],
        needs: Some(("cargo-deny", "cargo install cargo-deny --locked")),
    },
];

/// A check that is implemented here: its name and its function.
struct OwnCheck(&'static str, fn() -> anyhow::Result<()>);

const OWN: &[OwnCheck] = &[OwnCheck("kernel objects", bpf::check), OwnCheck("tidy", || tidy::run(&[]))];

const TESTS: Step =
    Step { name: "tests", program: "cargo", arguments: &["test", "--quiet", "--workspace"], needs: None };

/// Runs the command.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let tests = match arguments {
        [] => vec![&TESTS],
        [flag] if flag == "--no-tests" => vec![],
        _ => bail!("expected --no-tests or no argument: found {arguments:?}"),
    };
    let mut failures: Vec<&str> =
        STEPS.iter().chain(tests).filter(|s| !s.succeeds()).map(|s| s.name).collect();
    failures.extend(OWN.iter().filter(|check| !check.succeeds()).map(|check| check.0));
    ensure!(failures.is_empty(), "failed: {}", failures.join(", "));
    Ok(())
}

fn timed(name: &str, act: impl FnOnce() -> bool) -> bool {
    println!("== {name}");
    let began = Instant::now();
    let succeeded = act();
    println!(
        "== {name}: {} in {:.1} s",
        if succeeded { "passed" } else { "FAILED" },
        began.elapsed().as_secs_f64()
    );
    succeeded
}

impl OwnCheck {
    fn succeeds(&self) -> bool {
        timed(self.0, || (self.1)().inspect_err(|error| println!("{error:#}")).is_ok())
    }
}

impl Step {
    fn succeeds(&self) -> bool {
        if let Some((program, how)) = self.needs
            && Command::new(program).arg("--version").output().is_err()
        {
            println!("== {}: skipped, there is no {program}: {how}", self.name);
            return true;
        }
        timed(self.name, || {
            let mut command = Command::new(self.program);
            command.args(self.arguments).current_dir(root()).status().is_ok_and(|s| s.success())
        })
    }
}
