//! `warptap check`: is this machine ready, and what to do where it is not.

use std::io::Write as _;

use anyhow::bail;
use capture::{Check, Verdict, readiness};
use hardware::{Driver as _, Fault};
use nvml_wrapper::Nvml;

/// Does the work of the command: a line for each thing, and an error where capture would not work.
pub fn run() -> anyhow::Result<()> {
    let mut checks = readiness();
    checks.push(nvml());
    checks.extend(amdsmi());
    let mut out = std::io::stdout().lock();
    for check in &checks {
        writeln!(out, "{:<8} {:<20} {}", word(check.verdict), check.name, check.found)?;
        if !check.advice.is_empty() {
            writeln!(out, "{:<8} {:<20} -> {}", "", "", check.advice)?;
        }
    }
    let missing: Vec<_> = checks.iter().filter(|c| c.verdict == Verdict::Missing).map(|c| c.name).collect();
    if !missing.is_empty() {
        bail!(
            "gpu processes cannot be watched here: {} missing; receiving, processing and exporting otlp, and replay, work",
            missing.join(", ")
        );
    }
    Ok(())
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ready => "ready",
        Verdict::Limited => "limited",
        Verdict::Missing => "missing",
    }
}

fn nvml() -> Check {
    let limited = |found: String| Check {
        name: "NVML",
        verdict: Verdict::Limited,
        found,
        advice: "install the nvidia driver to know devices by name; steps are seen without it",
    };
    let nvml = match Nvml::init() {
        Ok(nvml) => nvml,
        Err(e) => return limited(format!("not loaded: {e}")),
    };
    match (nvml.sys_driver_version(), nvml.device_count()) {
        (Ok(driver), Ok(count)) => Check {
            name: "NVML",
            verdict: Verdict::Ready,
            found: format!("driver {driver}, {count} devices"),
            advice: "",
        },
        (Err(e), _) | (_, Err(e)) => limited(format!("loaded, but: {e}")),
    }
}

/// Nothing is said of a machine without the library of AMD's driver: it has no such GPUs.
fn amdsmi() -> Option<Check> {
    let mut count = 0;
    let opened = amdsmi::Library::default().open(&mut |session| {
        count = session.glance(false).unwrap_or_default().len();
    });
    let check = |verdict, found, advice| Some(Check { name: "AMD SMI", verdict, found, advice });
    match opened {
        Ok(()) => check(Verdict::Ready, format!("{count} devices"), ""),
        Err(Fault::Failed("library_not_found")) => None,
        Err(fault) => check(
            Verdict::Limited,
            format!("loaded, but: {}", fault.name()),
            "load the amdgpu driver, or install rocm 6.4 or newer, to know devices by name; steps are seen without it",
        ),
    }
}
