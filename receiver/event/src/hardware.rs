//! What the driver of the GPUs tells: which there are and who uses them, and for how long their clocks were held down.
//!
//! The one idea: a driver is looked at from time to time, so what it tells is true of the time between two looks and
//! no finer. [`Clocks`] says that time, and for how much of it each reason held the clocks down: counted by the driver,
//! or taken to have lasted because it was so at the look before.

/// Why clocks are held down, in the words of NVML's clock event reasons and two of AMD's. An idle device's clocks are low without one.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ThrottleReason {
    /// The clocks that somebody set for applications.
    ApplicationsClocks,
    /// What the display needs.
    DisplayClock,
    /// Another reason of the hardware's.
    #[default]
    Hw,
    /// An external signal to brake, from the power supply.
    HwPowerBrake,
    /// The hardware slows down: too hot, or an external signal.
    HwSlowdown,
    /// The hardware is too hot.
    HwThermal,
    /// The power limit is kept, by the driver or the firmware.
    SwPowerCap,
    /// The driver keeps the temperature limit.
    SwThermal,
    /// The slowest device of its group of boosted ones.
    SyncBoost,
    /// The memory is too hot.
    MemoryThermal,
    /// The voltage regulators are too hot.
    VrThermal,
}

impl ThrottleReason {
    /// Every reason, in the order of their declaration, which recordings keep.
    pub const ALL: [ThrottleReason; 11] = [
        ThrottleReason::ApplicationsClocks,
        ThrottleReason::DisplayClock,
        ThrottleReason::Hw,
        ThrottleReason::HwPowerBrake,
        ThrottleReason::HwSlowdown,
        ThrottleReason::HwThermal,
        ThrottleReason::SwPowerCap,
        ThrottleReason::SwThermal,
        ThrottleReason::SyncBoost,
        ThrottleReason::MemoryThermal,
        ThrottleReason::VrThermal,
    ];

    /// The reason as an attribute value.
    pub const fn name(self) -> &'static str {
        match self {
            ThrottleReason::ApplicationsClocks => "applications_clocks",
            ThrottleReason::DisplayClock => "display_clock",
            ThrottleReason::Hw => "hw",
            ThrottleReason::HwPowerBrake => "hw_power_brake",
            ThrottleReason::HwSlowdown => "hw_slowdown",
            ThrottleReason::HwThermal => "hw_thermal",
            ThrottleReason::SwPowerCap => "sw_power_cap",
            ThrottleReason::SwThermal => "sw_thermal",
            ThrottleReason::SyncBoost => "sync_boost",
            ThrottleReason::MemoryThermal => "memory_thermal",
            ThrottleReason::VrThermal => "vr_thermal",
        }
    }
}

/// A GPU, whenever something of it is new.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Device {
    /// When it was looked at.
    pub at_ns: u64,
    /// Its number by the driver, in the order of the PCI bus.
    pub index: u32,
    /// `GPU-<uuid>`.
    pub id: String,
    /// Where it stands on the PCI bus.
    pub pci: String,
    /// Pids of the processes that compute on it; sorted.
    pub processes: Vec<u32>,
}

/// What held the clocks of a GPU down between two looks. One with nothing held says that nothing did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Clocks {
    /// The look before.
    pub from_ns: u64,
    /// This look.
    pub to_ns: u64,
    /// The [`Device::index`].
    pub device: u32,
    /// By reason, sorted; none that took no time.
    pub held: Vec<Held>,
}

/// For how long one reason held clocks down.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Held {
    /// Which.
    pub reason: ThrottleReason,
    /// For how long; where within the time between the looks is not known.
    pub ns: u64,
    /// True where the driver counted it, false where it was so at the look before.
    pub is_counted: bool,
}
