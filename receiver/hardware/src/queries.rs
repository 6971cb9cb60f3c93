//! The queries to a device, a row each: a name, and the metric that the value is mapped to.
//!
//! A value is a metric of the registry in another unit. Rows are sorted by name. A driver answers the queries that it
//! supports.

use semconv::value::{
    GpuHardwareClockDomain as Domain, GpuHardwareLink as Link, GpuHardwareThrottleReason as Reason,
};
use semconv::{attribute, metric};

/// The definition of a query.
#[derive(Debug)]
pub(crate) struct Row {
    /// Name in log events and attributes.
    pub(crate) name: &'static str,
    pub(crate) mapping: Mapping,
    /// Attributes that distinguish the series of one metric, as keys and values.
    pub(crate) attributes: [(&'static str, &'static str); 2],
}

/// Defines [`DriverQuery`] and its rows.
macro_rules! queries {
    ($($(#[$unit:meta])* $query:ident = $row:expr;)*) => {
        /// A query to a device.
        #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
        pub enum DriverQuery { $($(#[$unit])* $query,)* }

        impl DriverQuery {
            /// Every query, in the order of names.
            pub const ALL: [DriverQuery; QUERY_COUNT] = [$(DriverQuery::$query),*];
        }

        /// Number of queries.
        pub const QUERY_COUNT: usize = [$(DriverQuery::$query),*].len();

        const ROWS: [Row; QUERY_COUNT] = [$($row),*];
    };
}

queries! {
    /// Frequency of the graphics clock, MHz.
    ClockGraphics = clock("clock.graphics", Domain::Graphics);
    /// Frequency of the memory clock, MHz.
    ClockMemory = clock("clock.memory", Domain::Memory);
    /// Frequency of the streaming multiprocessors' clock, MHz.
    ClockSm = clock("clock.sm", Domain::Sm);
    /// Frequency of the system-on-chip clock, MHz.
    ClockSoc = clock("clock.soc", Domain::Soc);
    /// Frequency of the video engines' clock, MHz.
    ClockVideo = clock("clock.video", Domain::Video);
    /// Corrected memory errors since the driver was loaded.
    EccCorrected = errors("ecc.corrected", "corrected");
    /// Deferred memory errors since the driver was loaded: uncorrected, in memory that has not been read.
    EccDeferred = errors("ecc.deferred", "deferred");
    /// Uncorrected memory errors since the driver was loaded.
    EccUncorrected = errors("ecc.uncorrected", "uncorrected");
    /// Energy consumed since the driver was loaded, mJ.
    Energy = row("energy", Mapping::Amount(metric::HW_ENERGY, Scale::Over(1e3)));
    /// Device memory, bytes.
    MemoryTotal = row("memory.total", Mapping::Balance(metric::HW_GPU_MEMORY_LIMIT));
    /// Device memory in use, bytes.
    MemoryUsed = row("memory.used", Mapping::Balance(metric::HW_GPU_MEMORY_USAGE));
    /// NVLink packets with a wrong checksum over their data.
    NvlinkCrcData = errors("nvlink.crc_data", "nvlink_crc_data");
    /// NVLink flow-control digits with a wrong checksum.
    NvlinkCrcFlit = errors("nvlink.crc_flit", "nvlink_crc_flit");
    /// NVLink recoveries.
    NvlinkRecovery = errors("nvlink.recovery", "nvlink_recovery");
    /// NVLink packet replays.
    NvlinkReplay = errors("nvlink.replay", "nvlink_replay");
    /// PCIe packets rejected by the other side.
    PcieNakReceived = errors("pcie.nak_received", "pcie_nak_received");
    /// PCIe packets rejected by this side.
    PcieNakSent = errors("pcie.nak_sent", "pcie_nak_sent");
    /// Bytes received over PCIe.
    PcieReceived = bytes("pcie.received", "receive");
    /// PCIe link retrainings.
    PcieRecovery = errors("pcie.recovery", "pcie_recovery");
    /// PCIe packet replays.
    PcieReplay = errors("pcie.replay", "pcie_replay");
    /// Bytes transmitted over PCIe.
    PcieTransmitted = bytes("pcie.transmitted", "transmit");
    /// Power, mW.
    Power = row("power", Mapping::Gauge(metric::HW_POWER, Scale::Over(1e3)));
    /// 1 if the remapping of a memory row failed.
    RemappedFailure = row("remapped.failure", Mapping::Part);
    /// 1 if memory rows are remapped at the next reset.
    RemappedPending = row("remapped.pending", Mapping::Part);
    /// Temperature of the GPU, degrees Celsius.
    Temperature = heat("temperature", "gpu");
    /// Temperature at the edge of the chip, degrees Celsius.
    TemperatureEdge = heat("temperature.edge", "edge");
    /// Temperature of the hottest spot, degrees Celsius.
    TemperatureHotspot = heat("temperature.hotspot", "hotspot");
    /// Temperature of the memory, degrees Celsius.
    TemperatureMemory = heat("temperature.memory", "memory");
    /// Active throttle reasons, as [`crate::Reasons::bits`].
    Throttle = row("throttle", Mapping::Part);
    /// Time throttled by the hardware power brake, ns.
    ThrottledHwPowerBrake = row("throttled.hw_power_brake", Mapping::Throttled(Reason::HwPowerBrake));
    /// Time throttled by the hardware for an external signal or temperature, ns.
    ThrottledHwSlowdown = row("throttled.hw_slowdown", Mapping::Throttled(Reason::HwSlowdown));
    /// Time throttled by the hardware for temperature, ns.
    ThrottledHwThermal = row("throttled.hw_thermal", Mapping::Throttled(Reason::HwThermal));
    /// Time throttled for the temperature of the memory, ns.
    ThrottledMemoryThermal = row("throttled.memory_thermal", Mapping::Throttled(Reason::MemoryThermal));
    /// Time throttled by the driver for the power limit, ns.
    ThrottledSwPowerCap = row("throttled.sw_power_cap", Mapping::Throttled(Reason::SwPowerCap));
    /// Time throttled by the driver for the temperature limit, ns.
    ThrottledSwThermal = row("throttled.sw_thermal", Mapping::Throttled(Reason::SwThermal));
    /// Time throttled to the speed of a slower device of the group, ns.
    ThrottledSyncBoost = row("throttled.sync_boost", Mapping::Throttled(Reason::SyncBoost));
    /// Time throttled for the temperature of the voltage regulators, ns.
    ThrottledVrThermal = row("throttled.vr_thermal", Mapping::Throttled(Reason::VrThermal));
    /// Share of time with a running kernel, percent.
    Utilization = share("utilization", "general");
    /// Utilization of the decoder, percent.
    UtilizationDecoder = share("utilization.decoder", "decoder");
    /// Utilization of the encoder, percent.
    UtilizationEncoder = share("utilization.encoder", "encoder");
    /// Bytes received over XGMI.
    XgmiReceived = on(Link::Xgmi, bytes("xgmi.received", "receive"));
    /// Bytes transmitted over XGMI.
    XgmiTransmitted = on(Link::Xgmi, bytes("xgmi.transmitted", "transmit"));
}

impl DriverQuery {
    /// Returns the name of the query.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub(crate) fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

/// Returns the query for the throttled time of a reason, if a driver counts it.
pub fn duration_query(reason: Reason) -> Option<DriverQuery> {
    let is_of = |query: &DriverQuery| matches!(query.row().mapping, Mapping::Throttled(of) if of == reason);
    DriverQuery::ALL.into_iter().find(is_of)
}

/// Conversion from the driver's unit to the registry's, by an exact factor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scale {
    Times(f64),
    Over(f64),
}

impl Scale {
    /// Converts a value to the registry's unit.
    pub(crate) fn of(self, value: u64) -> f64 {
        match self {
            Scale::Times(factor) => value as f64 * factor,
            Scale::Over(divisor) => value as f64 / divisor,
        }
    }
}

/// The metric that a value is mapped to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mapping {
    /// A gauge metric, and the scale of its values.
    Gauge(semconv::Gauge, Scale),
    /// A monotonic floating-point sum.
    Amount(semconv::Counter, Scale),
    /// A monotonic integer sum.
    Count(semconv::Counter),
    /// An up-down sum.
    Balance(semconv::UpDownCounter),
    /// Throttled time for a reason.
    Throttled(Reason),
    /// No metric of its own; [`crate::Monitor`] combines it with other values.
    Part,
}

impl Mapping {
    /// Returns true if the driver counts the value.
    pub(crate) fn is_sum(self) -> bool {
        matches!(self, Mapping::Amount(..) | Mapping::Count(_) | Mapping::Throttled(_))
    }
}

const fn row(name: &'static str, mapping: Mapping) -> Row {
    Row { name, mapping, attributes: [("", ""); 2] }
}

const fn with(row: Row, key: &'static str, value: &'static str) -> Row {
    Row { attributes: [row.attributes[1], (key, value)], ..row }
}

const fn on(link: Link, row: Row) -> Row {
    with(row, attribute::GPU_HARDWARE_LINK, link.as_str())
}

const fn clock(name: &'static str, domain: Domain) -> Row {
    let mapping = Mapping::Gauge(metric::GPU_HARDWARE_CLOCK_FREQUENCY, Scale::Times(1e6));
    with(row(name, mapping), attribute::GPU_HARDWARE_CLOCK_DOMAIN, domain.as_str())
}

const fn errors(name: &'static str, kind: &'static str) -> Row {
    with(row(name, Mapping::Count(metric::HW_ERRORS)), attribute::ERROR_TYPE, kind)
}

const fn share(name: &'static str, task: &'static str) -> Row {
    with(
        row(name, Mapping::Gauge(metric::HW_GPU_UTILIZATION, Scale::Over(1e2))),
        attribute::HW_GPU_TASK,
        task,
    )
}

const fn heat(name: &'static str, location: &'static str) -> Row {
    with(
        row(name, Mapping::Gauge(metric::HW_TEMPERATURE, Scale::Times(1.0))),
        attribute::HW_SENSOR_LOCATION,
        location,
    )
}

const fn bytes(name: &'static str, direction: &'static str) -> Row {
    with(row(name, Mapping::Count(metric::HW_GPU_IO)), attribute::NETWORK_IO_DIRECTION, direction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        assert!(ROWS.windows(2).all(|w| w[0].name < w[1].name), "{:?}", ROWS.map(|row| row.name));
    }
}
