//! What is asked of every device, and what becomes of each answer: a row each.
//!
//! The one idea: a number of the driver's is a metric of the registry in another unit. Rows are sorted by name. A driver
//! answers those that it knows; the others are not asked of it.

use semconv::value::{
    GpuHardwareClockDomain as Domain, GpuHardwareLink as Link, GpuHardwareThrottleReason as Reason,
};
use semconv::{attribute, metric};

/// A row.
#[derive(Debug)]
pub(crate) struct Row {
    /// In the receiver's words.
    pub(crate) name: &'static str,
    pub(crate) becomes: Becomes,
    /// The attributes by which series of one metric differ: keys and values.
    pub(crate) attributes: [(&'static str, &'static str); 2],
}

/// Makes the questions of their rows.
macro_rules! questions {
    ($($(#[$unit:meta])* $question:ident = $row:expr;)*) => {
        /// A question.
        #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
        pub enum Question { $($(#[$unit])* $question,)* }

        impl Question {
            /// Every question, in the order of their names.
            pub const ALL: [Question; QUESTIONS] = [$(Question::$question),*];
        }

        /// How many there are.
        pub const QUESTIONS: usize = [$(Question::$question),*].len();

        const ROWS: [Row; QUESTIONS] = [$($row),*];
    };
}

questions! {
    /// Of the graphics clock, MHz.
    ClockGraphics = clock("clock.graphics", Domain::Graphics);
    /// Of the memory's clock, MHz.
    ClockMemory = clock("clock.memory", Domain::Memory);
    /// Of the multiprocessors' clock, MHz.
    ClockSm = clock("clock.sm", Domain::Sm);
    /// Of the clock of what joins the parts of the chip, MHz.
    ClockSoc = clock("clock.soc", Domain::Soc);
    /// Of the video engines' clock, MHz.
    ClockVideo = clock("clock.video", Domain::Video);
    /// Memory errors corrected since the driver was loaded.
    EccCorrected = errors("ecc.corrected", "corrected");
    /// Memory errors since then that hurt nobody until the memory is read.
    EccDeferred = errors("ecc.deferred", "deferred");
    /// Memory errors not corrected since then.
    EccUncorrected = errors("ecc.uncorrected", "uncorrected");
    /// Consumed since the driver was loaded, mJ.
    Energy = row("energy", Becomes::Amount(metric::HW_ENERGY, Scale::Over(1e3)));
    /// Memory, bytes.
    MemoryTotal = row("memory.total", Becomes::Balance(metric::HW_GPU_MEMORY_LIMIT));
    /// Memory in use, bytes.
    MemoryUsed = row("memory.used", Becomes::Balance(metric::HW_GPU_MEMORY_USAGE));
    /// NVLink packets with a wrong checksum over their data.
    NvlinkCrcData = errors("nvlink.crc_data", "nvlink_crc_data");
    /// NVLink flow-control digits with a wrong checksum.
    NvlinkCrcFlit = errors("nvlink.crc_flit", "nvlink_crc_flit");
    /// NVLink recoveries.
    NvlinkRecovery = errors("nvlink.recovery", "nvlink_recovery");
    /// NVLink packets sent again.
    NvlinkReplay = errors("nvlink.replay", "nvlink_replay");
    /// PCIe packets that the other side refused.
    PcieNakReceived = errors("pcie.nak_received", "pcie_nak_received");
    /// PCIe packets that this side refused.
    PcieNakSent = errors("pcie.nak_sent", "pcie_nak_sent");
    /// Bytes received over PCIe.
    PcieReceived = bytes("pcie.received", "receive");
    /// PCIe links trained again.
    PcieRecovery = errors("pcie.recovery", "pcie_recovery");
    /// PCIe packets sent again.
    PcieReplay = errors("pcie.replay", "pcie_replay");
    /// Bytes transmitted over PCIe.
    PcieTransmitted = bytes("pcie.transmitted", "transmit");
    /// Now, mW.
    Power = row("power", Becomes::Gauge(metric::HW_POWER, Scale::Over(1e3)));
    /// 1 if a memory row could not be replaced.
    RemappedFailure = row("remapped.failure", Becomes::Part);
    /// 1 if memory rows are replaced at the next reset.
    RemappedPending = row("remapped.pending", Becomes::Part);
    /// Of the GPU, degrees Celsius.
    Temperature = heat("temperature", "gpu");
    /// At the edge of the chip, degrees Celsius.
    TemperatureEdge = heat("temperature.edge", "edge");
    /// Where it is hottest, degrees Celsius.
    TemperatureHotspot = heat("temperature.hotspot", "hotspot");
    /// Of its memory, degrees Celsius.
    TemperatureMemory = heat("temperature.memory", "memory");
    /// Why clocks are held down: [`crate::Reasons::answer`].
    Throttle = row("throttle", Becomes::Part);
    /// For how long the hardware braked for power, ns.
    ThrottledHwPowerBrake = row("throttled.hw_power_brake", Becomes::Held(Reason::HwPowerBrake));
    /// For how long the hardware slowed down for an external signal or heat, ns.
    ThrottledHwSlowdown = row("throttled.hw_slowdown", Becomes::Held(Reason::HwSlowdown));
    /// For how long the hardware was too hot, ns.
    ThrottledHwThermal = row("throttled.hw_thermal", Becomes::Held(Reason::HwThermal));
    /// For how long the memory was too hot, ns.
    ThrottledMemoryThermal = row("throttled.memory_thermal", Becomes::Held(Reason::MemoryThermal));
    /// For how long the power limit was kept, ns.
    ThrottledSwPowerCap = row("throttled.sw_power_cap", Becomes::Held(Reason::SwPowerCap));
    /// For how long the driver kept the temperature limit, ns.
    ThrottledSwThermal = row("throttled.sw_thermal", Becomes::Held(Reason::SwThermal));
    /// For how long another device of its group was slower, ns.
    ThrottledSyncBoost = row("throttled.sync_boost", Becomes::Held(Reason::SyncBoost));
    /// For how long the voltage regulators were too hot, ns.
    ThrottledVrThermal = row("throttled.vr_thermal", Becomes::Held(Reason::VrThermal));
    /// Time with a kernel, percent.
    Utilization = share("utilization", "general");
    /// Of the decoder, percent.
    UtilizationDecoder = share("utilization.decoder", "decoder");
    /// Of the encoder, percent.
    UtilizationEncoder = share("utilization.encoder", "encoder");
    /// Bytes received over XGMI.
    XgmiReceived = on(Link::Xgmi, bytes("xgmi.received", "receive"));
    /// Bytes transmitted over XGMI.
    XgmiTransmitted = on(Link::Xgmi, bytes("xgmi.transmitted", "transmit"));
}

impl Question {
    /// The question in the receiver's words.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub(crate) fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

/// The question for how long clocks were held down for a reason; none where no driver counts that.
pub fn counted_by(reason: Reason) -> Option<Question> {
    let is_of = |question: &Question| matches!(question.row().becomes, Becomes::Held(of) if of == reason);
    Question::ALL.into_iter().find(is_of)
}

/// From the driver's unit to the registry's: by a factor that has no rounding of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scale {
    Times(f64),
    Over(f64),
}

impl Scale {
    /// In the registry's unit.
    pub(crate) fn of(self, value: u64) -> f64 {
        match self {
            Scale::Times(factor) => value as f64 * factor,
            Scale::Over(divisor) => value as f64 / divisor,
        }
    }
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Becomes {
    /// A gauge.
    Gauge(semconv::Gauge, Scale),
    /// A sum that only grows.
    Amount(semconv::Counter, Scale),
    /// The same of whole things.
    Count(semconv::Counter),
    /// A sum that goes up and down.
    Balance(semconv::UpDownCounter),
    /// For how long clocks were held down for a reason.
    Held(Reason),
    /// A part of something that [`crate::Monitor`] makes of several answers.
    Part,
}

impl Becomes {
    /// Whether the driver adds it up.
    pub(crate) fn is_sum(self) -> bool {
        matches!(self, Becomes::Amount(..) | Becomes::Count(_) | Becomes::Held(_))
    }
}

const fn row(name: &'static str, becomes: Becomes) -> Row {
    Row { name, becomes, attributes: [("", ""); 2] }
}

const fn with(row: Row, key: &'static str, value: &'static str) -> Row {
    Row { attributes: [row.attributes[1], (key, value)], ..row }
}

const fn on(link: Link, row: Row) -> Row {
    with(row, attribute::GPU_HARDWARE_LINK, link.as_str())
}

const fn clock(name: &'static str, domain: Domain) -> Row {
    let becomes = Becomes::Gauge(metric::GPU_HARDWARE_CLOCK_FREQUENCY, Scale::Times(1e6));
    with(row(name, becomes), attribute::GPU_HARDWARE_CLOCK_DOMAIN, domain.as_str())
}

const fn errors(name: &'static str, kind: &'static str) -> Row {
    with(row(name, Becomes::Count(metric::HW_ERRORS)), attribute::ERROR_TYPE, kind)
}

const fn share(name: &'static str, task: &'static str) -> Row {
    with(
        row(name, Becomes::Gauge(metric::HW_GPU_UTILIZATION, Scale::Over(1e2))),
        attribute::HW_GPU_TASK,
        task,
    )
}

const fn heat(name: &'static str, place: &'static str) -> Row {
    with(
        row(name, Becomes::Gauge(metric::HW_TEMPERATURE, Scale::Times(1.0))),
        attribute::HW_SENSOR_LOCATION,
        place,
    )
}

const fn bytes(name: &'static str, direction: &'static str) -> Row {
    with(row(name, Becomes::Count(metric::HW_GPU_IO)), attribute::NETWORK_IO_DIRECTION, direction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        assert!(ROWS.windows(2).all(|w| w[0].name < w[1].name), "{:?}", ROWS.map(|row| row.name));
    }
}
