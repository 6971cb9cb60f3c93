//! The real driver, through libnvidia-ml: one call a question, and one for all that are fields.
//!
//! The one idea: what a call returns is kept as it is, a fault where it failed. A question that the library has no
//! function for, because it is older than this code, is one that it does not support.
//!
//! | asked | since driver |
//! |---|---|
//! | most | 450 |
//! | memory in use without the driver's own | 510 |
//! | PCIe bytes, time by throttle reason | 560, and only where it counts in 64 bits |

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::thread;
use std::time::Duration;

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::{Bits, NvmlError};
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper::{Device, EventSet, Nvml};
use semconv::value::GpuHardwareThrottleReason as Reason;

use crate::driver::{Driver, Fault, Identity, Process, Reading, Session, Xid};
use crate::questions::{QUESTIONS, Question};
use crate::throttle::counted_by;

/// How the id of a device begins that never said who it is.
const UNKNOWN: &str = "GPU-unknown";

/// The library of the machine's driver.
#[derive(Clone, Debug)]
pub struct Library {
    /// A file name that the loader finds, or a path.
    pub path: OsString,
}

impl Default for Library {
    fn default() -> Self {
        Library { path: "libnvidia-ml.so.1".into() }
    }
}

impl Driver for Library {
    fn open(&mut self, work: &mut dyn FnMut(&mut dyn Session)) -> Result<(), Fault> {
        let nvml = Nvml::builder().lib_path(&self.path).init().map_err(fault)?;
        let driver = nvml.sys_driver_version().unwrap_or_default();
        work(&mut Open { nvml: &nvml, driver, known: BTreeMap::new(), events: Events::default() });
        Ok(())
    }
}

/// An initialised library.
struct Open<'nvml> {
    nvml: &'nvml Nvml,
    driver: String,
    /// Devices by their numbers: one that is lost does not say who it is.
    known: BTreeMap<u32, Known>,
    events: Events<'nvml>,
}

/// A device by its number.
struct Known {
    identity: Identity,
    is_silent: bool,
}

/// Where XIDs come from.
#[derive(Default)]
struct Events<'nvml> {
    set: Option<EventSet<'nvml>>,
    /// The devices that were asked to tell, by their numbers; those that refuse among them.
    of: BTreeMap<u32, String>,
    /// Nothing came but errors: it is asked again behind the next pass.
    is_broken: bool,
}

/// How a question is put.
enum Ask {
    Call(fn(&Device<'_>) -> Result<u64, NvmlError>),
    Field(u32),
    /// The same, where a count of 32 bits would pass its end between two passes.
    WideField(u32),
    /// Asked with others, see [`memory`].
    Memory,
}

/// How each question is put, in the order of [`Question::ALL`].
const ASKED: [Ask; QUESTIONS] = {
    use Ask::*;
    [
        Call(|d| d.clock_info(Clock::Graphics).map(u64::from)),
        Call(|d| d.clock_info(Clock::Memory).map(u64::from)),
        Call(|d| d.clock_info(Clock::SM).map(u64::from)),
        Call(|d| d.clock_info(Clock::Video).map(u64::from)),
        Call(|d| d.total_ecc_errors(MemoryError::Corrected, EccCounter::Volatile)),
        Call(|d| d.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile)),
        Call(|d| d.total_energy_consumption()),
        Memory,
        Memory,
        Field(field_id::NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL),
        Field(field_id::NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL),
        Field(field_id::NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL),
        Field(field_id::NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL),
        WideField(field_id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES),
        Call(|d| d.pcie_replay_counter().map(u64::from)),
        WideField(field_id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES),
        Call(|d| d.power_usage().map(u64::from)),
        Field(field_id::NVML_FI_DEV_REMAPPED_FAILURE),
        Field(field_id::NVML_FI_DEV_REMAPPED_PENDING),
        Call(|d| d.temperature(TemperatureSensor::Gpu).map(u64::from)),
        Field(field_id::NVML_FI_DEV_MEMORY_TEMP),
        Call(throttle),
        Field(field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN),
        Field(field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN),
        Field(field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP),
        Field(field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN),
        Field(field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST),
        Call(|d| d.utilization_rates().map(|rates| u64::from(rates.gpu))),
        Call(|d| d.decoder_utilization().map(|info| u64::from(info.utilization))),
        Call(|d| d.encoder_utilization().map(|info| u64::from(info.utilization))),
    ]
};

/// The mask of reasons, with bits that the crate does not know.
fn throttle(device: &Device<'_>) -> Result<u64, NvmlError> {
    match device.current_throttle_reasons_strict() {
        Ok(reasons) => Ok(reasons.bits()),
        Err(NvmlError::IncorrectBits(Bits::U64(bits))) => Ok(bits),
        Err(error) => Err(error),
    }
}

impl Session for Open<'_> {
    fn read(&mut self) -> Result<Vec<Reading>, Fault> {
        let count = self.nvml.device_count().map_err(fault)?;
        if count as usize != self.known.len() {
            // The numbers may be other devices' now: one that does not answer must not pass for another.
            self.known.clear();
        }
        let mut readings = Vec::new();
        for index in 0..count {
            self.device(index, &mut readings);
        }
        self.events.is_broken = false;
        Ok(readings)
    }

    fn glance(&mut self, with_processes: bool) -> Result<Vec<Reading>, Fault> {
        let count = self.nvml.device_count().map_err(fault)?;
        let of = |index| {
            let device = self.nvml.device_by_index(index).and_then(|device| Ok((device.uuid()?, device)));
            device.map_or_else(
                |error| Reading::silent(self.remembered(index), lost(error)),
                |(id, device)| glance(Identity { id, ..Identity::default() }, &device, with_processes),
            )
        };
        Ok((0..count).map(of).collect())
    }

    fn wait(&mut self, at_most: Duration) -> Option<Xid> {
        let answering = self.answering();
        let is_stale = self.events.of != answering && !self.events.is_broken;
        if let Some(xid) = self.next(if is_stale { Duration::ZERO } else { at_most }) {
            return Some(xid);
        }
        if is_stale {
            self.register(answering);
            return self.next(at_most);
        }
        None
    }
}

impl<'nvml> Open<'nvml> {
    /// One device and the instances that it is divided into.
    fn device(&mut self, index: u32, into: &mut Vec<Reading>) {
        let found = self.nvml.device_by_index(index).and_then(|device| Ok((device.uuid()?, device)));
        let (id, device) = match found {
            Ok(found) => found,
            Err(error) => {
                let why = lost(error);
                let identity = self.remembered(index);
                self.known.insert(index, Known { identity: identity.clone(), is_silent: true });
                return into.push(Reading::silent(identity, why));
            }
        };
        let identity = self.identify(index, id, &device);
        let parent = identity.clone();
        into.push(ask(identity, &device));
        if device.mig_mode().is_ok_and(|mode| mode.current == 1) {
            instances(&parent, &device, into);
        }
    }

    fn remembered(&self, index: u32) -> Identity {
        let unknown = || Identity {
            id: format!("{UNKNOWN}-{index}"),
            name: format!("GPU {index}"),
            driver: self.driver.clone(),
            ..Identity::default()
        };
        self.known.get(&index).map_or_else(unknown, |known| known.identity.clone())
    }

    fn identify(&mut self, index: u32, id: String, device: &Device<'_>) -> Identity {
        if self.known.get(&index).is_none_or(|known| known.identity.id != id) {
            let identity = Identity {
                id,
                name: format!("GPU {index}"),
                model: device.name().unwrap_or_default(),
                serial: device.serial().unwrap_or_default(),
                firmware: device.vbios_version().unwrap_or_default(),
                driver: self.driver.clone(),
                pci: device.pci_info().map(|pci| pci.bus_id).unwrap_or_default(),
                parent: String::new(),
            };
            self.known.insert(index, Known { identity, is_silent: false });
        }
        if let Some(known) = self.known.get_mut(&index) {
            known.is_silent = false;
        }
        self.remembered(index)
    }

    /// Devices that can be asked for their events.
    fn answering(&self) -> BTreeMap<u32, String> {
        let all = self.known.iter().filter(|(_, known)| !known.is_silent);
        all.map(|(index, known)| (*index, known.identity.id.clone())).collect()
    }

    /// The next event, waited for.
    fn next(&mut self, at_most: Duration) -> Option<Xid> {
        let Some(set) = &self.events.set else {
            thread::park_timeout(at_most);
            return None;
        };
        match set.wait(u32::try_from(at_most.as_millis()).unwrap_or(u32::MAX)) {
            Ok(event) => {
                let Some(XidError::Value(number)) = event.event_data else { return None };
                Some(Xid { device: self.whose(&event.device), number })
            }
            Err(NvmlError::Timeout) => None,
            Err(_) => {
                self.events = Events { is_broken: true, ..Events::default() };
                None
            }
        }
    }

    /// A device that fell off the bus reports that, and then does not say who it is: of those that do not answer now,
    /// it is the one.
    fn whose(&self, device: &Device<'_>) -> String {
        device.uuid().unwrap_or_else(|_| {
            let is_silent = |index: &u32| self.nvml.device_by_index(*index).and_then(|d| d.uuid()).is_err();
            let mut silent = self.known.iter().filter(|(index, _)| is_silent(index));
            match (silent.next(), silent.next()) {
                (Some((_, known)), None) => known.identity.id.clone(),
                _ => UNKNOWN.to_owned(),
            }
        })
    }

    /// A set of the events of all devices that tell of any. A device that refuses takes the set with it.
    fn register(&mut self, of: BTreeMap<u32, String>) {
        let mut telling: Vec<u32> = of.keys().copied().collect();
        let mut set = None;
        while set.is_none() && !telling.is_empty() {
            match self.set_of(&telling) {
                Ok(made) => set = Some(made),
                Err(None) => break,
                Err(Some(refusing)) => telling.retain(|index| *index != refusing),
            }
        }
        self.events = Events { set, of, is_broken: false };
    }

    /// The error is the device that refuses, or none where there are no events at all.
    fn set_of(&self, indices: &[u32]) -> Result<EventSet<'nvml>, Option<u32>> {
        let mut set = self.nvml.create_event_set().map_err(|_| None)?;
        for index in indices {
            let device = self.nvml.device_by_index(*index).map_err(|_| Some(*index))?;
            let registered = device.register_events(EventTypes::CRITICAL_XID_ERROR, set);
            set = registered.map_err(|_| Some(*index))?;
        }
        Ok(set)
    }
}

/// Puts every question.
fn ask(identity: Identity, device: &Device<'_>) -> Reading {
    let mut reading = Reading::silent(identity, Fault::Unsupported);
    for (answer, ask) in reading.answers.iter_mut().zip(&ASKED) {
        if let Ask::Call(call) = ask {
            *answer = call(device).map_err(fault);
        }
    }
    memory(device, &mut reading);
    fields(device, &mut reading, |_| true);
    reading.fans = fans(device);
    reading
}

/// Puts the questions about clocks that are held down.
fn glance(mut identity: Identity, device: &Device<'_>, with_processes: bool) -> Reading {
    identity.pci = match with_processes {
        true => device.pci_info().map(|pci| pci.bus_id).unwrap_or_default(),
        false => String::new(),
    };
    let mut reading = Reading::silent(identity, Fault::Unsupported);
    reading.answers[Question::Throttle as usize] = throttle(device).map_err(fault);
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
fn instances(parent: &Identity, device: &Device<'_>, into: &mut Vec<Reading>) {
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
        let mut reading = Reading::silent(identity, Fault::Unsupported);
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
    reading.answers[Question::MemoryTotal as usize] = total;
    reading.answers[Question::MemoryUsed as usize] = used;
    let processes = device.running_compute_processes().unwrap_or_default();
    reading.processes = processes.into_iter().map(|p| process(p.pid, &p.used_gpu_memory)).collect();
}

fn process(pid: u32, memory: &UsedGpuMemory) -> Process {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let bytes = match memory {
        UsedGpuMemory::Used(bytes) => Some(*bytes),
        UsedGpuMemory::Unavailable => None,
    };
    Process { pid, executable: name.unwrap_or_default(), bytes }
}

/// Those questions that are fields and are meant, in one call.
fn fields(device: &Device<'_>, reading: &mut Reading, is_meant: impl Fn(Question) -> bool) {
    let meant =
        Question::ALL.into_iter().zip(&ASKED).enumerate().filter(|(_, (question, _))| is_meant(*question));
    let asked = meant.filter_map(|(at, (_, ask))| match ask {
        Ask::Field(id) => Some((at, *id, false)),
        Ask::WideField(id) => Some((at, *id, true)),
        Ask::Call(_) | Ask::Memory => None,
    });
    let asked: Vec<(usize, u32, bool)> = asked.collect();
    let ids: Vec<FieldId> = asked.iter().map(|(_, id, _)| FieldId(*id)).collect();
    match device.field_values_for(&ids) {
        Ok(samples) => {
            for ((at, _, is_wide), sample) in asked.into_iter().zip(samples) {
                reading.answers[at] = field(sample.and_then(|sample| sample.value), is_wide);
            }
        }
        Err(error) => {
            let why = fault(error);
            asked.into_iter().for_each(|(at, ..)| reading.answers[at] = Err(why));
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

/// A device that does not even say who it is cannot be asked anything else.
fn lost(error: NvmlError) -> Fault {
    Fault::Lost(fault(error).name())
}

/// What the driver says of itself, in the words of `error.type`.
fn fault(error: NvmlError) -> Fault {
    match error {
        NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => {
            Fault::Unsupported
        }
        NvmlError::GpuLost => Fault::Lost("gpu_is_lost"),
        NvmlError::ResetRequired => Fault::Lost("reset_required"),
        NvmlError::CorruptedInfoROM => Fault::Failed("corrupted_inforom"),
        NvmlError::DriverNotLoaded => Fault::Failed("driver_not_loaded"),
        NvmlError::InvalidArg => Fault::Failed("invalid_argument"),
        NvmlError::IrqIssue => Fault::Failed("irq_issue"),
        NvmlError::LibRmVersionMismatch => Fault::Failed("lib_rm_version_mismatch"),
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => Fault::Failed("library_not_found"),
        NvmlError::NoData => Fault::Failed("no_data"),
        NvmlError::NoPermission => Fault::Failed("no_permission"),
        NvmlError::NotFound => Fault::Failed("not_found"),
        NvmlError::OperatingSystem => Fault::Failed("operating_system"),
        NvmlError::Timeout => Fault::Failed("timeout"),
        NvmlError::Uninitialized => Fault::Failed("uninitialized"),
        NvmlError::Unknown => Fault::Failed("unknown"),
        _ => Fault::Failed("_OTHER"),
    }
}
