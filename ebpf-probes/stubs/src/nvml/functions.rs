// The root of the stub libnvidia-ml, behind the lines that build.rs writes above it: the exported functions with the
// prototypes of nvml.h, and the control functions by which a test drives the stub.
//
// | function | meaning |
// |---|---|
// | `warptap_stub_nvml_script(text)` | from here on this script holds; 0 if it can be read |
// | `warptap_stub_nvml_now(ns)` | it is this time, until another is told |
// | `warptap_stub_nvml_calls()` | questions asked so far |

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};
use std::time::Duration;

use nvml::abi::{
    self, EventData, FieldValue, Memory, PciInfo, ProcessInfo, Return, Utilization, ViolationTime,
};
use nvml::driver;
use nvml::script::Answer;

/// Makes exported functions. Their bodies run with what a C caller promises.
macro_rules! exports {
    ($($symbol:ident($($name:ident: $type:ty),*) $body:block)*) => {$(
        /// See nvml.h.
        ///
        /// # Safety
        /// As its C prototype demands: what is pointed to can be written, and is as long as it is said to be.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol($($name: $type),*) -> Return {
            let told = (|| -> Result<(), Return> { $body })();
            told.err().unwrap_or(abi::SUCCESS)
        }
    )*};
}

/// Functions that give one number of a device.
macro_rules! numbers {
    ($($symbol:ident($($name:ident: $type:ty),*) -> $number:ty = $question:expr;)*) => {
        exports! {$(
            $symbol(device: usize $(, $name: $type)*, into: *mut $number) {
                let number = number(device, $question)?;
                // SAFETY: the caller's promise.
                unsafe { put(into, number as $number) }
            }
        )*}
    };
}

/// Functions that give a text of a device.
macro_rules! texts {
    ($($symbol:ident = $question:expr;)*) => {
        exports! {$(
            $symbol(device: usize, into: *mut c_char, length: c_uint) {
                let text = text(driver::of_device(device, $question)?);
                // SAFETY: the caller's promise.
                unsafe { put_text(into, length, &text) }
            }
        )*}
    };
}

/// # Safety
/// `into` is null or can be written.
unsafe fn put<T>(into: *mut T, value: T) -> Result<(), Return> {
    if into.is_null() {
        return Err(abi::INVALID_ARGUMENT);
    }
    // SAFETY: the caller's promise.
    unsafe { into.write(value) };
    Ok(())
}

/// # Safety
/// `into` is null or can be written for `length` bytes.
unsafe fn put_text(into: *mut c_char, length: c_uint, text: &str) -> Result<(), Return> {
    let bytes: Vec<c_char> = text.bytes().chain([0]).map(|byte| byte as c_char).collect();
    if into.is_null() || bytes.len() > length as usize {
        return Err(abi::INSUFFICIENT_SIZE);
    }
    // SAFETY: checked to be long enough, by the caller's promise.
    unsafe { into.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

fn text(answer: Answer) -> String {
    match answer {
        Answer::Text(text) => text,
        Answer::Number(number, _) => number.to_string(),
        Answer::Error(error) => error.to_string(),
    }
}

fn number(device: usize, question: &str) -> Result<u64, Return> {
    match driver::of_device(device, question)? {
        Answer::Number(number, _) => Ok(number),
        _ => Err(abi::INVALID_ARGUMENT),
    }
}

/// The question behind a number of nvml.h; unknown numbers are asked by themselves, and not answered.
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
/// Fields whose numbers drivers from 580.82 on have 18 higher.
const MOVED_FIELDS: &[(c_uint, &str)] =
    &[(251, "throttled.sw_thermal"), (252, "throttled.hw_thermal"), (253, "throttled.hw_power_brake")];

fn field(id: c_uint) -> &'static str {
    let version = driver::of_driver("version").map(text).unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let moved = if version >= (580, 82) { 18 } else { 0 };
    let same = FIELDS.iter().copied();
    let mut all = same.chain(MOVED_FIELDS.iter().map(|(id, question)| (id + moved, *question)));
    all.find(|(known, _)| *known == id).map_or("?", |(_, question)| question)
}

/// Control function, see above.
///
/// # Safety
/// `text` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warptap_stub_nvml_script(text: *const c_char) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { driver::set_script(text) }
}

/// Control function, see above.
#[unsafe(no_mangle)]
pub extern "C" fn warptap_stub_nvml_now(at_ns: u64) {
    driver::set_now(at_ns);
}

/// Control function, see above.
#[unsafe(no_mangle)]
pub extern "C" fn warptap_stub_nvml_calls() -> u64 {
    driver::calls()
}

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
        match driver::init() {
            abi::SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    nvmlInitWithFlags(_flags: c_uint) {
        match driver::init() {
            abi::SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    nvmlShutdown() {
        match driver::shutdown() {
            abi::SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    nvmlSystemGetDriverVersion(into: *mut c_char, length: c_uint) {
        let version = text(driver::of_driver("version")?);
        // SAFETY: the caller's promise.
        unsafe { put_text(into, length, &version) }
    }

    nvmlDeviceGetCount_v2(into: *mut c_uint) {
        if let Err(error) = driver::of_driver("count")
            && error != abi::NOT_SUPPORTED
        {
            return Err(error);
        }
        let count = driver::devices()?.len() as c_uint;
        // SAFETY: the caller's promise.
        unsafe { put(into, count) }
    }

    nvmlDeviceGetHandleByIndex_v2(index: c_uint, into: *mut usize) {
        let handle = driver::devices()?.get(index as usize).copied().ok_or(abi::INVALID_ARGUMENT)?;
        // SAFETY: the caller's promise.
        unsafe { put(into, handle) }
    }

    nvmlDeviceGetUtilizationRates(device: usize, into: *mut Utilization) {
        let gpu = number(device, "utilization")? as c_uint;
        let memory = number(device, "utilization.memory").unwrap_or(0) as c_uint;
        // SAFETY: the caller's promise.
        unsafe { put(into, Utilization { gpu, memory }) }
    }

    nvmlDeviceGetEncoderUtilization(device: usize, into: *mut c_uint, period_us: *mut c_uint) {
        let share = number(device, "utilization.encoder")? as c_uint;
        // SAFETY: the caller's promise.
        unsafe { put(into, share).and(put(period_us, 167_000)) }
    }

    nvmlDeviceGetDecoderUtilization(device: usize, into: *mut c_uint, period_us: *mut c_uint) {
        let share = number(device, "utilization.decoder")? as c_uint;
        // SAFETY: the caller's promise.
        unsafe { put(into, share).and(put(period_us, 167_000)) }
    }

    nvmlDeviceGetMemoryInfo_v2(device: usize, into: *mut Memory) {
        let (total, used) = (number(device, "memory.total")?, number(device, "memory.used")?);
        let reserved = number(device, "memory.reserved").unwrap_or(0);
        // SAFETY: the caller's promise.
        let version = unsafe { into.as_ref() }.ok_or(abi::INVALID_ARGUMENT)?.version;
        if version != (size_of::<Memory>() | 2 << 24) as c_uint {
            return Err(25); // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
        }
        let free = total.saturating_sub(used).saturating_sub(reserved);
        // SAFETY: the caller's promise.
        unsafe { put(into, Memory { version, total, reserved, free, used }) }
    }

    nvmlDeviceGetPciInfo_v3(device: usize, into: *mut PciInfo) {
        let address = text(driver::of_device(device, "pci")?);
        let mut info = PciInfo {
            bus_id_legacy: [0; 16],
            domain: 0,
            bus: 0,
            device: 0,
            pci_device_id: 0x2330_10de,
            pci_sub_system_id: 0,
            bus_id: [0; 32],
        };
        for (place, byte) in info.bus_id.iter_mut().take(31).zip(address.bytes()) {
            *place = byte as c_char;
        }
        // SAFETY: the caller's promise.
        unsafe { put(into, info) }
    }

    nvmlDeviceGetViolationStatus(device: usize, policy: c_uint, into: *mut ViolationTime) {
        let violation_time = number(device, word(POLICIES, policy))?;
        // SAFETY: the caller's promise.
        unsafe { put(into, ViolationTime { reference_time: 0, violation_time }) }
    }

    nvmlDeviceGetFieldValues(device: usize, count: c_int, values: *mut FieldValue) {
        driver::of_device(device, "uuid")?;
        let count = usize::try_from(count).map_err(|_| abi::INVALID_ARGUMENT)?;
        if values.is_null() {
            return Err(abi::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's promise.
        let values = unsafe { std::slice::from_raw_parts_mut(values, count) };
        for value in values {
            let answer = number(device, field(value.field_id));
            value.value_type = abi::UNSIGNED_LONG_LONG;
            value.result = answer.err().unwrap_or(abi::SUCCESS);
            value.value = answer.unwrap_or(0);
        }
        Ok(())
    }

    nvmlDeviceGetComputeRunningProcesses_v3(device: usize, count: *mut c_uint, into: *mut ProcessInfo) {
        let processes = match driver::of_device(device, "processes") {
            Err(abi::NOT_SUPPORTED) => Vec::new(),
            answer => processes(&text(answer?)),
        };
        // SAFETY: the caller's promise.
        let room = *unsafe { count.as_ref() }.ok_or(abi::INVALID_ARGUMENT)? as usize;
        // SAFETY: the caller's promise.
        unsafe { put(count, processes.len() as c_uint)? };
        if processes.is_empty() {
            return Ok(());
        }
        if into.is_null() || room < processes.len() {
            return Err(abi::INSUFFICIENT_SIZE);
        }
        // SAFETY: checked to be long enough, by the caller's promise.
        unsafe { into.copy_from_nonoverlapping(processes.as_ptr(), processes.len()) };
        Ok(())
    }

    nvmlDeviceGetMigMode(device: usize, current: *mut c_uint, pending: *mut c_uint) {
        driver::of_device(device, "uuid")?;
        let mode = c_uint::from(!driver::instances(device)?.is_empty());
        // SAFETY: the caller's promise.
        unsafe { put(current, mode).and(put(pending, mode)) }
    }

    nvmlDeviceGetMaxMigDeviceCount(device: usize, into: *mut c_uint) {
        driver::of_device(device, "uuid")?;
        // SAFETY: the caller's promise.
        unsafe { put(into, 7) }
    }

    nvmlDeviceGetMigDeviceHandleByIndex(device: usize, index: c_uint, into: *mut usize) {
        let handle = driver::instances(device)?.get(index as usize).copied().ok_or(abi::NOT_FOUND)?;
        // SAFETY: the caller's promise.
        unsafe { put(into, handle) }
    }

    nvmlDeviceGetSupportedEventTypes(device: usize, into: *mut c_ulonglong) {
        driver::of_device(device, "events")?;
        // SAFETY: the caller's promise.
        unsafe { put(into, abi::XID_EVENT) }
    }

    nvmlEventSetCreate(into: *mut usize) {
        // SAFETY: the caller's promise.
        unsafe { put(into, driver::new_set()) }
    }

    nvmlDeviceRegisterEvents(device: usize, _types: c_ulonglong, set: usize) {
        match driver::register(device, set) {
            abi::SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    nvmlEventSetFree(set: usize) {
        match driver::free_set(set) {
            abi::SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    nvmlEventSetWait_v2(set: usize, into: *mut EventData, timeout_ms: c_uint) {
        let (device, event_data) = driver::wait(set, Duration::from_millis(timeout_ms.into()))?;
        let event_type = abi::XID_EVENT;
        let event =
            EventData { device, event_type, event_data, gpu_instance_id: u32::MAX, compute_instance_id: u32::MAX };
        // SAFETY: the caller's promise.
        unsafe { put(into, event) }
    }
}

/// `100:4096 200:8192`: pids and their bytes.
fn processes(text: &str) -> Vec<ProcessInfo> {
    let one = |word: &str| {
        let (pid, bytes) = word.split_once(':')?;
        Some(ProcessInfo {
            pid: pid.parse().ok()?,
            used_gpu_memory: bytes.parse().ok()?,
            gpu_instance_id: u32::MAX,
            compute_instance_id: u32::MAX,
        })
    };
    text.split_whitespace().filter_map(one).collect()
}
