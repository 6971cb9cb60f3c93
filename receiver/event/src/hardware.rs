//! What the driver of the GPUs tells: which there are and who uses them, and for how long their clocks were held down.
//!
//! The one idea: a driver is looked at from time to time, so what it tells is true of the time between two looks and
//! no finer. [`Clocks`] says that time, and for how much of it each reason held the clocks down: counted by the driver,
//! or taken to have lasted because it was so at the look before.

/// Why clocks are reduced: NVML's clock event reasons and two of AMD's. Low clocks of an idle device have no reason.
pub use semconv::value::GpuHardwareThrottleReason as ThrottleReason;

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
    pub throttled: Vec<ThrottleTime>,
}

/// The time for which one reason reduced the clocks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThrottleTime {
    /// Which.
    pub reason: ThrottleReason,
    /// For how long; where within the time between the looks is not known.
    pub ns: u64,
    /// True where the driver counted it, false where it was so at the look before.
    pub is_counted: bool,
}
