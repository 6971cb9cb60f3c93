//! Checks of this machine for everything that capture needs, with advice for what is missing.

use std::path::Path;

use crate::expedite::{self, Switch};
use crate::mappings::MappingEvents;
use crate::pins::expire;
use crate::{PinSettings, proc};

/// The result of a check.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Readiness {
    /// The requirement is met.
    Ready,
    /// The requirement is not met, and capture works with restrictions.
    Limited,
    /// The requirement is not met, and capture does not work.
    Missing,
}

/// A requirement and its result.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Check {
    /// The name of the requirement.
    pub name: &'static str,
    /// Whether it is met.
    pub readiness: Readiness,
    /// The value that was found.
    pub found: String,
    /// How to meet it; empty if it is met.
    pub advice: &'static str,
}

/// A required capability (linux/capability.h).
struct Capability {
    name: &'static str,
    bit: u32,
    readiness: Readiness,
    advice: &'static str,
}

const SYS_ADMIN: u32 = 21;
const CAPABILITIES: [Capability; 4] = [
    Capability {
        name: "CAP_BPF",
        bit: 39,
        readiness: Readiness::Missing,
        advice: "run as root, or grant CAP_BPF",
    },
    Capability {
        name: "CAP_PERFMON",
        bit: 38,
        readiness: Readiness::Missing,
        advice: "run as root, or grant CAP_PERFMON",
    },
    Capability {
        name: "CAP_SYS_PTRACE",
        bit: 19,
        readiness: Readiness::Limited,
        advice: "grant CAP_SYS_PTRACE to trace processes of other users and in containers",
    },
    Capability {
        name: "CAP_DAC_READ_SEARCH",
        bit: 2,
        readiness: Readiness::Limited,
        advice: "grant CAP_DAC_READ_SEARCH to open libraries in directories of other users",
    },
];

fn effective() -> u64 {
    let status = proc::read_text("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

fn holds(bit: u32) -> bool {
    let all = effective();
    // The kernel accepts CAP_SYS_ADMIN for CAP_BPF and CAP_PERFMON (bpf_capable, perfmon_capable).
    all >> bit & 1 == 1 || ((bit == 38 || bit == 39) && all >> SYS_ADMIN & 1 == 1)
}

/// Returns the likely reason of an error as the end of its text; empty if no capability is missing.
pub(crate) fn hint() -> String {
    let missing: Vec<_> = needed().filter(|c| !holds(c.bit)).map(|c| c.name).collect();
    match missing.is_empty() {
        true => String::new(),
        false => format!(
            "; missing {}: run as root or grant them to trace GPU processes; receiving, processing and exporting \
             OTLP, and replay, work without",
            missing.join(" and ")
        ),
    }
}

/// Logs what cannot be seen without the capabilities that are missing.
pub(crate) fn log_limits() {
    let limits = CAPABILITIES.iter().filter(|c| c.readiness == Readiness::Limited && !holds(c.bit));
    limits.for_each(|c| tracing::warn!("not all processes can be traced: {}", c.advice));
}

fn needed() -> impl Iterator<Item = &'static Capability> {
    CAPABILITIES.iter().filter(|c| c.readiness == Readiness::Missing)
}

/// Checks everything that capture needs, without changing anything.
pub fn checks() -> Vec<Check> {
    let mut checks = vec![kernel(), btf()];
    checks.extend(CAPABILITIES.iter().map(capability));
    checks.push(pinning(Path::new(PinSettings::PATH)));
    checks.push(discovery());
    checks.push(attachment());
    checks.push(libraries());
    checks
}

fn kernel() -> Check {
    let release = proc::read_text("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (readiness, advice) = match version {
        v if v >= (6, 6) => (Readiness::Ready, ""),
        v if v >= (5, 15) => {
            (Readiness::Limited, "use Linux 6.6 or newer: probes then attach and detach in milliseconds")
        }
        _ => (Readiness::Missing, "use Linux 5.15 or newer: older kernels do not support cookies of uprobes"),
    };
    Check { name: "kernel", readiness, found: format!("Linux {release}"), advice }
}

fn btf() -> Check {
    match std::fs::metadata("/sys/kernel/btf/vmlinux") {
        Ok(_) => Check {
            name: "BTF",
            readiness: Readiness::Ready,
            found: "/sys/kernel/btf/vmlinux".to_owned(),
            advice: "",
        },
        Err(e) => Check {
            name: "BTF",
            readiness: Readiness::Limited,
            found: format!("/sys/kernel/btf/vmlinux: {e}"),
            advice: "use a kernel built with CONFIG_DEBUG_INFO_BTF to record run-queue waits and exits of processes",
        },
    }
}

fn capability(c: &Capability) -> Check {
    match holds(c.bit) {
        true => Check { name: c.name, readiness: Readiness::Ready, found: "granted".to_owned(), advice: "" },
        false => {
            Check { name: c.name, readiness: c.readiness, found: "not granted".to_owned(), advice: c.advice }
        }
    }
}

/// Checks whether probes can be pinned, and whether an agent left some behind.
fn pinning(path: &Path) -> Check {
    let check = |readiness, found, advice| Check { name: "pinning", readiness, found, advice };
    if let Err(reason) = expire::check(path) {
        let advice = "mount -t bpf bpf /sys/fs/bpf, so that no call is missed while the agent restarts";
        return check(Readiness::Limited, reason, advice);
    }
    let (files, name) = (expire::pinned_files(path), path.display());
    match (expire::live_owner(path), files) {
        (Some(pid), _) => {
            check(Readiness::Ready, format!("{name}: {files} files, owned by process {pid}"), "")
        }
        (None, 0) => check(Readiness::Ready, format!("{name}: nothing is pinned"), ""),
        (None, _) => check(
            Readiness::Limited,
            format!("{name}: {files} files are attached without an agent"),
            "start the agent, which adopts them, or remove them: warptap unpin",
        ),
    }
}

fn discovery() -> Check {
    const NAME: &str = "library discovery";
    match MappingEvents::open() {
        Ok(_) => Check {
            name: NAME,
            readiness: Readiness::Ready,
            found: "the kernel reports the mappings of libraries".to_owned(),
            advice: "",
        },
        Err(e) => Check {
            name: NAME,
            readiness: Readiness::Limited,
            found: format!("the kernel reports no mappings of libraries: {e}"),
            advice: "grant CAP_PERFMON; a new library is found by scans of /proc instead, up to 30 s after its mapping",
        },
    }
}

fn attachment() -> Check {
    let check = |readiness, found, advice| Check { name: "attachment", readiness, found, advice };
    match Switch::open(Path::new(expedite::SWITCH)) {
        Ok(_) => check(Readiness::Ready, "grace periods of the kernel can be expedited".to_owned(), ""),
        Err(e) => check(
            Readiness::Limited,
            format!("{}: {e}", expedite::SWITCH),
            "run as root with a writable /sys; a new library is probed 10 to 40 ms after its mapping instead of 5",
        ),
    }
}

fn libraries() -> Check {
    let uses = |pid: u32| -> Option<String> {
        let text = proc::read_text(format!("/proc/{pid}/maps")).ok()?;
        let mappings = crate::maps::parse(&text);
        let mut names: Vec<_> = mappings.iter().filter(|m| m.library().is_some()).map(|m| m.name()).collect();
        names.dedup();
        (!names.is_empty()).then(|| format!("{pid}: {}", names.join(", ")))
    };
    let found: Vec<_> = proc::pids().into_iter().filter_map(uses).collect();
    match found.is_empty() {
        true => Check {
            name: "processes",
            readiness: Readiness::Limited,
            found: "no process has loaded a GPU library".to_owned(),
            advice: "start a GPU program; in a container, use the PID namespace of the host (hostPID: true)",
        },
        false => {
            Check { name: "processes", readiness: Readiness::Ready, found: found.join("; "), advice: "" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_checks_have_advice() {
        let checks = checks();
        assert!(checks.len() >= 6);
        assert!(checks.iter().all(|c| c.readiness == Readiness::Ready || !c.advice.is_empty()), "{checks:?}");
    }
}
