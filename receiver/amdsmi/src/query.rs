//! The source of each query, a row each; most are fields of the metrics that one call returns.

use hardware::{DriverQuery, Fault, Identity, Process, Reading, duration_query};

use crate::layout::{
    ACTIVITY, BDF, Buffer, CLOCK_GRAPHICS, CLOCK_MEMORY, CLOCK_SOC, CLOCK_VIDEO, CLOCKS_GRAPHICS, CLOCKS_SOC,
    CLOCKS_VIDEO, CORRECTABLE, DEFERRED, DRIVER_VERSION, MARKET_NAME, PCIE_NAK_RECEIVED, PCIE_NAK_SENT,
    PCIE_RECOVERY, PCIE_REPLAY, POWER, POWER_AVERAGE, PRODUCT_SERIAL, StructField, TEMPERATURE_EDGE,
    TEMPERATURE_HOTSPOT, TEMPERATURE_MEMORY, UNCORRECTABLE, VBIOS_VERSION, XGMI_READ, XGMI_WRITTEN,
};
use crate::library::{Handle, Smi};
use crate::throttle::{Residency, bits};

/// Maximum speed of a fan, `AMDSMI_MAX_FAN_SPEED`.
const FAN_SPEED_MAX: u64 = 255;
/// Bytes per unit of the link counters: the kernel counts kilobytes.
const KILOBYTE: u64 = 1024;
/// Memory type of device memory, `AMDSMI_MEM_TYPE_VRAM`.
const VRAM: u32 = 0;

/// The fields of the metrics that hold the value of a query.
enum Source {
    /// A field, or else the first valid element of a list of 16-bit numbers.
    Clock(StructField, StructField),
    /// The first valid field, times a factor.
    First(&'static [StructField], u64),
    /// The sum of the valid elements of a list of 64-bit numbers, times a factor.
    Sum(StructField, u64),
}

/// The source of each query. Newer chips report the clock of each part, of which the first is used, and their current
/// power; older chips report one clock and the average power.
const METRICS: [(DriverQuery, Source); 15] = {
    use DriverQuery::*;
    use Source::{Clock, First, Sum};
    [
        (ClockGraphics, Clock(CLOCK_GRAPHICS, CLOCKS_GRAPHICS)),
        (ClockMemory, First(&[CLOCK_MEMORY], 1)),
        (ClockSoc, Clock(CLOCK_SOC, CLOCKS_SOC)),
        (ClockVideo, Clock(CLOCK_VIDEO, CLOCKS_VIDEO)),
        (PcieNakReceived, First(&[PCIE_NAK_RECEIVED], 1)),
        (PcieNakSent, First(&[PCIE_NAK_SENT], 1)),
        (PcieRecovery, First(&[PCIE_RECOVERY], 1)),
        (PcieReplay, First(&[PCIE_REPLAY], 1)),
        (Power, First(&[POWER, POWER_AVERAGE], 1000)),
        (TemperatureEdge, First(&[TEMPERATURE_EDGE], 1)),
        (TemperatureHotspot, First(&[TEMPERATURE_HOTSPOT], 1)),
        (TemperatureMemory, First(&[TEMPERATURE_MEMORY], 1)),
        (Utilization, First(&[ACTIVITY], 1)),
        (XgmiReceived, Sum(XGMI_READ, KILOBYTE)),
        (XgmiTransmitted, Sum(XGMI_WRITTEN, KILOBYTE)),
    ]
};

/// Reads the identity of a device.
pub(crate) fn identity(smi: &Smi, device: Handle) -> Identity {
    Identity {
        model: text(smi, b"amdsmi_get_gpu_asic_info\0", device, MARKET_NAME),
        serial: text(smi, b"amdsmi_get_gpu_board_info\0", device, PRODUCT_SERIAL),
        firmware: text(smi, b"amdsmi_get_gpu_vbios_info\0", device, VBIOS_VERSION),
        driver: text(smi, b"amdsmi_get_gpu_driver_info\0", device, DRIVER_VERSION),
        pci: pci(smi, device),
        ..Identity::default()
    }
}

fn text(smi: &Smi, function: &'static [u8], device: Handle, field: StructField) -> String {
    let mut buffer = smi.buffer();
    match smi.fill(function, device, &mut buffer) {
        Ok(()) => buffer.text(field),
        Err(_) => String::new(),
    }
}

/// Returns the PCI address of a device in the kernel's format.
pub(crate) fn pci(smi: &Smi, device: Handle) -> String {
    let mut buffer = smi.buffer();
    let bdf = smi.fill(b"amdsmi_get_gpu_device_bdf\0", device, &mut buffer);
    let bdf = bdf.ok().and_then(|()| buffer.number(BDF));
    bdf.map_or_else(String::new, |bdf| {
        let (domain, bus, device, function) = (bdf >> 16, bdf >> 8 & 0xff, bdf >> 3 & 0x1f, bdf & 7);
        format!("{domain:04x}:{bus:02x}:{device:02x}.{function}")
    })
}

/// Runs every query on a device.
pub(crate) fn read(smi: &Smi, device: Handle, identity: Identity, residency: &mut Residency) -> Reading {
    let mut reading = read_clocks(smi, device, identity, residency);
    let kinds: [(DriverQuery, &[u8]); 2] = [
        (DriverQuery::MemoryTotal, b"amdsmi_get_gpu_memory_total\0"),
        (DriverQuery::MemoryUsed, b"amdsmi_get_gpu_memory_usage\0"),
    ];
    kinds.into_iter().for_each(|(query, name)| reading.set(query, smi.number(name, device, VRAM)));
    reading.set(DriverQuery::Energy, smi.energy_uj(device).map(|uj| (uj / 1e3) as u64));
    errors(smi, device, &mut reading);
    let fan = smi.number(b"amdsmi_get_gpu_fan_speed\0", device, 0);
    reading.fans = fan.map(|speed| speed * 100 / FAN_SPEED_MAX).into_iter().collect();
    let of = |(pid, bytes)| Process { bytes: Some(bytes), ..Process::described(pid) };
    reading.processes = smi.processes(device).unwrap_or_default().into_iter().map(of).collect();
    reading
}

/// Runs the queries that are fields of the metrics, in one call.
pub(crate) fn read_clocks(
    smi: &Smi,
    device: Handle,
    identity: Identity,
    residency: &mut Residency,
) -> Reading {
    let mut reading = Reading::blank(identity);
    let mut metrics = smi.buffer();
    let filled = smi.fill(b"amdsmi_get_gpu_metrics_info\0", device, &mut metrics);
    for (query, source) in &METRICS {
        reading.set(*query, filled.and_then(|()| value(&metrics, source).ok_or(Fault::Unsupported)));
    }
    throttle(filled, &metrics, residency, &mut reading);
    reading
}

fn value(metrics: &Buffer, source: &Source) -> Option<u64> {
    match source {
        Source::Clock(one, list) => {
            metrics.number(*one).or_else(|| metrics.numbers(*list, 2).flatten().next())
        }
        Source::First(fields, unit) => {
            let mut numbers = fields.iter().filter_map(|field| metrics.number(*field));
            numbers.next().map(|number| number * unit)
        }
        Source::Sum(field, unit) => {
            let numbers = metrics.numbers(*field, 8).flatten();
            numbers.map(|number| number.saturating_mul(*unit)).reduce(u64::saturating_add)
        }
    }
}

/// Reads the throttle state: from cycle counters with their times, or from status bits without times.
fn throttle(filled: Result<(), Fault>, metrics: &Buffer, residency: &mut Residency, reading: &mut Reading) {
    let is_counted = filled.is_ok() && residency.take(metrics);
    let reasons = if is_counted { Some(residency.reasons()) } else { bits(metrics) };
    let reasons = filled.and_then(|()| reasons.ok_or(Fault::Unsupported));
    reading.set(DriverQuery::Throttle, reasons.map(|reasons| reasons.bits()));
    for (reason, ns) in residency.times_ns() {
        if let Some(query) = duration_query(reason) {
            let ns = if is_counted { Ok(ns) } else { Err(Fault::Unsupported) };
            reading.set(query, filled.and(ns));
        }
    }
}

fn errors(smi: &Smi, device: Handle, reading: &mut Reading) {
    let mut counts = smi.buffer();
    let filled = smi.fill(b"amdsmi_get_gpu_total_ecc_count\0", device, &mut counts);
    for (query, field) in [
        (DriverQuery::EccCorrected, CORRECTABLE),
        (DriverQuery::EccDeferred, DEFERRED),
        (DriverQuery::EccUncorrected, UNCORRECTABLE),
    ] {
        reading.set(query, filled.and_then(|()| counts.number(field).ok_or(Fault::Unsupported)));
    }
}
