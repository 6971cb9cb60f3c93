//! `warptap check`: checks whether this machine is ready, with advice for what is missing.

use std::io::Write as _;

use anyhow::bail;
use capture::{Check, Readiness, checks};
use hardware::{Driver as _, Fault};
use nvml_wrapper::Nvml;

use crate::commands::terminal::count;
use crate::printable::printable;

/// Prints a line for each check; fails if capture cannot work.
pub fn run() -> anyhow::Result<()> {
    let mut checks = checks();
    checks.push(privileges());
    checks.push(nvml());
    checks.extend(amdsmi());
    let mut out = std::io::stdout().lock();
    for check in &checks {
        writeln!(out, "{:<8} {:<20} {}", name(check.readiness), check.name, printable(&check.found))?;
        if !check.advice.is_empty() {
            writeln!(out, "{:<8} {:<20} -> {}", "", "", check.advice)?;
        }
    }
    let missing: Vec<_> =
        checks.iter().filter(|c| c.readiness == Readiness::Missing).map(|c| c.name).collect();
    if !missing.is_empty() {
        bail!(
            "GPU processes cannot be traced on this machine: {} missing; OTLP pipelines and replay work without",
            missing.join(", ")
        );
    }
    Ok(())
}

fn name(readiness: Readiness) -> &'static str {
    match readiness {
        Readiness::Ready => "ready",
        Readiness::Limited => "limited",
        Readiness::Missing => "missing",
    }
}

/// Checks whether `run` can reduce its privileges.
fn privileges() -> Check {
    let check = |readiness, found, advice| Check { name: "reduced privileges", readiness, found, advice };
    match crate::privileges::support() {
        Ok(found) => check(Readiness::Ready, found, ""),
        Err(why) => check(
            Readiness::Limited,
            why,
            "use a kernel built with CONFIG_SECCOMP_FILTER; the collector drops capabilities without",
        ),
    }
}

fn nvml() -> Check {
    let limited = |found: String| Check {
        name: "NVML",
        readiness: Readiness::Limited,
        found,
        advice: "install the NVIDIA driver to identify devices; steps are recorded without it",
    };
    let nvml = match Nvml::init() {
        Ok(nvml) => nvml,
        Err(e) => return limited(format!("not loaded: {e}")),
    };
    match (nvml.sys_driver_version(), nvml.device_count()) {
        (Ok(driver), Ok(devices)) => Check {
            name: "NVML",
            readiness: Readiness::Ready,
            found: format!("driver {driver}, {}", count(devices.into(), "device")),
            advice: "",
        },
        (Err(e), _) | (_, Err(e)) => limited(format!("loaded, but failed: {e}")),
    }
}

/// Checks AMD SMI; `None` without the library, since the machine then has no AMD GPUs.
fn amdsmi() -> Option<Check> {
    let mut devices = 0;
    let opened = amdsmi::AmdsmiLibrary::default().open(&mut |session| {
        devices = session.read_clocks(false).unwrap_or_default().len();
    });
    let check = |readiness, found, advice| Some(Check { name: "AMD SMI", readiness, found, advice });
    match opened {
        Ok(()) => check(Readiness::Ready, count(devices as u64, "device"), ""),
        Err(Fault::Failed("library_not_found")) => None,
        Err(fault) => check(
            Readiness::Limited,
            format!("loaded, but failed: {}", fault.name()),
            "load the amdgpu driver, or install ROCm 6.4 or newer, to identify devices; steps are recorded without it",
        ),
    }
}
