//! What is asked of every device, and what becomes of each answer: a row each.
//!
//! The one idea: a number of the driver's is a metric of the registry in another unit. Rows are sorted as
//! [`Question`] declares them, which is the order of their names.

use semconv::value::GpuHardwareClockDomain as Domain;
use semconv::{attribute, metric};

/// A question.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Question {
    /// Of the graphics clock, MHz.
    ClockGraphics,
    /// Of the memory's clock, MHz.
    ClockMemory,
    /// Of the multiprocessors' clock, MHz.
    ClockSm,
    /// Of the video engines' clock, MHz.
    ClockVideo,
    /// Memory errors corrected since the driver was loaded.
    EccCorrected,
    /// Memory errors not corrected since then.
    EccUncorrected,
    /// Consumed since the driver was loaded, mJ.
    Energy,
    /// Memory, bytes.
    MemoryTotal,
    /// Memory in use, bytes.
    MemoryUsed,
    /// NVLink packets with a wrong checksum over their data.
    NvlinkCrcData,
    /// NVLink flow-control digits with a wrong checksum.
    NvlinkCrcFlit,
    /// NVLink recoveries.
    NvlinkRecovery,
    /// NVLink packets sent again.
    NvlinkReplay,
    /// Bytes received over PCIe.
    PcieReceived,
    /// PCIe packets sent again.
    PcieReplay,
    /// Bytes transmitted over PCIe.
    PcieTransmitted,
    /// Now, mW.
    Power,
    /// 1 if a memory row could not be replaced.
    RemappedFailure,
    /// 1 if memory rows are replaced at the next reset.
    RemappedPending,
    /// Of the GPU, degrees Celsius.
    Temperature,
    /// Of its memory, degrees Celsius.
    TemperatureMemory,
    /// Why clocks are held down, a bit each.
    Throttle,
    /// For how long the hardware braked for power, ns.
    ThrottledHwPowerBrake,
    /// For how long the hardware was too hot, ns.
    ThrottledHwThermal,
    /// For how long the driver kept the power limit, ns.
    ThrottledSwPowerCap,
    /// For how long the driver kept the temperature limit, ns.
    ThrottledSwThermal,
    /// For how long another device of its group was slower, ns.
    ThrottledSyncBoost,
    /// Time with a kernel, percent.
    Utilization,
    /// Of the decoder, percent.
    UtilizationDecoder,
    /// Of the encoder, percent.
    UtilizationEncoder,
}

/// How many there are.
pub const QUESTIONS: usize = Question::ALL.len();

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
    /// A part of something that [`crate::Monitor`] makes of several answers.
    Part,
}

/// A row.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) question: Question,
    /// In the receiver's words.
    pub(crate) name: &'static str,
    pub(crate) becomes: Becomes,
    /// The attribute by which series of one metric differ.
    pub(crate) attribute: Option<(&'static str, &'static str)>,
}

const fn row(question: Question, name: &'static str, becomes: Becomes) -> Row {
    Row { question, name, becomes, attribute: None }
}

const fn with(row: Row, key: &'static str, value: &'static str) -> Row {
    Row { attribute: Some((key, value)), ..row }
}

const fn clock(question: Question, name: &'static str, domain: Domain) -> Row {
    let becomes = Becomes::Gauge(metric::GPU_HARDWARE_CLOCK_FREQUENCY, Scale::Times(1e6));
    with(row(question, name, becomes), attribute::GPU_HARDWARE_CLOCK_DOMAIN, domain.as_str())
}

const fn errors(question: Question, name: &'static str, kind: &'static str) -> Row {
    with(row(question, name, Becomes::Count(metric::HW_ERRORS)), attribute::ERROR_TYPE, kind)
}

const fn share(question: Question, name: &'static str, task: &'static str) -> Row {
    with(
        row(question, name, Becomes::Gauge(metric::HW_GPU_UTILIZATION, Scale::Over(1e2))),
        attribute::HW_GPU_TASK,
        task,
    )
}

const fn heat(question: Question, name: &'static str, place: &'static str) -> Row {
    with(
        row(question, name, Becomes::Gauge(metric::HW_TEMPERATURE, Scale::Times(1.0))),
        attribute::HW_SENSOR_LOCATION,
        place,
    )
}

const fn bytes(question: Question, name: &'static str, direction: &'static str) -> Row {
    with(row(question, name, Becomes::Count(metric::HW_GPU_IO)), attribute::NETWORK_IO_DIRECTION, direction)
}

/// The rows.
pub(crate) const ROWS: [Row; QUESTIONS] = {
    use Question::*;
    [
        clock(ClockGraphics, "clock.graphics", Domain::Graphics),
        clock(ClockMemory, "clock.memory", Domain::Memory),
        clock(ClockSm, "clock.sm", Domain::Sm),
        clock(ClockVideo, "clock.video", Domain::Video),
        errors(EccCorrected, "ecc.corrected", "corrected"),
        errors(EccUncorrected, "ecc.uncorrected", "uncorrected"),
        row(Energy, "energy", Becomes::Amount(metric::HW_ENERGY, Scale::Over(1e3))),
        row(MemoryTotal, "memory.total", Becomes::Balance(metric::HW_GPU_MEMORY_LIMIT)),
        row(MemoryUsed, "memory.used", Becomes::Balance(metric::HW_GPU_MEMORY_USAGE)),
        errors(NvlinkCrcData, "nvlink.crc_data", "nvlink_crc_data"),
        errors(NvlinkCrcFlit, "nvlink.crc_flit", "nvlink_crc_flit"),
        errors(NvlinkRecovery, "nvlink.recovery", "nvlink_recovery"),
        errors(NvlinkReplay, "nvlink.replay", "nvlink_replay"),
        bytes(PcieReceived, "pcie.received", "receive"),
        errors(PcieReplay, "pcie.replay", "pcie_replay"),
        bytes(PcieTransmitted, "pcie.transmitted", "transmit"),
        row(Power, "power", Becomes::Gauge(metric::HW_POWER, Scale::Over(1e3))),
        row(RemappedFailure, "remapped.failure", Becomes::Part),
        row(RemappedPending, "remapped.pending", Becomes::Part),
        heat(Temperature, "temperature", "gpu"),
        heat(TemperatureMemory, "temperature.memory", "memory"),
        row(Throttle, "throttle", Becomes::Part),
        row(ThrottledHwPowerBrake, "throttled.hw_power_brake", Becomes::Part),
        row(ThrottledHwThermal, "throttled.hw_thermal", Becomes::Part),
        row(ThrottledSwPowerCap, "throttled.sw_power_cap", Becomes::Part),
        row(ThrottledSwThermal, "throttled.sw_thermal", Becomes::Part),
        row(ThrottledSyncBoost, "throttled.sync_boost", Becomes::Part),
        share(Utilization, "utilization", "general"),
        share(UtilizationDecoder, "utilization.decoder", "decoder"),
        share(UtilizationEncoder, "utilization.encoder", "encoder"),
    ]
};

impl Question {
    /// Every question, in the order of their declaration.
    pub const ALL: [Question; 30] = {
        use Question::*;
        [
            ClockGraphics,
            ClockMemory,
            ClockSm,
            ClockVideo,
            EccCorrected,
            EccUncorrected,
            Energy,
            MemoryTotal,
            MemoryUsed,
            NvlinkCrcData,
            NvlinkCrcFlit,
            NvlinkRecovery,
            NvlinkReplay,
            PcieReceived,
            PcieReplay,
            PcieTransmitted,
            Power,
            RemappedFailure,
            RemappedPending,
            Temperature,
            TemperatureMemory,
            Throttle,
            ThrottledHwPowerBrake,
            ThrottledHwThermal,
            ThrottledSwPowerCap,
            ThrottledSwThermal,
            ThrottledSyncBoost,
            Utilization,
            UtilizationDecoder,
            UtilizationEncoder,
        ]
    };

    /// The question in the receiver's words.
    pub fn name(self) -> &'static str {
        ROWS[self as usize].name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_has_its_row_and_names_are_sorted() {
        for (question, row) in Question::ALL.into_iter().zip(&ROWS) {
            assert_eq!(row.question, question);
        }
        assert!(ROWS.windows(2).all(|w| w[0].question < w[1].question));
        assert!(ROWS.windows(2).all(|w| w[0].name < w[1].name), "{:?}", ROWS.map(|row| row.name));
    }
}
