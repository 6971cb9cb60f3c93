// The exported functions of the stub libamd_smi, with the prototypes of amdsmi.h. build.rs includes this file at the root
// of the library.
//
// Script fields of a device: `bdf` (a number), `board.serial`, `driver`, `name`, `uuid`, `vbios`; `ecc.*`,
// `energy` (in units of 15.3 uJ), `fan` (of 255), `memory.total`, `memory.used`, `processes` (`100:4096 200:8192`); those
// of the metrics as named below; `events yes`, and `notification 1` for an event by its number.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::time::Duration;

use amdsmi::abi::{
    self, AsicInfo, BoardInfo, DriverInfo, ErrorCount, GpuMetrics, MemoryUsage, Notification, ProcInfo,
    Return, Text, VbiosInfo, VbiosInfo64, Version,
};
use amdsmi::{CODES, DRIVER};
use smi::exports::{put, put_text};
use smi::script::ScriptedValue;

controls!(DRIVER);

/// The set of events, created when the first device registers.
static EVENTS: OnceLock<usize> = OnceLock::new();

/// Returns a zeroed struct.
fn zeroed<T>() -> T {
    // SAFETY: used with structs of numbers, texts and pointers, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

fn text_of(device: usize, field: &str) -> Result<Text, Return> {
    let mut text = [0; 256];
    let found = match DRIVER.text(device, field) {
        Err(error) if error == CODES.not_supported => String::new(),
        value => value?,
    };
    text.iter_mut().take(255).zip(found.bytes()).for_each(|(slot, byte)| *slot = byte as c_char);
    Ok(text)
}

/// Returns the major version of the library.
fn major() -> u32 {
    let version = DRIVER.of_driver("version").map(ScriptedValue::into_text).unwrap_or_default();
    version.split('.').next().and_then(|number| number.parse().ok()).unwrap_or(26)
}

fn done(status: Return) -> Result<(), Return> {
    match status {
        smi::SUCCESS => Ok(()),
        error => Err(error),
    }
}

/// Writes handles as the library does: their number, and as many as fit.
///
/// # Safety
/// `count` is valid for writes, `into` is null or valid for writes of `*count` handles.
unsafe fn put_handles(handles: &[usize], count: *mut c_uint, into: *mut usize) -> Result<(), Return> {
    // SAFETY: the caller's promise.
    let capacity = *unsafe { count.as_ref() }.ok_or(CODES.invalid_argument)? as usize;
    let given = if into.is_null() { handles } else { &handles[..capacity.min(handles.len())] };
    // SAFETY: the caller's promise.
    unsafe { put(&CODES, count, given.len() as c_uint)? };
    if !into.is_null() {
        // SAFETY: by the caller's promise, no more than fit.
        unsafe { into.copy_from_nonoverlapping(given.as_ptr(), given.len()) };
    }
    Ok(())
}

exports! {
    amdsmi_init(_flags: u64) {
        done(DRIVER.init())
    }

    amdsmi_shut_down() {
        // As in libraries without a use count: undoes the initialisation of all users.
        while DRIVER.shutdown() == smi::SUCCESS {}
        Ok(())
    }

    amdsmi_get_lib_version(into: *mut Version) {
        let text = DRIVER.of_driver("version").map(ScriptedValue::into_text).unwrap_or_else(|_| "26.0.2".to_owned());
        let mut numbers = [0; 4];
        let parts = text.split('.').map(|part| part.parse().unwrap_or(0));
        numbers.iter_mut().zip(parts).for_each(|(slot, number)| *slot = number);
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, Version { numbers, build: c"stub".as_ptr() }) }
    }

    amdsmi_get_socket_handles(count: *mut c_uint, into: *mut usize) {
        if let Err(error) = DRIVER.of_driver("sockets")
            && error != CODES.not_supported
        {
            return Err(error);
        }
        // SAFETY: the caller's promise.
        unsafe { put_handles(&DRIVER.devices()?, count, into) }
    }

    amdsmi_get_processor_handles(socket: usize, count: *mut c_uint, into: *mut usize) {
        let mut handles = vec![socket];
        handles.extend(DRIVER.instances(socket)?);
        // SAFETY: the caller's promise.
        unsafe { put_handles(&handles, count, into) }
    }

    amdsmi_get_processor_type(_device: usize, into: *mut c_uint) {
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, 1) }
    }

    amdsmi_get_gpu_device_uuid(device: usize, length: *mut c_uint, into: *mut c_char) {
        let text = DRIVER.text(device, "uuid")?;
        // SAFETY: the caller's promise.
        let capacity = *unsafe { length.as_ref() }.ok_or(CODES.invalid_argument)? as usize;
        // SAFETY: the caller's promise.
        unsafe { put_text(&CODES, into, capacity, &text) }
    }

    amdsmi_get_gpu_device_bdf(device: usize, into: *mut u64) {
        let bdf = DRIVER.number(device, "bdf")?;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, bdf) }
    }

    amdsmi_get_gpu_asic_info(device: usize, into: *mut AsicInfo) {
        let market_name = text_of(device, "name")?;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, AsicInfo { market_name, vendor_id: 0x1002, ..zeroed() }) }
    }

    amdsmi_get_gpu_board_info(device: usize, into: *mut BoardInfo) {
        let product_serial = text_of(device, "board.serial")?;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, BoardInfo { product_serial, ..zeroed() }) }
    }

    amdsmi_get_gpu_driver_info(device: usize, into: *mut DriverInfo) {
        let driver_version = text_of(device, "driver")?;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, DriverInfo { driver_version, ..zeroed() }) }
    }

    amdsmi_get_gpu_vbios_info(device: usize, into: *mut c_void) {
        let version = text_of(device, "vbios")?;
        // SAFETY: the caller's promise; the struct depends on the library's version.
        match major() {
            25 => unsafe { put(&CODES, into.cast(), VbiosInfo64 { version, ..zeroed() }) },
            _ => unsafe { put(&CODES, into.cast(), VbiosInfo { version, ..zeroed() }) },
        }
    }

    amdsmi_get_gpu_memory_total(device: usize, _kind: c_uint, into: *mut u64) {
        let bytes = DRIVER.number(device, "memory.total")?;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, bytes) }
    }

    amdsmi_get_gpu_memory_usage(device: usize, _kind: c_uint, into: *mut u64) {
        let bytes = DRIVER.number(device, "memory.used")?;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, bytes) }
    }

    amdsmi_get_energy_count(device: usize, into: *mut u64, resolution: *mut f32, time_ns: *mut u64) {
        let count = DRIVER.number(device, "energy")?;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, count).and(put(&CODES, resolution, 15.3)).and(put(&CODES, time_ns, 0)) }
    }

    amdsmi_get_gpu_total_ecc_count(device: usize, into: *mut ErrorCount) {
        let correctable_count = DRIVER.number(device, "ecc.corrected")?;
        let uncorrectable_count = DRIVER.number(device, "ecc.uncorrected").unwrap_or(0);
        let deferred_count = DRIVER.number(device, "ecc.deferred").unwrap_or(0);
        let count = ErrorCount { correctable_count, uncorrectable_count, deferred_count, reserved: [0; 5] };
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, count) }
    }

    amdsmi_get_gpu_fan_speed(device: usize, _sensor: c_uint, into: *mut i64) {
        let speed = DRIVER.number(device, "fan")?;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, speed as i64) }
    }

    amdsmi_get_gpu_process_list(device: usize, count: *mut c_uint, into: *mut ProcInfo) {
        let processes = match DRIVER.text(device, "processes") {
            Err(error) if error == CODES.not_supported => Vec::new(),
            text => processes(&text?),
        };
        // SAFETY: the caller's promise.
        let capacity = *unsafe { count.as_ref() }.ok_or(CODES.invalid_argument)? as usize;
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, count, processes.len() as c_uint)? };
        if capacity == 0 {
            return Ok(());
        }
        let given = &processes[..capacity.min(processes.len())];
        if into.is_null() {
            return Err(CODES.invalid_argument);
        }
        // SAFETY: by the caller's promise, no more than fit.
        unsafe { into.copy_from_nonoverlapping(given.as_ptr(), given.len()) };
        if given.len() < processes.len() { Err(abi::OUT_OF_RESOURCES) } else { Ok(()) }
    }

    amdsmi_get_gpu_metrics_info(device: usize, into: *mut c_void) {
        match DRIVER.of_device(device, "metrics") {
            Err(error) if error != CODES.not_supported => return Err(error),
            _ => {}
        }
        // SAFETY: the caller's promise.
        match major() {
            27 => unsafe { put(&CODES, into.cast(), metrics::<u64, 530>(device, u64::MAX, u64::from)) },
            _ => unsafe { put(&CODES, into.cast(), metrics::<u32, 508>(device, u32::MAX, |number| number)) },
        }
    }

    amdsmi_init_gpu_event_notification(device: usize) {
        done(DRIVER.register(device, *EVENTS.get_or_init(|| DRIVER.new_set())))
    }

    amdsmi_set_gpu_event_notification_mask(_device: usize, _mask: u64) {
        Ok(())
    }

    amdsmi_get_gpu_event_notification(timeout_ms: c_int, count: *mut c_uint, into: *mut Notification) {
        let set = *EVENTS.get().ok_or(CODES.timeout)?;
        let (device, event) = DRIVER.wait(set, Duration::from_millis(timeout_ms.max(0) as u64))?;
        let mut message = [0; 256];
        message.iter_mut().zip(b"event of the stub").for_each(|(slot, byte)| *slot = *byte as c_char);
        let notification = Notification { processor_handle: device as *mut c_void, event: event as u32, message };
        // SAFETY: the caller's promise.
        unsafe { put(&CODES, into, notification).and(put(&CODES, count, 1)) }
    }

    amdsmi_stop_gpu_event_notification(_device: usize) {
        Ok(())
    }
}

/// Parses pids and their bytes, such as `100:4096 200:8192`.
fn processes(text: &str) -> Vec<ProcInfo> {
    let one = |word: &str| {
        let (pid, bytes) = word.split_once(':')?;
        let (pid, vram_mem) = (pid.parse().ok()?, bytes.parse().ok()?);
        let memory_usage = MemoryUsage { vram_mem, ..zeroed() };
        Some(ProcInfo { pid, mem: vram_mem, memory_usage, ..zeroed() })
    };
    text.split_whitespace().filter_map(one).collect()
}

/// Returns the metrics; fields that the script lacks are the largest number of their type.
fn metrics<Count: Copy, const OTHERS: usize>(
    device: usize,
    none: Count,
    count: fn(u32) -> Count,
) -> GpuMetrics<Count, OTHERS> {
    let wide = |field: &str| DRIVER.number(device, field).unwrap_or(u64::MAX);
    let small = |field: &str| DRIVER.number(device, field).map_or(u16::MAX, |number| number as u16);
    let middle = |field: &str| DRIVER.number(device, field).map_or(none, |number| count(number as u32));
    // The script describes two links.
    let links = |field: &str| {
        [wide(field), wide(field), u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX]
    };
    GpuMetrics {
        temperature_edge: small("temperature.edge"),
        temperature_hotspot: small("temperature.hotspot"),
        temperature_mem: small("temperature.memory"),
        average_gfx_activity: small("utilization"),
        average_socket_power: small("power.average"),
        system_clock_counter: wide("clock_ns"),
        current_gfxclk: small("clock.graphics"),
        current_socclk: small("clock.soc"),
        current_uclk: small("clock.memory"),
        current_vclk0: small("clock.video"),
        indep_throttle_status: wide("throttle"),
        current_socket_power: small("power"),
        pcie_l0_to_recov_count_acc: wide("pcie.recovery"),
        pcie_replay_count_acc: wide("pcie.replay"),
        xgmi_read_data_acc: links("xgmi.received"),
        xgmi_write_data_acc: links("xgmi.transmitted"),
        current_gfxclks: [
            small("clock.graphics.first"),
            u16::MAX,
            u16::MAX,
            u16::MAX,
            u16::MAX,
            u16::MAX,
            u16::MAX,
            u16::MAX,
        ],
        pcie_nak_sent_count_acc: middle("pcie.nak_sent"),
        pcie_nak_rcvd_count_acc: middle("pcie.nak_received"),
        accumulation_counter: wide("accumulation"),
        prochot_residency_acc: wide("held.prochot"),
        ppt_residency_acc: wide("held.ppt"),
        socket_thm_residency_acc: wide("held.socket"),
        vr_thm_residency_acc: wide("held.vr"),
        hbm_thm_residency_acc: wide("held.hbm"),
        ..zeroed()
    }
}
