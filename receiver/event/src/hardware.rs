//! GPUs as their driver reports them: devices, the processes that use them, and reductions of their clocks.
//!
//! A driver is polled, so that [`Clocks`] are of the time between two samples: for each reason the time as counted by
//! the driver or, without a counter, the whole time if the reason was present at the first sample.

/// The reason why clocks are reduced: NVML's clock event reasons and two of AMD's. Low clocks of an idle device have
/// no reason.
pub use semconv::value::GpuHardwareThrottleReason as ThrottleReason;

/// A GPU and the processes that use it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Device {
    /// When it was polled.
    pub at_ns: u64,
    /// Index of the device, in the order of PCI addresses.
    pub index: u32,
    /// Identity of the device: `GPU-<uuid>`.
    pub id: String,
    /// PCI address.
    pub pci: String,
    /// Pids of the processes that compute on it, sorted.
    pub processes: Vec<u32>,
}

/// Reductions of the clocks of a GPU between two samples. Without any, the clocks were not reduced.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Clocks {
    /// Time of the first sample.
    pub from_ns: u64,
    /// Time of the second sample.
    pub to_ns: u64,
    /// Number of the device, a [`Device::index`].
    pub device: u32,
    /// Times greater than 0 by reason, sorted.
    pub throttled: Vec<ThrottleTime>,
}

/// The time for which one reason reduced the clocks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThrottleTime {
    /// Reason for which clocks were throttled.
    pub reason: ThrottleReason,
    /// The time, ns; its position between the samples is unknown.
    pub ns: u64,
    /// True if the driver counted the time, false if it is inferred from the first sample.
    pub is_counted: bool,
}
