//! Conversion of NVML's throttle reasons to those of the registry.
//!
//! The bits are those of `nvmlClocksEventReasons`. Bit 0, idle, is not a reason, since an idle device needs no higher
//! clocks. An unknown bit is a hardware reason.

use hardware::Reasons;
use semconv::value::GpuHardwareThrottleReason as Reason;

/// The bit for an idle device.
const IDLE: u64 = 0x1;

/// Throttle reasons and their bits.
const BITS: [(Reason, u64); 8] = [
    (Reason::ApplicationsClocks, 0x2),
    (Reason::DisplayClock, 0x100),
    (Reason::HwPowerBrake, 0x80),
    (Reason::HwSlowdown, 0x8),
    (Reason::HwThermal, 0x40),
    (Reason::SwPowerCap, 0x4),
    (Reason::SwThermal, 0x20),
    (Reason::SyncBoost, 0x10),
];

/// Converts a mask to throttle reasons.
pub(crate) fn reasons(mask: u64) -> Reasons {
    let known = BITS.iter().fold(IDLE, |all, (_, bit)| all | bit);
    let named = BITS.iter().filter(|(_, bit)| mask & bit != 0).map(|(reason, _)| *reason);
    named.chain((mask & !known != 0).then_some(Reason::Hw)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active(mask: u64) -> Vec<&'static str> {
        let is_active = |reason: &Reason| reasons(mask).has(*reason);
        Reason::ALL.into_iter().filter(is_active).map(Reason::as_str).collect()
    }

    #[test]
    fn each_bit_is_its_reason_and_idle_is_not() {
        assert_eq!(active(0), [""; 0]);
        assert_eq!(active(0x1), [""; 0]);
        assert_eq!(active(0x2), ["applications_clocks"]);
        assert_eq!(active(0x4 | 0x1), ["sw_power_cap"]);
        assert_eq!(active(0x8 | 0x80), ["hw_power_brake", "hw_slowdown"]);
        assert_eq!(active(0x10), ["sync_boost"]);
        assert_eq!(active(0x20), ["sw_thermal"]);
        assert_eq!(active(0x40), ["hw_thermal"]);
        assert_eq!(active(0x100), ["display_clock"]);
        assert_eq!(active(0x200), ["hw"]);
        assert_eq!(active(1 << 63), ["hw"]);
    }
}
