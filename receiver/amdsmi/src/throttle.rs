//! Throttle reasons and times, from the firmware's cycle counters or status bits.
//!
//! The firmware of an MI300 and later chips counts its cycles, and those in which it throttled for each reason. Between
//! two readings the share of cycles is the share of time, as in AMD's own tool; times add up from the first reading. A
//! reason is active if its counter grew since the previous reading. Older chips have status bits only.

use hardware::Reasons;
use semconv::value::GpuHardwareThrottleReason as Reason;

use crate::layout::{
    Buffer, CLOCK_NS, CYCLES, HELD_MEMORY, HELD_POWER, HELD_PROCHOT, HELD_REGULATORS, HELD_SOCKET,
    StructField, THROTTLE,
};

/// Number of counted reasons.
const COUNTED: usize = 5;

/// Counted reasons, and the field of each counter.
const HELD: [(Reason, StructField); COUNTED] = [
    (Reason::HwSlowdown, HELD_PROCHOT),
    (Reason::HwThermal, HELD_SOCKET),
    (Reason::MemoryThermal, HELD_MEMORY),
    (Reason::SwPowerCap, HELD_POWER),
    (Reason::VrThermal, HELD_REGULATORS),
];

/// Ranges of chip-independent bits, `SMU_THROTTLER_*_BIT` of the kernel's amdgpu_smu.h. Any other bit is a hardware
/// reason.
const BITS: [(Reason, u32, u32); 8] = [
    // Package power: PPT, SPL, FPPT, SPPT.
    (Reason::SwPowerCap, 0, 7),
    // The chip, its cores, its edge, its hottest spot, its other parts.
    (Reason::HwThermal, 32, 33),
    (Reason::MemoryThermal, 34, 34),
    (Reason::HwThermal, 35, 37),
    (Reason::VrThermal, 38, 41),
    // The liquid that cools it.
    (Reason::HwThermal, 42, 43),
    (Reason::VrThermal, 44, 45),
    // PROCHOT.
    (Reason::HwSlowdown, 46, 47),
];

/// The throttle counters of one device over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Residency {
    last: Option<Cycles>,
    total_ns: [u64; COUNTED],
    reasons: Reasons,
}

/// The counters of one reading.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Cycles {
    at_ns: u64,
    all: u64,
    held: [u64; COUNTED],
}

impl Residency {
    /// Updates the counters from the metrics of a device. Returns false if the chip does not count cycles.
    pub(crate) fn take(&mut self, metrics: &Buffer) -> bool {
        let Some(now) = cycles(metrics) else { return false };
        match self.last {
            // The firmware has not updated its counters.
            Some(last) if last.all == now.all => return true,
            Some(last) => self.pass(last, now),
            None => self.reasons = Reasons::default(),
        }
        self.last = Some(now);
        true
    }

    /// Returns the throttled time by reason since the first reading, ns.
    pub(crate) fn times_ns(&self) -> impl Iterator<Item = (Reason, u64)> {
        HELD.iter().zip(self.total_ns).map(|((reason, _), ns)| (*reason, ns))
    }

    /// Returns the reasons active since the previous reading.
    pub(crate) fn reasons(&self) -> Reasons {
        self.reasons
    }

    fn pass(&mut self, last: Cycles, now: Cycles) {
        let (passed_ns, all) = (now.at_ns.saturating_sub(last.at_ns), now.all.saturating_sub(last.all));
        // Restarted counters carry no information about the time in between.
        let grown = |at: usize| now.held[at].saturating_sub(last.held[at]).min(all);
        for (at, total_ns) in self.total_ns.iter_mut().enumerate().filter(|_| all > 0) {
            *total_ns += (u128::from(passed_ns) * u128::from(grown(at)) / u128::from(all)) as u64;
        }
        let held = HELD.iter().enumerate().filter(|(at, _)| grown(*at) > 0);
        self.reasons = held.map(|(_, (reason, _))| *reason).collect();
    }
}

/// Returns the counters, or `None` if the chip does not count cycles or has no time for them.
fn cycles(metrics: &Buffer) -> Option<Cycles> {
    let all = metrics.number(CYCLES).filter(|all| *all > 0)?;
    let at_ns = metrics.number(CLOCK_NS)?;
    Some(Cycles { at_ns, all, held: HELD.map(|(_, field)| metrics.number(field).unwrap_or(0)) })
}

/// Returns the reasons of the status bits, if there are any.
pub(crate) fn bits(metrics: &Buffer) -> Option<Reasons> {
    metrics.number(THROTTLE).map(reasons)
}

fn reasons(bits: u64) -> Reasons {
    let of = |(from, to): (u32, u32)| (from..=to).fold(0, |all, bit| all | 1 << bit);
    let named = BITS.iter().filter(|(_, from, to)| bits & of((*from, *to)) != 0).map(|(reason, ..)| *reason);
    let known = BITS.iter().fold(0, |all, (_, from, to)| all | of((*from, *to)));
    named.chain((bits & !known != 0).then_some(Reason::Hw)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active(reasons: Reasons) -> Vec<&'static str> {
        Reason::ALL.into_iter().filter(|reason| reasons.has(*reason)).map(Reason::as_str).collect()
    }

    #[test]
    fn each_bit_is_its_reason_and_current_limits_are_hardware() {
        assert_eq!(active(reasons(0)), [""; 0]);
        assert_eq!(active(reasons(1 << 7)), ["sw_power_cap"]);
        assert_eq!(active(reasons(1 << 16)), ["hw"]);
        assert_eq!(active(reasons(1 << 34 | 1 << 36)), ["hw_thermal", "memory_thermal"]);
        assert_eq!(active(reasons(1 << 44 | 1 << 47)), ["hw_slowdown", "vr_thermal"]);
        assert_eq!(active(reasons(1 << 57)), ["hw"]);
    }

    fn at(ms: u64, all: u64, power: u64) -> Cycles {
        Cycles { at_ns: ms * 1_000_000, all, held: [0, 0, 0, power, 0] }
    }

    #[test]
    fn share_of_throttled_cycles_is_that_of_time() {
        let mut residency = Residency::default();
        residency.pass(at(0, 1000, 10), at(1000, 2000, 260));
        assert_eq!((residency.total_ns[3], active(residency.reasons())), (250_000_000, vec!["sw_power_cap"]));
        residency.pass(at(1000, 2000, 260), at(2000, 300, 290));
        assert_eq!((residency.total_ns[3], active(residency.reasons())), (250_000_000, vec![]));
        residency.pass(at(2000, 300, 290), at(2500, 800, 290));
        assert_eq!((residency.total_ns[3], active(residency.reasons())), (250_000_000, vec![]));
    }
}
