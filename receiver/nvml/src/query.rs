//! The library call of each query, a row each: one call per query, and one for all field values.

use hardware::{DriverQuery, Fault, Identity, Process, Reading, duration_query};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::{Bits, NvmlError};
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id;
use semconv::value::GpuHardwareThrottleReason as Reason;

use crate::fault::fault;
use crate::throttle::reasons;

/// The library call of a query.
enum Source {
    Call(fn(&Device<'_>) -> Result<u64, NvmlError>),
    Field(u32),
    /// A field that is used only where it has 64 bits: a counter of 32 bits could wrap between two polls.
    WideField(u32),
    /// Part of one call for several queries, see [`memory`].
    Memory,
}

/// The library call of each query.
const SOURCES: [(DriverQuery, Source); 30] = {
    use DriverQuery::*;
    use Source::*;
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

/// Returns the throttle reasons, including bits that the wrapper crate does not know.
fn throttle(device: &Device<'_>) -> Result<u64, NvmlError> {
    match device.current_throttle_reasons_strict() {
        Ok(mask) => Ok(reasons(mask.bits()).bits()),
        Err(NvmlError::IncorrectBits(Bits::U64(bits))) => Ok(reasons(bits).bits()),
        Err(error) => Err(error),
    }
}

/// Runs every query on a device.
pub(crate) fn read(identity: Identity, device: &Device<'_>) -> Reading {
    let mut reading = unsupported(identity);
    for (query, source) in &SOURCES {
        if let Source::Call(call) = source {
            reading.set(*query, call(device).map_err(fault));
        }
    }
    memory(device, &mut reading);
    fields(device, &mut reading, |_| true);
    reading.fans = fans(device);
    reading
}

/// Returns a reading in which every query is unsupported.
fn unsupported(identity: Identity) -> Reading {
    let mut reading = Reading::blank(identity);
    SOURCES.iter().for_each(|(query, _)| reading.set(*query, Err(Fault::Unsupported)));
    reading
}

/// Runs the queries for the throttle state of a device, and lists its processes with `with_processes`.
pub(crate) fn read_clocks(mut identity: Identity, device: &Device<'_>, with_processes: bool) -> Reading {
    identity.pci = match with_processes {
        true => device.pci_info().map(|pci| pci.bus_id).unwrap_or_default(),
        false => String::new(),
    };
    let mut reading = Reading::blank(identity);
    reading.set(DriverQuery::Throttle, throttle(device).map_err(fault));
    fields(device, &mut reading, is_time_by_reason);
    if with_processes {
        let processes = device.running_compute_processes().unwrap_or_default();
        reading.processes = processes.into_iter().map(|process| Process::numbered(process.pid)).collect();
    }
    reading
}

fn is_time_by_reason(query: DriverQuery) -> bool {
    Reason::ALL.into_iter().any(|reason| duration_query(reason) == Some(query))
}

/// Adds the MIG instances of a device with their memory and processes.
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

/// Reads the used memory and its processes.
fn memory(device: &Device<'_>, reading: &mut Reading) {
    let (total, used) = match device.memory_info() {
        Ok(info) => (Ok(info.total), Ok(info.used)),
        Err(error) => {
            let why = fault(error);
            (Err(why), Err(why))
        }
    };
    reading.set(DriverQuery::MemoryTotal, total);
    reading.set(DriverQuery::MemoryUsed, used);
    let processes = device.running_compute_processes().unwrap_or_default();
    reading.processes = processes.into_iter().map(|p| process(p.pid, &p.used_gpu_memory)).collect();
}

fn process(pid: u32, memory: &UsedGpuMemory) -> Process {
    let bytes = match memory {
        UsedGpuMemory::Used(bytes) => Some(*bytes),
        UsedGpuMemory::Unavailable => None,
    };
    Process { bytes, ..Process::described(pid) }
}

/// Runs the queries that are fields and for which `is_wanted` holds, in one call.
fn fields(device: &Device<'_>, reading: &mut Reading, is_wanted: impl Fn(DriverQuery) -> bool) {
    let sources = SOURCES.iter().filter(|(query, _)| is_wanted(*query));
    let sources = sources.filter_map(|(query, source)| match source {
        Source::Field(id) => Some((*query, *id, false)),
        Source::WideField(id) => Some((*query, *id, true)),
        Source::Call(_) | Source::Memory => None,
    });
    let sources: Vec<(DriverQuery, u32, bool)> = sources.collect();
    let ids: Vec<FieldId> = sources.iter().map(|(_, id, _)| FieldId(*id)).collect();
    match device.field_values_for(&ids) {
        Ok(samples) => {
            for ((query, _, is_wide), sample) in sources.into_iter().zip(samples) {
                reading.set(query, field(sample.and_then(|sample| sample.value), is_wide));
            }
        }
        Err(error) => {
            let why = fault(error);
            sources.into_iter().for_each(|(query, ..)| reading.set(query, Err(why)));
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
