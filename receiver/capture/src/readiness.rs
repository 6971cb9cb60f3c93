//! Is this machine ready? Each thing that capture needs, whether it is there, and what to do where it is not.

use crate::proc;

/// How one check came out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It is there.
    Ready,
    /// Capture works without it, less well.
    Limited,
    /// Capture does not work without it.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Check {
    /// What, in a word or two.
    pub name: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it; empty where there is nothing to do.
    pub advice: &'static str,
}

/// A capability (linux/capability.h) and what it is for.
struct Capability {
    name: &'static str,
    bit: u32,
    verdict: Verdict,
    advice: &'static str,
}

const SYS_ADMIN: u32 = 21;
const CAPABILITIES: [Capability; 4] = [
    Capability {
        name: "CAP_BPF",
        bit: 39,
        verdict: Verdict::Missing,
        advice: "run as root, or grant CAP_BPF",
    },
    Capability {
        name: "CAP_PERFMON",
        bit: 38,
        verdict: Verdict::Missing,
        advice: "run as root, or grant CAP_PERFMON",
    },
    Capability {
        name: "CAP_SYS_PTRACE",
        bit: 19,
        verdict: Verdict::Limited,
        advice: "grant CAP_SYS_PTRACE to see libraries in other users' processes and containers",
    },
    Capability {
        name: "CAP_DAC_READ_SEARCH",
        bit: 2,
        verdict: Verdict::Limited,
        advice: "grant CAP_DAC_READ_SEARCH to open libraries below other users' directories",
    },
];

fn effective() -> u64 {
    let status = proc::read_text("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

fn holds(bit: u32) -> bool {
    let all = effective();
    // CAP_SYS_ADMIN stands for CAP_BPF and CAP_PERFMON, as the kernel has it (bpf_capable, perfmon_capable).
    all >> bit & 1 == 1 || ((bit == 38 || bit == 39) && all >> SYS_ADMIN & 1 == 1)
}

/// What a refusal is most likely due to, as the end of a sentence; empty where nothing obvious is missing.
pub(crate) fn hint() -> String {
    let missing: Vec<_> = needed().filter(|c| !holds(c.bit)).map(|c| c.name).collect();
    match missing.is_empty() {
        true => String::new(),
        false => format!(
            "; missing {}: run as root or grant them, until then gpu processes are not seen, while receiving, \
             processing and exporting otlp, and replay, work",
            missing.join(" and ")
        ),
    }
}

fn needed() -> impl Iterator<Item = &'static Capability> {
    CAPABILITIES.iter().filter(|c| c.verdict == Verdict::Missing)
}

/// Looks at everything capture needs. Changes nothing.
pub fn readiness() -> Vec<Check> {
    let mut checks = vec![kernel(), btf()];
    checks.extend(CAPABILITIES.iter().map(capability));
    checks.push(libraries());
    checks
}

fn kernel() -> Check {
    let release = proc::read_text("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (verdict, advice) = match version {
        v if v >= (6, 6) => (Verdict::Ready, ""),
        v if v >= (5, 15) => {
            (Verdict::Limited, "with linux 6.6 or newer probes attach and detach in milliseconds")
        }
        _ => (Verdict::Missing, "use linux 5.15 or newer: older kernels give uprobes no cookie"),
    };
    Check { name: "kernel", verdict, found: format!("linux {release}"), advice }
}

fn btf() -> Check {
    match std::fs::metadata("/sys/kernel/btf/vmlinux") {
        Ok(_) => Check {
            name: "BTF",
            verdict: Verdict::Ready,
            found: "/sys/kernel/btf/vmlinux".to_owned(),
            advice: "",
        },
        Err(e) => Check {
            name: "BTF",
            verdict: Verdict::Limited,
            found: format!("/sys/kernel/btf/vmlinux: {e}"),
            advice: "use a kernel built with CONFIG_DEBUG_INFO_BTF to see run-queue waits and process ends",
        },
    }
}

fn capability(c: &Capability) -> Check {
    match holds(c.bit) {
        true => Check { name: c.name, verdict: Verdict::Ready, found: "held".to_owned(), advice: "" },
        false => Check { name: c.name, verdict: c.verdict, found: "not held".to_owned(), advice: c.advice },
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
            verdict: Verdict::Limited,
            found: "no process has a gpu library loaded".to_owned(),
            advice: "start a gpu program; in a container, run with the host's pid namespace (hostPID: true)",
        },
        false => Check { name: "processes", verdict: Verdict::Ready, found: found.join("; "), advice: "" },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_not_ready_comes_with_advice() {
        let checks = readiness();
        assert!(checks.len() >= 6);
        assert!(checks.iter().all(|c| c.verdict == Verdict::Ready || !c.advice.is_empty()), "{checks:?}");
    }
}
