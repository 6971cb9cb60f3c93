//! How each question is put to a device: a row each.
//!
//! The one idea: one call a question, and one for all that are fields.

use hardware::{Fault, Identity, Process, Question, Reading, counted_by};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::{Bits, NvmlError};
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id;
use semconv::value::GpuHardwareThrottleReason as Reason;

use crate::fault::fault;
use crate::throttle::reasons;

/// How a question is put.
enum Ask {
    Call(fn(&Device<'_>) -> Result<u64, NvmlError>),
    Field(u32),
    /// The same, where a count of 32 bits would pass its end between two passes.
    WideField(u32),
    /// Asked with others, see [`memory`].
    Memory,
}

/// How each question is put.
const ASKED: [(Question, Ask); 30] = {
    use Ask::*;
    use Question::*;
    [
        (ClockGraphics, Call(|d| d.clock_info(Clock::Graphics).map(u64::from))),
        (ClockMemory, Call(|d| d.clock_info(Clock::Memory).map(u64::from))),
        (ClockSm, Call(|d| d.clock_info(Clock::SM).map(u64::from))),
        (ClockVideo, Call(|d| d.clock_info(Clock::Video).map(u64::from))),
        (EccCorrected, Call(|d| d.total_ecc_errors(MemoryError::Corrected, EccCounter::Volatile))),
        (EccUncorrected, Call(|d| d.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile))),
        (Energy, Call(|d| d.total_energy_consumption())),
        (MemoryTotal, Memory),
        (MemoryUsed, Memory),
        (NvlinkCrcData, Field(field_id::NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL)),
        (NvlinkCrcFlit, Field(field_id::NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL)),
        (NvlinkRecovery, Field(field_id::NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL)),
        (NvlinkReplay, Field(field_id::NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL)),
        (PcieReceived, WideField(field_id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES)),
        (PcieReplay, Call(|d| d.pcie_replay_counter().map(u64::from))),
        (PcieTransmitted, WideField(field_id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES)),
        (Power, Call(|d| d.power_usage().map(u64::from))),
        (RemappedFailure, Field(field_id::NVML_FI_DEV_REMAPPED_FAILURE)),
        (RemappedPending, Field(field_id::NVML_FI_DEV_REMAPPED_PENDING)),
        (Temperature, Call(|d| d.temperature(TemperatureSensor::Gpu).map(u64::from))),
        (TemperatureMemory, Field(field_id::NVML_FI_DEV_MEMORY_TEMP)),
        (Throttle, Call(throttle)),
        (ThrottledHwPowerBrake, Field(field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN)),
        (ThrottledHwThermal, Field(field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN)),
        (ThrottledSwPowerCap, Field(field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP)),
        (ThrottledSwThermal, Field(field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN)),
        (ThrottledSyncBoost, Field(field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST)),
        (Utilization, Call(|d| d.utilization_rates().map(|rates| u64::from(rates.gpu)))),
        (UtilizationDecoder, Call(|d| d.decoder_utilization().map(|info| u64::from(info.utilization)))),
        (UtilizationEncoder, Call(|d| d.encoder_utilization().map(|info| u64::from(info.utilization)))),
    ]
};

/// The reasons of the mask, with bits that the crate does not know.
fn throttle(device: &Device<'_>) -> Result<u64, NvmlError> {
    match device.current_throttle_reasons_strict() {
        Ok(mask) => Ok(reasons(mask.bits()).answer()),
        Err(NvmlError::IncorrectBits(Bits::U64(bits))) => Ok(reasons(bits).answer()),
        Err(error) => Err(error),
    }
}

/// Puts every question.
pub(crate) fn ask(identity: Identity, device: &Device<'_>) -> Reading {
    let mut reading = unsupported(identity);
    for (question, ask) in &ASKED {
        if let Ask::Call(call) = ask {
            reading.set(*question, call(device).map_err(fault));
        }
    }
    memory(device, &mut reading);
    fields(device, &mut reading, |_| true);
    reading.fans = fans(device);
    reading
}

/// A device that knows none of the questions.
fn unsupported(identity: Identity) -> Reading {
    let mut reading = Reading::blank(identity);
    ASKED.iter().for_each(|(question, _)| reading.set(*question, Err(Fault::Unsupported)));
    reading
}

/// Puts the questions about clocks that are held down.
pub(crate) fn glance(mut identity: Identity, device: &Device<'_>, with_processes: bool) -> Reading {
    identity.pci = match with_processes {
        true => device.pci_info().map(|pci| pci.bus_id).unwrap_or_default(),
        false => String::new(),
    };
    let mut reading = Reading::blank(identity);
    reading.set(Question::Throttle, throttle(device).map_err(fault));
    fields(device, &mut reading, is_time_by_reason);
    if with_processes {
        let processes = device.running_compute_processes().unwrap_or_default();
        let of = |pid| Process { pid, ..Process::default() };
        reading.processes = processes.into_iter().map(|process| of(process.pid)).collect();
    }
    reading
}

fn is_time_by_reason(question: Question) -> bool {
    Reason::ALL.into_iter().any(|reason| counted_by(reason) == Some(question))
}

/// The parts of a device that is divided: of each what it has of its own, memory and processes.
pub(crate) fn instances(parent: &Identity, device: &Device<'_>, into: &mut Vec<Reading>) {
    for index in 0..device.mig_device_count().unwrap_or(0) {
        let Ok(instance) = device.mig_device_by_index(index) else { continue };
        let Ok(id) = instance.uuid() else { continue };
        let identity = Identity {
            id,
            name: format!("{} instance {index}", parent.name),
            model: instance.name().unwrap_or_default(),
            parent: parent.id.clone(),
            ..parent.clone()
        };
        let mut reading = unsupported(identity);
        memory(&instance, &mut reading);
        into.push(reading);
    }
}

/// Memory and who uses it.
fn memory(device: &Device<'_>, reading: &mut Reading) {
    let (total, used) = match device.memory_info() {
        Ok(info) => (Ok(info.total), Ok(info.used)),
        Err(error) => {
            let why = fault(error);
            (Err(why), Err(why))
        }
    };
    reading.set(Question::MemoryTotal, total);
    reading.set(Question::MemoryUsed, used);
    let processes = device.running_compute_processes().unwrap_or_default();
    reading.processes = processes.into_iter().map(|p| process(p.pid, &p.used_gpu_memory)).collect();
}

fn process(pid: u32, memory: &UsedGpuMemory) -> Process {
    let bytes = match memory {
        UsedGpuMemory::Used(bytes) => Some(*bytes),
        UsedGpuMemory::Unavailable => None,
    };
    Process { bytes, ..Process::named(pid) }
}

/// Those questions that are fields and are meant, in one call.
fn fields(device: &Device<'_>, reading: &mut Reading, is_meant: impl Fn(Question) -> bool) {
    let asked = ASKED.iter().filter(|(question, _)| is_meant(*question));
    let asked = asked.filter_map(|(question, ask)| match ask {
        Ask::Field(id) => Some((*question, *id, false)),
        Ask::WideField(id) => Some((*question, *id, true)),
        Ask::Call(_) | Ask::Memory => None,
    });
    let asked: Vec<(Question, u32, bool)> = asked.collect();
    let ids: Vec<FieldId> = asked.iter().map(|(_, id, _)| FieldId(*id)).collect();
    match device.field_values_for(&ids) {
        Ok(samples) => {
            for ((question, _, is_wide), sample) in asked.into_iter().zip(samples) {
                reading.set(question, field(sample.and_then(|sample| sample.value), is_wide));
            }
        }
        Err(error) => {
            let why = fault(error);
            asked.into_iter().for_each(|(question, ..)| reading.set(question, Err(why)));
        }
    }
}

fn field(value: Result<SampleValue, NvmlError>, is_wide: bool) -> Result<u64, Fault> {
    match value.map_err(fault)? {
        SampleValue::U64(number) => Ok(number),
        SampleValue::U32(number) if !is_wide => Ok(u64::from(number)),
        SampleValue::I64(number) => u64::try_from(number).map_err(|_| Fault::Unsupported),
        SampleValue::U32(_) | SampleValue::F64(_) => Err(Fault::Unsupported),
    }
}

fn fans(device: &Device<'_>) -> Vec<u64> {
    let count = device.num_fans().unwrap_or(0);
    (0..count).filter_map(|fan| device.fan_speed(fan).ok()).map(u64::from).collect()
}
