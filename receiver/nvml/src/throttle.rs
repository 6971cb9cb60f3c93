//! Why clocks are held down: NVML's mask, in the registry's words.
//!
//! Bits of `nvmlClocksEventReasons`. Bit 0, idle, is no reason: an idle device's clocks are low because nobody needs
//! them. A bit that is not known here is a reason of the hardware's.

use semconv::value::GpuHardwareThrottleReason as Reason;

use crate::questions::Question;

/// Nothing runs.
const IDLE: u64 = 0x1;

/// Reasons, their bits, and where the driver counts their time.
pub(crate) const REASONS: [(Reason, u64, Option<Question>); 8] = [
    (Reason::ApplicationsClocks, 0x2, None),
    (Reason::DisplayClock, 0x100, None),
    (Reason::HwPowerBrake, 0x80, Some(Question::ThrottledHwPowerBrake)),
    (Reason::HwSlowdown, 0x8, None),
    (Reason::HwThermal, 0x40, Some(Question::ThrottledHwThermal)),
    (Reason::SwPowerCap, 0x4, Some(Question::ThrottledSwPowerCap)),
    (Reason::SwThermal, 0x20, Some(Question::ThrottledSwThermal)),
    (Reason::SyncBoost, 0x10, Some(Question::ThrottledSyncBoost)),
];

/// Whether a mask says that clocks are held down for this reason.
pub fn is_active(reason: Reason, mask: u64) -> bool {
    match REASONS.iter().find(|(known, ..)| *known == reason) {
        Some((_, bit, _)) => mask & bit != 0,
        None => mask & !REASONS.iter().fold(IDLE, |all, (_, bit, _)| all | bit) != 0,
    }
}

/// Where the driver counts the time of a reason.
pub fn counted_by(reason: Reason) -> Option<Question> {
    REASONS.iter().find(|(known, ..)| *known == reason).and_then(|(.., question)| *question)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active(mask: u64) -> Vec<&'static str> {
        Reason::ALL.into_iter().filter(|r| is_active(*r, mask)).map(Reason::as_str).collect()
    }

    #[test]
    fn each_bit_is_its_reason_and_idle_is_none() {
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
