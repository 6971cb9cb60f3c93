// The exported functions of the stub libnvidia-ml, with the prototypes of nvml.h. build.rs includes this file at the root
// of the library.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};
use std::time::Duration;

use nvml::abi::{
    self, EventData, FieldValue, MemoryInfo, PciInfo, NvmlProcess, Return, Utilization, ViolationTime,
};
use nvml::{CODES, DRIVER};
use smi::exports::{put, put_text};
use smi::script::ScriptedValue;

/// Defines functions that return a number of a device.
macro_rules! numbers {
    ($($symbol:ident($($name:ident: $type:ty),*) -> $number:ty = $field:expr;)*) => {
        exports! {$(
            $symbol(device: usize $(, $name: $type)*, into: *mut $number) {
                let number = DRIVER.number(device, $field)?;
                // SAFETY: the caller's promise.
                unsafe { put(&CODES, into, number as $number) }
            }
        )*}
    };
}

/// Defines functions that return a text of a device.
macro_rules! texts {
    ($($symbol:ident = $field:expr;)*) => {
        exports! {$(
            $symbol(device: usize, into: *mut c_char, length: c_uint) {
                let text = DRIVER.text(device, $field)?;
                // SAFETY: the caller's promise.
                unsafe { put_text(&CODES, into, length as usize, &text) }
            }
        )*}
    };
}

/// Returns the script field of a number in nvml.h; `?` for unknown numbers, which no script has.
fn word<'a>(words: &[&'a str], number: c_uint) -> &'a str {
    words.get(number as usize).copied().unwrap_or("?")
}

const TEMPERATURES: &[&str] = &["temperature"];
const CLOCKS: &[&str] = &["clock.graphics", "clock.sm", "clock.memory", "clock.video"];
const ECC: &[&str] = &["ecc.corrected", "ecc.uncorrected"];
const POLICIES: &[&str] = &["policy.power", "policy.thermal", "policy.sync_boost", "policy.board_limit"];
const NVLINK_ERRORS: &[&str] = &["nvlink.replay", "nvlink.recovery", "nvlink.crc_flit", "nvlink.crc_data"];

/// Fields of `nvmlDeviceGetFieldValues` by their numbers, which are the same in every driver.
const FIELDS: &[(c_uint, &str)] = &[
    (3, "ecc.corrected"),
    (4, "ecc.uncorrected"),
    (38, "nvlink.crc_flit"),
    (45, "nvlink.crc_data"),
    (52, "nvlink.replay"),
    (59, "nvlink.recovery"),
    (74, "throttled.sw_power_cap"),
    (76, "throttled.sync_boost"),
    (82, "temperature.memory"),
    (83, "energy"),
    (94, "pcie.replay"),
    (144, "remapped.pending"),
    (145, "remapped.failure"),
    (186, "power"),
    (197, "pcie.transmitted"),
    (198, "pcie.received"),
];
/// Fields whose numbers are 18 higher in drivers from 580.82 on.
const MOVED_FIELDS: &[(c_uint, &str)] =
    &[(251, "throttled.sw_thermal"), (252, "throttled.hw_thermal"), (253, "throttled.hw_power_brake")];

fn field(id: c_uint) -> &'static str {
    let version = DRIVER.of_driver("version").map(ScriptedValue::into_text).unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let moved = if version >= (580, 82) { 18 } else { 0 };
    let same = FIELDS.iter().copied();
    let mut all = same.chain(MOVED_FIELDS.iter().map(|(id, field)| (id + moved, *field)));
    all.find(|(known, _)| *known == id).map_or("?", |(_, field)| field)
}

controls!(DRIVER);

numbers! {
    nvmlDeviceGetClockInfo(kind: c_uint) -> c_uint = word(CLOCKS, kind);
    nvmlDeviceGetCurrentClocksThrottleReasons() -> c_ulonglong = "throttle";
    nvmlDeviceGetCurrentClocksEventReasons() -> c_ulonglong = "throttle";
    nvmlDeviceGetFanSpeed_v2(fan: c_uint) -> c_uint = &format!("fan{fan}");
    nvmlDeviceGetIndex() -> c_uint = "index";
    nvmlDeviceGetMinorNumber() -> c_uint = "index";
    nvmlDeviceGetNumFans() -> c_uint = "fans";
    nvmlDeviceGetNvLinkErrorCounter(_link: c_uint, kind: c_uint) -> c_ulonglong = word(NVLINK_ERRORS, kind);
    nvmlDeviceGetPcieReplayCounter() -> c_uint = "pcie.replay";
    nvmlDeviceGetPowerUsage() -> c_uint = "power";
    nvmlDeviceGetTemperature(sensor: c_uint) -> c_uint = word(TEMPERATURES, sensor);
    nvmlDeviceGetTotalEccErrors(kind: c_uint, _counter: c_uint) -> c_ulonglong = word(ECC, kind);
    nvmlDeviceGetTotalEnergyConsumption() -> c_ulonglong = "energy";
}

texts! {
    nvmlDeviceGetName = "name";
    nvmlDeviceGetSerial = "serial";
    nvmlDeviceGetUUID = "uuid";
    nvmlDeviceGetVbiosVersion = "vbios";
}

exports! {
    nvmlInit_v2() {
        match DRIVER.init() {
            abi::SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    nvmlInitWithFlags(_flags: c_uint) {
        match DRIVER.init() {
            abi::SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    nvmlShutdown() {
        match DRIVER.shutdown() {
            abi::SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    nvmlSystemGetDriverVersion(into: *mut c_char, length: c_uint) {
        let version = DRIVER.of_driver("version")?.into_text();
        // SAFETY: the caller's promise.
        unsafe { put_text(&CODES, into, length as usize, &version) }
    }

    nvmlDeviceGetCount_v2(into: *mut c_uint) {
        if let Err(error) = DRIVER.of_driver("count")
            && error != abi::NOT_SUPPORTED
        {
            return Err(error);
        }
        let count = DRIVER.devices()?.len() as c_uint;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, count) }
    }

    nvmlDeviceGetHandleByIndex_v2(index: c_uint, into: *mut usize) {
        let handle = DRIVER.devices()?.get(index as usize).copied().ok_or(abi::INVALID_ARGUMENT)?;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, handle) }
    }

    nvmlDeviceGetUtilizationRates(device: usize, into: *mut Utilization) {
        let gpu = DRIVER.number(device, "utilization")? as c_uint;
        let memory = DRIVER.number(device, "utilization.memory").unwrap_or(0) as c_uint;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, Utilization { gpu, memory }) }
    }

    nvmlDeviceGetEncoderUtilization(device: usize, into: *mut c_uint, period_us: *mut c_uint) {
        let share = DRIVER.number(device, "utilization.encoder")? as c_uint;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, share).and(put(&CODES, period_us, 167_000)) }
    }

    nvmlDeviceGetDecoderUtilization(device: usize, into: *mut c_uint, period_us: *mut c_uint) {
        let share = DRIVER.number(device, "utilization.decoder")? as c_uint;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, share).and(put(&CODES, period_us, 167_000)) }
    }

    nvmlDeviceGetMemoryInfo_v2(device: usize, into: *mut MemoryInfo) {
        let (total, used) = (DRIVER.number(device, "memory.total")?, DRIVER.number(device, "memory.used")?);
        let reserved = DRIVER.number(device, "memory.reserved").unwrap_or(0);
        // SAFETY: the caller's promise.
        let version = unsafe { into.as_ref() }.ok_or(abi::INVALID_ARGUMENT)?.version;
        if version != (size_of::<MemoryInfo>() | 2 << 24) as c_uint {
            return Err(25); // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
        }
        let free = total.saturating_sub(used).saturating_sub(reserved);
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, MemoryInfo { version, total, reserved, free, used }) }
    }

    nvmlDeviceGetPciInfo_v3(device: usize, into: *mut PciInfo) {
        let address = DRIVER.text(device, "pci")?;
        let mut info = PciInfo {
            bus_id_legacy: [0; 16],
            domain: 0,
            bus: 0,
            device: 0,
            pci_device_id: 0x2330_10de,
            pci_sub_system_id: 0,
            bus_id: [0; 32],
        };
        for (slot, byte) in info.bus_id.iter_mut().take(31).zip(address.bytes()) {
            *slot = byte as c_char;
        }
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, info) }
    }

    nvmlDeviceGetViolationStatus(device: usize, policy: c_uint, into: *mut ViolationTime) {
        let violation_time = DRIVER.number(device, word(POLICIES, policy))?;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, ViolationTime { reference_time: 0, violation_time }) }
    }

    nvmlDeviceGetFieldValues(device: usize, count: c_int, values: *mut FieldValue) {
        DRIVER.of_device(device, "uuid")?;
        let count = usize::try_from(count).map_err(|_| abi::INVALID_ARGUMENT)?;
        if values.is_null() {
            return Err(abi::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's promise.
        let values = unsafe { std::slice::from_raw_parts_mut(values, count) };
        for value in values {
            let number = DRIVER.number(device, field(value.field_id));
            value.value_type = abi::UNSIGNED_LONG_LONG;
            value.result = number.err().unwrap_or(abi::SUCCESS);
            value.value = number.unwrap_or(0);
        }
        Ok(())
    }

    nvmlDeviceGetComputeRunningProcesses_v3(device: usize, count: *mut c_uint, into: *mut NvmlProcess) {
        let processes = match DRIVER.of_device(device, "processes") {
            Err(abi::NOT_SUPPORTED) => Vec::new(),
            value => processes(&value?.into_text()),
        };
        // SAFETY: the caller's promise.
        let capacity = *unsafe { count.as_ref() }.ok_or(abi::INVALID_ARGUMENT)? as usize;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, count, processes.len() as c_uint)? };
        if processes.is_empty() {
            return Ok(());
        }
        if into.is_null() || capacity < processes.len() {
            return Err(abi::INSUFFICIENT_SIZE);
        }
        // SAFETY: by the caller's promise, and the length was checked.
        unsafe { into.copy_from_nonoverlapping(processes.as_ptr(), processes.len()) };
        Ok(())
    }

    nvmlDeviceGetMigMode(device: usize, current: *mut c_uint, pending: *mut c_uint) {
        DRIVER.of_device(device, "uuid")?;
        let mode = c_uint::from(!DRIVER.instances(device)?.is_empty());
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, current, mode).and(put(&CODES, pending, mode)) }
    }

    nvmlDeviceGetMaxMigDeviceCount(device: usize, into: *mut c_uint) {
        DRIVER.of_device(device, "uuid")?;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, 7) }
    }

    nvmlDeviceGetMigDeviceHandleByIndex(device: usize, index: c_uint, into: *mut usize) {
        let handle = DRIVER.instances(device)?.get(index as usize).copied().ok_or(abi::NOT_FOUND)?;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, handle) }
    }

    nvmlDeviceGetSupportedEventTypes(device: usize, into: *mut c_ulonglong) {
        DRIVER.of_device(device, "events")?;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, abi::XID_EVENT) }
    }

    nvmlEventSetCreate(into: *mut usize) {
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, DRIVER.new_set()) }
    }

    nvmlDeviceRegisterEvents(device: usize, _types: c_ulonglong, set: usize) {
        match DRIVER.register(device, set) {
            abi::SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    nvmlEventSetFree(set: usize) {
        match DRIVER.free_set(set) {
            abi::SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    nvmlEventSetWait_v2(set: usize, into: *mut EventData, timeout_ms: c_uint) {
        let (device, event_data) = DRIVER.wait(set, Duration::from_millis(timeout_ms.into()))?;
        let event_type = abi::XID_EVENT;
        let event =
            EventData { device, event_type, event_data, gpu_instance_id: u32::MAX, compute_instance_id: u32::MAX };
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, event) }
    }
}

/// Parses pids and their bytes, such as `100:4096 200:8192`.
fn processes(text: &str) -> Vec<NvmlProcess> {
    let one = |word: &str| {
        let (pid, bytes) = word.split_once(':')?;
        Some(NvmlProcess {
            pid: pid.parse().ok()?,
            used_gpu_memory: bytes.parse().ok()?,
            gpu_instance_id: u32::MAX,
            compute_instance_id: u32::MAX,
        })
    };
    text.split_whitespace().filter_map(one).collect()
}
